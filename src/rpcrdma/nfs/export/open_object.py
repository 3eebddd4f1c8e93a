"""Objects behind a descriptor: their attributes, and changes of them that no other client's change divides."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

from rpcrdma.nfs.export.export_limits import NFS_CHANGES_COUNTED_MAX
from rpcrdma.nfs.export.file_handle import OBJECT_IN_HANDLE
from rpcrdma.nfs.export.tree import KINDS, TYPE_BITS, Attributes, Change, FileKind

__all__ = ["DELETED_SUFFIX", "ChangeCounts", "Changing", "HeldNode", "OpenObject", "attributes_of", "is_really_called"]

DELETED_SUFFIX = b" (deleted)"
"""The end of the path that the kernel reports for a deleted object; a name may end so as well."""

ChangeCounts: TypeAlias = dict[bytes, tuple[int, int]]
"""For each object, by its key of `ObjectTree.file_of`, which is the same in all exports: (change time in ns, number of
changes by clients that left this time as it was). The kernel's clock for change times ticks in milliseconds. The
`change` attribute is the sum of the change time and this number, so that it moves with every change by a client. A
change by a local process within one tick, or one whose count was dropped, stays unseen until the next change."""
_NONE_COUNTED = (-1, 0)


class OpenObject:
    """An object of a local directory behind the descriptor `fd`, which closes with the last reference to the instance.

    `file` is the object's key by `ObjectTree.file_of`, `handle` its NFS handle, and `fsid` the number of its export.
    `lock` is held during changes of the object, and `changes` counts those of all objects. Subclasses set all fields.
    """

    __slots__ = ("changes", "fd", "file", "fsid", "handle", "lock", "told", "used")

    changes: ChangeCounts

    fd: int
    file: bytes
    fsid: int
    handle: bytes
    lock: threading.RLock
    told: tuple[tuple[object, ...], Attributes] | None
    """The attributes that were returned last, with the state of the file that they were made from; None: none yet."""
    used: bool
    """Whether the object was used since its cache last looked for unused ones."""

    def __del__(self, _close=os.close) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        # Network file systems report lost data here once more, as `sync` has done, and FUSE without its process.
        try:  # noqa: SIM105 - it is also called while the interpreter ends
            _close(self.fd)
        except OSError:
            pass

    def attributes(self) -> Attributes:
        """Returns the present attributes by `fstat`; never waits. While nothing changes, returns the same instance."""
        status = os.fstat(self.fd)
        try:
            counted = self.changes[self.file]
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
        attributes = attributes_of(status, self.fsid, counted)
        self.told = state, attributes
        return attributes

    def count_change(self, present: Attributes) -> None:
        """Counts a change of the object, so that its NFSv4 attribute `change` differs from before; needs `lock` held.

        `present` are the object's attributes after the change or just before. If more than `NFS_CHANGES_COUNTED_MAX`
        objects are counted, the oldest count is dropped.
        """
        changes, ctime = self.changes, present.ctime_ns
        changes[self.file] = ctime, present.change - ctime + 1
        if len(changes) > NFS_CHANGES_COUNTED_MAX:
            with suppress(KeyError, RuntimeError):
                del changes[next(iter(changes))]


def attributes_of(status: os.stat_result, fsid: int, counted: tuple[int, int] | None = None) -> Attributes:
    """Converts the result of `os.stat` to the attributes of an object; `fsid` is the number of its export.

    `counted`, (change time in ns, number of changes), is the object's entry in `ChangeCounts`; None: it has none. If
    that time is the one in `status`, the result's `change` is the sum of time and number; otherwise the time alone.
    """
    mode = status.st_mode
    device = status.st_rdev
    changed = status.st_ctime_ns
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
        changed,
        changed + counted[1] if counted is not None and counted[0] == changed else changed,
    )


class Changing:
    """A context manager that fills `change` with the attributes of the object `changed` before and after its block.

    It holds the object's lock, so that no other client's change falls into the block (RFC 1813 section 2.6). At the end
    it calls `changed.count_change`; if the block has raised an error or is `in_vain`, only if an attribute has changed.
    `in_vain`: there is nothing to change; the block may set it as well. An error passes, with `change.after` set.
    """

    __slots__ = ("_change", "_object", "in_vain")

    def __init__(self, changed: OpenObject, change: Change, *, in_vain: bool = False) -> None:
        self._object = changed
        self._change = change
        self.in_vain = in_vain

    def __enter__(self) -> Self:
        self._object.lock.acquire()
        try:
            self._change.before = self._object.attributes()
        except BaseException:
            self._object.lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        changed, change = self._object, self._change
        try:
            before = change.before
            # Attributes that have changed are another instance.
            may_have = kind is None and not self.in_vain
            if before is not None and (may_have or changed.attributes() is not before):
                changed.count_change(before)
            change.after = changed.attributes()
        finally:
            changed.lock.release()


class HeldNode(OpenObject):
    """A file, directory or other object of a local export, held open by the O_PATH descriptor `fd`, which it owns.

    `tree` is the `ObjectTree` of the export, `handle` the NFS file handle, and `status` has the object's attributes
    from when it was opened. `levels` counts the directories from the object up to the first whose path is short enough
    for the kernel to report. 0: the object's own path is short enough, the count is above `LEVELS_AT_ONCE`, or nobody
    has counted; where the count is needed, it is then made again.
    """

    __slots__ = ("inode", "kind", "levels", "proc_path", "seen", "status", "tree")

    def __init__(self, tree: Any, fd: int, handle: bytes, status: os.stat_result) -> None:
        self.fd = fd
        self.handle = handle
        self.file = tree.file_system + handle[OBJECT_IN_HANDLE]
        """The key of the object in `claims.Claims`, the same in each export and mount of its file system."""
        self.inode = status.st_ino
        self.fsid = tree.fsid
        self.changes = tree.changes
        self.lock = tree.locks[self.inode % len(tree.locks)]
        self.told = None
        self.used = True
        self.tree = tree
        self.status = status
        self.kind = KINDS[status.st_mode & TYPE_BITS]
        self.proc_path = b"/proc/self/fd/%d" % fd
        self.levels = 0
        self.seen: tuple[bytes, bytes] = b"", b""
        """The path at which the object was last found inside the export, and the path of the export's root at that
        time."""

    def is_deleted(self) -> bool:
        """Returns whether the object has no name left in its file system, in the export or outside; may raise OSError.

        False also for a directory that is gone if its path is too long for the kernel to report, on overlayfs.
        """
        if not os.fstat(self.fd).st_nlink:
            return True
        if self.kind is not FileKind.DIRECTORY:
            return False
        # On overlayfs a directory keeps its number of links when it is deleted.
        try:
            path = os.readlink(self.proc_path)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            return False
        return path.endswith(DELETED_SUFFIX) and not is_really_called(path, self.proc_path)


def is_really_called(path: bytes, link: bytes) -> bool:
    """Returns whether the object of `link`, a link in /proc, is at `path`, so that " (deleted)" is part of its name.

    False also if either of them cannot be examined.
    """
    try:
        return os.path.samestat(os.lstat(path), os.stat(link))
    except OSError:
        return False
