"""Calls of the server in version 2: a client that offers services against a hostile server, and the other way round."""

from __future__ import annotations

import struct

import pytest

from rpcrdma import limits
from rpcrdma.errors import RemoteProtocolError
from rpcrdma.testing import raw_messages as raw
from rpcrdma.testing.bare_messages import BareMessages
from rpcrdma.testing.endpoint_pair import calls_in, message
from rpcrdma.testing.raw_messages import ERROR, MORE, NOMSG, RESPONSE, word
from rpcrdma.transport import CallFailed, Closed, ReplyArrived, ReplyBound, Role, TransportConfig
from rpcrdma.verbs import Access

XID = 0xBAC4
CALL = struct.pack(">II", XID, 0)
REPLY = struct.pack(">II", XID, 1)
LEVEL_GENERAL = (raw.REVERSE_SUPPORT, word(2))


def client(config: TransportConfig | None = None) -> BareMessages:
    return BareMessages(Role.CLIENT, config, reverse=True)


def server(*properties: tuple[int, bytes]) -> BareMessages:
    peer = BareMessages(Role.SERVER, TransportConfig(in_messages_octets_max=0), *properties, reverse=True)
    peer.endpoint.allow_reverse()
    return peer


def answered(peer: BareMessages) -> list[raw.HeardMessage]:
    return [each for each in peer.heard() if (each.kind, each.xid) != (NOMSG, 0)]


def assert_both_ways(peer: BareMessages) -> None:
    """A call of the peer is answered, and one of the endpoint gets its reply."""
    peer.send(raw.message(XID, CALL, give=2))
    (incoming,) = calls_in(peer.endpoint_events())
    peer.endpoint.reply(incoming, message(XID, 1))
    assert [each.payload for each in answered(peer)] == [REPLY]
    peer.endpoint.call(XID, message(XID, 0), ReplyBound(8))
    assert [each.payload for each in answered(peer)] == [CALL]
    peer.send(raw.message(XID, REPLY, RESPONSE, give=2))
    assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived]
    assert not peer.endpoint_pd.regions


def test_reverse_calls_beyond_the_credits_end_the_connection() -> None:
    peer = client(TransportConfig(reverse_credits_granted=2))
    own = peer.endpoint.call(1, message(1, 0), ReplyBound(8))
    peer.heard()
    for _ in range(40):
        peer.qp.post_send("send", [raw.message(XID, CALL)], signaled=False)
    peer.run()
    *calls, failed, closed = peer.endpoint_events()
    assert len(calls) < 10
    assert isinstance(failed, CallFailed)
    assert failed.handle is own
    assert isinstance(closed, Closed)
    assert closed.protocol_error


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (raw.message(XID, b""), 2),
        (raw.message(XID, CALL, ends=7), 2),
        (raw.message(XID, CALL, reads=raw.read_segment(8, (1, (1 << 20) + 1, 0))), 2),
        (raw.message(XID, CALL, writes=raw.chunk() * (limits.WRITE_CHUNKS_MAX + 1)), 6),
        (raw.message(XID, CALL, 8), 4),
        (raw.message(XID, kind=NOMSG, flags=MORE), 4),
        (raw.prefix(XID, 9, give=1), 3),
    ],
)
@pytest.mark.parametrize("role", Role)
def test_calls_that_cannot_be_read_are_refused_by_the_end_that_is_called(role: Role, octets: bytes, code: int) -> None:
    peer = client() if role is Role.CLIENT else server()
    for _ in range(20):
        peer.send(octets)
        assert [(each.kind, each.numbers[0]) for each in answered(peer)] == [(ERROR, code)]
        if octets[19] & MORE:
            peer.send(raw.message(XID, kind=NOMSG))
        assert answered(peer) == []
        assert peer.endpoint_events() == []
    assert_both_ways(peer)


@pytest.mark.parametrize("octets", [raw.message(XID, b""), raw.prefix(XID, 9, give=1), raw.message(XID, CALL, 8)])
def test_a_client_that_is_not_called_discards_them(octets: bytes) -> None:
    peer = BareMessages(Role.CLIENT)
    peer.send(octets)
    assert answered(peer) == []
    assert peer.endpoint.statistics.discarded == 1


@pytest.mark.parametrize("chunk", ["reads", "writes", "reply"])
def test_reverse_calls_with_chunks_that_name_no_memory_end_the_connection(chunk: str) -> None:
    peer = client()
    segment = (7, 100, 0)
    parts = {chunk: raw.read_segment(8, segment) if chunk == "reads" else raw.chunk(segment)}
    peer.send(raw.message(XID, CALL, **parts))
    events = peer.endpoint_events()
    if chunk != "reads":
        (incoming,) = calls_in(events)
        body = (b"", bytes(100)) if chunk == "writes" else (bytes(70_000), None)
        peer.endpoint.reply(incoming, message(XID, 1, body))
        peer.run()
        events = peer.endpoint_events()
        if chunk == "reply":
            # It is too small, and so it is not used.
            assert answered(peer)[0].flags == RESPONSE | MORE
            return
    assert isinstance(events[-1], Closed)
    assert not peer.endpoint_pd.regions


def test_a_reverse_call_that_never_ends_is_given_up() -> None:
    peer = client()
    errors = []
    for _ in range(limits.CONTINUED_PIECES_MAX + 50):
        peer.send(raw.message(XID, bytes(4), MORE))
        errors += answered(peer)
    assert [(each.kind, each.numbers) for each in errors] == [(ERROR, (10,))]
    peer.send(raw.message(XID, bytes(4)))
    assert peer.endpoint_events() == []
    assert_both_ways(peer)


def test_a_reverse_call_that_is_not_finished_meets_the_stall_deadline() -> None:
    peer = client(TransportConfig(stalled_s=30.0))
    peer.send(raw.message(XID, CALL, MORE))
    assert peer.endpoint.untimed
    assert peer.endpoint.next_deadline_s(5.0) == 35.0
    peer.endpoint.on_time(35.0)
    peer.run()
    (closed,) = peer.endpoint_events()
    assert isinstance(closed, Closed)
    assert "did not send the rest" in closed.reason


@pytest.mark.parametrize("xid", [XID, XID + 1])
def test_a_call_in_the_midst_of_a_reply_breaks_it_also_with_the_same_xid(xid: int) -> None:
    peer = client()
    handle = peer.endpoint.call(XID, message(XID, 0), ReplyBound(8))
    peer.heard()
    peer.send(raw.message(XID, REPLY, RESPONSE | MORE))
    peer.send(raw.message(xid, struct.pack(">II", xid, 0)))
    assert [(each.xid, each.numbers) for each in answered(peer)] == [(xid, (4,))]
    assert peer.endpoint_events() == []
    peer.send(raw.message(XID, bytes(4), RESPONSE))
    (failed,) = peer.endpoint_events()
    assert isinstance(failed, CallFailed)
    assert failed.handle is handle
    assert isinstance(failed.error, RemoteProtocolError)
    assert_both_ways(peer)


def test_calls_and_replies_of_one_xid_are_two_things() -> None:
    peer = client()
    handle = peer.endpoint.call(XID, message(XID, 0), ReplyBound(8))
    peer.heard()
    peer.send(raw.message(XID, CALL, give=2))
    (incoming,) = calls_in(peer.endpoint_events())
    peer.send(raw.message(XID, REPLY, RESPONSE, give=2))
    (event,) = peer.endpoint_events()
    assert isinstance(event, ReplyArrived)
    assert event.handle is handle
    peer.endpoint.reply(incoming, message(XID, 1))
    assert [each.flags for each in answered(peer)] == [RESPONSE]


@pytest.mark.parametrize("code", [2, 5, 6, 7, 8, 9, 10])
def test_errors_for_calls_of_a_server(code: int) -> None:
    peer = server(LEVEL_GENERAL)
    data = {5: (0,), 6: (0,), 7: (1,), 8: (1, 9000), 9: (9000,)}.get(code, ())
    peer.endpoint.call(XID, message(XID, 0, (b"", bytes(5000))), ReplyBound(20, (5000,)))
    sent = 0
    while calls := answered(peer):
        sent += len(calls)
        peer.send(raw.error(XID, code, *data))
        peer.send(raw.grant(3))
    (failed,) = peer.endpoint_events()
    assert isinstance(failed, CallFailed)
    assert (sent > 1) == (code not in {2, 10})
    assert sent <= limits.CALL_ATTEMPTS_MAX
    assert not peer.endpoint_pd.regions
    assert_both_ways(peer)


def test_a_client_that_invalidates_what_the_servers_call_did_not_name_is_cut_off() -> None:
    peer = server(LEVEL_GENERAL)
    peer.endpoint.call(XID, message(XID, 0, (b"", bytes(5000))), ReplyBound(20, (5000,)))
    (call,) = answered(peer)
    other = peer.endpoint_pd.register(bytearray(8), Access.REMOTE_WRITE)
    peer.send(raw.message(XID, REPLY, RESPONSE, writes=raw.chunk(*call.writes[0])), invalidate=other.handle)
    failed, closed = peer.endpoint_events()
    assert isinstance(failed, CallFailed)
    assert isinstance(closed, Closed)
    assert "did not expose" in closed.reason
    assert not peer.endpoint_pd.regions
