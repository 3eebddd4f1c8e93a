"""The cache of replies to calls that must not run twice: its content, for how long, and within which bounds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from rpcrdma import limits
from rpcrdma.rpc.program import null_procedure
from rpcrdma.rpc.reply_cache import CallKey, KnownCall, ReplyCache, call_key, detached
from rpcrdma.xdr.codec import BulkItem, Decoder, Payload, PlacedByPosition
from support.cases import each_case

PROCEDURE = null_procedure(7, 1)


SMALL = limits.REPLY_CACHE_SMALL_OCTETS
LENGTHS = (0, 1, SMALL - 1, SMALL, SMALL + 1, 2 * SMALL, 3 * SMALL, 3 * SMALL + 1)


def key(xid: int, octets: bytes = b"call", client: str = "192.0.2.7") -> CallKey:
    return call_key(client, xid, PROCEDURE, Decoder(octets))


def reply(length: int) -> Payload:
    return Payload(bytes(length))


def answer(cache: ReplyCache, xid: int, length: int, now_s: float) -> None:
    cache.finish(cache.begin(key(xid)), reply(length), now_s)


class Looked(dict[CallKey, KnownCall]):
    """Calls, of which the oldest may be looked for 5000 times."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        assert self.looks <= 5000, "the oldest call does not go"
        return super().values()


def watched(**bounds: Any) -> ReplyCache:
    """A cache that fails where it would make room for ever."""
    cache = ReplyCache(**bounds)
    cache._answered = Looked()
    return cache


def test_a_call_is_known_while_it_runs_and_then_by_its_reply() -> None:
    cache = ReplyCache()
    assert cache.find(key(1), 0.0) is None
    call = cache.begin(key(1))
    assert cache.find(key(1), 1e9) is call
    assert call.running
    assert repr(call) == "KnownCall(xid=0x00000001, running)"
    result = reply(8)
    cache.finish(call, result, 5.0)
    assert cache.find(key(1), 6.0) is call
    assert not call.running
    assert call.reply is result
    assert repr(call) == "KnownCall(xid=0x00000001, answered)"
    assert len(cache) == 1
    small = ReplyCache(reply_octets_max=7)
    answer(small, 1, 8, 0.0)
    assert repr(small.find(key(1), 0.0)) == "KnownCall(xid=0x00000001, reply not kept)"


def test_the_key_covers_what_is_in_chunks_as_if_it_were_in_the_stream() -> None:
    def keyed(data: bytes, *chunk: bytes) -> CallKey:
        """Of a call whose data may come in a Read chunk."""
        stream = b"head" + len(data).to_bytes(4, "big") + (b"" if chunk else data + bytes(-len(data) % 4)) + bytes(4)
        decoder = Decoder(stream, placed=PlacedByPosition({8: memoryview(chunk[0])} if chunk else {}))
        decoder.octets(4, "head")
        assert decoder.bulk(1 << 20, "item") == data
        decoder.octets(4, "end")
        decoder.done("call")
        return call_key("192.0.2.7", 1, PROCEDURE, decoder)

    for data in (b"odd", bytes(range(256)) * 20, bytes(9001)):
        # With its padding, or without (RFC 8166 section 3.4.5.2).
        padded = data + bytes(-len(data) % 4)
        assert keyed(data, data) == keyed(data, padded) == keyed(data)
        for at in {0, len(data) // 2, len(data) - 1}:
            other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            assert keyed(other, other) == keyed(other) != keyed(data)
        assert keyed(data + b"\0", data + b"\0") != keyed(data)


def test_a_kept_reply_has_octets_of_its_own() -> None:
    memory = bytearray(b"result")
    reply = Payload(b"head", [BulkItem(4, 4, memory)])
    reply.begun = [0, 1]
    own = detached(reply)
    memory[:] = b"reused"
    assert b"".join(own.gather()) == b"headresult\0\0"
    assert own.begun == [0, 1]
    plain = Payload(b"head")
    assert detached(plain) is plain


def refused(cache: ReplyCache, xid: int, length: int, client: str = "192.0.2.7") -> KnownCall:
    call = cache.begin(key(xid, client=client))
    result = reply(length)
    cache.finish(call, result, 0.0)
    cache.hold(call, result)
    return call


def test_a_refused_reply_is_held_until_it_is_sent_however_long_it_is() -> None:
    cache = ReplyCache(reply_octets_max=100, refused_octets_max=1000)
    call = refused(cache, 1, 1000)
    assert call.reply is None
    held = cache.held(call)
    assert held is not None
    assert held.length == 1000
    cache.hold(call, held)
    assert cache.held(call) is held
    cache.sent(call)
    assert cache.held(call) is None
    assert cache.held(refused(cache, 2, 1001)) is None
    # A reply that is kept in any case stays after it is sent.
    small = refused(cache, 3, 100)
    cache.sent(small)
    assert cache.held(small) is small.reply


@dataclass
class Answered:
    xid: int
    length: int
    at_s: float
    kept: bool


class Model:
    """Answered calls, the oldest first."""

    def __init__(self, *, entries_max: int, octets_max: int, reply_octets_max: int, age_s: float) -> None:
        self.entries_max = entries_max
        self.octets_max = octets_max
        self.reply_octets_max = reply_octets_max
        self.age_s = age_s
        self.calls: list[Answered] = []

    def octets(self) -> int:
        return sum(call.length for call in self.calls if call.kept)

    def expire(self, now_s: float) -> None:
        self.calls = [call for call in self.calls if now_s - call.at_s <= self.age_s]

    def finish(self, xid: int, length: int, now_s: float) -> None:
        fits = length <= self.reply_octets_max and length <= self.octets_max
        self.calls.append(Answered(xid, length, now_s, fits))
        self.expire(now_s)
        self.calls = self.calls[-self.entries_max :]
        while self.octets() > self.octets_max:
            kept = [call for call in self.calls if call.kept]
            large = [call for call in kept if call.length > SMALL]
            (large or kept)[0].kept = False


@each_case("seed", range(12))
def test_what_is_kept_is_what_a_list_of_answered_calls_says(seed: int) -> None:
    draw = random.Random(seed)
    bounds = {
        "entries_max": draw.choice([1, 4, 12]),
        "octets_max": draw.choice([0, SMALL, 4 * SMALL, 9 * SMALL + 3]),
        "reply_octets_max": draw.choice([SMALL, 3 * SMALL]),
        "age_s": 8.0,
    }
    cache, model = watched(**bounds), Model(**bounds)
    running: dict[int, KnownCall] = {}
    now_s = 0.0
    for xid in range(150):
        now_s += draw.choice([0.0, 0.5, 1.0, 8.0] if xid % 30 == 0 else [0.0, 0.25])
        running[xid] = cache.begin(key(xid))
        assert running[xid].answered_at_s == 0.0
        assert running[xid].reply is None
        if draw.random() < 0.1:
            cache.forget(running.pop(xid))
        while len(running) > draw.randrange(4):
            ended, length = draw.choice(sorted(running)), draw.choice(LENGTHS)
            call = running.pop(ended)
            cache.finish(call, Payload(bytes(length)), now_s)
            assert call.answered_at_s == now_s
            assert not call.running
            model.finish(ended, length, now_s)
            assert cache.octets == model.octets(), xid
            # In each queue the oldest first, so that it is the one to go.
            kept = [(each.xid, each.length) for each in model.calls if each.kept]
            assert [each.key.xid for each in cache._small] == [each for each, octets in kept if octets <= SMALL]
            assert [each.key.xid for each in cache._large] == [each for each, octets in kept if octets > SMALL]
            assert len(cache) == len(running) + len(model.calls), xid
        known = {each.xid: each for each in model.calls if now_s - each.at_s <= model.age_s}
        for each in range(xid + 1):
            found = cache.find(key(each), now_s)
            assert (found is not None) == (each in running or each in known), (xid, each)
            if found is not None and each in known:
                assert (found.reply is not None) == known[each].kept, (xid, each)
        model.expire(now_s)
        assert len(cache) == len(running) + len(model.calls)


def test_replies_are_kept_up_to_the_last_octet_that_there_is_room_for() -> None:
    cache = watched(octets_max=2 * SMALL)
    answer(cache, 1, SMALL, 0.0)
    answer(cache, 2, SMALL, 0.0)
    assert (cache.octets, len(cache._small)) == (2 * SMALL, 2)
    answer(cache, 3, 1, 0.0)
    assert [call.key.xid for call in cache._small] == [2, 3]


@each_case("lengths", [(SMALL, SMALL + 1), (SMALL + 1, SMALL)])
def test_the_call_that_is_forgotten_takes_its_own_reply_along(lengths: tuple[int, int]) -> None:
    cache = watched(entries_max=2)
    for xid, length in enumerate(lengths):
        answer(cache, xid, length, 0.0)
    answer(cache, 2, 0, 0.0)
    assert cache.octets == lengths[1]
    assert sorted(call.key.xid for call in (*cache._small, *cache._large)) == [1, 2]


def test_a_refused_reply_is_held_for_answered_calls_alone() -> None:
    cache = ReplyCache()
    running = cache.begin(key(1))
    cache.hold(running, Payload(b"reply"))
    assert cache.held(running) is None
    reply = Payload(bytes(limits.REPLY_CACHE_REPLY_OCTETS_MAX + 4))
    cache.finish(running, reply, 0.0)
    assert cache.held(running) is None
    cache.hold(running, reply)
    assert cache.held(running) is reply
    # It is forgotten with age, as every other call.
    assert cache.find(key(1), 0.0) is running
    assert cache.find(key(1), limits.REPLY_CACHE_AGE_S + 1) is None
    assert cache.held(running) is None
