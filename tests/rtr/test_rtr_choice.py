"""The choice between Sends and RDMA, from transmissions, costs and distance, as docs/round-trips.md has it."""

from __future__ import annotations

from rpcrdma.rtr.config import Costs, prefers_segments
from support.cases import each_case


def costs() -> Costs:
    """Whole numbers, so that sums are exact."""
    return Costs(transmission_s=4.0, registration_s=2.0, read_s=8.0)


@each_case(
    ("frames", "round_trip_s", "by_send"),
    [
        (1, 0.0, True),
        (2, 0.0, True),
        (3, 0.0, False),
        (3, 1.0, False),
        (3, 2.0, True),
        (3, 3.0, True),
        (8, 21.0, False),
        (8, 22.0, True),
    ],
)
@each_case("given", [False, True])
def test_arguments_go_by_send_if_registration_read_and_distance_take_no_less(
    frames: int, round_trip_s: float, by_send: bool, given: bool
) -> None:
    assert prefers_segments(frames, costs(), round_trip_s, arguments=True, given=given) is by_send


@each_case(("registration_s", "most"), [(2.0, 0), (3.0, 0), (4.0, 1), (7.0, 1), (8.0, 2)])
def test_results_go_by_send_if_registration_takes_no_less_however_far_the_peer_is(
    registration_s: float, most: int
) -> None:
    found = Costs(transmission_s=4.0, registration_s=registration_s, read_s=8.0)
    taken = [frames for frames in range(8) if prefers_segments(frames, found, 1000.0, arguments=False, given=False)]
    assert taken == list(range(most + 1))


def test_results_for_which_memory_is_given_go_by_rdma() -> None:
    assert not prefers_segments(0, costs(), 1000.0, arguments=False, given=True)
