"""Operations that tell of an object: GETATTR, VERIFY, NVERIFY, ACCESS, READLINK."""

from __future__ import annotations

import dataclasses
from typing import Final

from rpcrdma.nfs.export.tree import MODIFY, READ, FileKind, Node
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import NEED_SPACE, Described, Shown, bits_of, equal_to, fattr_of
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.handles import mounted_on
from rpcrdma.xdr.codec import Encoder

__all__ = ["check_access", "get_attributes", "nverify", "read_link", "verify"]

_S = nfs4.nfsstat4
XATTR_KINDS: Final = {FileKind.FILE, FileKind.DIRECTORY}
"""The kinds of objects that may have extended attributes (RFC 8276 section 8.1)."""
_SUPPORTED: Final = (
    nfs4.ACCESS4_READ
    | nfs4.ACCESS4_LOOKUP
    | nfs4.ACCESS4_MODIFY
    | nfs4.ACCESS4_EXTEND
    | nfs4.ACCESS4_DELETE
    | nfs4.ACCESS4_EXECUTE
)
_XATTRS: Final = {nfs4.ACCESS4_XAREAD: READ, nfs4.ACCESS4_XAWRITE: MODIFY, nfs4.ACCESS4_XALIST: READ}
"""The right to an object that gives each right to its extended attributes (RFC 8276 section 8.5)."""
_DEFINED: Final = _SUPPORTED | sum(_XATTRS)


def described(compound: Compound, node: Node, attributes: int) -> Described:
    """Returns a `Described`, from which `fattr_of` encodes `attributes` of `node`: bit n stands for attribute number n.

    Raises WorkerNeeded (run again in a worker thread), OSError if attributes of the file system cannot be read, or
    tree.Refused (ESTALE: the object is gone).
    """
    found = Described(node.attributes(), node.handle, compound.server.lease_s)
    if attributes >> nfs4.FATTR4_MOUNTED_ON_FILEID & 1:
        # Only then: the disk of the other export may be silent.
        found.mounted_on = mounted_on(compound, node)
        if found.mounted_on is not None:
            # Exports above, and what they have there, change while `node` does not: it does not keep the number.
            found.attributes = dataclasses.replace(found.attributes, shown=None)
    if attributes & NEED_SPACE:
        if not node.tree.in_memory:
            compound.wait()
        describe_file_system(found, node)
    return found


def describe_file_system(described: Described, node: Node) -> None:
    """Sets `space`, `paths` and `xattrs` of `described` from the file system of `node`; may block; raises OSError."""
    described.space, described.paths, described.xattrs = node.space(), node.path_limits(), node.tree.xattrs


def get_attributes(compound: Compound, args: nfs4.GETATTR4args) -> bytes:
    """Runs GETATTR (RFC 8881 section 18.7): returns attributes of the current object as an encoded fattr4.

    Raises WorkerNeeded (run again in a worker thread), Refused (NFS4ERR_INVAL: an attribute can only be set),
    tree.Refused (ESTALE: the object is gone), or OSError.
    """
    node, request = compound.current, args.attr_request
    assert node is not None
    shown = node.attributes().shown
    if type(shown) is Shown and shown.request == request:
        return shown.encoded
    asked = bits_of(request)
    found = described(compound, node, asked)
    values = fattr_of(found, asked)
    enc = Encoder()
    nfs4.encode_fattr4(enc, values)
    encoded = bytes(enc.reduced)
    shown = found.attributes.shown
    if type(shown) is Shown and shown.values is values:
        found.attributes.shown = shown._replace(request=request, encoded=encoded)
    return encoded


def verify(compound: Compound, args: nfs4.VERIFY4args) -> None:
    """Runs VERIFY: raises Refused (NFS4ERR_NOT_SAME) unless the current object has all given attributes.

    Raises WorkerNeeded (run again in a worker thread), OSError, tree.Refused (ESTALE: the object is gone), or Refused
    for an attribute that is unsupported or not comparable.
    """
    if not _as_expected(compound, args):
        raise Refused(_S.NFS4ERR_NOT_SAME)


def nverify(compound: Compound, args: nfs4.VERIFY4args) -> None:
    """Runs NVERIFY: raises Refused (NFS4ERR_SAME) if the current object has all given attributes.

    Raises WorkerNeeded (run again in a worker thread), OSError, tree.Refused (ESTALE: the object is gone), or Refused
    for an attribute that is unsupported or not comparable.
    """
    if _as_expected(compound, args):
        raise Refused(_S.NFS4ERR_SAME)


def _as_expected(compound: Compound, args: nfs4.VERIFY4args) -> bool:
    expected = args.obj_attributes
    return equal_to(described(compound, compound.node, bits_of(expected.attrmask)), expected)


def check_access(compound: Compound, args: nfs4.ACCESS4args) -> nfs4.ACCESS4resok:
    """Runs ACCESS (RFC 8881 section 18.1): returns which rights in `args` are supported, and which the caller has.

    The rights concern the current object. Raises Refused (NFS4ERR_INVAL) for an undefined right, or tree.Refused
    (ESTALE: the object is gone).
    """
    if args.access & ~_DEFINED:
        raise Refused(_S.NFS4ERR_INVAL)
    supported = args.access & _SUPPORTED
    node = compound.node
    if args.access == supported or not node.tree.xattrs or node.kind not in XATTR_KINDS:
        return nfs4.ACCESS4resok(supported, node.access(compound.caller, supported))
    rights = node.access(compound.caller, supported | READ | MODIFY)
    granted = rights & supported
    for bit, right in _XATTRS.items():
        granted |= args.access & bit if rights & right else 0
    return nfs4.ACCESS4resok(args.access, granted)


def read_link(compound: Compound, _args: None) -> nfs4.READLINK4resok:
    """Runs READLINK (RFC 8881 section 18.24): returns the target of the current object, a symbolic link.

    Raises Refused (NFS4ERR_WRONG_TYPE) for other objects, WorkerNeeded (run again in a worker thread), tree.Refused or
    OSError.
    """
    node = compound.node
    if node.kind is not FileKind.SYMLINK:
        raise Refused(_S.NFS4ERR_WRONG_TYPE)
    if not node.tree.in_memory:
        compound.wait()
    return nfs4.READLINK4resok(node.read_link())
