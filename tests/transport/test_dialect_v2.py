"""Version 2: rules that no other version has; see test_dialect_v2_messages.py."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace

import pytest

from dialect_messages import FAULTY_REPLY, PIECE, RpcMessage, refused
from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import Role
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects.header_parts import encode_property_set
from rpcrdma.transport.dialects.header_v2 import MORE, RDMA2_MSG, RDMA2_NOMSG, encode_message
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.dialects.v2 import Version2
from rpcrdma.transport.message import Cause, Inbound, Kind, OutgoingError, OutgoingGrant, Refusal
from support.cases import each_case
from support.octets import words

ONE, TWO = Segment(1, 1, 1), Segment(0, 0, 0)
LISTS = [
    ChunkLists(reads, writes, reply)
    for reads, writes, reply in itertools.product(
        [(), (ReadChunk(4, (ONE,)),), (ReadChunk(4, (ONE, TWO)),), (ReadChunk(4, (TWO,)), ReadChunk(8, (ONE,)))],
        [(), (WriteChunk((ONE,)),), (WriteChunk((TWO,)),), (WriteChunk(()),), (WriteChunk((ONE, TWO)),)],
        [None, WriteChunk((TWO,)), WriteChunk((ONE, TWO))],
    )
]
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


@pytest.mark.req("V2-37", "V2-38", "V2-39", "V2-68")
@each_case("kind", [Kind.CALL, Kind.REPLY])
@each_case("long", [False, True])
@each_case("ends", [None, 1])
def test_calls_and_replies_are_encoded_as_the_long_course_does(kind: Kind, long: bool, ends: int | None) -> None:
    for chunks in LISTS:
        shared = NO_CHUNKS if chunks == NO_CHUNKS else chunks
        long_here = long and shared is not NO_CHUNKS
        ends_here = ends if shared is not NO_CHUNKS else None
        octets = Version2().encode(RpcMessage(kind, shared, long=long_here, ends=ends_here), 9)
        header_type = RDMA2_NOMSG if long_here else RDMA2_MSG
        assert octets == encode_message(header_type, 7, 9, int(kind), ends_here or 0, chunks)


@pytest.mark.req("V2-37", "V2-43")
@each_case("kind", [Kind.CALL, Kind.REPLY])
def test_pieces_have_neither_chunks_nor_handle(kind: Kind) -> None:
    piece = Version2().encode_piece(RpcMessage(kind, WRITE, ends=1), 9)
    assert piece == words(7, 2, 9, 0, MORE | kind, 0, 0, 0, 0)
    assert len(piece) == Version2.geometry.piece_header


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
    assert Version2().claims(octets) is claimed
    assert Version1().claims(octets) is (octets[4:8] == words(1))


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


@pytest.mark.req("V2-52")
def test_a_fault_in_the_header_or_in_properties_has_the_code_for_that() -> None:
    for cause in (Cause.HEADER, Cause.PROPERTY):
        error = OutgoingError(7, 2, Refusal(cause), answers_call=False)
        assert Version2().encode(error, 9) == words(7, 2, 9, 4, 1, 2)


@pytest.mark.req("V2-68")
def test_versions_before_this_one_are_refused_as_later_ones_are() -> None:
    for version in (0, 1):
        refusal = Refusal(Cause.VERSION, low=2, high=2)
        assert decode(words(7, version, 9, 0)) == [Inbound(Kind.UNREADABLE, 7, 9, version, refusal=refusal)]


@pytest.mark.req("V2-47")
def test_a_grant_with_an_xid_or_a_handle_is_none() -> None:
    assert decode(words(7, 2, 9, 1, 0, 0, 0, 0, 0)) == [refused(Cause.HEADER)]
    assert decode(words(0, 2, 9, 1, 0, 1, 0, 0, 0)) == [refused(Cause.HEADER, xid=0)]
    assert decode(words(0, 2, 9, 1, 1, 0, 0, 0, 0)) == [Inbound(Kind.GRANT, 0, 9, 2)]


# Errors


@each_case("flags", [0, 1, 3])
def test_an_error_is_one_whatever_its_flags_are(flags: int) -> None:
    assert decode(words(7, 2, 9, 4, flags, 9, 9000)) == [
        Inbound(Kind.ERROR, 7, 9, 2, refusal=Refusal(Cause.REPLY_RESOURCE, needed=9000))
    ]


@pytest.mark.req("V1-76")
@each_case(
    ("octets", "refusal"),
    [
        (words(7, 2, 9, 4, 1, 1, 1), Refusal(Cause.VERSION, low=1, high=1)),
        (words(7, 2, 9, 4, 1, 1, 2), Refusal(Cause.VERSION, low=1, high=2)),
        (words(7, 2, 9, 4, 1, 2, 7), Refusal(Cause.VERSION, low=2, high=7)),
        (words(7, 1, 9, 4, 1, 1, 1), Refusal(Cause.VERSION, low=1, high=1)),
        (words(7, 2, 9, 4, 1, 1, 1, 3), Refusal(Cause.VERSION, low=1, high=3)),
        (words(7, 2, 9, 4, 1, 5, 3), Refusal(Cause.READ_CHUNKS, limit=3)),
        (words(7, 2, 9, 4, 1, 6, 9), Refusal(Cause.WRITE_CHUNKS, limit=9)),
        (words(7, 2, 9, 4, 1, 7, 16), Refusal(Cause.SEGMENTS, limit=16)),
        (words(7, 2, 9, 4, 1, 9, 9000), Refusal(Cause.REPLY_RESOURCE, needed=9000)),
        (words(7, 2, 9, 4, 1, 2), Refusal(Cause.HEADER)),
    ],
)
def test_the_answer_to_an_introduction_refuses_the_version_in_either_form(octets: bytes, refusal: Refusal) -> None:
    """Of 28 octets it is a range of versions only where the words can be one."""
    (version,) = struct.unpack_from(">I", octets, 4)
    assert Version2().decode_answer(octets) == Inbound(Kind.ERROR, 7, 9, version, refusal=refusal)


@each_case("octets", [words(7, 2, 9, 4, 1, 0, 1), words(7, 2, 9, 4, 1, 2, 1), words(7, 2, 9, 4, 1, 3, 3)])
def test_no_range_of_versions_is_made_up(octets: bytes) -> None:
    assert Version2().decode_answer(octets) is None


def test_a_range_without_flags_is_an_answer_to_the_introduction_only() -> None:
    assert decode(words(7, 2, 9, 4, 1, 1, 1)) == [None]


@pytest.mark.req("V2-12")
def test_a_server_of_version_1_refuses_the_introduction_so_that_it_is_understood() -> None:
    peer = BarePeer(Role.SERVER)
    (answer,) = peer.send(properties())
    found = Version2().decode_answer(answer)
    assert found is not None
    assert (found.kind, found.xid, found.version) == (Kind.ERROR, 7, 2)
    assert found.refusal == Refusal(Cause.VERSION, low=1, high=1)


# Continued messages


def test_properties_may_be_divided_anywhere() -> None:
    for cut in range(len(PROPERTY_SET) + 1):
        found = decode(properties(PROPERTY_SET[:cut], MORE), properties(PROPERTY_SET[cut:]))
        assert found == [PIECE, Inbound(Kind.PROPERTIES, 7, 9, 2, properties=((2, b"\0\0\x20\0"),))]


def test_a_whole_message_is_checked_as_one_that_came_at_once() -> None:
    assert decode(message(b"", MORE), message(b"")) == [PIECE, refused(Cause.HEADER)]
    assert decode(message(CALL_7, MORE), message(b"", chunks=ZERO)) == [PIECE, refused(Cause.HEADER)]
    assert decode(message(REPLY_7, MORE), message(b"")) == [PIECE, refused(Cause.HEADER)]
    assert decode(message(CALL_7, 3), message(b"", 1)) == [PIECE, FAULTY_REPLY]
    assert decode(properties(PROPERTY_SET, MORE), properties()) == [PIECE, refused(Cause.PROPERTY)]


@pytest.mark.req("V2-41")
def test_properties_under_the_same_xid_are_foreign() -> None:
    assert decode(message(CALL_7, MORE), properties(), message(b"last")) == [PIECE, refused(Cause.FLAGS), PIECE]


def test_a_call_in_the_midst_of_an_answer_is_foreign_and_breaks_it_at_once() -> None:
    found = decode(message(REPLY_7, 3), message(xid=8), message(b"more", 3), message(b"last", 1), message(REPLY_7, 1))
    assert found[:4] == [PIECE, replace(refused(Cause.FLAGS, xid=8), broken=7), PIECE, PIECE]
    assert found[4] is not None
    assert not found[4].long


def test_a_foreign_answer_is_not_refused() -> None:
    found = decode(message(struct.pack(">II", 8, 0), MORE, xid=8), message(REPLY_7, 1), message(b"", xid=8))
    assert found == [replace(PIECE, xid=8), FAULTY_REPLY, replace(PIECE, xid=8)]


@each_case(
    ("faulty", "cause"),
    [
        (message(b"", MORE, chunks=WRITE), Cause.FLAGS),
        (message(b"", MORE | 4), Cause.FLAGS),
        (message(b"", MORE, inv_handle=1), Cause.HEADER),
        (words(7, 2, 9, 0, MORE, 0, 2), Cause.HEADER),
    ],
)
def test_a_faulty_piece_ends_its_sequence(faulty: bytes, cause: Cause) -> None:
    for before in ((), (message(CALL_7, MORE),)):
        found = decode(*before, faulty, message(b"more", MORE), message(b"last"), message())
        assert found[len(before) : -1] == [refused(cause), PIECE, PIECE]
        assert found[-1] is not None
        assert found[-1].kind is Kind.CALL
