"""From the error numbers of refusals to the statuses of version 3 (RFC 1813 section 2.6)."""

from __future__ import annotations

import errno

from rpcrdma.nfs.errors import STATUS_OF_ERRNO
from rpcrdma.nfs.export.tree import BAD_HANDLE, NOT_SYNC, Refused
from rpcrdma.nfs.v3 import nfsstat3

__all__ = ["REFUSALS", "StatusRefusal", "status_of"]


class StatusRefusal(Exception):
    """Ends a procedure, which catches this exception and replies with `status`: one that no error number stands for."""

    def __init__(self, status: nfsstat3) -> None:
        super().__init__(status.name)
        self.status = status


REFUSALS = (Refused, OSError, StatusRefusal)
"""Exceptions that a procedure answers with a status; any other exception is a fault of the server."""

_S = nfsstat3
_BY_ERRNO = STATUS_OF_ERRNO | {
    errno.EOVERFLOW: _S.NFS3ERR_FBIG,
    errno.ENOSYS: _S.NFS3ERR_NOTSUPP,
    # Version 3 has no status of their own for these.
    errno.EBUSY: _S.NFS3ERR_ACCES,
    errno.ETXTBSY: _S.NFS3ERR_ACCES,
    errno.ELOOP: _S.NFS3ERR_ACCES,
    # "Try again later."
    errno.EAGAIN: _S.NFS3ERR_JUKEBOX,
    errno.EINTR: _S.NFS3ERR_JUKEBOX,
    errno.EMFILE: _S.NFS3ERR_JUKEBOX,
    errno.ENFILE: _S.NFS3ERR_JUKEBOX,
    errno.ENOMEM: _S.NFS3ERR_JUKEBOX,
    BAD_HANDLE: _S.NFS3ERR_BADHANDLE,
    NOT_SYNC: _S.NFS3ERR_NOT_SYNC,
}


def status_of(error: Refused | OSError | StatusRefusal) -> nfsstat3:
    """Returns the NFSv3 status with which a procedure answers an exception (see `REFUSALS`).

    A StatusRefusal has its own status; the errno decides for the others. An errno without a status is NFS3ERR_IO, an
    exception without errno NFS3ERR_SERVERFAULT.
    """
    if isinstance(error, StatusRefusal):
        return error.status
    if error.errno is None:
        return _S.NFS3ERR_SERVERFAULT
    return _BY_ERRNO.get(error.errno, _S.NFS3ERR_IO)
