"""Threads for calls that may block, distributed to clients in turns, and within a client to its connections.

The client with fewest running calls is next, so that the time of calls counts, too: clients that always have waiting
calls get equally many threads, whether their calls are long or short. The last idle thread is for a client that has
none, and the last but one for a connection that has none: however many calls one connection has, another one need not
wait for any of them to end. Calls that wait for one resource, such as a disk, leave one thread more: a disk that hangs
takes no thread that other calls need, not even those of the same connection. An administrator may bound the running
calls of each host besides: further ones wait, while threads are idle.

A thread is given away again when the event loop has taken its result: so the results of one client do not pile up in
front of those of others.

A wake-up costs more than a small write to a file, so wake-ups are few and cheap. A thread is woken at the end of the
event loop's turn, through an eventfd that is written to without the interpreter's lock: the woken thread finds the lock
free. Brief calls, which seldom wait, run in one thread, one after the other, and wake the event loop once. When one of
them does wait, the calls behind it get threads of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from rpcrdma.aio.answering.turns import Client, Share, Turns
from rpcrdma.rpc.host_shares import network_of
from rpcrdma.rpc.service import ActAs, Steps

__all__ = ["ConnectionCalls", "Turn", "Worker", "WorkerPool"]

_KEPT_FOR_CONNECTIONS_FROM = 5
"""With fewer threads than this number, one thread is kept free, not two: most are there to be used."""
_BRIEF_S = 0.002
"""The time after which a brief call counts as waiting: ten times that of writing 1 MiB to the page cache."""
_LACK_S = 1
"""The time after which a pool that could start no thread tries again."""

T = TypeVar("T")
R = TypeVar("R")


class ConnectionCalls(Share, Generic[T]):
    """The calls of one connection in a `WorkerPool`: `held` is the number of running ones, `waiting` has the others."""

    __slots__ = ("connection", "waiting")

    def __init__(self, client: Client[ConnectionCalls[T]], connection: object) -> None:
        super().__init__(client)
        self.connection = connection
        self.waiting: dict[Hashable, deque[Turn[T]]] = {}
        """The waiting calls by the resource that may block them (None: none), each queue with the oldest first."""


class Turn(Generic[T]):
    """One call in a `WorkerPool`, from `submit` until its result is taken; `calls` has the calls of its connection.

    `brief`: whether it is expected to end within about 2 ms. `may_be_let_go`: whether it is given up if its connection
    ends before it begins. `waits_for`: the resource that may block it, such as a file system; None: there is none.
    """

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
    """Wakes one thread from others through an eventfd, `fd`.

    `ring` and `wait` release the interpreter's lock for their system call, so that the woken thread finds the lock
    free. `blocks`: whether `wait` blocks; the event loop, which watches `fd`, uses a bell that does not.

    Raises:
        OSError: the process has no descriptor left.
    """

    __slots__ = ("fd",)

    def __init__(self, *, blocks: bool) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC if blocks else os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def ring(self) -> None:
        """Ends a `wait` in progress in another thread, or lets the next `wait` return at once."""
        os.eventfd_write(self.fd, 1)

    def wait(self) -> None:
        """Blocks until `ring` is called; returns at once if it was called since the last `wait`.

        Raises:
            BlockingIOError: the bell has not rung, and it was made with `blocks=False`.
        """
        os.eventfd_read(self.fd)

    def __del__(self, _close=os.close) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        if hasattr(self, "fd"):  # else the process had no descriptor left
            _close(self.fd)


class Worker:
    """One thread of a `WorkerPool`, with the user identity under which it acts; `bell` wakes the thread.

    The thread keeps the identity of a call until it runs a call with another identity, which saves system calls.
    """

    __slots__ = ("bell", "identity")

    def __init__(self) -> None:
        self.bell = _Bell(blocks=True)
        self.identity: AbstractContextManager[Any] | None = None

    def act_as(self, identity: AbstractContextManager[Any] | None) -> None:
        """Has the thread act under another user identity from now on; called in that thread.

        The context manager of the present identity is exited, then the context manager `identity` is entered; nothing
        is done if both are the same object. None stands for the thread's own identity.

        Raises:
            OSError: the identity cannot be taken; the thread then acts under its own.
        """
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
        """Runs the rest of a handler in this thread and returns its result; exceptions of the handler are raised.

        `rest` is the handler's unfinished generator. `step`, like each step that `rest` yields, names the user identity
        for the part up to the next `yield`; None stands for the thread's own. If an identity cannot be taken, the
        OSError is raised inside the handler.
        """
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
    """Runs calls in at most `workers` threads, by `run(call, worker)`; connections of all clients take turns.

    `run` must not raise. The event loop calls `deliver(call, result)` with each result, after the thread counts as
    idle; if that raises, the other results are delivered nonetheless. It calls `let_go(call)` instead for a waiting
    call whose connection has ended, unless the call was submitted with `may_be_let_go=False`. All methods are called in
    the thread of the event loop `loop` (None: the running one).
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
        """The number of running calls, by the resource that may block them."""
        self._waiting: Counter[Hashable] = Counter()
        """The number of calls that wait for a thread, by the resource that may block them."""
        self._of_host_max: int | None = None
        self._of_hosts: Counter[Hashable] = Counter()
        """The number of running calls by host, counted while there is a bound for each."""
        self._host_of: Callable[[str], str] = str
        """The host of an address, while there is a bound."""
        self._turns: Turns[ConnectionCalls[T]] = Turns()
        self._connections: dict[object, ConnectionCalls[T]] = {}
        """The connections that have calls in the pool."""
        self._long: deque[Turn[T]] = deque()
        """Calls whose turn has come, each for a thread of its own."""
        self._brief: deque[Turn[T]] = deque()
        """Calls whose turn has come, for one thread."""
        self._runs_brief = False
        """Whether a thread runs the brief calls at present."""
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
        """Queues a call, which runs in a thread when its client and connection have the fewest running calls.

        After `shutdown` the call never runs.

        Args:
            address: the network address of the client.
            connection: any hashable object that identifies the connection.
            call: the call, the first argument of `run`.
            brief: whether the call is expected to end within about 2 ms; brief calls share one thread until one of them
                takes longer.
            may_be_let_go: whether the call is passed to `let_go` if its connection ends before it begins.
            waits_for: the resource that may block the call, such as a file system; the calls that wait for one resource
                never get all threads of a pool with two or more. None: no such resource.
        """
        calls = self._connections.get(connection)
        if calls is None:
            calls = self._connections[connection] = ConnectionCalls(self._turns.join(address), connection)
        turn = Turn(call, calls, brief=brief, may_be_let_go=may_be_let_go, waits_for=waits_for)
        if (
            self._idle > self._kept_for_connections
            and not (self._turns.waiting or self._ended)
            and self._may_wait_for(waits_for)
            and (self._of_host_max is None or self._has_room(calls.client, self._of_host_max))
        ):
            # No connection waits, so there are no turns to take.
            self._give_thread(turn)
            return
        calls.waiting.setdefault(waits_for, deque()).append(turn)
        self._waiting[waits_for] += 1
        self._turns.wait(calls)
        self._start()

    def connection_ended(self, connection: object) -> None:
        """Removes the waiting calls of `connection` with `may_be_let_go`, and calls `let_go` with each of them.

        Calls submitted with `may_be_let_go=False` still run. No effect for a connection without calls.
        """
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

    def runs_calls_of(self, connection: object) -> bool:
        """Returns whether calls of `connection`, which may have ended, run in threads or wait for one."""
        return connection in self._connections

    def bound_hosts(self, most: int | None) -> None:
        """Changes how many calls of one host run at a time; calls that run already stay, and further ones wait.

        The addresses of one IPv6 network of 64 bits are one host (`host_shares`). `most` is at least 1; None: no such
        bound, only the turns that the clients take.
        """
        self._host_of = network_of
        self._of_hosts.clear()
        for calls in self._connections.values():
            self._of_hosts[network_of(calls.client.address)] += calls.held
        self._of_host_max = most
        self._start()

    def shutdown(self, *, wait: bool) -> None:
        """Starts no further call, drops waiting calls (`let_go` is not called) and ends idle threads, for good.

        With `wait`, blocks until all threads have ended; their results are not delivered. Otherwise the results of
        running calls are delivered as long as the event loop runs. No thread keeps the interpreter from exiting.
        """
        self._ended = True
        for turns in (self._long, self._brief):
            # Threads may take some of them meanwhile.
            with contextlib.suppress(IndexError):
                while True:
                    turns.popleft()
                    self._idle += 1
        while self._asleep:
            self._asleep.pop().bell.ring()
        if wait:
            for thread in self._threads:
                thread.join()
        if self._bell is not None and (wait or self._idle == self._workers):
            self._loop.remove_reader(self._bell.fd)

    def _part_if_done(self, calls: ConnectionCalls[T]) -> None:
        if not (calls.held or calls.waiting):
            del self._connections[calls.connection]
            self._turns.part(calls)

    def _may_wait_for(self, thing: Hashable) -> bool:
        return thing is None or self._wait_for[thing] < self._most_for_one

    def _has_room(self, client: Client[ConnectionCalls[T]], most: int) -> bool:
        return self._of_hosts[self._host_of(client.address)] < most

    def _start(self) -> None:
        """Assigns idle threads to waiting calls; the client and connection with the fewest running calls come first."""
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
        """Counts one thread as busy and the submitted call, `turn`, as running; the caller then has that call run.

        A thread must be idle, which is not checked here: `_give_thread`, the caller, is called only then.
        """
        self._idle -= 1
        turn.calls.hold(1)
        if turn.waits_for is not None:
            self._wait_for[turn.waits_for] += 1
        if self._of_host_max is not None:
            self._of_hosts[self._host_of(turn.calls.client.address)] += 1

    def _next(self) -> tuple[ConnectionCalls[T], Hashable] | None:
        if not any(map(self._may_wait_for, self._waiting)):
            return None
        for client in self._turns.in_order():
            if client.held and self._idle <= self._kept_for_clients:
                return None
            if self._of_host_max is not None and not self._has_room(client, self._of_host_max):
                continue
            for calls in client.in_order():
                if calls.held and self._idle <= self._kept_for_connections:
                    # No other connection of the client holds less.
                    break
                for thing in calls.waiting:
                    if self._may_wait_for(thing):
                        return calls, thing
        return None

    def _wake(self) -> None:
        """Wakes sleeping threads, or starts new ones, for the calls to which threads have been assigned.

        Each call in `_long` gets a thread; those in `_brief` get one together, unless a thread runs brief calls now. If
        a brief call has to wait for another one, has `_watch` called after 2 ms. Raises OSError or RuntimeError, for
        the event loop to log, if no further thread can be started; without any thread, is called again after 1 s.
        """
        self._wakes_soon = False
        if self._ended:
            return
        try:
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
                    thread = threading.Thread(target=self._work, args=(self._bell, Worker()), name=name, daemon=True)
                    thread.start()
                    self._threads.append(thread)
        except (OSError, RuntimeError):
            # The process has no descriptor or no thread left. The pool's other threads come to the calls later.
            if not self._threads:
                self._wakes_soon = True
                self._loop.call_later(_LACK_S, self._wake)
            raise

    def _watch(self, brief_done: int) -> None:
        """Gives the waiting brief calls threads of their own if the number of ended brief calls is still `brief_done`.

        In that case the brief call that runs before them has turned out to be long. In every case this method first
        delivers results, and at last wakes threads for the calls that have not begun; it is called again after 2 ms if
        a brief call still waits for another one.
        """
        self._watches = False
        self._take_results()
        if self._brief and self._brief_done == brief_done:
            # Until none is left, of which a worker may take the last one meanwhile.
            with contextlib.suppress(IndexError):
                while True:
                    self._long.append(self._brief.popleft())
        if (self._brief or self._long) and not self._wakes_soon:
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
            if self._of_host_max is not None:
                _one_less(self._of_hosts, self._host_of(calls.client.address))
            self._part_if_done(calls)
            self._start()
            try:
                self._deliver(turn.call, result)
            except BaseException:
                # The results behind it are of other connections; there is no bell without threads.
                if self._bell is not None:
                    self._ring(self._bell)
                raise
        if self._ended and self._idle == self._workers and self._bell is not None:
            # The last result: the loop forgets the pool.
            self._loop.remove_reader(self._bell.fd)

    def _work(self, bell: _Bell, worker: Worker) -> None:
        """Executes calls as a thread of the pool, and sleeps between them, until `shutdown`; `bell` wakes the loop."""
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
        """Runs the first call of the queue `turns` in this thread, stores its result for delivery and returns True.

        `worker` stands for this thread. Returns False if the queue is empty: another thread has taken the last call.
        """
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
