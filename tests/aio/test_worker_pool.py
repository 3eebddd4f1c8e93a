"""How worker threads are dealt out."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rpcrdma.aio.answering.worker_pool import ConnectionCalls, WorkerPool


class Rig:
    """A pool whose calls last until they are let go: each says its name when it starts."""

    def __init__(self, workers: int) -> None:
        self.pool = WorkerPool(workers)
        self.started: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.finished: queue.SimpleQueue[ConnectionCalls] = queue.SimpleQueue()
        self.gates: dict[str, threading.Semaphore] = {}

    def call(self, address: str, connection: str, count: int = 1) -> None:
        gate = self.gates.setdefault(connection, threading.Semaphore(0))

        def work(calls: ConnectionCalls) -> None:
            self.started.put(connection)
            gate.acquire()
            self.finished.put(calls)

        for _ in range(count):
            self.pool.submit(address, connection, work)

    def next(self, count: int = 1) -> list[str]:
        return [self.started.get(timeout=10) for _ in range(count)]

    def end(self, connection: str) -> None:
        self.gates[connection].release()
        self.pool.release(self.finished.get(timeout=10))

    @property
    def running(self) -> int:
        return sum(calls.held for calls in self.pool._connections.values())


@contextmanager
def pool_of(workers: int) -> Iterator[Rig]:
    rig = Rig(workers)
    try:
        yield rig
    finally:
        for gate in rig.gates.values():
            gate.release(10_000)
        rig.pool.shutdown(wait=True)


@pytest.mark.parametrize(("workers", "alone"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (8, 6), (32, 30)])
def test_one_connection_leaves_threads_to_another_and_one_client_to_another(workers: int, alone: int) -> None:
    with pool_of(workers) as rig:
        rig.call("a", "a1", 100)
        assert rig.next(alone) == ["a1"] * alone
        assert rig.running == alone
        if workers >= 5:
            rig.call("a", "a2", 100)
            assert rig.next() == ["a2"]
        if workers > 1:
            rig.call("b", "b1", 100)
            assert rig.next() == ["b1"]
        assert rig.running == workers
        assert rig.started.empty()


def test_a_client_that_has_none_gets_the_next_thread_and_then_the_one_that_has_fewest() -> None:
    with pool_of(8) as rig:
        rig.call("a", "a1", 100)
        rig.next(6)
        for client in "bcd":
            rig.call(client, f"{client}1", 100)
        assert set(rig.next(2)) == {"b1", "c1"}
        for _ in range(4):
            rig.end("a1")
        # One thread goes to who has none. Two are then kept, and the fourth goes to who has waited longest with one.
        assert set(rig.next(2)) == {"d1", "b1"}
        assert rig.running == 6
        assert rig.started.empty()


def test_long_calls_of_one_take_no_more_threads_than_short_ones_of_another() -> None:
    with pool_of(8) as rig:
        rig.call("short", "short", 300)
        rig.next(6)
        rig.call("long", "long", 300)
        assert rig.next() == ["long"]
        for _ in range(3):
            rig.end("short")
        assert rig.next(2) == ["long"] * 2
        for _ in range(200):
            rig.end("short")
            assert rig.next() == ["short"]


def test_connections_of_one_client_take_turns() -> None:
    with pool_of(1) as rig:
        rig.call("a", "first", 4)
        for connection in ("one", "two", "three"):
            rig.call("a", connection, 2)
        order = rig.next()
        for _ in range(9):
            rig.end(order[-1])
            order += rig.next()
        assert order == ["first", "first", "one", "two", "three", "first", "one", "two", "three", "first"]


def test_a_result_that_has_not_been_taken_keeps_its_thread() -> None:
    with pool_of(1) as rig:
        rig.call("a", "a1", 2)
        rig.next()
        rig.gates["a1"].release()
        calls = rig.finished.get(timeout=10)
        assert rig.started.empty()
        rig.pool.release(calls)
        assert rig.next() == ["a1"]


def test_what_waits_at_the_end_is_dropped() -> None:
    with pool_of(1) as rig:
        rig.call("a", "a1", 5)
        rig.next()
        rig.gates["a1"].release()
        rig.pool.shutdown(wait=True)
        rig.pool.release(rig.finished.get(timeout=10))
        assert rig.started.empty()


def test_all_calls_run_and_nothing_is_left_of_what_is_over() -> None:
    pool = WorkerPool(8)
    finished: queue.SimpleQueue[ConnectionCalls] = queue.SimpleQueue()
    ran: Counter[object] = Counter()

    def work(calls: ConnectionCalls) -> None:
        finished.put(calls)

    for number in range(2000):
        pool.submit(f"client {number % 3}", number % 17, work)
    for _ in range(2000):
        calls = finished.get(timeout=10)
        ran[calls.connection] += 1
        pool.release(calls)
    pool.shutdown(wait=True)
    assert sum(ran.values()) == 2000
    assert max(ran.values()) - min(ran.values()) <= 1
    assert (pool._connections, pool._turns._clients, pool._idle) == ({}, {}, 8)
