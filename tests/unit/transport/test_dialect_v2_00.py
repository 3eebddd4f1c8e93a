"""Version 2's dialect, first draft: what each message means, which are refused and how, and what is sent."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace

import pytest

from dialect_messages import FAULTY_REPLY, PIECE, RpcMessage, refused, simple, words
from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import Role
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects.header_parts import encode_property_set
from rpcrdma.transport.dialects.header_v2_00 import (
    MORE,
    RDMA2_MSG,
    RDMA2_NOMSG,
    Rdma2Msg,
    decode_header,
    encode_message,
)
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.dialects.v2_00 import Version2
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
from rpcrdma.transport.properties import encode_host_authentication

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


# What is sent


@pytest.mark.req("V2-37", "V2-38", "V2-39", "V2-68")
@pytest.mark.parametrize("kind", [Kind.CALL, Kind.REPLY])
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("ends", [None, 1])
def test_calls_and_replies_are_encoded_as_the_long_course_does(kind: Kind, long: bool, ends: int | None) -> None:
    for chunks in LISTS:
        shared = NO_CHUNKS if chunks == NO_CHUNKS else chunks
        long_here = long and shared is not NO_CHUNKS
        ends_here = ends if shared is not NO_CHUNKS else None
        octets = Version2().encode(RpcMessage(kind, shared, long=long_here, ends=ends_here), 9)
        header_type = RDMA2_NOMSG if long_here else RDMA2_MSG
        assert octets == encode_message(header_type, 7, 9, int(kind), ends_here or 0, chunks)


@pytest.mark.req("V2-37", "V2-43")
@pytest.mark.parametrize("kind", [Kind.CALL, Kind.REPLY])
def test_pieces_have_neither_chunks_nor_handle(kind: Kind) -> None:
    piece = Version2().encode_piece(RpcMessage(kind, WRITE, ends=1), 9, 100)
    assert piece == words(7, 2, 9, 0, MORE | kind, 0, 0, 0, 0)
    assert len(piece) == Version2.geometry.piece_header


@pytest.mark.req("V2-37", "V2-40", "V2-A2", "V2-68", "V2-84")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.VERSION}, key=lambda cause: cause.value))
def test_errors_repeat_xid_and_version(cause: Cause, version: int) -> None:
    error = OutgoingError(7, version, Refusal(cause, 1, 2, limit=3), answers_call=True)
    assert Version2().encode(error, 9)[:20] == words(7, version, 9, 4, 1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions_are_refused_in_the_form_that_all_versions_know(version: int) -> None:
    error = OutgoingError(7, version, Refusal(Cause.VERSION, low=1, high=2), answers_call=False)
    assert Version2().encode(error, 9) == words(7, version, 9, 4, 1, 1, 2)
    assert Version1().encode(error, 9) == words(7, version, 9, 4, 1, 1, 2)


@pytest.mark.req("V2-37", "V2-47")
def test_a_grant_is_a_long_message_without_chunks_and_xid() -> None:
    octets = Version2().encode(OutgoingGrant(), 0x00400008)
    assert octets == words(0, 2, 0x00400008, 1, 0, 0, 0, 0, 0)
    assert decode(octets) == [Inbound(Kind.GRANT, 0, 0x00400008, 2)]


@pytest.mark.req("V2-37")
def test_properties_travel_whole() -> None:
    told = ((2, b"\0\0\x20\0"), *encode_host_authentication(b"hello"))
    octets = Version2().encode(OutgoingProperties(7, told), 9) + Version2().encode_properties(told)
    assert octets == properties(encode_property_set(told))
    assert decode(octets) == [Inbound(Kind.PROPERTIES, 7, 9, 2, properties=told)]


def test_a_reply_may_end_what_its_call_names_for_that() -> None:
    call = RpcMessage(Kind.CALL, ChunkLists((), (WriteChunk((Segment(2, 1, 1), Segment(3, 1, 1))),)), ends=3)
    assert [Version2().may_end(call, handle) for handle in range(5)] == [False, False, False, True, False]
    call.ends = None
    assert not any(Version2().may_end(call, handle) for handle in range(5))


def test_private_data_change_nothing() -> None:
    for peer in (None, PrivateData(), PrivateData(remote_invalidation=True, send_octets=8192, receive_octets=1024)):
        assert Version2().agree(PrivateData(), peer) == Agreement(4096, 4096, remote_invalidation=True)


# What is received


@pytest.mark.parametrize("xid", [0, 1, 7])
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("ends", [0, 1])
def test_every_shape_of_lists_is_what_the_long_course_says(xid: int, direction: int, ends: int) -> None:
    """With small numbers, so that one word could be taken for another."""
    for chunks in LISTS:
        octets = message(struct.pack(">IIII", xid, direction, 1, 0), direction, xid=xid, chunks=chunks, inv_handle=ends)
        found = Version2().decode(octets)
        header = decode_header(octets)
        assert isinstance(header, Rdma2Msg)
        if direction == 0 and ends and not chunks.names(ends):
            assert found == refused(Cause.HEADER, xid=xid)
            continue
        expected = ends if ends and direction == 0 else None
        assert found == Inbound(Kind(direction), xid, 9, 2, header.chunks, octets, header.size, ends=expected)
        assert found is not None
        assert (found.chunks is NO_CHUNKS) == (chunks == NO_CHUNKS)


@pytest.mark.parametrize("word", range(17))
@pytest.mark.parametrize("value", [0, 1, 2, 3, 5, 0xFFFFFFFF])
@pytest.mark.parametrize("chunks", [NO_CHUNKS, ChunkLists((ReadChunk(4, (ONE,)),)), WRITE])
@pytest.mark.parametrize("handle", [0, 1])
def test_a_word_that_is_another_is_not_overlooked(word: int, value: int, chunks: ChunkLists, handle: int) -> None:
    inv_handle = handle if chunks is not NO_CHUNKS else 0
    octets = bytearray(message(CALL_7 + bytes(24), chunks=chunks, inv_handle=inv_handle))
    struct.pack_into(">I", octets, 4 * word, value)
    short, thorough = Version2().decode(octets), Version2()._decode_other(octets)
    assert short == thorough


@pytest.mark.req("V2-A1")
@pytest.mark.parametrize("octets", [message(), message(chunks=WRITE), properties(), words(7, 2, 9, 4, 1, 2)])
def test_what_is_shorter_than_a_prefix_is_discarded(octets: bytes) -> None:
    for length in range(20):
        assert Version2().decode(octets[:length]) is None


@pytest.mark.req("V2-52")
@pytest.mark.parametrize("octets", [message(), message(chunks=WRITE, inv_handle=1), properties()])
def test_what_ends_too_early_is_refused(octets: bytes) -> None:
    cause = Cause.PROPERTY if octets[15] == 5 else Cause.HEADER
    for length in range(20, len(octets)):
        assert Version2().decode(octets[:length]) == refused(cause)
    assert Version2().encode(OutgoingError(7, 2, Refusal(cause), answers_call=False), 9)[20:] == words(2)


@pytest.mark.req("V2-68")
@pytest.mark.parametrize("version", [0, 1, 3, 0xFFFFFFFF])
@pytest.mark.parametrize("rest", [b"", words(1), words(77, 77, 77, 77), message()[16:]])
@pytest.mark.parametrize("header_type", [0, 1, 2, 5, 77])
def test_the_version_is_looked_at_first(version: int, rest: bytes, header_type: int) -> None:
    refusal = Refusal(Cause.VERSION, low=2, high=2)
    octets = words(7, version, 9, header_type) + rest
    assert decode(octets) == [Inbound(Kind.UNREADABLE, 7, 9, version, refusal=refusal)]


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("header_type", UNKNOWN_TYPES)
@pytest.mark.parametrize("flags", [0, MORE, 4, 0xFFFFFFFE])
def test_an_unknown_type_is_refused_as_one(header_type: int, flags: int) -> None:
    assert decode(words(7, 2, 9, header_type, flags)) == [refused(Cause.HEADER_TYPE)]
    error = OutgoingError(7, 2, Refusal(Cause.HEADER_TYPE), answers_call=False)
    assert Version2().encode(error, 9) == words(7, 2, 9, 4, 1, 3)


@pytest.mark.req("V2-51", "V2-42", "V2-43")
@pytest.mark.parametrize(
    "octets",
    [
        message(flags=4),
        message(flags=0x80000000),
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


FAULTY_CALLS = {
    "no payload": message(b""),
    "a payload that is too short": message(CALL_7[:7]),
    "another XID": message(struct.pack(">II", 8, 0)),
    "a reply": message(REPLY_7),
    "neither call nor reply": message(struct.pack(">II", 7, 2)),
    "a handle without chunks": message(inv_handle=1),
    "a handle that is not in the Write list": message(chunks=WRITE, inv_handle=2),
    "a handle that is not in the Read list": message(chunks=ChunkLists((ReadChunk(4, (ONE,)),)), inv_handle=2),
    "a handle in a piece": message(b"", MORE, inv_handle=1),
    "a Position that is no multiple of four": message(chunks=ChunkLists((ReadChunk(6, (ONE,)),))),
    "Position Zero beside a payload": message(chunks=ZERO),
    "Position Zero of two segments beside a payload": message(chunks=ChunkLists((ReadChunk(0, (ONE, ONE)),))),
    "long, without Position Zero": message(b"", header_type=RDMA2_NOMSG, chunks=WRITE),
    "long, followed by a payload": message(CALL_7, header_type=RDMA2_NOMSG, chunks=ZERO),
    "long, with a handle of no chunk": message(b"", header_type=RDMA2_NOMSG, chunks=ZERO, inv_handle=3),
    "long, without chunks": message(b"", header_type=RDMA2_NOMSG),
}


@pytest.mark.req("V2-52", "V2-38")
@pytest.mark.parametrize("octets", FAULTY_CALLS.values(), ids=FAULTY_CALLS.keys())
def test_a_faulty_call_is_refused(octets: bytes) -> None:
    assert decode(octets) == [refused(Cause.HEADER)]


FAULTY_REPLIES = {
    "no payload": message(b"", 1),
    "another XID": message(struct.pack(">II", 8, 1), 1),
    "a call": message(CALL_7, 1),
    "neither call nor reply": message(struct.pack(">II", 7, 2), 1),
    "cut off": message(REPLY_7, 1, chunks=WRITE)[:40],
    "an unknown type": message(REPLY_7, 1, header_type=9),
    "an unknown flag": message(REPLY_7, 5),
    "chunks in a piece": message(REPLY_7, 3, chunks=WRITE),
    "long, goes on": message(b"", 3, header_type=RDMA2_NOMSG, chunks=REPLY_CHUNK),
    "long, without chunks": message(b"", 1, header_type=RDMA2_NOMSG),
    "too many Write chunks": message(REPLY_7, 1, chunks=ChunkLists((), (WriteChunk(()),) * 99)),
}


@pytest.mark.req("V2-48")
@pytest.mark.parametrize("octets", FAULTY_REPLIES.values(), ids=FAULTY_REPLIES.keys())
def test_a_faulty_reply_is_never_answered(octets: bytes) -> None:
    assert decode(octets) == [FAULTY_REPLY]


@pytest.mark.req("V2-39")
def test_long_messages_are_told_apart_by_their_flag() -> None:
    call = message(b"", header_type=RDMA2_NOMSG, chunks=ZERO, inv_handle=1)
    reply = message(b"", 1, header_type=RDMA2_NOMSG, chunks=REPLY_CHUNK, inv_handle=1)
    assert decode(call) == [Inbound(Kind.CALL, 7, 9, 2, ZERO, long=True, ends=1)]
    assert decode(reply) == [Inbound(Kind.REPLY, 7, 9, 2, REPLY_CHUNK, long=True)]


def test_a_grant_with_an_xid_or_a_handle_is_none() -> None:
    assert decode(words(7, 2, 9, 1, 0, 0, 0, 0, 0)) == [refused(Cause.HEADER)]
    assert decode(words(0, 2, 9, 1, 0, 1, 0, 0, 0)) == [refused(Cause.HEADER, xid=0)]
    assert decode(words(0, 2, 9, 1, 1, 0, 0, 0, 0)) == [Inbound(Kind.GRANT, 0, 9, 2)]


SEGMENTS_MAX = limits.CHUNK_SEGMENTS_MAX


@pytest.mark.req("V2-53", "V2-55", "V2-57")
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
        (ChunkLists((), (), WriteChunk((ONE,) * (SEGMENTS_MAX + 1))), Cause.SEGMENTS, SEGMENTS_MAX),
        (
            ChunkLists((ReadChunk(4, (ONE,)),), (), WriteChunk((ONE,) * SEGMENTS_MAX)),
            Cause.SEGMENTS,
            SEGMENTS_MAX,
        ),
    ],
    ids=["Read chunks", "Write chunks", "segments of a chunk", "segments of all chunks"],
)
def test_too_many_are_refused_with_the_number_that_is_taken(chunks: ChunkLists, cause: Cause, limit: int) -> None:
    assert decode(message(chunks=chunks)) == [refused(cause, limit=limit)]
    octets = Version2().encode(OutgoingError(7, 2, Refusal(cause, limit=limit), answers_call=True), 9)
    assert octets[24:] == words(limit)


def test_a_reply_may_return_all_segments_that_its_call_had() -> None:
    chunks = ChunkLists((), (WriteChunk((ONE,) * SEGMENTS_MAX),) * 2)
    (found,) = decode(message(REPLY_7, 1, chunks=chunks))
    assert found is not None
    assert found.chunks == chunks


# Errors


@pytest.mark.req("V2-A2")
@pytest.mark.parametrize("code", [0, 11, 100, 0xFFFFFFFF])
def test_an_unknown_error_is_discarded(code: int) -> None:
    for data in ((), (0,), (0, 0)):
        assert decode(words(7, 2, 9, 4, 1, code, *data)) == [None]


@pytest.mark.parametrize(
    "octets", [words(7, 2, 9, 4), words(7, 2, 9, 4, 1), words(7, 2, 9, 4, 1, 5), words(7, 3, 9, 4)]
)
def test_a_faulty_error_is_not_answered(octets: bytes) -> None:
    assert decode(octets) == [None]


@pytest.mark.parametrize("flags", [0, 1, 3])
def test_an_error_is_one_whatever_its_flags_are(flags: int) -> None:
    assert decode(words(7, 2, 9, 4, flags, 9, 9000)) == [
        Inbound(Kind.ERROR, 7, 9, 2, refusal=Refusal(Cause.REPLY_RESOURCE, needed=9000))
    ]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("octets", [words(7, 2, 9, 4, 1, 0, 1), words(7, 2, 9, 4, 1, 2, 1), words(7, 2, 9, 4, 1, 3, 3)])
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


PAYLOAD = CALL_7 + bytes(range(24))


@pytest.mark.req("V2-2", "V2-26", "V2-27")
@pytest.mark.parametrize("cuts", [(8,), (0,), (32,), (3, 20), (1, 2, 3, 4, 5), (4, 4, 4)])
@pytest.mark.parametrize("chunks", [NO_CHUNKS, WRITE])
def test_a_call_may_be_divided_anywhere(cuts: tuple[int, ...], chunks: ChunkLists) -> None:
    parts = [PAYLOAD[a:b] for a, b in itertools.pairwise((0, *cuts, len(PAYLOAD)))]
    ends = 1 if chunks is WRITE else None
    *pieces, last = decode(
        *(message(part, MORE) for part in parts[:-1]), message(parts[-1], chunks=chunks, inv_handle=ends or 0)
    )
    assert pieces == [PIECE] * len(cuts)
    assert simple(last) == Inbound(Kind.CALL, 7, 9, 2, chunks, PAYLOAD, ends=ends)


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


def test_grants_errors_and_other_versions_may_stand_within_a_sequence() -> None:
    grant, error = words(0, 2, 5, 1, 0, 0, 0, 0, 0), words(8, 2, 9, 4, 1, 10)
    found = decode(message(CALL_7, MORE), grant, error, words(8, 3, 9, 0, 0), b"short", message(b"more"))
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
    "a call": message(struct.pack(">II", 8, 0), xid=8),
    "a piece of another call": message(struct.pack(">II", 8, 0), MORE, xid=8),
    "a long call": message(b"", xid=8, header_type=RDMA2_NOMSG, chunks=ZERO),
    "properties": properties(xid=8),
}


@pytest.mark.req("V2-41", "V2-2")
@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_foreign_message_is_refused_and_what_it_interrupts_is_dropped(foreign: bytes) -> None:
    found = decode(message(CALL_7, MORE), foreign, message(b"more", MORE), message(b"last"), message())
    assert found[:4] == [PIECE, refused(Cause.FLAGS, xid=8), PIECE, PIECE]
    assert simple(found[4]) == Inbound(Kind.CALL, 7, 9, 2, data=CALL_7)


@pytest.mark.req("V2-41")
@pytest.mark.parametrize(
    "foreign",
    [properties(), message(b"", header_type=RDMA2_NOMSG, chunks=ZERO)],
    ids=["properties", "a long call"],
)
def test_another_type_under_the_same_xid_is_foreign(foreign: bytes) -> None:
    assert decode(message(CALL_7, MORE), foreign, message(b"last")) == [PIECE, refused(Cause.FLAGS), PIECE]


def test_a_call_in_the_midst_of_an_answer_is_foreign_and_breaks_it_at_once() -> None:
    found = decode(message(REPLY_7, 3), message(xid=8), message(b"more", 3), message(b"last", 1), message(REPLY_7, 1))
    assert found[:4] == [PIECE, replace(refused(Cause.FLAGS, xid=8), broken=7), PIECE, PIECE]
    assert found[4] is not None
    assert not found[4].long


def test_a_foreign_answer_is_not_refused() -> None:
    found = decode(message(struct.pack(">II", 8, 0), MORE, xid=8), message(REPLY_7, 1), message(b"", xid=8))
    assert found == [replace(PIECE, xid=8), FAULTY_REPLY, replace(PIECE, xid=8)]


@pytest.mark.parametrize(
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


def test_a_sequence_that_is_too_long_is_refused_once_and_dropped() -> None:
    dialect = Version2()
    octets = message(bytes(limits.CONTINUED_OCTETS_MAX // 8 + 1), MORE)
    found = [dialect.decode(octets) for _ in range(10)]
    assert found == [PIECE] * 7 + [refused(Cause.SYSTEM)] + [PIECE] * 2
    assert dialect.decode(message(b"last")) == PIECE
    assert simple(dialect.decode(message())) == Inbound(Kind.CALL, 7, 9, 2, data=CALL_7)


def test_an_answer_that_is_too_long_fails_its_call_once() -> None:
    dialect = Version2()
    octets = message(bytes(limits.CONTINUED_OCTETS_MAX // 2 + 1), 3)
    assert [dialect.decode(octets) for _ in range(3)] == [PIECE, FAULTY_REPLY, PIECE]
    assert dialect.decode(message(b"last", 1)) == PIECE


def test_connections_do_not_share_what_has_arrived() -> None:
    one, other = Version2(), Version2()
    one.decode(message(CALL_7, MORE))
    assert simple(other.decode(message())) == Inbound(Kind.CALL, 7, 9, 2, data=CALL_7)
