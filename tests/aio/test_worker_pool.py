"""How worker threads are dealt out and woken."""

from __future__ import annotations

import errno
import os
import queue
import select
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from rpcrdma.aio.answering.worker_pool import Worker, WorkerPool
from support.cases import each_case


class Loop:
    """An event loop that runs everything at once, but for timers and the reader: a test makes these run."""

    def __init__(self) -> None:
        self.reader: Callable[[], None] | None = None
        self.timers: list[Callable[[], None]] = []
        self.soon = 0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon += 1
        callback()

    def call_later(self, _delay_s: float, callback: Callable[..., None], *args: object) -> None:
        self.timers.append(lambda: callback(*args))

    def add_reader(self, _fd: int, callback: Callable[..., None], *args: object) -> None:
        self.reader = lambda: callback(*args)

    def remove_reader(self, _fd: int) -> None:
        self.reader = None

    def time_passes(self) -> None:
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()


class Rig:
    """A pool whose calls last until they are let go: each says its name when it starts."""

    def __init__(self, workers: int) -> None:
        self.loop = Loop()
        self.pool: WorkerPool[str, None] = WorkerPool(
            workers, self._run, self._deliver, lambda _: None, cast("Any", self.loop)
        )
        self.started: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.threads: dict[str, set[int]] = {}
        self.finished: list[str] = []
        self.gates: dict[str, threading.Semaphore] = {}

    def _run(self, connection: str, _worker: Worker) -> None:
        self.threads.setdefault(connection, set()).add(threading.get_ident())
        self.started.put(connection)
        self.gates[connection].acquire()

    def _deliver(self, connection: str, _result: None) -> None:
        self.finished.append(connection)

    def call(
        self, address: str, connection: str, count: int = 1, *, brief: bool = False, disk: str | None = None
    ) -> None:
        """Calls of a connection; its name with that of the disk is theirs, if they wait for one."""
        name = f"{connection} {disk}" if disk else connection
        self.gates.setdefault(name, threading.Semaphore(0))
        for _ in range(count):
            self.pool.submit(address, connection, name, brief=brief, may_be_let_go=bool(disk), waits_for=disk)

    def next(self, count: int = 1) -> list[str]:
        return [self.started.get(timeout=60) for _ in range(count)]

    def end(self, connection: str) -> None:
        ended = len(self.finished)
        self.gates[connection].release()
        self.take(ended + 1)

    def take(self, results: int) -> None:
        """Waits for results, as the event loop does."""
        while len(self.finished) < results:
            assert self.loop.reader is not None
            self.loop.reader()

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


@each_case(("workers", "alone"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (8, 6), (32, 30)])
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


@each_case("brief", [False, True])
@each_case(("workers", "alone"), [(1, 1), (2, 1), (3, 1), (5, 2), (8, 5), (32, 29)])
def test_a_disk_that_stands_still_leaves_a_thread_to_every_connection(workers: int, alone: int, brief: bool) -> None:
    with pool_of(workers) as rig:
        for client in "abc":
            rig.call(client, client, 100, brief=brief, disk="still")
        rig.next()
        rig.loop.time_passes()
        rig.next(alone - 1)
        assert rig.running == alone
        if workers > 2:
            # Also to one whose calls that wait came before.
            rig.call("a", "a", disk="good")
            rig.loop.time_passes()
            assert rig.next() == ["a good"]
            rig.end("a good")
        rig.call("d", "d", disk="good")
        if workers > 1:
            rig.loop.time_passes()
            assert rig.next() == ["d good"]
        assert rig.started.empty()
        for client in "abcd":
            rig.pool.connection_ended(client)
        assert (rig.pool._waiting, rig.pool._turns.waiting) == ({}, {})
        assert rig.pool.runs_calls_of("a"), "its call is in a thread"
        assert not rig.pool.runs_calls_of("e")


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


V6 = "2001:db8::"


@each_case(("first", "second", "other"), [("a", "a", "b"), (f"{V6}1", f"{V6}2", "2001:db8:0:1::1")])
@each_case("disk", [None, "disk"])
def test_calls_beyond_the_bound_of_a_host_wait_while_others_find_threads(
    first: str, second: str, other: str, disk: str | None
) -> None:
    with pool_of(8) as rig:
        # Calls that run when the bound comes count as well, on all connections of the host.
        one, two, three = (f"{each} disk" if disk else each for each in ("one", "two", "three"))
        rig.call(first, "one", disk=disk)
        assert rig.next() == [one]
        rig.pool.bound_hosts(2)
        rig.call(first, "one", 3, disk=disk)
        rig.call(second, "two", 2, disk=disk)
        assert rig.next() == [one]
        rig.call(other, "three", 3, disk=disk)
        assert rig.next(2) == [three] * 2
        assert rig.started.empty()
        # The turn of the connection that has fewest, and of the host whose call has ended.
        rig.end(one)
        assert rig.next() == [two]
        rig.end(three)
        assert rig.next() == [three]
        assert (rig.running, rig.pool._idle) == (4, 4)
        rig.pool.bound_hosts(1)
        rig.end(one)
        assert rig.started.empty()
        rig.end(two)
        left = rig.next()
        assert rig.started.empty()
        rig.pool.bound_hosts(None)
        assert sorted([*left, *rig.next(2)]) == [one, one, two]


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
        while not rig.pool._results:
            pass
        assert rig.started.empty()
        rig.take(1)
        assert rig.next() == ["a1"]


def test_a_result_that_cannot_be_delivered_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pool_of(8) as rig:
        for name in ("a", "b"):
            rig.call(name, name)
            rig.gates[name].release()
        rig.next(2)
        rig.pool.shutdown(wait=True)
        bell, faulty = rig.pool._bell, rig.pool._results[0][0].call
        assert bell is not None
        monkeypatch.delitem(rig.__dict__, "finished")
        with pytest.raises(AttributeError):
            rig.pool._on_bell(bell)
        rig.finished = []
        rig.pool._on_bell(bell)
        assert [*rig.finished, faulty] in (["a", "b"], ["b", "a"])


def test_what_waits_at_the_end_is_dropped() -> None:
    with pool_of(1) as rig:
        rig.call("a", "a1", 5)
        rig.next()
        rig.gates["a1"].release()
        rig.pool.shutdown(wait=True)
        assert rig.started.empty()


def test_a_pool_that_ends_while_calls_run_leaves_the_loop_with_the_last_of_them() -> None:
    with pool_of(3) as rig:
        for name in ("a", "b"):
            rig.call(name, name)
        rig.next(2)
        rig.pool._wakes_soon = True
        rig.call("c", "c")
        rig.pool.shutdown(wait=False)
        rig.pool._wake()
        rig.end("a")
        assert rig.loop.reader is not None
        rig.end("b")
        assert rig.loop.reader is None
        assert rig.started.empty()


def test_all_calls_run_and_nothing_is_left_of_what_is_over() -> None:
    with pool_of(8) as rig:
        for number in range(2000):
            rig.gates[f"{number % 17}"] = threading.Semaphore(2000)
            rig.gates[f"{number % 17} disk"] = rig.gates[f"{number % 17}"]
            rig.call(
                f"client {number % 3}", f"{number % 17}", brief=number % 2 == 0, disk="disk" if number % 5 else None
            )
        rig.take(2000)
        ran = Counter(name.removesuffix(" disk") for name in rig.finished)
        pool = rig.pool
    assert max(ran.values()) - min(ran.values()) <= 1
    assert (pool._connections, pool._turns._clients, pool._idle) == ({}, {}, 8)
    assert (pool._wait_for, pool._waiting) == ({}, {})


def test_a_turn_of_the_loop_wakes_threads_once_for_all_its_calls() -> None:
    with pool_of(4) as rig:
        rig.pool._wakes_soon = True
        rig.call("a", "a1", 3)
        assert (rig.loop.soon, rig.started.empty()) == (0, True)
        rig.pool._wake()
        assert rig.next(3) == ["a1"] * 3


def test_brief_calls_run_one_after_the_other_in_one_thread_and_wake_the_loop_once() -> None:
    with pool_of(8) as rig:
        rig.call("a", "a1", 3, brief=True)
        rig.next()
        assert rig.started.empty()
        rig.gates["a1"].release(3)
        rig.next(2)
        assert rig.pool._bell is not None
        assert select.select([rig.pool._bell.fd], [], [], 60)[0], "the thread has not rung"
        assert rig.loop.reader is not None
        rig.loop.reader()
        assert not select.select([rig.pool._bell.fd], [], [], 0)[0], "the ring is taken with the results"
        assert rig.finished == ["a1"] * 3
        # Once more, though nothing has rung: the event loop must not wait.
        rig.loop.reader()
        assert len(rig.threads["a1"]) == 1


def test_calls_for_which_no_thread_can_start_run_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks_thread(_: object) -> None:
        raise RuntimeError("can't start new thread")

    def lacks_descriptor(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    with pool_of(3) as rig:
        # The first descriptor that a pool lacks is that of its own bell.
        with monkeypatch.context() as patch:
            patch.setattr(os, "eventfd", lacks_descriptor)
            with pytest.raises(OSError, match="too many"):
                rig.call("a", "a")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", lacks_thread)
            with pytest.raises(RuntimeError, match="new thread"):
                rig.loop.time_passes()
            rig.call("d", "d", brief=True)
        assert len(rig.loop.timers) == 1, "one attempt, for all calls"
        rig.loop.time_passes()
        assert sorted(rig.next(2)) == ["a", "d"]
        with monkeypatch.context() as patch:
            patch.setattr(os, "eventfd", lacks_descriptor)
            with pytest.raises(OSError, match="too many"):
                rig.call("b", "b")
        rig.end("a")
        assert rig.next() == ["b"]
        rig.call("c", "c")
        assert rig.next() == ["c"]


def test_calls_behind_a_brief_one_that_waits_get_threads_of_their_own() -> None:
    with pool_of(8) as rig:
        rig.call("a", "stuck", brief=True)
        rig.next()
        rig.call("b", "b1", 2, brief=True)
        assert rig.started.empty()
        rig.loop.time_passes()
        assert rig.next(2) == ["b1"] * 2
        rig.end("b1")
        rig.end("b1")
        rig.end("stuck")
        assert rig.finished == ["b1", "b1", "stuck"]
        assert rig.running == 0


def test_results_behind_a_brief_call_that_waits_are_delivered() -> None:
    with pool_of(8) as rig:
        rig.pool._wakes_soon = True
        rig.call("a", "a1", brief=True)
        rig.call("b", "stuck", brief=True)
        rig.pool._wake()
        rig.gates["a1"].release()
        assert rig.next(2) == ["a1", "stuck"]
        rig.loop.time_passes()
        assert rig.finished == ["a1"]


def test_brief_calls_stay_in_one_thread_while_they_make_progress() -> None:
    with pool_of(8) as rig:
        rig.call("a", "a1", brief=True)
        rig.next()
        rig.call("a", "a1", 2, brief=True)
        rig.gates["a1"].release()
        rig.next()
        rig.loop.time_passes()
        assert rig.started.empty()
        assert len(rig.loop.timers) == 1
        rig.gates["a1"].release(2)
        rig.take(3)
        rig.loop.time_passes()
        assert len(rig.threads["a1"]) == 1
        assert rig.loop.timers == []


class Identity:
    """Says when it is entered and left."""

    def __init__(self, name: str, told: list[str], error: OSError | None = None) -> None:
        self._name = name
        self._told = told
        self.error = error

    def __enter__(self) -> None:
        if self.error is not None:
            raise self.error
        self._told.append(f"in {self._name}")

    def __exit__(self, *_: object) -> None:
        if self.error is not None:
            raise self.error
        self._told.append(f"out {self._name}")


def test_a_thread_leaves_an_identity_for_another_alone() -> None:
    told: list[str] = []
    alice, bob = Identity("alice", told), Identity("bob", told)
    worker = Worker()
    for identity in (alice, alice, bob, None, None, bob):
        worker.act_as(identity)
    assert told == ["in alice", "out alice", "in bob", "out bob", "in bob"]


def test_a_thread_that_cannot_leave_its_identity_does_nothing_else() -> None:
    told: list[str] = []
    alice = Identity("alice", told)
    worker = Worker()
    worker.act_as(alice)
    alice.error = OSError("stuck")
    for other in (None, Identity("bob", told)):
        with pytest.raises(OSError, match="stuck"):
            worker.act_as(other)
    assert (told, worker.identity) == (["in alice"], alice)


def test_an_identity_that_cannot_be_entered_is_not_that_of_the_thread() -> None:
    told: list[str] = []
    worker = Worker()
    with pytest.raises(OSError, match="closed"):
        worker.act_as(Identity("alice", told, OSError("closed")))
    assert worker.identity is None
