"""The resources that each side of a connection may count on: credits, receives, and the memory behind chunks."""

from __future__ import annotations

import struct

import pytest

from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import BarePeer, calls_in, message
from rpcrdma.transport import CallArrived, ReplyArrived, ReplyBound, Role, TransportConfig
from rpcrdma.verbs import Access
from support.cases import each_case
from support.raw_calls import header, read_segment
from support.raw_replies import header as reply_header

CALL, REPLY = 0, 1
NOTHING = ReplyBound(0)
REMOTE = Access.REMOTE_READ | Access.REMOTE_WRITE


def start(xid: int, direction: int) -> bytes:
    return struct.pack(">II", xid, direction)


# Credits


# Receives


@pytest.mark.req("V1-2", "V1-87")
@each_case(("requested", "granted"), [(4, 9), (9, 4), (5, 5), (7, 1)])
def test_calls_in_flight_keep_to_the_lower_of_request_and_grant(requested: int, granted: int) -> None:
    peer = BarePeer(Role.CLIENT, TransportConfig(credits_requested=requested))
    lower = min(requested, granted)
    for xid in range(40):
        peer.endpoint.call(xid, message(xid, CALL), NOTHING)
    peer.run()
    answered = 0
    assert len(peer.received) == 1
    while answered < 40:
        assert len(peer.received) - answered <= (lower if answered else 1)
        peer.send(reply_header(answered, grant=granted) + start(answered, REPLY))
        answered += 1
        # The allowed number, less the unanswered ones.
        assert len(peer.received) == min(40, answered + lower)
    assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived] * 40


@pytest.mark.req("V1-88")
def test_a_server_sends_one_message_for_each_call_and_none_to_a_client_without_calls() -> None:
    # One receive, posted anew after each message: a second one at a time would end the connection.
    peer = BarePeer(Role.SERVER, receives=1)
    nothing_to_answer = [
        b"",
        header()[:27],
        header(kind=3)[:16],
        struct.pack(">IIIII", 9, 1, 1, 4, 2),
        header(xid=9) + start(9, REPLY),
    ]
    for octets in nothing_to_answer:
        assert peer.send(octets) == []
    for xid in range(20):
        assert peer.send(header(xid=xid) + start(xid, CALL)) == []
        (incoming,) = calls_in(peer.endpoint_events())
        for octets in nothing_to_answer:
            assert peer.send(octets) == []
        if xid % 4 == 3:
            peer.endpoint.drop(incoming)
        else:
            peer.endpoint.reply(incoming, message(xid, REPLY))
        peer.run()
        peer.endpoint_events()
        assert len(peer.received) == xid + 1 - (xid + 1) // 4
    (refusal,) = peer.send(header(kind=9))
    assert refusal[12:20] == struct.pack(">II", 4, 2)
    assert peer.events == []


@pytest.mark.req("BD-15")
@each_case("answered", [False, True])
def test_a_client_takes_all_reverse_calls_and_all_replies_at_once(answered: bool) -> None:
    grant = outstanding = 4 * limits.SPARE_RECEIVES + 32
    config = TransportConfig(credits_requested=outstanding, reverse_credits_granted=grant)
    peer = BarePeer(Role.CLIENT, config, reverse=True)
    peer.endpoint.call(0, message(0, CALL), NOTHING)
    peer.run()
    peer.send(reply_header(0, grant=outstanding) + start(0, REPLY))
    peer.endpoint_events()
    for xid in range(1, outstanding + 1):
        peer.endpoint.call(xid, message(xid, CALL), NOTHING)
        if answered and xid == outstanding // 2:
            # With the reply to a reverse call, the client counts its receives anew.
            peer.send(header(xid=0) + start(0, CALL))
            (incoming,) = calls_in(peer.endpoint_events())
            peer.endpoint.reply(incoming, message(0, REPLY))
    peer.run()
    assert peer.endpoint.calls_in_flight == outstanding
    # All before the client looks at any of them.
    for xid in range(grant):
        peer.qp.post_send(None, [header(xid=xid) + start(xid, CALL)], signaled=False)
    for xid in range(1, outstanding + 1):
        peer.qp.post_send(None, [reply_header(xid) + start(xid, REPLY)], signaled=False)
    peer.run()
    kinds = [type(event) for event in peer.endpoint_events()]
    assert kinds == [CallArrived] * grant + [ReplyArrived] * outstanding
    assert peer.events == []


@pytest.mark.req("BD-18", "BD-16")
def test_a_server_has_a_receive_for_each_reverse_reply_before_it_calls_and_keeps_to_the_grant() -> None:
    calls = grant = 2 * limits.SPARE_RECEIVES + 8
    config = TransportConfig(reverse_credits_requested=2 * grant, reverse_credits_granted=grant, credits_granted=grant)
    peer = BarePeer(Role.SERVER, config, reverse=True)
    peer.endpoint.allow_reverse()
    for xid in range(2 * calls + 1):
        peer.endpoint.call(xid, message(xid, CALL), NOTHING)
    peer.run()
    assert [octets[:4] for octets in peer.received] == [bytes(4)]
    peer.send(reply_header(0, grant=grant) + start(0, REPLY))
    # No more than the client granted, for any number of waiting calls.
    assert len(peer.received) == 1 + grant
    assert peer.endpoint.reverse_calls_in_flight == grant
    # The replies come together with as many forward calls as are granted, none looked at before all are there.
    assert peer.send(header(xid=0) + start(0, CALL)) == []
    events = peer.endpoint_events()
    assert [type(event) for event in events] == [ReplyArrived, CallArrived]
    assert isinstance(events[1], CallArrived)
    peer.endpoint.reply(events[1].incoming, message(0, REPLY))
    peer.run()
    peer.endpoint_events()
    for xid in range(1, grant + 1):
        peer.qp.post_send(None, [reply_header(xid, grant=grant) + start(xid, REPLY)], signaled=False)
        peer.qp.post_send(None, [header(xid=xid) + start(xid, CALL)], signaled=False)
    peer.run()
    kinds = [type(event) for event in peer.endpoint_events()]
    assert kinds == [ReplyArrived, CallArrived] * grant
    assert peer.events == []


# Memory


@pytest.mark.req("V1-93")
@each_case("outcome", ["reply", "fail_call", "drop"])
def test_a_server_reads_nothing_of_a_call_any_more_once_it_may_answer(outcome: str) -> None:
    peer = BarePeer(Role.SERVER, private_data=TransportConfig(remote_invalidation=False).private_data())
    stream = start(1, CALL) + struct.pack(">I", 5000)
    region = peer.pd.register(bytearray(stream + b"d" * 5000), REMOTE)
    long = read_segment(0, region.handle, 12, region.offset)
    item = read_segment(12, region.handle, 5000, region.offset + 12)
    assert peer.send(header(reads=long + item, kind=1, xid=1)) == []
    (incoming,) = calls_in(peer.endpoint_events())
    assert peer.endpoint.statistics.rdma_reads == 2
    # The client may take its memory back with the answer: no caller asks for it.
    peer.pd.invalidate(region)
    if outcome == "reply":
        incoming.decoder.octets(8, "start")
        assert bytes(incoming.decoder.bulk(5000, "item")) == b"d" * 5000
        peer.endpoint.reply(incoming, message(1, REPLY))
    else:
        getattr(peer.endpoint, outcome)(incoming)
    peer.run()
    assert peer.endpoint.statistics.rdma_reads == 2
    assert peer.events == []
