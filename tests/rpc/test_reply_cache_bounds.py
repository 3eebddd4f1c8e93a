"""The cache of replies against a plain list of the calls that it has answered, with bounds that calls often reach."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from rpcrdma import limits
from rpcrdma.rpc.reply_cache import CallKey, KnownCall, ReplyCache
from rpcrdma.xdr.codec import Payload
from support.cases import each_case

SMALL = limits.REPLY_CACHE_SMALL_OCTETS
LENGTHS = (0, 1, SMALL - 1, SMALL, SMALL + 1, 2 * SMALL, 3 * SMALL, 3 * SMALL + 1)


def key(xid: int) -> CallKey:
    return CallKey("192.0.2.7", xid, 7, 1, 1, 40, 0)


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


@pytest.mark.thorough
@each_case("seed", range(30))
def test_what_is_kept_is_what_a_list_of_answered_calls_says(seed: int) -> None:
    draw = random.Random(seed)
    bounds = {
        "entries_max": draw.choice([1, 4, 12]),
        "octets_max": draw.choice([0, SMALL, 4 * SMALL, 9 * SMALL + 3]),
        "reply_octets_max": draw.choice([SMALL, 3 * SMALL]),
        "age_s": 8.0,
    }
    cache, model = ReplyCache(**bounds), Model(**bounds)
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


def test_bounds_by_default_are_those_of_the_limits() -> None:
    assert ReplyCache.__init__.__kwdefaults__ == {
        "entries_max": limits.REPLY_CACHE_ENTRIES_MAX,
        "octets_max": limits.REPLY_CACHE_OCTETS_MAX,
        "reply_octets_max": limits.REPLY_CACHE_REPLY_OCTETS_MAX,
        "refused_octets_max": limits.REPLY_CACHE_REFUSED_OCTETS_MAX,
        "age_s": limits.REPLY_CACHE_AGE_S,
    }


@pytest.mark.parametrize("running", [False, True])
def test_a_call_that_has_not_run_is_unknown_again(running: bool) -> None:
    cache = ReplyCache()
    others = [cache.begin(key(2))] if running else []
    cache.forget(cache.begin(key(1)))
    assert cache.find(key(1), 0.0) is None
    assert len(cache) == len(others)
    again = cache.begin(key(1))
    cache.finish(again, Payload(b"1"), 0.0)
    assert cache.find(key(1), 0.0) is again


def test_a_call_cannot_begin_while_it_runs() -> None:
    cache = ReplyCache()
    call = cache.begin(key(1))
    with pytest.raises(AssertionError):
        cache.begin(key(1))
    assert cache.find(key(1), 0.0) is call


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
