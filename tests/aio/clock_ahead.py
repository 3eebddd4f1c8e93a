"""The clock of a running event loop is set ahead, so that a deadline of any length is met and no test waits for it.

What the test does before has all the time of the world: deadlines are far away until they are due. After it timers ring
late, as on a machine that was suspended.
"""

from __future__ import annotations

import asyncio

from rpcrdma.simulation.loop import VirtualLoop

__all__ = ["set_clock_ahead"]


def set_clock_ahead(duration_s: float) -> None:
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        loop.jump(duration_s)
        return
    now_s = loop.time
    loop.time = lambda: now_s() + duration_s  # type: ignore[method-assign]
