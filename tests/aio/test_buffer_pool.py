"""The pool of memory for bulk results."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from rpcrdma.aio.answering import buffer_pool
from rpcrdma.aio.answering.buffer_pool import BufferPool, BufferShare, OutOfBuffers
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.errors import ConnectFailed, OutOfMemory
from rpcrdma.transport import TransportConfig
from support.cases import each_case
from support.waiting import until

KIB = 1 << 10
MIB = 1 << 20


def lent(share: BufferShare, length: int) -> memoryview:
    buffer = share.acquire(length)
    assert buffer is not None
    return buffer


@each_case("length", [0, 1, 4096, 4097, MIB, 4 * MIB, 4 * MIB + 1])
def test_a_buffer_has_the_length_asked_for_and_can_be_written(length: int) -> None:
    pool = BufferPool()
    share = pool.share("a")
    buffer = lent(share, length)
    assert len(buffer) == length
    buffer[:] = b"x" * length
    assert pool.lent_octets >= length
    share.release(buffer)
    assert pool.lent_octets == 0


def test_memory_is_used_again_for_lengths_of_the_same_class() -> None:
    share = BufferPool().share("a")
    first = lent(share, MIB)
    memory = first.obj
    share.release(first)
    assert lent(share, MIB - 5).obj is memory
    assert lent(share, MIB).obj is not memory


def test_the_memory_that_came_back_last_is_lent_first() -> None:
    """It is warm, and a server that answers one call after the other touches no other."""
    share = BufferPool().share("a")
    buffers = [lent(share, MIB) for _ in range(4)]
    memories = [buffer.obj for buffer in buffers]
    for buffer in buffers:
        share.release(buffer)
    for memory in reversed(memories):
        assert lent(share, MIB).obj is memory


def test_a_share_does_not_take_back_the_memory_of_another() -> None:
    pool = BufferPool()
    one, other = pool.share("a"), pool.share("b")
    buffer = lent(one, MIB)
    other.release(buffer)
    assert (pool.lent_octets, one.held, other.held) == (MIB, MIB, 0)
    one.release(buffer)
    one.release(buffer)
    assert (pool.lent_octets, one.held, other.held) == (0, 0, 0)


def test_buffers_above_the_largest_class_are_not_kept() -> None:
    share = BufferPool().share("a")
    buffer = lent(share, 5 * MIB)
    memory = buffer.obj
    share.release(buffer)
    assert lent(share, 5 * MIB).obj is not memory


def test_beyond_the_pools_size_buffers_are_for_one_use() -> None:
    share = BufferPool(pool_octets_max=MIB).share("a")
    kept, single = lent(share, MIB), lent(share, MIB)
    memories = (kept.obj, single.obj)
    share.release(single)
    share.release(kept)
    assert lent(share, MIB).obj is memories[0]
    assert lent(share, MIB).obj is not memories[1]


def test_a_shortage_of_memory_uses_up_none_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    share = BufferPool(pool_octets_max=MIB).share("a")
    with monkeypatch.context() as patch:
        patch.setattr(buffer_pool, "PooledMemory", Mock(side_effect=OutOfMemory("none")))
        with pytest.raises(OutOfMemory):
            share.acquire(MIB)
    buffer = lent(share, MIB)
    memory = buffer.obj
    share.release(buffer)
    assert lent(share, MIB).obj is memory


def test_free_buffers_of_other_sizes_make_room() -> None:
    share = BufferPool(pool_octets_max=64 * KIB).share("a")
    small = [lent(share, 4 * KIB) for _ in range(16)]
    for buffer in small:
        share.release(buffer)
    large = lent(share, 64 * KIB)
    memory = large.obj
    share.release(large)
    assert lent(share, 64 * KIB).obj is memory


def test_what_is_lent_is_bounded() -> None:
    pool = BufferPool(pool_octets_max=MIB, octets_max=3 * MIB)
    shares = [pool.share(client) for client in "abcd"]
    buffers = [lent(share, MIB) for share in shares[:3]]
    assert shares[3].acquire(1) is None
    shares[0].release(buffers[0])
    shares[3].release(lent(shares[3], MIB))
    assert pool.lent_octets == 2 * MIB


def test_a_buffer_is_taken_back_once_and_foreign_memory_never() -> None:
    pool = BufferPool()
    share = pool.share("a")
    buffer = lent(share, 100)
    share.release(buffer)
    share.release(buffer)
    share.release(memoryview(bytearray(4096)))
    assert pool.lent_octets == 0
    assert lent(share, 100).obj is not lent(share, 100).obj


# Shares


def taken(share: BufferShare, most: int = 10_000) -> list[memoryview]:
    """All that a connection gets, in pieces of 64 KiB."""
    buffers: list[memoryview] = []
    while len(buffers) < most and (buffer := share.acquire(64 * KIB)) is not None:
        buffers.append(buffer)
    return buffers


@pytest.mark.thorough
@each_case("clients", [1, 2, 5, 16, 31])
def test_greedy_clients_leave_eight_ninths_each_of_what_they_find(clients: int) -> None:
    pool = BufferPool(octets_max=256 * MIB)
    for client in range(clients):
        for _ in range(4):
            taken(pool.share(f"192.0.2.{client}"))
    assert pool.octets_max - pool.lent_octets >= pool.octets_max * (8 / 9) ** clients
    assert pool.share("198.51.100.1").acquire(MIB) is not None


def test_one_connection_has_a_17th_and_two_less_than_a_ninth() -> None:
    pool = BufferPool(octets_max=17 * 9 * MIB)
    first, second = pool.share("a"), pool.share("a")
    assert len(taken(first)) * 64 * KIB == 9 * MIB
    taken(second)
    assert pool.lent_octets <= 17 * MIB
    assert len(taken(pool.share("b"))) * 64 * KIB >= 8 * MIB


def test_no_connection_is_kept_from_its_first_buffer_by_others_of_its_client_until_these_have_half_of_all() -> None:
    pool = BufferPool(octets_max=64 * MIB)
    greedy = [pool.share("a") for _ in range(8)]
    for share in greedy:
        taken(share)
    assert not pool.share("a").crowded
    assert pool.share("a").acquire(MIB) is not None
    many = [pool.share("a").acquire(MIB) for _ in range(100)]
    assert 0 < many.count(None) < 99
    assert pool.lent_octets <= 32 * MIB
    assert greedy[0].acquire(1) is None
    # Others have their share of the other half.
    assert len(taken(pool.share("b"))) * 64 * KIB > 32 * MIB // 18
    assert pool.share("c").acquire(MIB) is not None


def test_greed_in_turns_ends_in_equal_parts() -> None:
    pool = BufferPool(octets_max=64 * MIB)
    shares = [pool.share(f"client {number}") for number in range(7)]
    busy = True
    while busy:
        busy = False
        for share in shares:
            busy |= len(taken(share, 1)) == 1
    held = [share.held for share in shares]
    assert max(held) - min(held) <= 64 * KIB
    assert pool.octets_max - pool.lent_octets >= max(held)


async def test_what_waits_goes_on_in_turns_when_there_is_memory_for_it() -> None:
    pool = BufferPool(octets_max=4 * MIB)
    holder, one, other = pool.share("a"), pool.share("b"), pool.share("c")
    others = [pool.share("d"), pool.share("e")]
    held = [lent(holder, MIB), lent(others[0], MIB), lent(others[1], 2 * MIB)]
    order: list[str] = []

    def wait(share: BufferShare, name: str) -> None:
        def resume() -> None:
            buffer = share.acquire(MIB)
            assert buffer is not None
            order.append(name)
            share.release(buffer)
            assert share is not faulty, "a fault of one connection, for which the others do not wait"

        share.wait(MIB, resume)

    faulty = pool.share("a")
    wait(faulty, "faulty")
    for number in range(2):
        wait(one, f"one {number}")
    wait(other, "other")
    await asyncio.sleep(0)
    assert order == []
    assert pool.waited_for
    holder.release(held[0])
    escaped: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
    await until(lambda: not pool.waited_for)
    assert len(escaped) == 1
    assert order == ["faulty", "one 0", "other", "one 1"]
    for share, buffer in zip(others, held[1:], strict=True):
        share.release(buffer)
    assert pool.lent_octets == 0


async def test_what_waits_for_more_than_a_pool_has_since_it_became_smaller_asks_again() -> None:
    pool = BufferPool(octets_max=4 * MIB)
    share, other = pool.share("a"), pool.share("b")
    held = lent(other, 4 * MIB)
    refused: list[int] = []
    share.wait(2 * MIB, lambda: refused.append(pool.lent_octets))
    pool.octets_max = MIB
    other.release(held)
    await until(lambda: not pool.waited_for)
    assert refused == [0]


async def test_turns_go_by_client_and_within_it_by_connection() -> None:
    """Many connections of one client get no more turns than one of another."""

    pool = BufferPool(octets_max=MIB)
    holder = pool.share("holder")
    held = holder.acquire(MIB)
    assert held is not None
    order: list[str] = []

    def wait(share: BufferShare, name: str) -> None:
        def resume() -> None:
            order.append(name)
            buffer = share.acquire(MIB)
            assert buffer is not None
            share.release(buffer)

        share.wait(MIB, resume)

    for number in range(4):
        share = pool.share("many")
        for _ in range(2):
            wait(share, f"many {number}")
    few = pool.share("few")
    for _ in range(3):
        wait(few, "few")
    holder.release(held)
    await until(lambda: not pool.waited_for)
    assert order[:6] == ["many 0", "few", "many 1", "few", "many 2", "few"]
    assert order[6:] == ["many 3", "many 0", "many 1", "many 2", "many 3"]


async def test_the_end_of_a_connection_ends_its_waiting_and_its_client_is_forgotten_with_its_last_buffer() -> None:
    pool = BufferPool(octets_max=MIB)
    share = pool.share("a")
    buffer = share.acquire(MIB)
    assert buffer is not None
    ended: list[bool] = []
    share.wait(MIB, lambda: ended.append(True))
    share.close()
    assert ended == [True]
    assert not pool.waited_for
    with pytest.raises(OutOfBuffers):
        share.acquire(1)
    share.wait(1, lambda: ended.append(True))
    assert ended == [True, True]
    # The memory of the old connection counts for the new one's client.
    assert pool.share("a").crowded
    share.release(buffer)
    share.close()
    assert pool.lent_octets == 0


@each_case(("pooled", "size"), [(MIB, 16 * KIB), (0, 12 * KIB)])
def test_reserved_memory_is_there_when_nothing_else_is_and_is_counted_as_the_buffer_takes_it(
    pooled: int, size: int
) -> None:
    pool = BufferPool(pool_octets_max=pooled, octets_max=64 * KIB)
    share = pool.share("a")
    assert share.reserve(16 * KIB)
    assert pool.share("a").reserve(4 * KIB)
    others = lent(pool.share("b"), 44 * KIB)
    assert share.acquire(1) is None
    buffer = share.acquire(9000, reserved=16 * KIB)
    assert buffer is not None
    assert (share.held, share.client.held - 4 * KIB, pool.lent_octets - 48 * KIB) == (size, size, size)
    assert share.counted == 0
    share.release(buffer)
    assert (share.held, share.client.held, pool.lent_octets) == (0, 4 * KIB, len(others) + 4 * KIB)


def test_more_than_there_is_can_never_be_had() -> None:
    with pytest.raises(OutOfBuffers, match="at most 1048576"):
        BufferPool(octets_max=MIB).share("a").acquire(MIB + 1)


def test_of_what_has_arrived_a_connection_takes_28_of_256_mebibytes_and_16_clients_leave_7() -> None:
    pool = BufferPool(octets_max=256 * MIB)
    left = [pool.share(f"192.0.2.{number}") for number in range(16)]
    first = left[0]
    while first.take_in(MIB // 16):
        pass
    assert 28 * MIB < pool.lent_octets < 28.5 * MIB
    for share in left:
        # A connection of its own for each 4 MiB, until the client has its part.
        of_client = [share, *(pool.share(share.client.address) for _ in range(15))]
        while any(each.take_in(MIB // 16) for each in of_client if each.held < 4 * MIB):
            pass
    assert pool.octets_max - pool.lent_octets > 7 * MIB
    other = pool.share("198.51.100.1")
    assert other.take_in(MIB)
    other.give_back(MIB)
    assert other.held == 0


async def test_a_connection_for_which_the_device_has_no_room_leaves_no_client_behind() -> None:
    link = Mock(peer=("192.0.2.1", 1), active=False, open=Mock(side_effect=ConnectFailed("no room")))
    pools = BufferPool(), BufferPool()
    with pytest.raises(ConnectFailed, match="no room"):
        RdmaConnection(link, transport=TransportConfig(), results=pools[0], arguments=pools[1])
    assert [pool.turns._clients for pool in pools] == [{}, {}]
