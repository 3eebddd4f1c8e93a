"""Waiting on the event loop; pytest-timeout bounds the time, and the log names the awaited state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["closing", "has_own_clock", "once", "time_passes", "until"]

_BUSY_TURNS = 200
_PAUSE_S = 0.001


async def until(condition: Callable[[], Any]) -> None:
    """Lets the event loop turn until the condition holds; a long wait leaves the processor to other processes."""
    turns = 0
    try:
        while not condition():
            turns += 1
            await asyncio.sleep(0 if turns < _BUSY_TURNS else _PAUSE_S)
    except asyncio.CancelledError:
        code = getattr(condition, "__code__", None)
        where = f" of {code.co_filename}:{code.co_firstlineno}" if code else f" {condition}"
        logging.getLogger(__name__).warning("the condition%s was awaited and did not hold", where)
        raise


async def closing(fs: Any, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of `work`; the file system is closed afterwards."""
    async with fs:
        return await work


async def once(fs: Any, method: str, *arguments: Any, **options: Any) -> Any:
    """The result of a method of a file system, which is closed afterwards."""
    async with fs:
        return await getattr(fs, method)(*arguments, **options)


def has_own_clock(loop: asyncio.AbstractEventLoop) -> bool:
    """Returns whether the loop's time is virtual, and not the machine's."""
    return isinstance(loop, asyncio.BaseEventLoop) and type(loop).time is not asyncio.BaseEventLoop.time


async def time_passes(duration_s: float) -> None:
    """Lets virtual time pass: a test waits for no duration on the clock of the machine."""
    assert has_own_clock(asyncio.get_running_loop()), "await an event instead, or run in virtual time"
    await asyncio.sleep(duration_s)
