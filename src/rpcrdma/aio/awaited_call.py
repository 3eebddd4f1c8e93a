"""Coroutines that an event loop runs while another thread waits for them.

An exception in the waiting thread, such as the KeyboardInterrupt of Ctrl-C, may come between any two instructions of
it. Therefore the end of a call is a flag that its loop sets. The lock beside it only wakes the thread: an interrupt may
come after the thread has taken the lock and before it has noticed, and then the lock is lost, but not the flag.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, ParamSpec, TypeVar

from rpcrdma.errors import InternalError, LocalProtocolError, RpcRdmaError

__all__ = ["forget_frames", "post", "wait_for", "without_frames"]

T = TypeVar("T")
P = ParamSpec("P")

_SIGNALS_HEEDED_S = 0.5
"""The longest delay of a signal that arrives at the worst moment, and of noticing the end of a loop."""

_ENDED = "this is closed: open it anew"

_LOGGER = logging.getLogger("rpcrdma.client")
_DOCUMENTED = (RpcRdmaError, OSError, TypeError, ValueError, OverflowError)
"""The errors that functions document: their text names the remedy."""
_INTERNAL = sys.stdlib_module_names | {"rpcrdma", "fsspec"}
_GENERATED = "by `rpcrdma xdr compile`: do not edit."
"""The end of the docstrings of modules that the XDR compiler has written."""
_POSTED: set[asyncio.Task[object]] = set()
"""Tasks for which nobody waits, kept from garbage collection: event loops themselves hold tasks weakly."""


def forget_frames(error: BaseException) -> bool:
    """Removes the tracebacks of `error` and its causes (`__cause__`), as far as they show only this library's frames.

    Frames of fsspec, of Python's standard library and of modules that the XDR compiler has written count as this
    library's. Tracebacks are removed from `error` on, cause by cause, up to the first exception that is of no class the
    library documents, or whose traceback has any other frame, such as that of a function of the user: it and its causes
    keep their tracebacks. Nothing is removed if the logger `rpcrdma.client` is enabled for DEBUG.

    Returns:
        Whether the traceback of `error` was removed.
    """
    if _LOGGER.isEnabledFor(logging.DEBUG) or not _shows_the_library_alone(error):
        return False
    emptied: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in emptied and _shows_the_library_alone(each):
        each.__traceback__ = None
        emptied.append(each)
        each = each.__cause__
    return True


def _shows_the_library_alone(error: BaseException) -> bool:
    if not isinstance(error, _DOCUMENTED) or isinstance(error, InternalError):
        return False
    # Without a generator: one that is dropped before its end swallows an interrupt that comes just then.
    entry = error.__traceback__
    while entry is not None:
        if not _is_of_the_library(entry.tb_frame.f_globals):
            return False
        entry = entry.tb_next
    return True


def _is_of_the_library(module: Mapping[str, Any]) -> bool:
    return str(module.get("__name__")).partition(".")[0] in _INTERNAL or str(module.get("__doc__")).endswith(_GENERATED)


def without_frames(function: Callable[P, T]) -> Callable[P, T]:
    """Returns a wrapper of the synchronous `function` that applies `forget_frames` to each error before raising it."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            forget_frames(error)
            raise  # which, unlike `raise error`, adds no frame

    return call


def wait_for(
    loop: asyncio.AbstractEventLoop,
    begin: Callable[[], Coroutine[Any, Any, T]],
    *,
    undo: Callable[[T], Coroutine[Any, Any, object]] | None = None,
) -> T:
    """Runs the coroutine that `begin()` makes in `loop`, the event loop of another thread, and returns its result.

    The calling thread blocks. An exception in that thread, such as KeyboardInterrupt, cancels the coroutine, and is
    raised when the coroutine has ended. If the coroutine has returned a result nevertheless, `loop` runs the coroutine
    `undo(result)` first; without `undo` the result is dropped. A further exception in the waiting thread is raised at
    once, without `undo`. The coroutine's own exception is raised, after `forget_frames` was applied to it.

    Raises:
        LocalProtocolError: the loop is closed, or the coroutine was cancelled, as by the end of the loop.
    """
    call = _AwaitedCall(begin)
    try:
        call.submit(loop)
        call.wait(loop)
        return call.result()
    except BaseException:
        if not call.ended:
            with contextlib.suppress(RuntimeError, LocalProtocolError):
                loop.call_soon_threadsafe(call.give_up)
                call.wait(loop)
        if undo is not None and call.succeeded:
            result = call.result()
            wait_for(loop, lambda: undo(result))
        raise


def post(loop: asyncio.AbstractEventLoop, begin: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Schedules the coroutine that `begin()` makes in `loop`, without waiting for it; no effect if `loop` is closed."""

    def start() -> None:
        task = loop.create_task(begin())
        _POSTED.add(task)
        task.add_done_callback(_POSTED.discard)

    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(start)


class _AwaitedCall(Generic[T]):
    """One coroutine, made by `begin()`, for which a thread waits while an event loop in another thread runs it.

    `start` and `give_up` run in the loop, the other methods in the waiting thread.
    """

    __slots__ = ("_begin", "_failure", "_given_up", "_result", "_running", "_task", "_wake", "ended")

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._begin = begin
        self._task: asyncio.Task[None] | None = None
        self._running = False
        self._given_up = False
        self._result: T
        self._failure: BaseException | None = None
        self.ended = False
        """Whether the coroutine has ended, or will not begin."""
        self._wake = threading.Lock()
        self._wake.acquire()

    def submit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Schedules the start of the coroutine in `loop`; returns at once.

        Raises:
            LocalProtocolError: the loop is closed.
        """
        try:
            loop.call_soon_threadsafe(self.start)
        except RuntimeError:
            raise LocalProtocolError(_ENDED) from None

    def start(self) -> None:
        """Makes the task that runs the coroutine; called in the thread of the event loop."""
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
            if forget_frames(error):
                error.__context__ = None
        # Here, and not when the loop hears that the task has ended: the other thread goes on a turn earlier.
        self.ended = True
        self._wake.release()

    def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Blocks the calling thread until the coroutine has ended in `loop`.

        Raises:
            LocalProtocolError: the loop is closed, and runs the coroutine no more.
        """
        while not self.ended:
            # A signal that comes just before the thread blocks does not wake it.
            if not self._wake.acquire(timeout=_SIGNALS_HEEDED_S) and loop.is_closed():
                raise LocalProtocolError(_ENDED)

    def give_up(self) -> None:
        """Cancels the coroutine, or keeps it from beginning; called in the thread of the event loop.

        `wait` returns when the coroutine has ended.
        """
        self._given_up = True
        if self._running:
            assert self._task is not None, "it has begun"
            self._task.cancel()
        elif self._task is None:
            self.ended = True
            self._wake.release()

    def result(self) -> T:
        """Returns the result of the coroutine, or raises its exception; called once, after `wait` has returned.

        Raises:
            LocalProtocolError: the coroutine was cancelled.
        """
        failure, self._failure = self._failure, None
        if failure is None:
            return self._result
        try:
            raise failure
        finally:
            # The exception refers to this frame: together they would live until garbage is collected.
            del failure

    @property
    def succeeded(self) -> bool:
        """Whether the coroutine has returned a result; false while it runs, and after an exception."""
        return hasattr(self, "_result")
