"""A server's endpoint in version 2 against a client whose messages in pieces have no end, or are never answered."""

from __future__ import annotations

import struct

import pytest

from message_server import CALL, XID, arrived, assert_works, server
from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import calls_in, message
from rpcrdma.transport import IncomingCall, TransportConfig
from support import raw_messages as raw
from support.cases import each_case
from support.raw_messages import ERROR, MORE, NOMSG, HeardMessage

pytestmark = pytest.mark.thorough


@each_case("size", [0, 4, 4060])
def test_an_endless_call_is_given_up_and_dropped_to_its_end(size: int) -> None:
    peer = server()
    errors: list[HeardMessage] = []
    pieces = 0
    while not errors:
        pieces += 1
        assert pieces <= limits.CONTINUED_PIECES_MAX + 1
        assert (pieces - 1) * size <= limits.CONTINUED_OCTETS_MAX
        peer.send(raw.message(XID, bytes(size), MORE))
        errors = [each for each in peer.heard() if each.kind == ERROR]
    assert [(each.xid, each.numbers) for each in errors] == [(XID, (raw.SYSTEM,))]
    for _ in range(2000):
        peer.send(raw.message(XID, bytes(size), MORE))
        assert [each for each in peer.heard() if (each.kind, each.xid) != (NOMSG, 0)] == []
    peer.send(raw.message(XID, bytes(4)))
    assert peer.endpoint_events() == []
    assert_works(peer)


@each_case("pieces", [9, 17])
def test_unanswered_calls_in_long_messages_hold_no_more_than_a_bound(pieces: int) -> None:
    peer = server(TransportConfig(credits_granted=2000, offered_receive_octets=65536), receive_octets=65536)
    held: list[IncomingCall] = []
    size = 60_000
    octets = pieces * size
    xid = 0
    while True:
        xid += 1
        assert octets * (xid - 1) <= limits.CONNECTION_MESSAGE_OCTETS_MAX
        for part in range(pieces):
            payload = (struct.pack(">II", xid, 0) if not part else bytes(8)) + bytes(size - 8)
            peer.send(raw.message(xid, payload, MORE if part + 1 < pieces else 0))
        events = peer.endpoint_events()
        if not events:
            break
        held += calls_in(events)
    (refused,) = [each for each in peer.heard() if each.xid]
    assert (refused.kind, refused.xid, refused.numbers) == (ERROR, xid, (raw.SYSTEM,))
    assert octets * (len(held) + 1) > limits.CONNECTION_MESSAGE_OCTETS_MAX
    # Small calls are served, and answered ones make room.
    peer.send(raw.message(XID, CALL))
    held += calls_in(peer.endpoint_events())
    for incoming in held:
        peer.endpoint.reply(incoming, message(incoming.xid, 1))
        peer.run()
    peer.heard()
    peer.send(raw.message(XID, CALL + bytes(60_000)))
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    peer.heard()
    assert_works(peer)
