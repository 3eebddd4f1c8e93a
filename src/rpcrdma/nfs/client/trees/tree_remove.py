"""Removes trees: many entries of a directory at a time, one directory after the other, in bounded memory."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass, field

from rpcrdma.limits import NFS_LISTED_NAMES_KNOWN_MAX, NFS_LISTED_NAMES_MAX, NFS_TREE_PENDING_MAX
from rpcrdma.nfs.client.listing import entry_pages
from rpcrdma.nfs.client.node import DirEntry, Node
from rpcrdma.nfs.client.trees.tree_walk import Exclusion, check_descent
from rpcrdma.nfs.client.trees.tree_work import ENTRY_ERRORS, Kept
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.client.workers import run_workers
from rpcrdma.nfs.errors import NfsNotFound, ServerPathError, nfs_error
from rpcrdma.nfs.v3 import nfsstat3

__all__ = ["RemoveReport", "remove_tree"]

_ROUND_ENTRIES = 10_000
"""Entries of one directory that are listed before they are removed: removing while listing confuses servers."""
_ROUNDS_MAX = 1000


@dataclass(slots=True)
class RemoveReport:
    """The result of `NfsFilesystem.rmtree`: the numbers of removed objects, and the failures."""

    files: int = 0
    """The number of removed objects that are no directories."""
    directories: int = 0
    """The number of removed directories."""
    excluded: int = 0
    """The number of entries that a pattern excluded; they stay, and so do the directories above them."""
    failures: list[Exception] = field(default_factory=list)
    """The first failures, at most 1,000, fewer if their paths are long; those of the file system name the path."""
    failures_total: int = 0
    """The number of all failures."""
    _kept: Kept = field(default_factory=Kept, repr=False)
    """The bound of `failures`."""

    def failed(self, error: Exception) -> None:
        """Counts a failure in `failures_total`, and adds it to `failures` unless that list is full.

        Args:
            error: the error.
        """
        self.failures_total += 1
        if self._kept.takes(str(error.filename or "") if isinstance(error, OSError) else ""):
            self.failures.append(error)

    def check(self) -> None:
        """Raises the failures, if there are any; else returns None.

        Raises:
            ExceptionGroup: the errors of `failures`.
        """
        if self.failures:
            raise ExceptionGroup(f"{self.failures_total} of the tree's entries could not be removed", self.failures)


@dataclass(slots=True, eq=False)
class _Level:
    parent: Node
    name: str
    node: Node
    pending: list[DirEntry] = field(default_factory=list)
    more: bool = True
    stuck: bool = False
    rounds: int = 0
    excluded: int = 0
    failed: set[str] = field(default_factory=set)

    def keep(self, name: str) -> None:
        """Notes that the entry `name` stays after a failure, so that a further listing passes over it."""
        self.stuck = True
        if len(self.failed) < NFS_LISTED_NAMES_KNOWN_MAX:
            self.failed.add(name)


async def remove_tree(volume: Volume, parent: Node, name: str, exclude: Iterable[str] = ()) -> RemoveReport:
    """Removes the directory `name` in `parent` with all contents; returns the numbers of removed objects, and failures.

    Entries that match a shell pattern of `exclude` stay, with the directories above them. After an OSError, RpcError or
    RemoteProtocolError, which the report takes, the rest of the tree is removed. Once more than
    NFS_LISTED_NAMES_KNOWN_MAX entries have failed, further entries of a directory may stay: that is one failure more.

    Raises:
        NfsError: NFS3ERR_NOTDIR: the object is no directory; or LOOKUP of it is refused.
        RpcRdmaError: the other errors of `Caller.call`, as for a lost connection, which end the removal.
    """
    exclusion = Exclusion(exclude)
    node = await volume.procedures.lookup(parent, name)
    if not node.is_dir:
        raise nfs_error(nfsstat3.NFS3ERR_NOTDIR, node.path)
    report = RemoveReport()
    stack = [_Level(parent, name, node)]
    pending = 0
    while stack:
        level = stack[-1]
        if level.pending:
            entry = level.pending.pop()
            pending -= 1
            directory = entry.node
            try:
                check_descent(directory)
            except OSError as error:
                report.failed(error)
                level.keep(entry.name)
            else:
                stack.append(_Level(level.node, entry.name, directory))
        elif level.more and level.rounds < _ROUNDS_MAX and _knows_failed(stack):
            level.rounds += 1
            top = stack[0].node.path
            await _empty(volume, level, report, max(1, NFS_TREE_PENDING_MAX - pending), exclusion, top)
            pending += len(level.pending)
        else:
            stack.pop()
            if level.more and level.stuck:
                text = "too many entries of this directory stay: the others were not tried"
                report.failed(ServerPathError(errno.ENOBUFS, text, level.node.path))
            if not await _remove_directory(volume, level, report) and stack:
                stack[-1].keep(level.name)
    return report


def _knows_failed(stack: list[_Level]) -> bool:
    """Returns whether the last level's failed entries are known by name, so that another listing passes over them."""
    return not stack[-1].stuck or sum(len(level.failed) for level in stack) < NFS_LISTED_NAMES_KNOWN_MAX


async def _empty(
    volume: Volume, level: _Level, report: RemoveReport, room: int, exclusion: Exclusion, top: str
) -> None:
    """Lists entries of `level.node` and removes those that are no directories.

    Up to `room` directories, at least 1, are put in `level.pending`, to be emptied next. The listing stops after the
    READDIRPLUS reply that has more directories, or the 10,000th entry, and `level.more` is set: a further call lists
    what is left, and passes over `level.failed`. Sets `level.stuck` if entries stay after a failure, or by `exclusion`,
    which matches paths relative to the path `top`. Puts failures in `report`; raises only the errors of `Caller.call`
    that end the removal (`remove_tree`).
    """
    files: list[DirEntry] = []
    level.more = False
    report.excluded -= level.excluded
    level.excluded = 0

    def refused(error: OSError) -> None:
        # Of an invalid name the message alone is known.
        if level.rounds == 1 or str(error.strerror) not in level.failed:
            report.failed(error)
        level.keep(str(error.strerror))

    try:
        async for page in entry_pages(volume, level.node, names_max=NFS_LISTED_NAMES_MAX, refused=refused):
            for entry in page:
                if exclusion.covers(entry.name, lambda entry=entry: entry.path.removeprefix(top).lstrip("/")):  # type: ignore[misc]
                    level.excluded += 1
                    level.stuck = True
                elif entry.name in level.failed:
                    continue
                elif entry.refusal is not None:
                    report.failed(entry.refusal)
                    level.keep(entry.name)
                elif not entry.is_dir():
                    files.append(entry)
                elif len(level.pending) < room:
                    level.pending.append(entry)
                else:
                    level.more = True
            if level.more or len(files) + len(level.pending) >= _ROUND_ENTRIES:
                level.more = True
                break
    except ENTRY_ERRORS as error:
        report.failed(error)
        level.stuck = True
    report.excluded += level.excluded
    left = iter(files)

    async def worker() -> None:
        for entry in left:
            try:
                with volume.resolver.changing(level.node, entry.name):
                    await volume.procedures.remove(level.node, entry.name)
                report.files += 1
            except NfsNotFound:
                pass  # another client has removed it
            except ENTRY_ERRORS as error:
                report.failed(error)
                level.keep(entry.name)

    if files:
        await run_workers(min(volume.options.files_at_once, len(files)), worker)


async def _remove_directory(volume: Volume, level: _Level, report: RemoveReport) -> bool:
    if level.stuck:
        return False
    try:
        with volume.resolver.changing(level.parent, level.name):
            await volume.procedures.rmdir(level.parent, level.name)
    except NfsNotFound:
        return True
    except ENTRY_ERRORS as error:
        report.failed(error)
        return False
    report.directories += 1
    return True
