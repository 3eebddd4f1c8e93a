"""Version 2's dialect, last draft: what each message means, which are refused and how, and what is sent."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace

import pytest

from dialect_messages import FAULTY_REPLY, PIECE, RpcMessage, refused, simple, words
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
from rpcrdma.transport.private_data import Agreement, PrivateData
from rpcrdma.transport.properties import decode_properties, encode_properties

ONE, TWO = Segment(1, 1, 1), Segment(0, 0, 0)
LISTS = [
    ChunkLists(reads, writes, reply_chunk)
    for reads, writes, reply_chunk in itertools.product(
        [(), (ReadChunk(4, (ONE,)),), (ReadChunk(4, (ONE, TWO)),), (ReadChunk(4, (TWO,)), ReadChunk(8, (ONE,)))],
        [(), (WriteChunk((ONE,)),), (WriteChunk((TWO,)),), (WriteChunk(()),), (WriteChunk((ONE, TWO)),)],
        [None, WriteChunk((TWO,)), WriteChunk((ONE, TWO))],
    )
]
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


# What is sent


def test_plain_messages_are_encoded_as_the_long_course_does() -> None:
    assert Version207().encode(RpcMessage(Kind.CALL), 9) == call(b"") == words(7, 2, 9, 10, 0, 0, 0, 0)
    assert Version207().encode(RpcMessage(Kind.REPLY), 9) == reply(b"") == words(7, 2, 9, 13, 0)


@pytest.mark.parametrize("ends", [None, 1])
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


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.VERSION}, key=lambda cause: cause.value))
def test_errors_repeat_xid_and_version(cause: Cause, version: int) -> None:
    error = OutgoingError(7, version, Refusal(cause, 1, 2, limit=3), answers_call=True)
    assert Version207().encode(error, 9)[:16] == words(7, version, 9, 4)


def test_a_version_is_refused_in_the_form_that_all_versions_know() -> None:
    error = OutgoingError(7, 3, Refusal(Cause.VERSION, low=1, high=2), answers_call=False)
    assert Version207().encode(error, 9) == words(7, 3, 9, 4, 1, 1, 2)


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


def test_private_data_change_nothing() -> None:
    for peer in (None, PrivateData(remote_invalidation=True, send_octets=8192, receive_octets=1024)):
        assert Version207().agree(PrivateData(), peer) == Agreement(4096, 4096, remote_invalidation=True)


# What is received


@pytest.mark.parametrize("xid", [0, 1, 7])
def test_every_shape_of_lists_is_what_the_long_course_says(xid: int) -> None:
    """With small numbers, so that one word could be taken for another."""
    for chunks in LISTS:
        payload = struct.pack(">IIII", xid, 0, 1, 0)
        for ends in (0, 1):
            octets = call(payload, chunks, ends, xid=xid)
            found = Version207().decode(octets)
            assert found == Version207()._decode_other(octets)
            if not ends or chunks.names(ends):
                start = len(octets) - len(payload)
                assert found == Inbound(Kind.CALL, xid, 9, 2, chunks, octets, start, ends=ends or None)
                assert (found.chunks is NO_CHUNKS) == (chunks == NO_CHUNKS)
            else:
                assert found == refused(Cause.HEADER, xid=xid)
        written = ChunkLists((), chunks.writes)
        octets = reply(struct.pack(">IIII", xid, 1, 1, 0), written, xid=xid)
        found = Version207().decode(octets)
        assert found == Version207()._decode_other(octets)
        assert found == Inbound(Kind.REPLY, xid, 9, 2, written, octets, len(octets) - 16)


@pytest.mark.parametrize("word", range(14))
@pytest.mark.parametrize("value", [0, 1, 2, 3, 10, 13, 0xFFFFFFFF])
@pytest.mark.parametrize(
    "octets",
    [
        call(CALL_7 + bytes(16)),
        reply(REPLY_7 + bytes(28)),
        call(CALL_7, READ, 1),
        call(CALL_7, WRITE),
        reply(REPLY_7 + bytes(4), WRITE),
    ],
)
def test_a_word_that_is_another_is_not_overlooked(word: int, value: int, octets: bytes) -> None:
    changed = bytearray(octets)
    struct.pack_into(">I", changed, 4 * word, value)
    assert Version207().decode(changed) == Version207()._decode_other(changed)


@pytest.mark.parametrize("ends", [0, 1])
@pytest.mark.parametrize(
    "chunks", [READ, WRITE, REPLY_CHUNK, ChunkLists((ReadChunk(4, (TWO,)), ReadChunk(4096, (ONE, TWO))))]
)
def test_calls_and_replies_with_chunks(chunks: ChunkLists, ends: int) -> None:
    octets = call(CALL_7, chunks, ends)
    assert decode(octets) == [Inbound(Kind.CALL, 7, 9, 2, chunks, octets, len(octets) - len(CALL_7), ends=ends or None)]
    octets = reply(REPLY_7, WRITE)
    assert decode(octets) == [Inbound(Kind.REPLY, 7, 9, 2, WRITE, octets, len(octets) - len(REPLY_7))]


def test_long_calls_and_replies() -> None:
    chunks = ChunkLists((ZERO.reads[0], ReadChunk(4, (TWO,))), WRITE.writes, REPLY_CHUNK.reply)
    assert decode(call(b"", chunks, 1, external=True)) == [Inbound(Kind.CALL, 7, 9, 2, chunks, long=True, ends=1)]
    assert decode(reply(b"", REPLY_CHUNK, external=True)) == [Inbound(Kind.REPLY, 7, 9, 2, REPLY_CHUNK, long=True)]


@pytest.mark.parametrize("octets", [call(), reply(), middle(CALL_7), properties(), words(7, 2, 9, 4, 2)])
def test_what_is_shorter_than_a_prefix_is_discarded(octets: bytes) -> None:
    for length in range(16):
        assert Version207().decode(octets[:length]) is None


@pytest.mark.parametrize("octets", [call(), call(CALL_7, READ, 1), middle(b""), properties()])
def test_what_ends_too_early_is_refused(octets: bytes) -> None:
    cause = Cause.PROPERTY if octets[15] == 7 else Cause.HEADER
    for length in range(16, len(octets)):
        assert Version207().decode(octets[:length]) == refused(cause)


@pytest.mark.req("V2-68", "V2-A14")
@pytest.mark.parametrize("rest", [b"", words(1), words(77, 77, 77, 77)])
@pytest.mark.parametrize("header_type", [0, 1, 5, 10, 77])
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


@pytest.mark.parametrize("header_type", [0, 1, 2, 3, 14, 77, 0xFFFFFFFF])
def test_an_unknown_type_is_refused_as_one(header_type: int) -> None:
    assert decode(words(7, 2, 9, header_type)) == [refused(Cause.HEADER_TYPE)]


FAULTY_CALLS = {
    "no payload": call(b""),
    "a payload that is too short": call(CALL_7[:7]),
    "another XID": call(CALL_8),
    "a reply": call(REPLY_7),
    "neither call nor reply": call(words(7, 2)),
    "a handle without chunks": call(CALL_7, ends=1),
    "a handle that is not in the lists": call(CALL_7, READ, 2),
    "a Position that is no multiple of four": call(CALL_7, ChunkLists((ReadChunk(6, (ONE,)),))),
    "Position Zero beside a payload": call(CALL_7, ZERO),
    "Positions that go backwards": call(CALL_7, ChunkLists((ReadChunk(8, (ONE,)), ReadChunk(4, (ONE,))))),
    "long, without a Call chunk": call(b"", WRITE, external=True),
    "long, followed by a payload": call(CALL_7, ZERO, external=True),
    "long, with a handle of no chunk": call(b"", ZERO, 3, external=True),
}


@pytest.mark.req("V2-A10", "V2-A12")
@pytest.mark.parametrize("octets", FAULTY_CALLS.values(), ids=FAULTY_CALLS.keys())
def test_a_faulty_call_is_refused(octets: bytes) -> None:
    assert decode(octets) == [refused(Cause.HEADER)]


FAULTY_REPLIES = {
    "no payload": reply(b""),
    "another XID": reply(words(8, 1)),
    "a call": reply(CALL_7),
    "cut off": reply(REPLY_7, WRITE)[:30],
    "cut off after its prefix": reply()[:16],
    "long, without a Reply chunk": words(7, 2, 9, 11, 0, 0),
    "long, followed by a payload": reply(REPLY_7, REPLY_CHUNK, external=True),
    "too many Write chunks": reply(REPLY_7, ChunkLists((), (WriteChunk(()),) * 99)),
    "a piece without its first word": words(7, 2, 9, 12),
}


@pytest.mark.req("V2-A13")
@pytest.mark.parametrize("octets", FAULTY_REPLIES.values(), ids=FAULTY_REPLIES.keys())
def test_a_faulty_reply_is_never_answered(octets: bytes) -> None:
    assert decode(octets) == [FAULTY_REPLY]


@pytest.mark.parametrize(
    ("chunks", "cause", "limit"),
    [
        (
            ChunkLists(tuple(ReadChunk(4 * n, (ONE,)) for n in range(1, limits.READ_CHUNKS_MAX + 2))),
            Cause.READ_CHUNKS,
            limits.READ_CHUNKS_MAX,
        ),
        (
            ChunkLists((), (WriteChunk((ONE,)),) * (limits.WRITE_CHUNKS_MAX + 1)),
            Cause.WRITE_CHUNKS,
            limits.WRITE_CHUNKS_MAX,
        ),
        (
            ChunkLists((ReadChunk(4, (ONE,)),), (), WriteChunk((ONE,) * limits.CHUNK_SEGMENTS_MAX)),
            Cause.SEGMENTS,
            limits.CHUNK_SEGMENTS_MAX,
        ),
    ],
    ids=["Read chunks", "Write chunks", "segments"],
)
def test_too_many_are_refused_with_the_number_that_is_taken(chunks: ChunkLists, cause: Cause, limit: int) -> None:
    assert decode(call(CALL_7, chunks)) == [refused(cause, limit=limit)]


@pytest.mark.parametrize("code", [0, 12, 99, 101, 0xFFFFFFFF])
def test_an_unknown_error_is_discarded(code: int) -> None:
    for data in ((), (0,), (0, 0)):
        assert decode(words(7, 2, 9, 4, code, *data)) == [None]


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


PAYLOAD = CALL_7 + bytes(range(24))


@pytest.mark.parametrize("cuts", [(8,), (0,), (32,), (3, 20), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("chunks", [NO_CHUNKS, WRITE])
def test_a_call_may_be_divided_anywhere(cuts: tuple[int, ...], chunks: ChunkLists) -> None:
    parts = [PAYLOAD[a:b] for a, b in itertools.pairwise((0, *cuts, len(PAYLOAD)))]
    ends = 1 if chunks is WRITE else None
    *pieces, last = decode(*(middle(part) for part in parts[:-1]), call(parts[-1], chunks, ends or 0))
    assert pieces == [PIECE] * len(cuts)
    assert simple(last) == Inbound(Kind.CALL, 7, 9, 2, chunks, PAYLOAD, ends=ends)


@pytest.mark.parametrize("remaining", [0, 3, 0xFFFFFFFF])
def test_what_remains_is_not_relied_on(remaining: int) -> None:
    found = decode(middle(REPLY_7[:5], remaining, answers=True), reply(REPLY_7[5:]))
    assert [simple(one) for one in found] == [PIECE, Inbound(Kind.REPLY, 7, 9, 2, data=REPLY_7)]


def test_grants_errors_and_other_versions_may_stand_within_a_sequence() -> None:
    found = decode(
        middle(CALL_7), words(0, 2, 5, 5), words(8, 2, 9, 4, 100), words(8, 3, 9, 0), b"short", call(b"more")
    )
    assert [one and one.kind for one in found] == [
        Kind.PIECE,
        Kind.GRANT,
        Kind.ERROR,
        Kind.UNREADABLE,
        None,
        Kind.CALL,
    ]
    assert simple(found[-1]) == Inbound(Kind.CALL, 7, 9, 2, data=CALL_7 + b"more")


FOREIGN = {
    "a call": call(CALL_8, xid=8),
    "a piece of another call": middle(CALL_8, xid=8),
    "a long call": call(b"", ZERO, xid=8, external=True),
    "properties": properties(xid=8),
    "properties that go on": properties(xid=8, final=False),
}


@pytest.mark.req("V2-A3")
@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_foreign_message_is_refused_and_what_it_interrupts_is_dropped(foreign: bytes) -> None:
    found = decode(middle(CALL_7), foreign, middle(b"more"), call(b"last"), call())
    assert found[:4] == [PIECE, refused(Cause.FLAGS, xid=8), PIECE, PIECE]
    assert simple(found[4]) == Inbound(Kind.CALL, 7, 9, 2, data=CALL_7)
    error = OutgoingError(8, 2, Refusal(Cause.FLAGS), answers_call=False)
    assert Version207().encode(error, 9) == words(8, 2, 9, 4, 5)


def test_a_long_call_under_the_same_xid_is_foreign() -> None:
    found = decode(middle(CALL_7), call(b"", ZERO, external=True), call(b"last"))
    assert found == [PIECE, refused(Cause.FLAGS), PIECE]


def test_an_answer_that_is_interrupted_is_broken_at_once() -> None:
    found = decode(middle(REPLY_7, answers=True), call(CALL_8, xid=8), middle(b"more", answers=True), reply(b"last"))
    assert found == [PIECE, replace(refused(Cause.FLAGS, xid=8), broken=7), PIECE, PIECE]


def test_a_sequence_that_is_too_long_is_refused_once_and_dropped() -> None:
    octets = middle(bytes(limits.CONTINUED_OCTETS_MAX // 2 + 1))
    found = decode(octets, octets, octets, call(b"last"), call())
    assert found[:4] == [PIECE, refused(Cause.SYSTEM), PIECE, PIECE]
    assert simple(found[4]) == Inbound(Kind.CALL, 7, 9, 2, data=CALL_7)


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
