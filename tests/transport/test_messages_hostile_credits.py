"""A server's endpoint in version 2 against a client that gives and uses credits, and fills memory, as it pleases."""

from __future__ import annotations

import struct

import pytest

from message_server import CALL, XID, arrived, assert_ended, assert_works, server
from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import calls_in, message
from rpcrdma.transport import CallArrived, Closed, IncomingCall, TransportConfig
from support import raw_messages as raw
from support.cases import each_case
from support.raw_messages import ERROR, MORE, MSG, NOMSG, RESPONSE


@pytest.mark.req("V2-4")
@each_case("granted", [1, 4])
def test_messages_beyond_the_grant_end_the_connection(granted: int) -> None:
    peer = server(TransportConfig(credits_granted=granted), introduce=False)
    peer.introduce()
    (told,) = peer.introduced
    for number in range(told.give):
        peer.post(raw.message(number, struct.pack(">II", number, 0)))
    peer.run()
    calls = calls_in(peer.endpoint_events())
    assert len(calls) == told.give
    assert peer.heard() == [], "calls that wait give no credit back"
    peer.send(raw.message(99, struct.pack(">II", 99, 0)))
    assert_ended(peer, "credits")


@pytest.mark.req("V2-7")
@each_case("granted", [1, 2, 200])
def test_a_grant_finds_a_receive_beyond_every_message_that_credits_allow(granted: int) -> None:
    peer = server(TransportConfig(credits_granted=granted), give=0)
    (told,) = peer.introduced
    # All of them before the server looks at the first.
    for xid in range(1, told.give + 1):
        peer.post(raw.message(xid, struct.pack(">II", xid, 0), give=0))
    peer.post(raw.grant(1000))
    peer.run()
    calls = calls_in(peer.endpoint_events())
    assert len(calls) == told.give
    for incoming in calls:
        peer.endpoint.reply(incoming, message(incoming.xid, 1))
        peer.run()
    assert len([each for each in peer.heard() if each.xid]) == told.give
    assert_works(peer)


def test_a_flood_of_grants_is_survived_and_answered_by_none() -> None:
    peer = server(TransportConfig(credits_granted=1), give=0)
    for _ in range(300):
        peer.send(raw.grant(0xFFFF))
        assert peer.heard() == []
    assert peer.endpoint.statistics.grants_received == 300
    assert_works(peer)


@pytest.mark.req("V2-4")
def test_a_client_that_never_grants_gets_no_reply_and_cannot_pile_them_up() -> None:
    peer = server(TransportConfig(credits_granted=4), give=0)
    (told,) = peer.introduced
    # With each call that waits for its reply to leave, the client has one credit less.
    given = told.give
    sent = 0
    while given > 0:
        given -= 1
        sent += 1
        peer.send(raw.message(sent, struct.pack(">II", sent, 0), give=0))
        for event in peer.endpoint_events():
            assert isinstance(event, CallArrived)
            peer.endpoint.reply(event.incoming, message(event.incoming.xid, 1))
        heard = peer.heard()
        assert all((each.kind, each.xid) == (NOMSG, 0) for each in heard)
        given += sum(each.give for each in heard)
        assert sent <= 12
    # At the first credit they leave, in their order.
    peer.send(raw.grant(sent))
    assert [each.xid for each in peer.heard() if each.xid] == list(range(1, sent + 1))


@each_case("octets", [raw.message(XID, b"", give=0), raw.properties(give=0)])
def test_refusals_that_cannot_leave_do_not_pile_up(octets: bytes) -> None:
    """The client uses every credit for messages that are refused, and gives none."""
    peer = server(TransportConfig(credits_granted=4), give=0)
    for count in range(2000):
        peer.send(octets)
        events = peer.endpoint_events()
        if events:
            (closed,) = events
            assert isinstance(closed, Closed)
            assert count <= limits.UNSENT_REFUSALS_MAX
            return
    pytest.fail("the endpoint went on answering")


@each_case("long", [False, True])
def test_a_reply_that_finds_no_credit_is_bounded_by_the_stall_deadline_while_it_holds_memory(long: bool) -> None:
    peer = server(TransportConfig(stalled_s=30.0), give=0)
    peer.send(raw.message(XID, CALL, give=1))
    incoming = arrived(peer)
    # In two messages, of which one may leave; or in one, after another one that took the credit: its data is copied.
    if long:
        peer.endpoint.reply(incoming, message(XID, 1, (bytes(5000), None)))
        assert [each.flags for each in peer.heard()] == [RESPONSE | MORE]
    else:
        peer.endpoint.reply(incoming, message(XID, 1))
        peer.send(raw.message(XID, CALL, give=0))
        peer.endpoint.reply(arrived(peer), message(XID, 1, (b"", bytes(2000))))
        assert len(peer.heard()) == 1
        assert peer.endpoint._session.owed == 0
        return
    assert peer.endpoint.untimed
    assert peer.endpoint.next_deadline_s(100.0) == 130.0
    peer.endpoint.on_time(129.0)
    peer.endpoint.on_time(130.0)
    peer.run()
    closed = peer.endpoint_events()[-1]
    assert isinstance(closed, Closed)
    assert "took no reply within 30 s" in closed.reason
    assert peer.endpoint._session.owed == 0


@each_case(
    "octets",
    [
        raw.message(XID, b"", give=2),
        raw.prefix(XID, 77, give=2),
        *[raw.message(XID, CALL, 4, give=2)],
        raw.message(XID, CALL, give=2, reply=raw.chunk(*[(1, 4, 3)] * (limits.CHUNK_SEGMENTS_MAX + 1))),
    ],
)
def test_credits_in_a_header_that_is_refused_count(octets: bytes) -> None:
    """Its sender has counted them: were they lost, the two sides would wait for each other in the end."""
    peer = server(give=0)
    peer.send(octets)
    (error,) = peer.heard()
    assert error.kind == ERROR
    assert_works(peer)


def test_credit_words_of_other_versions_count_for_nothing() -> None:
    peer = server(give=0)
    peer.send(raw.prefix(XID, MSG, give=100, version=3))
    assert peer.heard() == []
    peer.send(raw.message(XID, CALL, give=0))
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    assert peer.heard() == []


def test_credits_of_calls_that_are_never_answered_come_back_to_a_peer_that_has_no_others() -> None:
    """RPCSEC_GSS drops calls whose sequence number has come before (RFC 2203 section 5.3.3.1)."""
    peer = server(TransportConfig(credits_granted=2))
    peer.heard()
    for _ in range(3):
        for _ in range(2):
            peer.send(raw.message(XID, CALL))
        peer.heard()
        for incoming in calls_in(peer.endpoint_events()):
            peer.endpoint.drop(incoming)
        (grant,) = peer.heard()
        assert (grant.kind, grant.xid) == (NOMSG, 0)
        assert grant.give > 0


@pytest.mark.thorough
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
