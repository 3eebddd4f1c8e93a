"""An event loop with sockets whose clock jumps to the next event; `rpcrdma.simulation.loop` has the one without."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["now_s", "run"]


class JumpingSelector(selectors.SelectSelector):
    """Does not wait: the time passes at once."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing will ever happen"
        self.now_s += max(timeout, 0)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now_s


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(main())


def now_s() -> float:
    return asyncio.get_running_loop().time()
