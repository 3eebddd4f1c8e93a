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
"""One processor is for the event loop."""

_Computation: TypeAlias = tuple[Callable[[], Any], Callable[[Any], None]]
"""The work, and the taker of its result."""


class Computations:
    """Runs the computations of a server; `runner`, in whose count they are, waits for them when it is drained."""

    def __init__(self, runner: HandlerRunner) -> None:
        self._runner = runner
        pool = effects_of(asyncio.get_running_loop()).worker_pool or WorkerPool
        self._threads: WorkerPool[_Computation, Any] = pool(_THREADS, _result, self._take, _stay)
        self._ended = False

    def run(self, address: str, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Calls `work()`, which does not raise, in a thread, then `done` with its result in the event loop.

        Clients take turns by `address`. After `shutdown` nothing is called.
        """
        self._runner.running += 1
        self._threads.submit(address, address, (work, done), brief=False, may_be_let_go=False)

    def shutdown(self, *, wait: bool) -> None:
        """Starts nothing more. `wait`: returns when the threads have ended; nothing runs, then."""
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
    """Ignores the end of an owner: no computation is cancelled."""
