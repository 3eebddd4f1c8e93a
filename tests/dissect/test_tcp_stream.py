"""TCP segments as captures have them: late, repeated, overlapping, lost, with wrapping numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma import file_limits
from rpcrdma.dissect.tcp_stream import Gap, TcpHalf

SPACE = 1 << 32
OCTETS = bytes(range(1, 201))


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
            assert isinstance(piece, bytes)
            got += piece
    assert got == OCTETS
    assert list(half.finish()) == []


def test_what_never_comes_is_a_gap_at_the_end() -> None:
    half = started()
    assert list(half.add(100, b"abc")) == [b"abc"]
    assert list(half.add(110, b"xyz")) == []
    assert list(half.add(120, b"!")) == []
    assert list(half.finish()) == [Gap(7), b"xyz", Gap(7), b"!"]


def test_of_what_came_after_a_gap_the_nearest_is_first_also_where_numbers_wrap() -> None:
    half = started(SPACE - 20)
    assert list(half.add(5, b"after")) == []
    assert list(half.add(SPACE - 10, b"before")) == []
    assert list(half.finish()) == [Gap(9), b"before", Gap(9), b"after"]


@pytest.mark.parametrize(
    ("octets", "segments"),
    [
        (1 << 16, file_limits.CAPTURE_OUT_OF_ORDER_OCTETS_MAX // (1 << 16)),
        (1, file_limits.CAPTURE_OUT_OF_ORDER_SEGMENTS_MAX),
    ],
)
def test_only_so_much_waits_for_what_is_missing(octets: int, segments: int) -> None:
    half = started()
    for number in range(segments):
        assert list(half.add(200 + number * octets, bytes(octets))) == []
    found = list(half.add(200 + segments * octets, bytes(octets)))
    assert found[0] == Gap(100)
    assert sum(len(piece) for piece in found[1:] if isinstance(piece, bytes)) == (segments + 1) * octets


def test_a_capture_that_begins_later_begins_with_its_first_segment() -> None:
    half = TcpHalf()
    assert list(half.add(7, b"ab")) == [b"ab"]
    assert list(half.add(5, b"xxab")) == []
    assert list(half.add(9, b"")) == []


def test_a_repeated_syn_is_no_other_connection() -> None:
    half = started(5)
    half.synchronize(5)
    assert not half.other_connection(5)
    assert half.other_connection(6)
    assert list(half.add(6, b"a")) == [b"a"]


def test_octets_that_were_not_captured_are_a_gap_at_once() -> None:
    half = started()
    assert list(half.add(100, b"abc", 5)) == [b"abc", Gap(5)]
    assert list(half.add(112, b"late", 2)) == []
    assert list(half.add(108, b"next")) == [b"next", b"late", Gap(2)]
    assert list(half.add(118, b"", 4)) == [Gap(4)]
    assert list(half.add(122, b"end")) == [b"end"]
    assert list(half.finish()) == []
