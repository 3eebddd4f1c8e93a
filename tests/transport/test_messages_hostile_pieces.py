"""A server's endpoint in version 2 against a client that sends messages in pieces as it pleases."""

from __future__ import annotations

import struct

import pytest

from message_server import CALL, REPLY, XID, answered, arrived, assert_works, server
from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import calls_in, message
from rpcrdma.transport import Closed, IncomingCall, TransportConfig
from support.both_drafts import Raw, each_draft
from support.cases import each_case
from support.raw_messages import (
    CONNPROP,
    ERROR,
    MORE,
    MSG,
    NOMSG,
    HeardMessage,
    word,
)


@pytest.mark.req("V2-41")
@each_case("more", [False, True])
@each_case("first_more", [1, 3])
def test_interleaved_calls_are_refused_and_neither_is_run(raw: Raw, more: bool, first_more: int) -> None:
    peer = server(raw)
    for _ in range(first_more):
        peer.send(raw.message(XID, CALL, MORE))
    other = struct.pack(">II", XID + 1, 0)
    assert answered(peer, raw.message(XID + 1, other, MORE if more else 0)) == (raw.INVAL_CONT,)
    for xid in (XID, XID + 1) if more else (XID,):
        peer.send(raw.message(xid, bytes(4), MORE))
        peer.send(raw.message(xid, bytes(4)))
    assert peer.heard() == []
    assert peer.endpoint_events() == []
    assert_works(peer)


@pytest.mark.req("V2-41")
@each_draft(
    "octets",
    lambda raw: [
        raw.message(XID, kind=NOMSG, reads=raw.read_segment(0, (1, 8, 0))),
        raw.prefix(XID, CONNPROP) + raw.property_set(),
        raw.prefix(XID, CONNPROP, MORE) + raw.property_set(),
    ],
)
def test_another_type_in_mid_sequence_is_refused(raw: Raw, octets: bytes) -> None:
    peer = server(raw)
    peer.send(raw.message(XID, CALL, MORE))
    assert answered(peer, octets) == (raw.INVAL_CONT,)
    peer.send(raw.message(XID, bytes(4)))
    if octets[19] & MORE:
        peer.send(raw.prefix(XID, CONNPROP))
    assert peer.heard() == []
    assert peer.endpoint_events() == []
    assert_works(peer)


@pytest.mark.thorough
@each_case("size", [0, 4, 4060])
def test_an_endless_call_is_given_up_and_dropped_to_its_end(raw: Raw, size: int) -> None:
    peer = server(raw)
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


def test_a_call_whose_pieces_come_one_octet_at_a_time_is_whole(raw: Raw) -> None:
    peer = server(raw)
    payload = CALL + bytes(range(52))
    for octet in payload[:-1]:
        peer.send(raw.message(XID, bytes([octet]), MORE))
    peer.send(raw.message(XID, payload[-1:]))
    incoming = arrived(peer)
    assert incoming.decoder.octets(len(payload), "call") == payload
    peer.endpoint.reply(incoming, message(XID, 1))
    peer.heard()
    assert_works(peer)


@each_draft(
    "last",
    lambda raw: [
        raw.message(XID, CALL[4:], ends=7),
        raw.message(XID, CALL[4:], reads=raw.read_segment(6, (1, 8, 0))),
        raw.message(XID, CALL[4:], reads=raw.read_segment(0, (1, 8, 0))),
        raw.message(XID, CALL[4:], reads=raw.read_segment(12, (1, 8, 0))),
        raw.message(XID, word(1)),
        raw.message(XID),
        raw.prefix(XID, MSG) + word(0) + word(2),
    ],
)
def test_a_last_piece_that_is_wrong_fails_the_call(raw: Raw, last: bytes) -> None:
    peer = server(raw)
    peer.send(raw.message(XID, CALL[:4], MORE))
    assert answered(peer, last) == (raw.BAD_XDR,)
    assert_works(peer)


def test_a_call_that_is_never_finished_holds_nothing_once_its_peer_has_left(raw: Raw) -> None:
    peer = server(raw)
    for _ in range(100):
        peer.send(raw.message(XID, bytes(4060), MORE))
    peer.qp.abort("gone")
    peer.run()
    (closed,) = peer.endpoint_events()
    assert isinstance(closed, Closed)
    assert not peer.endpoint_pd.regions
    assert peer.endpoint.calls_in_flight == 0


def test_a_grant_between_pieces_is_none_of_them(raw: Raw) -> None:
    peer = server(raw, give=1)
    peer.send(raw.message(XID, CALL[:4], MORE, give=0))
    peer.send(raw.grant(5))
    peer.send(raw.message(XID, CALL[4:], give=0))
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    assert [each.payload for each in peer.heard()] == [REPLY]


@each_case("pieces", [9, 17])
def test_unanswered_calls_in_long_messages_hold_no_more_than_a_bound(raw: Raw, pieces: int) -> None:
    peer = server(raw, TransportConfig(credits_granted=2000, offered_receive_octets=65536), receive_octets=65536)
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
