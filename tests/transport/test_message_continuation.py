"""Messages of version 2 that go out in several Sends: at any threshold, with any number of credits, both ways."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import Closed, ReplyArrived, ReplyBound, ReplySent, Role, TransportConfig
from rpcrdma.verbs.loopback import LoopbackQueuePair
from support import raw_messages as raw
from support.cases import each_case

CALL, REPLY = 0, 1
HEADER = 36
RPC = 8
LONGEST = limits.CONTINUED_OCTETS_MAX
THRESHOLDS = (4096, 8192, 65536)


def pattern(length: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(length)


class Pair(EndpointPair):
    """Both ends have the same threshold; `sends` are the lengths of all Sends of either end, by role.

    Each of them starts with a transport header, or it could not be taken apart.
    """

    def __init__(self, threshold: int, patch: pytest.MonkeyPatch, *, reverse: bool = False, **config: Any) -> None:
        settings = {"offered_send_octets": threshold, "offered_receive_octets": threshold, **config}
        settings.setdefault("in_messages_octets_max", LONGEST)
        both = TransportConfig(**settings)
        super().__init__(both, both, reverse=reverse, version="2")
        self.sends: dict[Role, list[int]] = {role: [] for role in Role}
        post_send = LoopbackQueuePair.post_send

        def watched(qp: Any, wr: object, gather: Any, **options: Any) -> None:
            octets = b"".join(gather)
            raw.HeardMessage(octets)
            self.sends[Role.CLIENT if qp is self.client_qp else Role.SERVER].append(len(octets))
            post_send(qp, wr, gather, **options)

        patch.setattr(LoopbackQueuePair, "post_send", watched)
        self.connect()
        if reverse:
            self.server.allow_reverse()
        for lengths in self.sends.values():
            lengths.clear()

    def exchange(self, xid: int, argument: int, result: int) -> None:
        """One call and its reply, both without chunks."""
        self.client.call(xid, message(xid, CALL, (pattern(argument, xid), None)), ReplyBound(result))
        (incoming,) = self.arrived()
        assert bytes(incoming.decoder.octets(RPC + argument, "call")[RPC:]) == pattern(argument, xid)
        self.server.reply(incoming, message(xid, REPLY, (pattern(result, ~xid), None)))
        self.run()
        (event,) = self.client_events()
        assert isinstance(event, ReplyArrived)
        assert bytes(event.decoder.octets(RPC + result, "reply")[RPC:]) == pattern(result, ~xid)
        event.decoder.done("reply")
        assert all(isinstance(each, ReplySent) for each in self.server_events())
        assert self.client.statistics.registrations == self.server.statistics.registrations == 0
        assert self.client._outbox.queued == self.server._outbox.queued == 0


def sends_of(octets: int, threshold: int) -> int:
    """How many Sends carry an RPC message of so many octets: the last one has 8 of them or more."""
    if octets + HEADER <= threshold:
        return 1
    room = threshold - HEADER
    return 1 + -(-(octets - room) // room)


@pytest.mark.req("V2-1", "V2-2", "V2-26", "V2-46")
@each_case("threshold", THRESHOLDS)
def test_calls_and_replies_of_any_length_are_whole_and_no_send_is_longer_than_the_threshold(
    threshold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(threshold, monkeypatch)
    room = threshold - HEADER
    lengths = [0, 4]
    for count in (1, 2, 3):
        lengths += [count * room + more - RPC for more in (-8, -4, 0, 4, 8, 12)]
    for xid, length in enumerate(lengths, 1):
        for argument, result in ((length, 4), (4, length), (length, length)):
            pair.exchange(xid, argument, result)
            for role, octets in ((Role.CLIENT, argument), (Role.SERVER, result)):
                sent = [each for each in pair.sends[role] if each > HEADER]
                assert len(sent) == sends_of(RPC + octets, threshold)
                assert max(sent) <= threshold
                assert sum(sent) == RPC + octets + HEADER * len(sent)
                pair.sends[role].clear()
    assert pair.server.statistics.discarded == pair.client.statistics.discarded == 0


@pytest.mark.thorough
@pytest.mark.req("V2-44")
@each_case("threshold", THRESHOLDS[:2])
@each_case("credits_", [1, 2, 5])
def test_with_few_credits_a_long_message_waits_in_its_midst_for_more(
    threshold: int, credits_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(threshold, monkeypatch, credits_requested=credits_, credits_granted=credits_)
    for xid in range(1, 8):
        pair.exchange(xid, 100_000, 100_000)
        pair.exchange(xid, 4, 4)
        pair.exchange(xid, 4, 100_000)
    # The server grants the further credits asynchronously; the client has granted those of replies before.
    assert pair.server.statistics.grants_sent > 0
    assert pair.server.statistics.grants_sent == pair.client.statistics.grants_received
    assert pair.client.statistics.grants_sent == 0


@pytest.mark.req("V2-6", "V2-44")
@each_case("threshold", THRESHOLDS)
def test_a_continued_reply_that_its_client_expects_waits_for_no_credits(threshold: int) -> None:
    config = TransportConfig(
        offered_send_octets=threshold, offered_receive_octets=threshold, in_messages_octets_max=LONGEST
    )
    pair = EndpointPair(config, config, version="2")
    pair.connect()
    assert waiting_sends(pair, 1, LONGEST - 100) == 0


@pytest.mark.req("V2-6", "V2-44")
@each_case("threshold", THRESHOLDS[:2])
def test_only_the_first_unexpected_continued_reply_waits_for_credits(threshold: int) -> None:
    config = TransportConfig(offered_send_octets=threshold, offered_receive_octets=threshold)
    pair = EndpointPair(config, config, version="2")
    pair.connect()
    assert waiting_sends(pair, 1, LONGEST - 100) > 100
    assert pair.client.statistics.grants_sent <= 3, "one when the first message has come, others after each half"
    assert waiting_sends(pair, 2, LONGEST - 100) == 0


def waiting_sends(pair: EndpointPair, xid: int, result: int) -> int:
    """The Sends of a reply that wait for credits while the client takes nothing."""
    pair.client.call(xid, message(xid, CALL), ReplyBound(8))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(xid, REPLY, (bytes(result), None)))
    at_once = pair.server.statistics.sends
    pair.run()
    assert [type(event) for event in pair.client_events()] == [ReplyArrived]
    assert [type(event) for event in pair.server_events()] == [ReplySent]
    return pair.server.statistics.sends - at_once


@each_case("end", Role)
def test_a_message_that_is_cut_in_its_midst_leaves_nothing(end: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(4096, monkeypatch)
    pair.client.call(1, message(1, CALL, (pattern(100_000), None)), ReplyBound(8))
    for _ in range(3):
        pair.client_qp.progress(2)
        pair.server.progress()
    assert pair.server.statistics.pieces_received > 0
    (pair.client if end is Role.CLIENT else pair.server).abort("cut")
    pair.run()
    _, closed = pair.client_events()
    assert isinstance(closed, Closed)
    assert [type(event) for event in pair.server_events()] == [Closed]
    assert pair.client.calls_in_flight == pair.server.calls_in_flight == 0
    assert not pair.client_pd.regions
    assert not pair.server_pd.regions


@pytest.mark.req("V2-27")
def test_a_call_in_pieces_has_its_chunks_in_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(4096, monkeypatch, in_messages_octets_max=20_000)
    memory = bytearray(50_000)
    pair.client.call(
        1, message(1, CALL, (pattern(9000), pattern(30_000, 1)), (b"tail", None)), ReplyBound(20, (50_000,)), (memory,)
    )
    (incoming,) = pair.arrived()
    assert pair.client.statistics.pieces_sent == 2
    assert [chunk.position for chunk in incoming.chunks.reads] == [RPC + 9000 + 4]
    decoder = incoming.decoder
    assert bytes(decoder.octets(RPC + 9000, "plain")[RPC:]) == pattern(9000)
    assert bytes(decoder.bulk(1 << 20, "item")) == pattern(30_000, 1)
    assert decoder.octets(4, "tail") == b"tail"
    decoder.done("call")
    pair.server.reply(incoming, message(1, REPLY, (pattern(9000, 2), pattern(50_000, 3))))
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, ReplyArrived)
    assert pair.server.statistics.pieces_sent == 2
    assert memory == pattern(50_000, 3)
    assert not pair.client_pd.regions
    assert not pair.server_pd.regions
