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
        """Returns the first offset, from `offset` on, in a hole (with `hole`) or in data; None if there is none.

        The end of the file counts as a hole. Returns None if `offset` is at or beyond the end. May block. Raises
        OSError: EIO and others.
        """
        try:
            return os.lseek(self.fd, offset, os.SEEK_HOLE if hole else os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise

    def allocate(self, offset: int, octets: int, change: Change) -> None:
        """Reserves disk space for `octets` octets at `offset`, extends a shorter file to their end, and syncs the file.

        `change` gets the attributes before and after. Raises Refused (ENOSPC), with nothing changed, if `octets`, less
        the space that the file has already, exceed the free space; or OSError: ENOSPC, EFBIG, EOPNOTSUPP and others.
        """
        space = os.fstatvfs(self.fd)
        # Some file systems would fill the disk before they find it too small.
        if octets - os.fstat(self.fd).st_blocks * 512 > space.f_bavail * space.f_frsize:
            raise Refused(errno.ENOSPC)
        with Changing(self, change):
            fallocate(self.fd, 0, offset, octets)
        self.put_on_disk()

    def deallocate(self, offset: int, octets: int, change: Change) -> None:
        """Frees the disk space of `octets` octets at `offset`, up to the end of the file, and syncs the file.

        The octets read as zeros then, and the size stays. `change` gets the attributes before and after. Raises
        OSError: EOPNOTSUPP, EIO and others.
        """
        with Changing(self, change) as changing:
            octets = min(octets, os.fstat(self.fd).st_size - offset)
            changing.in_vain = octets <= 0
            if octets > 0:
                fallocate(self.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, octets)
        self.put_on_disk()

    def will_need(self, offset: int, octets: int) -> None:
        """Advises the kernel to read `octets` octets from `offset` ahead; does not wait for them; may raise OSError."""
        os.posix_fadvise(self.fd, offset, octets, os.POSIX_FADV_WILLNEED)

    def put_on_disk(self) -> None:
        """Syncs the file as `sync`, unless its file system is in memory.

        To be called after changes that no COMMIT follows.
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
