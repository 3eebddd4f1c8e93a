"""Threads for work that may never end, which keep a process from its end no more than those of calls do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, ParamSpec, TypeVar

__all__ = ["DaemonThreads", "in_time", "start_daemon"]

P = ParamSpec("P")
T = TypeVar("T")


def start_daemon(work: Callable[[], object], name: str) -> None:
    """Starts `work` in a new daemon thread with this name.

    Raises:
        OSError: no further thread can be started; the text has a remedy.
    """
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:
        cause = "no further thread can be started; raise the limit on tasks (ulimit -u, TasksMax=), or free memory"
        raise OSError(cause) from None


class DaemonThreads(ThreadPoolExecutor):
    """The executor of a server's event loop, for `asyncio.to_thread`: each piece of work has a new daemon thread.

    Work never waits for a free thread. Neither the loop nor the interpreter waits at its end for work that hangs, as
    they do for the threads of Python's executor, which is the base class only because loops take no other.
    """

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._unanswered: dict[Hashable, Future[Any]] = {}
        """The questions of `ask` that run, by their keys."""

    def ask(self, key: Hashable, look: Callable[[], T]) -> Future[T]:
        """Starts `look` in a thread, unless an earlier `look` with an equal key still runs; never waits.

        So a file system that does not answer has one thread waiting for each key, however often it is asked.

        Args:
            key: stands for the question; equal keys have functions with equal results.
            look: looks at a file system.

        Returns:
            A future with the result or exception of `look`, or of the earlier one that still runs.

        Raises:
            OSError: no further thread can be started.
        """
        with self._guard:
            future = self._unanswered.get(key)
            if future is None:
                future = self._unanswered[key] = self.submit(look)
                future.add_done_callback(lambda _: self._unanswered.pop(key, None))
        return future

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Starts `fn` in a new thread, and returns a future with its result or exception; never waits.

        Raises:
            OSError: no further thread can be started.
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

        start_daemon(work, "rpcrdma work")
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does nothing, whatever the arguments: work that runs continues, and ends with the process at the latest."""


def in_time(work: Callable[[], T], within_s: float, late: str, undo: Callable[[T], object] = lambda _: None) -> T:
    """Runs `work` in a daemon thread and waits, `within_s` at most; returns its result, or raises its exception.

    Args:
        work: the work, which may never end.
        within_s: the time limit in seconds; the work is not ended then, but no longer awaited.
        late: the text of the TimeoutError, with the cause and a remedy.
        undo: called in that thread with the result of `work` if `work` returns after the limit; an exception of `work`
            is ignored then. An exception of `undo` is logged.

    Raises:
        TimeoutError: the work has not ended within `within_s`.
        OSError: no further thread can be started.
    """
    working = DaemonThreads().submit(work)
    wait((working,), within_s)
    if not working.done():
        working.add_done_callback(lambda done: None if done.exception() else undo(done.result()))
        raise TimeoutError(late)
    return working.result()
