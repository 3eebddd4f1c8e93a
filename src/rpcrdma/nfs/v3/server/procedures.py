"""The part that all procedures share: the exports, and the claims of clients of other versions."""

from __future__ import annotations

import contextlib
import errno
from typing import Any

from rpcrdma.nfs.export.claims import Claims
from rpcrdma.nfs.export.exports import Exports
from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Node, Refused, check_changeable
from rpcrdma.rpc.service import CallContext

__all__ = ["Procedures"]


class Procedures:
    """The base of the procedures of NFS version 3 over exports; `NfsService` inherits from all its subclasses.

    Args:
        exports: the trees that are served.
        claims: the opens and delegations of their files that version 4 has granted; None: there are none.
    """

    def __init__(self, exports: Exports, claims: Claims[Any, Any] | None = None) -> None:
        self.exports = exports
        self.claims: Claims[Any, Any] = Claims() if claims is None else claims

    def check_no_grace(self) -> None:
        """Raises Refused (EAGAIN) in the grace period, when clients reclaim state after a restart of the server."""
        if self.claims.in_grace:
            raise Refused(errno.EAGAIN)

    def locate_in_worker(self, handle: bytes, context: CallContext) -> tuple[Node, Grant]:
        """Returns (the object of `handle`, the caller's rights). May block: to be called in a worker thread.

        `context` is the call, whose caller it is.

        Raises the errors of `Exports.locate`, such as Refused (ESTALE, EACCES, or `BAD_HANDLE`).
        """
        found = self.exports.locate(handle, context)
        assert found is not None
        return found

    def locate_to_change(self, handle: bytes, context: CallContext) -> tuple[Node, Grant]:
        """Returns (object, caller's rights) and raises as `locate_in_worker`, for a call that changes the object.

        Raises also Refused: EROFS for a read-only export, and EAGAIN in the grace period after a restart.
        """
        self.check_no_grace()
        found = self.locate_in_worker(handle, context)
        check_changeable(found[1])
        return found

    def check_delegations(self, node: Node) -> None:
        """Raises Refused (EAGAIN) while clients of version 4 have delegations of `node`, and starts their recall."""
        if self.claims.delegations and self.claims.waits_for_delegates(self.exports.file_of(node.handle)):
            raise Refused(errno.EAGAIN)

    def check_delegations_of_name(self, directory: Node, name: bytes, who: Grant) -> None:
        """Raises Refused (EAGAIN) as `check_delegations` for the object `name` in `directory`, if it exists.

        `who` are the rights with which the name is looked up. Raises Refused or OSError if the lookup fails otherwise.
        """
        if self.claims.delegations:
            with contextlib.suppress(FileNotFoundError):
                found = directory.lookup(who, name, at_once=False)
                assert found is not None
                self.check_delegations(found)

    def check_claims(self, node: Node, access: int) -> None:
        """Raises Refused (EACCES) if the share reservation of an open of version 4 on the file `node` denies `access`.

        `access` is `claims.READ` or `claims.WRITE`. Raises Refused (EAGAIN) while only clients without a lease do so,
        which end soon.
        """
        found = self.claims.deniers(self.exports.file_of(node.handle), access)
        if found:
            raise Refused(errno.EAGAIN if self.claims.end_soon(found) else errno.EACCES)
