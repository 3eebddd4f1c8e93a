"""Walks through trees as `os.walk` does, in bounded memory and to an end, even if the server's tree has none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeAlias

from rpcrdma.limits import NFS_TREE_PENDING_MAX
from rpcrdma.nfs.client.directory_entry import DirEntry
from rpcrdma.nfs.client.listing import Refused, entry_pages
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.trees.descent import check_descent
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.errors import nfs_error
from rpcrdma.nfs.v3 import nfsstat3

__all__ = ["entries_below", "walk_tree"]


async def entries_below(
    volume: Volume, directory: Node, *, names_max: int, refused: Refused | None
) -> AsyncIterator[DirEntry]:
    """The entries of a directory that may have been found on a walk; see `NfsFilesystem.scandir`."""
    check_descent(directory)
    octets = (await volume.sizes()).listing
    async for page in entry_pages(volume.procedures, directory, octets, names_max=names_max, refused=refused):
        for entry in page:
            yield entry


@dataclass(frozen=True, slots=True)
class _Named:
    """A directory to be looked up when its turn comes."""

    directory: Node
    name: str


@dataclass(frozen=True, slots=True)
class _Read:
    """A directory that is yielded after those below it (bottom-up walks)."""

    node: Node
    directories: list[str]
    others: list[str]


_Pending: TypeAlias = "Node | _Named | _Read"


async def walk_tree(
    volume: Volume, top: str, *, topdown: bool, onerror: Callable[[OSError], None] | None
) -> AsyncIterator[tuple[str, list[str], list[str]]]:
    """See `NfsFilesystem.walk`."""
    tell = onerror or _pass_over
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
            node = where if isinstance(where, Node) else await _look_up(volume, where)
            names_max = volume.options.listed_names_held_max - held - len(pending)
            async for entry in entries_below(volume, node, names_max=names_max, refused=tell):
                if entry.is_dir():
                    room = len(pending) + len(directories) < NFS_TREE_PENDING_MAX
                    directories[entry.name] = entry.node if room else None
                else:
                    others.append(entry.name)
        except OSError as error:
            tell(error)
            continue
        names = list(directories)
        if topdown:
            yield node.path, names, others
        else:
            held += len(names) + len(others)
            pending.append(_Read(node, names, others))
        pending += [directories.get(name) or _Named(node, name) for name in reversed(names)]


async def _look_up(volume: Volume, named: _Named) -> Node:
    node = await volume.procedures.lookup(named.directory, named.name, (named.directory, named.name))
    if not node.is_dir:
        raise nfs_error(nfsstat3.NFS3ERR_NOTDIR, node.path)
    return node


def _pass_over(_error: OSError) -> None:
    pass
