"""Operations that set, save and return filehandles: PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH."""

from __future__ import annotations

from rpcrdma.nfs.v4.nfs4 import GETFH4resok, PUTFH4args, nfsstat4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound, MustWait

__all__ = ["get_handle", "put_handle", "restore_handle", "save_handle"]


def put_handle(compound: Compound, args: PUTFH4args) -> None:
    """PUTFH: the object of a handle becomes the current one."""
    if not args.object:
        raise Refused(nfsstat4.NFS4ERR_BADHANDLE)
    node = compound.server.exports.locate(args.object, compound.context)
    if node is None:
        raise MustWait
    compound.set_current(node)


def get_handle(compound: Compound, _args: None) -> GETFH4resok:
    """GETFH."""
    return GETFH4resok(compound.node.handle)


def save_handle(compound: Compound, _args: None) -> None:
    """SAVEFH: with the current stateid."""
    compound.saved, compound.saved_stateid = compound.current, compound.stateid


def restore_handle(compound: Compound, _args: None) -> None:
    """RESTOREFH: with the stateid that was saved beside it."""
    if compound.saved is None:
        raise Refused(nfsstat4.NFS4ERR_NOFILEHANDLE)
    compound.current, compound.stateid = compound.saved, compound.saved_stateid
