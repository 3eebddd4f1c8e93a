"""Octets of calls over TCP, counted against the memory that all clients share."""

from __future__ import annotations

import asyncio

import pytest

from client_calls import MIB
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.record_memory import CallMemory
from rpcrdma.limits import RPC_UNCOUNTED_CALL_OCTETS

FREE = RPC_UNCOUNTED_CALL_OCTETS


def nothing() -> None:
    pytest.fail("nobody waited")


def test_what_is_small_is_not_counted() -> None:
    pool = BufferPool()
    memory = CallMemory(pool.share("a"), nothing)
    memory.add(FREE - 100)
    memory.expect(100)
    assert (pool.lent_octets, memory.octets, memory.short) == (0, FREE - 100, False)
    memory.expect(101)
    assert pool.lent_octets == 1
    memory.expect(0)
    assert pool.lent_octets == 0


def test_what_is_expected_becomes_what_is_held_and_goes_when_it_is_answered() -> None:
    pool = BufferPool()
    memory = CallMemory(pool.share("a"), nothing)
    memory.expect(MIB)
    assert pool.lent_octets == MIB - FREE
    memory.expect(0)
    memory.add(MIB)
    assert pool.lent_octets == MIB - FREE
    memory.add(MIB)
    assert pool.lent_octets == 2 * MIB - FREE
    memory.remove(MIB)
    memory.remove(MIB)
    assert (pool.lent_octets, memory.octets) == (0, 0)


async def test_who_finds_no_room_is_told_when_there_is_some() -> None:
    pool = BufferPool(octets_max=2 * MIB)
    told: list[str] = []
    first = CallMemory(pool.share("a"), nothing)
    second = CallMemory(pool.share("b"), lambda: told.append("second"))
    first.expect(MIB + MIB // 2 + FREE)
    second.expect(MIB)
    assert second.short
    # A repeated look registers no second time, and answers of its own may help as well.
    second.expect(MIB)
    assert not told
    first.expect(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == ["second"]
    assert not second.short
    assert pool.lent_octets == MIB - FREE


async def test_what_fits_without_being_counted_has_room_in_a_full_pool() -> None:
    pool = BufferPool(octets_max=MIB)
    assert pool.share("a").reserve(MIB)
    memory = CallMemory(pool.share("b"), nothing)
    memory.add(FREE)
    memory.expect(100)
    assert memory.short
    memory.remove(FREE)
    assert not memory.short
    memory.expect(MIB)
    assert memory.short
    memory.expect(FREE)
    assert (memory.short, pool.lent_octets) == (False, MIB)


async def test_one_client_with_many_connections_leaves_half_of_it_to_others() -> None:
    pool = BufferPool(octets_max=64 * MIB)
    taken = [CallMemory(pool.share("a"), nothing) for _ in range(100)]
    for memory in taken:
        memory.expect(MIB)
    assert sum(not memory.short for memory in taken) < 40
    assert pool.lent_octets <= 64 * MIB / 2
    other = CallMemory(pool.share("b"), nothing)
    other.expect(MIB)
    assert not other.short
    for memory in taken:
        memory._on_room = lambda: None
        memory.close()
    assert pool.lent_octets == MIB - FREE


async def test_one_record_is_the_first_that_a_connection_has_whatever_it_had_before() -> None:
    pool = BufferPool(octets_max=16 * MIB)
    # Another connection of the client holds so much that this one gets a first record, and no second beside it.
    other = pool.share("a")
    assert other.reserve(4 * MIB)
    told: list[str] = []
    memory = CallMemory(pool.share("a"), lambda: told.append("room"))
    memory.expect(MIB)
    memory.expect(0)
    memory.add(MIB)
    memory.expect(2 * MIB)
    assert memory.short
    memory.remove(MIB)
    assert (memory.short, pool.lent_octets) == (False, 4 * MIB + 2 * MIB - FREE)
    # The same where there is no room even for a first one: it waits for all of it, with nothing held.
    memory.expect(0)
    memory.add(2 * MIB)
    memory.expect(3 * MIB)
    assert pool.share("b").reserve(3 * MIB)
    memory.remove(2 * MIB)
    assert (memory.short, pool.lent_octets) == (True, 7 * MIB)
    other.give_back(2 * MIB)
    for _ in range(3):
        await asyncio.sleep(0)
    assert (memory.short, told, pool.lent_octets) == (False, ["room"], 5 * MIB + 3 * MIB - FREE)


async def test_a_record_larger_than_the_pool_has_room_when_nobody_else_holds_any() -> None:
    pool = BufferPool(octets_max=MIB // 2)
    memory = CallMemory(pool.share("a"), nothing)
    memory.expect(MIB)
    assert not memory.short
    assert pool.lent_octets == MIB // 2


async def test_what_runs_when_the_connection_ends_is_counted_until_it_is_answered() -> None:
    pool = BufferPool(octets_max=4 * MIB)
    resumed: list[bool] = []
    memory = CallMemory(pool.share("a"), lambda: resumed.append(True))
    memory.add(MIB)
    memory.expect(MIB)
    waits = memory.short
    memory.close()
    assert waits
    assert (memory.short, resumed) == (False, [])
    assert pool.lent_octets == MIB - FREE
    memory.remove(MIB)
    assert pool.lent_octets == 0
    assert not pool.waited_for
