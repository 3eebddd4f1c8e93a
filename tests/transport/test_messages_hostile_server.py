"""A client's endpoint in version 2 against a server whose messages are wrong, out of turn, or invalidate memory."""

from __future__ import annotations

import struct

import pytest

from message_client import CALL, NOTHING, REPLY, XID, Client, assert_works, unused
from rpcrdma.errors import RemoteProtocolError
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import CallFailed, Closed, Ready, ReplyArrived, ReplyBound, Role, TransportConfig
from support import raw_messages
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case
from support.raw_messages import CONNPROP, MORE, MSG, NOMSG, RECEIVE_SIZE, RESPONSE, word

# The answer to the first message


@pytest.mark.req("V2-10", "V2-11", "V2-90")
@each_case(
    ("octets", "versions"),
    [
        (octets, versions)
        for octets in (b"", b"x" * 15, raw.prefix(XID, 77), raw.message(XID, b"x"), raw.error(XID, 0))
        for versions in ("auto", "2")
    ],
)
def test_client_sends_one_message_of_at_most_1024_octets_and_no_more_until_it_is_answered(
    versions: str, octets: bytes
) -> None:
    peer = BareMessages(Role.CLIENT, introduce=False, versions=versions)
    peer.endpoint.call(XID, message(XID, 0), NOTHING)
    peer.run()
    (first,) = peer.received
    assert 28 <= len(first) <= 1024
    (told,) = peer.heard()
    assert told.kind == CONNPROP
    # This is no answer; its only effect is that it uses up a credit of the client.
    for _ in range(1 + told.give):
        assert peer.send(octets) == []
        assert peer.endpoint_events() == []
    peer.send(octets)
    assert isinstance(peer.endpoint_events()[-1], Closed)
    assert peer.received == []


def refusals_of_the_first_message() -> list[tuple[bytes, str]]:
    return [
        (raw.error(1, 1, 3, 9), "versions 3 to 9"),
        (raw.error(1, raw.BAD_XDR), "refused the transport properties"),
        (raw.error(1, raw.INVAL_HTYPE), "refused the transport properties"),
        (raw.error(1, raw.SYSTEM), "refused the transport properties"),
        (raw.error(77, raw.SYSTEM), "refused the transport properties"),
        (struct.pack(">IIIIIII", 1, 2, 32, 4, 1, 2, 2), "version 2 of RPC-over-RDMA only"),
        (raw.error(1, 1, 2, 2), "version 2 of RPC-over-RDMA only"),
    ]


@pytest.mark.req("V2-14")
@each_case(
    ("octets", "reason", "versions"),
    [(*case, versions) for case in refusals_of_the_first_message() for versions in ("auto", "2")],
)
def test_refusal_of_the_first_message_ends_the_connection_with_the_reason(
    octets: bytes, reason: str, versions: str
) -> None:
    peer = BareMessages(Role.CLIENT, introduce=False, versions=versions)
    peer.endpoint.call(XID, message(XID, 0), NOTHING)
    peer.send(octets)
    events = peer.endpoint_events()
    assert [type(event) for event in events] == [CallFailed, Closed]
    assert isinstance(events[1], Closed)
    assert reason in events[1].reason
    assert len(peer.received) == 1


@pytest.mark.req("V2-14")
@each_case("long", [False, True])
def test_client_goes_on_with_an_older_version_once_and_not_back(long: bool) -> None:
    peer = BareMessages(Role.CLIENT, introduce=False, versions="auto")
    refused = raw.error(1, 1, 1, 1) if long else struct.pack(">IIIIIII", 1, 2, 32, 4, 1, 1, 1)
    peer.send(refused)
    assert [type(event) for event in peer.endpoint_events()] == [Ready]
    assert peer.endpoint.version == 1
    peer.endpoint.call(XID, message(XID, 0), NOTHING)
    peer.run()
    assert peer.received[-1][:8] == struct.pack(">II", XID, 1)
    before = peer.endpoint.statistics.discarded
    # Another refusal, properties, and a reply of version 2 mean nothing to the call.
    for octets in (refused, raw.properties(), raw.message(XID, REPLY, RESPONSE)):
        peer.send(octets)
        assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.discarded == before + 3
    peer.send(struct.pack(">IIIIIII", XID, 1, 32, 0, 0, 0, 0) + REPLY)
    assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived]


@each_case("octets", [raw.grant(3), raw.message(XID, CALL, give=3)])
def test_a_server_that_begins_without_properties_has_the_defaults(octets: bytes) -> None:
    peer = BareMessages(Role.CLIENT, introduce=False)
    peer.send(octets)
    assert [type(event) for event in peer.endpoint_events()] == [Ready]
    assert peer.endpoint.inline_send_octets == peer.endpoint.inline_receive_octets == 4096
    peer.received.clear()
    assert_works(peer)


def test_a_server_is_given_credits_for_more_pieces_of_its_properties_from_the_first_on() -> None:
    peer = BareMessages(Role.CLIENT, introduce=False)
    peer.heard()
    octets = raw.property_set((RECEIVE_SIZE, word(8192)))
    peer.send(raw.prefix(1, CONNPROP, MORE, give=1) + octets[:8])
    assert [(each.kind, each.give > 0) for each in peer.heard()] == [(NOMSG, True)]
    peer.send(raw.prefix(1, CONNPROP) + octets[8:])
    assert [type(event) for event in peer.endpoint_events()] == [Ready]
    assert peer.endpoint.inline_send_octets == 8192


@each_case("role", Role)
def test_a_grant_among_the_pieces_of_properties_does_not_end_the_introduction(role: Role) -> None:
    peer = BareMessages(role, introduce=False)
    octets = raw.property_set((RECEIVE_SIZE, word(8192)))
    for part in (raw.prefix(1, CONNPROP, MORE, give=1) + octets[:8], raw.grant(3)):
        peer.send(part)
        assert peer.endpoint_events() == []
    peer.send(raw.prefix(1, CONNPROP) + octets[8:])
    assert [type(event) for event in peer.endpoint_events()] == [Ready]
    assert peer.endpoint.inline_send_octets == 8192


@pytest.mark.req("V2-9", "V2-10")
def test_properties_that_come_after_a_lone_grant_are_taken_once() -> None:
    peer = BareMessages(Role.CLIENT, introduce=False)
    peer.send(raw.grant(3))
    assert [type(event) for event in peer.endpoint_events()] == [Ready]
    for receives in (8192, 2048):
        peer.send(raw.properties((RECEIVE_SIZE, word(receives))))
        assert peer.endpoint.peer_properties is not None
        assert peer.endpoint.peer_properties.receive_octets == 8192
    assert peer.endpoint.inline_send_octets == 8192
    peer.heard()
    assert_works(peer)


# Messages that answer nothing


@pytest.mark.req("V2-48")
@each_case(
    "octets",
    [
        b"",
        REPLY,
        *(raw.message(XID, flags=RESPONSE)[:length] for length in range(1, raw.PREFIX_OCTETS)),
        # another version
        struct.pack(">IIIIIII", XID, 1, 9, 0, 0, 0, 0) + REPLY,
        raw.message(XID, REPLY, RESPONSE)[:4] + word(3) + raw.message(XID, REPLY, RESPONSE)[8:],
        # messages that are not for a requester, or not in this direction: also faulty ones are not answered
        raw.message(XID, CALL),
        raw.message(XID, REPLY),
        raw.message(XID, b""),
        raw.message(XID, kind=NOMSG),
        raw.message(XID, kind=NOMSG, reads=raw.read_segment(0, (1, 8, 0))),
        raw.prefix(XID, 77),
        *[raw.prefix(XID, MSG, 0x80)],
        # an XID that no call has
        raw.message(XID + 1, struct.pack(">II", XID + 1, 1), RESPONSE),
        raw.message(XID + 1, b"", RESPONSE),
        raw.error(XID + 1, raw.SYSTEM),
        raw.error(XID + 1, raw.REPLY_RESOURCE, 100_000),
        # errors that do not decode
        raw.prefix(XID, 4, RESPONSE),
        raw.error(XID, 0),
        raw.error(XID, 12),
        raw.error(XID, raw.BAD_XDR, 0),
        raw.error(XID, raw.READ_CHUNKS),
        raw.error(XID, raw.WRITE_RESOURCE, 1),
        raw.error(XID, raw.REPLY_RESOURCE, 1, 2),
        raw.error(XID, raw.SYSTEM)[:-2],
        # the version error in the form of version 1, for a version that has been agreed on
        *[struct.pack(">IIIIIII", XID, 2, 32, 4, 1, 1, 1)],
    ],
)
def test_message_that_answers_nothing_is_discarded(octets: bytes) -> None:
    peer = Client()
    peer.send(octets)
    assert [each for each in peer.heard() if each.xid] == []
    assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.discarded == 1
    peer.reply()
    assert isinstance(peer.event(), ReplyArrived)
    assert_works(peer)


# Replies


@pytest.mark.req("V2-48", "V2-24")
@each_case(
    "octets",
    [
        raw.message(XID, CALL, RESPONSE),
        raw.message(XID, b"", RESPONSE),
        raw.message(XID, REPLY[:7], RESPONSE),
        raw.message(XID, struct.pack(">II", XID + 1, 1), RESPONSE),
        raw.message(XID, kind=NOMSG, flags=RESPONSE),
        raw.message(XID, kind=NOMSG, flags=RESPONSE, reply=raw.chunk((1, 8, 0))),
        raw.message(XID, REPLY, RESPONSE, writes=raw.chunk()),
        raw.prefix(XID, MSG, RESPONSE) + word(0) + word(2),
        raw.prefix(XID, MSG, RESPONSE) + word(0) * 2 + struct.pack(">II", 1, 0xFFFFFFFF),
        raw.message(XID, REPLY, RESPONSE | 4),
        raw.message(XID, REPLY, RESPONSE | MORE | 0x80000000),
        raw.message(XID, REPLY, RESPONSE | MORE, writes=raw.chunk()),
        raw.message(XID, REPLY, RESPONSE | MORE, kind=NOMSG),
        raw.message(XID, REPLY, RESPONSE, reply=raw.chunk((1, 8, 0))),
        raw.message(XID, REPLY, RESPONSE, reads=raw.read_segment(8, (1, 8, 0))),
        raw.prefix(XID, 77, RESPONSE),
    ],
)
def test_a_reply_against_the_rules_fails_its_call_and_is_not_answered(octets: bytes) -> None:
    peer = Client()
    peer.send(octets)
    assert isinstance(peer.failure(), RemoteProtocolError)
    assert [each for each in peer.heard() if each.xid] == []
    if raw is raw_messages and octets[19] & MORE:
        # Its rest is dropped.
        peer.send(raw.message(XID, bytes(4), RESPONSE, kind=octets[15]))
        assert peer.endpoint_events() == []
    assert_works(peer)


# Replies in pieces


@pytest.mark.req("V2-41")
def test_replies_that_are_interleaved_fail_both_of_their_calls() -> None:
    peer = Client()
    other = peer.endpoint.call(9, message(9, 0), NOTHING)
    peer.heard()
    peer.reply(REPLY, RESPONSE | MORE)
    peer.send(raw.message(9, struct.pack(">II", 9, 1), RESPONSE | MORE))
    events = peer.endpoint_events()
    assert {getattr(event, "call", None) for event in events} == {peer.handle, other}
    assert all(isinstance(event, CallFailed) and isinstance(event.error, RemoteProtocolError) for event in events)
    peer.send(raw.message(9, bytes(4), RESPONSE))
    peer.reply(bytes(4))
    assert peer.endpoint_events() == []
    assert_works(peer)


@pytest.mark.req("V2-41", "V2-A3")
@each_case(
    "octets",
    [
        raw.message(99, struct.pack(">II", 99, 1), RESPONSE),
        raw.message(99, struct.pack(">II", 99, 1), RESPONSE | MORE),
        raw.message(99, kind=NOMSG, flags=RESPONSE, reply=raw.chunk((1, 8, 0))),
        raw.message(XID, kind=NOMSG, flags=RESPONSE, reply=raw.chunk((1, 8, 0))),
        raw.message(XID, CALL),
        raw.message(XID, CALL, MORE),
        raw.prefix(99, MSG, RESPONSE) + word(0) + word(2),
        raw.properties(xid=99, give=0),
        raw.prefix(99, 77),
    ],
)
@each_case("pieces", [1, 3])
def test_a_reply_that_is_broken_fails_its_call_at_once_whether_it_ends_or_not(octets: bytes, pieces: int) -> None:
    peer = Client()
    for _ in range(pieces):
        peer.reply(REPLY, RESPONSE | MORE)
    peer.send(octets)
    assert isinstance(peer.failure(), RemoteProtocolError)
    assert peer.endpoint.statistics.bad_replies == 1
    # The rest never comes: other calls go on, and this one has ended for good.
    assert_works(peer)
    assert peer.endpoint_events() == []
    assert peer.endpoint.calls_in_flight == 0


def test_a_reply_in_the_midst_of_its_call_ends_the_call_and_the_rest_of_it_still_goes_out() -> None:
    peer = Client(config=TransportConfig(in_messages_octets_max=1 << 20), argument=20_000, give=3)
    assert [each.flags for each in peer.calls] == [MORE] * 3
    peer.reply(give=0)
    assert isinstance(peer.event(), ReplyArrived)
    # Its receiver finds it whole.
    peer.send(raw.grant(8))
    rest = [each for each in peer.heard() if each.xid]
    assert [each.flags for each in rest] == [MORE] * (len(rest) - 1) + [0]
    assert sum(len(each.payload) for each in peer.calls + rest) == 20_012
    # It is answered a second time, in vain.
    peer.reply()
    assert peer.endpoint_events() == []
    assert_works(peer)


def test_a_call_that_is_refused_in_its_midst_and_sent_again_is_not_mixed_with_itself() -> None:
    config = TransportConfig(in_messages_octets_max=1 << 20)
    peer = Client(ReplyBound(20), config, argument=20_000, give=3)
    peer.send(raw.error(XID, raw.REPLY_RESOURCE, 2_000))
    assert peer.heard() == []
    peer.send(raw.error(XID, raw.REPLY_RESOURCE, 1_200_000))
    assert peer.endpoint_events() == [], "the first attempt is still on its way: this error is none of the second"
    peer.send(raw.grant(30))
    told = peer.calls + [each for each in peer.heard() if each.xid]
    ends = [index for index, each in enumerate(told) if not each.flags & MORE]
    first, second = told[: ends[0] + 1], told[ends[0] + 1 :]
    assert sum(len(each.payload) for each in first) == 20_012
    assert all(each.reply is None for each in first)
    assert sum(len(each.payload) for each in second) == 20_012
    peer.reply(reply=unused(*(second[-1].reply or ())) if second[-1].reply else b"")
    assert isinstance(peer.event(), ReplyArrived)


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


# Errors that lie


# Credits


# Replies that are not finished


def test_a_reply_in_pieces_that_stop_coming_ends_the_connection() -> None:
    peer = Client(config=TransportConfig(stalled_s=30.0))
    assert not peer.endpoint.untimed, "an answer that has not begun is the caller's to wait for"
    peer.reply(flags=RESPONSE | MORE)
    assert peer.endpoint.untimed
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
