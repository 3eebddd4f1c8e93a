"""Byte-range locks of clients, as local processes see them: open file description locks of Linux on the same file.

A mirror has one descriptor for a file, whose locks are the union of those of all clients: two clients that share a
range share its lock here, and the range is unlocked with the last of them. The claims decide between clients, the
mirror between clients and local processes. Each change of one file's locks holds its mirror (`LockMirrors.of`), also
while the lock of the claims is free, so that claims and mirror agree afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from typing import Any, Final

from rpcrdma.nfs.export.claims import Claims, Range
from rpcrdma.nfs.export.tree import Node, RangeLocks

__all__ = ["LocalLocks", "LockMirrors"]

_FLOCK: Final = struct.Struct("@hhqqi4x")
"""struct flock: type, whence, start, length, process (0 for these locks)."""
_OFFSET_MAX: Final = (1 << 63) - 1
_IN_THE_WAY: Final = {errno.EAGAIN, errno.EACCES}


class LocalLocks:
    """Locks on a file of this machine by a descriptor of their own: see `tree.RangeLocks`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __del__(self) -> None:
        os.close(self._fd)

    def change(self, wanted: Range, *, unlock: bool = False) -> bool:
        """See `tree.RangeLocks.change`."""
        kind = fcntl.F_UNLCK if unlock else _kind(wanted)
        with self._possible():
            try:
                fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _packed(kind, wanted))
            except OSError as error:
                if error.errno in _IN_THE_WAY:
                    return False
                raise
        return True

    def in_the_way(self, wanted: Range) -> Range | None:
        """See `tree.RangeLocks.in_the_way`."""
        with self._possible():
            found = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, _packed(_kind(wanted), wanted))
            kind, _, start, length, _ = _FLOCK.unpack(found)
            if kind != fcntl.F_UNLCK:
                return Range(start, start + length if length else 1 << 64, kind == fcntl.F_WRLCK)
        return None

    @contextlib.contextmanager
    def _possible(self) -> Iterator[None]:
        """Passes over locks that the system cannot have: the file is open for the other access, or takes no locks."""
        try:
            yield
        except OSError as error:
            if error.errno not in {errno.EBADF, errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP, errno.EOVERFLOW}:
                raise


def _kind(wanted: Range) -> int:
    return fcntl.F_WRLCK if wanted.exclusive else fcntl.F_RDLCK


def _packed(kind: int, wanted: Range) -> bytes:
    """A lock for the system, which knows no octets beyond 2^63."""
    start = min(wanted.start, _OFFSET_MAX)
    length = 0 if wanted.end > _OFFSET_MAX else wanted.end - start
    return _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)


class _Mirror:
    """The locks on one file; `users` counts the calls that hold or await it."""

    def __init__(self, locks: RangeLocks) -> None:
        self.locks = locks
        self.turn = threading.RLock()
        self.users = 0


class LockMirrors:
    """The mirrors of all files with locks; thread-safe.

    A mirror is held for system calls that do not block, with the lock of the claims free before and after. A thread
    takes the lock of the claims only after that of a mirror.
    """

    def __init__(self, claims: Claims[Any, Any]) -> None:
        self._claims = claims
        self._lock = threading.Lock()
        self._mirrors: dict[bytes, _Mirror] = {}

    def __len__(self) -> int:
        return len(self._mirrors)

    @contextlib.contextmanager
    def of(self, node: Node, file: bytes) -> Iterator[RangeLocks | None]:
        """Holds the mirror of a file inside `with`; makes it if the file has none, which may block.

        `file` is the name of the file in claims. Yields its locks; None: no local process can see the file.
        """
        made = None
        if file not in self._mirrors:
            locks = node.range_locks()
            if locks is None:
                yield None
                return
            made = _Mirror(locks)
        with self._held(file, made) as mirror:
            yield None if mirror is None else mirror.locks

    def shrink(self, file: bytes) -> None:
        """Removes the local locks of a file on octets that no client has locked any more.

        The caller holds neither a mirror nor the lock of the claims.
        """
        with self._held(file) as mirror:
            if mirror is not None:
                self.unlock(mirror.locks, file, Range(0, 1 << 64, False))

    def unlock(self, locks: RangeLocks, file: bytes, part: Range) -> None:
        """Removes the local locks on octets of `part` that no client has locked; the caller holds the file's mirror."""
        with self._claims.lock:
            unlocked = self._claims.unlocked(file, part.start, part.end)
        for start, end in unlocked:
            locks.change(Range(start, end, False), unlock=True)

    @contextlib.contextmanager
    def _held(self, file: bytes, made: _Mirror | None = None) -> Iterator[_Mirror | None]:
        """Holds the mirror of a file, or enters `made` if it has none; yields None without either.

        Drops it afterwards if nobody else uses it and no client has locks on the file.
        """
        with self._lock:
            mirror = self._mirrors.get(file) if made is None else self._mirrors.setdefault(file, made)
            if mirror is not None:
                mirror.users += 1
        try:
            with contextlib.nullcontext() if mirror is None else mirror.turn:
                yield mirror
        finally:
            if mirror is not None:
                with self._lock:
                    mirror.users -= 1
                    if not mirror.users and not self._claims.range_holders(file):
                        self._mirrors.pop(file, None)
