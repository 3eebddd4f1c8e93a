"""Nodes and files that nobody can change: methods for changes refuse with EROFS. Files that a store has no more."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, NoReturn

from rpcrdma.nfs.export.tree import NAME_OCTETS_MAX, Node, PathLimits, Refused, Space

__all__ = ["ReadOnlyFile", "ReadOnlyNode", "RemovedFile"]


class ReadOnlyNode:
    """A base class for nodes of unchangeable trees: the methods of `tree.Node` for changes raise Refused (EROFS).

    `lease`, `range_locks` and `opened_for_writing` return None: the server notices no change by others, no local
    process sees the files, and none is ever open for writing. The space of the file system is unknown.
    """

    __slots__ = ()

    def lease(self, on_writer: Callable[[], object]) -> None:
        pass

    def range_locks(self, *, exclusive: bool) -> None:
        pass

    def opened_for_writing(self) -> None:
        pass

    def space(self) -> Space:
        return Space(0, 0, 0, 0, 0, 0)

    def path_limits(self) -> PathLimits:
        return PathLimits(1, NAME_OCTETS_MAX)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise Refused(errno.EROFS)

    create = make = set_attributes = remove = rename = link = _refuse


class ReadOnlyFile:
    """A base class for unchangeable open files: the methods of `tree.OpenFile` for changes raise Refused (EROFS)."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise Refused(errno.EROFS)

    write = commit = _refuse


class RemovedFile(ReadOnlyNode):
    """A `tree.Node` for a file that was removed while a client has it open, in a tree that does not keep such files.

    It has the handle, kind and tree of `node`, the file as it was, so that an open or a lock can be ended. Methods that
    read raise Refused (ESTALE), and those that change raise Refused (EROFS); `lease`, `range_locks` and
    `opened_for_writing` return None.
    """

    __slots__ = ("handle", "kind", "tree")

    def __init__(self, node: Node) -> None:
        self.handle = node.handle
        self.kind = node.kind
        self.tree = node.tree

    def _is_stale(self, *_: Any, **__: Any) -> NoReturn:
        raise Refused(errno.ESTALE)

    attributes = access = lookup = parent = read_link = entries = open = open_to_read = space = path_limits = _is_stale
