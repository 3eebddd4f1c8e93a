"""Waiting on the event loop; pytest-timeout bounds the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["closing", "until"]


async def until(condition: Callable[[], Any]) -> None:
    """Lets the event loop turn until the condition holds."""
    while not condition():  # noqa: ASYNC110 - tests wait for states that have no event
        await asyncio.sleep(0)


async def closing(fs: Any, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of `work`; the file system is closed afterwards."""
    async with fs:
        return await work
