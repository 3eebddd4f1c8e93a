"""Operations that tell of an object: GETATTR, VERIFY, NVERIFY, ACCESS, READLINK."""

from __future__ import annotations

from typing import Final

from rpcrdma.nfs.export.tree import MODIFY, READ, FileKind, Node
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import NEED_SPACE, Described, Shown, bits_of, equal_to, fattr_of
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.xdr.codec import Encoder

__all__ = ["check_access", "get_attributes", "nverify", "read_link", "verify"]

_S = nfs4.nfsstat4
XATTR_KINDS: Final = {FileKind.FILE, FileKind.DIRECTORY}
"""Objects that may have extended attributes (RFC 8276 section 8.1)."""
_SUPPORTED: Final = (
    nfs4.ACCESS4_READ
    | nfs4.ACCESS4_LOOKUP
    | nfs4.ACCESS4_MODIFY
    | nfs4.ACCESS4_EXTEND
    | nfs4.ACCESS4_DELETE
    | nfs4.ACCESS4_EXECUTE
)
_XATTRS: Final = {nfs4.ACCESS4_XAREAD: READ, nfs4.ACCESS4_XAWRITE: MODIFY, nfs4.ACCESS4_XALIST: READ}
"""The rights that those to extended attributes (RFC 8276 section 8.5) follow from."""
_DEFINED: Final = _SUPPORTED | sum(_XATTRS)


def described(compound: Compound, node: Node, attributes: int) -> Described:
    """Collects what the values of a set of attributes of an object depend on."""
    server = compound.server
    mounted_on = server.exports.mounted_on(node)
    if attributes & NEED_SPACE:
        if not node.tree.in_memory:
            compound.wait()
        found = Described(node.attributes(), node.handle, server.lease_s, mounted_on)
        describe_file_system(found, node)
        return found
    return Described(node.attributes(), node.handle, server.lease_s, mounted_on)


def describe_file_system(described: Described, node: Node) -> None:
    """Adds what the attributes in `NEED_SPACE` need to know of a file system; may block."""
    described.space, described.paths, described.xattrs = node.space(), node.path_limits(), node.tree.xattrs


def get_attributes(compound: Compound, args: nfs4.GETATTR4args) -> bytes:
    """GETATTR: returns the wanted attributes of the current object, encoded."""
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
    """VERIFY: raises Refused (NOT_SAME) unless all attributes are as expected."""
    if not _as_expected(compound, args):
        raise Refused(_S.NFS4ERR_NOT_SAME)


def nverify(compound: Compound, args: nfs4.VERIFY4args) -> None:
    """NVERIFY: raises Refused (SAME) if all attributes are as expected."""
    if _as_expected(compound, args):
        raise Refused(_S.NFS4ERR_SAME)


def _as_expected(compound: Compound, args: nfs4.VERIFY4args) -> bool:
    expected = args.obj_attributes
    return equal_to(described(compound, compound.node, bits_of(expected.attrmask)), expected)


def check_access(compound: Compound, args: nfs4.ACCESS4args) -> nfs4.ACCESS4resok:
    """ACCESS: returns those of the wanted rights that the caller has."""
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
    """READLINK: returns the path in the current symbolic link."""
    node = compound.node
    if node.kind is not FileKind.SYMLINK:
        raise Refused(_S.NFS4ERR_WRONG_TYPE)
    if not node.tree.in_memory:
        compound.wait()
    return nfs4.READLINK4resok(node.read_link())
