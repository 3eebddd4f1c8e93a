"""Threads for work that computes, such as sealing a long message, beside those for handlers that block."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

from rpcrdma.aio.answering.worker_pool import Worker, WorkerPool

__all__ = ["Computations"]

_Computation: TypeAlias = tuple[Callable[[], Any], Callable[[Any], None]]
"""The work, and the taker of its result."""

_THREADS = max(1, (os.cpu_count() or 1) - 1)
"""Threads that compute at the same time: one processor is for the event loop."""


class Computations:
    """Clients take turns for the threads, which `pool` makes with the first computation."""

    def __init__(self, pool: Callable[..., WorkerPool[_Computation, Any]]) -> None:
        self._make_pool = pool
        self._pool: WorkerPool[_Computation, Any] | None = None

    def begin(self, address: str, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Calls `work()`, which does not raise, in a thread, and `done` with its result in the event loop.

        Clients take turns by `address`.
        """
        if self._pool is None:
            self._pool = self._make_pool(_THREADS, _computed, _taken, _stays)
        self._pool.submit(address, address, (work, done), brief=False, may_be_let_go=False)

    def shutdown(self, *, wait: bool) -> None:
        """Ends the threads, as `WorkerPool.shutdown` does."""
        if self._pool is not None:
            self._pool.shutdown(wait=wait)


def _computed(computation: _Computation, worker: Worker) -> Any:
    del worker
    return computation[0]()


def _taken(computation: _Computation, result: Any) -> None:
    computation[1](result)


def _stays(computation: _Computation) -> None:
    """No computation is let go."""
