"""Handlers of a simulated server: each runs for the time of the model, at a worker where it may block.

Clients and connections take turns for the workers as they do for threads: `WorkerPool` decides.
"""

from __future__ import annotations

from typing import TypeVar

from rpcrdma.aio.answering.worker_pool import Turn, Worker, WorkerPool
from rpcrdma.testing.virtual.host import running_host
from rpcrdma.testing.virtual.trace import EventKind

__all__ = ["SimulatedWorkerPool", "before_handler"]

T = TypeVar("T")
R = TypeVar("R")


def before_handler(name: str) -> None:
    """Spends the virtual time of a handler (`FabricModel.server_s`) in the running callback, and records an event.

    `name` is the handler's name, for the trace. No effect outside of simulated hosts.
    """
    host = running_host()
    if host is not None:
        host.record(EventKind.HANDLE, name, cost_s=host.model.server_s)


class SimulatedWorkerPool(WorkerPool[T, R]):
    """The workers of a simulated server: each runs a handler in the event loop, after a virtual time.

    The time is that of the handover, `FabricModel.workers_s`, and, unless the first step of the handler is an `ActAs`,
    of the handler, `server_s`; 0 outside of simulated hosts. If the host has crashed meanwhile, or the pool is shut
    down, the handler does not run.
    """

    _worker: Worker | None = None

    def _give_thread(self, turn: Turn[T]) -> None:
        self.take_thread(turn)
        loop, host = self._loop, running_host()
        if host is None:
            loop.call_soon(self._work_on, turn)
            return
        model = host.model
        # The first part of a brief call has run in the event loop, and has had the time of the handler.
        cost_s = model.workers_s + (0.0 if turn.brief else model.server_s)
        at_s = loop.time() + cost_s
        number = host.note(EventKind.HANDLE, at_s, host.loop.cause, -1, cost_s=cost_s, text="at a worker")
        host.loop.schedule(at_s, number, self._work_on, turn)

    def _work_on(self, turn: Turn[T]) -> None:
        host = running_host()
        if self._ended or not (host is None or host.up):
            return
        if self._worker is None:
            self._worker = Worker()
        self._results.append((turn, self._run(turn.call, self._worker)))
        self._take_results()

    def shutdown(self, *, wait: bool) -> None:
        del wait  # no threads
        self._ended = True
        if self._worker is not None:
            self._worker.act_as(None)
