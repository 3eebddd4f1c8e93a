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
from pathlib import Path
from typing import Final, Protocol

from rpcrdma.limits import AUDIT_RECORDS_MAX

__all__ = ["AuditFile", "AuditLog", "Destination", "Journal", "NotWritten"]

_LOGGER = logging.getLogger("rpcrdma.server")
_AT_ONCE: Final = 256
"""Records that are written by one call of the system."""
_CLOSE_S: Final = 2.0
"""Seconds for the records that wait when the server stops."""
_JOURNAL: Final = "/run/systemd/journal/socket"


class Destination(Protocol):
    """The place of a log; used by one thread."""

    def write(self, records: list[bytes]) -> None:
        """Writes records, each without the end of its line; may block.

        Raises:
            NotWritten: the disk or the journal has not taken all of them.
        """

    def close(self) -> None:
        """Closes the destination."""


class NotWritten(Exception):
    """Records were not written.

    Args:
        error: the cause.
        count: the records before, which were written.
    """

    def __init__(self, error: OSError, count: int) -> None:
        super().__init__((error.strerror or str(error)).lower())
        self.count = count


class AuditFile:
    """A regular file, to which whole lines are appended, also where the disk becomes full.

    A file that is renamed or removed, as by logrotate, is made anew.

    Raises:
        OSError: the file cannot be opened.
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
        """See `Destination.write`."""
        lines = b"".join(record + b"\n" for record in records)
        try:
            self._follow()
            begin = os.fstat(self._fd).st_size
            written = os.write(self._fd, lines)
            whole = lines.rfind(b"\n", 0, written) + 1
            if whole < written:
                os.ftruncate(self._fd, begin + whole)
        except OSError as error:
            raise NotWritten(error, 0) from None
        if written < len(lines):
            # The kernel tells the cause of a short write at the next one.
            raise NotWritten(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), lines.count(b"\n", 0, whole))

    def _follow(self) -> None:
        """Opens the path again if it leads to another file, or to none."""
        status = os.fstat(self._fd)
        try:
            present = self._path.stat()
        except FileNotFoundError:
            present = None
        if present is None or (present.st_dev, present.st_ino) != (status.st_dev, status.st_ino):
            former, self._fd = self._fd, self._opened()
            os.close(former)

    def close(self) -> None:
        """See `Destination.close`."""
        os.close(self._fd)


class Journal:
    """The journal of systemd, by its own protocol: each record is an entry of the identifier `rpcrdma-audit`.

    Raises:
        OSError: there is no journal.
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
        """See `Destination.write`."""
        for number, record in enumerate(records):
            try:
                self._socket.send(b"SYSLOG_IDENTIFIER=rpcrdma-audit\nPRIORITY=6\nMESSAGE=" + record + b"\n")
            except OSError as error:
                # It may have been started again.
                with contextlib.suppress(OSError):
                    self._socket.connect(self._address)
                raise NotWritten(error, number) from None

    def close(self) -> None:
        """See `Destination.close`."""
        self._socket.close()


class AuditLog:
    """Writes records in a thread of its own. Thread-safe.

    Args:
        destination: the place of the log.
    """

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._waiting: queue.Queue[bytes] = queue.Queue(AUDIT_RECORDS_MAX)
        self._guard = threading.Lock()
        self._lost = 0
        self._closes = self._failing = False
        self._thread = threading.Thread(target=self._run, name="rpcrdma-audit", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """The records that could not be written."""
        return self._lost

    def put(self, record: bytes) -> None:
        """Writes a record soon, or counts it as lost; never waits.

        Args:
            record: its octets, without an end of a line.
        """
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._lose(1)

    def close(self) -> None:
        """Writes the records that wait, for two seconds at most."""
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
            self._write([record for record in records if record])
            if self._closes and self._waiting.empty():
                self._destination.close()
                return

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
