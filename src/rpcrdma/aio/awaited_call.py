"""A coroutine that an event loop runs while another thread waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from rpcrdma.errors import LocalProtocolError

__all__ = ["AwaitedCall"]

T = TypeVar("T")

_SIGNALS_HEEDED_S = 0.5
"""How long a signal may wait to be heeded if it comes at the worst moment."""

_ENDED = "this is closed: open it anew"


class AwaitedCall(Generic[T]):
    """The coroutine that `begin` makes: the loop calls `start`, the other thread `wait` and then `result`."""

    __slots__ = ("_begin", "_done", "_failure", "_given_up", "_result", "_running", "_task")

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._begin = begin
        self._task: asyncio.Task[None] | None = None
        self._running = False
        self._given_up = False
        self._result: T
        self._failure: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def start(self) -> None:
        """Begins, in the loop's thread."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        self._running = True
        try:
            if self._given_up:
                raise asyncio.CancelledError  # noqa: TRY301 - as if it had come while it ran
            self._result = await self._begin()
        except asyncio.CancelledError:
            self._failure = LocalProtocolError(_ENDED)
        except BaseException as error:  # noqa: BLE001 - it is the waiting thread's
            self._failure = error
        # Here, and not when the loop hears that the task has ended: the other thread goes on a turn earlier.
        self._done.release()

    def wait(self) -> None:
        """Waits in the calling thread until it has ended."""
        # A signal that comes just before the thread blocks does not wake it.
        while not self._done.acquire(timeout=_SIGNALS_HEEDED_S):
            pass

    def give_up(self) -> None:
        """Cancels the coroutine, in the loop's thread; `wait` returns when it has ended."""
        self._given_up = True
        if self._running:
            assert self._task is not None, "it has begun"
            self._task.cancel()
        elif self._task is None and self._done.locked():
            self._done.release()

    def result(self) -> T:
        """What it has ended with.

        Raises:
            LocalProtocolError: it was cancelled.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return self._result

    @property
    def succeeded(self) -> bool:
        """Whether it has ended with a result."""
        return self._failure is None and hasattr(self, "_result")
