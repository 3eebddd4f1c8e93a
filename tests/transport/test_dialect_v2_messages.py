"""Version 2: the meaning of each message, the refusals, and the messages that are sent."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from dialect_messages import PIECE, refused, simple
from rpcrdma import limits
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import header_v2
from rpcrdma.transport.dialects.header_parts import encode_property_set
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.dialects.v2 import Version2
from rpcrdma.transport.message import Cause, Inbound, Kind, OutgoingError, Refusal
from support.cases import each_case
from support.octets import words

ONE, TWO = Segment(1, 1, 1), Segment(0, 0, 0)
READ = ChunkLists((ReadChunk(4, (ONE,)),))
WRITE = ChunkLists((), (WriteChunk((ONE,)),))
ZERO = ChunkLists((ReadChunk(0, (ONE,)),))
REPLY_CHUNK = ChunkLists((), (), WriteChunk((ONE,)))
CALL_7, REPLY_7, CALL_8, REPLY_8 = words(7, 0), words(7, 1), words(8, 0), words(8, 1)
RECEIVES_8192 = ((2, b"\0\0\x20\0"),)


PREFIX = 20


def decode(*messages: bytes) -> list[Inbound | None]:
    """The messages of one connection, decoded."""
    dialect = Version2()
    return [dialect.decode(octets) for octets in messages]


def told(*, xid: int = 7) -> bytes:
    return words(xid, 2, 9, 5, 0) + encode_property_set(RECEIVES_8192)


def error_of(code: int, *numbers: int, xid: int = 7) -> bytes:
    return words(xid, 2, 9, 4, 1, code, *numbers)


def call(
    payload: bytes = CALL_7, chunks: ChunkLists = NO_CHUNKS, ends: int = 0, *, xid: int = 7, long: bool = False
) -> bytes:
    return header_v2.encode_message(int(long), xid, 9, 0, ends, chunks) + payload


def reply(payload: bytes = REPLY_7, chunks: ChunkLists = NO_CHUNKS, *, xid: int = 7, long: bool = False) -> bytes:
    return header_v2.encode_message(int(long), xid, 9, 1, 0, chunks) + payload


def piece(payload: bytes, *, xid: int = 7, answers: bool = False) -> bytes:
    return header_v2.encode_message(0, xid, 9, header_v2.MORE | answers, 0, NO_CHUNKS) + payload


# Sent messages


@pytest.mark.req("V2-37", "V2-40", "V2-A2", "V2-68", "V2-84")
def test_errors_repeat_xid_and_version() -> None:
    for cause, version, answers_call in itertools.product(set(Cause) - {Cause.VERSION}, (1, 2, 3), (True, False)):
        error = OutgoingError(7, version, Refusal(cause, 1, 2, limit=3), answers_call=answers_call)
        start = words(7, version, 9, 4, 1)
        assert Version2().encode(error, 9).startswith(start), cause


@pytest.mark.req("V1-76")
def test_a_version_is_refused_in_the_form_that_all_versions_know() -> None:
    for version in (1, 2, 3):
        error = OutgoingError(7, version, Refusal(Cause.VERSION, low=1, high=2), answers_call=False)
        assert Version2().encode(error, 9) == words(7, version, 9, 4, 1, 1, 2)
        assert Version1().encode(error, 9) == words(7, version, 9, 4, 1, 1, 2)


# Received messages


@pytest.mark.req("V2-A1")
def test_a_message_shorter_than_a_prefix_is_discarded() -> None:
    for octets in (call(), call(CALL_7, WRITE), reply(), piece(CALL_7), told(), error_of(2)):
        for length in range(PREFIX):
            assert decode(octets[:length]) == [None], length


@pytest.mark.req("V2-52")
def test_a_message_that_ends_too_early_is_refused() -> None:
    for octets in (call(), call(CALL_7, READ, 1), call(CALL_7, WRITE, 1), piece(b"")):
        for length in range(PREFIX, len(octets)):
            assert decode(octets[:length]) == [refused(Cause.HEADER)], length
    octets = told()
    for length in range(PREFIX, len(octets)):
        assert decode(octets[:length]) == [refused(Cause.PROPERTY)], length


FAULTY_CALLS: dict[str, Callable[[], bytes]] = {
    "no payload": lambda: call(b""),
    "a payload that is too short": lambda: call(CALL_7[:7]),
    "another XID": lambda: call(CALL_8),
    "a reply": lambda: call(REPLY_7),
    "neither call nor reply": lambda: call(words(7, 2)),
    "a handle without chunks": lambda: call(ends=1),
    "a handle that is not in the Write list": lambda: call(CALL_7, WRITE, 2),
    "a handle that is not in the Read list": lambda: call(CALL_7, READ, 2),
    "a Position that is no multiple of four": lambda: call(CALL_7, ChunkLists((ReadChunk(6, (ONE,)),))),
    "Position Zero beside a payload": lambda: call(CALL_7, ZERO),
    "Position Zero of two segments beside a payload": lambda: call(CALL_7, ChunkLists((ReadChunk(0, (ONE, ONE)),))),
    "long, without chunks": lambda: call(b"", long=True),
    "long, without a Call chunk": lambda: call(b"", WRITE, long=True),
    "long, followed by a payload": lambda: call(CALL_7, ZERO, long=True),
    "long, with a handle of no chunk": lambda: call(b"", ZERO, 3, long=True),
}


@pytest.mark.req("V2-52", "V2-38", "V2-28")
@each_case("fault", FAULTY_CALLS)
def test_a_faulty_call_is_refused(fault: str) -> None:
    assert decode(FAULTY_CALLS[fault]()) == [refused(Cause.HEADER)]


@pytest.mark.req("V2-39")
def test_long_messages() -> None:
    for chunks in (ZERO, ChunkLists((ZERO.reads[0], ReadChunk(4, (TWO,))), WRITE.writes, REPLY_CHUNK.reply)):
        found = decode(call(b"", chunks, 1, long=True))
        assert found == [Inbound(Kind.CALL, 7, 9, 2, chunks, long=True, ends=1)]
    found = decode(reply(b"", REPLY_CHUNK, long=True))
    assert found == [Inbound(Kind.REPLY, 7, 9, 2, REPLY_CHUNK, long=True)]


# Errors


# Continued messages


PAYLOAD = CALL_7 + bytes(range(24))


@pytest.mark.req("V2-2", "V2-26", "V2-27")
@each_case("cuts", [(8,), (0,), (32,), (3, 20), (1, 2, 3, 4, 5), (4, 4, 4)])
@each_case("chunks", [NO_CHUNKS, WRITE])
def test_a_call_may_be_divided_anywhere(cuts: tuple[int, ...], chunks: ChunkLists) -> None:
    parts = [PAYLOAD[a:b] for a, b in itertools.pairwise((0, *cuts, len(PAYLOAD)))]
    ends = 1 if chunks is WRITE else None
    *pieces, last = decode(*map(piece, parts[:-1]), call(parts[-1], chunks, ends or 0))
    assert pieces == [PIECE] * len(cuts)
    assert simple(last) == Inbound(Kind.CALL, 7, 9, 2, chunks, PAYLOAD, ends=ends)


FOREIGN: dict[str, Callable[[], bytes]] = {
    "a call": lambda: call(CALL_8, xid=8),
    "a piece of another call": lambda: piece(CALL_8, xid=8),
    "a long call": lambda: call(b"", ZERO, xid=8, long=True),
    "properties": lambda: told(xid=8),
}


@pytest.mark.req("V2-41", "V2-2", "V2-A3")
@each_case("foreign", FOREIGN)
def test_a_foreign_message_is_refused_and_the_interrupted_one_is_dropped(foreign: str) -> None:
    octets = FOREIGN[foreign]()
    found = decode(piece(CALL_7), octets, piece(b"more"), call(b"last"), call())
    assert found[:4] == [PIECE, refused(Cause.FLAGS, xid=8), PIECE, PIECE]
    assert simple(found[4]) == Inbound(Kind.CALL, 7, 9, 2, data=CALL_7)


def test_a_sequence_that_is_too_long_is_refused_once_and_dropped() -> None:
    octets = piece(bytes(limits.CONTINUED_OCTETS_MAX // 2 + 1))
    found = decode(octets, octets, octets, call(b"last"), call())
    assert found[:4] == [PIECE, refused(Cause.SYSTEM), PIECE, PIECE]
    assert simple(found[4]) == Inbound(Kind.CALL, 7, 9, 2, data=CALL_7)
