"""A bounded number of tasks that share one piece of work, and end together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["run_together", "run_workers"]


async def run_workers(count: int, worker: Callable[[], Awaitable[None]]) -> None:
    """Runs `count` workers and waits for all of them.

    When one fails, or the waiting task is cancelled, the others are cancelled; none runs any more when this returns
    or raises. It raises the first failure.
    """
    if count <= 1:
        await worker()
    else:
        await run_together(*(worker() for _ in range(count)))


async def run_together(*work: Awaitable[None]) -> None:
    """`run_workers` for workers that differ."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    if any(task.cancelled() for task in tasks):
        raise asyncio.CancelledError
