"""Why a call is refused, and which status tells the client so (RFC 1813 section 2.6)."""

from __future__ import annotations

import errno

from rpcrdma.nfs.errors import STATUS_OF_ERRNO
from rpcrdma.nfs.v3 import nfsstat3

__all__ = ["REFUSALS", "Refused", "status_of"]


class Refused(Exception):
    """A call that ends with this status."""

    def __init__(self, status: nfsstat3) -> None:
        super().__init__(status.name)
        self.status = status


REFUSALS = (Refused, OSError)
"""Exceptions that a procedure answers with a status; any other is a fault of the server."""

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
}


def status_of(error: BaseException) -> nfsstat3:
    """The status that tells of a refusal or of an error of the operating system."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, OSError) and error.errno is not None:
        return _BY_ERRNO.get(error.errno, _S.NFS3ERR_IO)
    return _S.NFS3ERR_SERVERFAULT
