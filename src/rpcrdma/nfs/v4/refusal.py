"""Refusals of single operations, and the status of version 4 for each error number of an exported tree."""

from __future__ import annotations

import errno
from typing import Any, Final

from rpcrdma.nfs.export import tree
from rpcrdma.nfs.v4.nfs4 import nfsstat4

__all__ = ["REFUSALS", "Refused", "status_of"]

_S = nfsstat4


class Refused(Exception):
    """The failure of an operation of a COMPOUND.

    `status` is the status of the result, never NFS4_OK. `value` is the body of the result for failures that have one,
    such as LOCK4denied; None for all others.
    """

    def __init__(self, status: nfsstat4, value: Any = None) -> None:
        super().__init__(status.name)
        self.status = status
        self.value = value


REFUSALS: Final = (Refused, *tree.REFUSALS)
"""Exceptions that an operation is answered with, besides `CredentialTooWeak`; any other is a fault of the server."""

_BY_ERRNO: Final = {
    errno.EPERM: _S.NFS4ERR_PERM,
    errno.ENOENT: _S.NFS4ERR_NOENT,
    errno.EIO: _S.NFS4ERR_IO,
    errno.ENXIO: _S.NFS4ERR_NXIO,
    errno.ENODEV: _S.NFS4ERR_NXIO,
    errno.EACCES: _S.NFS4ERR_ACCESS,
    errno.EEXIST: _S.NFS4ERR_EXIST,
    errno.EXDEV: _S.NFS4ERR_XDEV,
    errno.ENOTDIR: _S.NFS4ERR_NOTDIR,
    errno.EISDIR: _S.NFS4ERR_ISDIR,
    errno.EINVAL: _S.NFS4ERR_INVAL,
    errno.EFBIG: _S.NFS4ERR_FBIG,
    errno.EOVERFLOW: _S.NFS4ERR_FBIG,
    errno.ENOSPC: _S.NFS4ERR_NOSPC,
    errno.EROFS: _S.NFS4ERR_ROFS,
    errno.EMLINK: _S.NFS4ERR_MLINK,
    errno.ENAMETOOLONG: _S.NFS4ERR_NAMETOOLONG,
    errno.ENOTEMPTY: _S.NFS4ERR_NOTEMPTY,
    errno.EDQUOT: _S.NFS4ERR_DQUOT,
    errno.ESTALE: _S.NFS4ERR_STALE,
    errno.EOPNOTSUPP: _S.NFS4ERR_NOTSUPP,
    errno.ENOSYS: _S.NFS4ERR_NOTSUPP,
    errno.ENODATA: _S.NFS4ERR_NOXATTR,
    errno.E2BIG: _S.NFS4ERR_XATTR2BIG,
    errno.ELOOP: _S.NFS4ERR_SYMLINK,
    errno.EBUSY: _S.NFS4ERR_FILE_OPEN,
    errno.ETXTBSY: _S.NFS4ERR_FILE_OPEN,
    tree.BAD_HANDLE: _S.NFS4ERR_BADHANDLE,
    tree.NOT_SYNC: _S.NFS4ERR_DELAY,
    # "Try again later."
    errno.EAGAIN: _S.NFS4ERR_DELAY,
    errno.EINTR: _S.NFS4ERR_DELAY,
    errno.EMFILE: _S.NFS4ERR_DELAY,
    errno.ENFILE: _S.NFS4ERR_DELAY,
    errno.ENOMEM: _S.NFS4ERR_DELAY,
}


def status_of(error: Refused | tree.Refused | OSError) -> nfsstat4:
    """Returns the status with which an operation that raised `error` is answered.

    A `Refused` of this module has its own status. A `tree.Refused` or OSError has the status of its error number, or
    NFS4ERR_IO if that number is None or has no status.
    """
    if isinstance(error, Refused):
        return error.status
    return _S.NFS4ERR_IO if error.errno is None else _BY_ERRNO.get(error.errno, _S.NFS4ERR_IO)
