"""READDIR: a page of a directory, with attributes of its objects."""

from __future__ import annotations

import dataclasses
from typing import Final

from rpcrdma.nfs.export import tree
from rpcrdma.nfs.export.tree import Attributes, Entry, FileKind, Node
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import NEED_SPACE, Described, bits, bits_of, fattr_of
from rpcrdma.nfs.v4.refusal import REFUSALS, Refused, status_of
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.handles import checked_directory, covering, mounted_on
from rpcrdma.nfs.v4.server.information import describe_file_system
from rpcrdma.rpc.service import CredentialTooWeak

__all__ = ["read_directory"]

_S = nfs4.nfsstat4
_VERIFIER: Final = bytes(nfs4.NFS4_VERIFIER_SIZE)
"""The cookie verifier of all directories: cookies are valid for ever."""
_RESERVED_COOKIES: Final = (1, 2)
_ENDS_OCTETS: Final = 8 + 4 + 4
"""Octets of the result of READDIR besides entries: the verifier, the end of the list, and whether it is complete."""
_NUMBERS: Final = bits(nfs4.FATTR4_FILEID, nfs4.FATTR4_MOUNTED_ON_FILEID)
"""The set of attributes that every entry has, also if the caller cannot reach its object."""
_ERROR: Final = bits(nfs4.FATTR4_RDATTR_ERROR)


def read_directory(compound: Compound, args: nfs4.READDIR4args) -> nfs4.READDIR4resok:
    """Runs READDIR (RFC 8881 section 18.23): returns entries of the current directory after a cookie, with attributes.

    Returns the entries that fit `maxcount`, `dircount` and the room of the reply, without "." and "..". Raises
    WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_NOTDIR,
    NFS4ERR_BAD_COOKIE, NFS4ERR_TOOSMALL (no entry fits) or NFS4ERR_INVAL (an attribute that can only be set).
    """
    node = checked_directory(compound.node)
    wanted = bits_of(args.attr_request)
    # Refuses attributes that cannot be read.
    fattr_of(_numbered(compound, 0), wanted)
    if args.cookie in _RESERVED_COOKIES:
        raise Refused(_S.NFS4ERR_BAD_COOKIE)
    room = min(args.maxcount, compound.left()) - _ENDS_OCTETS
    if room <= 0:
        raise Refused(_S.NFS4ERR_TOOSMALL)
    compound.wait()
    return _page(compound, node, args, wanted, room)


def _page(compound: Compound, node: Node, args: nfs4.READDIR4args, wanted: int, room: int) -> nfs4.READDIR4resok:
    exports = compound.server.exports
    # The root of an export has another number there than what it covers.
    detailed = bool(wanted & ~(_NUMBERS | _ERROR)) or node.tree is exports.pseudo_tree
    # Octets of names and cookies: a hint, and 0 is none (RFC 8881 section 18.23.3).
    names_room = args.dircount or room
    found: list[nfs4.entry4] = []
    whole = True
    entries = node.entries(compound.caller, args.cookie, detailed=detailed)
    mounted = exports.mounted_in(node.tree)
    for entry in entries:
        if entry.name in tree.DOTS:
            continue
        root = covering(compound, node, entry.name) if entry.name in mounted else None
        if root is not None and not exports.is_export(root):
            root = None
        values = _attributes(compound, entry, root, wanted, detailed=detailed)
        name_octets = len(entry.name) + 3 & ~3
        names_room -= 12 + name_octets
        room -= 24 + name_octets + 4 * len(values.attrmask) + (len(values.attr_vals) + 3 & ~3)
        if room < 0 or (names_room < 0 and found):
            whole = False
            # Entries of one cookie come together: the next call begins behind a cookie.
            while found and found[-1].cookie == entry.cookie:
                found.pop()
            break
        found.append(nfs4.entry4(entry.cookie, entry.name, values))
    if not whole and not found:
        raise Refused(_S.NFS4ERR_TOOSMALL)
    return nfs4.READDIR4resok(_VERIFIER, nfs4.dirlist4(found, whole and entries.complete))


def _attributes(compound: Compound, entry: Entry, root: Node | None, wanted: int, *, detailed: bool) -> nfs4.fattr4:
    """Returns the attributes of an entry's object that are in the set `wanted`, which has bit n for attribute n.

    If an export is mounted over the entry, `root` is the root of that export, and the attributes are those of `root`.
    For an object that the caller cannot reach, and for a root whose file system is silent or fails, the result has
    rdattr_error alone, with the reason; or, if `wanted` has no rdattr_error, fileid and mounted_on_fileid as far as
    wanted. If the object is the root of an export that is closed to the caller, this is logged as a refusal.
    `detailed`: whether the listing was asked for filehandles and attributes: an `entry` without them is then out of the
    caller's reach, and one without attributes alone is such a root. Raises tree.Refused or OSError.
    """
    if root is None and not detailed:
        return fattr_of(_numbered(compound, entry.number), wanted)
    exports = compound.server.exports
    status = _S.NFS4_OK
    number, covered = entry.number, None
    handle, attributes = entry.handle, entry.attributes
    if root is not None:
        handle, attributes = root.handle, exports.root_attributes.of(root)
        attributes = attributes and dataclasses.replace(attributes, shown=None)
    if handle is None:
        status = _S.NFS4ERR_ACCESS
    elif attributes is None:
        status = _S.NFS4ERR_DELAY
    elif (export := exports.export_of(handle)) is not None:
        number = covered = mounted_on(compound, export.root) or number
        try:
            export.admit(compound.context, 4)
        except CredentialTooWeak:
            status = _S.NFS4ERR_WRONGSEC
        except REFUSALS as error:
            status = status_of(error)
    if status:
        described = _numbered(compound, number, status)
        return fattr_of(described, wanted & (_ERROR if wanted & _ERROR else _NUMBERS))
    assert handle is not None
    assert attributes is not None
    described = Described(attributes, handle, compound.server.lease_s, covered)
    if wanted & NEED_SPACE:
        # Only roots are of another file system; any other entry may be gone by now.
        describe_file_system(described, compound.node if export is None else export.root)
    return fattr_of(described, wanted)


def _numbered(compound: Compound, number: int, error: nfs4.nfsstat4 = _S.NFS4_OK) -> Described:
    """Returns a `Described` with inode number `number` and rdattr_error `error`, whose other fields mean nothing."""
    attributes = Attributes(
        kind=FileKind.FILE, mode=0, links=0, uid=0, gid=0, size=0, space_used=0, device=(0, 0), fsid=0, number=number,
        atime_ns=0, mtime_ns=0, ctime_ns=0, change=0,
    )  # fmt: skip
    return Described(attributes, b"", compound.server.lease_s, error=error)
