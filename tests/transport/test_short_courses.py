"""Usual messages take the short courses of the dialects, in both directions, and come out whole."""

from __future__ import annotations

from typing import Any

import pytest

from dialect_messages import RpcMessage
from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import v1, v2
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.dialects.v2 import Version2
from rpcrdma.transport.message import Cause, Inbound, Kind, OutgoingExtension, Refusal
from support.cases import each_case
from support.octets import words

XID, CREDITS = 0x01020304, 0x05060708
HANDLE, LENGTH, OFFSET = 0x090A0B0C, 0x0D0E0F10, 0x1112131415161718
NAMED = (HANDLE, LENGTH, OFFSET >> 32, OFFSET & 0xFFFFFFFF)
SEGMENT = Segment(HANDLE, LENGTH, OFFSET)
WRITE = ChunkLists((), (WriteChunk((SEGMENT,)),))
READ = ChunkLists((ReadChunk(8, (SEGMENT,)),))
AT_ZERO = ChunkLists((ReadChunk(0, (SEGMENT,)),))
CALL, REPLY = Kind.CALL, Kind.REPLY

V1 = [
    (CALL, NO_CHUNKS, words(XID, 1, CREDITS, 0, 0, 0, 0)),
    (REPLY, NO_CHUNKS, words(XID, 1, CREDITS, 0, 0, 0, 0)),
    (CALL, WRITE, words(XID, 1, CREDITS, 0, 0, 1, 1, *NAMED, 0, 0)),
    (REPLY, WRITE, words(XID, 1, CREDITS, 0, 0, 1, 1, *NAMED, 0, 0)),
    (CALL, READ, words(XID, 1, CREDITS, 0, 1, 8, *NAMED, 0, 0, 0)),
    (REPLY, READ, words(XID, 1, CREDITS, 0, 1, 8, *NAMED, 0, 0, 0)),
    (CALL, AT_ZERO, words(XID, 1, CREDITS, 0, 1, 0, *NAMED, 0, 0, 0)),
]
V2 = [
    (CALL, NO_CHUNKS, 0, words(XID, 2, CREDITS, 0, 0, 0, 0, 0, 0)),
    (REPLY, NO_CHUNKS, 0, words(XID, 2, CREDITS, 0, 1, 0, 0, 0, 0)),
    (CALL, WRITE, 0, words(XID, 2, CREDITS, 0, 0, 0, 0, 1, 1, *NAMED, 0, 0)),
    (CALL, WRITE, HANDLE, words(XID, 2, CREDITS, 0, 0, HANDLE, 0, 1, 1, *NAMED, 0, 0)),
    (REPLY, WRITE, 0, words(XID, 2, CREDITS, 0, 1, 0, 0, 1, 1, *NAMED, 0, 0)),
    (CALL, READ, 0, words(XID, 2, CREDITS, 0, 0, 0, 1, 8, *NAMED, 0, 0, 0)),
    (CALL, READ, HANDLE, words(XID, 2, CREDITS, 0, 0, HANDLE, 1, 8, *NAMED, 0, 0, 0)),
]
RESTS = (b"", b"\0", bytes(3), bytes(4), bytes(100))


def refuse(*_: object, **__: object) -> Any:
    pytest.fail("the long course was taken")


def payload(kind: Kind, rest: bytes) -> bytes:
    return words(XID, int(kind)) + rest


def outcome(dialect: Any, octets: bytes) -> Any:
    """A message that was read, or the error that this raised."""
    try:
        return dialect.decode(octets)
    except DecodeError as error:
        return error


def written(version: Any, kind: Kind, chunks: ChunkLists, ends: int = 0) -> Any:
    return version().encode(RpcMessage(kind, chunks, xid=XID, ends=ends or None), CREDITS)


@each_case("rest", RESTS)
def test_usual_messages_of_version_1_are_read_by_the_short_course(rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v1, "decode_header", refuse)
    for kind, chunks, header in V1:
        octets = header + payload(kind, rest)
        ends = None if chunks is NO_CHUNKS else HANDLE
        found = outcome(Version1(), octets)
        assert found == Inbound(kind, XID, CREDITS, 1, chunks, octets, len(header), ends=ends)
        assert type(found) is Inbound
        assert type(found.kind) is Kind
    monkeypatch.setattr(v1, "_decode_other", refuse)
    for kind, chunks, header in V1[:2]:
        octets = header + payload(kind, rest)
        assert outcome(Version1(), octets) == Inbound(kind, XID, CREDITS, 1, chunks, octets, 28)


@each_case("rest", RESTS)
def test_usual_messages_of_version_2_are_read_by_the_short_course(rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Version2, "_decode_other", refuse)
    for kind, chunks, ends, header in V2:
        octets = header + payload(kind, rest)
        found = outcome(Version2(), octets)
        assert found == Inbound(kind, XID, CREDITS, 2, chunks, octets, len(header), ends=ends or None)
        assert type(found) is Inbound
        assert type(found.kind) is Kind
    monkeypatch.setattr(v2, "_decode_one_segment", refuse)
    for kind, chunks, _, header in V2[:2]:
        octets = header + payload(kind, rest)
        assert outcome(Version2(), octets) == Inbound(kind, XID, CREDITS, 2, chunks, octets, 36)


def test_usual_messages_of_version_1_are_written_by_the_short_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v1, "encode_message", refuse)
    for kind, chunks, header in V1:
        assert written(Version1, kind, chunks) == header


def test_usual_messages_of_version_2_are_written_by_the_short_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2, "encode_message", refuse)
    for kind, chunks, ends, header in V2:
        assert written(Version2, kind, chunks, ends) == header


ODD = (0, 1, 2, 3, 4, 5, 8, 10, 13, 0x80000000, 0xFFFFFFFF, XID, HANDLE)


def changed(octets: bytes) -> list[bytes]:
    """The message with each of its first twenty words replaced, and cut off at each of its octets."""
    found = [octets[:length] for length in range(len(octets))]
    for at in range(0, min(80, len(octets)), 4):
        found += [octets[:at] + words(value) + octets[at + 4 :] for value in ODD]
    return found


@each_case("number", range(len(V1)))
def test_unusual_messages_of_version_1_are_the_same_by_either_course(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, _, header = V1[number]
    several = changed(header + payload(kind, bytes(12)))
    short = [Version1().decode(octets) for octets in several]
    monkeypatch.setattr(v1, "_decode_one_segment", lambda _: None)
    thorough = [v1._decode_other(octets) for octets in several]
    for octets, one, other in zip(several, short, thorough, strict=True):
        assert one == other, octets.hex(" ", 4)


@pytest.mark.req("V2-38")
@each_case("number", range(len(V2)))
def test_unusual_messages_of_version_2_are_the_same_by_either_course(number: int) -> None:
    kind, _, _, header = V2[number]
    for octets in changed(header + payload(kind, bytes(12))):
        assert outcome(Version2(), octets) == Version2()._decode_other(octets), octets.hex(" ", 4)


def test_flags_of_an_extension_are_its_own() -> None:
    flags_refused = Inbound(Kind.UNREADABLE, XID, CREDITS, 2, refusal=Refusal(Cause.FLAGS))

    def found(header_type: int, flags: int) -> Any:
        dialect = Version2()
        dialect.extend({64: (0x10, True), 65: (0x20, False)}, {})
        octets = words(XID, 2, CREDITS, header_type, flags) + b"body"
        message = outcome(dialect, octets)
        if isinstance(message, Inbound) and message.kind is Kind.EXTENSION:
            assert bytes(message.data[message.start :]) == b"body"
            assert (message.xid, message.credit_word, message.version) == (XID, CREDITS, 2)
            return message.header_type, message.flags, message.answers
        return message

    assert found(64, 0) == (64, 0, False)
    assert found(64, 0x10) == (64, 0x10, False)
    assert found(64, 0x11) == (64, 0x10, True)
    assert found(65, 0x21) == (65, 0x20, True)
    assert found(64, 0x20) == found(65, 0x10) == found(65, 4) == found(64, 0x80000000) == flags_refused
    assert found(65, 2) == found(65, 0x22) == flags_refused
    assert found(64, 2) == Inbound(Kind.PIECE, XID, CREDITS, 2)


@each_case("version", [1, 2, 3])
def test_errors_of_an_extension_are_of_the_version_that_is_extended(version: int) -> None:
    dialect = Version2()
    dialect.extend({}, {0x80: 2})
    found = Inbound(Kind.ERROR, XID, CREDITS, 2, refusal=Refusal(Cause.EXTENSION, code=0x80, words=(5, 6)))
    assert outcome(dialect, words(XID, version, CREDITS, 4, 1, 0x80, 5, 6)) == (found if version == 2 else None)


@each_case("answer", [False, True])
def test_messages_of_an_extension_are_written_with_its_flags(answer: bool) -> None:
    message = OutgoingExtension(XID, 64, 0x30, (), answer=answer)
    assert Version2().encode(message, CREDITS) == words(XID, 2, CREDITS, 64, 0x31 if answer else 0x30)
    assert Version2().encode_piece(message, CREDITS) == words(XID, 2, CREDITS, 64, 0x33 if answer else 0x32)
