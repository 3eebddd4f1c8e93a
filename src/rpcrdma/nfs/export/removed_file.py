"""Files that clients have open, and that their remote store has no more."""

from __future__ import annotations

import errno
from typing import Any, NoReturn

from rpcrdma.nfs.export.read_only import ReadOnlyNode
from rpcrdma.nfs.export.tree import Node, Refused

__all__ = ["RemovedFile"]


class RemovedFile(ReadOnlyNode):
    """Stands for a file that its tree has lost while it was open (`Tree.keeps_removed`); a `tree.Node`.

    Its handle and its tree alone can be asked for, so that an open or a lock can be ended; all else raises Refused
    (ESTALE), or (EROFS) for changes. `node` is the file as it was.
    """

    __slots__ = ("handle", "kind", "tree")

    def __init__(self, node: Node) -> None:
        self.handle = node.handle
        self.kind = node.kind
        self.tree = node.tree

    def _is_stale(self, *_: Any, **__: Any) -> NoReturn:
        raise Refused(errno.ESTALE)

    attributes = access = lookup = parent = read_link = entries = open = open_to_read = space = path_limits = _is_stale
