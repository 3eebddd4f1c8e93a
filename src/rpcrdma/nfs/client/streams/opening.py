"""Opens files: the calls that each mode needs."""

from __future__ import annotations

from rpcrdma.aio.drivers.effects import random_bits
from rpcrdma.nfs import v3
from rpcrdma.nfs.client.attributes import NOW, set_attributes
from rpcrdma.nfs.client.node import DirEntry, Node
from rpcrdma.nfs.client.paths import Path, text_of
from rpcrdma.nfs.client.procedures import Created
from rpcrdma.nfs.client.resolver import OUTDATED
from rpcrdma.nfs.client.streams.file_stream import NfsFile
from rpcrdma.nfs.client.streams.open_state import OpenMode, parse_open_mode
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.errors import NfsError, nfs_error

__all__ = ["create_file", "open_file", "open_listed"]


async def open_file(volume: Volume, path: Path | DirEntry, mode: str, permissions: int) -> NfsFile:
    """Opens a regular file of `volume`; asks the server for its attributes and the caller's rights.

    `path` is a path, or a `DirEntry`, which "rb" and "r+b" open by its handle unless the file has changed or is gone.
    `mode` is "rb", "wb", "xb" or "ab", each also with "+". `permissions` is the mode of a new file.

    Raises:
        ValueError: `mode` is unknown.
        NfsError: the server refuses, or the object is no regular file; and the errors of `Caller.call`.
    """
    wanted = parse_open_mode(mode)
    if wanted.creates and text_of(path).endswith("/"):
        # As Linux, which refuses to make a file at such a path, once the directory above is found.
        await volume.resolver.find_parent(path, of_directory=True)
        raise nfs_error(v3.nfsstat3.NFS3ERR_ISDIR, volume.resolver.absolute(path))
    if wanted.exclusive:
        node = await _create_exclusively(volume, path, permissions)
    elif wanted.creates:
        node, missing = await volume.resolver.find_or_place(path)
        if missing is not None:
            # Another client may have made the file since: only "w" may empty that.
            size, how = 0 if wanted.truncates else None, v3.createmode3.UNCHECKED
            node = await create_file(volume, node, missing, permissions, how, size=size)
        else:
            await _check_access(volume, node, wanted)
            if wanted.truncates:
                node.attributes = await volume.procedures.setattr(node, set_attributes(size=0))
                node.fresh = node.attributes is not None
    else:
        listed = await _as_listed(volume, path, wanted) if isinstance(path, DirEntry) else None
        node = listed or await _found(volume, path, wanted)
    attributes = await volume.attributes(node)
    return NfsFile(volume, node, wanted, await volume.sizes(), attributes.size)


async def open_listed(volume: Volume, entry: DirEntry) -> NfsFile:
    """Opens the regular file of `entry` for reading ("rb") without a call about it; the first READ shows if it exists.

    The size is that of the listing. The only call is FSINFO, for the first file of the volume. Raises `NfsError` if the
    entry has a `refusal`, or FSINFO is refused; and the errors of `Caller.call`.
    """
    return NfsFile(volume, entry.node, parse_open_mode("rb"), await volume.sizes(), entry.attributes.size)


async def create_file(
    volume: Volume, directory: Node, name: str, permissions: int, how: v3.createmode3, *, size: int | None = 0
) -> Node:
    """Calls CREATE for a regular file and returns its node; with UNCHECKED, that of an existing file of this name.

    Args:
        volume: the file system.
        directory: the directory.
        name: the name of the file in it.
        permissions: the permission bits.
        how: UNCHECKED or GUARDED.
        size: the size to set, in octets, which cuts an existing file; None: the size is not set.

    Raises:
        NfsError: the server refuses; NfsExists with GUARDED if the name is taken; and the errors of `Caller.call`.
    """
    attributes = set_attributes(mode=permissions, size=size)
    created = await volume.procedures.create(directory, name, v3.createhow3(how, attributes))
    return await _created_node(volume, directory, name, created)


async def _create_exclusively(volume: Volume, path: Path, permissions: int) -> Node:
    directory, name = await volume.resolver.find_parent(path)
    verifier = random_bits(8 * v3.NFS3_CREATEVERFSIZE).to_bytes(v3.NFS3_CREATEVERFSIZE, "big")
    try:
        created = await volume.procedures.create(directory, name, v3.createhow3(v3.createmode3.EXCLUSIVE, verifier))
    except NfsError as error:
        if error.status != v3.nfsstat3.NFS3ERR_NOTSUPP:
            raise
        return await create_file(volume, directory, name, permissions, v3.createmode3.GUARDED)
    node = await _created_node(volume, directory, name, created)
    # The server may keep the verifier in the times, and CREATE has carried no mode (RFC 1813 section 3.3.8).
    attributes = set_attributes(mode=permissions, atime_ns=NOW, mtime_ns=NOW)
    node.attributes = await volume.procedures.setattr(node, attributes)
    node.fresh = node.attributes is not None
    return node


async def _created_node(volume: Volume, directory: Node, name: str, created: Created) -> Node:
    handle, attributes = created
    volume.resolver.forget(directory, name)
    if handle is None:
        return await volume.procedures.lookup(directory, name)
    return Node(handle, attributes, (directory, name), fresh=attributes is not None)


async def _found(volume: Volume, path: Path | DirEntry, wanted: OpenMode) -> Node:
    node = await volume.resolver.find(path)
    await _check_access(volume, node, wanted)
    return node


async def _as_listed(volume: Volume, entry: DirEntry, wanted: OpenMode) -> Node | None:
    """Returns the node of `entry`, by its handle, if it is a regular file that is unchanged since the listing.

    Returns None if it is of another type, has changed, its handle is stale, or the reply to ACCESS has no attributes.
    A file with an unchanged ctime still has its name: RENAME and REMOVE change the ctime of the file that loses a name.
    Raises `NfsError` if the server refuses the rights that the mode `wanted` needs, and the errors of `Caller.call`.
    """
    if not entry.is_file():
        return None
    node = entry.node
    try:
        await _check_rights(volume, node, wanted)
    except NfsError as error:
        if error.status not in OUTDATED:
            raise
        return None
    return node if node.fresh and entry.is_unchanged(node.attributes) else None


async def _check_access(volume: Volume, node: Node, wanted: OpenMode) -> None:
    await volume.file_attributes(node)
    await _check_rights(volume, node, wanted)


async def _check_rights(volume: Volume, node: Node, wanted: OpenMode) -> None:
    """Asks ACCESS for the rights that the mode `wanted` needs, as NFSv3 has no open.

    Stores the attributes of the reply, if it has any, in `node`, and marks them as `fresh`.

    Raises:
        NfsError: EACCES: a right is not granted; or the server refuses; and the errors of `Caller.call`.
    """
    bits = v3.ACCESS3_READ * wanted.reads | (v3.ACCESS3_MODIFY | v3.ACCESS3_EXTEND) * wanted.writes
    granted, fresh = await volume.procedures.access(node, bits)
    if granted != bits:
        raise nfs_error(v3.nfsstat3.NFS3ERR_ACCES, node.path)
    if fresh is not None:
        node.attributes = fresh
        node.fresh = True
