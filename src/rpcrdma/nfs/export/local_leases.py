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
from typing import Final

from rpcrdma.nfs.export.export_limits import NFS_LEASE_STALLED_S, NFS_LEASES_MAX
from rpcrdma.nfs.export.linux_calls import change_events, mark_for_events, signal_events

__all__ = ["LocalLease", "LocalLeases"]

_LOGGER = logging.getLogger("rpcrdma.server")
_F_SETOWN_EX: Final = 15
_OWNER = struct.Struct("@ii")
_THREAD: Final = 0
"""F_OWNER_TID."""
_SIGNAL = struct.Struct("=20xi104x")
"""struct signalfd_siginfo: the descriptor of the file."""
_EVENT = struct.Struct("=IBBHQii")
"""struct fanotify_event_metadata: octets, version, octets of this head, mask, descriptor, process."""
_IDENTITY = struct.Struct("=BxH8xIi")
"""struct fanotify_event_info_fid: type, octets, file system; then struct file_handle: octets, type, data."""
_FAN_MODIFY, _FAN_ATTRIB, _FAN_OPEN, _FAN_MOVE_SELF, _FAN_Q_OVERFLOW = 0x2, 0x4, 0x20, 0x800, 0x4000
_LEASED: Final = _FAN_MODIFY | _FAN_ATTRIB | _FAN_MOVE_SELF
_READ_OCTETS: Final = 64 << 10
_PASSING: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Faults that say nothing about the next lease."""
_USED = re.compile(rb"^Sig(?:Blk|Ign|Cgt):\s*([0-9a-f]+)$", re.MULTILINE)
"""The masks of signals that a process blocks, ignores and handles, in /proc/self/status."""


class _LeasedFile:
    """A file with a lease, which several delegations share."""

    __slots__ = ("broken", "fd", "file", "identity", "locked", "on_writer", "seen", "users")

    def __init__(self, fd: int, file: bytes, identity: bytes, on_writer: Callable[[], object]) -> None:
        self.fd = fd
        self.file = file
        self.identity = identity
        self.on_writer = on_writer
        self.users = 0
        self.locked = False
        """Whether the kernel has the lease; False: the server itself writes the file for a client."""
        self.broken = False
        self.seen = False
        """Whether the owner has looked at the broken lease."""

    def unlock(self) -> None:
        """Lets writers pass."""
        if self.locked:
            self.locked = False
            with suppress(OSError):
                fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


class LocalLease:
    """A lease of one delegation: see `tree.Lease`."""

    __slots__ = ("_leased", "_leases")

    def __init__(self, leases: LocalLeases, leased: _LeasedFile) -> None:
        self._leases = leases
        self._leased = leased

    def __del__(self) -> None:
        self._leases.release(self._leased)

    @property
    def broken(self) -> bool:
        """See `tree.Lease.broken`; asks the kernel, since a signal may have been lost."""
        leased = self._leased
        leased.seen = leased.broken or (leased.locked and fcntl.fcntl(leased.fd, fcntl.F_GETLEASE) != fcntl.F_RDLCK)
        return leased.seen


class LocalLeases:
    """The leases of a server on local files. Thread-safe; the thread begins with the first lease, and ends by `close`.

    Args:
        files_max: the most files with a lease; None: `NFS_LEASES_MAX`, or one for each 32 descriptors.
    """

    def __init__(self, files_max: int | None = None) -> None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.files_max = min(NFS_LEASES_MAX, descriptors // 32) if files_max is None else files_max
        # The garbage collector may drop a lease while this thread holds the lock.
        self._lock = threading.RLock()
        self._files: dict[bytes, _LeasedFile] = {}
        self._by_fd: dict[int, _LeasedFile] = {}
        self._by_identity: dict[bytes, list[_LeasedFile]] = {}
        self._reports: _Reports | None = None
        self._possible = True

    def __len__(self) -> int:
        """Files with a lease."""
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
            path: leads to the file.
            file: the same for each handle of the file.
            identity: see `object_identity`; only files with a handle of the kernel can be watched for changes.
            on_writer: is called, in any thread, when a local process wants to write the file or has changed it.
            close_idle_writer: closes the descriptor for writing that the server keeps for later calls, if any; returns
                whether it has.

        Returns:
            The lease; None: the file is open for writing or can have no lease, or `files_max` files have one.
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
        with self._lock:
            if file in self._files or not self._take(leased, close_idle_writer):
                os.close(fd)
                return None
            self._files[file] = self._by_fd[fd] = leased
            self._by_identity.setdefault(identity, []).append(leased)
        return LocalLease(self, leased)

    def _take(self, leased: _LeasedFile, close_idle_writer: Callable[[], bool]) -> bool:
        """Marks a file and takes its lease; returns False if one of these is impossible."""
        reports = self._started()
        if reports is None:
            return False
        try:
            mark_for_events(reports.changes, leased.fd, _LEASED)
            fcntl.fcntl(leased.fd, _F_SETOWN_EX, _OWNER.pack(_THREAD, reports.thread_id))
            fcntl.fcntl(leased.fd, fcntl.F_SETSIG, reports.signal)
            try:
                fcntl.fcntl(leased.fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            except BlockingIOError:
                if not close_idle_writer():
                    raise
                fcntl.fcntl(leased.fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError:
            self._unmark(leased)
            return False
        leased.locked = True
        return True

    def _started(self) -> _Reports | None:
        """Returns the thread for reports, and starts it at first; None if the system has no such reports."""
        if self._reports is None and self._possible:
            try:
                self._reports = _Reports(self)
            except OSError as error:
                if error.errno in _PASSING:
                    return None
                self._possible = False
                _LOGGER.info("clients get no delegations of files in local directories: %s", error)
        return self._reports

    def release(self, leased: _LeasedFile) -> None:
        """Ends one use of a lease; the last one gives it up."""
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
        """Lets the server open a file for writing, for the client that has its only delegations.

        The kernel keeps no lease on a file that is open for writing. In place of the lease fanotify reports each local
        process that opens the file, afterwards.
        """
        if file in self._files:
            with self._lock:
                leased = self._files.get(file)
                if leased is not None and leased.locked and self._reports is not None:
                    with suppress(OSError):
                        mark_for_events(self._reports.changes, leased.fd, _FAN_OPEN)
                    leased.unlock()

    def writers_come(self, fds: list[int]) -> list[_LeasedFile]:
        """Reports the files of these descriptors, whose leases writers wait for; returns those not reported before."""
        with self._lock:
            found = [leased for fd in fds if (leased := self._by_fd.get(fd)) is not None and leased.locked]
        return _report(found)

    def changed(self, identity: bytes | None) -> None:
        """Reports a file that another process has changed, or (None) any file."""
        with self._lock:
            found = list(self._files.values()) if identity is None else list(self._by_identity.get(identity, ()))
        _report(found)

    def pass_by(self, leased: _LeasedFile) -> None:
        """Lets writers pass if the owner of a broken lease has not looked at it."""
        with self._lock:
            if not leased.seen and self._files.get(leased.file) is leased:
                leased.unlock()

    def close(self) -> None:
        """Gives up all leases, and ends the thread; may be called again."""
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
    """The thread that receives the reports of the kernel.

    Raises:
        OSError: the system has no such reports.
    """

    def __init__(self, leases: LocalLeases) -> None:
        self._leases = leases
        self.signal = _unused_signal()
        self._waiting: list[tuple[float, _LeasedFile]] = []
        """Broken leases, each with the time at which its writers pass by."""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rpcrdma-leases", daemon=True)
        with ExitStack() as opened:
            self.changes = change_events()
            """The descriptor of fanotify."""
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
        """Ends the thread."""
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
    """Calls the owners of those leases that were not broken before, and returns these; no lock is held."""
    new = [leased for leased in found if not leased.broken]
    for leased in new:
        leased.broken = True
        leased.on_writer()
    return new


def _identity_in(data: bytes) -> bytes:
    """Returns the identity, as `object_identity` makes it, from the part of an event after its head."""
    _, _, octets, kind = _IDENTITY.unpack_from(data)
    return bytes((0, kind & 0xFF)) + data[_IDENTITY.size : _IDENTITY.size + octets]


def _unused_signal() -> int:
    """Returns a real-time signal that the process neither handles nor ignores nor blocks.

    Raises:
        OSError: there is none.
    """
    with open("/proc/self/status", "rb") as file:
        used = functools.reduce(operator.or_, (int(bits, 16) for bits in _USED.findall(file.read())), 0)
    for number in range(signal.SIGRTMAX, signal.SIGRTMIN, -1):
        if not used >> number - 1 & 1:
            return number
    raise OSError(errno.EAGAIN, "this program uses all real-time signals")
