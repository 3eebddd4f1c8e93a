"""The pool of memory for bulk results."""

from __future__ import annotations

import pytest

from rpcrdma.aio.buffer_pool import BufferPool, OutOfBuffers

KIB = 1 << 10
MIB = 1 << 20


@pytest.mark.parametrize("length", [0, 1, 4096, 4097, MIB, 4 * MIB, 4 * MIB + 1])
def test_a_buffer_has_the_length_asked_for_and_can_be_written(length: int) -> None:
    pool = BufferPool()
    buffer = pool.acquire(length)
    assert len(buffer) == length
    buffer[:] = b"x" * length
    assert pool.lent_octets >= length
    pool.release(buffer)
    assert pool.lent_octets == 0


def test_memory_is_used_again_for_lengths_of_the_same_class() -> None:
    pool = BufferPool()
    first = pool.acquire(MIB)
    memory = first.obj
    pool.release(first)
    assert pool.acquire(MIB - 5).obj is memory
    assert pool.acquire(MIB).obj is not memory


def test_buffers_above_the_largest_class_are_not_kept() -> None:
    pool = BufferPool()
    buffer = pool.acquire(5 * MIB)
    memory = buffer.obj
    pool.release(buffer)
    assert pool.acquire(5 * MIB).obj is not memory


def test_beyond_the_pools_size_buffers_are_for_one_use() -> None:
    pool = BufferPool(pool_octets_max=MIB)
    kept, single = pool.acquire(MIB), pool.acquire(MIB)
    memories = (kept.obj, single.obj)
    pool.release(single)
    pool.release(kept)
    assert pool.acquire(MIB).obj is memories[0]
    assert pool.acquire(MIB).obj is not memories[1]


def test_free_buffers_of_other_sizes_make_room() -> None:
    pool = BufferPool(pool_octets_max=64 * KIB)
    small = [pool.acquire(4 * KIB) for _ in range(16)]
    for buffer in small:
        pool.release(buffer)
    large = pool.acquire(64 * KIB)
    memory = large.obj
    pool.release(large)
    assert pool.acquire(64 * KIB).obj is memory


def test_what_is_lent_is_bounded() -> None:
    pool = BufferPool(pool_octets_max=MIB, octets_max=3 * MIB)
    lent = [pool.acquire(MIB) for _ in range(3)]
    with pytest.raises(OutOfBuffers, match="3145728"):
        pool.acquire(1)
    pool.release(lent.pop())
    pool.release(pool.acquire(MIB))
    assert pool.lent_octets == 2 * MIB


def test_a_buffer_is_taken_back_once_and_foreign_memory_never() -> None:
    pool = BufferPool()
    buffer = pool.acquire(100)
    pool.release(buffer)
    pool.release(buffer)
    pool.release(memoryview(bytearray(4096)))
    assert pool.lent_octets == 0
    assert pool.acquire(100).obj is not pool.acquire(100).obj
