"""A thread that listens to inotify: everything about watched directories happens in it, one thing after another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from asyncinotify import Event, Inotify, Mask, Watch

from rpcrdma.nfs.export.local_tree import LocalExports
from rpcrdma.nfs.server.directory_events import DirectoryEvent, Happening, has_open_renaming
from rpcrdma.nfs.server.directory_watcher import DirectoryWatcher

__all__ = ["InotifyThread"]

T = TypeVar("T")

_LOGGER = logging.getLogger("rpcrdma.server")
_MASK = (
    Mask.CREATE
    | Mask.DELETE
    | Mask.MOVED_FROM
    | Mask.MOVED_TO
    | Mask.MODIFY
    | Mask.ATTRIB
    | Mask.DELETE_SELF
    | Mask.ONLYDIR
    | Mask.EXCL_UNLINK
)
_HAPPENINGS = (
    (Mask.Q_OVERFLOW, Happening.OVERFLOW),
    (Mask.IGNORED, Happening.GONE),
    (Mask.UNMOUNT, Happening.GONE),
    (Mask.DELETE_SELF, Happening.GONE),
    (Mask.CREATE, Happening.CREATED),
    (Mask.DELETE, Happening.REMOVED),
    (Mask.MOVED_FROM, Happening.MOVED_FROM),
    (Mask.MOVED_TO, Happening.MOVED_TO),
    (Mask.MODIFY, Happening.CHANGED),
    (Mask.ATTRIB, Happening.ATTRIBUTES),
)
_EVENTS_AT_ONCE = 4096
"""Events taken from the kernel before they are told: a few milliseconds of work."""
_SECOND_HALF_S = 0.005
"""How long the second half of a renaming may take: the kernel adds the two right after each other."""
_CONFINE_S = 1.0
"""How often directories without events are checked to be still in their exports: inotify does not report that a
directory above one is moved, nor that one that is held open is removed."""


class InotifyThread:
    """Runs a `DirectoryWatcher`; `run` hands work to it. Ends with `close`.

    Raises:
        OSError: the user's instances of inotify are used up.
    """

    def __init__(self, exports: LocalExports) -> None:
        # Read synchronously and without waiting: `poll` says first whether events are there.
        self._inotify = Inotify(cache_size=64, sync_timeout=0)
        self._events = select.poll()
        self._watches: dict[int, Watch] = {}
        self._watcher = DirectoryWatcher(exports, self)
        self._jobs: deque[Callable[[], None]] = deque()
        self._wake_in, self._wake_out = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="rpcrdma-watch")
        self._thread.start()

    async def run(self, job: Callable[[DirectoryWatcher], T]) -> T:
        """Runs `job` in the thread; cancelling the caller does not stop the job."""
        return await asyncio.wrap_future(self.submit(job))

    def submit(self, job: Callable[[DirectoryWatcher], T]) -> Future[T]:
        """As `run`, for callers that do not wait."""
        future: Future[T] = Future()

        def work() -> None:
            try:
                result = job(self._watcher)
            except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        future.set_running_or_notify_cancel()
        self._jobs.append(work)
        self._wake()
        return future

    async def close(self) -> None:
        """Ends the thread and all watches."""
        if not self._closing:
            self._closing = True
            self._wake()
            await asyncio.to_thread(self._thread.join)
            for fd in (self._wake_in, self._wake_out):
                os.close(fd)
            self._inotify.close()

    def add(self, link: bytes) -> int:
        """See `Notifier.add`."""
        watch = self._inotify.add_watch(link, _MASK)
        self._watches[watch.wd] = watch
        return watch.wd

    def remove(self, watch: int) -> None:
        """See `Notifier.remove`."""
        known = self._watches.pop(watch, None)
        if known is not None:
            with contextlib.suppress(OSError):
                self._inotify.rm_watch(known)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_out, b"\0")

    def _work(self) -> None:
        poll = select.poll()
        for fd in (self._inotify.fd, self._wake_in):
            poll.register(fd, select.POLLIN)
        self._events.register(self._inotify.fd, select.POLLIN)
        while not self._closing:
            if not poll.poll(_CONFINE_S * 1000):
                self._watcher.confine()
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_in, 4096)
            while self._jobs:
                self._jobs.popleft()()
            try:
                self._take()
            except Exception:  # the other subscriptions go on
                _LOGGER.exception("cannot report changes: watching clients are told to rescan")
                self.submit(lambda watcher: watcher.take([DirectoryEvent(-1, Happening.OVERFLOW)]))
        while self._jobs:
            self._jobs.popleft()()

    def _take(self) -> None:
        events = self._read()
        if not events:
            return
        if has_open_renaming(events) and self._waits(_SECOND_HALF_S):
            events += self._read()
        self._watcher.take(events)
        if not self._waits(0):
            self._watcher.settled()

    def _waits(self, timeout_s: float) -> bool:
        """Waits for events, at most `timeout_s`; returns whether any have come."""
        return bool(self._events.poll(timeout_s * 1000))

    def _read(self) -> list[DirectoryEvent]:
        events: list[DirectoryEvent] = []
        while len(events) < _EVENTS_AT_ONCE and (event := self._inotify.sync_get()) is not None:
            translated = self._translated(event)
            if translated is not None:
                events.append(translated)
        return events

    def _translated(self, event: Event) -> DirectoryEvent | None:
        mask = event.mask
        happening = next((happening for bit, happening in _HAPPENINGS if bit in mask), None)
        if happening is Happening.OVERFLOW:
            return DirectoryEvent(-1, happening)
        watch = event.watch
        if happening is None or watch is None:
            return None
        if happening is Happening.GONE and Mask.IGNORED in mask and self._watches.pop(watch.wd, None) is None:
            # `remove` has ended the watch.
            return None
        name = None
        if event.name is not None:
            name = os.fsencode(event.name).decode("utf-8", "surrogateescape")
        return DirectoryEvent(watch.wd, happening, name, Mask.ISDIR in mask, event.cookie)
