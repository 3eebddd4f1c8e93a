"""Settings of the round-trip extension at their bounds, the choice between its offers, and that between Sends and RDMA
from transmissions, costs and distance, as docs/round-trips.md has it."""

from __future__ import annotations

import pytest

from rpcrdma.limits import RTR_TRANSMISSIONS_MAX
from rpcrdma.rtr.config import EXTENSION_CHOICES, Costs, Preference, RoundTripConfig, extension_choice, prefers_segments
from rpcrdma.rtr.extension import NAME, RoundTrip, all_extensions
from rpcrdma.transport import TransportConfig
from support.cases import each_case


@each_case(
    "settings",
    [
        {"segment_octets": 0},
        {"segment_octets": 1},
        {"segment_octets": 8192},
        {"requests_max": 1},
        {"requests_max": RTR_TRANSMISSIONS_MAX},
        {"responses_max": 1},
        {"responses_max": RTR_TRANSMISSIONS_MAX},
        {"promises_max": 0},
        {"promises_max": 4096},
    ],
)
def test_a_setting_at_its_bound_is_taken(settings: dict[str, int]) -> None:
    config = RoundTripConfig(**settings)  # type: ignore[arg-type]
    assert {name: getattr(config, name) for name in settings} == settings


@each_case(
    ("settings", "name"),
    [
        ({"segment_octets": 3}, "segment_octets"),
        ({"segment_octets": 4097}, "segment_octets"),
        ({"requests_max": 0}, "requests_max"),
        ({"requests_max": RTR_TRANSMISSIONS_MAX + 1}, "requests_max"),
        ({"responses_max": 0}, "responses_max"),
        ({"responses_max": RTR_TRANSMISSIONS_MAX + 1}, "responses_max"),
        ({"promises_max": -1}, "promises_max"),
        ({"promises_max": 4097}, "promises_max"),
    ],
)
def test_a_setting_beyond_its_bound_is_named(settings: dict[str, int], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}"):
        RoundTripConfig(**settings)  # type: ignore[arg-type]


@each_case(
    ("octets", "segment_octets", "segments"),
    [
        (5119, 4096, []),
        (5120, 4096, [(1, 1024, False), (1, 4096, True)]),
        (9215, 4096, [(1, 5119, False), (1, 4096, True)]),
        (9216, 4096, [(1, 1024, False), (2, 4096, True)]),
        (9216, 0, []),
        (1024, 4096, []),
        (1025, 1, [(1, 1024, False), (1, 1, True)]),
    ],
)
def test_receive_buffers_have_a_head_and_then_segments(
    octets: int, segment_octets: int, segments: list[tuple[int, int, bool]]
) -> None:
    structure = RoundTripConfig(segment_octets=segment_octets).structure(octets)
    assert structure.octets == octets
    found = [(count, kind.length, kind.placeable) for count, kind in structure.groups]
    assert [each for each in found if segments] == segments
    assert any(placeable for _, _, placeable in found) == bool(segments)


def test_segments_that_are_too_many_for_a_receive_buffer_are_named() -> None:
    config = RoundTripConfig(segment_octets=128)
    assert config.structure(1024 + 271 * 128).groups[1][0] == 271
    with pytest.raises(ValueError, match=r"^segment_octets 128: .* of 35840 octets .* at most 272 segments"):
        RoundTrip(config, receive_octets=1024 + 272 * 128)


def test_an_unknown_placement_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^placement 'RTR': choose one of auto, rtr, choice, by-size, explicit, rdma"):
        Preference("RTR")


@each_case("choice", ["", "on", "RTR"])
def test_another_word_is_no_choice(choice: str) -> None:
    with pytest.raises(ValueError, match="choose one of auto, rtr, off"):
        extension_choice(choice)
    with pytest.raises(ValueError, match="choose one of auto, rtr, off"):
        all_extensions(choice, TransportConfig(), [])


@each_case("choice", EXTENSION_CHOICES)
def test_the_extension_is_offered_once_unless_it_is_off_and_a_users_own_offer_stands_alone(choice: str) -> None:
    assert extension_choice(choice) == choice
    offered = all_extensions(choice, TransportConfig(), [])
    assert [each.name for each in offered] == ([] if choice == "off" else [NAME])
    own = RoundTrip(RoundTripConfig(preference=Preference.RDMA), receive_octets=4096).extension
    assert all_extensions(choice, TransportConfig(), [own]) == [own]


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
