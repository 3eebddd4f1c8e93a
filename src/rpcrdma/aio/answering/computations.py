"""Threads for work that occupies a processor, such as encryption, beside the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, TypeAlias

from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.answering.worker_pool import Worker, WorkerPool
from rpcrdma.aio.drivers.effects import effects_of

__all__ = ["Computations"]

_THREADS = max(1, (os.cpu_count() or 1) - 1)
"""The number of threads: one processor is left to the event loop."""

_Computation: TypeAlias = tuple[Callable[[], Any], Callable[[Any], None]]
"""The work, which returns its result, and the function that is called with that result in the event loop."""


class Computations:
    """Runs the computations of a server, such as encryption, in threads: one fewer than processors, at least one.

    `runner.running` counts waiting and running computations, so that `HandlerRunner.drain` waits for them.
    """

    def __init__(self, runner: HandlerRunner) -> None:
        self._runner = runner
        pool = effects_of(asyncio.get_running_loop()).worker_pool or WorkerPool
        self._threads: WorkerPool[_Computation, Any] = pool(_THREADS, _result, self._take, _stay)
        self._ended = False

    def run(self, address: str, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Calls `work()` in a thread, then `done(result)` in the event loop unless `shutdown` was called meanwhile.

        Returns at once; called in the thread of the event loop. `work` must not raise. `address` is the network address
        of the client for which the work is done: the threads serve the clients in turns.
        """
        self._runner.running += 1
        self._threads.submit(address, address, (work, done), brief=False, may_be_let_go=False)

    def shutdown(self, *, wait: bool) -> None:
        """Ends the object: no further work begins, waiting work is dropped, and no further `done` is called.

        With `wait`, the method blocks until the threads have ended; otherwise it returns while running work continues.
        """
        self._ended = True
        self._threads.shutdown(wait=wait)

    def _take(self, computation: _Computation, result: Any) -> None:
        try:
            if not self._ended:
                computation[1](result)
        finally:
            self._runner.end_one()


def _result(computation: _Computation, worker: Worker) -> Any:
    del worker
    return computation[0]()


def _stay(computation: _Computation) -> None:
    """Does nothing: takes the place of `let_go` of the thread pool, which is called for no computation."""
