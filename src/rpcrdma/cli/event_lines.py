"""Events as lines of JSON, for whose reader the server does not wait.

A program that starts a server often reads until the server listens, and then no more: a pipe takes 64 KiB, and a writer
that waits for room in it would wait for ever.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

from rpcrdma.commands import console
from rpcrdma.limits import EVENT_LINES_MAX

__all__ = ["EventLines", "server_events"]

_LAST_LINES_S = 2.0
"""How long the end of the server waits for a reader that has not taken the last lines."""


class EventLines(logging.Handler):
    """A logging handler that writes events as lines of JSON to a file descriptor, in a thread of its own.

    An event is the JSON object in the attribute `event` of a log record. Up to EVENT_LINES_MAX (1,000) lines wait;
    further events are left out, and an event `lost` with their number takes their place. After a failed write all
    further lines are discarded.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._lost = 0
        self._ended = False
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._write, name="events", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queues the event of a log record for writing, if the record has one; never waits.

        In the event's `reason`, parameters of the library become options of the command ("--tls-key").
        """
        event = getattr(record, "event", None)
        if event is not None:
            reason = event.get("reason")
            self.put({**event, "reason": console.in_options(reason)} if reason else event)

    def put(self, event: dict[str, Any]) -> None:
        """Queues an event, a JSON object, for writing as one line; never waits.

        If EVENT_LINES_MAX (1,000) lines wait, the event is left out and counted in a later event `lost`. After `end` it
        is dropped.
        """
        with self._guard:
            if self._ended:
                return
            if self._lines.qsize() + bool(self._lost) >= EVENT_LINES_MAX:
                self._lost += 1
                return
            self._put_lost()
            self._lines.put(console.json_text(event))

    def end(self) -> None:
        """Has the thread write the queued lines, and the event `lost` if need be, and end; waits 2 s at most for that.

        If the reader takes longer, the thread goes on in the background. Later events are not written.
        """
        with self._guard:
            self._ended = True
            self._put_lost()
            self._lines.put(None)
        self._thread.join(_LAST_LINES_S)

    def _put_lost(self) -> None:
        if self._lost:
            self._lines.put(console.json_text({"event": "lost", "events": self._lost}))
            self._lost = 0

    def _write(self) -> None:
        # To the descriptor itself: the end of the process may find the thread in a write, where it must hold no lock.
        gone = False
        while (line := self._lines.get()) is not None:
            octets = f"{line}\n".encode()
            while octets and not gone:
                try:
                    octets = octets[os.write(self._descriptor, octets) :]
                except OSError:
                    # The server goes on when the reader of the events has gone.
                    gone = True


@contextlib.contextmanager
def server_events() -> Iterator[EventLines]:
    """Prints the server's events as lines of JSON on standard output while the context lasts; yields their handler.

    They are the events (see `EventLines`) in log records of `rpcrdma.server` from the level INFO on, and the errors of
    `console.error`. No record with an event is printed on standard error meanwhile, and others as the root logger's
    level admits them. At exit the last lines are written, and the logging is as before.
    """
    console.write(flush=True)
    lines = EventLines(sys.stdout.fileno())
    lines.setLevel(logging.INFO)
    logger, root = logging.getLogger("rpcrdma.server"), logging.getLogger()
    before, handlers = logger.level, tuple(root.handlers)

    def is_no_line(record: logging.LogRecord) -> bool:
        """Returns whether a log record belongs on standard error: it has no event, and the present level admits it."""
        return not hasattr(record, "event") and record.levelno >= root.level

    logger.setLevel(logging.DEBUG)  # a reload may lower the level of the root logger
    logger.addHandler(lines)
    console.errors_through(lines.put)
    for handler in handlers:
        handler.addFilter(is_no_line)
    try:
        yield lines
    finally:
        console.errors_through(None)
        lines.end()
        logger.removeHandler(lines)
        logger.setLevel(before)
        for handler in handlers:
            handler.removeFilter(is_no_line)
