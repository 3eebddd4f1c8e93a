"""Version 2's dialect, last draft: rules that the first draft does not have; see test_dialects_v2.py."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from dialect_messages import FAULTY_REPLY, PIECE, RpcMessage, refused, simple
from rpcrdma import limits
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.config import ReverseSupport
from rpcrdma.transport.dialects.header_parts import encode_property_set
from rpcrdma.transport.dialects.header_v2_07 import Rdma2Call, Rdma2Middle, Rdma2Reply, encode_header
from rpcrdma.transport.dialects.v2_07 import PROPERTIES, Version207
from rpcrdma.transport.message import (
    Cause,
    Inbound,
    Kind,
    OutgoingError,
    OutgoingGrant,
    OutgoingProperties,
    Refusal,
)
from rpcrdma.transport.properties import decode_properties, encode_properties
from support.cases import each_case
from support.octets import words

ONE, TWO = Segment(1, 1, 1), Segment(0, 0, 0)
READ = ChunkLists((ReadChunk(4, (ONE,)),))
WRITE = ChunkLists((), (WriteChunk((ONE,)),))
ZERO = ChunkLists((ReadChunk(0, (ONE,)),))
REPLY_CHUNK = ChunkLists((), (), WriteChunk((ONE,)))
CALL_7, REPLY_7, CALL_8 = struct.pack(">II", 7, 0), struct.pack(">II", 7, 1), struct.pack(">II", 8, 0)
RECEIVES_8192 = ((2, b"\0\0\x20\0"),)


def call(
    payload: bytes = CALL_7, chunks: ChunkLists = NO_CHUNKS, ends: int = 0, *, xid: int = 7, external: bool = False
) -> bytes:
    return encode_header(Rdma2Call(xid, 9, ends, chunks, external)) + payload


def reply(payload: bytes = REPLY_7, chunks: ChunkLists = NO_CHUNKS, *, xid: int = 7, external: bool = False) -> bytes:
    return encode_header(Rdma2Reply(xid, 9, chunks, external)) + payload


def middle(payload: bytes, remaining: int = 4, *, xid: int = 7, answers: bool = False) -> bytes:
    return encode_header(Rdma2Middle(xid, 9, remaining, answers)) + payload


def properties(told: tuple[tuple[int, bytes], ...] = RECEIVES_8192, *, xid: int = 7, final: bool = True) -> bytes:
    return words(xid, 2, 9, 7 if final else 6) + encode_property_set(told)


def decode(*messages: bytes) -> list[Inbound | None]:
    dialect = Version207()
    return [dialect.decode(octets) for octets in messages]


# Sent messages


def test_plain_messages_are_encoded_as_the_long_course_does() -> None:
    assert Version207().encode(RpcMessage(Kind.CALL), 9) == call(b"") == words(7, 2, 9, 10, 0, 0, 0, 0)
    assert Version207().encode(RpcMessage(Kind.REPLY), 9) == reply(b"") == words(7, 2, 9, 13, 0)


@each_case("ends", [None, 1])
def test_calls_and_replies_have_the_type_of_their_form(ends: int | None) -> None:
    for chunks in (READ, WRITE, REPLY_CHUNK):
        octets = Version207().encode(RpcMessage(Kind.CALL, chunks, ends=ends), 9)
        assert octets == call(b"", chunks, ends or 0)
        assert octets[15] == 10
    octets = Version207().encode(RpcMessage(Kind.CALL, ZERO, long=True, ends=ends), 9)
    assert octets == call(b"", ZERO, ends or 0, external=True)
    assert octets[15] == 8
    octets = Version207().encode(RpcMessage(Kind.REPLY, WRITE), 9)
    assert octets == reply(b"", WRITE)
    octets = Version207().encode(RpcMessage(Kind.REPLY, REPLY_CHUNK, long=True), 9)
    assert octets == reply(b"", REPLY_CHUNK, external=True)
    assert octets[15] == 11


def test_an_inline_reply_leaves_its_unused_reply_chunk_out() -> None:
    both = ChunkLists((), WRITE.writes, WriteChunk((TWO,)))
    assert Version207().encode(RpcMessage(Kind.REPLY, both), 9) == reply(b"", WRITE)


def test_pieces_say_what_remains() -> None:
    for kind, code in ((Kind.CALL, 9), (Kind.REPLY, 12)):
        piece = Version207().encode_piece(RpcMessage(kind, WRITE, ends=1), 9, 5000)
        assert piece == words(7, 2, 9, code, 5000)
        assert len(piece) == Version207.geometry.piece_header


@pytest.mark.req("V2-A11")
def test_a_grant_has_no_xid_and_none_is_read() -> None:
    octets = Version207().encode(OutgoingGrant(), 5)
    assert octets == words(0, 2, 5, 5)
    assert decode(octets) == [Inbound(Kind.GRANT, 0, 5, 2)]
    assert decode(words(77, 2, 5, 5)) == [Inbound(Kind.GRANT, 0, 5, 2)]
    assert decode(words(7, 2, 9, 5, 0)) == [refused(Cause.HEADER)]


def test_properties_are_told_in_one_final_message() -> None:
    assert properties().startswith(Version207().encode(OutgoingProperties(7, RECEIVES_8192), 9))
    assert decode(properties()) == [Inbound(Kind.PROPERTIES, 7, 9, 2, properties=RECEIVES_8192)]


def test_levels_of_reverse_calls_have_the_numbers_of_the_draft() -> None:
    assert decode_properties((), PROPERTIES).reverse is ReverseSupport.NONE
    for number, level in enumerate(
        (ReverseSupport.NONE, ReverseSupport.INLINE, ReverseSupport.CONTINUED, ReverseSupport.GENERAL)
    ):
        told = decode_properties(((5, words(number)),), PROPERTIES)
        assert told.reverse is level
        assert dict(encode_properties(told, PROPERTIES))[5] == words(number)


# Received messages


@pytest.mark.req("V2-68", "V2-A14")
@each_case("rest", [b"", words(1), words(77, 77, 77, 77)])
@each_case("header_type", [0, 1, 5, 10, 77])
def test_the_version_is_looked_at_first(rest: bytes, header_type: int) -> None:
    """One that could be spoken, but is not on this connection, is told apart from others."""
    for version in (0, 3, 0xFFFFFFFF):
        refusal = Refusal(Cause.VERSION, low=2, high=2)
        octets = words(7, version, 9, header_type) + rest
        assert decode(octets) == [Inbound(Kind.UNREADABLE, 7, 9, version, refusal=refusal)]
    octets = words(7, 1, 9, header_type) + rest
    mismatch = Refusal(Cause.VERSION_MISMATCH)
    assert decode(octets) == [Inbound(Kind.UNREADABLE, 7, 9, 1, refusal=mismatch)]
    assert Version207().encode(OutgoingError(7, 1, mismatch, answers_call=False), 9) == words(7, 1, 9, 4, 11)


@each_case("header_type", [0, 1, 2, 3, 14, 77, 0xFFFFFFFF])
def test_an_unknown_type_is_refused_as_one(header_type: int) -> None:
    assert decode(words(7, 2, 9, header_type)) == [refused(Cause.HEADER_TYPE)]


FAULTY_REPLIES = {
    "long, without a Reply chunk": words(7, 2, 9, 11, 0, 0),
    "a piece without its first word": words(7, 2, 9, 12),
}


@pytest.mark.req("V2-A10")
def test_positions_that_go_backwards_are_refused() -> None:
    backwards = ChunkLists((ReadChunk(8, (ONE,)), ReadChunk(4, (ONE,))))
    assert decode(call(CALL_7, backwards)) == [refused(Cause.HEADER)]


@pytest.mark.req("V2-A13")
@pytest.mark.parametrize("octets", FAULTY_REPLIES.values(), ids=FAULTY_REPLIES.keys())
def test_a_reply_without_a_part_is_never_answered(octets: bytes) -> None:
    assert decode(octets) == [FAULTY_REPLY]


def test_errors_are_read() -> None:
    assert decode(words(7, 2, 9, 4, 10, 9000)) == [
        Inbound(Kind.ERROR, 7, 9, 2, refusal=Refusal(Cause.REPLY_RESOURCE, needed=9000))
    ]
    assert decode(words(7, 2, 9, 4), words(7, 2, 9, 4, 10), words(7, 3, 9, 4, 2)) == [None] * 3


@pytest.mark.parametrize("version", [1, 2])
def test_the_answer_to_an_introduction_refuses_the_version(version: int) -> None:
    refusal = Refusal(Cause.VERSION, low=1, high=1)
    found = Version207().decode_answer(words(7, version, 9, 4, 1, 1, 1))
    assert found == Inbound(Kind.ERROR, 7, 9, version, refusal=refusal)
    assert Version207().decode_answer(properties()) == decode(properties())[0]


# Continued messages


@each_case("remaining", [0, 3, 0xFFFFFFFF])
def test_what_remains_is_not_relied_on(remaining: int) -> None:
    found = decode(middle(REPLY_7[:5], remaining, answers=True), reply(REPLY_7[5:]))
    assert [simple(one) for one in found] == [PIECE, Inbound(Kind.REPLY, 7, 9, 2, data=REPLY_7)]


@pytest.mark.req("V2-A3")
def test_foreign_properties_that_go_on_are_refused() -> None:
    found = decode(middle(CALL_7), properties(xid=8, final=False), middle(b"more"), call(b"last"), call())
    assert found[:4] == [PIECE, refused(Cause.FLAGS, xid=8), PIECE, PIECE]
    assert simple(found[4]) == Inbound(Kind.CALL, 7, 9, 2, data=CALL_7)
    error = OutgoingError(8, 2, Refusal(Cause.FLAGS), answers_call=False)
    assert Version207().encode(error, 9) == words(8, 2, 9, 4, 5)


def test_an_answer_that_is_interrupted_is_broken_at_once() -> None:
    found = decode(middle(REPLY_7, answers=True), call(CALL_8, xid=8), middle(b"more", answers=True), reply(b"last"))
    assert found == [PIECE, replace(refused(Cause.FLAGS, xid=8), broken=7), PIECE, PIECE]


# Properties


def test_properties_of_several_messages_are_one_set() -> None:
    first, second, last = ((1, words(4096)),), (), ((5, words(3)), (99, b"unknown"))
    found = decode(properties(first, final=False), properties(second, xid=8, final=False), properties(last, xid=9))
    assert [one and one.kind for one in found] == [Kind.PIECE, Kind.PIECE, Kind.PROPERTIES]
    assert found[2] is not None
    assert found[2].properties == first + last


def test_properties_that_follow_the_last_ones_are_for_the_endpoint_to_refuse() -> None:
    found = decode(properties(), properties(final=False), properties(), call())
    assert [one and one.kind for one in found] == [Kind.PROPERTIES, Kind.PIECE, Kind.PROPERTIES, Kind.CALL]
    assert Version207.properties_again is Cause.FLAGS


def test_each_message_of_properties_has_a_whole_set() -> None:
    octets = encode_property_set(RECEIVES_8192)
    prefix = words(7, 2, 9, 6)
    assert decode(prefix + octets[:9]) == [refused(Cause.PROPERTY)]
    assert decode(properties(final=False), prefix + octets[:9]) == [PIECE, refused(Cause.PROPERTY)]
    error = OutgoingError(7, 2, Refusal(Cause.PROPERTY), answers_call=False)
    assert Version207().encode(error, 9) == words(7, 2, 9, 4, 3)


def test_faulty_properties_may_be_told_again() -> None:
    found = decode(properties()[:-1], properties())
    assert found == [refused(Cause.PROPERTY), Inbound(Kind.PROPERTIES, 7, 9, 2, properties=RECEIVES_8192)]


def test_too_many_properties_in_several_messages_are_refused() -> None:
    many = tuple((1000 + number, b"") for number in range(limits.PROPERTIES_MAX))
    found = decode(properties(many, final=False), properties())
    assert found == [PIECE, refused(Cause.PROPERTY)]
