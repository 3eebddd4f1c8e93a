"""TCP segments as captures have them: late, repeated, overlapping, lost, with wrapping numbers."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.tcp_stream import Gap, Piece, TcpHalf
from support.cases import each_case
from support.functions_entered import instructions_run

SPACE = 1 << 32
OCTETS = bytes(range(1, 201))


def octets(found: Iterable[Piece | Gap]) -> list[bytes | int]:
    """The octets of each piece, and the length of each gap."""
    return [piece.data if isinstance(piece, Piece) else piece.octets for piece in found]


def started(sequence: int = 99) -> TcpHalf:
    half = TcpHalf()
    half.synchronize(sequence)
    return half


@given(
    st.integers(0, SPACE - 1) | st.integers(SPACE - 250, SPACE - 1),
    st.lists(st.tuples(st.integers(0, 199), st.integers(1, 60)), max_size=30),
    st.randoms(use_true_random=False),
)
def test_segments_in_any_order_give_each_octet_once(start, extra, random) -> None:
    half = started(start)
    cuts = [(at, 13) for at in range(0, 200, 13)]
    segments = [*cuts, *extra]
    random.shuffle(segments)
    got = b""
    for at, size in segments:
        for piece in half.add((start + 1 + at) % SPACE, OCTETS[at : at + size]):
            assert isinstance(piece, Piece)
            got += piece.data
    assert got == OCTETS
    assert octets(half.finish()) == []


def test_what_never_comes_is_a_gap_at_the_end() -> None:
    half = started()
    assert octets(half.add(100, b"abc")) == [b"abc"]
    assert octets(half.add(110, b"xyz")) == []
    assert octets(half.add(120, b"!")) == []
    assert octets(half.finish()) == [7, b"xyz", 7, b"!"]


def test_of_overlapping_segments_that_end_alike_the_first_in_the_capture_has_the_rest() -> None:
    half = started()
    for number, (start, data) in enumerate([(110, b"in order"), (116, b"er, first"), (114, b"rder, later")]):
        assert not list(half.add(start, data, 0, float(number)))
    assert list(half.finish()) == [Gap(10, 0.0), Piece(b"in order", 0.0), Piece(b", first", 1.0)]


def test_of_what_came_after_a_gap_the_nearest_is_first_also_where_numbers_wrap() -> None:
    half = started(SPACE - 20)
    assert octets(half.add(5, b"after")) == []
    assert octets(half.add(SPACE - 10, b"before")) == []
    assert octets(half.finish()) == [9, b"before", 9, b"after"]


@each_case(
    ("size", "segments"),
    [
        (1 << 16, lab_limits.CAPTURE_OUT_OF_ORDER_OCTETS_MAX // (1 << 16)),
        (1, lab_limits.CAPTURE_OUT_OF_ORDER_SEGMENTS_MAX),
    ],
)
def test_only_so_much_waits_for_what_is_missing(size: int, segments: int) -> None:
    half = started()
    for number in range(segments):
        assert octets(half.add(200 + number * size, bytes(size))) == []
    found = list(half.add(200 + segments * size, bytes(size)))
    assert found[0] == Gap(100)
    assert sum(len(piece.data) for piece in found[1:] if isinstance(piece, Piece)) == (segments + 1) * size


def work_beside(waiting: int) -> int:
    """The instructions for a segment in order and an acknowledgement, with `waiting` segments behind a gap."""
    half = started()
    for number in range(waiting):
        assert octets(half.add(1000 + number, b"x")) == []
    return instructions_run(lambda: [*half.add(100, b"abc"), *half.acknowledge(200)])


def test_waiting_segments_add_no_work_to_those_in_order() -> None:
    assert work_beside(400) < work_beside(20) * 1.2


def test_a_capture_that_begins_later_begins_with_its_first_segment() -> None:
    half = TcpHalf()
    assert octets(half.add(7, b"ab")) == [b"ab"]
    assert octets(half.add(5, b"xxab")) == []
    assert octets(half.add(9, b"")) == []


def test_a_repeated_syn_is_no_other_connection() -> None:
    half = started(5)
    half.synchronize(5)
    assert not half.other_connection(5)
    assert half.other_connection(6)
    assert octets(half.add(6, b"a")) == [b"a"]


def test_octets_that_were_not_captured_are_a_gap_at_once() -> None:
    half = started()
    assert octets(half.add(100, b"abc", 5)) == [b"abc", 5]
    assert octets(half.add(112, b"late", 2)) == []
    assert octets(half.add(108, b"next")) == [b"next", b"late", 2]
    assert octets(half.add(118, b"", 4)) == [4]
    assert octets(half.add(122, b"end")) == [b"end"]
    assert octets(half.add(122, b"end", 5)) == [5], "only what was not captured is new"
    assert octets(half.add(122, b"end", 5)) == []
    assert octets(half.add(132, b"x", 6)) == []
    assert octets(half.add(130, b"fives")) == [b"fives", 4]
    assert octets(half.finish()) == []


def test_octets_behind_a_gap_keep_the_times_of_their_packets() -> None:
    half = started()
    assert list(half.add(110, b"xyz", time_s=1.0)) == []
    assert list(half.add(113, b"!", 2, time_s=2.0)) == []
    assert list(half.finish()) == [Gap(10, 1.0), Piece(b"xyz", 1.0), Piece(b"!", 2.0), Gap(2, 2.0)]


def test_octets_that_waited_for_a_late_segment_have_its_time() -> None:
    half = started()
    assert list(half.add(103, b"def", time_s=1.0)) == []
    assert list(half.add(100, b"abc", time_s=2.0)) == [Piece(b"abc", 2.0), Piece(b"def", 2.0)]


def test_octets_that_the_receiver_has_are_not_waited_for() -> None:
    half = started(SPACE - 12)
    assert octets(half.add(SPACE - 1, b"xyz")) == []
    assert octets(half.add(5, b"!")) == []
    assert octets(half.acknowledge(SPACE - 11)) == [], "the number of the first octet that is missing"
    assert octets(half.acknowledge(SPACE - 2)) == [], "one octet is not acknowledged"
    assert octets(half.acknowledge(2)) == [10, b"xyz"], "the second gap is not acknowledged"
    assert octets(half.acknowledge(SPACE - 11)) == [], "an acknowledgement that is late"
    assert octets(half.acknowledge(9)) == [3, b"!"]
    assert octets(half.add(8, b"more")) == [2, b"more"], "acknowledged before it came"
