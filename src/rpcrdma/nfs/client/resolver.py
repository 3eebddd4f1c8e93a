"""From paths to file handles: LOOKUP name by name, symbolic links followed by the client.

The server knows no paths, and the client interprets links (RFC 1813 section 3.3.5). Everything is relative to the root
handle: an absolute target starts there again and ".." stops there, so no path leads out of the mount.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator

from rpcrdma.nfs import v3
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.paths import Path, components, join, text_of
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.errors import ExportPath, NfsError, NfsNotFound, ServerPathError, nfs_error

__all__ = ["LEADS_NOWHERE", "OUTDATED", "LookupCache", "NoSuchName", "Resolver"]


class LookupCache:
    """A cache of directories and symbolic links by (directory handle, name); drops the least recently used first.

    Args:
        clock: returns the time in seconds.
        valid_s: seconds for which an entry is used; 0 turns the cache off.
        entries_max: the most entries.
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
        """Returns the cached node of `name` in `directory`; None if there is none, or it has expired."""
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
        """Caches `node`, a directory or link (not checked), as `name` in `directory`, in place of an earlier entry.

        No effect if the cache is off.
        """
        if self._valid_s <= 0:
            return
        key = (directory.handle.data, name)
        self._entries[key] = (self._clock() + self._valid_s, node)
        self._entries.move_to_end(key)
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)

    def forget(self, directory: Node, name: str) -> None:
        """Drops the entry of `name` in `directory`, if it exists, as a call changes the name."""
        self._entries.pop((directory.handle.data, name), None)

    def clear(self) -> None:
        """Drops all entries."""
        self._entries.clear()


_LINKS_MAX = 40
"""The most symbolic links that are followed along a path, as in Linux."""

LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""Numbers of errors that prove that no object is at a path; others are failures of the caller or the server."""

OUTDATED = (v3.nfsstat3.NFS3ERR_STALE, v3.nfsstat3.NFS3ERR_BADHANDLE)
"""The statuses for a handle whose object is gone."""


class Resolver:
    """Finds the objects that paths name, by LOOKUP of each name; follows symbolic links within the mount.

    Args:
        procedures: makes the calls.
        root: the root handle of the mount.
        cache: the cache of directories and links on the way; `find` looks up the last name of a path, unless `inner`.
        directory: the absolute path at which relative paths start.
        top: the path of the root, for errors.
    """

    def __init__(
        self, procedures: NfsProcedures, root: v3.nfs_fh3, cache: LookupCache, directory: str = "/", top: str = "/"
    ) -> None:
        self._procedures = procedures
        self._cache = cache
        self._asked: dict[tuple[bytes, str], object] = {}
        """By (directory handle, name): the latest LOOKUP on its way, unless the name has been changed since."""
        self.root = Node(root, None, top)
        self._top = top
        self.directory = directory

    def absolute(self, path: Path) -> str:
        """Returns `path` as an absolute path from the root of the mount; relative paths begin at `directory`.

        If the export's URL is known, the result is an `ExportPath`: the same text, with the URL in `export_url`.

        Raises:
            ValueError: `path` holds a NUL.
        """
        absolute = join(self.directory, text_of(path))
        return self._top.with_text(absolute) if isinstance(self._top, ExportPath) else absolute

    async def find(self, path: Path, *, follow: bool = True, inner: bool = False) -> Node:
        """Returns the node of the object at `path`.

        A cached directory that the server no longer knows empties the cache, and the search starts over, once: the next
        such error is raised.

        Args:
            path: the path, absolute in the mount or relative to `directory`.
            follow: whether a symbolic link at its end is followed.
            inner: whether the cache may supply the last name, too, as for a directory in which another name is looked
                up.

        Raises:
            NoSuchName: the last name does not exist in its directory.
            NfsError: the object cannot be reached for another reason; and the errors of `Caller.call`.
            OSError: ELOOP, for more than 40 symbolic links.
            ValueError: `path` holds a NUL, or characters that stand for no octets.
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
                    key, question = (directory.handle.data, name), object()
                    self._asked[key] = question
                    try:
                        node = await self._procedures.lookup(directory, name)
                    finally:
                        asked = self._asked.get(key) is question
                        if asked:
                            del self._asked[key]
                    if asked and (node.is_dir or node.is_symlink):
                        self._cache.keep(directory, name, node)
                if not node.is_symlink or (last and not follow):
                    stack.append(node)
                    continue
                links += 1
                if links > _LINKS_MAX:
                    raise ServerPathError(errno.ELOOP, os.strerror(errno.ELOOP), absolute)
                target = await self.target_of(node)
                if not target or "\0" in target:
                    raise nfs_error(v3.nfsstat3.NFS3ERR_NOENT, node.path)
            except NfsNotFound:
                if node is not None:
                    raise
                if last:
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
        """Returns (node of the directory, last name, node of that name) of `path`.

        A symbolic link that has the last name is followed only if `path` ends in a slash or in ".", which demands a
        directory. Raises `NfsError` if LOOKUP of the name is refused, NFS3ERR_NOTDIR if such a `path` leads to another
        object, and the errors of `find_parent`, such as NFS3ERR_EXIST for the root, which has no name.
        """
        remembered = len(self._cache)
        directory, name = await self.find_parent(path, cached=True, of_directory=True)
        try:
            node = await self._procedures.lookup(directory, name)
        except NfsError as error:
            if error.status not in OUTDATED or not remembered:
                raise
            self._cache.clear()
            directory, name = await self.find_parent(path, of_directory=True)
            node = await self._procedures.lookup(directory, name)
        if components(self.absolute(path))[-1] == "." and not node.is_dir:
            # Follows a link, and refuses any object but a directory.
            node = await self.find(path)
        return directory, name, node

    async def find_or_place(self, path: Path) -> tuple[Node, str | None]:
        """Returns (node of the object at `path`, None); if only the last name is missing, (directory's node, the name).

        Symbolic links are followed: the directory and the name may be those of a link's target. Raises the other errors
        of `find`.
        """
        try:
            return await self.find(path), None
        except NoSuchName as missing:
            return missing.directory, missing.name

    async def find_parent(
        self, path: Path, *, cached: bool = False, of_directory: bool = False, removes: bool = False
    ) -> tuple[Node, str]:
        """Returns (node of the directory, last name) of `path`; the name need not exist, and is not looked up.

        With `cached`, the cache may supply the node of the directory; without it, LOOKUP does. `of_directory`: whether
        the name is that of a directory, so that `path` may end in a slash or in ".". Other names are refused with such
        an end, by the errors of Linux: the caller removes the name if `removes` is set, and makes it otherwise.

        Raises:
            NfsError: NFS3ERR_EXIST: `path` is the root; NFS3ERR_INVAL: the last name is ".."; NFS3ERR_NOTDIR: the
                object above the name is no directory; and the other errors of `find`, such as NFS3ERR_NOENT. With a
                slash or "." at its end and without `of_directory`: NFS3ERR_EXIST for a name to be made; for one to be
                removed NFS3ERR_ISDIR if it is a directory, else NFS3ERR_NOTDIR.
        """
        absolute = self.absolute(path)
        names = components(absolute)
        if names and names[-1] == ".":
            names.pop()
            if not of_directory:
                node = await self.find(absolute.rstrip("/"), follow=False)
                if not removes:
                    raise nfs_error(v3.nfsstat3.NFS3ERR_EXIST, absolute)
                raise nfs_error(v3.nfsstat3.NFS3ERR_ISDIR if node.is_dir else v3.nfsstat3.NFS3ERR_NOTDIR, absolute)
        if not names:
            raise nfs_error(v3.nfsstat3.NFS3ERR_EXIST, absolute)
        if names[-1] == "..":
            raise nfs_error(v3.nfsstat3.NFS3ERR_INVAL, absolute)
        directory = await self.find("/" + "/".join(names[:-1]), inner=cached)
        if not directory.is_dir:
            raise nfs_error(v3.nfsstat3.NFS3ERR_NOTDIR, absolute)
        return directory, names[-1]

    def forget(self, directory: Node, name: str) -> None:
        """Drops the cached entry of `name` in `directory`, which has changed; LOOKUPs under way add none."""
        self._asked.pop((directory.handle.data, name), None)
        self._cache.forget(directory, name)

    @contextlib.contextmanager
    def changing(self, directory: Node, name: str) -> Iterator[None]:
        """A context manager that drops the cached entry of `name` in `directory` at the end of its block.

        The block calls the server to change the name. LOOKUPs under way at the end add no entry.
        """
        try:
            yield
        finally:
            self.forget(directory, name)

    def keep_made(self, directory: Node, name: str, handle: v3.nfs_fh3 | None, attributes: v3.fattr3 | None) -> None:
        """Caches a directory that MKDIR has just made, so that a path through it needs no LOOKUP.

        Args:
            directory: the directory above.
            name: the name in it.
            handle: the handle in the reply of MKDIR; None: nothing is cached.
            attributes: the attributes in the reply; None, or not those of a directory: nothing is cached.
        """
        if handle is not None and attributes is not None and attributes.type == v3.ftype3.NF3DIR:
            self._cache.keep(directory, name, Node(handle, attributes, (directory, name)))

    async def target_of(self, link: Node) -> str:
        """Returns the target of the symbolic link `link`: `link.target`, which is set by READLINK if it is None.

        The target is unchecked: it may be empty or hold a NUL. Raises `NfsError` if the server refuses, and the errors
        of `Caller.call`.
        """
        if link.target is None:
            link.target = await self._procedures.readlink(link)
        return link.target


class NoSuchName(NfsNotFound):
    """The last name of a path does not exist: a FileNotFoundError (NFS3ERR_NOENT).

    Args:
        path: the path.
        directory: the directory in which the name would have to be made.
        name: the missing name.
    """

    def __init__(self, path: str, directory: Node, name: str) -> None:
        super().__init__(v3.nfsstat3.NFS3ERR_NOENT, path)
        self.directory = directory
        self.name = name


def _settled(node: Node) -> Node:
    """Replaces (directory, name) in `node.place` by the absolute path, for messages, and returns `node`."""
    node.place = node.path
    return node
