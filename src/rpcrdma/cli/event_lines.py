"""Events as lines of JSON, and the lines of standard error, for whose reader the server does not wait.

A program that starts a server often reads until the server listens, and then no more: a pipe takes 64 KiB, and a writer
that waits for room in it would wait for ever.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from rpcrdma.commands import console
from rpcrdma.limits import EVENT_LINES_MAX

__all__ = ["ErrorLines", "EventLines", "error_lines", "server_events", "write_last_lines"]

_LAST_LINES_S = 2.0
"""How long the end of the server waits for a reader that has not taken the last lines."""
_WRITING: list[_WaitingLines] = []
"""The writers whose threads run."""


class _WaitingLines:
    """Writes lines to a file descriptor in a thread of its own; EVENT_LINES_MAX (1,000) of them wait at most.

    Further lines are lost; in their place stands one line that says how many, which `line_of_lost` makes of their
    number. After a failed write all further lines are discarded.
    """

    def __init__(self, descriptor: int, line_of_lost: Callable[[int], str]) -> None:
        self._line_of_lost = line_of_lost
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._lost = 0
        self._ended = False
        self._descriptor = descriptor
        self._thread = threading.Thread(target=self._write, name="events", daemon=True)
        self._thread.start()
        _WRITING.append(self)

    def end(self) -> None:
        """Has the thread write the queued lines, and one about lost lines if need be, and end; waits 2 s at most.

        If the reader takes longer, the thread goes on in the background. Later lines are not written.
        """
        with self._guard:
            self._ended = True
            self._put_lost()
            self._lines.put(None)
        self._thread.join(_LAST_LINES_S)
        if self in _WRITING:
            _WRITING.remove(self)

    def _put(self, line: str) -> None:
        with self._guard:
            if self._ended:
                return
            if self._lines.qsize() + bool(self._lost) >= EVENT_LINES_MAX:
                self._lost += 1
                return
            self._put_lost()
            self._lines.put(line)

    def _put_lost(self) -> None:
        if self._lost:
            self._lines.put(self._line_of_lost(self._lost))
            self._lost = 0

    def _write(self) -> None:
        # To the descriptor itself: the end of the process may find the thread in a write, where it must hold no lock.
        gone = False
        while (line := self._lines.get()) is not None:
            octets = line.encode(errors="backslashreplace")
            while octets and not gone:
                try:
                    octets = octets[os.write(self._descriptor, octets) :]
                except OSError:
                    # The server goes on when the reader of the lines has gone.
                    gone = True


class EventLines(_WaitingLines, logging.Handler):
    """A logging handler that writes events as lines of JSON to a file descriptor, in a thread of its own.

    An event is the JSON object in the attribute `event` of a log record. Up to EVENT_LINES_MAX (1,000) lines wait;
    further events are left out, and an event `lost` with their number takes their place. After a failed write all
    further lines are discarded.
    """

    def __init__(self, descriptor: int) -> None:
        logging.Handler.__init__(self)
        super().__init__(descriptor, lambda number: _line({"event": "lost", "events": number}))

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
        self._put(_line(event))


class ErrorLines(_WaitingLines, io.TextIOBase):
    """A text stream that writes to a file descriptor in a thread of its own, in place of standard error.

    Up to EVENT_LINES_MAX (1,000) texts wait, each of one call of `write`; further ones are left out, and a line with
    their number takes their place. After a failed write all further texts are discarded.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, _left_out)

    def write(self, text: str, /) -> int:
        """Queues `text` for writing, or leaves it out if too many wait; never waits. Returns its number of characters.

        After `end` the text is dropped.
        """
        if text:
            self._put(text)
        return len(text)

    def fileno(self) -> int:
        """Returns the descriptor that the texts are written to."""
        return self._descriptor

    def isatty(self) -> bool:
        """Returns whether the descriptor is a terminal."""
        return os.isatty(self._descriptor)


def write_last_lines() -> None:
    """Has the threads write all lines queued, before the process ends without them; waits 2 s at most for each."""
    for lines in tuple(_WRITING):
        lines.end()


def _line(event: dict[str, Any]) -> str:
    return f"{console.json_text(event)}\n"


def _left_out(number: int) -> str:
    text = f"{console.counted(number, 'line')} left out here: standard error took no more"
    return f"{console.journal_lines(text, logging.WARNING) if console.in_journal() else text}\n"


@contextlib.contextmanager
def error_lines() -> Iterator[None]:
    """Context manager: has a thread write what goes to standard error, also from loggers (`ErrorLines`).

    At exit the last lines are written, and standard error is as before.
    """
    before = sys.stderr
    before.flush()
    lines = ErrorLines(before.fileno())
    handlers = [
        each
        for each in logging.getLogger().handlers
        if isinstance(each, logging.StreamHandler) and each.stream is before
    ]
    for handler in handlers:
        handler.setStream(lines)
    sys.stderr = lines
    try:
        yield
    finally:
        sys.stderr = before
        for handler in handlers:
            handler.setStream(before)
        lines.end()


@contextlib.contextmanager
def server_events() -> Iterator[EventLines]:
    """Prints the server's events as lines of JSON on standard output while the context lasts; yields their handler.

    They are the JSON objects in the attribute `event` of log records of `rpcrdma.server` from the level INFO on, and
    the errors of `console.error`. Meanwhile standard error gets the records without an event alone, of the root
    logger's level and above. At exit the last lines are written, and the logging is as before.
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
