"""From paths to file handles: LOOKUP name by name, symbolic links followed by the client.

The server knows no paths, and the client interprets links (RFC 1813 section 3.3.5). Everything is relative to the root
handle: an absolute target starts there again and ".." stops there, so no path leads out of the mount.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Callable

from rpcrdma.nfs import v3
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.paths import Path, components, join, text_of
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.errors import ExportPath, NfsError, NfsNotFound, ServerPathError, nfs_error

__all__ = ["LEADS_NOWHERE", "OUTDATED", "LookupCache", "NoSuchName", "Resolver"]


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
        """Returns the node that `name` in `directory` led to a short while ago; None if that is not known."""
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
        """Caches that `name` in `directory` is `node`."""
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


_LINKS_MAX = 40
"""Symbolic links along one path: Linux follows as many."""

LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""Errors that prove that no object is at a path, rather than trouble of the caller or the server."""

OUTDATED = (v3.nfsstat3.NFS3ERR_STALE, v3.nfsstat3.NFS3ERR_BADHANDLE)
"""The statuses for a handle whose object is gone."""


class Resolver:
    """Finds the objects that paths name; relative ones start at `directory`, an absolute path below the root handle.

    Directories on the way come from `cache` where it knows them; the last name of a path is always looked up. `top` is
    the path of the root.
    """

    def __init__(
        self, procedures: NfsProcedures, root: v3.nfs_fh3, cache: LookupCache, directory: str = "/", top: str = "/"
    ) -> None:
        self._procedures = procedures
        self._cache = cache
        self.root = Node(root, None, top)
        self._top = top
        self.directory = directory

    def absolute(self, path: Path) -> str:
        """Returns the path from the root on."""
        absolute = join(self.directory, text_of(path))
        return self._top.with_text(absolute) if isinstance(self._top, ExportPath) else absolute

    async def find(self, path: Path, *, follow: bool = True, inner: bool = False) -> Node:
        """Returns the object at `path`; with `follow` a symbolic link at its end is followed.

        `inner`: the path leads on, so that the cache may know its last name too.

        Raises:
            NfsError: the object does not exist, or cannot be reached.
            OSError: ELOOP, for more than 40 symbolic links.
        """
        absolute = self.absolute(path)
        names = components(absolute)[::-1]
        remembered = len(self._cache)
        stack, pending, links = [self.root], names[:], 0
        while pending:
            name = pending.pop()
            directory = stack[-1]
            if name in {".", ".."}:
                if not directory.is_dir:
                    raise nfs_error(v3.nfsstat3.NFS3ERR_NOTDIR, absolute)
                if name == ".." and len(stack) > 1:
                    stack.pop()
                stack[-1].fresh = False
                continue
            last = not pending
            node = None if last and not inner else self._cache.find(directory, name)
            try:
                if node is not None:
                    # The next name may be a link to ".", which makes this node the end of the path.
                    node.fresh = False
                else:
                    node = await self._procedures.lookup(directory, name)
                    if node.is_dir or node.is_symlink:
                        self._cache.keep(directory, name, node)
                if not node.is_symlink or (last and not follow):
                    stack.append(node)
                    continue
                links += 1
                if links > _LINKS_MAX:
                    raise ServerPathError(errno.ELOOP, os.strerror(errno.ELOOP), absolute)
                target = await self.target_of(node)
            except NfsNotFound:
                if node is not None:
                    raise
                if last or pending == ["."]:
                    raise NoSuchName(absolute, _settled(directory), name) from None
                raise nfs_error(v3.nfsstat3.NFS3ERR_NOENT, absolute) from None
            except NfsError as error:
                if error.status not in OUTDATED or not remembered:
                    raise
                # A cached directory is gone: its path may lead to another one.
                self._cache.clear()
                remembered = 0
                stack, pending, links = [self.root], names[:], 0
                continue
            if target.startswith("/"):
                stack = [self.root]
            pending.extend(reversed(components(target)))
        return _settled(stack[-1])

    async def find_entry(self, path: Path) -> tuple[Node, str, Node]:
        """Returns (directory, last name, the object of that name, which may be a symbolic link).

        Raises: see `find_parent`.
        """
        remembered = len(self._cache)
        directory, name = await self.find_parent(path, cached=True)
        try:
            return directory, name, await self._procedures.lookup(directory, name)
        except NfsError as error:
            if error.status not in OUTDATED or not remembered:
                raise
        self._cache.clear()
        directory, name = await self.find_parent(path)
        return directory, name, await self._procedures.lookup(directory, name)

    async def find_or_place(self, path: Path) -> tuple[Node, str | None]:
        """Returns (the object at `path`, None), or the (directory, name) in which it would have to be made.

        Raises: see `find`.
        """
        try:
            return await self.find(path), None
        except NoSuchName as missing:
            return missing.directory, missing.name

    async def find_parent(self, path: Path, *, cached: bool = False) -> tuple[Node, str]:
        """Returns (directory, last name) of `path`; the name need not exist. `cached`: a cached directory is accepted.

        Raises:
            NfsError: NFS3ERR_EXIST for the root, NFS3ERR_INVAL where the last name is "..", and see `find`.
        """
        absolute = self.absolute(path)
        names = components(absolute)
        if names and names[-1] == ".":
            names.pop()
        if not names:
            raise nfs_error(v3.nfsstat3.NFS3ERR_EXIST, absolute)
        if names[-1] == "..":
            raise nfs_error(v3.nfsstat3.NFS3ERR_INVAL, absolute)
        directory = await self.find("/" + "/".join(names[:-1]), inner=cached)
        if not directory.is_dir:
            raise nfs_error(v3.nfsstat3.NFS3ERR_NOTDIR, absolute)
        return directory, names[-1]

    def forget(self, directory: Node, name: str) -> None:
        """Forgets `name` in `directory`; to be called when it is changed."""
        self._cache.forget(directory, name)

    def keep_made(self, directory: Node, name: str, handle: v3.nfs_fh3 | None, attributes: v3.fattr3 | None) -> None:
        """Caches the result of MKDIR of `name` in `directory`: a path through it needs no LOOKUP."""
        if handle is not None and attributes is not None and attributes.type == v3.ftype3.NF3DIR:
            self._cache.keep(directory, name, Node(handle, attributes, (directory, name)))

    async def target_of(self, link: Node) -> str:
        """Returns the target of a symbolic link, read once.

        Raises:
            NfsError: NFS3ERR_NOENT for an empty target, as elsewhere.
        """
        if link.target is None:
            link.target = await self._procedures.readlink(link)
            if not link.target or "\0" in link.target:
                raise nfs_error(v3.nfsstat3.NFS3ERR_NOENT, link.path)
        return link.target


class NoSuchName(NfsNotFound):
    """No object has the last name of a path; `directory` is the directory in which it would have to be made."""

    def __init__(self, path: str, directory: Node, name: str) -> None:
        super().__init__(v3.nfsstat3.NFS3ERR_NOENT, path)
        self.directory = directory
        self.name = name


def _settled(node: Node) -> Node:
    """Returns `node` with its path as text, for the messages that name it; nodes on the way need no text."""
    node.place = node.path
    return node
