"""A client's endpoint in version 2 against a server that invalidates, refuses and grants as it pleases."""

from __future__ import annotations

import struct

import pytest

from message_client import CALL, NOTHING, REPLY, XID, Client, assert_works, unused
from rpcrdma.errors import RemoteProtocolError
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import CallFailed, CallRefused, Closed, ReplyArrived, ReplyBound, TransportConfig
from support import raw_messages as raw
from support.cases import each_case
from support.raw_messages import MORE, RESPONSE, word

# Invalidation


@pytest.mark.req("PD-6", "V2-78")
def test_invalidation_of_a_handle_that_was_not_named_ends_the_connection() -> None:
    peer = Client(ReplyBound(9000, (5000,)))
    (call,) = peer.calls
    handles = [segment[0] for chunk in call.writes for segment in chunk] + [each[0] for each in call.reply or []]
    assert call.ends in handles
    (other,) = [handle for handle in handles if handle != call.ends]
    peer.send(raw.message(XID, REPLY, RESPONSE, writes=unused(peer.offered)), invalidate=other)
    assert "did not expose" in peer.closed()


@each_case(
    "octets",
    [
        raw.grant(1),
        raw.properties(),
        raw.message(XID, REPLY, RESPONSE | MORE),
        raw.message(XID + 1, struct.pack(">II", XID + 1, 1), RESPONSE),
        raw.message(XID, CALL),
        raw.error(XID + 1, raw.SYSTEM),
        b"x",
    ],
)
def test_invalidation_by_a_message_that_ends_no_call_ends_the_connection(octets: bytes) -> None:
    peer = Client(ReplyBound(20, (5000,)))
    peer.send(octets, invalidate=peer.calls[-1].ends)
    assert "without answering" in peer.closed()


@each_case("again", [False, True])
def test_invalidation_by_an_error_counts_for_its_call(again: bool) -> None:
    peer = Client(ReplyBound(20, (5000,)))
    first = peer.calls[-1].ends
    peer.send(raw.error(XID, raw.REPLY_RESOURCE, 9000) if again else raw.error(XID, raw.SYSTEM), invalidate=first)
    if again:
        (call,) = [each for each in peer.heard() if each.xid]
        assert call.ends not in {0, first}, "an old handle was named anew"
        peer.send(raw.error(XID, raw.SYSTEM))
    assert isinstance(peer.failure(), CallRefused)
    assert_works(peer)


# Errors that lie


# Credits


def test_a_flood_of_grants_saturates_and_is_answered_by_none() -> None:
    peer = Client()
    for _ in range(300):
        peer.send(raw.grant(0xFFFF))
        assert peer.heard() == []
    assert peer.endpoint.credits_granted == peer.endpoint.config.credits_requested
    peer.reply()
    assert isinstance(peer.event(), ReplyArrived)
    assert_works(peer)


def test_properties_in_the_midst_of_a_reply_break_it() -> None:
    peer = Client()
    peer.reply(REPLY, RESPONSE | MORE)
    peer.send(raw.properties((2, word(1024)), xid=5))
    peer.reply(bytes(4))
    assert isinstance(peer.failure(), RemoteProtocolError)
    assert peer.endpoint.inline_send_octets == 4096
    assert_works(peer)


# Replies that are not finished


def test_a_reply_in_pieces_that_stop_coming_ends_the_connection() -> None:
    peer = Client(config=TransportConfig(stalled_s=30.0))
    assert not peer.endpoint.untimed, "an answer that has not begun is the caller's to wait for"
    peer.reply(flags=RESPONSE | MORE)
    assert peer.endpoint.untimed
    assert peer.endpoint.timed
    assert peer.endpoint.next_deadline_s(100.0) == 130.0
    peer.reply(bytes(4), flags=RESPONSE | MORE)
    peer.endpoint.on_time(129.9)
    peer.run()
    assert peer.endpoint_events() == []
    peer.endpoint.on_time(130.0)
    peer.run()
    failed, closed = peer.endpoint_events()
    assert isinstance(failed, CallFailed)
    assert isinstance(closed, Closed)
    assert "the rest of a message within 30 s" in closed.reason


def test_replies_in_pieces_that_go_on_coming_are_not_ended_by_the_deadline() -> None:
    peer = Client(config=TransportConfig(stalled_s=30.0))
    now_s = 100.0
    peer.reply(flags=RESPONSE | MORE)
    for xid in range(1, 4):
        assert peer.endpoint.next_deadline_s(now_s) == now_s + 30.0
        peer.reply(bytes(4)) if xid == 1 else peer.send(raw.message(xid - 1, bytes(4), RESPONSE))
        assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived]
        peer.endpoint.call(xid, message(xid, 0), NOTHING)
        peer.heard()
        peer.send(raw.message(xid, struct.pack(">II", xid, 1), RESPONSE | MORE))
        now_s += 30.0
        peer.endpoint.on_time(now_s)
        assert peer.endpoint_events() == []
    peer.send(raw.message(3, bytes(4), RESPONSE))
    assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived]
    assert not peer.endpoint.timed
    assert_works(peer)
