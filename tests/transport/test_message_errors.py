"""Errors of version 2, each raised by a responder in its case, and the requester's reaction."""

from __future__ import annotations

import struct

import pytest

from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import (
    Call,
    CallFailed,
    ChunkRefused,
    Closed,
    ReplyArrived,
    ReplyBound,
    ReplySent,
    Role,
    TransportConfig,
)
from rpcrdma.transport import responder as responder_module
from rpcrdma.transport.message import Cause
from rpcrdma.transport.reactions import CallForm
from rpcrdma.xdr.codec import Payload
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case

CALL, REPLY = 0, 1
XID = 0x5EED
SMALL = {"offered_send_octets": 4096, "offered_receive_octets": 4096}
# Everything that could be moved by RDMA is.
CHUNKS = TransportConfig(in_messages_octets_max=0, **SMALL)


class Pair(EndpointPair):
    """A client and a server in version 2; the server answers a call each time that it comes."""

    def __init__(self, client: TransportConfig = CHUNKS, server: TransportConfig = CHUNKS) -> None:
        super().__init__(client, server, version="2")
        self.connect()
        self.runs = 0

    def call(self, payload: Payload, reply: Payload, bound: ReplyBound, into: tuple = ()) -> ReplyArrived | CallFailed:
        """Makes a call, and returns its outcome."""
        handle = self.client.call(XID, payload, bound, into)
        while True:
            self.run()
            incoming = None
            for event in self.server_events():
                if not isinstance(event, ReplySent):
                    incoming = event.incoming  # type: ignore[union-attr]
            if incoming is None:
                break
            self.runs += 1
            self.server.reply(incoming, reply)
        (event,) = self.client_events()
        assert isinstance(event, ReplyArrived | CallFailed)
        assert event.call is handle
        assert not self.client_pd.regions
        assert not self.server_pd.regions
        assert self.client.calls_in_flight == self.server.calls_in_flight == 0
        return event

    def succeeds(self, payload: Payload, reply: Payload, bound: ReplyBound, into: tuple = ()) -> Call:
        event = self.call(payload, reply, bound, into)
        assert isinstance(event, ReplyArrived), event
        decoder = event.decoder
        assert decoder.octets(8, "start") == struct.pack(">II", XID, REPLY)
        position = 0
        stream = bytes(reply.reduced)
        for item in reply.items:
            # Its length is the word before its Position.
            plain = item.position - 4 - 8 - position
            decoder.octets(plain, "plain")
            assert bytes(decoder.bulk(1 << 24, "item")) == bytes(item.data)
            position = item.position - 8 + (len(item.data) + 3 & ~3)
        if not reply.items:
            assert decoder.octets(len(stream) - 8, "rest") == stream[8:]
        decoder.done("reply")
        return event.call

    def fails(self, payload: Payload, reply: Payload, bound: ReplyBound, into: tuple = ()) -> CallFailed:
        event = self.call(payload, reply, bound, into)
        assert isinstance(event, CallFailed), event
        return event


def pattern(length: int) -> bytes:
    return bytes(n * 7 & 0xFF for n in range(length))


# 1: the version


@each_case("server_version", ["1"])
def test_a_server_of_another_version_is_spoken_to_in_that_or_left(server_version: str) -> None:
    pair = EndpointPair(version="auto", server_version=server_version).connect()
    assert pair.client.version == pair.server.version == 1
    pair = EndpointPair(version="2", server_version=server_version)
    pair.run()
    closed = pair.client_events()[-1]
    assert isinstance(closed, Closed)
    assert "the server speaks version 1 of RPC-over-RDMA only, this end was told to speak 2" in closed.reason


# 2, 3, 4, 10: errors that fail a call for good


# 5: Read chunks


@pytest.mark.req("V2-54")
def test_a_call_at_position_zero_that_is_refused_for_its_read_chunks_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    monkeypatch.setattr(limits, "READ_CHUNKS_MAX", 0)
    call = message(XID, CALL, *((b"head", pattern(5000 + n)) for n in range(3)))
    failed = pair.fails(call, message(XID, REPLY), ReplyBound(8))
    assert isinstance(failed.error, ChunkRefused)
    assert failed.error.refusal.cause is Cause.READ_CHUNKS
    assert (pair.server.statistics.errors_sent, pair.client.statistics.resent_long) == (2, 1)


# 6: Write chunks


@pytest.mark.req("V2-55", "V2-56")
def test_more_write_chunks_than_a_server_takes_come_again_as_one_reply_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    monkeypatch.setattr(limits, "WRITE_CHUNKS_MAX", 1)
    memory = bytearray(5000)
    reply = message(XID, REPLY, (b"", pattern(5000)), (b"", pattern(6000)))
    handle = pair.succeeds(message(XID, CALL), reply, ReplyBound(20, (5000, 6000)), (memory,))
    assert handle.chunks.writes == ()
    assert handle.chunks.reply is not None
    assert memory == pattern(5000), "the caller's memory is filled all the same"
    assert pair.runs == 1
    assert pair.client.statistics.resent_without_chunks == 1


# 7: segments


@pytest.mark.req("V2-57", "V2-A18")
def test_more_segments_than_a_server_takes_come_again_as_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(TransportConfig(in_messages_octets_max=0, segment_octets_max=1500, **SMALL))
    monkeypatch.setattr(limits, "CHUNK_SEGMENTS_MAX", 2)
    reply = message(XID, REPLY, (b"", pattern(5000)))
    handle = pair.succeeds(message(XID, CALL, (b"", pattern(4000))), reply, ReplyBound(20, (5000,)))
    assert [len(chunk.segments) for chunk in handle.chunks.chunks] == [1, 1]
    assert pair.client.statistics.resent_in_segments == 1
    assert pair.runs == 1


@pytest.mark.req("V2-57", "V2-A18")
def test_segments_that_cannot_be_fewer_fail_the_call_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    monkeypatch.setattr(limits, "CHUNK_SEGMENTS_MAX", 1)
    failed = pair.fails(
        message(XID, CALL, (b"", bytes(4000)), (b"", bytes(4000))), message(XID, REPLY), ReplyBound(20, (5000,))
    )
    assert isinstance(failed.error, ChunkRefused)
    assert (failed.error.refusal.cause, failed.error.refusal.limit) == (Cause.SEGMENTS, 1)
    assert pair.client.statistics.resent_in_segments == 0


# 8 and 9: resources


@pytest.fixture
def uncontinued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies that do not fit their chunks cannot be continued."""
    monkeypatch.setattr(responder_module, "CONTINUED_OCTETS_MAX", 0)


@pytest.mark.req("V2-58", "V2-62", "V2-88", "V2-89", "V2-24")
@pytest.mark.usefixtures("uncontinued")
@each_case("which", [0, 1, 2])
def test_a_result_larger_than_its_write_chunk_succeeds_at_the_second_try(which: int) -> None:
    pair = Pair()
    sizes = [2000, 2000, 2000]
    results = [pattern(9000 if index == which else 1999) for index in range(3)]
    reply = message(XID, REPLY, *((b"", result) for result in results))
    handle = pair.succeeds(message(XID, CALL), reply, ReplyBound(20, tuple(sizes)))
    assert [chunk.length for chunk in handle.chunks.writes] == [9000 if index == which else 2000 for index in range(3)]
    assert (pair.runs, pair.client.statistics.resent_larger) == (2, 1)


@pytest.mark.req("V2-58", "V2-89")
@pytest.mark.usefixtures("uncontinued")
def test_a_result_larger_than_the_callers_memory_fails_the_call() -> None:
    pair = Pair()
    memory = bytearray(2000)
    reply = message(XID, REPLY, (b"", pattern(2001)))
    failed = pair.fails(message(XID, CALL), reply, ReplyBound(20, (2000,)), (memory,))
    assert isinstance(failed.error, ChunkRefused)
    assert failed.error.refusal[:3] == (Cause.WRITE_RESOURCE, 1, 2001)
    assert memory == bytes(2000)
    assert pair.runs == 1


@pytest.mark.req("V2-59", "V2-62")
def test_a_reply_that_is_too_long_for_messages_succeeds_at_the_second_try() -> None:
    pair = Pair()
    length = limits.CONTINUED_OCTETS_MAX + 4
    pair.succeeds(message(XID, CALL), message(XID, REPLY, (pattern(length), None)), ReplyBound(8))
    assert (pair.runs, pair.client.statistics.resent_larger) == (2, 1)
    assert pair.server.statistics.replies_long == 1


def test_a_form_that_cannot_be_sent_fails_the_call() -> None:
    peer = BareMessages(Role.CLIENT, CHUNKS)
    handle = peer.endpoint.call(XID, message(XID, CALL), ReplyBound(20, (500,)), (None,))
    peer.heard()
    handle.into = (None, memoryview(bytes(5000)))
    handle.form = CallForm(ReplyBound(20, (500, 5000)))
    peer.send(raw.error(XID, 8, 1, 6000))
    (event,) = peer.endpoint_events()
    assert isinstance(event, CallFailed)
    assert "read-only" in str(event.error)
    assert not peer.endpoint_pd.regions
    assert peer.endpoint.calls_in_flight == 0


@pytest.mark.req("V2-61", "V2-46")
@each_case("bound", [ReplyBound(8), ReplyBound(8, (5000,)), ReplyBound(20_000)])
def test_a_reply_that_fits_nothing_that_was_offered_is_continued(bound: ReplyBound) -> None:
    pair = Pair()
    pair.succeeds(message(XID, CALL), message(XID, REPLY, (b"", pattern(100_000))), bound)
    assert pair.runs == 1
    assert pair.server.statistics.errors_sent == 0
    assert pair.server.statistics.messages_continued == 1
    assert pair.server.statistics.rdma_writes == 0


# Properties
