"""Threads for calls that may block, distributed to clients in turns, and within a client to its connections.

The client with fewest running calls is next, so that the time of calls counts, too: clients that always have waiting
calls get equally many threads, whether their calls are long or short. The last idle thread is for a client that has
none, and the last but one for a connection that has none: however many calls one connection has, another one need not
wait for any of them to end. Calls that wait for one resource, such as a disk, leave one thread more: a disk that hangs
takes no thread that other calls need, not even those of the same connection.

A thread is given away again when the event loop has taken its result: so the results of one client do not pile up in
front of those of others.

A wake-up costs more than a small write to a file, so wake-ups are few and cheap. A thread is woken at the end of the
event loop's turn, through an eventfd that is written to without the interpreter's lock: the woken thread finds the lock
free. Brief calls, which seldom wait, run in one thread, one after the other, and wake the event loop once. When one of
them does wait, the calls behind it get threads of their own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from rpcrdma.aio.answering.turns import Client, Share, Turns
from rpcrdma.rpc.service import ActAs, Steps

__all__ = ["ConnectionCalls", "Turn", "Worker", "WorkerPool"]

_KEPT_FOR_CONNECTIONS_FROM = 5
"""With fewer threads than this one is kept free, not two: most are there to be used."""
_BRIEF_S = 0.002
"""The time after which a brief call counts as waiting: ten times that of writing 1 MiB to the page cache."""

T = TypeVar("T")
R = TypeVar("R")


class ConnectionCalls(Share, Generic[T]):
    """The calls of one connection that wait for a thread; `held` is the number of its calls that run."""

    __slots__ = ("connection", "waiting")

    def __init__(self, client: Client[ConnectionCalls[T]], connection: object) -> None:
        super().__init__(client)
        self.connection = connection
        self.waiting: dict[Hashable, deque[Turn[T]]] = {}
        """By the resource that they wait for."""


class Turn(Generic[T]):
    """A call, from its arrival until its result is taken; `waits_for`: the resource that may block it, as a disk."""

    __slots__ = ("brief", "call", "calls", "may_be_let_go", "waits_for")

    def __init__(
        self, call: T, calls: ConnectionCalls[T], *, brief: bool, may_be_let_go: bool, waits_for: Hashable
    ) -> None:
        self.call = call
        self.calls = calls
        self.brief = brief
        self.may_be_let_go = may_be_let_go
        self.waits_for = waits_for


class _Bell:
    """Wakes one thread from others, without the interpreter's lock."""

    __slots__ = ("fd",)

    def __init__(self, *, blocks: bool) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC if blocks else os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def ring(self) -> None:
        """Ends `wait`, or the next one."""
        os.eventfd_write(self.fd, 1)

    def wait(self) -> None:
        """Returns when the bell has rung since the last `wait`.

        Raises:
            BlockingIOError: it has not, and the bell is not one that blocks.
        """
        os.eventfd_read(self.fd)

    def __del__(self, _close=os.close) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        _close(self.fd)


class Worker:
    """A thread, which keeps the identity of a call until it runs a call with another one."""

    __slots__ = ("bell", "identity")

    def __init__(self) -> None:
        self.bell = _Bell(blocks=True)
        self.identity: AbstractContextManager[Any] | None = None

    def act_as(self, identity: AbstractContextManager[Any] | None) -> None:
        """Has the thread act as `identity`, unless it does; None: as itself."""
        present = self.identity
        if identity is present:
            return
        if present is not None:
            present.__exit__(None, None, None)
            self.identity = None
        if identity is not None:
            identity.__enter__()
            self.identity = identity

    def finish(self, rest: Steps[R], step: ActAs | None) -> R:
        """Runs the rest of a handler, which begins as `step` says (None: as the thread itself); returns its result."""
        try:
            while True:
                try:
                    self.act_as(step.identity if step is not None else None)
                except OSError as error:
                    step = rest.throw(error)
                else:
                    step = next(rest)
        except StopIteration as end:
            result: R = end.value
            return result


class WorkerPool(Generic[T, R]):
    """At most `workers` threads, which run `run(call, worker)`. To be used from one thread, that of the event loop.

    `deliver(call, result)` takes each result, in the event loop, once its thread is free again. `let_go(call)` is
    called instead for calls that wait when their connection ends, as far as they may be let go.
    """

    def __init__(
        self,
        workers: int,
        run: Callable[[T, Worker], R],
        deliver: Callable[[T, R], None],
        let_go: Callable[[T], None],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._run = run
        self._deliver = deliver
        self._let_go = let_go
        self._loop = loop or asyncio.get_running_loop()
        self._workers = self._idle = workers
        self._kept_for_clients = int(workers > 1)
        self._kept_for_connections = self._kept_for_clients + int(workers >= _KEPT_FOR_CONNECTIONS_FROM)
        self._most_for_one = max(1, workers - self._kept_for_connections - 1)
        self._wait_for: Counter[Hashable] = Counter()
        """The number of calls that run, by the resource that they wait for."""
        self._waiting: Counter[Hashable] = Counter()
        """The number of calls that wait for a thread, by the resource that they will wait for."""
        self._turns: Turns[ConnectionCalls[T]] = Turns()
        self._connections: dict[object, ConnectionCalls[T]] = {}
        """Those with calls."""
        self._long: deque[Turn[T]] = deque()
        """Calls whose turn has come, each for a thread of its own."""
        self._brief: deque[Turn[T]] = deque()
        """Calls whose turn has come, for one thread."""
        self._runs_brief = False
        """Whether a thread is at the brief calls."""
        self._brief_done = 0
        self._results: deque[tuple[Turn[T], R]] = deque()
        self._bell: _Bell | None = None
        """Wakes the event loop."""
        self._rung = False
        self._threads: list[threading.Thread] = []
        self._asleep: list[Worker] = []
        self._wakes_soon = False
        self._watches = False
        self._ended = False

    def submit(
        self, address: str, connection: object, call: T, *, brief: bool, may_be_let_go: bool, waits_for: Hashable = None
    ) -> None:
        """Runs a call in a thread when it is the turn of its connection.

        Args:
            address: the address of the client.
            connection: the connection.
            call: the call.
            brief: whether it is expected to end soon; such calls go first.
            may_be_let_go: whether it is dropped if its connection ends before it begins.
            waits_for: what it may have to wait for, such as a file system; calls that wait for one thing never have all
                threads. None: nothing of that kind.
        """
        calls = self._connections.get(connection)
        if calls is None:
            calls = self._connections[connection] = ConnectionCalls(self._turns.join(address), connection)
        turn = Turn(call, calls, brief=brief, may_be_let_go=may_be_let_go, waits_for=waits_for)
        if (
            self._idle > self._kept_for_connections
            and not (self._turns.waiting or self._ended)
            and self._may_wait_for(waits_for)
        ):
            # No connection waits, so there are no turns to take.
            self._give_thread(turn)
            return
        calls.waiting.setdefault(waits_for, deque()).append(turn)
        self._waiting[waits_for] += 1
        self._turns.wait(calls)
        self._start()

    def connection_ended(self, connection: object) -> None:
        """Drops the waiting calls of an ended connection that `may_be_let_go`."""
        calls = self._connections.get(connection)
        if calls is None:
            return
        waiting, calls.waiting = calls.waiting, {}
        let_go = []
        for thing, turns in waiting.items():
            let_go += [turn for turn in turns if turn.may_be_let_go]
            self._waiting -= Counter(turn.waits_for for turn in turns if turn.may_be_let_go)
            if len(stay := deque(turn for turn in turns if not turn.may_be_let_go)):
                calls.waiting[thing] = stay
        if not calls.waiting:
            self._turns.leave(calls)
            self._part_if_done(calls)
        for turn in let_go:
            self._let_go(turn.call)

    def shutdown(self, *, wait: bool) -> None:
        """Starts no further call and drops the waiting calls. `wait`: returns when the threads have ended.

        Otherwise calls that run are delivered while the event loop runs. No thread keeps the interpreter from exiting.
        """
        self._ended = True
        self._long.clear()
        self._brief.clear()
        while self._asleep:
            self._asleep.pop().bell.ring()
        if wait:
            for thread in self._threads:
                thread.join()
            if self._bell is not None:
                self._loop.remove_reader(self._bell.fd)

    def _part_if_done(self, calls: ConnectionCalls[T]) -> None:
        if not (calls.held or calls.waiting):
            del self._connections[calls.connection]
            self._turns.part(calls)

    def _may_wait_for(self, thing: Hashable) -> bool:
        return thing is None or self._wait_for[thing] < self._most_for_one

    def _start(self) -> None:
        """Gives the idle threads to the calls whose turn it is."""
        while self._turns.waiting and self._idle and not self._ended and (found := self._next()) is not None:
            calls, thing = found
            waiting = calls.waiting.pop(thing)
            turn = waiting.popleft()
            _one_less(self._waiting, thing)
            if waiting:
                # Behind the calls of this connection that wait for something else.
                calls.waiting[thing] = waiting
            self._turns.had_turn(calls, waits=bool(calls.waiting))
            self._give_thread(turn)

    def _give_thread(self, turn: Turn[T]) -> None:
        self.take_thread(turn)
        (self._brief if turn.brief else self._long).append(turn)
        if not self._wakes_soon:
            self._wakes_soon = True
            self._loop.call_soon(self._wake)

    def take_thread(self, turn: Turn[T]) -> None:
        """Counts a thread as busy, and the call of `turn` as running."""
        self._idle -= 1
        turn.calls.hold(1)
        if turn.waits_for is not None:
            self._wait_for[turn.waits_for] += 1

    def _next(self) -> tuple[ConnectionCalls[T], Hashable] | None:
        if not any(map(self._may_wait_for, self._waiting)):
            return None
        for client in self._turns.in_order():
            if client.held and self._idle <= self._kept_for_clients:
                return None
            for calls in client.in_order():
                if calls.held and self._idle <= self._kept_for_connections:
                    # No other connection of the client holds less.
                    break
                for thing in calls.waiting:
                    if self._may_wait_for(thing):
                        return calls, thing
        return None

    def _wake(self) -> None:
        """Wakes or starts as many threads as the calls need whose turn has come."""
        self._wakes_soon = False
        if self._bell is None:
            self._bell = _Bell(blocks=False)
            self._loop.add_reader(self._bell.fd, self._on_bell, self._bell)
        brief = len(self._brief)
        if brief and not self._watches and (self._runs_brief or brief > 1):
            self._watches = True
            self._loop.call_later(_BRIEF_S, self._watch, self._brief_done)
        for _ in range(len(self._long) + (brief > 0 and not self._runs_brief)):
            if self._asleep:
                # The one that has run last.
                self._asleep.pop().bell.ring()
            elif len(self._threads) < self._workers:
                name = f"rpcrdma-worker-{len(self._threads)}"
                thread = threading.Thread(target=self._work, args=(self._bell,), name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _watch(self, brief_done: int) -> None:
        """Lets waiting brief calls have threads of their own if none has ended since their count was `brief_done`.

        A brief call before them has turned out to be long then.
        """
        self._watches = False
        self._take_results()
        if self._brief and self._brief_done == brief_done:
            while self._brief:
                self._long.append(self._brief.popleft())
        if self._brief or self._long:
            self._wake()

    def _on_bell(self, bell: _Bell) -> None:
        try:
            bell.wait()
        except BlockingIOError:
            return
        self._rung = False
        self._take_results()
        if (self._long or self._brief) and not self._wakes_soon:
            self._wake()

    def _take_results(self) -> None:
        results = self._results
        # Results that threads add meanwhile come later: a flood of calls must not keep the loop from other connections.
        for _ in range(len(results)):
            turn, result = results.popleft()
            calls, thing = turn.calls, turn.waits_for
            self._idle += 1
            calls.hold(-1)
            if thing is not None:
                _one_less(self._wait_for, thing)
            self._part_if_done(calls)
            self._start()
            self._deliver(turn.call, result)

    def _work(self, bell: _Bell) -> None:
        """Runs a thread: takes calls and runs them until the pool ends."""
        worker = Worker()
        while True:
            while self._long and self._take(self._long, worker):
                self._ring(bell)
            if self._brief and not self._runs_brief:
                self._runs_brief = True
                while self._take(self._brief, worker):
                    self._brief_done += 1
                self._runs_brief = False
            self._asleep.append(worker)
            # The event loop may have found no thread for a call while this one was not yet asleep.
            if self._results or self._long or self._brief:
                self._ring(bell)
            if not self._ended:
                worker.bell.wait()
            if self._ended:
                worker.act_as(None)
                return

    def _take(self, turns: deque[Turn[T]], worker: Worker) -> bool:
        """Runs the first of `turns` and keeps its result for delivery; False if another thread has taken it."""
        try:
            turn = turns.popleft()
        except IndexError:
            return False
        self._results.append((turn, self._run(turn.call, worker)))
        return True

    def _ring(self, bell: _Bell) -> None:
        # One ring serves all results that are there when the event loop comes to it.
        if not self._rung:
            self._rung = True
            bell.ring()


def _one_less(counter: Counter[Hashable], thing: Hashable) -> None:
    counter[thing] -= 1
    if not counter[thing]:
        del counter[thing]
