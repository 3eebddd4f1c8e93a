"""The soak test's rules for warm-up and for growth."""

from __future__ import annotations

import mmap

from process_state import Look, growth, look, warmed_up
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.rpc.record import RecordReceiver
from rpcrdma.rpc.reply_cache import CallKey, ReplyCache
from rpcrdma.transport.assembly import Assembly
from rpcrdma.xdr.codec import Payload

MIB = 1 << 20


def looks_at(*objects: int) -> list[Look]:
    return [Look(0, count) for count in objects]


def test_the_warm_up_ends_when_objects_become_hardly_more() -> None:
    assert warmed_up(looks_at(100, 200, 400, 410, 415)) == 3
    assert warmed_up(looks_at(100, 90, 400)) == 1
    assert warmed_up(looks_at(100, 110, 121, 133)) is None
    assert warmed_up(looks_at(100)) is None


def test_growth_is_that_of_one_half_after_the_other() -> None:
    leaking = [Look(50_000 + 2000 * number, 0) for number in range(10)]
    grown, allowed = growth(leaking)
    assert grown == 10_000 > allowed
    # One look in which much happened to be in use is no growth.
    grown, allowed = growth([Look(50_000, 0)] * 8 + [Look(70_000, 0)] + [Look(50_000, 0)])
    assert grown == 0 < allowed


def test_what_is_bounded_and_comes_and_goes_is_left_out() -> None:
    pool = BufferPool(pool_octets_max=8 * MIB)
    before = look()
    lent = [pool.acquire(MIB) for _ in range(32)]
    for buffer in lent:
        buffer[:] = b"\1" * len(buffer)
    receiver = RecordReceiver(32 * MIB)
    (scratch, *_) = receiver.next_buffers()
    scratch[:4] = (1 << 31 | 16 * MIB).to_bytes(4, "big")
    receiver.bytes_received(4)
    assemblies = [Assembly() for _ in range(16)]
    for assembly in assemblies:
        assembly.take((1,), b"\1" * MIB, more=True)
    cache = ReplyCache()
    for xid in range(4000):
        call = cache.begin(CallKey("192.0.2.7", xid, 1, 1, 1, 0, 0))
        cache.finish(call, Payload(bytes(3000), []), 0.0)
    after = look()
    assert after.kib - before.kib < 8 << 10
    assert after.objects - before.objects < 1000
    # Pages of its own: the heap may have as much left of what other tests have freed.
    kept = mmap.mmap(-1, 16 * MIB)
    for start in range(0, len(kept), MIB):
        kept[start : start + MIB] = b"\1" * MIB
    assert look().kib - after.kib > 12 << 10
    assert len(cache) == 4000
