"""How a thread waits for the event loop of fsspec: in fewer turns of the loop than by `fsspec.asyn.sync`.

In each turn the loop lets go of the interpreter's lock, and waits for it among all threads that read small files. An
interrupt cancels the call that the thread waits for, which `fsspec.asyn.sync` leaves to run on.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import fsspec.asyn
from fsspec import AbstractFileSystem

from rpcrdma.aio.awaited_call import wait_for, without_frames

__all__ = ["FilesLoop", "OwnLoop", "sync", "waits_by_sync"]

T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F", bound=type[AbstractFileSystem])


@without_frames
def sync(
    loop: asyncio.AbstractEventLoop | None,
    function: Callable[P, Coroutine[Any, Any, T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Returns the result of a coroutine function that `loop` runs in another thread.

    An exception in this thread, such as KeyboardInterrupt, cancels it, and is raised when it has ended.

    Raises:
        RuntimeError: the loop does not run, or is this thread's own.
    """
    here = asyncio._get_running_loop()  # noqa: SLF001 - raises nothing
    if loop is None or not loop.is_running() or here is loop or "timeout" in kwargs:
        result: T = fsspec.asyn.sync(loop, function, *args, **kwargs)
        return result
    return wait_for(loop, partial(function, *args, **kwargs))


class OwnLoop(Protocol):
    """The interface of a file system that `FilesLoop` uses."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that its calls run in."""

    def unstrip_protocol(self, name: str) -> str:
        """Returns the URL of a path."""


class FilesLoop:
    """The event loop of one open file of `fs`; messages show the file's URL.

    A child process must not use the files of its parent.
    """

    def __init__(self, fs: OwnLoop, path: str) -> None:
        self._loop = fs.loop
        self._fs = fs
        self._path = path
        self._pid = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that opened the file."""
        return self._pid != os.getpid()

    def run(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns the result of the coroutine that `begin` makes, which runs in the loop.

        Blocks this thread until then.

        Raises:
            RuntimeError: the loop does not run, is this thread's own, or the parent's.
        """
        if self.forked:
            raise RuntimeError(
                f"{self._fs.unstrip_protocol(self._path)} was opened before the process forked, and its connection is "
                "the parent's: open it anew in the child, where the file system connects for itself"
            )
        return sync(self._loop, begin)

    def post(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Schedules a coroutine in the loop without waiting for it; no effect if the loop has ended."""
        if not self.forked and self._loop is not None:
            loop = self._loop
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: loop.create_task(begin()))


def waits_by_sync(filesystem: F) -> F:
    """Gives a class of asynchronous file systems the methods that wait for its coroutine functions.

    fsspec gives them to each object, unless its class has them already.
    """
    for name in dir(filesystem):
        plain = name.removeprefix("_")
        default = getattr(AbstractFileSystem, plain, None)
        method = getattr(filesystem, name)
        if inspect.iscoroutinefunction(method) and default is not None and getattr(filesystem, plain) is default:
            setattr(filesystem, plain, _waiting(name, default))
    return filesystem


def _waiting(name: str, documented: Callable[..., Any]) -> Callable[..., Any]:
    @without_frames
    @wraps(documented)
    def wait(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return sync(self.loop, getattr(self, name), *args, **kwargs)

    return wait
