"""Abuse that only the last draft of version 2 allows: types of headers, its Call chunk, counts that add up."""

from __future__ import annotations

import struct

import pytest

from message_client import NOTHING, Client
from message_server import CALL, REPLY, XID, answered, arrived, assert_ended, assert_works, server
from rpcrdma import limits
from rpcrdma.errors import RemoteProtocolError
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, calls_in, message
from rpcrdma.transport import Closed, TransportConfig
from support import raw_messages
from support import raw_messages_07 as draft
from support.bare_messages import BareMessages
from support.both_drafts import Raw
from support.cases import each_case
from support.raw_messages import CONNPROP, MORE, NOMSG, RESPONSE, word

ZERO = raw_messages.read_segment(0, (1, 8, 0))


@pytest.fixture
def raw() -> Raw:
    return draft


def typed(header_type: int, *body: bytes, xid: int = XID, give: int = 1) -> bytes:
    """A header of any type."""
    return draft.prefix(xid, 99, give=give)[:12] + word(header_type) + b"".join(body)


def external(call: bytes, reads: bytes = b"", rest: bytes = b"") -> bytes:
    """An RDMA2_CALL_EXTERNAL with these entries in its Call chunk and its Read list."""
    return typed(draft.CALL_EXTERNAL, word(0), call, word(0), reads, word(0), word(0), word(0), rest)


# Types of headers


@pytest.mark.req("V2-A3", "V2-50")
@each_case("header_type", [0, 1, 2, 3, 14, 99, 0xFFFFFFFF])
def test_types_that_the_draft_does_not_have_are_refused_also_those_of_the_first_draft(
    raw: Raw, header_type: int
) -> None:
    peer = server(raw)
    assert answered(peer, typed(header_type, bytes(20), CALL)) == (raw.INVAL_HTYPE,)
    assert_works(peer)
    client = Client(raw)
    client.send(typed(header_type, bytes(20), REPLY))
    assert client.endpoint_events() == []
    assert client.endpoint.statistics.discarded == 1


@pytest.mark.parametrize(
    "octets",
    [
        # a Call chunk that is none, is not at Position Zero, or comes with another one
        external(b""),
        external(raw_messages.read_segment(8, (1, 8, 0))),
        external(ZERO + raw_messages.read_segment(8, (1, 8, 0))),
        external(raw_messages.read_segment(0, (1, 0, 0))),
        # Position Zero in the Read list, where the Call chunk has a list of its own
        external(ZERO, ZERO),
        draft.message(XID, CALL, reads=ZERO),
        # a payload beside the Call chunk
        external(ZERO, rest=CALL),
        # lists that are neither there nor not
        typed(draft.CALL_EXTERNAL, word(0), word(2)),
        typed(draft.CALL_EXTERNAL, word(0), ZERO[:20]),
        # Positions that go back, and one that is not aligned
        external(ZERO, raw_messages.read_segment(16, (1, 4, 0)) + raw_messages.read_segment(12, (1, 4, 0))),
        external(ZERO, raw_messages.read_segment(6, (1, 4, 0))),
        # a grant of more than credits
        typed(draft.GRANT, word(0)),
    ],
)
def test_lists_of_the_last_draft_against_the_rules_are_answered_with_bad_xdr(raw: Raw, octets: bytes) -> None:
    peer = server(raw)
    assert answered(peer, octets) == (raw.BAD_XDR,)
    assert_works(peer)


def test_a_call_chunk_of_too_many_segments_is_answered_with_the_limit(raw: Raw) -> None:
    peer = server(raw)
    assert answered(peer, external(ZERO * (limits.CHUNK_SEGMENTS_MAX + 1))) == (raw.SEGMENTS, limits.CHUNK_SEGMENTS_MAX)
    assert_works(peer)


@pytest.mark.req("V2-A3")
def test_a_long_call_after_pieces_breaks_them_and_neither_is_run(raw: Raw) -> None:
    peer = server(raw)
    peer.send(raw.message(XID, CALL, MORE))
    assert answered(peer, external(ZERO)) == (raw.INVAL_CONT,)
    peer.send(raw.message(XID, bytes(4)))
    assert peer.endpoint_events() == []
    assert peer.heard() == []
    assert_works(peer)


@pytest.mark.req("V2-A13")
@each_case("pieces", [0, 1])
@each_case("body", [b"", bytes(4), bytes(8), bytes(4) + raw_messages.chunk((1, 8, 0)) + REPLY])
def test_a_long_reply_that_is_none_fails_its_call(raw: Raw, body: bytes, pieces: int) -> None:
    peer = Client(raw)
    for _ in range(pieces):
        peer.reply(REPLY, RESPONSE | MORE)
    peer.send(typed(draft.REPLY_EXTERNAL, body, xid=peer.handle.xid))
    if pieces:
        # It broke the message that had begun, whose rest is awaited.
        peer.reply(bytes(4))
    assert isinstance(peer.event().error, RemoteProtocolError)


# The octets that remain


def test_a_piece_that_does_not_say_what_remains_is_refused_and_dropped_to_its_end(raw: Raw) -> None:
    peer = server(raw)
    assert answered(peer, typed(draft.CALL_MIDDLE, b"\0\0\0")) == (raw.BAD_XDR,)
    peer.send(raw.message(XID, CALL))
    assert peer.endpoint_events() == []
    assert_works(peer)


@each_case("remaining", [[0, 0], [5, 4], [4, 2**32 - 1], [2**32 - 1, 0], [12, 8]])
def test_what_a_piece_says_of_its_rest_is_not_relied_on(raw: Raw, remaining: list[int]) -> None:
    peer = server(raw)
    for octets, rest in zip((CALL, b"one."), remaining, strict=True):
        peer.send(raw.message(XID, octets, MORE, remaining=rest))
    peer.send(raw.message(XID, b"two."))
    incoming = arrived(peer)
    assert incoming.decoder.octets(16, "call") == CALL + b"one.two."
    peer.endpoint.reply(incoming, message(XID, 1))
    peer.heard()
    assert_works(peer)


# Properties


def final(*pairs: tuple[int, bytes], flags: int = 0) -> bytes:
    return draft.prefix(XID, CONNPROP, flags, give=8) + raw_messages.property_set(*pairs)


def middle(*pairs: tuple[int, bytes]) -> bytes:
    return final(*pairs, flags=MORE)


@pytest.mark.req("V2-A3")
def test_properties_after_the_final_ones_are_refused_and_change_nothing(raw: Raw) -> None:
    peer = server(raw)
    before = peer.endpoint.peer_properties
    for _ in range(3):
        peer.send(middle((2, word(2048))))
        assert peer.heard() == []
        assert answered(peer, final((3, word(4096)))) == (raw.INVAL_CONT,)
    assert peer.endpoint.peer_properties == before
    assert_works(peer)


@pytest.mark.req("V2-A3")
def test_a_call_between_properties_breaks_them(raw: Raw) -> None:
    peer = server(raw, introduce=False)
    peer.send(middle((2, word(2048))))
    peer.heard()
    assert answered(peer, raw.message(XID, CALL)) == (raw.INVAL_CONT,)
    peer.send(final())
    assert peer.heard() == []
    peer.introduce()
    assert_works(peer)


@pytest.mark.thorough
@each_case("pairs", [0, 1])
def test_properties_without_end_are_given_up(raw: Raw, pairs: int) -> None:
    peer = server(raw, introduce=False)
    refused: list[tuple[int, ...]] = []
    sent = 0
    while not refused:
        sent += 1
        assert sent <= limits.CONTINUED_PIECES_MAX + 1
        peer.send(middle(*[(1000 + sent, b"")] * pairs))
        refused = [each.numbers for each in peer.heard() if each.numbers]
    assert refused == [(raw.SYSTEM,)]
    peer.send(final())
    peer.heard()
    peer.introduce()
    assert_works(peer)


# Credits


def whole(peer: BareMessages, octets: bytes, limit: int) -> None:
    """Sends a message with this credit word."""
    BarePeer.send(peer, octets[:8] + word(limit & 0xFFFFFFFF) + octets[12:])


def replies(peer: BareMessages) -> list[int]:
    return [each.xid for each in peer.heard() if each.flags == RESPONSE]


@pytest.mark.req("V2-A15", "V2-4")
@each_case("limit", [0, 1, -1, 2**31 + 2, -(2**30)])
def test_a_limit_that_lies_behind_what_was_sent_lets_nothing_out(raw: Raw, limit: int) -> None:
    peer = server(raw, give=0)
    whole(peer, raw.message(XID, CALL), limit)
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    assert replies(peer) == []
    # Each word replaces the one before.
    whole(peer, raw.grant(0), 40)
    assert replies(peer) == [XID]


@pytest.mark.req("V2-A15")
@each_case("limit", [1000, 2**16, 2**30, 2**31 - 1])
def test_a_limit_far_ahead_is_as_good_as_any(raw: Raw, limit: int) -> None:
    peer = server(raw, give=0)
    whole(peer, raw.message(XID, CALL), limit)
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    assert replies(peer) == [XID]
    # And it can be taken back.
    whole(peer, raw.message(XID, CALL), 0)
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    assert replies(peer) == []


def test_a_server_that_never_raises_its_limit_gets_no_further_call(raw: Raw) -> None:
    peer = Client(raw, give=3)
    for xid in range(1, 50):
        peer.endpoint.call(xid, message(xid, 0), NOTHING)
    heard = peer.calls + peer.heard()
    assert len([each for each in heard if each.xid]) <= 3
    for number in range(20):
        if number % 2:
            whole(peer, raw.message(XID + 1 + number, REPLY, RESPONSE), 0)
        assert [each for each in peer.heard() if each.xid] == []
        if peer.endpoint_events():
            break
    assert peer.endpoint.calls_in_flight <= 50


@pytest.mark.req("V2-A2")
def test_errors_give_credits_and_do_nothing_else_to_a_server(raw: Raw) -> None:
    peer = server(raw, give=0)
    peer.send(raw.message(XID, CALL, give=0))
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    assert replies(peer) == []
    before = peer.endpoint.statistics.discarded
    for code in (0, raw.SYSTEM, 12):
        BarePeer.send(peer, raw.error(XID, code))
    assert replies(peer) == []
    assert peer.endpoint.statistics.discarded == before + 3
    whole(peer, raw.error(XID, raw.SYSTEM), 40)
    assert replies(peer) == [XID]


@pytest.mark.parametrize("version", [1, 3])
def test_the_credits_of_a_message_of_another_version_count_for_nothing(raw: Raw, version: int) -> None:
    peer = server(raw, give=0)
    peer.send(raw.message(XID, CALL, give=0))
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    BarePeer.send(peer, struct.pack(">IIIIIII", XID, version, 100, 0, 0, 0, 0) + CALL)
    assert peer.heard() == [], "a message went out without a credit"


@pytest.mark.req("V2-7", "V2-A11")
@each_case("beyond", [1, 2])
def test_grants_take_credits_and_one_goes_beyond_them(raw: Raw, beyond: int) -> None:
    peer = server(raw, TransportConfig(credits_granted=4))
    (told,) = peer.introduced
    # All of them before the server can give anything back.
    for _ in range(told.give):
        peer.post(raw.message(XID, CALL))
    for _ in range(beyond):
        # It is a grant, with any XID.
        peer.post(word(XID) + raw.grant(1)[4:])
    peer.run()
    if beyond > 1:
        assert_ended(peer, "more messages than credits allow")
    else:
        assert len(calls_in(peer.endpoint_events())) == told.give


def test_a_flood_of_grants_is_answered_by_fewer_and_by_none_in_the_end(raw: Raw) -> None:
    peer = server(raw)
    came = 0
    for _ in range(1000):
        peer.send(raw.grant(1))
        heard = peer.heard()
        assert all((each.kind, each.xid) == (NOMSG, 0) for each in heard)
        came += len(heard)
    assert came < 100
    assert peer.endpoint.statistics.grants_received == 1000
    assert_works(peer)


def test_two_ends_do_not_answer_grants_with_grants_for_ever() -> None:
    few = TransportConfig(credits_granted=1, credits_requested=1)
    pair = EndpointPair(few, few, version="2-07").connect()
    for xid in range(1, 200):
        pair.client.call(xid, message(xid, 0), NOTHING)
        (incoming,) = pair.arrived()
        pair.server.reply(incoming, message(xid, 1))
        pair.run()
        pair.client_events()
        pair.server_events()
    for end in (pair.client, pair.server):
        assert end.statistics.grants_received <= 200
        assert not isinstance(end.next_event(), Closed)
