"""Usual messages take the short courses of the dialects, in both directions, and come out whole."""

from __future__ import annotations

from typing import Any

import pytest

from dialect_messages import RpcMessage, words
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import v1, v2_00, v2_07
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.dialects.v2_00 import Version2
from rpcrdma.transport.dialects.v2_07 import Version207
from rpcrdma.transport.message import Inbound, Kind

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
V2_00 = [
    (CALL, NO_CHUNKS, 0, words(XID, 2, CREDITS, 0, 0, 0, 0, 0, 0)),
    (REPLY, NO_CHUNKS, 0, words(XID, 2, CREDITS, 0, 1, 0, 0, 0, 0)),
    (CALL, WRITE, 0, words(XID, 2, CREDITS, 0, 0, 0, 0, 1, 1, *NAMED, 0, 0)),
    (CALL, WRITE, HANDLE, words(XID, 2, CREDITS, 0, 0, HANDLE, 0, 1, 1, *NAMED, 0, 0)),
    (REPLY, WRITE, 0, words(XID, 2, CREDITS, 0, 1, 0, 0, 1, 1, *NAMED, 0, 0)),
    (CALL, READ, 0, words(XID, 2, CREDITS, 0, 0, 0, 1, 8, *NAMED, 0, 0, 0)),
    (CALL, READ, HANDLE, words(XID, 2, CREDITS, 0, 0, HANDLE, 1, 8, *NAMED, 0, 0, 0)),
]
V2_07 = [
    (CALL, NO_CHUNKS, 0, words(XID, 2, CREDITS, 10, 0, 0, 0, 0)),
    (REPLY, NO_CHUNKS, 0, words(XID, 2, CREDITS, 13, 0)),
    (CALL, WRITE, 0, words(XID, 2, CREDITS, 10, 0, 0, 1, 1, *NAMED, 0, 0)),
    (CALL, WRITE, HANDLE, words(XID, 2, CREDITS, 10, HANDLE, 0, 1, 1, *NAMED, 0, 0)),
    (CALL, READ, 0, words(XID, 2, CREDITS, 10, 0, 1, 8, *NAMED, 0, 0, 0)),
    (CALL, READ, HANDLE, words(XID, 2, CREDITS, 10, HANDLE, 1, 8, *NAMED, 0, 0, 0)),
    (REPLY, WRITE, 0, words(XID, 2, CREDITS, 13, 1, 1, *NAMED, 0)),
]
RESTS = (b"", b"\0", bytes(3), bytes(4), bytes(100))


def refuse(*_: object, **__: object) -> Any:
    pytest.fail("the long course was taken")


def payload(kind: Kind, rest: bytes) -> bytes:
    return words(XID, int(kind)) + rest


@pytest.mark.parametrize("rest", RESTS, ids=len)
def test_usual_messages_of_version_1_are_read_by_the_short_course(rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v1, "decode_header", refuse)
    for kind, chunks, header in V1:
        octets = header + payload(kind, rest)
        ends = None if chunks is NO_CHUNKS else HANDLE
        found = Version1().decode(octets)
        assert found == Inbound(kind, XID, CREDITS, 1, chunks, octets, len(header), ends=ends)
        assert type(found) is Inbound
        assert type(found.kind) is Kind
    monkeypatch.setattr(v1, "_decode_other", refuse)
    for kind, chunks, header in V1[:2]:
        octets = header + payload(kind, rest)
        assert Version1().decode(octets) == Inbound(kind, XID, CREDITS, 1, chunks, octets, 28)


@pytest.mark.parametrize("rest", RESTS, ids=len)
def test_usual_messages_of_version_2_are_read_by_the_short_course(rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Version2, "_decode_other", refuse)
    for kind, chunks, ends, header in V2_00:
        octets = header + payload(kind, rest)
        found = Version2().decode(octets)
        assert found == Inbound(kind, XID, CREDITS, 2, chunks, octets, len(header), ends=ends or None)
        assert type(found) is Inbound
        assert type(found.kind) is Kind
    monkeypatch.setattr(v2_00, "_decode_one_segment", refuse)
    for kind, chunks, _, header in V2_00[:2]:
        octets = header + payload(kind, rest)
        assert Version2().decode(octets) == Inbound(kind, XID, CREDITS, 2, chunks, octets, 36)


@pytest.mark.parametrize("rest", RESTS, ids=len)
def test_usual_messages_of_the_last_draft_are_read_by_the_short_course(
    rest: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Version207, "_decode_other", refuse)
    for kind, chunks, ends, header in V2_07:
        octets = header + payload(kind, rest)
        found = Version207().decode(octets)
        assert found == Inbound(kind, XID, CREDITS, 2, chunks, octets, len(header), ends=ends or None)
        assert type(found) is Inbound
        assert type(found.kind) is Kind
    monkeypatch.setattr(v2_07, "_decode_one_segment", refuse)
    for kind, chunks, _, header in V2_07[:2]:
        octets = header + payload(kind, rest)
        assert Version207().decode(octets) == Inbound(kind, XID, CREDITS, 2, chunks, octets, len(header))


def test_usual_messages_of_version_1_are_written_by_the_short_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v1, "encode_message", refuse)
    for kind, chunks, header in V1:
        assert Version1().encode(RpcMessage(kind, chunks, xid=XID), CREDITS) == header


def test_usual_messages_of_version_2_are_written_by_the_short_course(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2_00, "encode_message", refuse)
    for kind, chunks, ends, header in V2_00:
        assert Version2().encode(RpcMessage(kind, chunks, xid=XID, ends=ends or None), CREDITS) == header


def test_usual_messages_of_the_last_draft_are_written_by_the_short_course(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, chunks, ends, header in V2_07:
        assert Version207().encode(RpcMessage(kind, chunks, xid=XID, ends=ends or None), CREDITS) == header
    monkeypatch.setattr(v2_07, "encode_header", refuse)
    for kind, chunks, ends, header in V2_07[:-1]:
        assert Version207().encode(RpcMessage(kind, chunks, xid=XID, ends=ends or None), CREDITS) == header


ODD = (0, 1, 2, 3, 4, 5, 8, 10, 13, 0x80000000, 0xFFFFFFFF, XID, HANDLE)


def changed(octets: bytes) -> list[bytes]:
    """The message with each of its first twenty words replaced, and cut off at each of its octets."""
    found = [octets[:length] for length in range(len(octets))]
    for at in range(0, min(80, len(octets)), 4):
        found += [octets[:at] + words(value) + octets[at + 4 :] for value in ODD]
    return found


@pytest.mark.parametrize("number", range(len(V1)))
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


@pytest.mark.parametrize("number", range(len(V2_00)))
def test_unusual_messages_of_version_2_are_the_same_by_either_course(number: int) -> None:
    kind, _, _, header = V2_00[number]
    for octets in changed(header + payload(kind, bytes(12))):
        assert Version2().decode(octets) == Version2()._decode_other(octets), octets.hex(" ", 4)


@pytest.mark.parametrize("number", range(len(V2_07)))
def test_unusual_messages_of_the_last_draft_are_the_same_by_either_course(number: int) -> None:
    kind, _, _, header = V2_07[number]
    for octets in changed(header + payload(kind, bytes(12))):
        assert Version207().decode(octets) == Version207()._decode_other(octets), octets.hex(" ", 4)


@pytest.mark.parametrize("version", [Version1, Version2, Version207])
def test_lists_that_are_not_usual_are_never_cut_short(version: Any) -> None:
    two = (SEGMENT, Segment(1, 2, 3))
    unusual = [
        ChunkLists((ReadChunk(8, two),)),
        ChunkLists((ReadChunk(8, (SEGMENT,)), ReadChunk(12, (SEGMENT,)))),
        ChunkLists((), (WriteChunk(two),)),
        ChunkLists((), (WriteChunk(()),)),
        ChunkLists((), (WriteChunk((SEGMENT,)), WriteChunk((SEGMENT,)))),
        ChunkLists((ReadChunk(8, (SEGMENT,)),), (WriteChunk((SEGMENT,)),)),
        ChunkLists((ReadChunk(8, (SEGMENT,)),), (), WriteChunk((SEGMENT,))),
        ChunkLists((), (WriteChunk((SEGMENT,)),), WriteChunk((SEGMENT,))),
        ChunkLists((), (), WriteChunk((SEGMENT,))),
    ]
    dialect = version()
    for chunks in unusual:
        header = dialect.encode(RpcMessage(CALL, chunks, xid=XID), CREDITS)
        octets = header + payload(CALL, b"")
        ends = HANDLE if version is Version1 and chunks.count_segments() else None
        expected = Inbound(CALL, XID, CREDITS, dialect.version, chunks, octets, len(header), ends=ends)
        assert dialect.decode(octets) == expected
        assert len(header) <= dialect.geometry.call_header + dialect.geometry.size_chunks(chunks)


@pytest.mark.parametrize(
    ("version", "header"),
    [
        (Version1, words(XID, 1, CREDITS, 1, 1, 0, *NAMED, 0, 0, 0)),
        (Version2, words(XID, 2, CREDITS, 1, 0, HANDLE, 1, 0, *NAMED, 0, 0, 0)),
        (Version207, words(XID, 2, CREDITS, 8, HANDLE, 1, 0, *NAMED, 0, 0, 0, 0)),
    ],
)
def test_a_long_call_has_a_type_of_its_own(version: Any, header: bytes) -> None:
    assert version().encode(RpcMessage(CALL, AT_ZERO, xid=XID, long=True, ends=HANDLE), CREDITS) == header
    found = version().decode(header)
    assert found == Inbound(CALL, XID, CREDITS, version.version, AT_ZERO, long=True, ends=HANDLE)
