"""Version 1's decode: the short courses of usual headers agree with the decoder of all headers."""

from __future__ import annotations

import itertools
import struct

from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects.header_v1 import RDMA_MSG, RDMA_NOMSG, RdmaMsg, decode_header, encode_message
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.message import Inbound, Kind, Outgoing
from support.cases import each_case

ONE, TWO = Segment(1, 1, 1), Segment(0, 0, 0)
LISTS = [
    ChunkLists(reads, writes, reply)
    for reads, writes, reply in itertools.product(
        [(), (ReadChunk(4, (ONE,)),), (ReadChunk(0, (ONE,)),), (ReadChunk(4, (ONE, TWO)),)],
        [(), (WriteChunk((ONE,)),), (WriteChunk((TWO,)),), (WriteChunk(()),), (WriteChunk((ONE, TWO)),)],
        [None, WriteChunk((TWO,)), WriteChunk((ONE, TWO))],
    )
]


class Call(Outgoing):
    kind = Kind.CALL


@each_case("xid", [0, 1, 7])
@each_case("direction", [0, 1])
def test_every_shape_of_lists_is_what_the_long_course_says(xid: int, direction: int) -> None:
    """With small numbers, so that one word could be taken for another."""
    for chunks in LISTS:
        octets = encode_message(RDMA_MSG, xid, 9, chunks) + struct.pack(">IIII", xid, direction, 1, 0)
        message = Version1().decode(octets)
        header = decode_header(octets)
        assert isinstance(header, RdmaMsg)
        assert isinstance(message, Inbound)
        assert (message.kind, message.xid, message.credit_word) == (Kind(direction), xid, 9)
        assert message.chunks == header.chunks
        assert message.start == header.size
        assert (message.chunks is NO_CHUNKS) == (chunks == NO_CHUNKS)
        named = [segment.handle for chunk in chunks.chunks for segment in chunk.segments]
        assert message.ends == (named[0] if named else None)


@each_case("long", [False, True])
def test_every_shape_of_lists_is_encoded_as_the_long_course_does(long: bool) -> None:
    for chunks in LISTS:
        call = Call(7, answers_call=False)
        call.chunks = NO_CHUNKS if chunks == NO_CHUNKS else chunks
        call.long = long and chunks != NO_CHUNKS
        procedure = RDMA_NOMSG if call.long else RDMA_MSG
        assert Version1().encode(call, 9) == encode_message(procedure, 7, 9, chunks)


def test_a_reply_may_end_what_its_call_names_and_nothing_else() -> None:
    call = Call(7, answers_call=False)
    call.chunks = ChunkLists((ReadChunk(4, (Segment(1, 1, 1),)),), (WriteChunk((Segment(2, 1, 1), Segment(3, 1, 1))),))
    assert [Version1().may_end(call, handle) for handle in range(5)] == [False, True, True, True, False]
