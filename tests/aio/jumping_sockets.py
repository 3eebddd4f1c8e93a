"""An event loop with sockets whose clock jumps to the next event; `rpcrdma.testing.virtual` has the one without."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rpcrdma.aio.drivers.effects import Effects
from rpcrdma.testing.virtual import VirtualLoop
from rpcrdma.testing.virtual.workers import SimulatedWorkerPool
from support.loops import decorator_of

__all__ = ["JumpingLoop", "jumping", "now_s", "run"]

T = TypeVar("T")


class JumpingSelector(selectors.DefaultSelector):
    """Does not wait: where no descriptor is ready, the time passes at once."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen"
            self.now_s += max(timeout, 0)
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """For descriptors at which whatever happens has happened: those of one process. Threads are none of them."""

    def __init__(self) -> None:
        self.selector = JumpingSelector()
        super().__init__(self.selector)
        self.effects = Effects(clock=self.time, worker_pool=SimulatedWorkerPool)

    def time(self) -> float:
        return self.selector.now_s

    run_in_executor = VirtualLoop.run_in_executor


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main())


def now_s() -> float:
    return asyncio.get_running_loop().time()


jumping = decorator_of(run)
"""Of a test that runs in a `JumpingLoop`."""
