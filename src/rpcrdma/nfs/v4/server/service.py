"""The service that answers NFS version 4: program 100003 with NULL and COMPOUND."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, Final

from rpcrdma.nfs.export.tree import Change, Tree
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.compounds import COMPOUND, CompoundCall, EncodedReply
from rpcrdma.nfs.v4.nfs4 import nfs_opnum4
from rpcrdma.nfs.v4.server import (
    copying,
    data,
    delegations,
    extended_attributes,
    handles,
    information,
    listing,
    locks,
    names,
    opens,
    security,
    session_operations,
    sparse,
    stateid_operations,
)
from rpcrdma.nfs.v4.server.back_channel import Recalls
from rpcrdma.nfs.v4.server.clients import Delegation, Held
from rpcrdma.nfs.v4.server.compound import Compound, Handler, run
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.nfs.v4.server.state import State
from rpcrdma.rpc.service import CallContext, Steps, returns_steps

__all__ = ["HANDLERS", "Nfs4Service"]

_LOGGER = logging.getLogger("rpcrdma.server")

_O = nfs_opnum4
HANDLERS: Final[Mapping[int, Handler]] = {
    _O.OP_ACCESS: information.check_access,
    _O.OP_ALLOCATE: sparse.allocate,
    _O.OP_BACKCHANNEL_CTL: session_operations.backchannel_ctl,
    _O.OP_BIND_CONN_TO_SESSION: session_operations.bind_conn_to_session,
    _O.OP_CLONE: copying.clone,
    _O.OP_CLOSE: opens.close,
    _O.OP_COMMIT: data.commit,
    _O.OP_COPY: copying.copy,
    _O.OP_CREATE: names.create,
    _O.OP_CREATE_SESSION: session_operations.create_session,
    _O.OP_DEALLOCATE: sparse.deallocate,
    _O.OP_DELEGRETURN: delegations.give_back,
    _O.OP_DESTROY_CLIENTID: session_operations.destroy_clientid,
    _O.OP_DESTROY_SESSION: session_operations.destroy_session,
    _O.OP_EXCHANGE_ID: session_operations.exchange_id,
    _O.OP_FREE_STATEID: stateid_operations.free_stateid,
    _O.OP_GETATTR: information.get_attributes,
    _O.OP_GETFH: handles.get_handle,
    _O.OP_GETXATTR: extended_attributes.get_xattr,
    _O.OP_IO_ADVISE: sparse.advise,
    _O.OP_LINK: names.link,
    _O.OP_LISTXATTRS: extended_attributes.list_xattrs,
    _O.OP_LOCK: locks.lock,
    _O.OP_LOCKT: locks.lock_test,
    _O.OP_LOCKU: locks.unlock,
    _O.OP_LOOKUP: handles.lookup,
    _O.OP_LOOKUPP: handles.lookup_parent,
    _O.OP_NVERIFY: information.nverify,
    _O.OP_OPEN: opens.open_file,
    _O.OP_OPEN_DOWNGRADE: opens.open_downgrade,
    _O.OP_PUTFH: handles.put_handle,
    _O.OP_PUTPUBFH: handles.put_root,
    _O.OP_PUTROOTFH: handles.put_root,
    _O.OP_READ: data.read,
    _O.OP_READDIR: listing.read_directory,
    _O.OP_READLINK: information.read_link,
    _O.OP_READ_PLUS: sparse.read_plus,
    _O.OP_RECLAIM_COMPLETE: session_operations.reclaim_complete,
    _O.OP_REMOVE: names.remove,
    _O.OP_REMOVEXATTR: extended_attributes.remove_xattr,
    _O.OP_RENAME: names.rename,
    _O.OP_RESTOREFH: handles.restore_handle,
    _O.OP_SAVEFH: handles.save_handle,
    _O.OP_SECINFO: security.flavors_of_name,
    _O.OP_SECINFO_NO_NAME: security.flavors_of_current,
    _O.OP_SEEK: sparse.seek,
    _O.OP_SEQUENCE: session_operations.sequence,
    _O.OP_SETATTR: data.set_attributes,
    _O.OP_SETXATTR: extended_attributes.set_xattr,
    _O.OP_TEST_STATEID: stateid_operations.test_stateid,
    _O.OP_VERIFY: information.verify,
    _O.OP_WRITE: data.write,
}
"""The functions of the operations that are served, by operation number."""


_TO_ROOT: Final = (nfs_opnum4.OP_PUTROOTFH, nfs_opnum4.OP_PUTPUBFH)


class Nfs4Service(nfs4.NFS_V4_Service):
    """The service of NFS versions 4.1 and 4.2 over exported trees.

    The slots of sessions make sure that each request runs at most once (RFC 8881 section 2.10.6), so that the reply
    cache of RPC takes no part (`IDEMPOTENT`). Memory for the bulk results of a COMPOUND is reserved before it runs,
    since it must not begin twice (`RESERVES`). The constructor sets the callback `end_soon` of the claims of `state`.

    Args:
        exports: the trees, and the pseudo file system above them.
        state: clients, sessions, opens and locks.
        clock: returns the time of a monotonic clock, in seconds.
    """

    PROGRAM = dataclasses.replace(nfs4.NFS_V4, procedures={**nfs4.NFS_V4.procedures, COMPOUND.number: COMPOUND})
    OWN_LIMITS = True
    ANY_SECURITY = True
    """Calls of every flavor are answered: each export has its own flavors, which SECINFO returns."""
    IDEMPOTENT: ClassVar[frozenset[int]] = frozenset({COMPOUND.number})
    RESERVES: ClassVar[frozenset[int]] = frozenset({COMPOUND.number})

    def __init__(self, exports: PseudoRoot, state: State, *, clock: Callable[[], float]) -> None:
        self.exports = exports
        self.state = state
        self.handlers: Mapping[int, Handler] = HANDLERS
        """The functions of the operations, by operation number; the access log replaces some of them."""
        self.lease_s = int(state.clients.lease_s)
        self._clock = clock
        self._recalls: Recalls | None = None
        self._faults: set[tuple[str, type[Exception]]] = set()
        self.WAITS_FOR = self._file_system_of
        state.claims.end_soon = lambda holders: state.end_soon(holders, clock())

    def _file_system_of(self, call: CompoundCall) -> bytes | None:
        """Returns octets that identify the file system of a COMPOUND's first object.

        None: the object is unknown, or its calls need no bound on the threads that one file system can block.
        """
        for operation, args in zip(call.shape.kinds, call.args, strict=False):
            if operation == nfs_opnum4.OP_PUTFH and args is not None:
                return self.exports.waits_for(args.object)
            if operation in _TO_ROOT:
                return self.exports.waits_for(self.exports.root.handle)
        return None

    @returns_steps
    def compound(self, args: CompoundCall, context: CallContext) -> Steps[EncodedReply]:
        """Returns the generator of `compound.run`, whose result is the reply; to be called in the event loop's thread.

        The first call makes the `Recalls`, which send CB_RECALL in that event loop.
        """
        if self._recalls is None:
            self._recalls = Recalls(self.state, asyncio.get_running_loop(), self._clock)
        return run(Compound(self, context, args, self._clock()), self.handlers)

    def sweep(self) -> None:
        """Ends leases, recalls and the grace period that are over, by `State.sweep`; to be called every few seconds.

        May block.
        """
        self.state.sweep(self._clock())

    def close_ended(self) -> None:
        """Closes files of states that sweeps and recalls have ended; to be called every few seconds, beside `sweep`.

        May block for as long as a file system hangs.
        """
        self.state.close_ended(self.state.left)

    def commit(self, trees: Collection[Tree]) -> None:
        """Puts what clients have written to open files of `trees` on the disk; may block.

        Raises OSError if data of a file is lost; the files after it are not committed then.
        """
        for held in self.state.states():
            if isinstance(held, opens.Open):
                node, writer = held.node, held.writer
                if node is not None and writer is not None and node.tree in trees:
                    writer.commit(Change())

    def revoke_on(self, trees: Collection[Tree]) -> int:
        """Revokes the opens with their locks, and the delegations, of all clients on files of `trees`; may block.

        Returns the number of these opens and delegations.
        """

        def concerns(held: Held) -> bool:
            node = held.node if isinstance(held, opens.Open | Delegation) else None
            return node is not None and node.tree in trees

        return self.state.revoke_those(concerns)

    def close(self) -> None:
        """Deletes clients that hold nothing from the recovery database, and closes it; may block."""
        self.state.close()

    def log_fault(self, name: str, error: Exception) -> None:
        """Logs the unexpected exception of the operation `name`, which is answered with NFS4ERR_SERVERFAULT.

        Each class of exception is logged once for an operation, since a client could cause it again and again.
        """
        kind = name, type(error)
        if kind not in self._faults:
            self._faults.add(kind)
            _LOGGER.error("%s of NFS version 4 failed and was answered with SERVERFAULT", name, exc_info=error)
