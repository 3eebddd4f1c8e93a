"""Both directions on one connection: the same version, identifiers apart, and none at the other's expense."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest

from rpcrdma import limits
from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, calls_in, message
from rpcrdma.transport import CallFailed, IncomingCall, ReplyArrived, ReplyBound, Role, TransportConfig
from rpcrdma.verbs.loopback import LoopbackQueuePair
from support.cases import each_case
from support.raw_calls import header
from support.raw_replies import header as reply_header

CALL, REPLY = 0, 1
NOTHING = ReplyBound(0)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, bytes, int]]:
    """(queue pair, message, receives that its sender then had posted) of each Send, in order."""
    sends: list[tuple[object, bytes, int]] = []
    post_send = LoopbackQueuePair.post_send

    def recorded(self: LoopbackQueuePair, wr: object, gather: Any, **options: Any) -> None:
        sends.append((self, b"".join(gather), self.receives_posted))
        post_send(self, wr, gather, **options)

    monkeypatch.setattr(LoopbackQueuePair, "post_send", recorded)
    return sends


def both_ways(client: TransportConfig | None = None, server: TransportConfig | None = None) -> EndpointPair:
    pair = EndpointPair(client, server, reverse=True).connect()
    pair.server.allow_reverse()
    return pair


def called_back(pair: EndpointPair) -> list[IncomingCall]:
    pair.run()
    return calls_in(pair.client_events())


@pytest.mark.req("BD-20")
def test_reverse_messages_fit_the_receives_of_the_other_side() -> None:
    pair = both_ways(
        TransportConfig(inline_send_octets=3072, inline_receive_octets=2048),
        TransportConfig(inline_send_octets=8192, inline_receive_octets=8192),
    )
    room, answer_room = 2048 - 36, 3072 - 36
    pair.server.call(1, message(1, CALL, (bytes(room), None)), NOTHING)
    (incoming,) = called_back(pair)
    assert len(incoming.decoder.octets(8 + room, "all")) == 8 + room
    pair.client.reply(incoming, message(1, REPLY, (bytes(answer_room), None)))
    pair.run()
    assert [type(event) for event in pair.server_events()] == [ReplyArrived]
    # Four octets more in either: nothing that would not fit is sent.
    before = pair.client.statistics.receives
    for arguments, results in ((room + 4, 0), (0, answer_room - 24 + 4)):
        with pytest.raises(LocalProtocolError, match="without them the limits are 2048 and 3072"):
            pair.server.call(2, message(2, CALL, (bytes(arguments), None)), ReplyBound(results))
    assert called_back(pair) == []
    assert pair.client.statistics.receives == before
    pair.server.call(3, message(3, CALL), NOTHING)
    (incoming,) = called_back(pair)
    assert not pair.client.reply(incoming, message(3, REPLY, (bytes(answer_room + 4), None)))
    pair.run()
    assert [type(event) for event in pair.server_events()] == [CallFailed]


@pytest.mark.req("BD-1", "BD-21")
def test_an_xid_in_use_is_refused_in_its_own_direction_only() -> None:
    pair = both_ways()
    pair.client.call(7, message(7, CALL), NOTHING)
    with pytest.raises(LocalProtocolError, match="0x00000007 is outstanding"):
        pair.client.call(7, message(7, CALL), NOTHING)
    pair.server.call(7, message(7, CALL), NOTHING)
    with pytest.raises(LocalProtocolError, match="0x00000007 is outstanding"):
        pair.server.call(7, message(7, CALL), NOTHING)
    # A call that waits for a credit holds its XID as well.
    pair.server.call(8, message(8, CALL), NOTHING)
    with pytest.raises(LocalProtocolError, match="0x00000008 is outstanding"):
        pair.server.call(8, message(8, CALL), NOTHING)
    (incoming,) = called_back(pair)
    pair.client.reply(incoming, message(7, REPLY))
    pair.run()
    # Answered there, it is free there; here it is not.
    pair.server.call(7, message(7, CALL), NOTHING)
    with pytest.raises(LocalProtocolError, match="outstanding"):
        pair.client.call(7, message(7, CALL), NOTHING)


@pytest.mark.req("BD-22")
@each_case("without", list(Role))
def test_a_side_with_the_reverse_direction_serves_one_without_it(without: Role) -> None:
    """The other side is made of octets: it has never heard of RFC 8167."""
    if without is Role.CLIENT:
        peer = BarePeer(Role.SERVER, reverse=True)
        peer.endpoint.allow_reverse()
        # It has dropped this one without a word.
        peer.endpoint.call(1, message(1, CALL), NOTHING)
        peer.run()
        for xid in range(200):
            peer.send(header(xid=xid) + struct.pack(">II", xid, CALL))
            (incoming,) = calls_in(peer.endpoint_events())
            peer.endpoint.reply(incoming, message(xid, REPLY))
            peer.run()
            assert peer.received[-1][:4] == xid.to_bytes(4)
            peer.endpoint_events()
    else:
        peer = BarePeer(Role.CLIENT, reverse=True)
        for xid in range(200):
            peer.endpoint.call(xid, message(xid, CALL), NOTHING)
            peer.run()
            peer.send(reply_header(xid) + struct.pack(">II", xid, REPLY))
            assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived]


FORMS = [
    (arguments, argument, result, results)
    for arguments, argument, result, results in itertools.product((0, 9000), repeat=4)
]


@pytest.mark.req("BD-23")
def test_forward_calls_cost_the_same_work_with_and_without_the_reverse_direction(sent: list[Any]) -> None:
    """The same messages and the same RDMA operations; while reverse calls wait unanswered, too."""
    seen = []
    for reverse, waiting in ((False, 0), (True, 0), (True, 50)):
        pair = EndpointPair(reverse=reverse).connect()
        if waiting:
            pair.server.allow_reverse()
            for xid in range(waiting):
                pair.server.call(xid, message(xid, CALL), NOTHING)
            assert len(called_back(pair)) == 1
        before = [(end.statistics.sends, end.statistics.rdma_writes) for end in (pair.client, pair.server)]
        sent.clear()
        for xid, (plain, argument, result, body) in enumerate(FORMS):
            pair.client.call(xid, message(xid, CALL, (bytes(plain), bytes(argument))), ReplyBound(body, (result,)))
            (incoming,) = pair.arrived()
            pair.server.reply(incoming, message(xid, REPLY, (bytes(body), bytes(result))))
            pair.run()
            pair.server_events()
            assert [type(event) for event in pair.client_events()] == [ReplyArrived]
        seen.append(
            (
                [octets for _, octets, _ in sent],
                [
                    (end.statistics.sends - sends, end.statistics.rdma_writes - writes)
                    for end, (sends, writes) in zip((pair.client, pair.server), before, strict=True)
                ],
                pair.server.statistics.rdma_reads,
                pair.client.statistics.registrations,
            )
        )
    assert seen[0][0]
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]


@pytest.mark.req("BD-17")
def test_each_connection_has_the_receives_for_its_grant_before_it_is_made() -> None:
    for _ in range(2):
        pair = EndpointPair(
            TransportConfig(reverse_credits_granted=50), TransportConfig(credits_granted=60), reverse=True
        )
        # Before either side can send: for all reverse calls, and for the one call that may come without a grant.
        assert pair.client_qp.receives_posted >= 50 + limits.SPARE_RECEIVES
        assert pair.server_qp.receives_posted >= 1 + limits.SPARE_RECEIVES
        pair.connect()
        pair.client.call(1, message(1, CALL), NOTHING)
        assert pair.client_qp.receives_posted >= 51 + limits.SPARE_RECEIVES
        (incoming,) = pair.arrived()
        pair.server.reply(incoming, message(1, REPLY))
        # The grant of 60 is in a reply that has not left yet.
        assert pair.server_qp.receives_posted >= 60 + limits.SPARE_RECEIVES
        pair.client.abort("lost")
        pair.run()
