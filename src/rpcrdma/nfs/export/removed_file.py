"""Files that clients have open, and that their remote store has no more."""

from __future__ import annotations

import errno
from typing import Any, NoReturn

from rpcrdma.nfs.export.read_only import ReadOnlyNode
from rpcrdma.nfs.export.tree import Node, Refused

__all__ = ["RemovedFile"]


class RemovedFile(ReadOnlyNode):
    """A `tree.Node` for a file that was removed while a client has it open, in a tree that does not keep such files.

    It has the handle, kind and tree of `node`, the file as it was, so that an open or a lock can be ended (see
    `Tree.keeps_removed`). Methods that read raise Refused (ESTALE), and those that change raise Refused (EROFS);
    `lease`, `range_locks` and `opened_for_writing` return None.
    """

    __slots__ = ("handle", "kind", "tree")

    def __init__(self, node: Node) -> None:
        self.handle = node.handle
        self.kind = node.kind
        self.tree = node.tree

    def _is_stale(self, *_: Any, **__: Any) -> NoReturn:
        raise Refused(errno.ESTALE)

    attributes = access = lookup = parent = read_link = entries = open = open_to_read = space = path_limits = _is_stale
