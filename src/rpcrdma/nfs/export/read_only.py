"""The methods that change objects, for trees that nobody can change: all of them refuse with EROFS."""

from __future__ import annotations

import errno
from collections.abc import Callable

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Attributes, Change, Create, Made, Make, Node, Refused, Stable, Wanted, Written
from rpcrdma.wire.buffers import Buffer

__all__ = ["ReadOnlyFile", "ReadOnlyNode"]


class ReadOnlyNode:
    """A base class for nodes of unchangeable trees: the methods of `tree.Node` for changes raise Refused (EROFS)."""

    __slots__ = ()

    def lease(self, on_writer: Callable[[], object]) -> None:
        """Returns None: the server does not notice changes of the file by others, so it can delegate no such file."""

    def range_locks(self, *, exclusive: bool) -> None:
        """Returns None: no local process can see the file, or locks on it."""

    def opened_for_writing(self) -> None:
        """Returns None: the server never has the file open for writing."""

    def create(self, who: Grant, name: bytes, create: Create, change: Change) -> Made:
        """Raises Refused (EROFS): nobody can create files in this tree."""
        raise Refused(errno.EROFS)

    def make(self, who: Grant, name: bytes, make: Make, wanted: Wanted, change: Change) -> Made:
        """Raises Refused (EROFS): nobody can make objects in this tree."""
        raise Refused(errno.EROFS)

    def set_attributes(
        self, who: Grant, wanted: Wanted, change: Change, *, guard: Callable[[Attributes], bool] | None = None
    ) -> None:
        """Raises Refused (EROFS): nobody can set attributes in this tree."""
        raise Refused(errno.EROFS)

    def remove(self, who: Grant, name: bytes, change: Change, *, is_directory: bool | None) -> None:
        """Raises Refused (EROFS): nobody can remove names from this tree."""
        raise Refused(errno.EROFS)

    def rename(self, who: Grant, old: bytes, target: Node, new: bytes, source: Change, into: Change) -> None:
        """Raises Refused (EROFS): nobody can rename objects of this tree."""
        raise Refused(errno.EROFS)

    def link(self, who: Grant, directory: Node, name: bytes, change: Change) -> None:
        """Raises Refused (EROFS): nobody can add names to this tree."""
        raise Refused(errno.EROFS)


class ReadOnlyFile:
    """A base class for unchangeable open files: the methods of `tree.OpenFile` for changes raise Refused (EROFS)."""

    __slots__ = ()

    def write(self, data: Buffer, offset: int, stable: Stable, change: Change, *, judge: bool) -> Written:
        """Raises Refused (EROFS): nobody can write the file."""
        raise Refused(errno.EROFS)

    def commit(self, change: Change) -> bytes:
        """Raises Refused (EROFS): the file has no unstable data, since nobody can write it."""
        raise Refused(errno.EROFS)
