"""Time-outs for a judge: what its own machine takes is not booked on the other side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["PARTS", "within"]

PARTS = 20
"""Where this process gets no processor for longer than a part, the others are left for an event to be heard: each part
lasts for a turn of the event loop or more."""


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but of a time at which the event loop does not run only one part counts.

    Raises:
        TimeoutError: the body has taken longer.
    """
    loop = asyncio.get_running_loop()
    left = PARTS
    timer: asyncio.TimerHandle

    def pass_part() -> None:
        nonlocal left, timer
        left -= 1
        if left > 0:
            timer = loop.call_later(seconds / PARTS, pass_part)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(seconds / PARTS, pass_part)
        try:
            yield
        finally:
            timer.cancel()
