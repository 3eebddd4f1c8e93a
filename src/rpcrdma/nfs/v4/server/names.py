"""Operations that change directories: CREATE, REMOVE, RENAME, LINK."""

from __future__ import annotations

from typing import Any, Final

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Change, FileKind, Make, Node, check_changeable
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.attributes import set_on_new, wanted_of, words
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.compound import Compound
from rpcrdma.nfs.v4.server.delegations import without_delegations
from rpcrdma.nfs.v4.server.handles import check_not_covered, checked_name, existing_object
from rpcrdma.nfs.v4.state_limits import NFS4_FREED_AT_ONCE_OCTETS

__all__ = ["change_of", "create", "link", "remove", "rename"]

_S = nfs4.nfsstat4
_MADE: Final = {
    nfs4.nfs_ftype4.NF4DIR: FileKind.DIRECTORY,
    nfs4.nfs_ftype4.NF4LNK: FileKind.SYMLINK,
    nfs4.nfs_ftype4.NF4BLK: FileKind.BLOCK_DEVICE,
    nfs4.nfs_ftype4.NF4CHR: FileKind.CHARACTER_DEVICE,
    nfs4.nfs_ftype4.NF4SOCK: FileKind.SOCKET,
    nfs4.nfs_ftype4.NF4FIFO: FileKind.FIFO,
}


def change_of(directory: Node, change: Change) -> nfs4.change_info4:
    """Returns the change_info4 of `directory` from its attributes before and after an operation, in `change`.

    If `change` has both, the result is atomic. If one of them is missing, the result is not atomic: its number `after`
    is the present change number, and so is `before` if `change.before` is missing. If both are missing, nothing has
    changed: both numbers are the present one, and the result is atomic. Raises OSError if that cannot be read.
    """
    before, after = change.before, change.after
    if before is not None and after is not None:
        return nfs4.change_info4(True, before.change, after.change)
    now = directory.attributes().change
    return nfs4.change_info4(before is after, now if before is None else before.change, now)


def _directory_to_change(compound: Compound, node: Node, who: Grant, name: bytes, covered: nfs4.nfsstat4) -> Node:
    """Returns `node` if it is a directory in which `who`, the rights of the NFS caller, permits a change of `name`.

    Raises WorkerNeeded (run again in a worker thread) in the event loop if the tree is not in memory, so that the
    operation may block after the return, or if the look for an export mounted over `name` may block. Raises Refused
    (NFS4ERR_NOTDIR; NFS4ERR_GRACE; the status `covered` if an export is mounted over `name`; NFS4ERR_INVAL,
    NFS4ERR_NAMETOOLONG, NFS4ERR_BADCHAR or NFS4ERR_BADNAME for a name that no entry may have), tree.Refused (EROFS:
    `who` permits no change), or the tree.Refused or OSError of that look.
    """
    if node.kind is not FileKind.DIRECTORY:
        raise Refused(_S.NFS4ERR_NOTDIR)
    check_changeable(who)
    if compound.server.state.claims.in_grace:
        raise Refused(_S.NFS4ERR_GRACE)
    check_not_covered(compound, node, checked_name(name), covered)
    if not node.tree.in_memory:
        compound.wait()
    return node


def _wait_if_large(compound: Compound, found: Node | None) -> None:
    """Raises WorkerNeeded in the event loop if `found`, which may lose its last name, is too large to free there."""
    if found is not None and not compound.context.may_block and found.attributes().size > NFS4_FREED_AT_ONCE_OCTETS:
        compound.wait()


def _present(node: Node | None) -> Node:
    """Returns `node`, a new object; raises Refused (NFS4ERR_STALE) for None: a local process has removed it already."""
    if node is None:
        raise Refused(_S.NFS4ERR_STALE)
    return node


def create(compound: Compound, args: nfs4.CREATE4args) -> nfs4.CREATE4resok:
    """Runs CREATE (RFC 8881 section 18.4): makes a directory, symbolic link or special file in the current directory.

    The new object becomes the current one. Returns the directory's change_info4 and the attributes that were set.
    Raises WorkerNeeded (run again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_BADTYPE or
    EEXIST.
    """
    name = args.objname
    directory = _directory_to_change(compound, compound.node, compound.caller, name, _S.NFS4ERR_EXIST)
    kind = _MADE.get(args.objtype.type)
    if kind is None:
        raise Refused(_S.NFS4ERR_BADTYPE)
    # Also where the tree is in memory: names of owners are looked up.
    compound.wait()
    wanted = wanted_of(args.createattrs)
    data: Any = args.objtype.value
    target, device = b"", (0, 0)
    if kind is FileKind.SYMLINK:
        target = bytes(data)
        if not target:
            raise Refused(_S.NFS4ERR_INVAL)
    elif data is not None:
        device = data.specdata1, data.specdata2
    change = Change()
    made = directory.make(compound.caller, name, Make(kind, target, device), wanted, change)
    compound.set_current(_present(made))
    attributes = set_on_new(args.createattrs, wanted, compound.node)
    return nfs4.CREATE4resok(change_of(directory, change), words(attributes))


def remove(compound: Compound, args: nfs4.REMOVE4args) -> nfs4.REMOVE4resok:
    """Runs REMOVE (RFC 8881 section 18.25): removes a name of a file or directory from the current directory.

    Returns the current directory's change_info4. Raises WorkerNeeded (run again in a worker thread), Refused,
    tree.Refused or OSError, such as NFS4ERR_DELAY (delegations are recalled) or ENOENT.
    """
    name, change = args.target, Change()
    directory = _directory_to_change(compound, compound.node, compound.caller, name, _S.NFS4ERR_FILE_OPEN)
    removed = existing_object(compound, directory, name)
    _wait_if_large(compound, removed)
    with without_delegations(compound, removed):
        directory.remove(compound.caller, name, change, is_directory=None)
    return nfs4.REMOVE4resok(change_of(directory, change))


def rename(compound: Compound, args: nfs4.RENAME4args) -> nfs4.RENAME4resok:
    """Runs RENAME (RFC 8881 section 18.26): moves a name from the saved directory to the current one.

    Does nothing if both names are of one object. Returns the change_info4 of both directories. Raises WorkerNeeded (run
    again in a worker thread), Refused, tree.Refused or OSError, such as NFS4ERR_XDEV or ENOENT.
    """
    if compound.saved is None:
        raise Refused(_S.NFS4ERR_NOFILEHANDLE)
    old, new, busy = args.oldname, args.newname, _S.NFS4ERR_FILE_OPEN
    source = _directory_to_change(compound, compound.saved, compound.saved_caller, old, busy)
    target = _directory_to_change(compound, compound.node, compound.caller, new, busy)
    if source.tree is not target.tree:
        raise Refused(_S.NFS4ERR_XDEV)
    moved, replaced = existing_object(compound, source, old), existing_object(compound, target, new)
    if moved is not None and replaced is not None and moved.handle == replaced.handle:
        # Two names of one object: nothing is done (RFC 8881 section 18.26.3).
        return nfs4.RENAME4resok(change_of(source, Change()), change_of(target, Change()))
    _wait_if_large(compound, replaced)
    gone, come = Change(), Change()
    with without_delegations(compound, moved, replaced):
        source.rename(compound.saved_caller, old, target, new, gone, come)
    return nfs4.RENAME4resok(change_of(source, gone), change_of(target, come))


def link(compound: Compound, args: nfs4.LINK4args) -> nfs4.LINK4resok:
    """Runs LINK (RFC 8881 section 18.9): gives the saved object a further name, in the current directory.

    Returns the current directory's change_info4. Raises WorkerNeeded (run again in a worker thread), Refused,
    tree.Refused or OSError, such as NFS4ERR_ISDIR or EEXIST.
    """
    if compound.saved is None:
        raise Refused(_S.NFS4ERR_NOFILEHANDLE)
    name = args.newname
    directory = _directory_to_change(compound, compound.node, compound.caller, name, _S.NFS4ERR_EXIST)
    if compound.saved.kind is FileKind.DIRECTORY:
        raise Refused(_S.NFS4ERR_ISDIR)
    if compound.saved.tree is not directory.tree:
        raise Refused(_S.NFS4ERR_XDEV)
    change = Change()
    with without_delegations(compound, compound.saved):
        compound.saved.link(compound.saved_caller, directory, name, change)
    return nfs4.LINK4resok(change_of(directory, change))
