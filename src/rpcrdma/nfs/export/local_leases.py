"""Leases of this server on local files: the kernel holds a local writer until a delegation has come back.

A lease is that of `fcntl(F_SETLEASE, F_RDLCK)`: a process that opens the file for writing, or cuts it, waits until the
lease is given up, or for /proc/sys/fs/lease-break-time. Such a lease knows nothing of names and permissions, which a
client with a delegation does not look up again either. So the file also has a mark of fanotify, which reports a rename,
a link, a removal and a change of attributes afterwards, with the process that made it. Changes by this process are left
out: the server made them for a client, and has recalled the delegations of others before.

Both reports go to one thread. The kernel sends the signal of a broken lease to that thread alone (`F_SETOWN_EX`), which
blocks it and reads it from a signalfd: the program in which the server runs keeps its own handlers, SIGIO included, and
its event loop may run in any thread. The signal is a real-time signal that the process does not use.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import logging
import operator
import os
import re
import resource
import select
import signal
import struct
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rpcrdma.nfs.export.export_limits import NFS_LEASE_STALLED_S, NFS_LEASES_MAX
from rpcrdma.nfs.export.linux_calls import change_events, mark_for_events, signal_events

__all__ = ["LocalLease", "LocalLeases"]

_LOGGER = logging.getLogger("rpcrdma.server")
_F_SETOWN_EX: Final = 15
_OWNER = struct.Struct("@ii")
_THREAD: Final = 0
"""F_OWNER_TID: the owner that signals go to is a thread."""
_SIGNAL = struct.Struct("=20xi104x")
"""struct signalfd_siginfo, of which only the descriptor of the file is read."""
_EVENT = struct.Struct("=IBBHQii")
"""struct fanotify_event_metadata: octets, version, octets of this head, mask, descriptor, process."""
_IDENTITY = struct.Struct("=BxH8xIi")
"""struct fanotify_event_info_fid: type, octets, file system; then struct file_handle: octets, type, data."""
_FAN_MODIFY, _FAN_ATTRIB, _FAN_OPEN, _FAN_MOVE_SELF, _FAN_Q_OVERFLOW = 0x2, 0x4, 0x20, 0x800, 0x4000
_LEASED: Final = _FAN_MODIFY | _FAN_ATTRIB | _FAN_MOVE_SELF
_READ_OCTETS: Final = 64 << 10
_PASSING: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors that may pass: a further lease may succeed."""
_USED = re.compile(rb"^Sig(?:Blk|Ign|Cgt):\s*([0-9a-f]+)$", re.MULTILINE)
"""The masks of the signals that a thread blocks, and its process ignores and handles, in its file in /proc."""


@dataclass(slots=True, eq=False)
class _LeasedFile:
    """A file with a lease of the kernel on the descriptor `fd`, which `users` instances of `LocalLease` share.

    `file` is the file's key in `claims.Claims`, `identity` its identity by `object_identity`. `broken`: whether a local
    process wants to write the file, or may have changed it; `on_writer` is called when that becomes True.
    """

    fd: int
    file: bytes
    identity: bytes
    on_writer: Callable[[], object]
    users: int = 0
    locked: bool = False
    """Whether the kernel has the lease; False: the server itself writes the file for a client, or writers were let
    pass."""
    broken: bool = False
    seen: bool = False
    """Whether the owner has read `LocalLease.broken` as True."""

    def unlock(self) -> None:
        """Gives up the kernel's lease, if it is held, so that waiting writers go on; never raises OSError."""
        if self.locked:
            self.locked = False
            with suppress(OSError):
                fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


class LocalLease:
    """A lease on a local file for one delegation; implements `tree.Lease`; ends when the object is collected."""

    __slots__ = ("_leased", "_leases")

    def __init__(self, leases: LocalLeases, leased: _LeasedFile) -> None:
        self._leases = leases
        self._leased = leased

    def __del__(self) -> None:
        self._leases.release(self._leased)

    @property
    def broken(self) -> bool:
        """Whether a local process waits to write the file, or may have changed it; for the owner of the lease.

        After `LocalLeases.make_way` each process that opens the file, even to read, counts as one that may have.
        A read asks the kernel, unless the kernel has reported that already. After a read of True the writers wait until
        the owner ends the lease, or for the kernel's lease-break-time. Without such a read within `NFS_LEASE_STALLED_S`
        seconds of the kernel's report, the server lets the writers go on.
        """
        return self._leases.is_broken(self._leased)


class LocalLeases:
    """The leases of a server on local files. Thread-safe.

    The first lease starts a thread that receives the kernel's reports; `close` ends it.
    """

    def __init__(self) -> None:
        self.files_max = min(NFS_LEASES_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 32)
        """The most files with a lease: at most a 32nd of the process's limit of descriptors."""
        # The garbage collector may drop a lease while this thread holds the lock.
        self._lock = threading.RLock()
        self._files: dict[bytes, _LeasedFile] = {}
        self._by_fd: dict[int, _LeasedFile] = {}
        self._by_identity: dict[bytes, list[_LeasedFile]] = {}
        self._reports: _Reports | None = None
        self._possible = True

    def __len__(self) -> int:
        """Returns the number of files with a lease."""
        return len(self._files)

    def lease(
        self,
        path: bytes,
        file: bytes,
        identity: bytes,
        on_writer: Callable[[], object],
        close_idle_writer: Callable[[], bool],
    ) -> LocalLease | None:
        """Takes a lease on a regular file; may block.

        Args:
            path: the path to the file.
            file: the key of the file by `ObjectTree.file_of`, the same for each of the file's handles.
            identity: the file's identity by `object_identity`; only a file with a handle of the kernel can be watched.
            on_writer: is called, in any thread, when `LocalLease.broken` becomes True; takes the place of the
                `on_writer` of earlier leases on the file.
            close_idle_writer: is called if the file is open for writing; closes the descriptor that the server keeps
                for later WRITE calls, and returns whether there was one.

        Returns:
            The lease, a `tree.Lease`; None: the file is open for writing or can have no lease, its present lease is
            broken or given up, or `files_max` files have one.
        """
        if identity[0] or not self._possible:
            return None
        with self._lock:
            leased = self._files.get(file)
            if leased is not None:
                if leased.broken or not leased.locked:
                    return None
                leased.on_writer = on_writer
                leased.users += 1
                return LocalLease(self, leased)
            if len(self._files) >= self.files_max:
                return None
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return None
        leased = _LeasedFile(fd, file, identity, on_writer)
        leased.users = 1
        taken = self._take(leased)
        if taken is None:
            # Without `_lock`: a thread with the lock of the open files, which this takes, may be collecting a lease.
            taken = close_idle_writer() and self._take(leased)
        if not taken:
            os.close(fd)
            return None
        return LocalLease(self, leased)

    def _take(self, leased: _LeasedFile) -> bool | None:
        """Registers a file for reports of changes, takes the kernel's lease, and adds the file to those with a lease.

        Returns whether that was possible; None: it is not, as the file is open for writing.
        """
        with self._lock:
            is_full = len(self._files) >= self.files_max
            if leased.file in self._files or is_full or (reports := self._started()) is None:
                return False
            try:
                mark_for_events(reports.changes, leased.fd, _LEASED)
                fcntl.fcntl(leased.fd, _F_SETOWN_EX, _OWNER.pack(_THREAD, reports.thread_id))
                fcntl.fcntl(leased.fd, fcntl.F_SETSIG, reports.signal)
                fcntl.fcntl(leased.fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            except OSError as error:
                self._unmark(leased)
                return None if isinstance(error, BlockingIOError) else False
            leased.locked = True
            self._files[leased.file] = self._by_fd[leased.fd] = leased
            self._by_identity.setdefault(leased.identity, []).append(leased)
        return True

    def _started(self) -> _Reports | None:
        """Returns the receiver of the kernel's reports, whose thread the first call starts; None if none can start.

        After a lack of descriptors, memory or threads the next call tries again, and nothing is logged. Any other
        failure is logged, and no later call tries again.
        """
        if self._reports is None and self._possible:
            try:
                self._reports = _Reports(self)
            except OSError as error:
                if error.errno in _PASSING:
                    return None
                self._possible = False
                _LOGGER.info("clients get no delegations of files in local directories: %s", error)
        return self._reports

    def is_broken(self, leased: _LeasedFile) -> bool:
        """Returns whether a local process waits to write a leased file, or may have changed it (`LocalLease.broken`).

        Asks the kernel, unless that has reported such a process already. `leased.seen` keeps the result: the lease's
        owner knows of the process if it is True, and `pass_by`, called after a time limit, then leaves the lease alone.
        """
        # Another thread may give the lease up, and close the descriptor.
        with self._lock:
            leased.seen = leased.broken or (leased.locked and fcntl.fcntl(leased.fd, fcntl.F_GETLEASE) != fcntl.F_RDLCK)
            return leased.seen

    def release(self, leased: _LeasedFile) -> None:
        """Ends one `LocalLease` of `leased`; with the last one gives up the kernel's lease and closes the file."""
        with self._lock:
            leased.users -= 1
            if leased.users or self._files.get(leased.file) is not leased:
                return
            del self._files[leased.file], self._by_fd[leased.fd]
            self._by_identity[leased.identity].remove(leased)
            self._unmark(leased)
            leased.unlock()
            os.close(leased.fd)

    def _unmark(self, leased: _LeasedFile) -> None:
        if self._reports is not None and not self._by_identity.get(leased.identity):
            self._by_identity.pop(leased.identity, None)
            with suppress(OSError):
                mark_for_events(self._reports.changes, leased.fd, _LEASED | _FAN_OPEN, remove=True)

    def make_way(self, file: bytes) -> None:
        """Gives up the kernel's lease on `file`, a key by `ObjectTree.file_of`, which the server opens for writing.

        The kernel keeps no lease on a file that is open for writing. In its place fanotify reports afterwards each
        local process that opens the file.
        """
        if file in self._files:
            with self._lock:
                leased = self._files.get(file)
                if leased is not None and leased.locked and self._reports is not None:
                    with suppress(OSError):
                        mark_for_events(self._reports.changes, leased.fd, _FAN_OPEN)
                    leased.unlock()

    def writers_come(self, fds: list[int]) -> list[_LeasedFile]:
        """Marks the leases on files for which local writers wait as broken; returns the files not marked before.

        Calls `on_writer` of each file that it returns. `fds` are the descriptors of leased files, as the kernel's
        signals name them; those of leases given up meanwhile are ignored.
        """
        with self._lock:
            found = [leased for fd in fds if (leased := self._by_fd.get(fd)) is not None and leased.locked]
        return _report(found)

    def changed(self, identity: bytes | None) -> None:
        """Marks the leases on a file that another process has changed as broken; calls `on_writer` if they were not.

        Since `make_way`, a process that opens the file, even to read, counts as well. `identity` is that of the file by
        `object_identity`; None: any file may have changed, so all leases are broken.
        """
        with self._lock:
            found = list(self._files.values()) if identity is None else list(self._by_identity.get(identity, ()))
        _report(found)

    def pass_by(self, leased: _LeasedFile) -> None:
        """Gives up the kernel's lease on `leased`, so that local writers go on, unless the owner knows of the writers.

        The owner, which holds a `LocalLease` of the file, knows if its last read of `LocalLease.broken` gave True.
        """
        with self._lock:
            if not leased.seen and self._files.get(leased.file) is leased:
                leased.unlock()

    def close(self) -> None:
        """Gives up all leases, and ends the thread that receives the kernel's reports; no further lease is possible.

        Waits for the end of that thread, and must not be called in it. Afterwards no `on_writer` is called, and
        `LocalLease.broken` is True only for files reported as broken before. May be called again.
        """
        with self._lock:
            self._possible = False
            # The garbage collector may release others meanwhile.
            files, self._files = self._files, {}
            for leased in files.values():
                leased.unlock()
                os.close(leased.fd)
            self._by_fd.clear()
            self._by_identity.clear()
            reports, self._reports = self._reports, None
        if reports is not None:
            reports.close()


class _Reports:
    """The thread that receives the kernel's reports of broken leases and changed files, and passes them to `leases`.

    Raises OSError: the system has no such reports, or descriptors, signals or threads are lacking.
    """

    def __init__(self, leases: LocalLeases) -> None:
        self._leases = leases
        self.signal = _unused_signal()
        self._waiting: list[tuple[float, _LeasedFile]] = []
        """Broken leases in order, each with the time of the monotonic clock, in seconds, at which its writers go on."""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rpcrdma-leases", daemon=True)
        with ExitStack() as opened:
            self.changes = change_events()
            """The descriptor of fanotify, for reports of changes."""
            opened.callback(os.close, self.changes)
            self._signals = signal_events(self.signal)
            opened.callback(os.close, self._signals)
            self._end = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            opened.callback(os.close, self._end)
            try:
                self._thread.start()
            except RuntimeError as error:
                raise OSError(errno.ENOMEM, str(error)) from error
            self._close = opened.pop_all().close
        self._ready.wait()
        self.thread_id: int = self._thread.native_id or 0

    def close(self) -> None:
        """Ends the thread, waits for its end, and closes the descriptors."""
        os.eventfd_write(self._end, 1)
        self._thread.join()
        self._close()

    def _run(self) -> None:
        # Where no more signals can be queued, the kernel sends SIGIO, which would end the process.
        signal.pthread_sigmask(signal.SIG_BLOCK, {self.signal, signal.SIGIO})
        self._ready.set()
        poll = select.poll()
        for fd in (self.changes, self._signals, self._end):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(self._timeout_ms())}
            if self._end in ready:
                return
            try:
                if self._signals in ready:
                    self._take_signals()
                if self.changes in ready:
                    self._take_changes()
                self._pass_by()
            except Exception:  # the other leases go on; a sweep of their owner finds what was missed
                _LOGGER.exception("cannot report local writers")

    def _timeout_ms(self) -> float | None:
        # poll cuts a fraction of a millisecond off, and would return early again and again.
        return max(0.0, self._waiting[0][0] - time.monotonic()) * 1000 + 1 if self._waiting else None

    def _take_signals(self) -> None:
        data = os.read(self._signals, _READ_OCTETS)
        until = time.monotonic() + NFS_LEASE_STALLED_S
        broken = self._leases.writers_come([fd for (fd,) in _SIGNAL.iter_unpack(data)])
        self._waiting += [(until, leased) for leased in broken]

    def _pass_by(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            self._leases.pass_by(self._waiting.pop(0)[1])

    def _take_changes(self) -> None:
        try:
            data = os.read(self.changes, _READ_OCTETS)
        except BlockingIOError:
            return
        own, at = os.getpid(), 0
        while at < len(data):
            octets, _, _, head, mask, _, process = _EVENT.unpack_from(data, at)
            if mask & _FAN_Q_OVERFLOW:
                self._leases.changed(None)
            elif process != own:
                self._leases.changed(_identity_in(data[at + head : at + octets]))
            at += octets


def _report(found: list[_LeasedFile]) -> list[_LeasedFile]:
    """Marks leases on `found` as broken; calls `on_writer` of each file not marked before, and returns those files."""
    new = [leased for leased in found if not leased.broken]
    for leased in new:
        leased.broken = True
        leased.on_writer()
    return new


def _identity_in(data: bytes) -> bytes:
    """Returns the identity of a file, as `object_identity` makes it, from `data`, a fanotify event after its head.

    The identity has type and data of the kernel's file handle, and not the file system: files of two file systems may
    have the same identity.
    """
    _, _, octets, kind = _IDENTITY.unpack_from(data)
    return bytes((0, kind & 0xFF)) + data[_IDENTITY.size : _IDENTITY.size + octets]


def _unused_signal() -> int:
    """Returns the number of a real-time signal that the process neither handles nor ignores, and no thread blocks.

    A thread that blocks a signal may wait for it, and the thread of the reports would take it. Raises OSError: EAGAIN:
    there is none.
    """
    used = 0
    for status in Path("/proc/self/task").glob("*/status"):
        # A thread may have ended meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            used = functools.reduce(operator.or_, (int(bits, 16) for bits in _USED.findall(status.read_bytes())), used)
    for number in range(signal.SIGRTMAX, signal.SIGRTMIN, -1):
        if not used >> number - 1 & 1:
            return number
    raise OSError(errno.EAGAIN, "this program uses all real-time signals")
