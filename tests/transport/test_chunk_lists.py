"""The chunks of one header counted, over all small sets of chunks, and gather lists dealt out octet by octet."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.transport.chunks import (
    Segment,
    merge_small,
    segments_needed,
    segments_of,
    split_gather,
)
from rpcrdma.verbs.memory import Access, MemoryRegion
from support.cases import each_case


@pytest.mark.req("V1-14")
def test_segments_name_each_octet_of_a_region_once() -> None:
    for length, most in itertools.product(range(1, 14), range(1, 6)):
        found = segments_of(MemoryRegion(9, 1000, memoryview(bytearray(length)), Access.REMOTE_READ), most)
        named = [at for each in found for at in range(each.offset, each.offset + each.length)]
        assert named == [*range(1000, 1000 + length)]
        assert all(each.handle == 9 and 0 < each.length <= most for each in found)
        assert len(found) == segments_needed(length, most) == len(range(0, length, most))


def named(rooms: tuple[int, ...]) -> list[Segment]:
    return [Segment(10 + index, room, 100 * index) for index, room in enumerate(rooms)]


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
