"""Copies trees from a server and to a server: the steps of each direction, which `tree_work` puts in order."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any

from rpcrdma.nfs.client.attributes import set_attributes
from rpcrdma.nfs.client.listing import Refused, entry_pages
from rpcrdma.nfs.client.node import DirEntry, Node
from rpcrdma.nfs.client.paths import told_target
from rpcrdma.nfs.client.trees import local_files
from rpcrdma.nfs.client.trees.copy_source import TreeItem
from rpcrdma.nfs.client.trees.file_transfer import FileTransfer, Progress, expressible, times_of
from rpcrdma.nfs.client.trees.hard_links import shared_by_server
from rpcrdma.nfs.client.trees.not_carried import NotCarried, lost_from_local, lost_from_server
from rpcrdma.nfs.client.trees.temporary_names import (
    give_name,
    replaceable,
    same_file,
    temporary_entry,
)
from rpcrdma.nfs.client.trees.tree_walk import check_descent
from rpcrdma.nfs.client.trees.tree_work import C, CopyFailure, CopyReport, Folder, TreeWork
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.errors import NfsExists, nfs_error
from rpcrdma.nfs.v3 import ftype3, nfsstat3

__all__ = ["UNFINISHED_MODE", "CopyFailure", "CopyReport", "Progress", "download_tree", "upload_tree"]

UNFINISHED_MODE = 0o1700
"""The mode of directories at the server whose copy is not complete, which a later copy knows by it."""

_LocalCopy = tuple[str, tuple[int, ...]]
"""The path of a local copy from the top, and its `local_files.identity_of`."""


async def download_tree(
    volume: Volume,
    node: Node,
    local: str,
    transfer: FileTransfer,
    *,
    exact_modes: bool,
    exclude: Iterable[str],
) -> CopyReport:
    """Copies the directory `node` to the local path `local`, its files by `transfer`.

    `exact_modes`: whether all objects get the server's permissions, whatever the umask is. `exclude` has shell patterns
    of entries to leave out. Returns the numbers of copied objects, and the failures.

    Raises:
        NfsError: NFS3ERR_NOTDIR: `node` is no directory; or GETATTR of it is refused.
        OSError: the local directory cannot be opened or made.
        RpcRdmaError: an error of `Caller.call`, such as TransportClosed or CallTimeout, ends the copy; but an RpcError
            or RemoteProtocolError of an entry is a failure in the report, like an OSError.
    """
    work: TreeWork[_LocalCopy] = TreeWork(
        _Download(volume, transfer, exact_modes=exact_modes), volume.options.files_at_once, exclude
    )
    attributes = await volume.attributes(node)
    if attributes.type != ftype3.NF3DIR:
        raise nfs_error(nfsstat3.NFS3ERR_NOTDIR, node.path)
    descriptor, made = await volume.from_thread(
        _close_first, local_files.open_top, local, attributes.mode, exact=exact_modes
    )
    return await _report_of(work, Folder(descriptor, node, local, made), transfer)


async def upload_tree(
    volume: Volume,
    local: str,
    place: Callable[[], Awaitable[tuple[Node, bool]]],
    transfer: FileTransfer,
    *,
    exact_modes: bool,
    exclude: Iterable[str],
) -> CopyReport:
    """Copies the contents of the local directory `local` into the directory of `place`, its files by `transfer`.

    `place`, which is called when `local` is open, returns (the directory at the server, whether it was made for this
    copy, and so gets mode and times of the original). `exact_modes`: whether existing directories get the modes and
    times of their originals, too. `exclude` has shell patterns of entries to leave out. Returns the numbers of copied
    objects, and the failures.

    Raises:
        OSError: the local directory cannot be opened; and the errors of `place`.
        RpcRdmaError: an error of `Caller.call`, such as TransportClosed or CallTimeout, ends the copy; but an RpcError
            or RemoteProtocolError of an entry is a failure in the report, like an OSError.
    """
    work: TreeWork[Node] = TreeWork(
        _Upload(volume, transfer, exact_modes=exact_modes), volume.options.files_at_once, exclude
    )
    descriptor = await volume.from_thread(os.close, local_files.open_directory, local)
    try:
        node, made = await place()
        lost = await volume.in_thread(lost_from_local, os.fstat(descriptor), f"/proc/self/fd/{descriptor}/.")
    except BaseException:
        os.close(descriptor)
        raise
    work.report.not_carried.update(lost)
    return await _report_of(work, Folder(descriptor, node, local, made), transfer)


async def _report_of(work: TreeWork[C], root: Folder, transfer: FileTransfer) -> CopyReport:
    await work.run(root)
    work.report.kept = transfer.kept
    if transfer.sparse:
        del work.report.not_carried[NotCarried.HOLES]
    return work.report


def _close_first(opened: tuple[int, bool]) -> None:
    os.close(opened[0])


class _Download:
    def __init__(self, volume: Volume, transfer: FileTransfer, *, exact_modes: bool) -> None:
        self._volume = volume
        self._transfer = transfer
        self._exact = exact_modes

    async def enter(self, parent: Folder, item: TreeItem) -> Folder:
        entry = _entry_of(item)
        node = entry.node
        check_descent(node)
        arguments = (entry.name, parent.descriptor, entry.attributes.mode)
        descriptor, made = await self._volume.from_thread(
            _close_first, local_files.create_directory, *arguments, exact=self._exact
        )
        return Folder(descriptor, node, (parent, entry.name), made)

    async def pages(self, folder: Folder, refused: Refused) -> AsyncIterator[list[TreeItem]]:
        names_max = self._volume.options.listed_names_max
        async for page in entry_pages(self._volume, folder.node, names_max=names_max, refused=refused):
            yield [_item_of(entry) for entry in page]

    async def copy(self, folder: Folder, item: TreeItem, report: CopyReport) -> tuple[_LocalCopy, int] | None:
        entry = _entry_of(item)
        local = os.path.join(folder.local, entry.name)  # noqa: PTH118 - a name is no path
        if entry.is_file():
            with local_files.told_of(local):
                octets = await self._transfer.fetch(entry.node, folder.descriptor, entry.name)
            report.files += 1
            report.octets += octets
            if item.shared is not None:
                return await self._copy_of(folder, entry.name)
        elif entry.is_symlink():
            target = told_target(await self._volume.procedures.readlink(entry.node), entry.path)
            arguments = (target, entry.name, folder.descriptor, times_of(entry.attributes))
            with local_files.told_of(local):
                await self._volume.in_thread(local_files.create_symlink, *arguments)
            report.symlinks += 1
        else:
            report.passed_over(entry.path)
        return None

    async def _copy_of(self, folder: Folder, name: str) -> tuple[_LocalCopy, int] | None:
        identity = await self._volume.in_thread(local_files.identity_of, name, folder.descriptor)
        if identity is None:
            return None
        path = "/".join((*folder.below_top()[1], name))
        return (path, identity), sys.getsizeof(path)

    async def link(self, folder: Folder, item: TreeItem, copy: _LocalCopy) -> None:
        top, _ = folder.below_top()
        arguments = (top.descriptor, *copy, item.name, folder.descriptor)
        await self._volume.in_thread(local_files.link_to, *arguments)
        self._transfer.count(0, 1)

    async def fits(self, folder: Folder, item: TreeItem) -> bool:
        free = await self._volume.in_thread(local_files.free_octets, folder.descriptor)
        return item.size <= free

    async def leave(self, folder: Folder, *, complete: bool) -> None:
        attributes = folder.node.attributes
        demanded = folder.made or self._exact
        # An interrupted copy has left directories without times, which the one that continues it finds made.
        if complete and attributes is not None and (demanded or self._transfer.resume):
            arguments = (folder.descriptor, attributes.mode, times_of(attributes))
            try:
                await self._volume.in_thread(local_files.finish_directory, *arguments, exact=self._exact)
            except PermissionError:
                # Another user's directory, which the interrupted copy has not made, keeps its times.
                if demanded:
                    raise
        else:
            os.close(folder.descriptor)

    def path(self, folder: Folder, item: TreeItem | None) -> str:
        return folder.node.path if item is None else _entry_of(item).path


class _Upload:
    def __init__(self, volume: Volume, transfer: FileTransfer, *, exact_modes: bool) -> None:
        self._volume = volume
        self._transfer = transfer
        self._exact = exact_modes

    async def enter(self, parent: Folder, item: TreeItem) -> Folder:
        name = item.name
        descriptor = await self._volume.from_thread(os.close, local_files.open_directory, name, parent.descriptor)
        try:
            node, made = await self._make_directory(parent.node, name)
        except BaseException:
            os.close(descriptor)
            raise
        return Folder(descriptor, node, (parent, name), made)

    async def pages(self, folder: Folder, refused: Refused) -> AsyncIterator[list[TreeItem]]:
        del refused  # local names are names
        pages = local_files.list_directory(folder.descriptor)
        while (page := await self._volume.in_thread(next, pages, None)) is not None:
            yield page

    async def copy(self, folder: Folder, item: TreeItem, report: CopyReport) -> tuple[Node, int] | None:
        if item.kind == stat.S_IFREG:
            if not folder.made:
                await replaceable(self._volume, folder.node, item.name)
            octets, node = await self._transfer.store(item.name, folder.descriptor, folder.node, item.name)
            report.files += 1
            report.octets += octets
            if item.shared is not None:
                return Node(node.handle, None, item.name), len(node.handle.data)
        elif item.kind == stat.S_IFLNK:
            target, found = await self._volume.in_thread(local_files.read_symlink, item.name, folder.descriptor)
            with self._volume.resolver.changing(folder.node, item.name):
                await self._make_symlink(folder.node, item.name, target, found)
            report.symlinks += 1
        else:
            report.passed_over(self.path(folder, item))
        return None

    async def link(self, folder: Folder, item: TreeItem, copy: Node) -> None:
        procedures, directory, name = self._volume.procedures, folder.node, item.name
        with self._volume.resolver.changing(directory, name):
            try:
                await procedures.link(copy, directory, name)
            except NfsExists:

                async def is_it(node: Node) -> bool:
                    return await same_file(procedures, copy, node)

                there = await replaceable(self._volume, directory, name)
                if there is None or not await is_it(there):

                    def make(temporary: str) -> Coroutine[Any, Any, None]:
                        return procedures.link(copy, directory, temporary)

                    async with temporary_entry(self._volume, directory, make) as temporary:
                        await give_name(procedures, directory, temporary, name, is_it)
        self._transfer.count(0, 1)

    async def fits(self, folder: Folder, item: TreeItem) -> bool:
        space = await self._volume.procedures.fsstat(folder.node)
        return item.size <= space.abytes

    async def leave(self, folder: Folder, *, complete: bool) -> None:
        try:
            there = 0 if folder.node.attributes is None else stat.S_IMODE(folder.node.attributes.mode)
            # The server adds the bit below a directory that has it, so that all files there have one group.
            shared = there & stat.S_ISGID
            if complete and (folder.made or there == UNFINISHED_MODE | shared or self._exact):
                found = os.fstat(folder.descriptor)
                attributes = set_attributes(
                    mode=found.st_mode if self._exact else found.st_mode | shared,
                    atime_ns=expressible(found.st_atime_ns),
                    mtime_ns=expressible(found.st_mtime_ns),
                )
                await self._volume.procedures.setattr(folder.node, attributes)
        finally:
            os.close(folder.descriptor)

    def path(self, folder: Folder, item: TreeItem | None) -> str:
        return folder.local if item is None else os.path.join(folder.local, item.name)  # noqa: PTH118

    async def _make_directory(self, parent: Node, name: str) -> tuple[Node, bool]:
        """Makes the directory `name` in `parent` unless it exists; returns (its node, whether this call has made it).

        Raises:
            NfsError: the server refuses; NFS3ERR_NOTDIR: another object has the name; and the errors of `Caller.call`.
        """
        procedures = self._volume.procedures
        made = False
        with contextlib.suppress(NfsExists), self._volume.resolver.changing(parent, name):
            handle, attributes = await procedures.mkdir(parent, name, set_attributes(mode=UNFINISHED_MODE))
            made = True
            if handle is not None:
                return Node(handle, attributes, (parent, name)), made
        node = await procedures.lookup(parent, name)
        if not node.is_dir:
            raise nfs_error(nfsstat3.NFS3ERR_NOTDIR, node.path)
        return node, made

    async def _make_symlink(self, directory: Node, name: str, target: str, found: os.stat_result) -> None:
        procedures = self._volume.procedures
        attributes = set_attributes(mode=0o777, mtime_ns=expressible(found.st_mtime_ns))
        try:
            await procedures.symlink(directory, name, target, attributes)
        except NfsExists:
            await replaceable(self._volume, directory, name)

            async def is_it(node: Node) -> bool:
                return node.is_symlink and await procedures.readlink(node) == target

            def make(temporary: str) -> Coroutine[Any, Any, object]:
                return procedures.symlink(directory, temporary, target, attributes)

            async with temporary_entry(self._volume, directory, make) as temporary:
                await give_name(procedures, directory, temporary, name, is_it)


def _item_of(entry: DirEntry) -> TreeItem:
    if entry.refusal is not None:
        return TreeItem(entry.name, 0, 0, (), None, entry)  # its copy raises the refusal
    found = entry.stat()
    shared = shared_by_server(entry.attributes)
    return TreeItem(entry.name, stat.S_IFMT(found.st_mode), found.st_size, lost_from_server(found), shared, entry)


def _entry_of(item: TreeItem) -> DirEntry:
    assert item.entry is not None, "downloads have the server's entries"
    return item.entry
