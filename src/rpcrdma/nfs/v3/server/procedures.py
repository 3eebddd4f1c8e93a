"""The part that all procedures share: the exports, and the claims of clients of other versions."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
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
        """Returns (object, caller's rights) and raises as `locate_in_worker`, for a call that changes the object.

        Raises also Refused: EROFS for a read-only export, and EAGAIN in the grace period after a restart.
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
