"""The event loop, in a thread of its own, that does the work of `rpcrdma.sync`; the calling threads wait for it.

There is one for all connections of a process, from the first that is opened. It ends with the process, and before a
fork if no connection is open then: the child starts its own. What is open while the process forks goes on in the
parent; in the child its thread does not exist, and the connection is the parent's.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, SupportsIndex, TypeAlias, TypeVar

from rpcrdma.aio.awaited_call import AwaitedCall
from rpcrdma.errors import LocalProtocolError

__all__ = ["BackgroundLoop", "OwnProcess", "Waits", "iterate", "take_loop", "waiting"]

T = TypeVar("T")
P = ParamSpec("P")

_End: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_LOGGER = logging.getLogger("rpcrdma.client")

_GOODBYE_S = 2.0
"""How long the connections that are open at the end of the process may take to close."""

_FORKED = (
    "this was opened before the process forked, and is the parent's: open it anew in the child, or let "
    "multiprocessing start processes by spawn or forkserver"
)
_ENDED = "this is closed: open it anew"
_INSIDE = (
    "rpcrdma.sync was called by a function that it runs itself (progress, onerror, on_call, a service), for which it "
    "would wait for ever: call it from another thread"
)


class BackgroundLoop:
    """One thread with an event loop; `take_loop` gives it out."""

    def __init__(self) -> None:
        self.forked = False
        """Whether this process is a child of the one that has the thread."""
        # Not one of uvloop: libuv has threads that outlive it, and a forked child crashes at its end when it waits for
        # them.
        self._loop = asyncio.new_event_loop()
        # Reentrant: garbage may be collected, and a signal handled, while it is held, and files are closed then.
        self._submitting = threading.RLock()
        self._ended = False
        self._closers: dict[int, tuple[_End | None, _End]] = {}
        self._claims = 0
        self._thread = threading.Thread(target=self._run, name="rpcrdma-sync", daemon=True)
        self._thread.start()

    @property
    def in_use(self) -> bool:
        """Whether a connection is open, or about to be."""
        return bool(self._claims)

    @property
    def is_here(self) -> bool:
        """Whether the calling thread is the loop's own."""
        return self._thread is threading.current_thread()

    def run(
        self,
        begin: Callable[[], Coroutine[Any, Any, T]],
        *,
        undo: Callable[[T], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Waits until the loop has run the coroutine that `begin` makes; its result.

        An exception in the waiting thread, such as KeyboardInterrupt, cancels the coroutine and is raised when that has
        ended; if it ended with a result meanwhile, `undo` is run with that.

        Raises:
            LocalProtocolError: the loop has ended, is another process's, or would have to wait for itself.
        """
        if self.is_here:
            raise LocalProtocolError(_INSIDE)
        call = AwaitedCall(begin)
        try:
            self._submit(call.start)
            call.wait()
        except LocalProtocolError:
            raise
        except BaseException:
            with contextlib.suppress(LocalProtocolError):
                self._submit(call.give_up)
                call.wait()
                if undo is not None and call.succeeded:
                    self.run(functools.partial(undo, call.result()))
            raise
        return call.result()

    def post(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Has the loop run a coroutine and does not wait for it; nothing where the loop has ended."""
        with contextlib.suppress(LocalProtocolError):
            self._submit(lambda: self._loop.create_task(begin()))

    def keep(self, key: object, close: _End, *, finish: _End | None = None) -> None:
        """Turns the claim of `take_loop` into that of an open connection, which `close` would end after `finish`."""
        self._closers[id(key)] = (finish, close)

    def release(self, key: object = None) -> None:
        """Gives a claim back: the connection is closed, or was never made."""
        with _guard:
            self._closers.pop(id(key), None)
            self._claims -= 1

    def claim(self) -> None:
        """Counts a connection that is about to be made; `_guard` is held."""
        self._claims += 1

    def end(self) -> None:
        """Closes the connections that are open, and ends the thread."""
        for finish, close in list(self._closers.values()):
            if finish is not None:
                try:
                    self.run(finish)
                except Exception as error:  # noqa: BLE001 - the process ends, and says why data is missing
                    _LOGGER.error("what was written last may be lost: %s", error)  # noqa: TRY400
            with contextlib.suppress(Exception):
                self.run(lambda close=close: asyncio.wait_for(close(), _GOODBYE_S))  # type: ignore[misc]
        with self._submitting:
            self._ended = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _submit(self, function: Callable[[], object]) -> None:
        if self.forked:
            raise LocalProtocolError(_FORKED)
        with self._submitting:
            if self._ended:
                raise LocalProtocolError(_ENDED)
            self._loop.call_soon_threadsafe(function)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            left = asyncio.all_tasks(loop)
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


def take_loop() -> BackgroundLoop:
    """The loop of this process, with a claim that `BackgroundLoop.release` gives back."""
    global _present  # noqa: PLW0603 - there is one in a process
    with _guard:
        if _present is None:
            _present = BackgroundLoop()
        _present.claim()
        return _present


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
    """An object that other processes cannot have: pickling and copying it is refused, and the remedy named."""

    def __reduce_ex__(self, _protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"cannot pickle or copy a {type(self).__name__}, whose connection is this process's: open it anew where it "
            "is to be used, or use rpcrdma.fsspec, whose file systems can be pickled"
        )


class Waits(OwnProcess, Generic[T]):
    """An object whose methods wait for those of `_asynchronous`, which belongs to `_loop`."""

    _loop: BackgroundLoop
    _asynchronous: T


def waiting(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The method of a `Waits` that calls `method`, a coroutine function of the asynchronous class, and waits for it."""
    name = method.__name__

    @functools.wraps(method)
    def wait(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop: BackgroundLoop = self._loop

        def begin() -> Coroutine[Any, Any, T]:
            begun: Coroutine[Any, Any, T] = getattr(self._asynchronous, name)(*args, **kwargs)
            return begun

        return loop.run(begin)

    return wait


def iterate(loop: BackgroundLoop, begin: Callable[[], AsyncIterator[T]], *, at_once: int) -> Iterator[T]:
    """The items of an asynchronous iterator, up to `at_once` of them for each time that the thread waits."""
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
