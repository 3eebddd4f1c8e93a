"""The checks that keep a walk through a tree finite, even if the server's directories are not."""

from __future__ import annotations

import errno

from rpcrdma.limits import NFS_TREE_DEPTH_MAX, NFS_TREE_PENDING_MAX
from rpcrdma.nfs.client.node import Node, Place, path_of
from rpcrdma.nfs.errors import ServerPathError

__all__ = ["check_descent", "too_many_pending"]


def check_descent(directory: Node) -> None:
    """To be called before `directory`, which was found in another one on the way down, is entered.

    Raises:
        OSError: ELOOP, as `directory` is one of those above it; ENAMETOOLONG, as it lies too deep.
    """
    depth, place = 0, directory.place
    while not isinstance(place, str):
        above = place[0]
        if _same(directory, above):
            text = "the server shows this directory inside itself; it is left out"
            raise ServerPathError(errno.ELOOP, text, directory.path)
        depth += 1
        place = above.place
    if depth > NFS_TREE_DEPTH_MAX:
        text = f"this directory lies more than {NFS_TREE_DEPTH_MAX:,} others deep; it is left out"
        raise ServerPathError(errno.ENAMETOOLONG, text, directory.path)


def too_many_pending(place: Place) -> OSError:
    """The error for a directory that is not entered, since too many others already wait for that."""
    text = f"more than {NFS_TREE_PENDING_MAX:,} directories wait to be entered; this one and others are left out"
    return ServerPathError(errno.ENOBUFS, text, path_of(place))


def _same(one: Node, other: Node) -> bool:
    if one.handle.data == other.handle.data:
        return True
    mine, yours = one.attributes, other.attributes
    if mine is None or yours is None:
        return False
    return mine.fileid == yours.fileid and mine.fsid == yours.fsid
