"""Copies trees in either direction: a few tasks list directories, many copy files, all in bounded memory.

Directories not yet entered stand on a stack, which keeps the number of open ones near the depth of the tree; files
wait in a queue that is short, so that listing does not run ahead of copying. A directory gets its mode and times when
everything in it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from rpcrdma.errors import RemoteProtocolError, RpcError
from rpcrdma.limits import (
    NFS_COPY_DIRECTORIES_OPEN_MAX,
    NFS_TREE_FAILURES_MAX,
    NFS_TREE_FAILURES_OCTETS_MAX,
    NFS_TREE_PENDING_MAX,
)
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.trees.copy_source import NO_ROOM, TreeItem
from rpcrdma.nfs.client.trees.hard_links import HardLinks, SharedFile
from rpcrdma.nfs.client.trees.not_carried import NotCarried
from rpcrdma.nfs.client.trees.tree_walk import Exclusion, too_many_pending
from rpcrdma.nfs.client.workers import run_together, run_workers
from rpcrdma.nfs.errors import ExportPath, ServerPathError

__all__ = ["ENTRY_ERRORS", "C", "CopyDirection", "CopyFailure", "CopyReport", "Folder", "Kept", "TreeWork"]

C = TypeVar("C")

ENTRY_ERRORS = (OSError, RpcError, RemoteProtocolError)
"""Errors of a call that concern one entry of a tree: work goes on with the others, and the report has the error."""
_SCANNERS = 4
"""The number of tasks that list directories, by one call at a time each; four hide the latency of listing."""

_TOO_DEEP_REMEDY = "copy it by a command of its own, run in a directory above it if its local path is too long"


@dataclass(slots=True, eq=False)
class Folder:
    """Both sides of a directory that is being copied.

    Attributes:
        descriptor: the open local directory.
        node: the directory at the server.
        place: the local path of the top, or (the `Folder` above, the name in it): whole paths would take memory by the
            square of the depth.
        made: whether the target directory was made for this copy.
    """

    descriptor: int
    node: Node
    place: str | tuple[Folder, str]
    made: bool

    @property
    def local(self) -> str:
        """The local path of the directory."""
        top, names = self.below_top()
        assert isinstance(top.place, str), "the top has a path"
        return os.path.join(top.place, *names)  # noqa: PTH118 - a name is no path

    def below_top(self) -> tuple[Folder, list[str]]:
        """Returns (the folder at the top of the copy, the names that lead from it to this folder)."""
        names: list[str] = []
        top = self
        while not isinstance(top.place, str):
            top, name = top.place
            names.append(name)
        return top, names[::-1]


@dataclass(frozen=True, slots=True)
class CopyFailure:
    """An object that was not copied.

    Args:
        path: the path of the object in the source; that of its directory if its name is not valid.
        error: the reason.
    """

    path: str
    error: Exception


@dataclass(slots=True)
class Kept:
    """Counts the paths in a report on a tree and their memory: a hostile server may invent many and long paths."""

    paths: int = 0
    octets: int = 0
    """The octets of memory that the paths take, which are up to four for each character."""

    def takes(self, path: str) -> bool:
        """Counts `path` and returns True while fewer than 1,000 paths and 1 MiB of them are counted; else False."""
        if self.paths >= NFS_TREE_FAILURES_MAX or (self.paths and self.octets >= NFS_TREE_FAILURES_OCTETS_MAX):
            return False
        self.paths += 1
        self.octets += sys.getsizeof(path)
        return True


@dataclass(slots=True)
class CopyReport:
    """The result of `NfsFilesystem.download_tree` and `upload_tree`: numbers of copied objects, and the failures."""

    files: int = 0
    """The number of copied files."""
    directories: int = 0
    """The number of copied directories."""
    symlinks: int = 0
    """The number of copied symbolic links."""
    octets: int = 0
    """The octets of all copied files."""
    skipped: list[str] = field(default_factory=list)
    """Paths of devices, sockets and pipes, which are never copied; at most 1,000, fewer if they are long."""
    skipped_total: int = 0
    """The number of all devices, sockets and pipes."""
    failures: list[CopyFailure] = field(default_factory=list)
    """The first failures, at most 1,000, fewer if their paths are long."""
    failures_total: int = 0
    """The number of all failures."""
    kept: int = 0
    """Files that existed with size and mtime of their originals (`resume`); `files` and `octets` count them, too."""
    hard_links: int = 0
    """The number of further names of files, copied as links to the first name's copy; `files` counts them, too."""
    excluded: int = 0
    """The number of entries that a pattern excluded, without their contents."""
    not_carried: Counter[NotCarried] = field(default_factory=Counter)
    """The number of copies without a property of their originals, by property."""
    _skipped_kept: Kept = field(default_factory=Kept, repr=False)
    """The bound of `skipped`."""
    _failures_kept: Kept = field(default_factory=Kept, repr=False)
    """The bound of `failures`."""

    def failed(self, path: str, error: Exception) -> None:
        """Counts a failure in `failures_total`, and adds it to `failures` unless that list is full.

        Args:
            path: the path of the object in the source.
            error: the reason.
        """
        self.failures_total += 1
        if self._failures_kept.takes(path):
            self.failures.append(CopyFailure(path, error))

    def passed_over(self, path: str) -> None:
        """Counts a device, socket or pipe in `skipped_total`, and adds it to `skipped` unless that list is full.

        Args:
            path: the path of the object in the source.
        """
        self.skipped_total += 1
        if self._skipped_kept.takes(path):
            self.skipped.append(path)

    def check(self) -> None:
        """Raises the failures, if there are any.

        Raises:
            ExceptionGroup: the errors of `failures`.
        """
        if self.failures:
            raise ExceptionGroup(
                f"{self.failures_total} of the tree's entries could not be copied",
                [failure.error for failure in self.failures],
            )


class CopyDirection(Protocol[C]):
    """The steps of a copy of a tree that differ between download and upload; `TreeWork` calls them.

    C is the type of a copy's place, such as a path, to which `link` can make a hard link. A method raises OSError,
    RpcError or RemoteProtocolError if its step fails.

    Shared by the methods:
        folder: the directory that has the entry `item`, opened at the source and at the target; for `leave`, the one
            whose copy has ended.
        parent: the same as `folder`, for a directory `item` that is entered.
    """

    async def enter(self, parent: Folder, item: TreeItem) -> Folder:
        """Makes the target directory of `item`, a directory in `parent`, if it is missing; returns both sides, opened.

        Raises OSError, RpcError or RemoteProtocolError.
        """

    def pages(self, folder: Folder, refused: Callable[[OSError], None]) -> AsyncIterator[list[TreeItem]]:
        """Yields the entries of the source directory by lists.

        `refused` is called with the error of each entry whose name is not valid, which is left out. Iteration raises
        OSError, RpcError or RemoteProtocolError.
        """

    async def copy(self, folder: Folder, item: TreeItem, report: CopyReport) -> tuple[C, int] | None:
        """Copies an entry that is no directory, and counts it in `report`.

        A device, socket or pipe is not copied, but listed as skipped in `report`. For a file with several names,
        returns (the place of the copy, such as its path; the octets of memory that the place takes); None for others,
        or if the copy cannot be linked. Raises OSError, RpcError or RemoteProtocolError.
        """

    async def link(self, folder: Folder, item: TreeItem, copy: C) -> None:
        """Makes `item.name` in the target directory a hard link to `copy`, in place of an existing entry of that name.

        `copy` is the place that `copy()` has returned for another name of the file.

        Raises:
            OSError: links are refused there, or the copy is no longer where it was; and RpcError, RemoteProtocolError.
        """

    async def fits(self, folder: Folder, item: TreeItem) -> bool:
        """Returns whether the file system of the target has room for `item.size` octets.

        Raises OSError, RpcError or RemoteProtocolError.
        """

    async def leave(self, folder: Folder, *, complete: bool) -> None:
        """Closes the local directory of `folder`, also if this raises OSError, RpcError or RemoteProtocolError.

        If `complete`, the target directory first gets the mode and times of the source, if this copy, or an upload that
        was interrupted, has made it, or exact modes are copied; in a resumed download also otherwise, unless the user
        may not set them.
        """

    def path(self, folder: Folder, item: TreeItem | None) -> str:
        """Returns the path in the source of `item` in `folder`, for reports; of `folder` itself if `item` is None."""


@dataclass(slots=True, eq=False)
class _Open:
    folder: Folder
    parent: _Open | None
    left: int = 1
    """The number of pieces of work left: the listing of the directory, and each entry that is not done."""


class TreeWork(Generic[C]):
    """Copies a tree and reports on it in `report`; made for a single `run`.

    A failure of an entry is recorded in `report`, and the copy continues; a lost connection or a call without an answer
    in time ends the copy.

    Args:
        direction: the steps of the direction.
        files_at_once: the most files copied at a time.
        exclude: shell patterns of entries that are not copied; one without a slash matches names at any depth.
    """

    def __init__(self, direction: CopyDirection[C], files_at_once: int, exclude: Iterable[str]) -> None:
        self.report = CopyReport()
        self._direction = direction
        self._hard_links: HardLinks[C] = HardLinks()
        self._exclusion = Exclusion(exclude)
        self._top = ""
        self._files_at_once = files_at_once
        self._queue: asyncio.Queue[tuple[_Open, TreeItem] | None] = asyncio.Queue(files_at_once)
        self._stack: list[tuple[_Open, TreeItem]] = []
        self._open: set[_Open] = set()
        self._scanning = 0
        self._copying = 0
        self._alone = asyncio.Lock()
        self._none_copying = asyncio.Event()
        self._changed = asyncio.Event()

    async def run(self, root: Folder) -> None:
        """Copies everything in `root`, the top directory with both sides open, and counts it in `report`.

        `report` takes an OSError, RpcError or RemoteProtocolError of an entry. Raises RpcRdmaError for another error of
        `Caller.call`, such as TransportClosed or CallTimeout. All local directories, also that of `root`, are closed
        when this returns or raises.
        """
        top = _Open(root, None)
        self._top = self._direction.path(root, None)
        self._open.add(top)
        try:
            await run_together(self._scan_all(top), run_workers(self._files_at_once, self._copier))
            if incomplete := self._hard_links.incomplete:
                self.report.not_carried[NotCarried.HARD_LINKS] += incomplete
        finally:
            for opened in list(self._open):
                await self._direction.leave(opened.folder, complete=False)

    async def _scan_all(self, top: _Open) -> None:
        self._scanning = 1
        await self._scan(top)
        self._scanning = 0
        await run_workers(_SCANNERS, self._scanner)
        for _ in range(self._files_at_once):
            await self._queue.put(None)

    async def _scanner(self) -> None:
        while self._stack or self._scanning:
            if not self._stack:
                self._changed.clear()
                await self._changed.wait()
                continue
            parent, item = self._stack.pop()
            self._scanning += 1
            try:
                await self._enter(parent, item)
            finally:
                self._scanning -= 1
                self._changed.set()

    async def _enter(self, parent: _Open, item: TreeItem) -> None:
        try:
            if len(self._open) >= NFS_COPY_DIRECTORIES_OPEN_MAX:
                cause = (
                    f"lies too deep: the copy has {NFS_COPY_DIRECTORIES_OPEN_MAX} directories open, and opens no more"
                )
                path = self._direction.path(parent.folder, item)
                of_server = isinstance(path, ExportPath)
                raise (ServerPathError if of_server else OSError)(errno.EMFILE, f"{cause}; {_TOO_DEEP_REMEDY}", path)
            folder = await self._direction.enter(parent.folder, item)
        except ENTRY_ERRORS as error:
            self.report.failed(self._direction.path(parent.folder, item), error)
        else:
            opened = _Open(folder, parent)
            parent.left += 1
            self._open.add(opened)
            self.report.not_carried.update(item.lost)
            await self._scan(opened)
        await self._done(parent)

    async def _scan(self, opened: _Open) -> None:
        folder = opened.folder

        def refused(error: OSError) -> None:
            self.report.failed(self._direction.path(folder, None), error)

        try:
            async for page in self._direction.pages(folder, refused):
                for item in page:
                    if self._exclusion.covers(item.name, functools.partial(self._below_top, folder, item)):
                        self.report.excluded += 1
                        continue
                    if item.is_directory and len(self._stack) >= NFS_TREE_PENDING_MAX:
                        path = self._direction.path(folder, item)
                        self.report.failed(path, too_many_pending(path))
                        continue
                    opened.left += 1
                    if item.is_directory:
                        self._stack.append((opened, item))
                        self._changed.set()
                    else:
                        await self._queue.put((opened, item))
        except ENTRY_ERRORS as error:
            self.report.failed(self._direction.path(folder, None), error)
        await self._done(opened)

    def _below_top(self, folder: Folder, item: TreeItem) -> str:
        return self._direction.path(folder, item).removeprefix(self._top).lstrip("/")

    async def _copier(self) -> None:
        while (job := await self._queue.get()) is not None:
            opened, item = job
            try:
                if item.shared is None:
                    await self._copy(opened.folder, item)
                    self.report.not_carried.update(item.lost)
                else:
                    await self._copy_or_link(opened.folder, item, item.shared)
            except ENTRY_ERRORS as error:
                self.report.failed(self._direction.path(opened.folder, item), error)
            await self._done(opened)

    async def _copy_or_link(self, folder: Folder, item: TreeItem, file: SharedFile) -> None:
        """Links `item` to the copy of its file under another name; copies `item` if there is none or the link fails.

        Waits first while the file is being copied under another name. Counts in `report` a link, or the properties that
        the copy lacks. `folder`: the directory of `item`. `file`: the file's identity (`item.shared`). Raises OSError,
        RpcError or RemoteProtocolError.
        """
        links, report = self._hard_links, self.report
        earlier = await links.copy_of(file)
        if earlier is None:
            links.begin(file)
        else:
            with contextlib.suppress(*ENTRY_ERRORS):
                await self._direction.link(folder, item, earlier)
                links.linked(file)
                report.files += 1
                report.hard_links += 1
                return
        copy: tuple[C, int] | None = None
        try:
            copy = await self._copy(folder, item)
        finally:
            told = links.end(file, *(copy or (None, 0)))
        split = earlier is not None or not told
        report.not_carried.update(kind for kind in item.lost if split or kind is not NotCarried.HARD_LINKS)

    async def _copy(self, folder: Folder, item: TreeItem) -> tuple[C, int] | None:
        """Copies an entry; if disk or quota is full, waits until no other copy is in progress, and copies it again.

        So files that are copied at once do not fill the disk together, all fail, and leave it empty. The first error is
        raised at once if no other copy was in progress, and after the wait if the entry still does not fit. For a file
        with several names, returns (the place of the copy, the octets of memory that the place takes); None for others,
        or if the copy cannot be linked. Raises OSError, RpcError or RemoteProtocolError.
        """
        async with self._alone:
            self._copying += 1
        try:
            return await self._direction.copy(folder, item, self.report)
        except OSError as error:
            if error.errno not in NO_ROOM or self._copying == 1:
                raise
            full = error
        finally:
            self._copying -= 1
            if not self._copying:
                self._none_copying.set()
        async with self._alone:
            while self._copying:
                self._none_copying.clear()
                await self._none_copying.wait()
            if not await self._direction.fits(folder, item):
                raise full
            return await self._direction.copy(folder, item, self.report)

    async def _done(self, opened: _Open | None) -> None:
        while opened is not None:
            opened.left -= 1
            if opened.left:
                return
            self._open.discard(opened)
            try:
                await self._direction.leave(opened.folder, complete=True)
                self.report.directories += 1
            except ENTRY_ERRORS as error:
                self.report.failed(self._direction.path(opened.folder, None), error)
            opened = opened.parent
