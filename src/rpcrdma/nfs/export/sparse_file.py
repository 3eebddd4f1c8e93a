"""Holes of local files: see `abilities.SparseFile`."""

from __future__ import annotations

import errno
import os

from rpcrdma.nfs.export.linux_calls import FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, fallocate
from rpcrdma.nfs.export.open_object import Changing, OpenObject
from rpcrdma.nfs.export.tree import Change, Refused

__all__ = ["SparseObject"]


class SparseObject(OpenObject):
    """The part of an open local file that has `abilities.SparseFile`."""

    __slots__ = ()
    in_memory: bool

    def seek(self, offset: int, *, hole: bool) -> int | None:
        """See `abilities.SparseFile.seek`."""
        try:
            return os.lseek(self.fd, offset, os.SEEK_HOLE if hole else os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise

    def allocate(self, offset: int, octets: int, change: Change) -> None:
        """See `abilities.SparseFile.allocate`."""
        space = os.fstatvfs(self.fd)
        # Some file systems would fill the disk before they find it too small.
        if octets - os.fstat(self.fd).st_blocks * 512 > space.f_bavail * space.f_frsize:
            raise Refused(errno.ENOSPC)
        with Changing(self, change):
            fallocate(self.fd, 0, offset, octets)
        self.put_on_disk()

    def deallocate(self, offset: int, octets: int, change: Change) -> None:
        """See `abilities.SparseFile.deallocate`."""
        with Changing(self, change):
            octets = min(octets, os.fstat(self.fd).st_size - offset)
            if octets > 0:
                fallocate(self.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, octets)
        self.put_on_disk()

    def will_need(self, offset: int, octets: int) -> None:
        """See `abilities.SparseFile.will_need`; the kernel bounds the octets."""
        os.posix_fadvise(self.fd, offset, octets, os.POSIX_FADV_WILLNEED)

    def put_on_disk(self) -> None:
        """Puts a change on the disk that no COMMIT follows."""
        if not self.in_memory:
            os.fsync(self.fd)
