"""The clock of a running event loop is set ahead, so that a deadline of any length is met and no test waits for it.

What the test does before has all the time of the world: deadlines are far away until they are due. After it timers ring
late, as on a machine that was suspended.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from rpcrdma.testing.virtual import VirtualLoop

__all__ = ["set_clock_ahead"]

_AHEAD: WeakKeyDictionary[asyncio.AbstractEventLoop, list[float]] = WeakKeyDictionary()
"""Seconds, one number for each loop."""


def set_clock_ahead(duration_s: float) -> None:
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        loop.jump(duration_s)
        return
    ahead = _AHEAD.get(loop)
    if ahead is None:
        ahead = _AHEAD[loop] = [0.0]
        now_s = loop.time
        loop.time = lambda: now_s() + ahead[0]  # type: ignore[method-assign]
    ahead[0] += duration_s
