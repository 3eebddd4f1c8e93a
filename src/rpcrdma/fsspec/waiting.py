"""How a thread waits for the event loop of fsspec: in fewer turns of the loop than by `fsspec.asyn.sync`.

In each turn the loop lets go of the interpreter's lock, and waits for it among all threads that read small files. An
interrupt cancels the call that the thread waits for, which `fsspec.asyn.sync` leaves to run on.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import fsspec.asyn
from fsspec import AbstractFileSystem

from rpcrdma.aio.awaited_call import post, wait_for, without_frames

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
    """Runs `function` with the arguments in `loop`, which another thread runs, and returns the result of its coroutine.

    Blocks until the coroutine has ended, and raises its exception here. An exception in this thread, such as
    KeyboardInterrupt, cancels the coroutine, and is raised when that has ended. If `kwargs` has `timeout`, a time limit
    in seconds, or the loop does not run yet, `fsspec.asyn.sync` does the work.

    Raises:
        RuntimeError: `loop` is None, closed, or this thread's own.
        LocalProtocolError: the loop ends before the coroutine.
    """
    here = asyncio._get_running_loop()  # noqa: SLF001 - raises nothing
    if loop is None or not loop.is_running() or here is loop or "timeout" in kwargs:
        result: T = fsspec.asyn.sync(loop, function, *args, **kwargs)
        return result
    return wait_for(loop, partial(function, *args, **kwargs))


class OwnLoop(Protocol):
    """The interface of a file system that `FilesLoop` uses: the event loop of its calls, and the URLs of paths."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop, of another thread, in which the file system's calls run; None if there is none."""

    def unstrip_protocol(self, name: str) -> str:
        """Returns the URL of `name`, a path of the file system."""


class FilesLoop:
    """Runs the calls of an open file in the event loop of the file system `fs`; messages show the URL of `path`.

    In a child process that inherited the file by a fork, `run` raises RuntimeError, and `post` has no effect.
    """

    def __init__(self, fs: OwnLoop, path: str) -> None:
        self._loop = fs.loop
        self._fs = fs
        self._path = path
        self._pid = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the process that opened the file."""
        return self._pid != os.getpid()

    def run(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs the coroutine that `begin` makes in the loop, blocks this thread until it ends, and returns its result.

        Raises:
            RuntimeError: there is no loop, it is closed, or it is this thread's own; or this is a child process that
                inherited the file.
            LocalProtocolError: the loop ends before the coroutine.
            Exception: the coroutine's own.
        """
        if self.forked:
            raise RuntimeError(
                f"{self._fs.unstrip_protocol(self._path)} was opened before the process forked, and its connection is "
                "the parent's: open it anew in the child, where the file system connects for itself"
            )
        return sync(self._loop, begin)

    def post(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Schedules the coroutine that `begin` makes in the loop; waits neither for it nor for its outcome.

        No effect without a loop, once it is closed, or in a child process that inherited the open file by a fork.
        """
        if not self.forked and self._loop is not None:
            post(self._loop, begin)


def waits_by_sync(filesystem: F) -> F:
    """Class decorator: gives an asynchronous file system of fsspec blocking methods for its coroutine functions.

    For `_NAME` it adds `NAME`, which calls it by `sync`, if `AbstractFileSystem` has a NAME that the class does not
    override. fsspec would add slower ones to each object. Returns the class.
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
