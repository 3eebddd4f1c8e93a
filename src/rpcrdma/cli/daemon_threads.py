"""Threads for work that may never end, which keep a process from its end no more than those of calls do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

__all__ = ["DaemonThreads"]

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """The executor of a server's event loop, for `asyncio.to_thread`: each piece of work has a thread of its own.

    Neither the loop nor the interpreter waits at its end for what a file system holds up, as they do for the threads of
    Python's executor, which is the base class only because loops take no other. The work waits for no free thread.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Starts `fn` in a thread, and returns a future with its result.

        Raises:
            RuntimeError: no further thread can be started.
        """
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name="rpcrdma work", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Returns at once: the work that runs ends with the process."""
