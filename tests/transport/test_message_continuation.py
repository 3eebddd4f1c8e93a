"""Messages of version 2 that go out in several Sends: at any threshold, with any number of credits, both ways."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import ReplyArrived, ReplyBound, ReplySent, Role, TransportConfig
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
