"""Time-outs for a checker: the delays of its own machine do not count against the other end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["PARTS", "within"]

PARTS = 20
"""Parts of a time-out, each of which lasts for one turn of the event loop or more.

While this process gets no processor, at most one part passes; in the others, events can still arrive.
"""


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Bounds its body by `seconds` as `asyncio.timeout` does, but a stall of the event loop hardly counts.

    A stall counts as one twentieth of `seconds` at most, however long it is. The body is cancelled when the time has
    passed.

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
