"""Chunks of a call that overlap, are empty in parts, or end where the offsets end.

Overlap within the stream cannot be: such a call has no meaning and is refused. Overlap of memory is the requester's
own affair (RFC 8166 says nothing against it): its memory is read, or written, as its chunks say.
"""

from __future__ import annotations

import struct

import pytest

from client_calls import Scenes
from support.cases import each_case
from support.raw_calls import (
    BOTH_PRIVATE,
    READ_ARGS,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    SEND_INVALIDATE,
    WRITE,
    WRITE_POSITION,
    assert_works,
    chunk,
    header,
    is_refusal,
    read_call,
    read_segment,
    rpc,
    segment,
    send,
    write_args,
)
from support.raw_iwarp import tagged
from support.raw_replies import HeardCall
from support.raw_socket import HeardSegment, RawSocketPeer

pytestmark = pytest.mark.thorough

CONTENT = bytes(range(256)) * 40
END = 1 << 64


class Memory:
    """The memory of a scripted client at each handle: source of RDMA Read Responses, and sink of RDMA Writes."""

    def __init__(self, peer: RawSocketPeer) -> None:
        self.peer = peer
        self.of: dict[int, dict[int, int]] = {}
        """By handle: octets by offset."""
        self.reads: list[tuple[int, int, int]] = []
        self.writes: list[tuple[int, int, int]] = []

    def fill(self, handle: int, offset: int, octets: bytes) -> None:
        self.of.setdefault(handle, {}).update({offset + index: octet for index, octet in enumerate(octets)})

    def octets(self, handle: int, offset: int, length: int) -> bytes:
        return bytes(self.of[handle][offset + index] for index in range(length))

    async def reply(self) -> HeardSegment:
        """Acts on the server's RDMA Reads and Writes until it sends something."""
        while True:
            heard = await self.peer.segment()
            if heard.opcode == READ_REQUEST:
                sink, at, length, handle, offset = struct.unpack(">IQIIQ", heard.payload)
                self.reads.append((handle, length, offset))
                await self.peer.send_segments(tagged(READ_RESPONSE, sink, at, self.octets(handle, offset, length)))
            elif heard.opcode == WRITE:
                self.writes.append((heard.handle, len(heard.payload), heard.offset))
                self.fill(heard.handle, heard.offset, heard.payload)
            else:
                return heard


def lists(reply: HeardSegment) -> HeardCall:
    """The chunk lists of a reply, which are laid out as a call's."""
    return HeardCall(reply._replace(opcode=SEND))


def writing(length: int, *segments: bytes, writes: bytes = b"", reply: bytes = b"") -> bytes:
    """A WRITE whose data, of `length` octets, are in the entries given."""
    return header(b"".join(segments), writes, reply) + rpc(7, write_args(length))


def at(start: int, handle: int, length: int, offset: int = 0) -> bytes:
    """An entry of the Read list that stands `start` octets behind where the data begin."""
    return read_segment(WRITE_POSITION + start, handle, length, offset)


# In the stream


REFUSED = {
    "inside another": writing(100, at(0, 7, 100), at(40, 8, 20)),
    "behind the end, but within the padding": writing(99, at(0, 7, 99), at(96, 8, 4)),
    "across the end of another": writing(100, at(0, 7, 60), at(56, 8, 44)),
    "the later first in the list": writing(100, at(56, 8, 44), at(0, 7, 60)),
    "the same memory at two places": writing(100, at(0, 7, 100), at(4, 7, 100)),
    "in front of the data": header(read_segment(8, 7, 100) + at(0, 8, 100)) + rpc(7, write_args(100)),
    "Position Zero with an inline call": header(read_segment(0, 7, 100)) + rpc(7, write_args(100)),
    "past the end of the Position-Zero chunk": header(read_segment(0, 7, 8) + read_segment(12, 8, 4), kind=1),
    "inside another, in a Long Call": header(
        read_segment(0, 7, 100) + read_segment(8, 8, 100) + read_segment(12, 9, 4), kind=1
    ),
    "of no length past the end of the stream": writing(100, at(0, 7, 100), at(4096, 8, 0)),
    "wraps": writing(100, at(0, 7, 100, END - 99)),
    "wraps behind an empty one": writing(100, at(0, 7, 0), at(0, 7, 100, END - 1)),
    "Write chunk wraps behind an empty segment": read_call(segment(7, 0), segment(7, 5000, END - 4999)),
    "Write chunk of empty segments only": read_call(segment(7, 0), segment(8, 0, END - 1)),
    "Write chunk with one octet too few in many segments": read_call(*(segment(7, 1, 9) for _ in range(100))),
}


async def test_chunks_that_overlap_in_the_stream_or_lead_past_memory_are_refused(scene: Scenes) -> None:
    async with scene() as it:
        peer = await it.connected()
        for number, (what, call) in enumerate(REFUSED.items()):
            await peer.send_segments(send(call, 2 * number + 1))
            assert is_refusal(await peer.segment()), what
            await assert_works(peer, 2 * number + 2)
        assert it.files.written == []


# In memory


READS = {
    "one segment": [at(0, 7, 100)],
    "the same segment twice": [at(0, 7, 50), at(0, 7, 50)],
    "overlapping segments": [at(0, 7, 60, 0), at(0, 7, 40, 30)],
    "segments in no order": [at(0, 7, 60, 40), at(0, 7, 40, 0)],
    "an octet many times": [at(0, 7, 1, 5)] * 100,
    "empty segments around": [at(0, 7, 0), at(0, 7, 60), at(0, 8, 0, END - 1), at(0, 7, 40, 60), at(0, 9, 0)],
    "to the end of all offsets": [at(0, 7, 100, END - 100)],
}


@each_case("what", READS)
@each_case("private_data", [b"", BOTH_PRIVATE])
async def test_memory_may_be_read_twice_and_not_at_all(scene: Scenes, what: str, private_data: bytes) -> None:
    async with scene() as it:
        memory = Memory(await it.connected(private_data=private_data))
        memory.fill(7, 0, CONTENT[:200])
        memory.fill(7, END - 100, CONTENT[200:300])
        entries = READS[what]
        named = [struct.unpack(">IIQ", entry[8:]) for entry in entries]
        await memory.peer.send_segments(send(writing(100, *entries)))
        reply = await memory.reply()
        assert reply.opcode == (SEND_INVALIDATE if private_data else SEND)
        expected = [given for given in named if given[1]]
        assert memory.reads == expected
        octets = b"".join(memory.octets(handle, offset, length) for handle, length, offset in expected)
        assert it.files.written == [octets]
        await assert_works(memory.peer, 2)


WRITES = {
    "overlapping segments": [(7, 3000, 0), (7, 3000, 1000)],
    "the same segment twice": [(7, 2500, 0), (7, 2500, 0)],
    "empty segments around": [(8, 0, 0), (7, 2500, 0), (8, 0, END - 1), (7, 2500, 2500), (9, 0, 0)],
    "to the end of all offsets": [(7, 5000, END - 5000)],
    "room to spare": [(7, 4999, 0), (7, 4999, 0), (7, 4999, 0)],
}


@pytest.mark.req("V1-26", "V1-29", "V1-53")
@each_case("what", WRITES)
@each_case("reply", [False, True])
async def test_memory_may_be_written_twice_and_not_at_all(scene: Scenes, what: str, reply: bool) -> None:
    given = WRITES[what]
    offered = chunk(*(segment(handle, length, offset) for handle, length, offset in given))
    async with scene() as it:
        memory = Memory(await it.connected())
        call = header(writes=offered, reply=offered if reply else b"") + rpc(6, READ_ARGS)
        await memory.peer.send_segments(send(call))
        answer = await memory.reply()
        assert answer.opcode == SEND
        left, filled = 5000, []
        for handle, length, offset in given:
            filled.append((handle, min(left, length), offset))
            left -= filled[-1][1]
        echoed = lists(answer)
        assert echoed.writes == [filled]
        # The reply fits inline: its chunk is unused.
        assert echoed.reply == ([(handle, 0, offset) for handle, _, offset in given] if reply else [])
        assert memory.writes == [each for each in filled if each[1]]
        expected = Memory(memory.peer)
        start = 0
        for handle, length, offset in filled:
            expected.fill(handle, offset, CONTENT[start : start + length])
            start += length
        assert {handle: octets for handle, octets in expected.of.items() if octets} == memory.of
        await assert_works(memory.peer, 2)


@each_case("where", ["Write list", "Reply chunk", "both"])
async def test_what_is_read_may_be_named_for_writing_as_well(scene: Scenes, where: str) -> None:
    """The result of WRITE goes into no chunk: memory that was offered for that is left alone."""
    both = chunk(segment(7, 100))
    async with scene() as it:
        memory = Memory(await it.connected())
        memory.fill(7, 0, CONTENT[:100])
        call = writing(
            100,
            at(0, 7, 100),
            writes=both if where != "Reply chunk" else b"",
            reply=both if where != "Write list" else b"",
        )
        await memory.peer.send_segments(send(call))
        echoed = lists(await memory.reply())
        assert it.files.written == [CONTENT[:100]]
        assert memory.writes == []
        assert echoed.writes == ([[(7, 0, 0)]] if where != "Reply chunk" else [])
        assert echoed.reply == ([(7, 0, 0)] if where != "Write list" else [])
        await assert_works(memory.peer, 2)


async def test_calls_that_name_the_same_memory_are_served_one_by_one(scene: Scenes) -> None:
    calls = 40
    async with scene() as it:
        memory = Memory(await it.connected())
        await assert_works(memory.peer, 1)
        memory.fill(7, 0, CONTENT[:5000])
        for number in range(calls):
            await memory.peer.send_segments(send(writing(5000, at(0, 7, 5000)), 2 + number))
        for _ in range(calls):
            assert (await memory.reply()).opcode == SEND
        # They all have one XID: a repeat of a call is answered, and not run again.
        assert it.files.written == [CONTENT[:5000]]
        assert len(memory.reads) == calls
