"""Bounded concurrency of calls that share one piece of work."""

from __future__ import annotations

import asyncio

import pytest

from rpcrdma.nfs.client.workers import run_each


async def test_after_a_failure_no_work_begins_and_work_in_progress_is_not_cancelled() -> None:
    begun: list[int] = []
    done: list[int] = []
    failed = asyncio.Event()

    async def work(item: int) -> None:
        begun.append(item)
        if item == 0:
            failed.set()
            raise OSError("full")
        await failed.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        done.append(item)

    with pytest.raises(OSError, match="full"):
        await run_each(3, iter(range(10)), work)
    assert len(begun) <= 3
    assert done == begun[1:]
    assert done


async def test_work_in_progress_ends_with_the_task_that_waits_for_it() -> None:
    async def work(_item: int) -> None:
        await asyncio.Event().wait()

    waiting = asyncio.ensure_future(run_each(3, iter(range(10)), work))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
