"""Temporary names at a server. They are random: if one is taken, or gone, an earlier try of our own call has run.

A call whose reply was lost with the connection is sent again. The server recognises the repeat unless it was restarted
meanwhile; then it runs the call anew, and finds the name to be made taken, or the name to be renamed gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from rpcrdma.errors import CallTimeout, RemoteProtocolError, RpcRdmaError, TransportClosed
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.streams.opening import create_file
from rpcrdma.nfs.client.trees import local_files
from rpcrdma.nfs.client.trees.copy_source import of_no_use
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.errors import NfsError, NfsExists, NfsNotFound
from rpcrdma.nfs.v3 import ACCESS3_EXTEND, ACCESS3_MODIFY, createmode3, ftype3

__all__ = ["give_name", "kept_file", "looked_up", "replaceable", "same_file", "temporary_entry", "temporary_file"]

T = TypeVar("T")

_UNFINISHED_MODE = 0o600
_WRITING = ACCESS3_MODIFY | ACCESS3_EXTEND
_REPLACED = {ftype3.NF3REG, ftype3.NF3LNK, ftype3.NF3DIR}
"""Types of objects that RENAME may replace; it refuses a directory in the place of a file itself."""
_REMOVING_S = 10.0
"""Seconds that a failed copy waits for the removal of its unfinished file, as the server may be silent."""


@contextlib.asynccontextmanager
async def temporary_file(volume: Volume, directory: Node) -> AsyncIterator[Node]:
    """Yields, for `async with`, the node of a new empty file with a random name in `directory`.

    The block renames the file. An exception in the block, cancellation included, removes it; failures of that are
    ignored.

    Raises:
        NfsError: the server refuses to make it; and the errors of `Caller.call`.
    """
    name = local_files.temporary_name()
    async with _removed_on_failure(volume, directory, name, _create(volume, directory, name)) as node:
        yield node


@contextlib.asynccontextmanager
async def kept_file(volume: Volume, directory: Node, name: str) -> AsyncIterator[Node]:
    """Yields, for `async with`, the node of the partial copy `name` in `directory`, or of a new empty file there.

    The block renames the complete file. If the block fails, the file stays, unless its source has changed or a disk or
    quota is full. The node is that of a `temporary_file` instead if `name` is no regular file, has another mode than
    0600, or was there and has a second name, another owner than new files of this caller, or is refused by ACCESS:
    another user may have put it there.

    Raises:
        NfsError: the server refuses to make the file; and the errors of `Caller.call`.
    """
    node = found = await looked_up(volume.procedures, directory, name)
    if node is None:
        making = create_file(volume, directory, name, _UNFINISHED_MODE, createmode3.GUARDED, size=None)
        try:
            node = await _answered(volume, directory, name, making)
        except NfsExists:
            node = found = await volume.procedures.lookup(directory, name)
    attributes = await volume.attributes(node)
    usable = attributes.type == ftype3.NF3REG and attributes.mode & 0o777 == _UNFINISHED_MODE
    if usable and found is not None:
        usable = (
            attributes.nlink == 1
            and (await volume.procedures.access(found, _WRITING))[0] == _WRITING
            # ACCESS grants root everything.
            and attributes.uid == await _owner_of_new_files(volume, directory)
        )
    if not usable:
        if found is None:
            await _remove(volume, directory, name)  # made above, with a mode of the server's choice
        async with temporary_file(volume, directory) as other:
            yield other
        return
    try:
        yield node
    except BaseException as error:
        if of_no_use(error):
            await _remove(volume, directory, name)
        raise


async def _owner_of_new_files(volume: Volume, directory: Node) -> int:
    name = local_files.temporary_name()
    async with _removed_on_failure(volume, directory, name, _create(volume, directory, name)) as node:
        owner = (await volume.attributes(node)).uid
    await _remove(volume, directory, name)
    return owner


@contextlib.asynccontextmanager
async def temporary_entry(
    volume: Volume, directory: Node, make: Callable[[str], Coroutine[Any, Any, object]]
) -> AsyncIterator[str]:
    """Yields, for `async with`, the random temporary name of a new object or link in `directory`.

    `make` takes the name and makes the object. Its errors are raised, except `NfsExists`: an earlier transmission of
    its call has then made the object. An exception in the block, cancellation included, removes the object.
    """
    name = local_files.temporary_name()

    async def made() -> None:
        with contextlib.suppress(NfsExists):
            await make(name)

    async with _removed_on_failure(volume, directory, name, made()):
        yield name


async def give_name(
    procedures: NfsProcedures, directory: Node, temporary: str, name: str, ours: Callable[[Node], Awaitable[bool]]
) -> None:
    """Renames `temporary` to `name` in `directory`, replacing an object of that name.

    If `temporary` is gone, an earlier transmission of the call may have run: that is no error if `ours`, which takes
    the node of `name`, returns True.

    Raises:
        NfsError: the server refuses; and the errors of `Caller.call`.
    """
    try:
        await procedures.rename(directory, temporary, directory, name)
    except NfsNotFound:
        node = await looked_up(procedures, directory, name)
        if node is None or not await ours(node):
            raise


async def replaceable(volume: Volume, directory: Node, name: str) -> Node | None:
    """Returns the node of `name` in `directory`, which a copy is to replace; None if it is missing or LOOKUP refused.

    Raises `NfsError` (EINVAL) for a device, pipe or socket, which no copy replaces, and the errors of `Caller.call`.
    """
    there = await looked_up(volume.procedures, directory, name)
    if there is not None and there.attributes is not None and there.attributes.type not in _REPLACED:
        await volume.file_attributes(there)
    return there


async def same_file(procedures: NfsProcedures, one: Node, other: Node) -> bool:
    """Returns whether two nodes are of one file: their handles are equal, or else fsid and fileid, by GETATTR, are.

    Raises `NfsError` if the server refuses, and the errors of `Caller.call`.
    """
    if one.handle == other.handle:
        return True
    first = await procedures.getattr(one)
    second = await procedures.getattr(other)
    return (first.fsid, first.fileid) == (second.fsid, second.fileid)


@contextlib.asynccontextmanager
async def _removed_on_failure(
    volume: Volume, directory: Node, name: str, making: Coroutine[Any, Any, T]
) -> AsyncIterator[T]:
    made = volume.start(_answered(volume, directory, name, making))
    try:
        # A caller that is cancelled does not end it.
        await asyncio.wait((made,))
        if made.cancelled():
            raise TransportClosed("the file system was closed")  # noqa: TRY301 - as if `making` had failed
        yield made.result()
    except BaseException:
        await _remove(volume, directory, name, made)
        raise


async def _answered(volume: Volume, directory: Node, name: str, making: Coroutine[Any, Any, T]) -> T:
    """Returns the result of `making`, which makes `name` in `directory`, or raises its error.

    After CallTimeout or RemoteProtocolError, which leave open whether `name` was made, it removes `name` first.
    """
    try:
        return await making
    except (CallTimeout, RemoteProtocolError):
        await _remove(volume, directory, name)
        raise


async def _remove(volume: Volume, directory: Node, name: str, made: asyncio.Task[Any] | None = None) -> None:
    """Removes `name` from `directory` by REMOVE; ignores errors, and waits up to 10 s for the reply.

    `made`, unless None, makes the name: it is waited for, and if it has failed, nothing is removed. A cancellation, as
    of the other copies when one has failed, is raised only when all is done.
    """
    removing = volume.start(_removed(volume, directory, name, made))
    cancelled: asyncio.CancelledError | None = None
    while not removing.done():
        try:
            await asyncio.wait((removing,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _removed(volume: Volume, directory: Node, name: str, made: asyncio.Task[Any] | None) -> None:
    if made is not None:
        # If it is still on its way, it must not overtake the call that removes the name.
        await asyncio.wait((made,))
        if not made.cancelled() and made.exception() is not None:
            return
    with contextlib.suppress(OSError, RpcRdmaError):
        async with asyncio.timeout(_REMOVING_S):
            await volume.procedures.remove(directory, name)


async def _create(volume: Volume, directory: Node, name: str) -> Node:
    try:
        return await create_file(volume, directory, name, _UNFINISHED_MODE, createmode3.GUARDED, size=None)
    except NfsExists:
        node = await looked_up(volume.procedures, directory, name)
        if node is None:
            raise
        attributes = await volume.attributes(node)
        if attributes.type != ftype3.NF3REG or attributes.size:
            raise
        return node


async def looked_up(procedures: NfsProcedures, directory: Node, name: str) -> Node | None:
    """Returns the node of `name` in `directory`; None if the server refuses LOOKUP. Raises errors of `Caller.call`."""
    try:
        return await procedures.lookup(directory, name)
    except NfsError:
        return None
