"""The records of the access log about operations of version 4."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from rpcrdma.nfs.export.tree import Node
from rpcrdma.nfs.server.audit import Audit, NamedObject
from rpcrdma.nfs.v4.nfs4 import nfs_opnum4, nfsstat4, open_claim_type4, opentype4
from rpcrdma.nfs.v4.refusal import REFUSALS, status_of
from rpcrdma.nfs.v4.server.compound import Compound, Handler, KeptReply
from rpcrdma.nfs.v4.server.service import HANDLERS, Nfs4Service
from rpcrdma.rpc.service import CredentialTooWeak, WorkerNeeded

__all__ = ["watch_compounds"]

_O = nfs_opnum4
_NamedObjects: TypeAlias = Callable[[Compound, Any], list[NamedObject]]


def _of(node: Node | None, name: bytes | None = None) -> NamedObject:
    text = None if name is None else bytes(name).decode("utf-8", "surrogateescape")
    return NamedObject(None if node is None else node.handle, text)


def _created(compound: Compound, args: Any) -> list[NamedObject]:
    """Returns the file that an OPEN with `args` may create, by directory and name, as a list of one `NamedObject`.

    Returns [] for an OPEN that cannot create a file by its name.
    """
    if args.openhow.opentype is not opentype4.OPEN4_CREATE or args.claim.claim is not open_claim_type4.CLAIM_NULL:
        return []
    return [_of(compound.current, args.claim.value)]


def _entered(compound: Compound, args: Any) -> list[NamedObject]:
    """Returns [the object] by which LOOKUP, PUTROOTFH or PUTPUBFH may enter an export; [] if the operation cannot.

    The object is a name in a directory of the pseudo file system (LOOKUP), or the root if that is an export. `args` are
    the arguments of LOOKUP, None for the others; `compound` is the COMPOUND before the operation.
    """
    exports, current = compound.server.exports, compound.current
    if args is None:
        return [_of(exports.root)] if exports.is_export(exports.root) else []
    return [_of(current, args.objname)] if current is not None and current.tree is exports.pseudo_tree else []


_OPERATIONS: Final[dict[int, tuple[str, _NamedObjects]]] = {
    _O.OP_CREATE: ("create", lambda compound, args: [_of(compound.current, args.objname)]),
    _O.OP_LINK: ("create", lambda compound, args: [_of(compound.saved), _of(compound.current, args.newname)]),
    _O.OP_OPEN: ("create", _created),
    _O.OP_REMOVE: ("remove", lambda compound, args: [_of(compound.current, args.target)]),
    _O.OP_RENAME: (
        "rename",
        lambda compound, args: [_of(compound.saved, args.oldname), _of(compound.current, args.newname)],
    ),
    _O.OP_SETATTR: ("setattr", lambda compound, _: [_of(compound.current)]),
    _O.OP_SETXATTR: ("setattr", lambda compound, _: [_of(compound.current)]),
    _O.OP_REMOVEXATTR: ("setattr", lambda compound, _: [_of(compound.current)]),
    _O.OP_LOOKUP: ("mount", _entered),
    _O.OP_PUTROOTFH: ("mount", _entered),
    _O.OP_PUTPUBFH: ("mount", _entered),
}
"""For each operation number: the kind of its records, and a function that returns, before the operation runs, the
objects that it is about."""


def watch_compounds(audit: Audit, service: Nfs4Service) -> None:
    """Replaces handlers of a version 4 service by handlers that also write an audit record after the operation.

    It may be called while the service is offered: the next COMPOUND uses the new handlers.

    Args:
        audit: writes the records; its `watch` has been called with the services of version 3 over the same exports.
        service: the service; in its `handlers`, by operation number, those are replaced whose kind of record ("mount",
            "create", "remove", "rename" or "setattr") is in `audit.kinds`; the others become handlers without a record.
    """
    wanted = {
        number: _audited(audit, HANDLERS[number], kind, _O(number).name.removeprefix("OP_"), places)
        for number, (kind, places) in _OPERATIONS.items()
        if kind in audit.kinds
    }
    service.handlers = {**HANDLERS, **wanted} if wanted else HANDLERS


def _audited(audit: Audit, handler: Handler, kind: str, operation: str, places: _NamedObjects) -> Handler:
    @functools.wraps(handler)
    def run(compound: Compound, args: Any) -> Any:
        found = places(compound, args)
        status = nfsstat4.NFS4ERR_SERVERFAULT
        try:
            value = handler(compound, args)
            status = nfsstat4.NFS4_OK
        except (WorkerNeeded, KeptReply):
            # It runs again in a worker thread, or has run.
            found = []
            raise
        except CredentialTooWeak:
            status = nfsstat4.NFS4ERR_WRONGSEC
            raise
        except REFUSALS as error:
            status = status_of(error)
            raise
        finally:
            if kind == "mount" and found and not status:
                found = _root(compound)
            if found:
                audit.record(kind, operation, compound.context, status.name, *found)
        return value

    return run


def _root(compound: Compound) -> list[NamedObject]:
    """Returns [the current object of `compound`, by its handle] if that object is the root of an export, else []."""
    current = compound.current
    return [_of(current)] if current is not None and compound.server.exports.is_export(current) else []
