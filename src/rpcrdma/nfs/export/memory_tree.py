"""A tree of files in memory, with crashes that lose unstable writes: for simulated servers and for tests.

Object numbers, times and write verifiers depend only on the calls and on the clock that is handed in, so that the same
calls give the same octets in every run. Everything is allowed to every caller.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from rpcrdma.nfs.export.access_terms import ExportTerms
from rpcrdma.nfs.export.directory_listing import COOKIE_DOT, COOKIE_DOT_DOT, KnownEntries
from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.export.memory_object import HANDLE_OCTETS, MemoryObject, MemoryOpenFile, place
from rpcrdma.nfs.export.name_rules import (
    check_directory,
    check_link,
    check_name,
    check_new_name,
    check_removal,
    check_rename,
)
from rpcrdma.nfs.export.tree import (
    BAD_HANDLE,
    NAME_OCTETS_MAX,
    NOT_SYNC,
    TRANSFER_OCTETS_MAX,
    Access,
    Attributes,
    Change,
    Create,
    CreateHow,
    Entry,
    FileKind,
    Make,
    Node,
    PathLimits,
    Refused,
    Space,
    Wanted,
)
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.service import CallContext

__all__ = ["MemoryNode", "MemoryOpenFile", "MemoryTree"]

_OCTETS_MAX = 1 << 28
"""Octets of data of all files, by default: an offset of a WRITE must not make a test machine allocate terabytes."""
_SECOND_NS = 1_000_000_000


class MemoryNode(MemoryObject):
    """An object of a `MemoryTree`, for as long as it exists; implements `tree.Node`. `MemoryObject` has its fields."""

    __slots__ = ()
    tree: MemoryTree
    names: dict[bytes, tuple[int, MemoryNode]]
    parent_node: MemoryNode | None

    def access(self, who: Grant, wanted: Access) -> Access:
        return wanted

    def lookup(self, who: Grant, name: bytes, *, at_once: bool) -> MemoryNode:
        check_name(name)
        check_directory(self)
        return self.parent() if name == b".." else self if name == b"." else self._find(name)

    def parent(self) -> MemoryNode:
        return self.parent_node or self

    def read_link(self) -> bytes:
        if self.kind is not FileKind.SYMLINK:
            raise Refused(errno.EINVAL)
        return self.target

    def entries(self, who: Grant, after: int, *, detailed: bool) -> KnownEntries:
        check_directory(self)
        with self.tree.lock:
            # In the order of their cookies, as they were entered.
            named = [(cookie, name, found) for name, (cookie, found) in self.names.items()]
        listed = [(COOKIE_DOT, b".", self), (COOKIE_DOT_DOT, b"..", self.parent()), *named]
        return KnownEntries(
            Entry(cookie, name, found.number, *((found.handle, found.attributes()) if detailed else ()))
            for cookie, name, found in listed
            if cookie > after
        )

    def open(self, who: Grant, wanted: Access, *, at_once: bool) -> MemoryOpenFile | None:
        """Opens this file to read and write; with `at_once` returns None, as if opening had to wait for a disk."""
        return None if at_once else self.opened()

    def open_to_read(self, who: Grant, *, at_once: bool) -> tuple[MemoryOpenFile, Attributes] | None:
        return None if at_once else (self.opened(), self.attributes())

    def opened_for_writing(self) -> MemoryOpenFile | None:
        """Returns None, as for a file that is not open: no open files are kept from call to call."""
        return None

    def create(self, who: Grant, name: bytes, create: Create, change: Change) -> MemoryNode:
        check_new_name(self, name)
        exclusive = create.how is CreateHow.EXCLUSIVE
        with self.changing(change):
            there = self.names.get(name)
            if there is not None:
                found = there[1]
                is_own = exclusive and (found.atime, found.mtime) == _stamps(create.verifier)
                if found.kind is not FileKind.FILE or not (is_own or create.how is CreateHow.UNCHECKED):
                    raise Refused(errno.EEXIST)
                if create.wanted.size is not None:
                    self.tree.resize(found, create.wanted.size)
                return found
            made = self._enter_new(name, FileKind.FILE, create.wanted)
            if exclusive:
                made.atime, made.mtime = _stamps(create.verifier)
            return made

    def make(self, who: Grant, name: bytes, make: Make, wanted: Wanted, change: Change) -> MemoryNode:
        check_new_name(self, name)
        if make.kind is FileKind.FILE:
            raise Refused(errno.EINVAL)
        if b"\0" in make.target:
            raise Refused(errno.EACCES)
        with self.changing(change):
            if name in self.names:
                raise Refused(errno.EEXIST)
            made = self._enter_new(name, make.kind, replace(wanted, size=None))
            made.target, made.device = make.target, make.device
            return made

    def set_attributes(
        self, who: Grant, wanted: Wanted, change: Change, *, guard: Callable[[Attributes], bool] | None = None
    ) -> None:
        with self.changing(change):
            if guard is not None and change.before is not None and not guard(change.before):
                raise Refused(NOT_SYNC)
            self.set(wanted)

    def remove(self, who: Grant, name: bytes, change: Change, *, is_directory: bool | None) -> None:
        check_removal(self, name, is_directory=is_directory)
        with self.changing(change):
            self.take_out(name, is_directory=is_directory)

    def rename(self, who: Grant, old: bytes, target: Node, new: bytes, source: Change, into: Change) -> None:
        check_rename(self, old, target, new)
        assert isinstance(target, MemoryNode)
        with self.changing(source), target.changing(into):
            moved = self._find(old)
            above: MemoryNode | None = target
            while above is not None:
                if above is moved:
                    raise Refused(errno.EINVAL)
                above = above.parent_node
            there = target.names.get(new)
            if there is not None:
                if there[1] is moved:
                    return
                target.take_out(new, is_directory=moved.kind is FileKind.DIRECTORY)
            del self.names[old]
            self.touch(content=True)
            if moved.kind is FileKind.DIRECTORY:
                moved.parent_node = target
            target.enter(new, moved)
            moved.touch()

    def link(self, who: Grant, directory: Node, name: bytes, change: Change) -> None:
        check_link(self, directory, name)
        assert isinstance(directory, MemoryNode)
        with directory.changing(change):
            if name in directory.names:
                raise Refused(errno.EEXIST)
            self.links += 1
            self.touch()
            directory.enter(name, self)

    def space(self) -> Space:
        """Returns the total and free octets of the tree; as total files the number of its objects, with none free."""
        free, files = self.tree.free_octets, len(self.tree.objects)
        return Space(self.tree.octets_max, free, free, files, 0, 0)

    def lease(self, on_writer: Callable[[], object]) -> MemoryLease:
        """Returns a lease that never breaks, since all writers are clients; `on_writer` is never called."""
        return MemoryLease()

    def range_locks(self, *, exclusive: bool) -> None:
        """Returns None: no local process sees the file, so locks need no mirror."""

    def path_limits(self) -> PathLimits:
        return PathLimits(0xFFFFFFFF, NAME_OCTETS_MAX)

    def _find(self, name: bytes) -> MemoryNode:
        found = self.names.get(name)
        if found is None:
            raise Refused(errno.ENOENT)
        return found[1]

    def _enter_new(self, name: bytes, kind: FileKind, wanted: Wanted) -> MemoryNode:
        """Makes and returns an object of type `kind` with the attributes `wanted`, named `name` in this directory.

        Raises Refused, with no object made: EFBIG, ENOSPC: the size exceeds the bound of the tree, or what is left of
        it; EISDIR, EINVAL: a size for another object than a regular file.
        """
        made = self.tree.object(kind)
        try:
            made.set(wanted)
        except Refused:
            self.tree.removed(made)
            raise
        if kind is FileKind.DIRECTORY:
            made.parent_node = self
        self.enter(name, made)
        return made

    def enter(self, name: bytes, entered: MemoryNode) -> None:
        """Gives the object `entered` the name `name` in this directory, and counts a change of the directory.

        The name must be free, which is not checked. The link count of `entered` stays.
        """
        self.names[name] = self.tree.next_cookie(), entered
        self.touch(content=True)

    def take_out(self, name: bytes, *, is_directory: bool | None) -> None:
        """Removes a name from this directory, and the object with its last name; counts changes of both.

        The caller has checked `name` and this directory (`check_removal`, `check_rename`), and holds the tree's lock.
        `is_directory`: the object has to be a directory (True), must not be (False), or may be either (None). Raises
        Refused: ENOENT; ENOTEMPTY: the object is a directory with entries; ENOTDIR, EISDIR: against `is_directory`.
        """
        found = self._find(name)
        if is_directory is not None and is_directory != (found.kind is FileKind.DIRECTORY):
            raise Refused(errno.ENOTDIR if is_directory else errno.EISDIR)
        if found.names:
            raise Refused(errno.ENOTEMPTY)
        del self.names[name]
        self.touch(content=True)
        found.touch()
        found.links -= 1
        if not found.links:
            self.tree.removed(found)


class MemoryLease:
    """A lease on a file in memory, which never breaks, since all writers are clients; implements `tree.Lease`."""

    broken = False


class MemoryTree:
    """A tree of objects in memory; implements `tree.Tree`, and `exports.Exports` for a server with this one export.

    `now_s` returns the time in seconds since 1970, `octets_max` bounds the data of all objects, `transfer_octets` the
    data of one READ or WRITE, and `export` has the name and terms, "/" by default; whatever its rules are, every caller
    is admitted. Changes of names and attributes are stable at once (RFC 1813 section 4.8 allows unstable data alone).
    """

    fsid = 1
    always_waits = False
    in_memory = False
    """False, so that calls run in worker threads, as those on a disk do."""
    keeps_removed = True
    xattrs = False

    def __init__(
        self,
        now_s: Callable[[], float],
        *,
        octets_max: int = _OCTETS_MAX,
        transfer_octets: int = TRANSFER_OCTETS_MAX,
        export: ExportTerms | None = None,
    ) -> None:
        self.export = export or ExportTerms(name="/")
        self.grant = Grant(ServingUser(), read_only=self.export.read_only)
        """The rights of every caller."""
        self.octets_max = octets_max
        self.transfer_octets = transfer_octets
        self.lock = threading.RLock()
        self.objects: dict[int, MemoryNode] = {}
        self._now_s = now_s
        self._octets = 0
        self._last = 0
        self._cookies = COOKIE_DOT_DOT
        self._boots = 1
        self.root = self.object(FileKind.DIRECTORY)
        self.root.mode = 0o777

    @property
    def verifier(self) -> bytes:
        """The write verifier, 8 octets, which each crash changes (RFC 1813 section 3.3.7)."""
        return self._boots.to_bytes(8, "big")

    @property
    def free_octets(self) -> int:
        """The octets by which the data of all objects together may still grow."""
        return self.octets_max - self._octets

    @property
    def trees(self) -> list[MemoryTree]:
        return [self]

    def now_ns(self) -> int:
        """Returns the time on the tree's clock, in nanoseconds since 1970."""
        return round(self._now_s() * _SECOND_NS)

    def crash(self, is_kept: Callable[[], bool]) -> None:
        """Simulates a crash: changes the write verifier, and loses each unstable write for which `is_kept()` is False.

        `is_kept` is called without arguments, once for each unstable write: file by file in the order of their
        creation, and in the order of the writes of one file. The writes that are not lost become stable.
        """
        self._boots += 1
        for each in self.objects.values():
            if each.stable is None:
                continue
            unstable, octets = each.unstable, len(each.data)
            each.data = bytearray(each.stable)
            each.stable, each.unstable = None, []
            for offset, data in unstable:
                if is_kept():
                    place(each.data, offset, data)
            self._octets += len(each.data) - octets

    def locate(
        self, handle: bytes, context: CallContext, version: int = 3, *, any_flavor: bool = False
    ) -> tuple[MemoryNode, Grant]:
        if len(handle) != HANDLE_OCTETS:
            raise Refused(BAD_HANDLE)
        found = self.objects.get(int.from_bytes(handle, "big"))
        if found is None:
            raise Refused(errno.ESTALE)
        return found, self.grant

    def admit(self, context: CallContext, version: int) -> Grant:
        return self.grant

    def admit_mount(self, context: CallContext, version: int) -> Grant:
        return self.grant

    def flavors(self, context: CallContext) -> Sequence[SecurityFlavor]:
        return self.export.security

    def file_of(self, handle: bytes) -> bytes:
        return handle

    def waits_for(self, handle: bytes) -> None:
        """Returns None: no call waits for a disk, so that threads need no bound for each file system."""

    def close_idle(self) -> None:
        """Does nothing: no objects are cached."""

    def close(self) -> list[OSError]:
        return []

    def object(self, kind: FileKind) -> MemoryNode:
        """Makes and returns an object of type `kind`: found by its handle, no name, link count 1; needs `lock` held."""
        self._last += 1
        made = self.objects[self._last] = MemoryNode(self, self._last, kind)
        return made

    def next_cookie(self) -> int:
        """Returns the cookie for a new entry of a directory, larger than all cookies of the tree before."""
        self._cookies += 1
        return self._cookies

    def take(self, octets: int) -> None:
        """Counts `octets` octets, by which an object grows, as used; a negative number counts them as free again.

        Raises Refused: ENOSPC: the tree has fewer free octets; nothing is counted then.
        """
        if octets > self.free_octets:
            raise Refused(errno.ENOSPC)
        self._octets += octets

    def resize(self, file: MemoryNode, octets: int) -> None:
        """Cuts `file` to a size of `octets`, or extends it by zeros; its earlier writes become stable.

        Raises Refused, with nothing changed: EFBIG: the size exceeds the bound of the tree; ENOSPC: too little of the
        bound is left.
        """
        if octets > self.octets_max:
            raise Refused(errno.EFBIG)
        self.take(octets - len(file.data))
        file.stable, file.unstable = None, []
        del file.data[octets:]
        file.data.extend(bytes(octets - len(file.data)))
        file.touch(content=True)

    def removed(self, found: MemoryNode) -> None:
        """Removes an object that has lost its last name from the tree, and counts its octets as free."""
        self._octets -= len(found.data)
        del self.objects[found.number]


def _stamps(verifier: bytes) -> tuple[int, int]:
    """Returns (atime, mtime), in nanoseconds, in which a file keeps the 8-octet verifier of its exclusive create."""
    return int.from_bytes(verifier[:4], "big") * _SECOND_NS, int.from_bytes(verifier[4:], "big") * _SECOND_NS
