"""Bounded concurrency: tasks that share one piece of work, and buffers that are used again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

from rpcrdma.wire.bulk_memory import PooledMemory

__all__ = ["BufferRing", "run_each", "run_together", "run_workers", "wait_ended"]

T = TypeVar("T")


async def run_workers(count: int, worker: Callable[[], Awaitable[None]]) -> None:
    """Runs `count` concurrent calls of `worker`, 1 call if `count` is less than 1, and waits for all of them.

    When a call fails, or the waiting task is cancelled, the other calls are cancelled; none runs any more when this
    returns or raises. If several calls fail, the failure of the one started first is raised.
    """
    if count <= 1:
        await worker()
    else:
        await run_together(*(worker() for _ in range(count)))


async def run_each(count: int, items: Iterator[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Calls `work` for each item of the shared iterator `items`, at most `count` calls, but at least 1, at a time.

    After a failure no further item is taken; the calls in progress run to their end, and the first failure is raised.
    Only a cancellation of the waiting task, or an exception of `items`, cancels them: a cancelled call with bulk data
    ends a connection over an RDMA device.
    """
    failures: list[Exception] = []

    async def worker() -> None:
        for item in items:
            try:
                await work(item)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)
            if failures:
                return

    await run_workers(count, worker)
    if failures:
        raise failures[0]


async def run_together(*work: Awaitable[None]) -> None:
    """Runs the given awaitables concurrently and waits for all of them.

    When an awaitable fails, or the waiting task is cancelled, the others are cancelled; none runs any more when this
    returns or raises. If several awaitables fail, the failure of the first one among the arguments is raised.

    Raises:
        CancelledError: an awaitable was cancelled, and none has failed.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await wait_ended(tasks, asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    if any(task.cancelled() for task in tasks):
        raise asyncio.CancelledError


async def wait_ended(tasks: Iterable[asyncio.Task[Any]], return_when: str = asyncio.FIRST_COMPLETED) -> None:
    """Waits like `asyncio.wait`, by default until one of `tasks` has ended; cancels no task.

    A cancelled `asyncio.wait` keeps objects alive that the waiting task has used; this function does not.
    """
    try:
        await asyncio.wait(tasks, return_when=return_when)
    except asyncio.CancelledError as error:
        # From Python 3.14 on the frame of `asyncio.wait` refers to the waiting task, and the task to its error with the
        # frames: a file that it has used would be dropped, and warn, only when garbage is collected.
        error.__traceback__ = None
        raise


class BufferRing:
    """At most `count` buffers of `size` octets, allocated when needed and used again; `acquire` waits for one."""

    def __init__(self, size: int, count: int) -> None:
        self.size = size
        self._left = count
        self._free: list[memoryview] = []
        self._waiting: deque[asyncio.Future[memoryview]] = deque()

    async def acquire(self) -> memoryview:
        """Returns a writable buffer of `size` octets with unspecified content; waits until a buffer is free."""
        if self._free:
            return self._free.pop()
        if self._left:
            self._left -= 1
            return memoryview(PooledMemory(self.size))
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release(future.result())
            raise

    def release(self, buffer: memoryview) -> None:
        """Takes back a whole buffer of `acquire`, which no call uses any more, for the longest waiting `acquire`."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(buffer)
                return
        self._free.append(buffer)
