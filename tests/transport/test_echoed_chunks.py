"""The memory that calls offer and replies return: each small case, every mismatch, and octets dealt out to segments."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.errors import DecodeError, RemoteProtocolError
from rpcrdma.transport.chunks import (
    ChunkLists,
    ReadChunk,
    Segment,
    WriteChunk,
    merge_small,
    segments_needed,
    segments_of,
    split_gather,
)
from rpcrdma.transport.exposure import Returned, check_echo, returned_length
from rpcrdma.transport.message import Inbound, Kind
from rpcrdma.verbs.protection_domain import Access, MemoryRegion
from support.cases import each_case

XID = 0x01020304


def chunk(*lengths: int, handle: int = 1, offset: int = 100) -> WriteChunk:
    return WriteChunk(tuple(Segment(handle + n, length, offset * (n + 1)) for n, length in enumerate(lengths)))


ARGUMENTS: list[list[tuple[int, ...]]] = [[], [(1, 2)], [(1,)], [(), (1,)], [(1,), (2, 3)]]
RESULTS: list[list[tuple[int, ...]]] = [[], [()], [(4,)], [(), (4, 5)], [(4,), (5, 6)]]
STREAMS: list[tuple[int, ...] | None] = [None, (), (7, 8), (7,)]


def of_handles(handles: tuple[int, ...]) -> tuple[Segment, ...]:
    return tuple(Segment(handle, handle * 10, handle * 100) for handle in handles)


def test_chunks_that_are_written_come_before_those_that_are_read() -> None:
    for writes, reads, reply in itertools.product(RESULTS, ARGUMENTS, STREAMS):
        lists = ChunkLists(
            tuple(ReadChunk(4 * index, of_handles(each)) for index, each in enumerate(reads)),
            tuple(WriteChunk(of_handles(each)) for each in writes),
            None if reply is None else WriteChunk(of_handles(reply)),
        )
        handles = [*writes, *([] if reply is None else [reply]), *reads]
        assert [tuple(segment.handle for segment in each.segments) for each in lists.chunks] == handles
        assert [each.length for each in lists.chunks] == [10 * sum(each) for each in handles]
        named = [handle for each in handles for handle in each]
        assert lists.first_handle == (named[0] if named else None)
        assert lists.count_segments() == len(named)
        assert [lists.names(handle) for handle in range(10)] == [handle in named for handle in range(10)]


@pytest.mark.req("V1-26", "V2-24", "V1-94")
@each_case("rooms", [(), (3,), (4, 3), (0, 2), (2, 0, 2), (1, 2, 1)])
def test_octets_fill_the_segments_in_order(rooms: tuple[int, ...]) -> None:
    fillings = {}
    for total in range(sum(rooms) + 1):
        left, filling = total, []
        for room in rooms:
            filling.append(min(room, left))
            left -= filling[-1]
        fillings[tuple(filling)] = total
    for lengths in itertools.product(range(6), repeat=len(rooms)):
        if lengths in fillings:
            assert returned_length(chunk(*rooms), chunk(*lengths), "chunk") == fillings[lengths]
        else:
            with pytest.raises(RemoteProtocolError, match=r"^chunk: "):
                returned_length(chunk(*rooms), chunk(*lengths), "chunk")


@pytest.mark.req("V1-26", "V2-24")
@each_case(("handle", "offset"), [(2, 100), (1, 101), (9, 9)])
def test_octets_are_where_they_were_offered_to_be_and_no_octets_may_be_anywhere(handle: int, offset: int) -> None:
    assert returned_length(chunk(4), chunk(0, handle=handle, offset=offset), "chunk") == 0
    for length in (1, 4):
        with pytest.raises(RemoteProtocolError, match=f"{length} octets returned at handle [^;]*$"):
            returned_length(chunk(4), chunk(length, handle=handle, offset=offset), "chunk")


def echoed(
    returned: ChunkLists, *, long: bool = False, data: bytes = b"header" + b"reply", may_be_inline: bool = False,
    reply_room: int = 16, offers_reply: bool = True,
) -> Returned:  # fmt: skip
    """Of a call that offers Write chunks of 4 and 8 octets, the first of them in memory, and a Reply chunk."""
    offered = ChunkLists((), (chunk(4), chunk(8, handle=5)), chunk(reply_room, handle=9) if offers_reply else None)
    targets = [memoryview(b"four"), memoryview(b"eightoct")]
    reply_view = memoryview((XID.to_bytes(4, "big") + bytes(12))[:reply_room]) if offers_reply else None
    message = Inbound(Kind.REPLY, XID, 1, 1, chunks=returned, data=data, start=6, long=long)
    return check_echo(message, offered, targets, reply_view, may_be_inline=may_be_inline)


WRITES = (chunk(3), chunk(8, handle=5))


@pytest.mark.req("V1-26", "V1-41", "V1-44", "V1-53", "V2-67", "V2-30")
@each_case(
    ("returned", "long", "fault"),
    [
        (ChunkLists((ReadChunk(0, ()),), WRITES), False, "a reply with a Read list"),
        (ChunkLists((), WRITES[:1]), False, "2 Write chunks were offered, 1 returned"),
        (ChunkLists((), (*WRITES, chunk(0))), False, "2 Write chunks were offered, 3 returned"),
        (ChunkLists((), (chunk(5), WRITES[1])), False, "Write chunk: 5 octets returned in a segment of 4"),
        (ChunkLists((), WRITES, chunk(17, handle=9)), True, "Reply chunk: 17 octets returned in a segment of 16"),
        (ChunkLists((), WRITES, chunk(1, handle=9)), False, "an inline reply with a filled Reply chunk"),
        (ChunkLists((), WRITES, chunk(7, handle=9)), True, "a long reply without a reply in it"),
        (ChunkLists((), WRITES, chunk(0, handle=9)), True, "a long reply without a reply in it"),
        (ChunkLists((), WRITES), True, "a long reply without a reply in it"),
    ],
)
def test_a_reply_whose_chunks_are_not_as_they_must_be_is_refused(returned: ChunkLists, long: bool, fault: str) -> None:
    with pytest.raises(RemoteProtocolError, match=fault):
        echoed(returned, long=long)


@pytest.mark.req("V1-38")
@each_case("xid", [0, XID + 1, 0x04030201])
def test_a_long_reply_has_the_xid_of_its_header(xid: int) -> None:
    message = Inbound(Kind.REPLY, XID, 1, 1, chunks=ChunkLists((), (), chunk(8)), long=True)
    for inside, fits in ((XID, True), (xid, False)):
        view = memoryview(inside.to_bytes(4, "big") + bytes(4))
        if fits:
            found = check_echo(message, ChunkLists((), (), chunk(8)), (), view, may_be_inline=False)
            assert (found.data, found.placed, found.octets) == (view, None, 8)
        else:
            with pytest.raises(RemoteProtocolError, match="has another XID"):
                check_echo(message, ChunkLists((), (), chunk(8)), (), view, may_be_inline=False)


@pytest.mark.req("V1-29", "V1-64", "V2-67")
@each_case(("length", "inline"), [(1, False), (4, False), (5, True), (9, True)])
def test_a_result_comes_inline_only_if_its_chunk_is_too_small(length: int, inline: bool) -> None:
    unused = ChunkLists((), (chunk(0), chunk(8, handle=5)))
    for may_be_inline in (False, True):
        placed = echoed(unused, may_be_inline=may_be_inline).placed
        assert placed is not None
        if inline and may_be_inline:
            assert placed.take(0, length, "first") is None
            # The next result has the next chunk.
            assert placed.take(4, 8, "second") == b"eightoct"
        else:
            with pytest.raises(DecodeError):
                placed.take(0, length, "first")


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
