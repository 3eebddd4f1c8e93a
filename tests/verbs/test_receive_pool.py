"""Memory that connections share for arriving messages."""

from __future__ import annotations

from rpcrdma.testing.endpoint_pair import EndpointPair
from rpcrdma.transport import TransportConfig
from rpcrdma.verbs import ReceivePool


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
