"""Memory that connections share for arriving messages."""

from __future__ import annotations

import pytest

from rpcrdma.testing.endpoint_pair import EndpointPair
from rpcrdma.transport import TransportConfig
from rpcrdma.verbs import ReceivePool
from rpcrdma.verbs.receive_pool import ScatteredBuffer


def test_what_is_given_back_is_given_again() -> None:
    pool = ReceivePool(64)
    first, second = pool.take(), pool.take()
    assert len(first) == len(second) == 64
    assert first.obj is not second.obj
    pool.give_back(first)
    assert pool.take() is first


def test_so_much_is_kept_and_no_more() -> None:
    pool = ReceivePool(64, kept_max=2)
    taken = [pool.take() for _ in range(4)]
    for buffer in taken:
        pool.give_back(buffer)
    again = [pool.take() for _ in range(4)]
    assert [any(buffer is each for each in taken) for buffer in again] == [True, True, False, False]


def test_endpoints_hold_no_memory_for_calls_that_do_not_come() -> None:
    class Counting(ReceivePool):
        taken = 0

        def take(self) -> memoryview:
            self.taken += 1
            return super().take()

    pool = Counting(4096)
    pair = EndpointPair(TransportConfig(), TransportConfig(credits_granted=100), receive_pool=pool).connect()
    assert pair.server_qp.receives_posted > 0
    assert pool.taken == 0


def test_a_plain_buffer_is_its_only_part() -> None:
    memory = memoryview(bytearray(range(128)))
    buffers = ReceivePool(64).divide(memory, 2)
    assert [[bytes(part) for part in buffer.parts] for buffer in buffers] == [[memory[:64]], [memory[64:]]]


def test_what_is_longer_than_a_scattered_buffer_is_refused_whole() -> None:
    memory = memoryview(bytearray(8))
    buffer = ScatteredBuffer((memory[:3], memory[3:]))
    with pytest.raises(ValueError, match="6 octets at 3 do not fit in a buffer of 8"):
        buffer.write(3, b"abcdef")
    assert bytes(memory) == bytes(8)
    buffer.write(2, b"abcdef")
    assert buffer.joined(8) == b"\0\0abcdef"
