"""Errors of version 2, each raised by a responder in its case, and the requester's reaction."""

from __future__ import annotations

import struct

import pytest

from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import (
    Call,
    CallFailed,
    CallRefused,
    ChunkRefused,
    Closed,
    Ready,
    ReplyArrived,
    ReplyBound,
    ReplySent,
    Role,
    TransportConfig,
    VersionRefused,
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


@each_case(("code", "cause"), [(2, Cause.HEADER), (3, Cause.HEADER_TYPE), (4, Cause.FLAGS), (10, Cause.SYSTEM)])
@pytest.mark.req("V2-60")
def test_an_error_without_a_remedy_fails_the_call_and_it_is_not_sent_again(code: int, cause: Cause) -> None:
    peer = BareMessages(Role.CLIENT, CHUNKS)
    peer.endpoint.call(XID, message(XID, CALL, (b"", bytes(5000))), ReplyBound(9000, (5000,)))
    assert len(peer.heard()) == 1
    peer.send(raw.error(XID, code))
    (event,) = peer.endpoint_events()
    assert isinstance(event, CallFailed)
    assert isinstance(event.error, CallRefused)
    assert event.error.refusal.cause is cause
    assert [each for each in peer.heard() if each.xid] == []
    assert not peer.endpoint_pd.regions
    assert peer.endpoint.statistics.calls_failed == 1


def test_a_version_error_in_mid_connection_fails_the_call() -> None:
    peer = BareMessages(Role.CLIENT)
    peer.endpoint.call(XID, message(XID, CALL), ReplyBound(8))
    peer.send(raw.error(XID, 1, 1, 7))
    (event,) = peer.endpoint_events()
    assert isinstance(event, CallFailed)
    assert isinstance(event.error, VersionRefused)
    assert (event.error.low, event.error.high) == (1, 7)


@pytest.mark.req("V2-60", "V2-67")
def test_an_argument_that_may_not_be_moved_fails_the_call_for_good() -> None:
    pair = Pair()
    pair.client.call(XID, message(XID, CALL, (b"", bytes(5000))), ReplyBound(0))
    (incoming,) = pair.arrived()
    pair.server.fail_call(incoming)
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, CallFailed)
    assert isinstance(event.error, CallRefused)
    assert event.error.refusal.cause is Cause.SYSTEM
    assert pair.arrived() == []


# 5: Read chunks


@pytest.mark.req("V2-53", "V2-54")
@each_case("most", [1, 2])
def test_more_read_chunks_than_a_server_takes_come_again_as_one_at_position_zero(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair()
    monkeypatch.setattr(limits, "READ_CHUNKS_MAX", most)
    items = [pattern(5000 + n) for n in range(3)]
    handle = pair.client.call(XID, message(XID, CALL, *((b"head", item) for item in items)), ReplyBound(8))
    (incoming,) = pair.arrived()
    assert [chunk.position for chunk in incoming.chunks.reads] == [0]
    incoming.decoder.octets(8, "start")
    for item in items:
        assert incoming.decoder.octets(4, "head") == b"head"
        assert bytes(incoming.decoder.bulk(9000, "item")) == item
    incoming.decoder.done("call")
    assert not pair.server.reply(incoming, message(XID, REPLY))
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, ReplyArrived)
    assert event.call is handle
    assert pair.client.statistics.resent_long == 1
    assert pair.server.statistics.errors_sent == 1
    assert not pair.client_pd.regions


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


@pytest.mark.req("V2-59", "V2-62", "V2-89")
@pytest.mark.usefixtures("uncontinued")
@each_case("bound", [8, 70_000])
def test_a_reply_whose_size_could_not_be_estimated_succeeds_at_the_second_try(bound: int) -> None:
    pair = Pair()
    reply = message(XID, REPLY, (pattern(200_000), None))
    handle = pair.succeeds(message(XID, CALL), reply, ReplyBound(bound))
    assert handle.chunks.reply is not None
    assert handle.chunks.reply.length >= 200_008
    assert (pair.runs, pair.client.statistics.resent_larger) == (2, 1)


@pytest.mark.req("V2-59", "V2-62")
def test_a_reply_that_is_too_long_for_messages_succeeds_at_the_second_try() -> None:
    pair = Pair()
    length = limits.CONTINUED_OCTETS_MAX + 4
    pair.succeeds(message(XID, CALL), message(XID, REPLY, (pattern(length), None)), ReplyBound(8))
    assert (pair.runs, pair.client.statistics.resent_larger) == (2, 1)
    assert pair.server.statistics.replies_long == 1


@pytest.mark.req("V2-58", "V2-59")
def test_a_reply_that_is_longer_than_what_is_ever_offered_fails_the_call() -> None:
    for bound, cause in ((ReplyBound(8), Cause.REPLY_RESOURCE), (ReplyBound(8, (5000,)), Cause.WRITE_RESOURCE)):
        pair = Pair()
        reply = message(XID, REPLY, (b"", bytes(limits.REPLY_OCTETS_MAX + 4)))
        failed = pair.fails(message(XID, CALL), reply, bound)
        assert isinstance(failed.error, ChunkRefused)
        assert failed.error.refusal.cause is cause
        assert failed.error.refusal.needed > limits.REPLY_OCTETS_MAX
        assert pair.runs == 1


@each_case(("code", "numbers", "needed_max"), [(9, (), 9000), (8, (1,), 9000)])
def test_a_responder_that_asks_for_more_gets_no_more_than_calls_may_offer(
    code: int, numbers: tuple[int, ...], needed_max: int
) -> None:
    config = TransportConfig(in_messages_octets_max=0, reply_octets_max=needed_max, **SMALL)
    for needed, sent_again in ((needed_max, True), (needed_max + 1, False)):
        peer = BareMessages(Role.CLIENT, config)
        peer.endpoint.call(XID, message(XID, CALL), ReplyBound(20, (2000,)))
        peer.heard()
        before = set(peer.endpoint_pd.regions)
        peer.send(raw.error(XID, code, *numbers, needed))
        assert [each.xid for each in peer.heard() if each.xid] == [XID] * sent_again
        assert not before & set(peer.endpoint_pd.regions), "the first form's memory is still exposed"
        assert len(peer.endpoint_events()) == (not sent_again)


def test_a_call_is_not_sent_again_for_ever() -> None:
    peer = BareMessages(Role.CLIENT, CHUNKS)
    peer.endpoint.call(XID, message(XID, CALL), ReplyBound(20))
    sent = 0
    while calls := [each for each in peer.heard() if each.xid]:
        sent += len(calls)
        peer.send(raw.error(XID, 9, 10_000 * sent))
    assert sent == limits.CALL_ATTEMPTS_MAX
    assert [type(event) for event in peer.endpoint_events()] == [CallFailed]


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


@pytest.mark.req("V2-32")
@each_case("role", Role)
def test_bad_properties_are_refused_by_either_end(role: Role) -> None:
    peer = BareMessages(role, introduce=False)
    peer.heard()
    peer.send(raw.properties((2, raw.word(5)), xid=77))
    assert [(each.xid, each.numbers) for each in peer.heard() if each.xid] == [(77, (2,))]
    assert peer.endpoint_events() == []
    if role is Role.SERVER:
        # A client has told all it may before its server has answered, and gives no credit for a second try.
        peer.send(raw.properties(xid=78))
        assert [type(event) for event in peer.endpoint_events()] == [Ready]
