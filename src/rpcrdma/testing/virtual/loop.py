"""An event loop in virtual time: its clock jumps to the next event, and each callback has a cause.

Callbacks, futures and tasks of asyncio run unchanged. `call_soon` and `call_at` store the trace event that their caller
follows from (`cause`), so that causes cross futures and tasks. A callback may spend time (`spend`), such as a host that
registers memory: callbacks that it schedules afterwards begin that much later, and no others wait for it.

There are no sockets, no other threads and no other processes: nothing outside the loop can wake it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.drivers.effects import Effects
from rpcrdma.testing.virtual.trace import NO_CAUSE

__all__ = ["Stalled", "VirtualLoop", "now_s", "run"]

T = TypeVar("T")

_STALE_KEPT = 256
"""Cancelled timers up to which they are left where they are."""

_TURNS_MAX = 100_000
"""Turns of the loop at one time, after which the program counts as polling in vain."""


class Stalled(RuntimeError):
    """Raised by `VirtualLoop`: the program waits for an event that cannot happen, or polls without end at one time."""


class _Scheduled(asyncio.TimerHandle):
    """The handle of a scheduled callback; `cause` is the value that `VirtualLoop.cause` had at the scheduling."""

    __slots__ = ("cause",)

    def __init__(
        self,
        when_s: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: Context | None,
    ) -> None:
        super().__init__(when_s, callback, args, loop, context)
        self.cause = loop.cause


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop of asyncio in virtual time: its clock stands still in callbacks, and jumps to the next timer.

    `now_s` is the time at which the running callback began, to which `time` adds the time that the callback has spent.
    `cause` is the number of the trace event that the callback follows from.

    Args:
        seed: determines the numbers of the attribute `random`, a `random.Random`.

    Shared by the methods:
        callback, args, context: as for the event loops of asyncio.
        duration_s: seconds.
        cause: the number of a trace event.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.random = random.Random(seed)  # noqa: S311 - to be repeated, not to be kept secret
        self.cause = NO_CAUSE
        self.now_s = 0.0
        self.callbacks = 0
        """Callbacks that have run."""
        self.effects = Effects(random_bits=self.random.getrandbits, clock=self.time, known_servers=KnownServers())
        self.on_task: Callable[[asyncio.Task[Any]], None] | None = None
        """Called with each new task, in the context of its maker."""
        self._local_s = 0.0
        self._soon: deque[_Scheduled] = deque()
        self._timers: list[tuple[float, int, _Scheduled]] = []
        self._order = 0
        self._stale = 0
        self._turns = 0
        self._tasks: weakref.WeakValueDictionary[int, asyncio.Task[Any]] = weakref.WeakValueDictionary()
        self._numbers = itertools.count()
        self._owner = threading.get_ident()

    def __del__(self) -> None:
        """Does nothing: the inherited method warns of a loop that was not closed, which needs no closing here."""

    def time(self) -> float:
        return self._local_s

    def spend(self, duration_s: float) -> None:
        """Moves `time` ahead by `duration_s` seconds for the running callback and all that it schedules from now on."""
        self._local_s += duration_s

    def follow(self, cause: int) -> None:
        """Sets the cause of callbacks scheduled from now on, and moves `time` back to `now_s`."""
        self.cause = cause
        self._local_s = self.now_s

    def jump(self, duration_s: float) -> None:
        """Moves the clock ahead by `duration_s` seconds, as after a suspended machine resumes; due timers fire late."""
        self.now_s += duration_s
        self._local_s += duration_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._local_s > self.now_s:
            return self.call_at(self._local_s, callback, *args, context=context)
        handle = _Scheduled(self.now_s, callback, args, self, context)
        self._soon.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _Scheduled(when, callback, args, self, context)
        self._order += 1
        # In the order of scheduling where times are equal: a heap alone would not keep it.
        heapq.heappush(self._timers, (when, self._order, handle))
        handle._scheduled = True  # type: ignore[attr-defined]  # noqa: SLF001 - while the heap has it
        return handle

    def schedule(
        self, at_s: float, cause: int, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedules a callback as `call_at` does, with a cause.

        Args:
            at_s: the time in seconds.
            cause: the number of the trace event that causes it.
            callback: the function.
            args: its arguments.
            context: its context; None: the present one.

        Returns:
            The handle, to cancel it.
        """
        present, self.cause = self.cause, cause
        handle = self.call_at(at_s, callback, *args, context=context)
        self.cause = present
        return handle

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = super().create_task(coro, name=name, context=context)
        self._tasks[next(self._numbers)] = task
        if self.on_task is not None:
            self.on_task(task)
        return task

    async def end_tasks(self) -> None:
        """Cancels all tasks but the calling one, in the order in which they were made, and waits for their ends.

        Exceptions of the tasks are not raised.
        """
        own = asyncio.current_task()
        left = [task for task in self._tasks.values() if task is not own and not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    def run_until_idle(self) -> None:
        """Runs callbacks and timers until none is left; the clock jumps to each timer. The loop must not be running.

        Raises:
            Stalled: after 100 000 rounds of callbacks at one time, callbacks still schedule others.
        """
        while self._soon or any(not entry[2].cancelled() for entry in self._timers):
            self._run_once()

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if threading.get_ident() != self._owner:
            raise RuntimeError("no other thread takes part in virtual time: schedule from the thread of the loop")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Runs a function at once, in the thread of the loop; no virtual time passes.

        Args:
            executor: ignored.
            func: the function.
            args: its arguments.

        Returns:
            A completed future with the result of the function, or the exception that it raised.
        """
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller's, as of a thread
            future.set_exception(error)
        return future

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if not handle._scheduled:  # type: ignore[attr-defined]  # noqa: SLF001 - the loop's part of a handle
            return
        self._stale += 1
        if self._stale > _STALE_KEPT and self._stale > len(self._timers) // 2:
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            # The handle itself, which counts as cancelled only after this call.
            self._stale = 1

    def _run_once(self) -> None:
        soon, timers = self._soon, self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._stale -= 1
        self._turns += 1
        if not soon:
            if not timers:
                raise Stalled("every task waits and no timer is set: the awaited event can never happen")
            if timers[0][0] > self.now_s:
                self.now_s = timers[0][0]
                self._turns = 0
        if self._turns > _TURNS_MAX:
            self._turns = 0
            raise Stalled(f"{_TURNS_MAX} turns without time: a task polls; have it sleep for longer than 0")
        while timers and timers[0][0] <= self.now_s:
            handle = heapq.heappop(timers)[2]
            self._stale -= handle.cancelled()
            handle._scheduled = False  # type: ignore[attr-defined]  # noqa: SLF001
            soon.append(handle)
        for _ in range(len(soon)):
            handle = soon.popleft()
            if not handle.cancelled():
                self.callbacks += 1
                self.cause = handle.cause
                self._local_s = self.now_s
                handle._run()  # noqa: SLF001 - the loop's part of a handle
        self.cause = NO_CAUSE
        self._local_s = self.now_s


def run(main: Callable[[], Coroutine[Any, Any, T]], *, seed: int = 0) -> T:
    """Runs a program to its end in a `VirtualLoop` of its own, then cancels its other tasks.

    The same program and seed run alike each time.

    Args:
        main: makes the program's coroutine.
        seed: determines the loop's random numbers.

    Returns:
        The result of the coroutine.

    Raises:
        Stalled: the program waits for an event that can never happen, or polls without end at one time.
        Exception: what the coroutine raised.
    """
    loop = VirtualLoop(seed)

    async def whole() -> T:
        try:
            return await main()
        finally:
            # Otherwise the runner does, in the order of their addresses.
            await loop.end_tasks()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(whole())


def now_s() -> float:
    """Returns the running loop's time in seconds; in a `VirtualLoop` it begins at 0."""
    return asyncio.get_running_loop().time()
