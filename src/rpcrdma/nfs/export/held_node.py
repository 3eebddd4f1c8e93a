"""Objects of local directories that are held open."""

from __future__ import annotations

import errno
import os
from typing import Any

from rpcrdma.nfs.export.file_handle import OBJECT_IN_HANDLE
from rpcrdma.nfs.export.open_object import OpenObject
from rpcrdma.nfs.export.tree import KINDS, TYPE_BITS, FileKind

__all__ = ["DELETED_SUFFIX", "HeldNode", "is_really_called"]

DELETED_SUFFIX = b" (deleted)"
"""The end of the path that the kernel reports for a deleted object; a name may end so as well."""


class HeldNode(OpenObject):
    """A file, directory or other object of a local export, held open by the O_PATH descriptor `fd`, which it owns.

    `tree` is the `ObjectTree` of the export, `handle` the NFS file handle, and `status` has the object's attributes
    from when it was opened. `levels` counts the directories from the object up to the first whose path is short enough
    for the kernel to report; 0 if the count is unknown, exceeds `LEVELS_AT_ONCE`, or is 0, so that callers look anew.
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
    """Returns whether the object of `link`, a link in /proc, is at `path`, so that " (deleted)" is part of its name."""
    try:
        return os.path.samestat(os.lstat(path), os.stat(link))
    except OSError:
        return False
