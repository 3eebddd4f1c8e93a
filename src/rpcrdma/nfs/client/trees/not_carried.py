"""Properties that a copy loses without an error: found in attributes, counted in reports."""

from __future__ import annotations

import enum
import os
import stat

from rpcrdma.nfs.client.attributes import TIME_NS_MAX, Stat
from rpcrdma.nfs.v3 import fattr3, ftype3

__all__ = ["Lost", "NotCarried", "lost_from_local", "lost_from_server", "lost_from_stat"]


class NotCarried(enum.Enum):
    """A property that an object has and its copy lacks."""

    HOLES = "holes"
    """The copy has zeros in their place, which take room."""
    HARD_LINKS = "hard_links"
    """The file has more names than its copy: they are not in the tree that was copied, or became files of their own."""
    TIMES = "times"
    """They are outside NFSv3's range, 1970 to 2106; the copy has the nearest ones."""
    EXTENDED_ATTRIBUTES = "extended_attributes"
    """Access control lists are among them."""


Lost = tuple[NotCarried, ...]

_HOLE_OCTETS = 4096
"""A file that takes a block less than its size has a hole, or is compressed."""

_GIVEN_BY_POLICY = frozenset({"security.selinux"})
"""Extended attributes that the system sets on every new file by itself."""


def lost_from_server(attributes: fattr3) -> Lost:
    """The properties that a download of an object with these attributes loses."""
    if attributes.type != ftype3.NF3REG:
        return ()
    return _lost_of_file(attributes.used, attributes.size, attributes.nlink)


def lost_from_stat(found: Stat) -> Lost:
    """`lost_from_server` for a regular file with these attributes."""
    return _lost_of_file(found.st_blocks * 512, found.st_size, found.st_nlink)


def _lost_of_file(used: int, size: int, links: int) -> Lost:
    lost: list[NotCarried] = []
    if used + _HOLE_OCTETS <= size:
        lost.append(NotCarried.HOLES)
    if links > 1:
        lost.append(NotCarried.HARD_LINKS)
    return tuple(lost)


def lost_from_local(found: os.stat_result, path: str) -> Lost:
    """The properties that an upload of `path`, an object with attributes `found`, loses; blocks."""
    lost: list[NotCarried] = []
    if stat.S_ISREG(found.st_mode):
        lost += _lost_of_file(found.st_blocks * 512, found.st_size, found.st_nlink)
    if not (0 <= found.st_mtime_ns <= TIME_NS_MAX and 0 <= found.st_atime_ns <= TIME_NS_MAX):
        lost.append(NotCarried.TIMES)
    if _has_attributes(path):
        lost.append(NotCarried.EXTENDED_ATTRIBUTES)
    return tuple(lost)


def _has_attributes(path: str) -> bool:
    try:
        return not _GIVEN_BY_POLICY.issuperset(os.listxattr(path, follow_symlinks=False))
    except (OSError, AttributeError):
        return False  # a file system, or a system, without extended attributes
