"""Notices a file that changes while it is copied, by its size and the times of its last modification and change.

The copy would be part old and part new, a content that the file never had. A change goes unnoticed if it keeps
the size and falls into the same tick of the file system's clock, 4 ms on most, as the change before it.
"""

from __future__ import annotations

import errno
import os

from rpcrdma.nfs.errors import ServerPathError
from rpcrdma.nfs.v3 import fattr3, post_op_attr

__all__ = ["FileChanged", "RemoteFile", "require_unchanged"]


class FileChanged(OSError):
    """A file changed while it was copied; no copy of it is kept."""

    def __init__(self, path: str) -> None:
        text = "changed while it was copied, so no copy was kept; copy it again when nothing writes to it"
        super().__init__(errno.EBUSY, text, path)


class _RemoteFileChanged(FileChanged, ServerPathError):
    """As `FileChanged`; the file is one of the server's."""


def require_unchanged(descriptor: int, before: os.stat_result, path: str) -> None:
    """Raises `FileChanged` unless a local file is as it was `before`."""
    after = os.fstat(descriptor)
    if _local_state(after) != _local_state(before):
        raise FileChanged(path)


class RemoteFile:
    """A file at a server: its attributes before it is read are compared with those in the replies to READ."""

    def __init__(self, attributes: fattr3, path: str) -> None:
        self.attributes = attributes
        """The attributes in the newest reply."""
        self.path = path
        self.heard = False
        """Whether a reply to READ has brought attributes."""
        self.changed = False
        """Whether such attributes differed from those before."""

    def hear(self, attributes: post_op_attr) -> None:
        """Takes the attributes of a reply, if it has any."""
        found = attributes.value
        if found is not None:
            self.heard = True
            self.changed = self.changed or _remote_state(found) != _remote_state(self.attributes)
            self.attributes = found

    def require_unchanged(self) -> None:
        """Raises `FileChanged` if the file is known to have changed."""
        if self.changed:
            raise _RemoteFileChanged(self.path)


def _local_state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _remote_state(found: fattr3) -> tuple[object, ...]:
    return found.size, found.mtime, found.ctime
