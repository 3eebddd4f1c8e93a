"""Credits, cancellation, memory bounds and the end of a connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rpcrdma import limits
from rpcrdma.errors import TransportClosed
from rpcrdma.testing.endpoint_pair import SMALL_MESSAGES, BarePeer, EndpointPair, message
from rpcrdma.transport import (
    CallArrived,
    CallFailed,
    ChunkRefused,
    Closed,
    EndpointEvent,
    ReplyArrived,
    ReplyBound,
    ReplySent,
    Role,
    TransportConfig,
)
from rpcrdma.transport.message_memory import PlainBuffers
from rpcrdma.transport.outbox import UNFINISHED_SELDOM
from rpcrdma.verbs.loopback import LoopbackQueuePair
from support.cases import each_case

CALL, REPLY = 0, 1
NOTHING = ReplyBound(0)


def kinds(events: list[EndpointEvent]) -> list[type]:
    return [type(event) for event in events]


def answer_all(pair: EndpointPair) -> list[int]:
    """Answers the open calls; the XIDs."""
    calls = pair.arrived()
    for incoming in calls:
        pair.server.reply(incoming, message(incoming.xid, REPLY))
    return [incoming.xid for incoming in calls]


@pytest.mark.req("V1-7", "V1-8", "V1-2", "V1-4")
def test_one_call_goes_out_until_the_first_reply_then_as_many_as_granted() -> None:
    pair = EndpointPair(TransportConfig(credits_requested=20), TransportConfig(credits_granted=6)).connect()
    for xid in range(10):
        pair.client.call(xid, message(xid, CALL), NOTHING)
    assert pair.client.credits_granted == 1
    assert answer_all(pair) == [0]
    pair.run()
    assert (pair.client.credits_granted, pair.client.credits_requested) == (6, 20)
    assert answer_all(pair) == [1, 2, 3, 4, 5, 6]
    assert answer_all(pair) == [7, 8, 9]
    pair.run()
    assert kinds(pair.client_events()) == [ReplyArrived] * 10


def receives_when_sending(queue_pair: LoopbackQueuePair) -> list[int]:
    """How many receives are posted at the moment of each Send from now on."""
    seen: list[int] = []
    post_send = queue_pair.post_send

    def spy(*args: Any, **options: Any) -> None:
        seen.append(queue_pair.receives_posted)
        post_send(*args, **options)

    queue_pair.post_send = spy  # type: ignore[method-assign]
    return seen


@pytest.mark.req("V1-5")
def test_receives_are_posted_before_the_grant_is_sent() -> None:
    pair = EndpointPair(SMALL_MESSAGES, TransportConfig(credits_granted=100)).connect()
    assert pair.server_qp.receives_posted < 20
    seen = receives_when_sending(pair.server_qp)
    pair.client.call(1, message(1, CALL), NOTHING)
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(1, REPLY))
    assert len(seen) == 1
    assert seen[0] >= 100
    assert pair.client_qp.receives_posted < 20


@pytest.mark.req("V1-6", "BD-16")
@each_case("caller", list(Role))
def test_requester_has_a_receive_for_each_reply_before_it_sends(caller: Role) -> None:
    config = TransportConfig(reverse_credits_requested=100, reverse_credits_granted=100)
    pair = EndpointPair(config, config, reverse=True).connect()
    pair.server.allow_reverse()
    ends = [(pair.client, pair.client_qp), (pair.server, pair.server_qp)]
    if caller is Role.SERVER:
        ends.reverse()
    (requester, queue_pair), (responder, _) = ends
    requester.call(0, message(0, CALL), NOTHING)
    pair.run()
    called = responder.next_event()
    assert isinstance(called, CallArrived)
    responder.reply(called.incoming, message(0, REPLY))
    pair.run()
    seen = receives_when_sending(queue_pair)
    for xid in range(1, 101):
        requester.call(xid, message(xid, CALL), NOTHING)
    assert len(seen) == 100
    assert all(receives >= xid for xid, receives in enumerate(seen, start=1))


@pytest.mark.req("PD-2", "PD-8", "V1-11")
def test_each_connection_negotiates_for_itself() -> None:
    first = EndpointPair(
        TransportConfig(inline_send_octets=8192), TransportConfig(inline_receive_octets=8192)
    ).connect()
    second = EndpointPair(TransportConfig(inline_send_octets=8192), SMALL_MESSAGES).connect()
    assert first.client.inline_send_octets == 8192
    assert second.client.inline_send_octets == 4096
    # The next one may say nothing.
    third = BarePeer(Role.CLIENT, TransportConfig(inline_send_octets=8192), private_data=b"").endpoint
    assert (third.inline_send_octets, third.remote_invalidation) == (1024, False)


class CountingBuffers(PlainBuffers):
    """Lends memory and counts the lent pieces."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.most = most
        self.out: dict[int, memoryview] = {}

    def acquire(self, length: int) -> memoryview:
        if length > self.most:
            raise MemoryError
        view = memoryview(bytearray(length + 100))
        self.out[id(view)] = view
        return view

    def release(self, view: memoryview) -> None:
        assert self.out.pop(id(view)) is view


@pytest.mark.req("NF-12", "NF-13")
def test_call_over_its_own_bound_is_refused_without_any_rdma_read() -> None:
    pair = EndpointPair(SMALL_MESSAGES, TransportConfig(call_octets_pulled_max=8000)).connect()
    for xid, size in ((1, 8000), (2, 8001), (3, 4500)):
        pair.client.call(xid, message(xid, CALL, (b"", bytes(size))), NOTHING)
    assert answer_all(pair) == [1]
    assert answer_all(pair) == [3]
    pair.run()
    refused = pair.client_events()[1]
    assert isinstance(refused, CallFailed)
    assert refused.call.xid == 2
    assert isinstance(refused.error, ChunkRefused)
    assert pair.server.statistics.rdma_reads == 2


def test_a_call_over_the_bound_of_the_connection_waits_until_another_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CONNECTION_OCTETS_PULLED_MAX", 12_000)
    pair = EndpointPair(SMALL_MESSAGES, replace(SMALL_MESSAGES, call_octets_pulled_max=8000)).connect()
    pair.client.call(0, message(0, CALL), NOTHING)
    answer_all(pair)
    for xid in (1, 2):
        pair.client.call(xid, message(xid, CALL, (b"", bytes(8000))), NOTHING)
    assert [answer_all(pair) for _ in range(3)] == [[1], [2], []]


@each_case("given_up_first", [False, True])
def test_calls_that_the_server_drops_and_the_client_gives_up_leave_room_for_as_many_others(
    given_up_first: bool,
) -> None:
    settings = replace(SMALL_MESSAGES, credits_requested=2, credits_granted=2)
    pair = EndpointPair(settings, settings, version="2").connect()
    for xid in range(0, 12, 3):
        # The third one waits for the others to end.
        calls = [pair.client.call(xid + number, message(xid + number, CALL), NOTHING) for number in range(3)]
        arrived = pair.arrived()
        assert len(arrived) == 2
        for number, call in enumerate(arrived):
            if given_up_first:
                pair.client.abandon(calls[number])
            pair.server.drop(call)
        pair.run()
        for call in calls[: 0 if given_up_first else 2]:
            pair.client.abandon(call)
        assert answer_all(pair) == [xid + 2]
        pair.run()


def test_calls_that_wait_and_are_given_up_with_others_are_never_sent() -> None:
    settings = replace(SMALL_MESSAGES, credits_requested=2, credits_granted=2)
    pair = EndpointPair(settings, settings, version="2").connect()
    pair.client.call(0, message(0, CALL), NOTHING)
    assert answer_all(pair) == [0]
    pair.run()
    calls = [pair.client.call(xid, message(xid, CALL), NOTHING) for xid in range(1, 7)]
    for call in pair.arrived():
        pair.server.drop(call)
    pair.run()
    for call in calls:
        pair.client.abandon(call)
    assert pair.arrived() == []


def test_a_server_that_drops_all_calls_does_not_make_the_client_keep_ever_more() -> None:
    settings = replace(SMALL_MESSAGES, credits_requested=2, credits_granted=2)
    pair = EndpointPair(settings, settings, version="2").connect()
    for xid in range(limits.ABANDONED_CALLS_MAX + 1):
        assert kinds(pair.client_events()) == []
        call = pair.client.call(xid, message(xid, CALL), NOTHING)
        for incoming in pair.arrived():
            pair.server.drop(incoming)
        pair.run()
        pair.client.abandon(call)
        pair.run()
    [closed] = pair.client_events()
    assert isinstance(closed, Closed)
    assert not closed.protocol_error, "the client connects again"
    assert closed.reason == "too many calls were given up that the peer never answered"
    assert not pair.client.requester.calls


def test_end_of_the_connection_fails_every_call_once_and_comes_last() -> None:
    pair = EndpointPair(SMALL_MESSAGES, TransportConfig(credits_granted=2)).connect()
    pair.client.call(0, message(0, CALL), NOTHING)
    answer_all(pair)
    pair.run()
    pair.client_events()
    memory = bytearray(5000)
    handles = [pair.client.call(xid, message(xid, CALL), ReplyBound(0, (5000,)), (memory,)) for xid in range(1, 5)]
    abandoned = handles.pop(0)
    pair.client.abandon(abandoned)
    pair.arrived()
    pair.server.abort("enough")
    pair.run()
    events = pair.client_events()
    assert kinds(events) == [CallFailed] * 3 + [Closed]
    assert [event.call for event in events[:3]] == handles  # type: ignore[union-attr]
    assert {type(event.error) for event in events[:3]} == {TransportClosed}  # type: ignore[union-attr]
    assert not pair.client_pd.regions
    (closed,) = pair.server_events()
    assert closed == Closed("enough", by_peer=False, protocol_error=False)
    with pytest.raises(TransportClosed):
        pair.client.call(9, message(9, CALL), NOTHING)
    pair.run()
    assert pair.client_events() == pair.server_events() == []


def test_buffers_are_free_when_the_connection_ends_whatever_had_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTION_OCTETS_PULLED_MAX", 12_000)
    buffers = CountingBuffers()
    pair = EndpointPair(
        replace(SMALL_MESSAGES, inline_receive_octets=16384),
        replace(SMALL_MESSAGES, inline_send_octets=16384, call_octets_pulled_max=6000),
        buffers=buffers,
    ).connect()
    pair.client.call(0, message(0, CALL), NOTHING)
    answer_all(pair)
    for xid in range(1, 6):
        pair.client.call(xid, message(xid, CALL, (b"", bytes(5000))), NOTHING)
    first, second = pair.arrived()
    # One reply is on its way, and not copied; one call is with its handler, the others wait.
    pair.server._outbox.ended = pair.server._outbox.posted - UNFINISHED_SELDOM - 1
    assert pair.server.reply(first, message(1, REPLY, (b"", bytes(5000))))
    pair.server.abort("enough")
    pair.run()
    events = pair.server_events()
    assert kinds(events) == [ReplySent, Closed]
    assert len(buffers.out) == 1
    assert not pair.server.reply(second, message(2, REPLY, (b"", b"item")))
    assert not buffers.out
    assert not pair.server_pd.regions


def test_a_refused_call_gives_its_memory_back() -> None:
    buffers = CountingBuffers()
    pair = EndpointPair(SMALL_MESSAGES, SMALL_MESSAGES, buffers=buffers).connect()
    pair.client.call(1, message(1, CALL, (b"", bytes(5000))), NOTHING)
    (incoming,) = pair.arrived()
    assert len(buffers.out) == 1
    pair.server.fail_call(incoming)
    assert not buffers.out
