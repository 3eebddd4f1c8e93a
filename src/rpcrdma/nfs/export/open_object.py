"""Objects behind a descriptor: their attributes, and changes of them that no other client's change divides."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from types import TracebackType
from typing import TypeAlias

from rpcrdma.nfs.export.export_limits import NFS_CHANGES_COUNTED_MAX
from rpcrdma.nfs.export.tree import KINDS, TYPE_BITS, Attributes, Change

__all__ = ["ChangeCounts", "Changing", "OpenObject", "attributes_of"]


ChangeCounts: TypeAlias = dict[bytes, tuple[int, int]]
"""Changes of objects by their handles: (change time, changes that left it as it was).

The kernel's clock for change times ticks in milliseconds. The `change` attribute is the change time and the number of
changes since then, so that it moves with every change that a client makes. A change by a local process within one
tick, and one whose count was dropped, stays unseen until the next.
"""
_NONE_COUNTED = (-1, 0)


class OpenObject:
    """An object behind the descriptor `fd`, which closes with the last reference to the object.

    `lock` is held for changes of the object; `fsid` is the number of its export. The subclasses set all of these.
    """

    __slots__ = ("changes", "fd", "fsid", "handle", "lock", "told", "used")

    changes: ChangeCounts

    fd: int
    fsid: int
    handle: bytes
    lock: threading.RLock
    told: tuple[tuple[object, ...], Attributes] | None
    """The attributes that were last asked for, with the state that they were made from."""
    used: bool
    """See `Cacheable.used`."""

    def __del__(self, _close=os.close) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        _close(self.fd)

    def attributes(self) -> Attributes:
        """Returns the present attributes; the same object as before while they are the same. Never waits."""
        status = os.fstat(self.fd)
        try:
            counted = self.changes[self.handle]
        except KeyError:
            counted = _NONE_COUNTED
        state = (
            counted,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_atime_ns,
            status.st_size,
            status.st_blocks,
            status.st_mode,
            status.st_nlink,
            status.st_uid,
            status.st_gid,
        )
        told = self.told
        if told is not None and told[0] == state:
            return told[1]
        attributes = attributes_of(status, self.fsid)
        if counted[0] == status.st_ctime_ns:
            attributes.change += counted[1]
        self.told = state, attributes
        return attributes

    def count_change(self, present: Attributes) -> None:
        """Counts a change of the object; `present`: its attributes after the change, or just before."""
        changes, ctime = self.changes, present.ctime_ns
        changes[self.handle] = ctime, present.change - ctime + 1
        if len(changes) > NFS_CHANGES_COUNTED_MAX:
            with suppress(KeyError, RuntimeError):
                del changes[next(iter(changes))]


def attributes_of(status: os.stat_result, fsid: int) -> Attributes:
    """Converts the result of `os.stat` to the attributes of an object; `fsid` is the number of its export."""
    mode = status.st_mode
    device = status.st_rdev
    return Attributes(
        KINDS[mode & TYPE_BITS],
        mode & 0o7777,
        status.st_nlink,
        status.st_uid,
        status.st_gid,
        status.st_size,
        status.st_blocks * 512,
        (os.major(device), os.minor(device)) if device else (0, 0),
        fsid,
        status.st_ino,
        status.st_atime_ns,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ctime_ns,
    )


class Changing:
    """Fills a `Change` of one object (RFC 1813 section 2.6).

    `with Changing(...):` holds the lock of the object from before the first look at its attributes until after the
    second: no other client's change goes unnoticed in between.
    """

    __slots__ = ("_change", "_object")

    def __init__(self, changed: OpenObject, change: Change) -> None:
        self._object = changed
        self._change = change

    def __enter__(self) -> None:
        self._object.lock.acquire()
        try:
            self._change.before = self._object.attributes()
        except BaseException:
            self._object.lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        changed, change = self._object, self._change
        try:
            if kind is None and change.before is not None:
                changed.count_change(change.before)
            change.after = changed.attributes()
        finally:
            changed.lock.release()
