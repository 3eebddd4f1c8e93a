"""Holes of local files: see `abilities.SparseFile`."""

from __future__ import annotations

import errno
import os

from rpcrdma.nfs.export.linux_calls import FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, fallocate
from rpcrdma.nfs.export.open_object import Changing, OpenObject
from rpcrdma.nfs.export.server_state import ServerState
from rpcrdma.nfs.export.tree import Change, Refused

__all__ = ["SparseObject"]


class SparseObject(OpenObject):
    """A base class of open local files: the methods of `abilities.SparseFile`, by system calls on `fd`."""

    __slots__ = ()
    in_memory: bool
    """Whether the file system is in memory, so that nothing has to be synced."""
    state: ServerState
    """The server's state, with the write verifier."""

    def seek(self, offset: int, *, hole: bool) -> int | None:
        try:
            return os.lseek(self.fd, offset, os.SEEK_HOLE if hole else os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise

    def allocate(self, offset: int, octets: int, change: Change) -> None:
        space = os.fstatvfs(self.fd)
        # Some file systems would fill the disk before they find it too small.
        if octets - os.fstat(self.fd).st_blocks * 512 > space.f_bavail * space.f_frsize:
            raise Refused(errno.ENOSPC)
        with Changing(self, change):
            fallocate(self.fd, 0, offset, octets)
        self.put_on_disk()

    def deallocate(self, offset: int, octets: int, change: Change) -> None:
        with Changing(self, change) as changing:
            octets = min(octets, os.fstat(self.fd).st_size - offset)
            changing.in_vain = octets <= 0
            if octets > 0:
                fallocate(self.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, octets)
        self.put_on_disk()

    def will_need(self, offset: int, octets: int) -> None:
        os.posix_fadvise(self.fd, offset, octets, os.POSIX_FADV_WILLNEED)

    def put_on_disk(self) -> None:
        """Puts the file's data and attributes on the disk by `sync`, unless its file system is in memory.

        To be called after changes that no COMMIT follows. May block. Raises OSError if unstable data may be lost.
        """
        if not self.in_memory:
            self.sync()

    def sync(self, *, data_only: bool = False) -> None:
        """Puts the data of the file on the disk, and its attributes unless `data_only`; may block.

        Raises OSError if UNSTABLE data may be lost; the server's write verifier has then changed, since the kernel
        reports a loss once, and a later COMMIT would succeed.
        """
        try:
            if data_only:
                os.fdatasync(self.fd)
            else:
                os.fsync(self.fd)
        except OSError:
            self.state.data_lost()
            raise
