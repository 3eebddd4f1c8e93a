"""How a thread waits for the event loop of fsspec: as `fsspec.asyn.sync` does, in fewer turns of the loop.

In each turn the loop lets go of the interpreter's lock, and waits for it among all threads that read small files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec, TypeVar

import fsspec.asyn

from rpcrdma.aio.awaited_call import AwaitedCall

__all__ = ["sync"]

T = TypeVar("T")
P = ParamSpec("P")


def sync(
    loop: asyncio.AbstractEventLoop | None,
    function: Callable[P, Coroutine[Any, Any, T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """The result of a coroutine function that `loop` runs in another thread.

    An exception in this thread, such as KeyboardInterrupt, cancels it, and is raised when it has ended.

    Raises:
        RuntimeError: the loop does not run, or is this thread's own.
    """
    if loop is None or not loop.is_running() or asyncio._get_running_loop() is loop:  # noqa: SLF001 - raises nothing
        result: T = fsspec.asyn.sync(loop, function, *args, **kwargs)
        return result
    call = AwaitedCall(partial(function, *args, **kwargs))
    loop.call_soon_threadsafe(call.start)
    try:
        call.wait()
    except BaseException:
        loop.call_soon_threadsafe(call.give_up)
        call.wait()
        raise
    return call.result()
