"""Open files of a tree in memory, with unstable writes that a crash may lose."""

from __future__ import annotations

import errno
from typing import Any

from rpcrdma.nfs.export.tree import Attributes, Change, Refused, Stable, Written
from rpcrdma.wire.buffers import Buffer

__all__ = ["MemoryOpenFile", "place"]


class MemoryOpenFile:
    """An open file of a `MemoryTree`, for reading and writing; implements `tree.OpenFile`."""

    __slots__ = ("node",)

    def __init__(self, node: Any) -> None:
        self.node = node
        """The `MemoryNode` of the file."""

    @property
    def handle(self) -> bytes:
        """The NFS handle of the file."""
        handle: bytes = self.node.handle
        return handle

    def attributes(self) -> Attributes:
        """Returns the present attributes of the file; never waits."""
        attributes: Attributes = self.node.attributes()
        return attributes

    def read(self, buffer: memoryview, offset: int, *, at_once: bool) -> int:  # noqa: ARG002 - it never waits
        """Reads from `offset`, in octets, into `buffer`; returns the number of octets, 0 from the file's end on.

        It is smaller than the buffer's length only at the file's end. Sets the file's time of access. `at_once` has no
        effect, since reading never waits.
        """
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
        judge: bool,  # noqa: ARG002 - everything is allowed
    ) -> Written:
        """Writes all of `data` at `offset`, in octets, behind zeros if `offset` is beyond the file's end.

        With `stable` UNSTABLE, `MemoryTree.crash` may lose the data until `commit`. Any other `stable` counts as
        FILE_SYNC, and makes earlier unstable data of the file stable, too. `judge` has no effect: every caller may
        write. `change` gets the attributes before and after. Raises Refused, with nothing written: EFBIG: the file
        would be larger than the tree may be; ENOSPC: the tree has too little room left.
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
        """Makes all data of the file stable; returns the write verifier. `change` gets attributes before and after."""
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
