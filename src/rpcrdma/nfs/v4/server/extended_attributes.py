"""Extended attributes: GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR (RFC 8276 section 8.4).

Neither locks nor share reservations concern them, while delegations do (section 8.8).
"""

from __future__ import annotations

import hashlib

from rpcrdma.nfs.export.abilities import Extended, XattrHow
from rpcrdma.nfs.export.tree import Change, Node, check_changeable
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.delegations import without_delegations
from rpcrdma.nfs.v4.server.information import XATTR_KINDS
from rpcrdma.nfs.v4.server.names import change_of
from rpcrdma.nfs.v4.state_limits import NFS4_XATTR_NAME_OCTETS_MAX, NFS4_XATTR_OCTETS_MAX

__all__ = ["get_xattr", "list_xattrs", "remove_xattr", "set_xattr"]

_S = nfs4.nfsstat4
_ENDS_OCTETS = 8 + 4 + 4
"""Octets of the result of LISTXATTRS besides names: the cookie, the number of names, and whether they are the last."""


def get_xattr(compound: Compound, args: nfs4.GETXATTR4args) -> nfs4.GETXATTR4resok:
    """Runs GETXATTR (RFC 8276 section 8.4.1): returns the value of an extended attribute of the current object.

    Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_INVAL or
    ENODATA, or Refused with the status in `compound.too_big` if the reply has no room for the value.
    """
    name, (_, node) = _checked(args.gxa_name), _extended(compound)
    value = node.get_xattr(compound.caller, name)
    if compound.left() < 4 + (len(value) + 3 & ~3):
        raise Refused(compound.too_big)
    return nfs4.GETXATTR4resok(value)


def set_xattr(compound: Compound, args: nfs4.SETXATTR4args) -> nfs4.SETXATTR4resok:
    """Runs SETXATTR (RFC 8276 section 8.4.2): sets an extended attribute of the current object.

    Returns the object's change_info4. Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or
    OSError, such as NFS4ERR_DELAY (delegations are recalled), NFS4ERR_XATTR2BIG or EEXIST.
    """
    name, change = _checked(args.sxa_key), Change()
    if len(args.sxa_value) > NFS4_XATTR_OCTETS_MAX:
        raise Refused(_S.NFS4ERR_XATTR2BIG)
    node, extended = _to_change(compound)
    with without_delegations(compound, node):
        extended.set_xattr(compound.caller, name, args.sxa_value, XattrHow(args.sxa_option), change)
    return nfs4.SETXATTR4resok(change_of(node, change))


def list_xattrs(compound: Compound, args: nfs4.LISTXATTRS4args) -> nfs4.LISTXATTRS4resok:
    """Runs LISTXATTRS (RFC 8276 section 8.4.3): returns names of extended attributes of the current object.

    They are those after a cookie that fit `lxa_maxcount` and the room of the reply. The cookie of a name is a digest of
    it, and names are in the order of their cookies, so that a listing continues after the same name when others have
    been created or removed. Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such
    as NFS4ERR_TOOSMALL (no name fits) or EACCES.
    """
    _, extended = _extended(compound)
    room = min(args.lxa_maxcount, compound.left()) - _ENDS_OCTETS
    if room < 0:
        raise Refused(_S.NFS4ERR_TOOSMALL)
    found = sorted((_cookie(name), name) for name in extended.list_xattrs(compound.caller))
    behind = [each for each in found if each[0] > args.lxa_cookie]
    names: list[bytes] = []
    last = args.lxa_cookie
    for cookie, name in behind:
        room -= 4 + (len(name) + 3 & ~3)
        if room < 0:
            break
        names.append(name)
        last = cookie
    if behind and not names:
        raise Refused(_S.NFS4ERR_TOOSMALL)
    return nfs4.LISTXATTRS4resok(last, names, len(names) == len(behind))


def remove_xattr(compound: Compound, args: nfs4.REMOVEXATTR4args) -> nfs4.REMOVEXATTR4resok:
    """Runs REMOVEXATTR (RFC 8276 section 8.4.4): removes an extended attribute of the current object.

    Returns the object's change_info4. Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or
    OSError, such as NFS4ERR_DELAY (delegations are recalled) or ENODATA.
    """
    name, change = _checked(args.rxa_name), Change()
    node, extended = _to_change(compound)
    with without_delegations(compound, node):
        extended.remove_xattr(compound.caller, name, change)
    return nfs4.REMOVEXATTR4resok(change_of(node, change))


def _checked(name: bytes) -> bytes:
    """Returns `name` if it has 1 to `NFS4_XATTR_NAME_OCTETS_MAX` octets, none of them null.

    Raises Refused: NFS4ERR_NAMETOOLONG for a longer name, NFS4ERR_INVAL for an empty one or one with a null octet.
    """
    if not name or b"\0" in name:
        raise Refused(_S.NFS4ERR_INVAL)
    if len(name) > NFS4_XATTR_NAME_OCTETS_MAX:
        raise Refused(_S.NFS4ERR_NAMETOOLONG)
    return name


def _cookie(name: bytes) -> int:
    """Returns the cookie of a name, a digest of it from 1 to 2**64 - 1; 0 stands for the beginning of a listing."""
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") or 1


def _extended(compound: Compound) -> tuple[Node, Extended]:
    """Returns the current object twice, as `Node` and as `Extended`, if its methods may be called in this thread.

    Raises Refused (NFS4ERR_NOTSUPP if the object's tree has no extended attributes, NFS4ERR_WRONG_TYPE if the object is
    neither a regular file nor a directory), else WorkerNeeded (run again in a worker thread) in the event loop, since
    the methods may block, unless the tree is in memory.
    """
    node = compound.node
    if not node.tree.xattrs:
        raise Refused(_S.NFS4ERR_NOTSUPP)
    if node.kind not in XATTR_KINDS:
        raise Refused(_S.NFS4ERR_WRONG_TYPE)
    if not node.tree.in_memory:
        compound.wait()
    assert isinstance(node, Extended)
    return node, node


def _to_change(compound: Compound) -> tuple[Node, Extended]:
    """Returns the current object twice, as `Node` and as `Extended`, for a change of its extended attributes.

    Raises WorkerNeeded (run again in a worker thread), Refused (NFS4ERR_NOTSUPP, NFS4ERR_WRONG_TYPE, NFS4ERR_GRACE),
    or tree.Refused (EROFS: the export is read-only for the caller).
    """
    found = _extended(compound)
    check_changeable(compound.caller)
    if compound.server.state.claims.in_grace:
        raise Refused(_S.NFS4ERR_GRACE)
    return found
