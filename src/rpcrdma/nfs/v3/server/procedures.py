"""The part that all procedures share: exports, claims of clients of other versions, statuses (RFC 1813 section 2.6)."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Any

from rpcrdma.nfs.errors import STATUS_OF_ERRNO
from rpcrdma.nfs.export.claims import Claims
from rpcrdma.nfs.export.exports import Exports
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import BAD_HANDLE, NOT_SYNC, Node, Refused, check_changeable
from rpcrdma.nfs.v3 import nfsstat3
from rpcrdma.rpc.service import CallContext

__all__ = ["REFUSALS", "Procedures", "StatusRefusal", "status_of"]


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
    """Returns the NFSv3 status with which a procedure answers an exception by which a call was refused.

    A StatusRefusal has its own status; the errno decides for the others. An errno without a status is NFS3ERR_IO, an
    exception without errno NFS3ERR_SERVERFAULT.
    """
    if isinstance(error, StatusRefusal):
        return error.status
    if error.errno is None:
        return _S.NFS3ERR_SERVERFAULT
    return _BY_ERRNO.get(error.errno, _S.NFS3ERR_IO)


class Procedures:
    """The base of the procedures of NFS version 3 over exports; `NfsService` inherits from all its subclasses.

    Args:
        exports: the trees that are served.
    """

    def __init__(self, exports: Exports) -> None:
        self.exports = exports
        self.claims: Claims[Any, Any] = Claims()
        """The opens and delegations of the files that version 4 grants, whose service shares it."""

    def check_no_grace(self) -> None:
        """Raises Refused (EAGAIN) in the grace period, when clients reclaim state after a restart of the server."""
        if self.claims.in_grace:
            raise Refused(errno.EAGAIN)

    def locate_in_worker(self, handle: bytes, context: CallContext) -> tuple[Node, Grant]:
        """Returns (the object of `handle`, the rights of the caller of the call `context`); for a worker thread.

        May block. Raises the errors of `Exports.locate`, such as Refused (ESTALE, EACCES, or `BAD_HANDLE`).
        """
        found = self.exports.locate(handle, context)
        assert found is not None
        return found

    def locate_to_change(self, handle: bytes, context: CallContext) -> tuple[Node, Grant]:
        """Returns (the object of `handle`, the rights of the caller of `context`), for a call that changes the object.

        May block; for a worker thread. Raises the errors of `Exports.locate`, such as Refused (ESTALE, EACCES, or
        `BAD_HANDLE`), and Refused (EROFS) for a read-only export, and (EAGAIN) in the grace period after a restart.
        """
        self.check_no_grace()
        found = self.locate_in_worker(handle, context)
        check_changeable(found[1])
        return found

    def check_delegations(self, node: Node) -> None:
        """Raises Refused (EAGAIN) while clients of version 4 have delegations of `node`, and starts their recall."""
        if self.claims.delegations:
            with self.without_delegations(node):
                pass

    @contextlib.contextmanager
    def without_delegations(self, *nodes: Node | None) -> Iterator[None]:
        """A context manager in whose block `nodes` are changed: clients get no delegation of them meanwhile.

        Entering raises Refused (EAGAIN), and starts the recalls, if clients have delegations of any. None among `nodes`
        stands for no object.
        """
        files = [self.exports.file_of(node.handle) for node in nodes if node is not None]
        if not self.claims.may_change(files):
            raise Refused(errno.EAGAIN)
        try:
            yield
        finally:
            self.claims.end_change(files)

    @staticmethod
    def existing_object(directory: Node, name: bytes, who: Grant) -> Node | None:
        """Returns the object `name` in `directory`, looked up with the rights `who`, None if there is none; may block.

        Raises Refused or OSError if the lookup fails otherwise.
        """
        try:
            return directory.lookup(who, name, at_once=False)
        except (Refused, OSError) as error:
            if error.errno != errno.ENOENT:
                raise
            return None

    def check_claims(self, node: Node, access: int) -> None:
        """Raises Refused (EACCES) if the share reservation of an open of version 4 on the file `node` denies `access`.

        `access` is `claims.READ` or `claims.WRITE`. Raises Refused (EAGAIN) instead if the leases of all clients with
        such opens have expired, so that these opens end soon.
        """
        found = self.claims.deniers(self.exports.file_of(node.handle), access)
        if found:
            raise Refused(errno.EAGAIN if self.claims.end_soon(found) else errno.EACCES)
