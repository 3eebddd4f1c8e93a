"""The methods that change objects, for trees that nobody can change: all of them refuse with EROFS."""

from __future__ import annotations

import errno
from collections.abc import Callable

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Attributes, Change, Create, Made, Make, Node, Refused, Stable, Wanted, Written
from rpcrdma.wire.buffers import Buffer

__all__ = ["ReadOnlyFile", "ReadOnlyNode"]


class ReadOnlyNode:
    """The part of a `tree.Node` that changes objects."""

    __slots__ = ()

    def lease(self, on_writer: Callable[[], object]) -> None:
        """See `tree.Node.lease`: nothing reports writers."""

    def range_locks(self) -> None:
        """See `tree.Node.range_locks`: no local process has the file."""

    def opened_for_writing(self) -> None:
        """See `tree.Node.opened_for_writing`: it never is."""

    def create(self, who: Grant, name: bytes, create: Create, change: Change) -> Made:
        """Raises Refused: EROFS."""
        raise Refused(errno.EROFS)

    def make(self, who: Grant, name: bytes, make: Make, wanted: Wanted, change: Change) -> Made:
        """Raises Refused: EROFS."""
        raise Refused(errno.EROFS)

    def set_attributes(
        self, who: Grant, wanted: Wanted, change: Change, *, guard: Callable[[Attributes], bool] | None = None
    ) -> None:
        """Raises Refused: EROFS."""
        raise Refused(errno.EROFS)

    def remove(self, who: Grant, name: bytes, change: Change, *, is_directory: bool | None) -> None:
        """Raises Refused: EROFS."""
        raise Refused(errno.EROFS)

    def rename(self, who: Grant, old: bytes, target: Node, new: bytes, source: Change, into: Change) -> None:
        """Raises Refused: EROFS."""
        raise Refused(errno.EROFS)

    def link(self, who: Grant, directory: Node, name: bytes, change: Change) -> None:
        """Raises Refused: EROFS."""
        raise Refused(errno.EROFS)


class ReadOnlyFile:
    """The part of a `tree.OpenFile` that changes a file."""

    __slots__ = ()

    def write(self, data: Buffer, offset: int, stable: Stable, change: Change, *, judge: bool) -> Written:
        """Raises Refused: EROFS."""
        raise Refused(errno.EROFS)

    def commit(self, change: Change) -> bytes:
        """Raises Refused: EROFS."""
        raise Refused(errno.EROFS)
