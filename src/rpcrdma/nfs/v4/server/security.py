"""Operations that tell the security flavors of a directory: SECINFO and SECINFO_NO_NAME (RFC 8881 section 2.6)."""

from __future__ import annotations

from rpcrdma.nfs.export.tree import Node
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.handles import checked_directory, checked_name, object_named, parent_of
from rpcrdma.rpc.gss.flavors import KERBEROS_OID, SecurityFlavor

__all__ = ["flavors_of_current", "flavors_of_name"]


def _flavor(flavor: SecurityFlavor) -> nfs4.secinfo4:
    service = flavor.service
    if service is None:
        return nfs4.secinfo4(int(flavor), None)
    return nfs4.secinfo4(nfs4.RPCSEC_GSS, nfs4.rpcsec_gss_info(KERBEROS_OID, 0, nfs4.rpc_gss_svc_t(service)))


def _flavors(compound: Compound, node: Node) -> nfs4.SECINFO4resok:
    """Returns the security flavors of the tree of `node` for SECINFO; unsets the current object and stateid.

    See RFC 8881 section 2.6.3.1.1.8. Raises tree.Refused (EACCES) if an export is closed to the host of the call.
    """
    compound.current = compound.stateid = None
    return nfs4.SECINFO4resok([_flavor(flavor) for flavor in node.tree.flavors(compound.context)])


def flavors_of_name(compound: Compound, args: nfs4.SECINFO4args) -> nfs4.SECINFO4resok:
    """Runs SECINFO (RFC 8881 section 18.29): returns the flavors for the object of a name in the current directory.

    After it there is no current object. Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or
    OSError, such as NFS4ERR_NOTDIR or ENOENT.
    """
    within = checked_directory(compound.node)
    return _flavors(compound, object_named(compound, within, checked_name(args.name), admitted=False))


def flavors_of_current(compound: Compound, args: nfs4.secinfo_style4) -> nfs4.SECINFO4resok:
    """Runs SECINFO_NO_NAME (RFC 8881 section 18.45): returns the flavors for the current object or its parent.

    After it there is no current object. Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or
    OSError, such as NFS4ERR_NOENT above the root of all names, or NFS4ERR_NOTDIR for the parent of a file.
    """
    node = compound.node
    if args == nfs4.secinfo_style4.SECINFO_STYLE4_PARENT:
        node = parent_of(compound, checked_directory(node), admitted=False)
    return _flavors(compound, node)
