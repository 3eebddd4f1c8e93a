"""From paths to file handles: LOOKUP name by name, symbolic links followed by the client.

The server knows no paths, and the client interprets links (RFC 1813 section 3.3.5). Everything is relative to the root
handle: an absolute target starts there again and ".." stops there, so no path leads out of the mount.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.paths import Path, components, join, text_of
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.errors import NfsError, NfsNotFound, ServerPathError, nfs_error
from rpcrdma.nfs.v3 import fattr3, ftype3, nfs_fh3, nfsstat3

__all__ = ["OUTDATED", "LookupCache", "Resolver"]


class LookupCache:
    """Directories and symbolic links by (directory handle, name), the least recently used leave first.

    An entry is used for up to `valid_s` seconds by `clock`, which counts seconds; 0 turns the cache off. At most
    `entries_max` are kept.
    """

    __slots__ = ("_clock", "_entries", "_entries_max", "_valid_s")

    def __init__(self, clock: Callable[[], float], *, valid_s: float, entries_max: int) -> None:
        self._clock = clock
        self._valid_s = valid_s
        self._entries_max = entries_max
        self._entries: OrderedDict[tuple[bytes, str], tuple[float, Node]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, directory: Node, name: str) -> Node | None:
        """The node that `name` in `directory` led to a short while ago."""
        key = (directory.handle.data, name)
        found = self._entries.get(key)
        if found is None:
            return None
        expires, node = found
        if self._clock() >= expires:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return node

    def keep(self, directory: Node, name: str, node: Node) -> None:
        """Remembers that `name` in `directory` is `node`."""
        if self._valid_s <= 0:
            return
        key = (directory.handle.data, name)
        self._entries[key] = (self._clock() + self._valid_s, node)
        self._entries.move_to_end(key)
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)

    def forget(self, directory: Node, name: str) -> None:
        """Drops the entry of `name` in `directory`, which is being changed."""
        self._entries.pop((directory.handle.data, name), None)

    def clear(self) -> None:
        """Drops everything."""
        self._entries.clear()


T = TypeVar("T")

_LINKS_MAX = 40
"""Symbolic links along one path: Linux follows as many."""

OUTDATED = (nfsstat3.NFS3ERR_STALE, nfsstat3.NFS3ERR_BADHANDLE)
"""What a server says to a handle whose object is gone."""


class Resolver:
    """Finds the objects that paths name; relative ones start at `directory`, an absolute path below the root handle.

    Directories on the way come from `cache` where it knows them; the last name of a path is always looked up.
    """

    def __init__(self, procedures: NfsProcedures, root: nfs_fh3, cache: LookupCache, directory: str = "/") -> None:
        self._procedures = procedures
        self._cache = cache
        self.root = Node(root, None, "/")
        self.directory = directory

    def absolute(self, path: Path) -> str:
        """The path from the root on."""
        return join(self.directory, text_of(path))

    async def find(self, path: Path, *, follow: bool = True) -> Node:
        """The object at `path`; with `follow` a symbolic link at its end is followed.

        Raises:
            NfsError: the object does not exist, or cannot be reached.
            OSError: ELOOP, for more than 40 symbolic links.
        """
        absolute = self.absolute(path)

        async def walk() -> Node:
            node, missing = await self._walk(absolute, follow=follow)
            if missing is not None:
                raise nfs_error(nfsstat3.NFS3ERR_NOENT, absolute)
            return node

        return await self._anew_if_outdated(walk)

    async def find_entry(self, path: Path) -> tuple[Node, str, Node]:
        """(directory, last name, the object of that name, which may be a symbolic link).

        Raises: see `find_parent`.
        """

        async def look_up() -> tuple[Node, str, Node]:
            directory, name = await self.find_parent(path)
            return directory, name, await self._procedures.lookup(directory, name, (directory, name))

        return await self._anew_if_outdated(look_up)

    async def _anew_if_outdated(self, walk: Callable[[], Awaitable[T]]) -> T:
        """`walk`, and once more if a directory from the cache is gone: its path may lead to another one."""
        remembered = len(self._cache)
        try:
            return await walk()
        except NfsError as error:
            if error.status not in OUTDATED or not remembered:
                raise
        self._cache.clear()
        return await walk()

    async def find_or_place(self, path: Path) -> tuple[Node, str | None]:
        """(the object at `path`, None), or (directory, name) in which it would have to be made.

        Raises: see `find`.
        """
        return await self._walk(self.absolute(path), follow=True)

    async def find_parent(self, path: Path) -> tuple[Node, str]:
        """(directory, last name) of `path`; the name need not exist.

        Raises:
            NfsError: NFS3ERR_EXIST for the root, NFS3ERR_INVAL where the last name is "..", and see `find`.
        """
        absolute = self.absolute(path)
        names = components(absolute)
        if names and names[-1] == ".":
            names.pop()
        if not names:
            raise nfs_error(nfsstat3.NFS3ERR_EXIST, absolute)
        if names[-1] == "..":
            raise nfs_error(nfsstat3.NFS3ERR_INVAL, absolute)
        directory = await self.find("/" + "/".join(names[:-1]))
        if not directory.is_dir:
            raise nfs_error(nfsstat3.NFS3ERR_NOTDIR, absolute)
        return directory, names[-1]

    def forget(self, directory: Node, name: str) -> None:
        """To be called when `name` in `directory` is being changed."""
        self._cache.forget(directory, name)

    def keep_made(self, directory: Node, name: str, handle: nfs_fh3 | None, attributes: fattr3 | None) -> None:
        """To be called with the result of MKDIR of `name` in `directory`: a path through it needs no LOOKUP."""
        if handle is not None and attributes is not None and attributes.type == ftype3.NF3DIR:
            self._cache.keep(directory, name, Node(handle, attributes, (directory, name)))

    async def target_of(self, link: Node) -> str:
        """The target of a symbolic link, read once.

        Raises:
            NfsError: NFS3ERR_NOENT for an empty target, as elsewhere.
        """
        if link.target is None:
            link.target = await self._procedures.readlink(link.handle, link.path)
            if not link.target or "\0" in link.target:
                raise nfs_error(nfsstat3.NFS3ERR_NOENT, link.path)
        return link.target

    async def _walk(self, path: str, *, follow: bool) -> tuple[Node, str | None]:
        stack = [self.root]
        pending = components(path)[::-1]
        links = 0
        while pending:
            name = pending.pop()
            directory = stack[-1]
            if name in {".", ".."}:
                if not directory.is_dir:
                    raise nfs_error(nfsstat3.NFS3ERR_NOTDIR, path)
                if name == ".." and len(stack) > 1:
                    stack.pop()
                stack[-1].fresh = False
                continue
            last = not pending
            node = None if last else self._cache.find(directory, name)
            if node is not None:
                # The next name may be a link to ".", which makes this node the end of the path.
                node.fresh = False
            else:
                try:
                    node = await self._procedures.lookup(directory, name, (directory, name))
                except NfsNotFound:
                    if last or pending == ["."]:
                        return _settled(directory), name
                    raise nfs_error(nfsstat3.NFS3ERR_NOENT, path) from None
                if node.is_dir or node.is_symlink:
                    self._cache.keep(directory, name, node)
            if node.is_symlink and (follow or not last):
                links += 1
                if links > _LINKS_MAX:
                    raise ServerPathError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = await self.target_of(node)
                if target.startswith("/"):
                    del stack[:]
                    stack.append(self.root)
                pending.extend(reversed(components(target)))
                continue
            stack.append(node)
        return _settled(stack[-1]), None


def _settled(node: Node) -> Node:
    """`node` with its path as text, for all the messages that name it; nodes on the way there need no text."""
    node.place = node.path
    return node
