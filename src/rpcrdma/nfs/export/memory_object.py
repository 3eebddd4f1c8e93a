"""Objects in memory: their attributes, the octets of files, open files, and the count of changes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rpcrdma.nfs.export.tree import (
    SERVER_TIME,
    Attributes,
    Change,
    FileKind,
    Refused,
    Stable,
    Time,
    Wanted,
    Written,
)
from rpcrdma.wire.buffers import Buffer

__all__ = ["HANDLE_OCTETS", "MemoryObject", "MemoryOpenFile", "place"]

HANDLE_OCTETS: Final = 8
_MODES = {FileKind.FILE: 0o600, FileKind.DIRECTORY: 0o700, FileKind.SYMLINK: 0o777}
"""The default modes of new objects; those of other kinds are 0o600."""


class MemoryObject:
    """The base of `MemoryNode` that has the object's attributes, content and names. Times are by the tree's clock."""

    __slots__ = (
        "atime", "changes", "ctime", "data", "device", "gid", "kind", "links", "mode", "mtime", "names", "number",
        "parent_node", "stable", "target", "tree", "uid", "unstable",
    )  # fmt: skip

    def __init__(self, tree: Any, number: int, kind: FileKind) -> None:
        self.tree = tree
        self.number = number
        self.kind = kind
        self.mode = _MODES.get(kind, 0o600)
        now_ns: int = tree.now_ns()
        self.atime = self.mtime = self.ctime = now_ns
        self.changes = 0
        self.uid = self.gid = 0
        self.links = 1
        self.device = 0, 0
        self.data = bytearray()
        """The content of a file, unstable writes included."""
        self.stable: bytes | None = None
        """The content of a file that no crash loses; None: all of `data`."""
        self.unstable: list[tuple[int, bytes]] = []
        """(offset, octets) of the writes since `stable`, in order."""
        self.target = b""
        """The path in a symbolic link."""
        self.names: dict[bytes, tuple[int, Any]] = {}
        """The entries of a directory: a cookie and the object, by name."""
        self.parent_node: Any = None
        """The directory above a directory; None for the root and for other objects."""

    @property
    def handle(self) -> bytes:
        """The object's number in 8 octets, big-endian."""
        return self.number.to_bytes(HANDLE_OCTETS, "big")

    def attributes(self) -> Attributes:
        size = len(self.data) or len(self.target)
        return Attributes(
            self.kind,
            self.mode,
            self.links,
            self.uid,
            self.gid,
            size,
            size,
            self.device,
            self.tree.fsid,
            self.number,
            self.atime,
            self.mtime,
            self.ctime,
            self.changes,
        )

    def opened(self) -> MemoryOpenFile:
        """Returns an open file for this regular file; raises Refused: EISDIR: a directory; EINVAL: another object."""
        if self.kind is FileKind.DIRECTORY:
            raise Refused(errno.EISDIR)
        if self.kind is not FileKind.FILE:
            raise Refused(errno.EINVAL)
        return MemoryOpenFile(self)

    @contextmanager
    def changing(self, change: Change) -> Iterator[None]:
        """A context manager that holds the tree's lock, and fills `change` with this object's attributes around it.

        Those after are set also if the block raises; its error passes.
        """
        with self.tree.lock:
            change.before = self.attributes()
            try:
                yield
            finally:
                change.after = self.attributes()

    def set(self, wanted: Wanted) -> None:
        """Sets the attributes in `wanted` that are not None, if any, and the ctime, and raises the change attribute.

        The caller holds the tree's lock, which `changing` takes. Raises Refused, with nothing set: EISDIR, EINVAL: a
        size for an object that is no regular file; EFBIG, ENOSPC: the size exceeds the bound of the tree, or what is
        left of it.
        """
        now = self.tree.now_ns()
        if wanted.size is not None:
            self.opened()
            self.tree.resize(self, wanted.size)
        self.mode = self.mode if wanted.mode is None else wanted.mode
        self.uid = self.uid if wanted.uid is None else wanted.uid
        self.gid = self.gid if wanted.gid is None else wanted.gid
        self.atime = _time(wanted.atime, self.atime, now)
        self.mtime = _time(wanted.mtime, self.mtime, now)
        self.touch()

    def touch(self, *, content: bool = False) -> None:
        """Adds 1 to the change attribute, and sets the ctime to the present time; with `content` the mtime as well."""
        self.changes += 1
        self.ctime = self.tree.now_ns()
        if content:
            self.mtime = self.ctime


def _time(wanted: Time, present: int, now: int) -> int:
    return present if wanted is None else now if wanted is SERVER_TIME else wanted


class MemoryOpenFile:
    """An open file of a `MemoryTree`, for reading and writing; implements `tree.OpenFile`."""

    __slots__ = ("node",)

    def __init__(self, node: MemoryObject) -> None:
        self.node = node

    @property
    def handle(self) -> bytes:
        return self.node.handle

    def attributes(self) -> Attributes:
        return self.node.attributes()

    def read(self, buffer: memoryview, offset: int, *, at_once: bool) -> int:
        node = self.node
        with node.tree.lock:
            octets = max(min(len(buffer), len(node.data) - offset), 0)
            with memoryview(node.data) as data:
                buffer[:octets] = data[offset : offset + octets]
            node.atime = node.tree.now_ns()
        return octets

    def write(
        self,
        data: Buffer,
        offset: int,
        stable: Stable,
        change: Change,
        *,
        judge: bool,
    ) -> Written:
        """Writes `data` at `offset`, in octets; `change` gets the attributes before and after.

        `MemoryTree.crash` may lose data that is UNSTABLE and not committed. Any other `stable` counts as FILE_SYNC, and
        makes earlier unstable data of the file stable, too. `judge` has no effect. Raises Refused: EFBIG, ENOSPC: the
        write exceeds the bound of the tree, or what is left of it.
        """
        tree, node = self.node.tree, self.node
        octets = bytes(data)
        if not octets:
            # They make no file longer.
            offset = 0
        with node.changing(change):
            end = offset + len(octets)
            if end > tree.octets_max:
                raise Refused(errno.EFBIG)
            tree.take(max(end - len(node.data), 0))
            if stable is not Stable.UNSTABLE:
                self._settle()
            else:
                if node.stable is None:
                    node.stable = bytes(node.data)
                node.unstable.append((offset, octets))
            place(node.data, offset, octets)
            if octets:
                node.touch(content=True)
        kept = Stable.UNSTABLE if stable is Stable.UNSTABLE else Stable.FILE_SYNC
        return Written(len(octets), kept, tree.verifier)

    def commit(self, change: Change) -> bytes:
        with self.node.changing(change):
            self._settle()
        verifier: bytes = self.node.tree.verifier
        return verifier

    def _settle(self) -> None:
        self.node.stable, self.node.unstable = None, []


def place(data: bytearray, offset: int, octets: bytes) -> None:
    """Writes `octets` into `data`, the content of a file, at `offset`, behind zeros if that is beyond the end."""
    data.extend(bytes(max(offset - len(data), 0)))
    data[offset : offset + len(octets)] = octets
