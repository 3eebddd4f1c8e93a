"""Directories whose path has more octets than the kernel tells or takes at once, in few steps however deep they are."""

from __future__ import annotations

import errno
import os
from bisect import bisect_left
from collections.abc import Sequence

from rpcrdma.nfs.export.linux_calls import open_beneath

__all__ = ["LEVELS_AT_ONCE", "path_above", "path_of_ancestor", "reach"]

_UP = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
LEVELS_AT_ONCE = 1024
"""The most levels that one system call climbs: "../" for each, within the 4,096 octets that the kernel takes."""
_CLIMBS_MAX = 64
_PATH_OCTETS = 4000
"""The most octets of a path in one system call, with room for the null octet."""


def path_of_ancestor(directory: int) -> tuple[bytes, int]:
    """Returns (path, levels) of the first directory upward from `directory` whose path is short enough for the kernel.

    `directory` is a descriptor. `levels` is the number of levels from `directory` up to the directory found, 0 for
    `directory` itself; a number larger than LEVELS_AT_ONCE is given as 0, too. May block. Raises OSError: a directory
    above may not be searched, or /proc cannot be read; ENAMETOOLONG: none is found within 64 times LEVELS_AT_ONCE
    levels.
    """
    path = _path(directory)
    if path is not None:
        return path, 0
    fd = os.dup(directory)
    levels = 1
    try:
        for climb in range(_CLIMBS_MAX):
            while (path := path_above(fd, levels)) is None and levels < LEVELS_AT_ONCE:
                levels *= 2
            if path is not None:
                lower = range(1, levels)
                levels = 1 + bisect_left(lower, True, key=lambda up: path_above(fd, up) is not None)
                return path_above(fd, levels) or path, 0 if climb else levels
            higher = _above(fd, levels)
            os.close(fd)
            fd = higher
    finally:
        os.close(fd)
    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def reach(directory: int, names: Sequence[bytes]) -> int:
    """Returns a new O_PATH descriptor of the object at the end of a path of `names` below `directory`, a descriptor.

    The caller closes it. A symbolic link at the end is opened itself; without `names` returns a duplicate of
    `directory`. May block. Raises OSError: no such object exists, it may not be reached, or the path leads through a
    symbolic link (ELOOP) or a mount point (EXDEV).
    """
    fd = os.dup(directory)
    try:
        at = 0
        while at < len(names):
            path = names[at]
            at += 1
            while at < len(names) and len(path) + 1 + len(names[at]) <= _PATH_OCTETS:
                path += b"/" + names[at]
                at += 1
            # A link at the end of all is opened itself, one within the path is not.
            further = open_beneath(fd, path + b"/" if at < len(names) else path)
            os.close(fd)
            fd = further
    except BaseException:
        os.close(fd)
        raise
    return fd


def _above(directory: int, levels: int) -> int:
    return os.open(b"../" * levels, _UP, dir_fd=directory)


def path_above(directory: int, levels: int) -> bytes | None:
    """Returns the path of the directory `levels` above `directory` (a descriptor); None: too long for the kernel.

    `levels` is 1 to LEVELS_AT_ONCE; the root is above itself. May block. Raises OSError: a directory above may not be
    searched, or /proc cannot be read.
    """
    fd = _above(directory, levels)
    try:
        return _path(fd)
    finally:
        os.close(fd)


def _path(fd: int) -> bytes | None:
    """Returns the path of the object behind a descriptor; None if the path is too long for the kernel to report.

    Raises OSError: /proc cannot be read.
    """
    try:
        return os.readlink(b"/proc/self/fd/%d" % fd)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None
