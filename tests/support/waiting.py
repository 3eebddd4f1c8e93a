"""Waiting on the event loop; pytest-timeout bounds the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["closing", "until"]

_BUSY_TURNS = 200
_PAUSE_S = 0.001


async def until(condition: Callable[[], Any]) -> None:
    """Lets the event loop turn until the condition holds; a long wait leaves the processor to other processes."""
    turns = 0
    while not condition():
        turns += 1
        await asyncio.sleep(0 if turns < _BUSY_TURNS else _PAUSE_S)


async def closing(fs: Any, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of `work`; the file system is closed afterwards."""
    async with fs:
        return await work
