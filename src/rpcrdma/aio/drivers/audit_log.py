"""A log of records, each a line, that never holds up the calls which it is about: a thread writes it.

Records wait in a queue of bounded length. What the disk or the journal does not take in time is lost, and counted.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import queue
import socket
import stat
import threading
from collections import deque
from pathlib import Path
from typing import Final, Protocol

from rpcrdma.limits import AUDIT_RECORDS_MAX

__all__ = ["AuditFile", "AuditLog", "Destination", "Journal", "NotWritten", "Nowhere"]

_LOGGER = logging.getLogger("rpcrdma.server")
_AT_ONCE: Final = 256
"""The most records that one system call writes."""
_CLOSE_S: Final = 2.0
"""The most seconds for which a stopping server waits until the remaining records are written."""
_JOURNAL: Final = "/run/systemd/journal/socket"


class Destination(Protocol):
    """The place to which an `AuditLog` writes its records; one thread uses it."""

    def write(self, records: list[bytes]) -> None:
        """Writes records, each without a line end; may block.

        Raises:
            NotWritten: the disk or the journal has not taken all records; the error's `count` is the number that was
                written.
        """

    def close(self) -> None:
        """Closes the file or socket of the destination.

        Raises:
            OSError: what was written may not be stored; the destination is closed nevertheless.
        """


class NotWritten(Exception):
    """Records were not written to the destination of an audit log.

    Args:
        error: the cause, whose text becomes the message.
        count: how many records, from the first of the list on, were written.
    """

    def __init__(self, error: OSError, count: int) -> None:
        super().__init__((error.strerror or str(error)).lower())
        self.count = count


class AuditFile:
    """A regular file as the destination of an audit log: only whole lines are appended, also when the disk is full.

    The file is created with mode 0600 if it does not exist. If it is renamed or removed later, as by logrotate, the
    next `write` opens the path again.

    Raises:
        OSError: the file cannot be opened, or is no regular file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = self._opened()

    def _opened(self) -> int:
        # Without waiting for the reader of a pipe.
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "no regular file", str(self._path))
        return fd

    def write(self, records: list[bytes]) -> None:
        """Appends each record as a line. May block.

        Raises:
            NotWritten: the disk has taken only the first records, or none, or the path cannot be opened again. No part
                of a line is left in the file, unless the file cannot be shortened (chattr +a).
        """
        lines = b"".join(record + b"\n" for record in records)
        whole = 0
        try:
            self._follow()
            begin = os.fstat(self._fd).st_size
            written = os.write(self._fd, lines)
            whole = lines.rfind(b"\n", 0, written) + 1
            if whole < written:
                os.ftruncate(self._fd, begin + whole)
        except OSError as error:
            raise NotWritten(error, lines.count(b"\n", 0, whole)) from None
        if written < len(lines):
            # The kernel tells the cause of a short write at the next one.
            raise NotWritten(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), lines.count(b"\n", 0, whole))

    def _follow(self) -> None:
        """Opens the path again if it no longer leads to the open file.

        Raises:
            OSError: the path cannot be opened.
        """
        status = os.fstat(self._fd)
        try:
            present = self._path.stat()
        except FileNotFoundError:
            present = None
        if present is None or (present.st_dev, present.st_ino) != (status.st_dev, status.st_ino):
            former, self._fd = self._fd, self._opened()
            os.close(former)

    def close(self) -> None:
        """Closes the file.

        Raises:
            OSError: the file system has not stored all records.
        """
        os.close(self._fd)


class Journal:
    """The journal of systemd, by its native protocol, as the destination of an audit log.

    Each record becomes an entry with the identifier `rpcrdma-audit` and the priority 6. `address` is the socket's path.

    Raises:
        OSError: no journal takes connections at `address`.
    """

    def __init__(self, address: str = _JOURNAL) -> None:
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            raise OSError(error.errno, "there is no journal", address) from None

    def write(self, records: list[bytes]) -> None:
        """Sends each record as a journal entry. May block.

        Raises:
            NotWritten: the journal has not taken a record, and none after it was sent; the socket is connected again,
                if possible, for the next call.
        """
        for number, record in enumerate(records):
            try:
                self._socket.send(b"SYSLOG_IDENTIFIER=rpcrdma-audit\nPRIORITY=6\nMESSAGE=" + record + b"\n")
            except OSError as error:
                # It may have been started again.
                with contextlib.suppress(OSError):
                    self._socket.connect(self._address)
                raise NotWritten(error, number) from None

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()


class Nowhere:
    """A destination that drops all records: that of an audit log which is turned off while the server runs."""

    def write(self, records: list[bytes]) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


class AuditLog:
    """A log whose records a thread of its own writes, so that callers never wait. Thread-safe.

    Up to AUDIT_RECORDS_MAX records wait. Records beyond that, and those that cannot be written, are lost and counted.

    Args:
        destination: the place of the records; the log closes it.
    """

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._moves: deque[Destination] = deque()
        """Further destinations, of which the last one takes the records from now on."""
        self._waiting: queue.Queue[bytes] = queue.Queue(AUDIT_RECORDS_MAX)
        self._guard = threading.Lock()
        self._lost = 0
        self._closes = self._failing = False
        self._thread = threading.Thread(target=self._run, name="rpcrdma-audit", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """The number of records so far that were not written, because the queue was full or the writing failed."""
        return self._lost

    def put(self, record: bytes) -> None:
        """Queues a record for writing, or counts it as lost if the queue is full; never waits.

        A record that is put after `close` may be neither written nor counted.

        Args:
            record: its octets. The caller makes sure that there is at least one, and no line end; neither is checked.
        """
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._lose(1)

    def move(self, destination: Destination) -> None:
        """Has the thread close the present destination and write to another one, also the records that wait.

        Returns at once. If `destination` is `Nowhere`, the records that wait are written to the present place before.

        Args:
            destination: the new place of the records; the log closes it.
        """
        self._moves.append(destination)
        # If the queue is full, the thread has to wake up anyway.
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(b"")

    def close(self) -> None:
        """Ends the log: blocks for up to 2 s, until the queue is written and the destination closed.

        After 2 s the thread alone does the rest, unless the process ends before. If records were lost until then, a
        warning states their number.
        """
        self._closes = True
        # If the queue is full, the thread has to wake up anyway.
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(b"")
        self._thread.join(_CLOSE_S)
        if self._lost:
            _LOGGER.warning("%d records of the access log were lost", self._lost)

    def _lose(self, count: int) -> None:
        with self._guard:
            self._lost += count

    def _run(self) -> None:
        while True:
            records = [self._waiting.get()]
            while len(records) < _AT_ONCE and not self._waiting.empty():
                records.append(self._waiting.get())
            if self._moves and isinstance(self._moves[-1], Nowhere):
                while not self._waiting.empty():
                    records.append(self._waiting.get())
                self._write([record for record in records if record])
                records.clear()
            while self._moves:
                self._leave()
                self._destination = self._moves.popleft()
                if self._failing:
                    # If the next destination takes no records either, the log says so again.
                    self._failing = False
                    _LOGGER.info("the access log goes elsewhere; %d records were lost", self._lost)
            self._write([record for record in records if record])
            if self._closes and self._waiting.empty():
                self._leave()
                return

    def _leave(self) -> None:
        try:
            self._destination.close()
        except OSError as error:
            # A network file system may tell only now that it has not stored what it took.
            _LOGGER.warning("records of the access log may be lost: %s", (error.strerror or str(error)).lower())

    def _write(self, records: list[bytes]) -> None:
        if not records:
            return
        try:
            self._destination.write(records)
        except NotWritten as error:
            self._lose(len(records) - error.count)
            if not self._failing:
                self._failing = True
                _LOGGER.warning("records of the access log are lost: %s", error)
        else:
            if self._failing:
                self._failing = False
                _LOGGER.info("the access log is written again; %d records were lost", self._lost)
