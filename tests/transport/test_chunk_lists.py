"""The chunks of one header counted, over all small sets of chunks, and gather lists dealt out octet by octet."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.transport.chunks import (
    NO_CHUNKS,
    ChunkLists,
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


def segments(*handles: int) -> tuple[Segment, ...]:
    return tuple(Segment(handle, handle * 10, handle * 100) for handle in handles)


def test_no_chunks_are_empty_lists() -> None:
    assert NO_CHUNKS == ((), (), None)
    assert (NO_CHUNKS.chunks, NO_CHUNKS.first_handle, NO_CHUNKS.count_segments()) == ((), None, 0)
    assert not NO_CHUNKS.names(0)


READS = [[], [(1,)], [(1, 2)], [(), (1,)], [(1,), (2, 3)]]
WRITES = [[], [()], [(4,)], [(), (4, 5)], [(4,), (5, 6)]]
REPLIES = [None, (), (7,), (7, 8)]


def test_chunks_that_are_written_come_before_those_that_are_read() -> None:
    for reads, writes, reply in itertools.product(READS, WRITES, REPLIES):
        lists = ChunkLists(
            tuple(ReadChunk(4 * index, segments(*each)) for index, each in enumerate(reads)),
            tuple(WriteChunk(segments(*each)) for each in writes),
            None if reply is None else WriteChunk(segments(*reply)),
        )
        handles = [*writes, *([] if reply is None else [reply]), *reads]
        assert [tuple(segment.handle for segment in chunk.segments) for chunk in lists.chunks] == handles
        assert [chunk.length for chunk in lists.chunks] == [10 * sum(each) for each in handles]
        named = [handle for each in handles for handle in each]
        assert lists.first_handle == (named[0] if named else None)
        assert lists.count_segments() == len(named)
        assert [lists.names(handle) for handle in range(10)] == [handle in named for handle in range(10)]


@pytest.mark.req("V1-14")
def test_segments_name_each_octet_of_a_region_once() -> None:
    for length, most in itertools.product(range(1, 14), range(1, 6)):
        found = segments_of(MemoryRegion(9, 1000, memoryview(bytearray(length)), Access.REMOTE_READ), most)
        named = [at for each in found for at in range(each.offset, each.offset + each.length)]
        assert named == [*range(1000, 1000 + length)]
        assert all(each.handle == 9 and 0 < each.length <= most for each in found)
        assert len(found) == segments_needed(length, most) == len(range(0, length, most))


ROOMS = [rooms for count in range(4) for rooms in itertools.product((0, 1, 3), repeat=count)]


def named(rooms: tuple[int, ...]) -> list[Segment]:
    return [Segment(10 + index, room, 100 * index) for index, room in enumerate(rooms)]


@pytest.mark.req("V1-26")
def test_an_echo_counts_the_octets_of_each_segment() -> None:
    for rooms in ROOMS:
        offered = WriteChunk(tuple(named(rooms)))
        places = [segment.handle for segment in offered.segments for _ in range(segment.length)]
        for written in range(len(places) + 1):
            echo = fill(offered, written)
            assert [(each.handle, each.offset) for each in echo.segments] == [
                (each.handle, each.offset) for each in offered.segments
            ]
            assert [handle for each in echo.segments for handle in [each.handle] * each.length] == places[:written]


@each_case("sizes", [(), (0,), (1,), (4,), (2, 0, 3), (1, 1, 1, 1), (0, 5, 0), (9, 1)])
def test_each_octet_of_a_gather_list_has_its_segment(sizes: tuple[int, ...]) -> None:
    octets = iter(range(256))
    gather = [bytes(next(octets) for _ in range(size)) for size in sizes]
    for rooms in ROOMS:
        places = [segment.handle for segment in named(rooms) for _ in range(segment.length)]
        dealt = [*itertools.islice(split_gather(gather, named(rooms)), 20)]
        assert [(segment.handle, octet) for segment, part in dealt for octet in b"".join(part)] == [
            *zip(places, b"".join(gather), strict=False)
        ], rooms
        assert all(part and all(part) for _, part in dealt)
        assert [segment for segment, _ in dealt] == [each for each in named(rooms) if each in {s for s, _ in dealt}]


def test_dealing_out_copies_nothing() -> None:
    data = bytearray(b"abcdef")
    (_, (first,)), (_, (second,)) = split_gather([data], [Segment(1, 4, 0), Segment(2, 4, 0)])
    data[:] = b"ABCDEF"
    assert (bytes(first), bytes(second)) == (b"ABCD", b"EF")


@each_case("count", range(5))
def test_runs_of_small_buffers_become_one_and_large_ones_stay(count: int) -> None:
    for sizes in itertools.product((0, 3, 4, 5), repeat=count):
        gather = [bytes([65 + index]) * size for index, size in enumerate(sizes)]
        runs = [(large, [*run]) for large, run in itertools.groupby(gather, key=lambda buffer: len(buffer) > 4)]
        expected = [buffer for large, run in runs for buffer in (run if large else [b"".join(run)])]
        found = merge_small(gather, 4)
        assert found == expected
        # A buffer that stands alone is not copied.
        alone = {id(buffer) for large, run in runs for buffer in run if large or len(run) == 1}
        assert alone <= {id(buffer) for buffer in found}
