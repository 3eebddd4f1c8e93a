"""Version 2: rules that no other version has; see test_dialect_v2_messages.py."""

from __future__ import annotations

import struct

import pytest

from dialect_messages import FAULTY_REPLY, RpcMessage, refused
from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import Role
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects.header_parts import encode_property_set, version_of
from rpcrdma.transport.dialects.header_v2 import MORE, RDMA2_MSG, RDMA2_NOMSG, encode_message
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.dialects.v2 import Version2
from rpcrdma.transport.message import Cause, Inbound, Kind, OutgoingError, OutgoingGrant, Refusal
from support.cases import each_case
from support.octets import words

ONE, TWO = Segment(1, 1, 1), Segment(0, 0, 0)
WRITE = ChunkLists((), (WriteChunk((ONE,)),))
ZERO = ChunkLists((ReadChunk(0, (ONE,)),))
REPLY_CHUNK = ChunkLists((), (), WriteChunk((ONE,)))
CALL_7, REPLY_7 = struct.pack(">II", 7, 0), struct.pack(">II", 7, 1)
PROPERTY_SET = encode_property_set(((2, b"\0\0\x20\0"),))


def message(
    payload: bytes = CALL_7,
    flags: int = 0,
    *,
    xid: int = 7,
    header_type: int = RDMA2_MSG,
    chunks: ChunkLists = NO_CHUNKS,
    inv_handle: int = 0,
) -> bytes:
    return encode_message(header_type, xid, 9, flags, inv_handle, chunks) + payload


def properties(payload: bytes = PROPERTY_SET, flags: int = 0, *, xid: int = 7) -> bytes:
    return words(xid, 2, 9, 5, flags) + payload


def decode(*messages: bytes) -> list[Inbound | None]:
    dialect = Version2()
    return [dialect.decode(octets) for octets in messages]


# Sent messages


@pytest.mark.req("V2-37", "V2-47")
def test_a_grant_is_a_long_message_without_chunks_and_xid() -> None:
    octets = Version2().encode(OutgoingGrant(), 0x00400008)
    assert octets == words(0, 2, 0x00400008, 1, 0, 0, 0, 0, 0)
    assert decode(octets) == [Inbound(Kind.GRANT, 0, 0x00400008, 2)]


def test_a_reply_may_end_what_its_call_names_for_that() -> None:
    call = RpcMessage(Kind.CALL, ChunkLists((), (WriteChunk((Segment(2, 1, 1), Segment(3, 1, 1))),)), ends=3)
    assert [Version2().may_end(call, handle) for handle in range(5)] == [False, False, False, True, False]
    call.ends = None
    assert not any(Version2().may_end(call, handle) for handle in range(5))


# Received messages


@each_case(
    ("octets", "claimed"),
    [
        (message(), True),
        (message()[:8], True),
        (message()[:7], False),
        (b"", False),
        (words(7, 1, 9, 0, 0, 0, 0), False),
        (words(7, 3, 9, 0, 0, 0, 0), False),
    ],
)
def test_a_first_message_is_claimed_by_its_version(octets: bytes, claimed: bool) -> None:
    assert (version_of(octets) == Version2.version) is claimed
    assert (version_of(octets) == Version1.version) is (octets[4:8] == words(1))


UNKNOWN_TYPES = [2, 3, 6, 7, 77, 0xFFFFFFFF]


@pytest.mark.req("V2-36", "V2-50")
@each_case("header_type", UNKNOWN_TYPES)
@each_case("flags", [0, MORE, 4, 0xFFFFFFFE])
def test_an_unknown_type_is_refused_as_one(header_type: int, flags: int) -> None:
    assert decode(words(7, 2, 9, header_type, flags)) == [refused(Cause.HEADER_TYPE)]
    error = OutgoingError(7, 2, Refusal(Cause.HEADER_TYPE), answers_call=False)
    assert Version2().encode(error, 9) == words(7, 2, 9, 4, 1, 3)


@pytest.mark.req("V2-51", "V2-42", "V2-43")
@each_case(
    "octets",
    [
        *(message(flags=1 << bit | more) for bit in range(2, 32) for more in (0, MORE)),
        properties(flags=8),
        message(b"", 0x10, header_type=RDMA2_NOMSG, chunks=ZERO),
        message(b"", MORE, header_type=RDMA2_NOMSG, chunks=ZERO),
        message(b"", MORE, header_type=RDMA2_NOMSG),
        message(flags=MORE, chunks=WRITE),
        message(flags=MORE, chunks=ChunkLists((), (WriteChunk(()),))),
    ],
)
def test_flags_that_mean_nothing_together_are_refused(octets: bytes) -> None:
    assert decode(octets) == [refused(Cause.FLAGS)]
    error = OutgoingError(7, 2, Refusal(Cause.FLAGS), answers_call=False)
    assert Version2().encode(error, 9) == words(7, 2, 9, 4, 1, 4)


FAULTY_REPLIES = {
    "an unknown type": message(REPLY_7, 1, header_type=9),
    "an unknown flag": message(REPLY_7, 5),
    "chunks in a piece": message(REPLY_7, 3, chunks=WRITE),
    "long, goes on": message(b"", 3, header_type=RDMA2_NOMSG, chunks=REPLY_CHUNK),
    "long, without chunks": message(b"", 1, header_type=RDMA2_NOMSG),
}


@pytest.mark.req("V2-48")
@each_case("octets", FAULTY_REPLIES.values())
def test_a_reply_with_faulty_flags_is_never_answered(octets: bytes) -> None:
    assert decode(octets) == [FAULTY_REPLY]


# Errors


@each_case("octets", [words(7, 2, 9, 4, 1, 0, 1), words(7, 2, 9, 4, 1, 2, 1), words(7, 2, 9, 4, 1, 3, 3)])
def test_no_range_of_versions_is_made_up(octets: bytes) -> None:
    assert Version2().decode_answer(octets) is None


@pytest.mark.req("V2-12")
def test_a_server_of_version_1_refuses_the_introduction_so_that_it_is_understood() -> None:
    peer = BarePeer(Role.SERVER)
    (answer,) = peer.send(properties())
    found = Version2().decode_answer(answer)
    assert found is not None
    assert (found.kind, found.xid, found.version) == (Kind.ERROR, 7, 2)
    assert found.refusal == Refusal(Cause.VERSION, low=1, high=1)


# Continued messages
