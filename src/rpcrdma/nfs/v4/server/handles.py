"""Operations that set, save and return filehandles: PUTFH, PUTROOTFH, LOOKUP, LOOKUPP, GETFH, SAVEFH and others."""

from __future__ import annotations

import contextlib
import errno
from typing import Final

from rpcrdma.nfs.export import tree
from rpcrdma.nfs.export.directory_listing import COOKIE_DOT_DOT
from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.export.read_only import RemovedFile
from rpcrdma.nfs.export.tree import NAME_OCTETS_MAX, FileKind, Node
from rpcrdma.nfs.v4.nfs4 import GETFH4resok, LOOKUP4args, PUTFH4args, nfs_opnum4, nfsstat4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.rpc.service import CredentialTooWeak, WorkerNeeded

__all__ = [
    "check_not_covered",
    "checked_directory",
    "checked_name",
    "covering",
    "existing_object",
    "get_handle",
    "lookup",
    "lookup_parent",
    "mounted_on",
    "object_named",
    "parent_of",
    "put_handle",
    "put_root",
    "restore_handle",
    "save_handle",
]

_S = nfsstat4
_ASK_FOR_FLAVORS: Final = (nfs_opnum4.OP_SECINFO, nfs_opnum4.OP_SECINFO_NO_NAME)
_GIVE_BACK: Final = (nfs_opnum4.OP_CLOSE, nfs_opnum4.OP_LOCKU, nfs_opnum4.OP_DELEGRETURN)
_NOT_THERE: Final = (
    errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ESTALE, errno.ELOOP, errno.ENAMETOOLONG,
)  # fmt: skip
"""Error numbers of a look-up in a path that does not lead to a directory, not even later."""
_NO_RIGHTS: Final = Grant(ServingUser(), read_only=True)
"""The rights of a client that gives back what it holds, where no operation judges the caller, and of the server itself
when it looks at an object."""


def checked_name(name: bytes) -> bytes:
    """Returns `name` if an entry of a directory may have it (RFC 8881 section 14.5), else raises Refused.

    The status is NFS4ERR_INVAL for an empty name, NFS4ERR_NAMETOOLONG for more than `NAME_OCTETS_MAX` octets,
    NFS4ERR_BADCHAR for one with "/" or a null octet, and NFS4ERR_BADNAME for "." and "..".
    """
    if not name:
        raise Refused(_S.NFS4ERR_INVAL)
    if len(name) > NAME_OCTETS_MAX:
        raise Refused(_S.NFS4ERR_NAMETOOLONG)
    if b"/" in name or b"\0" in name:
        raise Refused(_S.NFS4ERR_BADCHAR)
    if name in tree.DOTS:
        raise Refused(_S.NFS4ERR_BADNAME)
    return name


def checked_directory(node: Node) -> Node:
    """Returns `node` if it is a directory; raises Refused: NFS4ERR_SYMLINK for a symbolic link, else NFS4ERR_NOTDIR."""
    if node.kind is not FileKind.DIRECTORY:
        raise Refused(_S.NFS4ERR_SYMLINK if node.kind is FileKind.SYMLINK else _S.NFS4ERR_NOTDIR)
    return node


def object_named(compound: Compound, within: Node, name: bytes, *, admitted: bool = True) -> Node:
    """Returns the root of the export mounted over `name` in the directory `within`, else the object of this name.

    Without either, returns the pseudo directory mounted there, if there is one (`covering`). For the root of an export,
    sets `compound.caller` to the caller's rights in that export; with `admitted` False, does not check that the export
    is open to the caller, and leaves `compound.caller`. `name` is a result of `checked_name`. Raises WorkerNeeded (run
    again in a worker thread), CredentialTooWeak (the export asks for another security flavor), tree.Refused or OSError
    (ENOENT: there is no such name; EACCES: the export is closed to the caller; and others).
    """
    exports = compound.server.exports
    covered = covering(compound, within, name)
    if covered is not None and exports.is_export(covered):
        found = covered
    else:
        try:
            found = compound.or_wait(within.lookup(compound.caller, name, at_once=compound.at_once))
        except (tree.Refused, OSError) as error:
            if covered is None or error.errno != errno.ENOENT:
                raise
            found = covered
    if admitted and exports.is_export(found):
        compound.caller = compound.or_wait(found.tree.admit(compound.context, 4))
    return found


def covering(compound: Compound, within: Node, name: bytes) -> Node | None:
    """Returns the export root or pseudo directory that is mounted over `name` in the directory `within`, or None.

    A pseudo directory leads to an export below. Does not look whether `within` itself has an object of this name, which
    `object_named` prefers to a pseudo directory. Raises WorkerNeeded (run again in a worker thread), tree.Refused or
    OSError.
    """
    exports = compound.server.exports
    places = exports.mounted_in(within.tree).get(name, ())
    if len(places) > 1:
        compound.wait()
    for place in places:
        directory = _directory_at(compound, place.above, place.names, within)
        if directory is not None and directory.handle == within.handle:
            try:
                return exports.at(place.path)
            except tree.Refused:
                # A reload has ended the export meanwhile.
                return None
    return None


def _directory_at(compound: Compound, top: Node, names: tuple[bytes, ...], wanted: Node | None = None) -> Node | None:
    """Returns the object at the path `names` below `top`, the root of an export; None if there is none.

    Does not look for other exports on the way. With `wanted`, a directory of that export, None may also mean that
    another object than `wanted` is there. Raises WorkerNeeded (run again in a worker thread), tree.Refused or OSError:
    a look-up on the way has failed, as while a store does not answer, and the object (`wanted`, if given) may be there.
    """
    found = top
    for number, name in enumerate(names):
        try:
            found = compound.or_wait(found.lookup(_NO_RIGHTS, name, at_once=compound.at_once))
        except (tree.Refused, OSError) as error:
            if error.errno not in _NOT_THERE and (wanted is None or _is_below(compound, wanted, found, names[number:])):
                raise
            return None
    return found


def _is_below(compound: Compound, directory: Node, top: Node, names: tuple[bytes, ...]) -> bool:
    """Returns whether `directory` may be at the path `names` below `top`, whose first name cannot be looked up now.

    Raises WorkerNeeded (run again in a worker thread), tree.Refused or OSError.
    """
    compound.wait()
    for _ in names[1:]:
        if directory.handle == top.handle:
            return False
        directory = directory.parent()
    if directory.handle == top.handle or directory.parent().handle != top.handle:
        return False
    number = directory.attributes().number
    others = (entry for entry in top.entries(_NO_RIGHTS, COOKIE_DOT_DOT, detailed=False) if entry.name != names[0])
    return all(entry.number != number for entry in others)


def mounted_on(compound: Compound, node: Node) -> int | None:
    """Returns the inode number of the directory that `node`, the root of an export, covers; None for other objects.

    The directory is that at the path of `node` in the nearest export above, or else a pseudo directory. If that export
    has no directory there, or does not answer, or another file system is mounted over the directory on this machine, no
    file has the number. Raises WorkerNeeded (run again in a worker thread).
    """
    exports = compound.server.exports
    number: int | None = exports.mounted_on(node)
    place = None if number is None else exports.place_of(node)
    if place is not None:
        # The root is served also where the export above fails.
        with contextlib.suppress(tree.Refused, OSError):
            covered = _directory_at(compound, place.above, (*place.names, place.path[-1]))
            number = number if covered is None else covered.attributes().number
    return number


def existing_object(compound: Compound, directory: Node, name: bytes) -> Node | None:
    """Returns the object `name` in `directory`, or None if there is none; ignores exports that are mounted there.

    Raises WorkerNeeded (run again in a worker thread), tree.Refused or OSError.
    """
    try:
        return compound.or_wait(directory.lookup(compound.caller, name, at_once=compound.at_once))
    except (tree.Refused, OSError) as error:
        if error.errno != errno.ENOENT:
            raise
        return None


def check_not_covered(compound: Compound, directory: Node, name: bytes, status: nfsstat4) -> None:
    """Raises Refused with `status` if an export is mounted over `name` in `directory`: no call may change `name`.

    Raises WorkerNeeded (run again in a worker thread), tree.Refused or OSError.
    """
    covered = covering(compound, directory, name)
    if covered is not None and compound.server.exports.is_export(covered):
        raise Refused(status)


def put_root(compound: Compound, _args: None) -> None:
    """Runs PUTROOTFH and PUTPUBFH: makes the root of all names the current object.

    If the next operation is SECINFO or SECINFO_NO_NAME, any security flavor will do (RFC 8881 section 2.6.3.1). Raises
    WorkerNeeded (run again in a worker thread), CredentialTooWeak (the root asks for another security flavor) or
    tree.Refused (EACCES: the root is closed to the caller; EAGAIN: the caller's groups cannot be looked up now).
    """
    root = compound.server.exports.root
    asks = compound.next_operation in _ASK_FOR_FLAVORS
    admit = root.tree.admit_mount if asks else root.tree.admit
    compound.caller = compound.or_wait(admit(compound.context, 4))
    compound.set_current(root)


def put_handle(compound: Compound, args: PUTFH4args) -> None:
    """Runs PUTFH (RFC 8881 section 18.19): makes the object of a filehandle the current one.

    If the next operation is SECINFO or SECINFO_NO_NAME, any security flavor will do. A file that the client has open or
    delegated is found also when it has lost its last name; and if the operations that follow only close, unlock, return
    delegations and get attributes, also when the export is closed to the caller or asks for another security flavor, as
    after a reload of the exports. Raises WorkerNeeded (run again in a worker thread), Refused, CredentialTooWeak,
    tree.Refused or OSError, such as BAD_HANDLE, ESTALE, or EACCES for a closed export.
    """
    if not args.object:
        raise Refused(_S.NFS4ERR_BADHANDLE)
    exports = compound.server.exports
    try:
        found = exports.locate(args.object, compound.context)
    except CredentialTooWeak:
        if compound.next_operation in _ASK_FOR_FLAVORS:
            found = exports.locate(args.object, compound.context, any_flavor=True)
        else:
            given = _open_node(compound, args.object) if _gives_back(compound) else None
            if given is None:
                raise
            found = given, _NO_RIGHTS
    except tree.Refused as error:
        closed = error.errno == errno.EACCES and _gives_back(compound)
        # Also where the search for the file has to wait: it may have no name any more.
        lost = closed or error.errno in (errno.ESTALE, errno.EAGAIN)
        still_open = _open_node(compound, args.object) if lost else None
        unknown = error.errno == errno.EAGAIN and isinstance(still_open, RemovedFile)
        if still_open is None or (unknown and compound.next_operation not in _GIVE_BACK):
            raise
        found = still_open, _NO_RIGHTS if closed else compound.or_wait(still_open.tree.admit(compound.context, 4))
    if found is None:
        raise WorkerNeeded
    compound.current, compound.caller = found
    compound.stateid = None


def _gives_back(compound: Compound) -> bool:
    """Returns whether the operations after the running one are CLOSE, LOCKU, DELEGRETURN and GETATTR alone.

    Returns False if there is no operation, or only GETATTR. Linux sends GETATTR along with CLOSE and DELEGRETURN.
    """
    following = set(compound.call.shape.kinds[compound.position + 1 :])
    return not following.isdisjoint(_GIVE_BACK) and following <= {*_GIVE_BACK, nfs_opnum4.OP_GETATTR}


def _open_node(compound: Compound, handle: bytes) -> Node | None:
    """Returns the file of a filehandle if the client of `compound` has it open or delegated, else None.

    Finds a file also when it has lost its last name, or its export is closed to the caller by now. In a tree that does
    not keep removed files, the result for each file, removed or not, is a `RemovedFile`, which can only be closed and
    unlocked, and its delegation returned. Returns None once the server does not serve the export any more.
    """
    claims, file = compound.server.state.claims, compound.server.exports.file_of(handle)
    with claims.lock:
        for holder in (*(each for each, _ in claims.sharers(file)), *claims.delegates(file)):
            if holder.client is compound.client and holder.handle == handle:
                node: Node | None = holder.node
                # An export that was removed is served to nobody.
                if node is None or node.tree not in compound.server.exports.trees:
                    return None
                return node if node.tree.keeps_removed else RemovedFile(node)
    return None


def get_handle(compound: Compound, _args: None) -> GETFH4resok:
    """Runs GETFH (RFC 8881 section 18.8): returns the current filehandle; that there is one was checked before."""
    return GETFH4resok(compound.node.handle)


def save_handle(compound: Compound, _args: None) -> None:
    """Runs SAVEFH (RFC 8881 section 18.28): saves the current filehandle, checked to exist, and the current stateid."""
    compound.saved, compound.saved_caller = compound.current, compound.caller
    compound.saved_stateid = compound.stateid


def restore_handle(compound: Compound, _args: None) -> None:
    """Runs RESTOREFH (RFC 8881 section 18.27): makes the saved filehandle and the saved stateid current.

    Raises Refused (NFS4ERR_NOFILEHANDLE) if there is no saved filehandle.
    """
    if compound.saved is None:
        raise Refused(_S.NFS4ERR_NOFILEHANDLE)
    compound.current, compound.caller = compound.saved, compound.saved_caller
    compound.stateid = compound.saved_stateid


def lookup(compound: Compound, args: LOOKUP4args) -> None:
    """Runs LOOKUP (RFC 8881 section 18.13): makes the object of a name in the current directory the current object.

    Raises WorkerNeeded (run again in a worker thread), Refused, CredentialTooWeak, tree.Refused or OSError, such as
    ENOENT.
    """
    within = checked_directory(compound.node)
    compound.set_current(object_named(compound, within, checked_name(args.objname)))


def lookup_parent(compound: Compound, _args: None) -> None:
    """Runs LOOKUPP (RFC 8881 section 18.14): makes the directory above the current one the current object.

    Raises WorkerNeeded (run again in a worker thread), Refused, CredentialTooWeak, tree.Refused or OSError, such as
    NFS4ERR_NOENT above the root of all names.
    """
    compound.set_current(parent_of(compound, checked_directory(compound.node)))


def parent_of(compound: Compound, within: Node, *, admitted: bool = True) -> Node:
    """Returns the directory above `within`; if it is in another tree, sets `compound.caller` to the rights there.

    With `admitted` False, as for SECINFO_NO_NAME, checks no rights in another tree, and leaves `compound.caller`.
    Raises WorkerNeeded (run again in a worker thread), Refused (NFS4ERR_NOENT) above the root of all names,
    CredentialTooWeak, tree.Refused or OSError.
    """
    exports = compound.server.exports
    if exports.is_export(within) or within.tree is exports.pseudo_tree:
        above = exports.parent(within)
        if above is None:
            raise Refused(_S.NFS4ERR_NOENT)
        place = exports.place_of(within)
        if place is not None and not exports.is_export(above):
            above = _directory_at(compound, place.above, place.names) or above
        if admitted:
            compound.caller = compound.or_wait(above.tree.admit(compound.context, 4))
        return above
    if not within.tree.in_memory:
        compound.wait()
    return within.parent()
