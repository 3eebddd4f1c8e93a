"""Chunk arithmetic."""

from __future__ import annotations

import pytest

from rpcrdma.transport.chunks import (
    ReadChunk,
    Segment,
    WriteChunk,
    fill,
    merge_small,
    segments_needed,
    segments_of,
    split_gather,
)
from rpcrdma.verbs.memory import Access, MemoryRegion
from support.cases import each_case


def region(length: int) -> MemoryRegion:
    return MemoryRegion(9, 1000, memoryview(bytearray(length)), Access.REMOTE_READ)


@pytest.mark.req("V1-14")
@each_case(
    ("length", "most", "lengths"), [(1, 1, [1]), (5, 5, [5]), (5, 4, [4, 1]), (8, 4, [4, 4]), (10, 4, [4, 4, 2])]
)
def test_region_is_named_by_consecutive_segments(length: int, most: int, lengths: list[int]) -> None:
    segments = segments_of(region(length), most)
    assert [segment.length for segment in segments] == lengths
    assert segments_needed(length, most) == len(lengths)
    assert {segment.handle for segment in segments} == {9}
    assert [segment.offset for segment in segments] == [1000 + sum(lengths[:n]) for n in range(len(lengths))]
    assert ReadChunk(0, segments).length == WriteChunk(segments).length == length


@pytest.mark.req("V1-26")
@each_case(
    ("written", "lengths"),
    [(0, [0, 0, 0, 0]), (3, [3, 0, 0, 0]), (4, [4, 0, 0, 0]), (5, [4, 0, 1, 0]), (12, [4, 0, 6, 2])],
)
def test_echo_fills_segments_in_order(written: int, lengths: list[int]) -> None:
    chunk = WriteChunk((Segment(1, 4, 10), Segment(2, 0, 20), Segment(3, 6, 30), Segment(4, 6, 40)))
    echo = fill(chunk, written)
    assert [segment.length for segment in echo.segments] == lengths
    assert [segment[::2] for segment in echo.segments] == [(1, 10), (2, 20), (3, 30), (4, 40)]


def test_gather_list_is_dealt_out_to_segments() -> None:
    segments = [Segment(1, 4, 0), Segment(2, 0, 0), Segment(3, 3, 0), Segment(4, 100, 0), Segment(5, 9, 0)]
    dealt = list(split_gather([b"ab", b"", bytearray(b"cdefgh"), b"ijk"], segments))
    assert [(segment.handle, b"".join(part)) for segment, part in dealt] == [(1, b"abcd"), (3, b"efg"), (4, b"hijk")]
    assert list(split_gather([], segments)) == []
    assert list(split_gather([b"x"], [])) == []


def test_dealing_out_copies_nothing() -> None:
    data = bytearray(b"abcdef")
    (_, (first,)), (_, (second,)) = split_gather([data], [Segment(1, 4, 0), Segment(2, 4, 0)])
    data[:] = b"ABCDEF"
    assert (bytes(first), bytes(second)) == (b"ABCD", b"EF")


@each_case(
    ("lengths", "merged"),
    [([], []), ([1], [1]), ([1, 2, 3], [6]), ([9, 1], [9, 1]), ([1, 2, 9, 9, 3, 4], [3, 9, 9, 7]), ([4, 5], [4, 5])],
)
def test_small_neighbours_are_merged(lengths: list[int], merged: list[int]) -> None:
    gather = [bytes([n]) * length for n, length in enumerate(lengths)]
    found = merge_small(gather, 4)
    assert [len(buffer) for buffer in found] == merged
    assert b"".join(found) == b"".join(gather)
    assert all(buffer in gather for buffer in found if len(buffer) > 7)
