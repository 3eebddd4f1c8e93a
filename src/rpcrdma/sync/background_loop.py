"""The event loop, in a thread of its own, that does the work of `rpcrdma.sync`; the calling threads wait for it.

All connections of a process share it, from the first on. It ends with the process, and before a fork if no connection
is open then: the child starts its own. Connections that are open while the process forks continue in the parent; the
child has no thread for them, and may not use them.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import logging
import os
import threading
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, Protocol, Self, SupportsIndex, TypeAlias, TypeVar

from rpcrdma.aio.awaited_call import forget_frames, post, wait_for, without_frames
from rpcrdma.errors import LocalProtocolError

__all__ = ["BackgroundLoop", "OwnProcess", "WaitedLoop", "Waits", "claimed_loop", "iterate", "waiting"]

T = TypeVar("T")
P = ParamSpec("P")

_End: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_LOGGER = logging.getLogger("rpcrdma.client")

_GOODBYE_S = 2.0
"""Seconds that each connection that is open at the end of the process may take to close."""

_FORKED = (
    "this was opened before the process forked, and is the parent's: open it anew in the child, or let "
    "multiprocessing start processes by spawn or forkserver"
)
_INSIDE = (
    "rpcrdma.sync was called by a function that it runs itself (progress, onerror, on_call, a service), which "
    "would deadlock: call it from another thread"
)


class WaitedLoop(Protocol):
    """The interface of an event loop in another thread than the waiting thread, for the objects of `rpcrdma.sync`."""

    @property
    def forked(self) -> bool:
        """Whether this process was forked from the process that has the loop's thread, which it lacks itself."""

    def run(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs the coroutine that `begin` makes in the loop, blocks until it ends, and returns its result.

        Raises the coroutine's exception; LocalProtocolError or RuntimeError if the loop cannot run it, as after its end
        or a fork.
        """

    def post(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Schedules the coroutine that `begin` makes, without waiting; no effect if the loop has ended, or `forked`."""


class BackgroundLoop:
    """A thread with an event loop, which runs all connections of `rpcrdma.sync`; `claimed_loop` makes it."""

    def __init__(self) -> None:
        self.forked = False
        """Whether this process is a child of the process that has the thread."""
        # Not one of uvloop: libuv has threads that outlive it, and a forked child crashes at its end when it waits for
        # them.
        self._loop = asyncio.new_event_loop()
        self._closers: dict[int, tuple[Callable[[], None] | None, _End]] = {}
        self.claims = 0
        """The number of connections that are being made, which `claimed_loop` counts."""
        self._thread = threading.Thread(target=self._run, name="rpcrdma-sync", daemon=True)
        self._thread.start()

    @property
    def in_use(self) -> bool:
        """Whether a connection is open (registered by `keep`), or is being made (within `claimed_loop`)."""
        return bool(self.claims or self._closers)

    @property
    def is_here(self) -> bool:
        """Whether the calling thread is the one that runs the loop."""
        return self._thread is threading.current_thread()

    def run(
        self,
        begin: Callable[[], Coroutine[Any, Any, T]],
        *,
        undo: Callable[[T], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Runs the coroutine that `begin` makes in the loop, blocks until it ends, and returns its result.

        An exception in this thread, such as KeyboardInterrupt, cancels the coroutine, and is raised once it has ended.
        If the coroutine has returned a result nevertheless, the loop runs `undo(result)` first; None: nothing.

        Raises:
            LocalProtocolError: the loop has ended, or does so while the coroutine runs; this process was forked from
                the loop's; or this is the loop's own thread.
            Exception: the coroutine's own.
        """
        if self.forked:
            raise LocalProtocolError(_FORKED)
        if self.is_here:
            raise LocalProtocolError(_INSIDE)
        return wait_for(self._loop, begin, undo=undo)

    def post(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Schedules the coroutine that `begin` makes, without waiting; no effect if the loop ended, or if `forked`."""
        if not self.forked:
            post(self._loop, begin)

    def keep(self, key: object, close: _End, *, finish: Callable[[], None] | None = None) -> None:
        """Registers an open connection, to be closed at the end of the process; `release` undoes that.

        Args:
            key: an object that identifies the connection, compared by identity; the caller keeps it alive.
            close: makes the coroutine that closes the connection; the coroutine is cancelled after 2 s.
            finish: a function to call before `close`, outside of the loop's thread; None for no function.
        """
        self._closers[id(key)] = (finish, close)

    def release(self, key: object) -> None:
        """Undoes `keep` for the connection registered with this key, without closing it; no effect if there is none."""
        self._closers.pop(id(key), None)

    def end(self) -> None:
        """Closes the registered connections, ends the loop, and blocks until its thread has ended.

        Must not run in that thread. Before closing a connection it calls the function `finish` that was given to
        `keep`, whose errors are logged; errors of closing are ignored.
        """
        for finish, close in list(self._closers.values()):
            if finish is not None:
                try:
                    finish()
                except Exception as error:  # noqa: BLE001 - the process ends, and says why data is missing
                    _LOGGER.error("the data written last may be lost: %s", error)  # noqa: TRY400
            with contextlib.suppress(Exception):
                self.run(lambda close=close: asyncio.wait_for(close(), _GOODBYE_S))  # type: ignore[misc]
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            # Another thread may hand in a call until the loop is closed.
            while left := asyncio.all_tasks(loop):
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            asyncio.set_event_loop(None)
            loop.close()


_guard = threading.Lock()
_present: BackgroundLoop | None = None
_of_parents: list[BackgroundLoop] = []
"""Loops whose threads are in processes that this one was forked from. They are never closed: their epoll object is
shared with the parent."""


@contextlib.contextmanager
def claimed_loop() -> Iterator[BackgroundLoop]:
    """Context manager that yields the loop of this process, started if necessary, and keeps it in use until exit.

    Before the process forks, a loop that is not in use is ended. One that is in use, also by an open connection that
    `keep` has registered, continues in the parent alone. The end of the process ends the loop in any case.
    """
    global _present  # noqa: PLW0603 - there is one in a process
    with _guard:
        if _present is None:
            _present = BackgroundLoop()
        loop = _present
        loop.claims += 1
    try:
        yield loop
    finally:
        with _guard:
            loop.claims -= 1


def _before_fork() -> None:
    global _present  # noqa: PLW0603
    _guard.acquire()
    if _present is not None and not _present.in_use and not _present.is_here:
        _present.end()
        _present = None


def _after_fork_in_child() -> None:
    global _present  # noqa: PLW0603
    if _present is not None:
        _present.forked = True
        _of_parents.append(_present)
        _present = None
    _guard.release()


def _at_exit() -> None:
    global _present
    with _guard:
        ending, _present = _present, None
    if ending is not None:
        ending.end()


os.register_at_fork(before=_before_fork, after_in_parent=_guard.release, after_in_child=_after_fork_in_child)
atexit.register(_at_exit)


class OwnProcess:
    """The base of objects that belong to their process: pickling or copying them raises TypeError with the remedy."""

    def __reduce_ex__(self, _protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"cannot pickle or copy a {type(self).__name__}, whose connection is this process's: open it anew where it "
            "is to be used, or use rpcrdma.fsspec, whose file systems can be pickled"
        )


class Waits(OwnProcess, Generic[T]):
    """Base of synchronous objects, whose methods wait for those of `_asynchronous` in `_loop`; `with` closes them."""

    _loop: BackgroundLoop
    _asynchronous: T

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Ends the use of the object, and blocks until it has ended; subclasses implement this."""


def waiting(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Returns a blocking method for a class derived from `Waits`, with the signature and docstring of `method`.

    `method` is a coroutine function of the asynchronous class. The blocking method runs the method of that name of
    `self._asynchronous` in `self._loop`, returns its result and raises its errors; LocalProtocolError or RuntimeError
    if the loop has ended, or this process was forked from the one that has the loop's thread.
    """
    name = method.__name__

    @without_frames
    @functools.wraps(method)
    def wait(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop: WaitedLoop = self._loop

        def begin() -> Coroutine[Any, Any, T]:
            begun: Coroutine[Any, Any, T] = getattr(self._asynchronous, name)(*args, **kwargs)
            return begun

        return loop.run(begin)

    return wait


def iterate(loop: WaitedLoop, begin: Callable[[], AsyncIterator[T]], *, at_once: int) -> Iterator[T]:
    """Yields the items of the asynchronous iterator that `begin` makes, which `loop` runs.

    The calling thread blocks until the next `at_once` items are there, or all that are left, and yields these. An
    exception of the iterator is raised after the items before it, LocalProtocolError or RuntimeError if `loop` has
    ended or is a parent process's. If the caller stops early, `loop` closes the iterator, without the caller waiting.
    """
    items: AsyncIterator[T] | None = None
    failure: BaseException | None = None
    ended = False

    async def some() -> list[T]:
        nonlocal items, failure, ended
        found: list[T] = []
        try:
            if items is None:
                items = begin()
            async for item in items:
                found.append(item)
                if len(found) == at_once:
                    return found
        except Exception as error:  # noqa: BLE001 - raised behind the items that came before it
            failure = error
            if forget_frames(error):
                error.__context__ = None
        ended = True
        return found

    try:
        while not ended:
            yield from loop.run(some)
        if failure is not None:
            raise failure
    finally:
        if not ended and (close := getattr(items, "aclose", None)) is not None:
            loop.post(close)
