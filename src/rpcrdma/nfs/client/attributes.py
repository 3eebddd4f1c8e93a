"""File attributes: from NFSv3's to the fields of `os.stat`, and back into the arguments of SETATTR."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from rpcrdma.nfs import v3

__all__ = [
    "NOW",
    "TIME_NS_MAX",
    "Now",
    "Stat",
    "StatVfs",
    "rights_of",
    "set_attributes",
    "stat_from",
    "statvfs_from",
]

_FILE_TYPE = {
    v3.ftype3.NF3REG: stat.S_IFREG,
    v3.ftype3.NF3DIR: stat.S_IFDIR,
    v3.ftype3.NF3BLK: stat.S_IFBLK,
    v3.ftype3.NF3CHR: stat.S_IFCHR,
    v3.ftype3.NF3LNK: stat.S_IFLNK,
    v3.ftype3.NF3SOCK: stat.S_IFSOCK,
    v3.ftype3.NF3FIFO: stat.S_IFIFO,
}
_PERMISSIONS = 0o7777
_NS = 1_000_000_000

TIME_NS_MAX = ((1 << 32) - 1) * _NS + _NS - 1
"""The last time that NFSv3 can express, in nanoseconds since 1970: in the year 2106. The first is 0."""

_BLOCK_OCTETS = 512
"""The unit of `st_blocks`, whatever the file system's own block is."""
_IO_OCTETS = 1 << 20


class Stat(NamedTuple):
    """Attributes of an object at an NFS server, with the fields of `os.stat_result`.

    Attributes:
        st_mode: type and permission bits.
        st_ino: the object's number in the file system (fileid).
        st_dev: the number of the file system (fsid).
        st_nlink: hard links.
        st_uid, st_gid: owner and group.
        st_size: octets.
        st_blocks: blocks of 512 octets in use.
        st_rdev: the device number of a device.
        st_atime_ns, st_mtime_ns, st_ctime_ns: last access, modification and change, in nanoseconds since 1970.
        st_blksize: the preferred size of reads and writes, 1 MiB.
    """

    st_mode: int
    st_ino: int
    st_dev: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_size: int
    st_blocks: int
    st_rdev: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_blksize: int = _IO_OCTETS

    @property
    def st_atime(self) -> float:
        """Last access, seconds since 1970."""
        return self.st_atime_ns / _NS

    @property
    def st_mtime(self) -> float:
        """Last modification, seconds since 1970."""
        return self.st_mtime_ns / _NS

    @property
    def st_ctime(self) -> float:
        """Last change of attributes, seconds since 1970."""
        return self.st_ctime_ns / _NS

    def is_file(self) -> bool:
        """Returns whether the object is a regular file."""
        return stat.S_ISREG(self.st_mode)

    def is_dir(self) -> bool:
        """Returns whether the object is a directory."""
        return stat.S_ISDIR(self.st_mode)

    def is_symlink(self) -> bool:
        """Returns whether the object is a symbolic link."""
        return stat.S_ISLNK(self.st_mode)


class StatVfs(NamedTuple):
    """The space of a file system, with the fields of `os.statvfs_result`.

    Attributes:
        f_bsize: the preferred size of reads and writes, 1 MiB.
        f_frsize: octets of a block, 4096.
        f_blocks, f_bfree, f_bavail: blocks in all, free, and free for this user.
        f_files, f_ffree, f_favail: objects in all, free, and free for this user.
        f_namemax: octets of the longest name.
    """

    f_bsize: int
    f_frsize: int
    f_blocks: int
    f_bfree: int
    f_bavail: int
    f_files: int
    f_ffree: int
    f_favail: int
    f_namemax: int


class Now:
    """The type of `NOW`, which stands for the server's present time where a time is to be set."""


NOW = Now()
"""A value for a time to be set: the server's present time."""


def stat_from(attributes: v3.fattr3) -> Stat:
    """Returns NFSv3 attributes as a `Stat`; the octets in use become blocks of 512, rounded up.

    `st_rdev` is 0 if `os.makedev` cannot express the device number.
    """
    rdev = attributes.rdev
    atime, mtime, ctime = attributes.atime, attributes.mtime, attributes.ctime
    return Stat(
        st_mode=_FILE_TYPE[attributes.type] | attributes.mode & _PERMISSIONS,
        st_ino=attributes.fileid,
        st_dev=attributes.fsid,
        st_nlink=attributes.nlink,
        st_uid=attributes.uid,
        st_gid=attributes.gid,
        st_size=attributes.size,
        st_blocks=-(-attributes.used // _BLOCK_OCTETS),
        st_rdev=_device(rdev.specdata1, rdev.specdata2),
        st_atime_ns=atime.seconds * _NS + atime.nseconds,
        st_mtime_ns=mtime.seconds * _NS + mtime.nseconds,
        st_ctime_ns=ctime.seconds * _NS + ctime.nseconds,
    )


def statvfs_from(space: v3.FSSTAT3resok, limits: v3.PATHCONF3resok) -> StatVfs:
    """Returns the results of FSSTAT and PATHCONF as a `StatVfs`; octets become blocks of 4 KiB, rounded down."""
    block = 4096
    return StatVfs(
        f_bsize=_IO_OCTETS,
        f_frsize=block,
        f_blocks=space.tbytes // block,
        f_bfree=space.fbytes // block,
        f_bavail=space.abytes // block,
        f_files=space.tfiles,
        f_ffree=space.ffiles,
        f_favail=space.afiles,
        f_namemax=limits.name_max,
    )


def rights_of(mode: int, *, is_directory: bool) -> int:
    """Returns the ACCESS3 bits (RFC 1813 section 3.3.4) for `mode`, the bits `os.R_OK`, `os.W_OK` and `os.X_OK`.

    `os.R_OK` becomes READ, `os.W_OK` MODIFY and EXTEND, `os.X_OK` LOOKUP if the object `is_directory`, else EXECUTE.
    `os.F_OK` alone becomes 0.
    """
    use = v3.ACCESS3_LOOKUP if is_directory else v3.ACCESS3_EXECUTE
    change = v3.ACCESS3_MODIFY | v3.ACCESS3_EXTEND
    return bool(mode & os.R_OK) * v3.ACCESS3_READ | bool(mode & os.W_OK) * change | bool(mode & os.X_OK) * use


def set_attributes(
    *,
    mode: int | None = None,
    uid: int | None = None,
    gid: int | None = None,
    size: int | None = None,
    atime_ns: int | Now | None = None,
    mtime_ns: int | Now | None = None,
) -> v3.sattr3:
    """Returns the sattr3 argument of SETATTR and of calls that create objects; None leaves an attribute unset in it.

    Args:
        mode: the permission bits; bits above 0o7777 are ignored.
        uid: the owner's number.
        gid: the group's number.
        size: the size in octets.
        atime_ns: the last access in nanoseconds since 1970, or `NOW` for the server's present time.
        mtime_ns: the last modification in nanoseconds since 1970, or `NOW`.

    Raises:
        OverflowError: a time is before 1970 or after 2106, which NFSv3 cannot express.
        ValueError: `size` is negative, or has more than 64 bits.
    """
    if size is not None and not 0 <= size < 1 << 64:
        raise ValueError(f"{size} is no size of a file: give 0 to 2**64 - 1 octets")
    return v3.sattr3(
        mode=_SAME_MODE if mode is None else v3.set_mode3(True, mode & _PERMISSIONS),
        uid=_SAME_UID if uid is None else v3.set_uid3(True, uid),
        gid=_SAME_GID if gid is None else v3.set_gid3(True, gid),
        size=_SAME_SIZE if size is None else v3.set_size3(True, size),
        atime=v3.set_atime(*_time(atime_ns)),
        mtime=v3.set_mtime(*_time(mtime_ns)),
    )


_SAME_MODE = v3.set_mode3(False, None)
_SAME_UID = v3.set_uid3(False, None)
_SAME_GID = v3.set_gid3(False, None)
_SAME_SIZE = v3.set_size3(False, None)


def _time(time_ns: int | Now | None) -> tuple[v3.time_how, v3.nfstime3 | None]:
    if time_ns is None:
        return v3.time_how.DONT_CHANGE, None
    if isinstance(time_ns, Now):
        return v3.time_how.SET_TO_SERVER_TIME, None
    if not 0 <= time_ns <= TIME_NS_MAX:
        raise OverflowError(f"NFSv3 has times from 1970 to 2106, not {time_ns} ns after 1970")
    return v3.time_how.SET_TO_CLIENT_TIME, v3.nfstime3(*divmod(time_ns, _NS))


def _device(major: int, minor: int) -> int:
    try:
        return os.makedev(major, minor)
    except OverflowError:
        return 0
