"""Attributes as the protocol reports them (RFC 1813 sections 2.5 and 2.6) and as clients set them."""

from __future__ import annotations

import os
import stat
from types import TracebackType
from typing import TypeAlias

from rpcrdma.nfs import v3
from rpcrdma.nfs.server.linux_calls import UTIME_NOW, UTIME_OMIT, set_file_times
from rpcrdma.nfs.server.object_tree import HeldNode
from rpcrdma.nfs.server.refusal import Refused

__all__ = ["Changes", "attributes_of", "nfs_time", "post_op", "set_times"]

_TYPES = {
    stat.S_IFREG: v3.ftype3.NF3REG,
    stat.S_IFDIR: v3.ftype3.NF3DIR,
    stat.S_IFBLK: v3.ftype3.NF3BLK,
    stat.S_IFCHR: v3.ftype3.NF3CHR,
    stat.S_IFLNK: v3.ftype3.NF3LNK,
    stat.S_IFSOCK: v3.ftype3.NF3SOCK,
    stat.S_IFIFO: v3.ftype3.NF3FIFO,
}
_U32 = 0xFFFFFFFF
_SECOND = 1_000_000_000
_NO_DEVICE = v3.specdata3(0, 0)

_How: TypeAlias = v3.set_atime | v3.set_mtime


def nfs_time(nanoseconds: int) -> v3.nfstime3:
    """A time of the file system; times before 1970 and after 2106 become the nearest that the protocol knows."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    if 0 <= seconds <= _U32:
        return v3.nfstime3(seconds, rest)
    return v3.nfstime3(0, 0) if seconds < 0 else v3.nfstime3(_U32, rest)


def attributes_of(status: os.stat_result, fsid: int) -> v3.fattr3:
    """fattr3 of an object; `fsid` is the export's, which stays the same from run to run."""
    mode = status.st_mode
    device = _NO_DEVICE
    if status.st_rdev:
        device = v3.specdata3(os.major(status.st_rdev), os.minor(status.st_rdev))
    return v3.fattr3(
        _TYPES[stat.S_IFMT(mode)],
        mode & 0o7777,
        min(status.st_nlink, _U32),
        status.st_uid,
        status.st_gid,
        status.st_size,
        status.st_blocks * 512,
        device,
        fsid,
        status.st_ino,
        nfs_time(status.st_atime_ns),
        nfs_time(status.st_mtime_ns),
        nfs_time(status.st_ctime_ns),
    )


def post_op(node: HeldNode | None) -> v3.post_op_attr:
    """An object's current attributes; none without an object, or where they cannot be read."""
    if node is not None:
        try:
            return v3.post_op_attr(True, attributes_of(os.fstat(node.fd), node.tree.fsid))
        except OSError:
            pass
    return v3.post_op_attr(False, None)


class Changes:
    """Weak cache consistency data of one object (RFC 1813 section 2.6).

    `with changes:` holds the lock of `node` from before the first look at its attributes until after the second: no
    other client's change goes unnoticed in between. Without such a block the reply has the present attributes alone.
    """

    __slots__ = ("_after", "_before", "node")

    def __init__(self) -> None:
        self.node: HeldNode | None = None
        self._before: os.stat_result | None = None
        self._after: v3.post_op_attr | None = None

    @property
    def before(self) -> os.stat_result:
        """The attributes before the change."""
        assert self._before is not None
        return self._before

    def __enter__(self) -> None:
        assert self.node is not None
        self.node.lock.acquire()
        try:
            self._before = os.fstat(self.node.fd)
        except BaseException:
            self.node.lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        assert self.node is not None
        self._after = post_op(self.node)
        self.node.lock.release()

    def data(self) -> v3.wcc_data:
        """The `wcc_data` of the reply."""
        before, after = self._before, self._after
        if before is None or after is None:
            return v3.wcc_data(v3.pre_op_attr(False, None), post_op(self.node))
        return v3.wcc_data(
            v3.pre_op_attr(
                True, v3.wcc_attr(before.st_size, nfs_time(before.st_mtime_ns), nfs_time(before.st_ctime_ns))
            ),
            after,
        )


def set_times(path: bytes, wanted: v3.sattr3) -> None:
    """Sets the times that a client asks to be set, with the calling thread's identity.

    Raises:
        Refused: NFS3ERR_INVAL: nanoseconds that make a second or more.
        OSError: the file system refuses.
    """
    atime, mtime = _time(wanted.atime), _time(wanted.mtime)
    if atime[1] != UTIME_OMIT or mtime[1] != UTIME_OMIT:
        set_file_times(path, atime, mtime)


def _time(how: _How) -> tuple[int, int]:
    if how.set_it == v3.time_how.SET_TO_CLIENT_TIME:
        time = how.value
        assert time is not None
        if time.nseconds >= _SECOND:
            raise Refused(v3.nfsstat3.NFS3ERR_INVAL)
        return time.seconds, time.nseconds
    return 0, UTIME_NOW if how.set_it == v3.time_how.SET_TO_SERVER_TIME else UTIME_OMIT
