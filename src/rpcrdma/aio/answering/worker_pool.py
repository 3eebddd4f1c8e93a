"""Threads for calls that may block, dealt out to clients in turns, and within a client to its connections.

The client that has fewest calls running is next, so that the time that calls take counts, too: of clients that always
have calls waiting each has as many threads, whether its calls are long or short. The last idle thread is for a client
that has none, and the last but one for a connection that has none: however many calls one connection has, another one
need not wait for any of them to end.

A thread is given away again when the event loop has taken its result: so the results of one client do not pile up in
front of those of others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from rpcrdma.aio.answering.turns import Client, Share, Turns

__all__ = ["ConnectionCalls", "WorkerPool"]

_KEPT_FOR_CONNECTIONS_FROM = 5
"""With fewer threads than this one is kept free, not two: most are there to be used."""


class ConnectionCalls(Share):
    """The calls of one connection that wait for a thread; `held` is the number of its calls that run."""

    __slots__ = ("connection", "waiting")

    def __init__(self, client: Client[ConnectionCalls], connection: object) -> None:
        super().__init__(client)
        self.connection = connection
        self.waiting: deque[tuple[_Work, _LetGo]] = deque()


_Work: TypeAlias = Callable[[ConnectionCalls], None]
_LetGo: TypeAlias = Callable[[], None] | None


class WorkerPool:
    """At most `workers` threads. To be used from one thread, the event loop's."""

    def __init__(self, workers: int) -> None:
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="rpcrdma-worker")
        self._idle = workers
        self._kept_for_clients = int(workers > 1)
        self._kept_for_connections = self._kept_for_clients + int(workers >= _KEPT_FOR_CONNECTIONS_FROM)
        self._turns: Turns[ConnectionCalls] = Turns()
        self._connections: dict[object, ConnectionCalls] = {}
        """Those with calls."""
        self._ended = False

    def submit(self, address: str, connection: object, work: _Work, let_go: _LetGo = None) -> None:
        """Runs `work(calls)` in a thread when it is the turn of this connection of `address`; then `release(calls)`.

        `let_go` is called instead if the connection ends before that turn comes; None: the work is done all the same.
        """
        calls = self._connections.get(connection)
        if calls is None:
            calls = self._connections[connection] = ConnectionCalls(self._turns.join(address), connection)
        calls.waiting.append((work, let_go))
        self._turns.wait(calls)
        self._start()

    def release(self, calls: ConnectionCalls) -> None:
        """The result of one has been taken: its thread is for the next."""
        self._idle += 1
        calls.hold(-1)
        self._part_if_done(calls)
        self._start()

    def connection_ended(self, connection: object) -> None:
        """Lets go of the connection's work that waits, as far as it may be let go."""
        calls = self._connections.get(connection)
        if calls is None:
            return
        waiting, calls.waiting = calls.waiting, deque()
        calls.waiting.extend(each for each in waiting if each[1] is None)
        if not calls.waiting:
            self._turns.leave(calls)
            self._part_if_done(calls)
        for _, let_go in waiting:
            if let_go is not None:
                let_go()

    def _part_if_done(self, calls: ConnectionCalls) -> None:
        if not (calls.held or calls.waiting):
            del self._connections[calls.connection]
            self._turns.part(calls)

    def shutdown(self, *, wait: bool) -> None:
        """Starts no further call and drops the waiting calls. `wait`: returns when the threads have ended."""
        self._ended = True
        self._executor.shutdown(wait=wait, cancel_futures=True)

    def _start(self) -> None:
        """Gives the idle threads to those whose turn it is."""
        while self._idle and not self._ended and (calls := self._next()) is not None:
            self._idle -= 1
            calls.hold(1)
            work, _ = calls.waiting.popleft()
            self._turns.had_turn(calls, waits=bool(calls.waiting))
            self._executor.submit(work, calls)

    def _next(self) -> ConnectionCalls | None:
        for client in self._turns.in_order():
            if client.held and self._idle <= self._kept_for_clients:
                return None
            # No other connection of the client holds less.
            calls = next(client.in_order())
            if not calls.held or self._idle > self._kept_for_connections:
                return calls
        return None
