"""Walks through trees like `os.walk`: in bounded memory, to an end, without the entries that patterns exclude."""

from __future__ import annotations

import errno
import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate
from typing import TypeAlias

from rpcrdma.aio.misuse import all_of
from rpcrdma.limits import NFS_TREE_DEPTH_MAX, NFS_TREE_PENDING_MAX
from rpcrdma.nfs.client.listing import Refused, entry_pages
from rpcrdma.nfs.client.node import DirEntry, LazyPath, Node, path_of
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.errors import ServerPathError, nfs_error
from rpcrdma.nfs.v3 import nfsstat3

__all__ = ["Exclusion", "OnError", "check_descent", "entries_below", "too_many_pending", "walk_tree"]


def check_descent(directory: Node) -> None:
    """Checks, before a walk enters `directory`, the directory against those above it in the walk; makes no call.

    Raises:
        OSError: ELOOP: `directory` is the same object as a directory above it; ENAMETOOLONG: it is more than
            `NFS_TREE_DEPTH_MAX` (2048) levels deep.
    """
    depth, place = 0, directory.place
    while not isinstance(place, str):
        above = place[0]
        if _same(directory, above):
            text = "the server lists this directory inside itself; it is left out"
            raise ServerPathError(errno.ELOOP, text, directory.path)
        depth += 1
        place = above.place
    if depth > NFS_TREE_DEPTH_MAX:
        text = f"this directory is more than {NFS_TREE_DEPTH_MAX:,} levels deep; it is left out"
        raise ServerPathError(errno.ENAMETOOLONG, text, directory.path)


def too_many_pending(place: LazyPath) -> OSError:
    """Returns an OSError (ENOBUFS): the directory at `place` is left out, as 50,000 others wait to be entered."""
    text = f"more than {NFS_TREE_PENDING_MAX:,} directories wait to be entered; this one and others are left out"
    return ServerPathError(errno.ENOBUFS, text, path_of(place))


def _same(one: Node, other: Node) -> bool:
    if one.handle.data == other.handle.data:
        return True
    mine, yours = one.attributes, other.attributes
    if mine is None or yours is None:
        return False
    return mine.fileid == yours.fileid and mine.fsid == yours.fsid


class Exclusion:
    """The patterns of entries that a walk of a tree leaves out; it does not enter the directories among these.

    Args:
        patterns: shell patterns. Slashes at the end of a pattern are ignored. A pattern without another slash is for
            names at any depth; any other, such as `/x` or `./x`, is for paths from the top of the tree. There `*`
            matches slashes.

    Raises:
        TypeError: `patterns` is a text itself, whose letters would be patterns, or has an item that is no text.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        if isinstance(patterns, str):
            raise TypeError(f"exclude must be a list of patterns, not a single one: write [{patterns!r}]")
        kinds: dict[bool, list[str]] = {False: [], True: []}
        for pattern in all_of("exclude", patterns, str):
            text = pattern.rstrip("/")
            kinds["/" in text].append(translate(text.removeprefix("./").lstrip("/")))
        self._names, self._paths = (
            re.compile("|".join(kinds[of_path])) if kinds[of_path] else None for of_path in (False, True)
        )

    def covers(self, name: str, path: Callable[[], str]) -> bool:
        """Returns whether a pattern matches the entry's `name`, or its path from the top, which `path` returns."""
        if self._names is not None and self._names.match(name):
            return True
        return self._paths is not None and self._paths.match(path()) is not None


class OnError:
    """Calls `onerror`, a caller's function, with an OSError; `raised` is whether `onerror` itself has raised one."""

    def __init__(self, onerror: Callable[[OSError], object]) -> None:
        self._onerror = onerror
        self.raised = False

    def __call__(self, error: OSError) -> None:
        try:
            self._onerror(error)
        except OSError:
            self.raised = True
            raise


async def entries_below(
    volume: Volume, directory: Node, *, names_max: int, refused: Refused | None
) -> AsyncIterator[DirEntry]:
    """Yields the entries of `directory` with attributes, in the server's order; calls `check_descent` first.

    `names_max` is the most names. `refused` is called with the error of each invalid name, which is left out; None:
    RemoteProtocolError is raised.

    Raises:
        OSError: ELOOP or ENAMETOOLONG from `check_descent`, EOVERFLOW for too many names, `NfsError` for a refusal.
        RpcRdmaError: the errors of `Caller.call`, and RemoteProtocolError for a listing without end.
    """
    check_descent(directory)
    async for page in entry_pages(volume, directory, names_max=names_max, refused=refused):
        for entry in page:
            yield entry


@dataclass(frozen=True, slots=True)
class _Read:
    """A directory of a bottom-up walk that is yielded after those below it, with its names in two lists."""

    node: Node
    directories: list[str]
    others: list[str]


_Pending: TypeAlias = "Node | tuple[Node, str] | _Read"
"""A directory to be listed, as a node or as (parent, name) to be looked up; or a listed directory to be yielded."""


async def walk_tree(
    volume: Volume, top: str, *, topdown: bool, onerror: Callable[[OSError], None] | None
) -> AsyncIterator[tuple[str, list[str], list[str]]]:
    """Yields (path, names of subdirectories, other names) for `top` and each directory below it.

    Symbolic links are not followed. `top` is an absolute path. `topdown`: whether a directory precedes its
    subdirectories; the caller may then remove names from the yielded list of subdirectories, which are not walked.
    `onerror` is called with each OSError; None ignores them. Raises RpcRdmaError: an error of `Caller.call`, or the
    server lists the same entries without end.
    """
    tell = OnError(onerror or (lambda _error: None))
    pending: list[_Pending] = []
    held = 0
    try:
        found = await volume.resolver.find(top)
        pending.append(Node(found.handle, await volume.attributes(found), top))
    except OSError as error:
        tell(error)
    while pending:
        where = pending.pop()
        if isinstance(where, _Read):
            held -= len(where.directories) + len(where.others)
            yield where.node.path, where.directories, where.others
            continue
        directories: dict[str, Node | None] = {}
        others: list[str] = []
        try:
            node = where if isinstance(where, Node) else await _look_up(volume, *where)
            names_max = volume.options.listed_names_held_max - held - len(pending)
            async for entry in entries_below(volume, node, names_max=names_max, refused=tell):
                if entry.refusal is not None:
                    tell(entry.refusal)
                    others.append(entry.name)
                elif entry.is_dir():
                    room = len(pending) + len(directories) < NFS_TREE_PENDING_MAX
                    directories[entry.name] = entry.node if room else None
                else:
                    others.append(entry.name)
        except OSError as error:
            if tell.raised:
                raise
            tell(error)
            continue
        names = list(directories)
        if topdown:
            yield node.path, names, others
        else:
            held += len(names) + len(others)
            pending.append(_Read(node, names, others))
        pending += [directories.get(name) or (node, name) for name in reversed(names)]


async def _look_up(volume: Volume, directory: Node, name: str) -> Node:
    node = await volume.procedures.lookup(directory, name)
    if not node.is_dir:
        raise nfs_error(nfsstat3.NFS3ERR_NOTDIR, node.path)
    return node
