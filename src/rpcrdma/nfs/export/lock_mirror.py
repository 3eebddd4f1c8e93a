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
import logging
import os
import struct
import threading
from collections.abc import Iterator
from typing import Any, Final

from rpcrdma.nfs.export.claims import Claims, Range
from rpcrdma.nfs.export.tree import Node, RangeLocks

__all__ = ["LocalLocks", "LockMirrors"]

_LOGGER = logging.getLogger("rpcrdma.server")
_FLOCK: Final = struct.Struct("@hhqqi4x")
"""struct flock of Linux: type, whence, start, length, process (0 for open file description locks)."""
_OFFSET_MAX: Final = (1 << 63) - 1
_IN_THE_WAY: Final = {errno.EAGAIN, errno.EACCES}


class LocalLocks:
    """Open file description locks of Linux, by the descriptor `fd`, which it owns; implements `tree.RangeLocks`.

    `exclusive`: whether `fd` is open for reading and writing, as write locks need, and not for reading alone.
    """

    def __init__(self, fd: int, *, exclusive: bool) -> None:
        self._fd = fd
        self.exclusive = exclusive

    def __del__(self) -> None:
        # FUSE without its process reports an error, and closes it all the same.
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def change(self, wanted: Range, *, unlock: bool = False) -> bool:
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
        with self._possible():
            found = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, _packed(_kind(wanted), wanted))
            kind, _, start, length, _ = _FLOCK.unpack(found)
            if kind != fcntl.F_UNLCK:
                return Range(start, start + length if length else 1 << 64, kind == fcntl.F_WRLCK)
        return None

    @contextlib.contextmanager
    def _possible(self) -> Iterator[None]:
        """A context manager that ends its block silently at an error which means that the lock is not possible here.

        Such errors: `fd` is not open for the access that the lock needs, the file system has no locks or no room for
        one, or the range does not fit. Other errors pass.
        """
        try:
            yield
        except OSError as error:
            if error.errno not in {errno.EBADF, errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP, errno.EOVERFLOW}:
                raise


def _kind(wanted: Range) -> int:
    return fcntl.F_WRLCK if wanted.exclusive else fcntl.F_RDLCK


def _packed(kind: int, wanted: Range) -> bytes:
    """Encodes a lock of type `kind` (F_RDLCK and so on) as struct flock.

    A range that ends beyond offset 2^63 - 1 becomes one up to the end of the file, however large the file grows.
    """
    start = min(wanted.start, _OFFSET_MAX)
    length = 0 if wanted.end > _OFFSET_MAX else wanted.end - start
    return _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)


class _Mirror:
    """The system's locks on one file; threads use them under the mutex `turn`.

    `users` counts the threads that hold `turn` or wait for it.
    """

    def __init__(self, locks: RangeLocks) -> None:
        self.locks = locks
        self.turn = threading.RLock()
        self.users = 0


class LockMirrors:
    """Mirrors the byte-range locks that clients have in `claims` as locks that local processes see. Thread-safe.

    There is a mirror for each file with locks. A thread that holds a mirror may take the lock of the claims, never the
    other way round.
    """

    def __init__(self, claims: Claims[Any, Any]) -> None:
        self._claims = claims
        self._lock = threading.Lock()
        self._mirrors: dict[bytes, _Mirror] = {}
        self._told: set[int | None] = set()
        """The error numbers of unlocking that are logged already."""

    def __len__(self) -> int:
        return len(self._mirrors)

    @contextlib.contextmanager
    def of(self, node: Node, file: bytes, *, exclusive: bool = False) -> Iterator[RangeLocks | None]:
        """A context manager for the mirror of a file, the set of system locks that stands for the locks of its clients.

        `file` is the key of the file by `Exports.file_of`, and `node` its object; `exclusive`: a write lock is to be
        added. Entering may block, since one thread at a time uses a mirror. Yields the set, a new one without any lock
        if the file has no mirror; None: no local process could see locks, or the server may not open the file. If the
        file cannot be opened for writing, the set takes read locks alone in spite of `exclusive`. At exit the mirror is
        dropped, with its locks, if no client has locks on the file and no thread waits for it. Raises OSError if the
        system fails.
        """
        with self._held(file) as mirror:
            if mirror is not None:
                yield self._locks(mirror, node, file, exclusive=exclusive)
                return
        locks = node.range_locks(exclusive=exclusive)
        if locks is None:
            yield None
            return
        # Another thread may have made a mirror meanwhile.
        with self._held(file, _Mirror(locks)) as mirror:
            assert mirror is not None
            yield self._locks(mirror, node, file, exclusive=exclusive)

    def _locks(self, mirror: _Mirror, node: Node, file: bytes, *, exclusive: bool) -> RangeLocks:
        """Returns the locks of `mirror`, which the calling thread holds; replaces them if they are of the wrong kind.

        `node` is the object of the file, `file` its key by `Exports.file_of`; `exclusive`: a write lock is to be added.
        With `exclusive`, a set that takes read locks alone is replaced first by one for write locks, too, which gets
        all locks of the clients before the old set is dropped; the old set stays if the file cannot be opened for
        writing. Raises OSError if the system fails.
        """
        if exclusive and not mirror.locks.exclusive:
            further = node.range_locks(exclusive=True)
            if further is not None and further.exclusive:
                # For a moment both sets have the same read locks, so that no local process gets in between.
                self._repeat(further, file, Range(0, 1 << 64, False))
                mirror.locks = further
        return mirror.locks

    def shrink(self, file: bytes) -> None:
        """Removes the system's locks of a file on octets that no client has locked; no effect without a mirror.

        `file` is the key of the file by `Exports.file_of`. Waits for threads that use the mirror. The calling thread is
        in no `with` block of `of`, and does not hold `Claims.lock`. Failures are logged, not raised.
        """
        with self._held(file) as mirror:
            if mirror is not None:
                self.unlock(mirror.locks, file, Range(0, 1 << 64, False))

    def unlock(self, locks: RangeLocks, file: bytes, part: Range) -> None:
        """Unlocks in `locks`, the system's locks on a file, the octets of `part` that no client has locked.

        The caller is in the `with` block of `of` that yielded `locks`, and does not hold `Claims.lock`; `file` is the
        key of the file by `Exports.file_of`. Failures are not raised: the claims, which decide between clients, have
        changed before. Each error number is logged once. Octets that stay locked are unlocked when no client has a lock
        on the file any more.
        """
        for start, end in self._claims.unlocked(file, part.start, part.end):
            try:
                locks.change(Range(start, end, False), unlock=True)
            except OSError as error:
                if error.errno not in self._told:
                    self._told.add(error.errno)
                    # As text: a kept record of the error would keep its frames, and by them the descriptor.
                    _LOGGER.warning("local processes may see locks that clients no longer have: %s", str(error))

    def restore(self, locks: RangeLocks, file: bytes, part: Range) -> None:
        """Sets `locks` on the octets of `part` to those that clients have, to undo a lock that no client was granted.

        The caller is in the `with` block of `of` that yielded `locks`, and does not hold `Claims.lock`; `file` is the
        key of the file by `Exports.file_of`. Leaves out locks that conflict with one of a local process. Raises OSError
        if the system fails.
        """
        self.unlock(locks, file, part)
        self._repeat(locks, file, part)

    def _repeat(self, locks: RangeLocks, file: bytes, part: Range) -> None:
        """Sets in `locks`, a set of system locks on a file, the locks that clients have on octets of `part`.

        Leaves out those that conflict with a lock of a local process. `file` is the key of the file by
        `Exports.file_of`. Raises OSError if the system fails.
        """
        for each in self._claims.locked(file, part.start, part.end):
            locks.change(each)

    @contextlib.contextmanager
    def _held(self, file: bytes, made: _Mirror | None = None) -> Iterator[_Mirror | None]:
        """A context manager in which one thread at a time uses the mirror of `file`, a key by `Exports.file_of`.

        Yields the mirror. If the file has none, yields `made`, which becomes its mirror if it is not None. At exit
        the mirror is dropped if no other thread uses it and no client has locks on the file.
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
                with self._lock, self._claims.lock:
                    mirror.users -= 1
                    if not mirror.users and not self._claims.range_holders(file):
                        self._mirrors.pop(file, None)
