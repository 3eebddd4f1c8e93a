"""A connection after its start-up: its state, its sends, and the memory of the start-up."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.iwarp import IwarpConfig, MpaRole
from rpcrdma.iwarp.sender import Work
from rpcrdma.iwarp.states import State
from rpcrdma.verbs.memory import SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Disconnected, Established, Verb
from support.cases import each_case
from support.raw_iwarp import RawPeer, events_of, fpdu, startup_frame, tagged, untagged

DRAWN = 0x9E3779B97F4A7C15F39CC0605CEDC835


def peer(role: MpaRole, config: IwarpConfig | None = None) -> RawPeer:
    count = itertools.count(1)
    return RawPeer(role, SoftwareProtectionDomain(lambda bits: next(count) * DRAWN >> 7 & (1 << bits) - 1), config)


def held_of_the_start(raw: RawPeer) -> tuple[object, ...]:
    return raw.qp._startup, raw.qp._request, raw.qp._agreement


def test_a_responder_is_mute_until_the_first_frame_and_then_open() -> None:
    raw = peer(MpaRole.RESPONDER)
    assert raw.qp.state is State.AWAITING_REQUEST
    raw.give(startup_frame("Req", 0x50, 2, bytes.fromhex("0020 0020")))
    assert raw.qp.state is State.REQUESTED
    raw.qp.accept(b"")
    assert raw.qp.state is State.REPLYING
    raw.take()
    assert raw.qp.state is State.MUTE
    raw.qp.post_send(1, [b"said"])
    assert raw.take() == b""
    raw.give(fpdu(tagged(0, 0, 0)))
    assert raw.qp.state is State.OPEN
    assert raw.take() == fpdu(untagged(3, 0, 1, b"said"))
    assert held_of_the_start(raw) == (b"", None, None)


def test_an_initiator_is_open_with_the_reply() -> None:
    raw = peer(MpaRole.INITIATOR)
    assert raw.qp.state is State.AWAITING_REPLY
    raw.connect()
    assert raw.qp.state is State.OPEN
    raw.qp.post_send(1, [b"said"])
    assert raw.take() == fpdu(untagged(3, 0, 1, b"said"))


@each_case("role", MpaRole)
def test_both_ends_hear_once_that_the_connection_is_there(role: MpaRole) -> None:
    raw = peer(role)
    raw.connect()
    if role is MpaRole.RESPONDER:
        raw.give(fpdu(tagged(0, 0, 0)) * 2)
    found = [event for event in events_of(raw.qp) if isinstance(event, Established)]
    assert [(event.private_data, event.inbound_reads, event.outbound_reads) for event in found] == [(b"", 32, 32)]


@pytest.mark.parametrize("pieces", [1, 2, 59, 60, 61, 62, 120, 600])
@pytest.mark.parametrize("octets", [1, 3, 100])
def test_a_message_of_any_number_of_pieces_is_sent_whole(pieces: int, octets: int) -> None:
    raw = peer(MpaRole.INITIATOR)
    raw.connect()
    gather = [bytes([number % 251]) * octets for number in range(pieces)]
    raw.qp.post_send(1, gather)
    assert len(raw.qp.next_gather(1 << 18)) <= 512
    sent, payload = raw.take(), b""
    while sent:
        length = int.from_bytes(sent[:2], "big")
        payload += sent[20 : 2 + length]
        sent = sent[(length + 5 & ~3) + 4 :]
    assert payload == b"".join(gather)


@each_case("frames", [1, 2, 5])
def test_the_send_queue_is_empty_when_everything_is_sent(frames: int) -> None:
    raw = peer(MpaRole.INITIATOR)
    raw.connect()
    for number in range(frames):
        raw.qp.post_send(number, [b"x" * 3000])
    raw.take()
    assert raw.qp.next_gather(1 << 18) == []
    assert [(each.wr, each.verb, each.length) for each in raw.qp.completions] == [
        (number, Verb.SEND, 3000) for number in range(frames)
    ]


def test_a_connection_drains_before_it_ends() -> None:
    raw = peer(MpaRole.INITIATOR)
    raw.connect()
    events_of(raw.qp)
    raw.qp.post_send(1, [b"x" * 3000])
    raw.qp.next_gather(1 << 18)
    raw.qp.disconnect()
    assert raw.qp.state is State.DRAINING
    assert events_of(raw.qp) == []
    raw.take()
    assert raw.qp.state is State.CLOSED
    (event,) = events_of(raw.qp)
    assert isinstance(event, Disconnected)
    assert raw.qp.completions.popleft()


def test_a_send_queue_of_a_disconnect_alone_ends_the_connection() -> None:
    raw = peer(MpaRole.INITIATOR)
    raw.connect()
    events_of(raw.qp)
    raw.qp._sender.send_queue.append(Work(None, None, 0, (), 0))
    assert raw.qp.next_gather(1 << 18) == []
    assert raw.qp.state is State.CLOSED
    (event,) = events_of(raw.qp)
    assert event == Disconnected(reason="disconnected", by_peer=False)
    assert raw.qp.next_gather(1 << 18) == []
    assert events_of(raw.qp) == []
