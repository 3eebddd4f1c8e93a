"""Properties that a copy loses without an error: found in attributes, counted in reports."""

from __future__ import annotations

import enum
import os
import stat

from rpcrdma.nfs.client.attributes import TIME_NS_MAX, Stat

__all__ = ["Lost", "NotCarried", "lost_from_local", "lost_from_server"]


class NotCarried(enum.Enum):
    """A property that an object has and its copy lacks."""

    HOLES = "holes"
    """The copy has zeros in place of holes, which occupy space."""
    HARD_LINKS = "hard_links"
    """The file has more names than its copy: outside of the tree, or copied as files of their own."""
    TIMES = "times"
    """Times outside NFSv3's range, 1970 to 2106; the copy has the nearest times."""
    EXTENDED_ATTRIBUTES = "extended_attributes"
    """Extended attributes, with access control lists among them."""
    OWNERS = "owners"
    """Owner or group: copies belong to the user of this process, in either direction."""
    SPECIAL_BITS = "special_bits"
    """The set-user-ID, set-group-ID and sticky bits of a server's files: the server may have other users."""


Lost = tuple[NotCarried, ...]

_HOLE_OCTETS = 4096
"""A file that takes a block less than its size has a hole, or is compressed."""

_SPECIAL = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX

_GIVEN_BY_POLICY = frozenset({"security.selinux"})
"""Extended attributes that the system sets on every new file by itself."""


def lost_from_server(found: Stat) -> Lost:
    """Returns the properties, such as OWNERS, that a download of an object with attributes `found` loses; may be ()."""
    special = not found.is_symlink() and found.st_mode & _SPECIAL
    return (*_lost_by_any(found), NotCarried.SPECIAL_BITS) if special else tuple(_lost_by_any(found))


def lost_from_local(found: os.stat_result, path: str) -> Lost:
    """Returns the properties, such as TIMES or HOLES, that an upload of the local object `path` loses; () if none.

    `found` are the object's attributes. Looks for holes and extended attributes of the object, which may block; raises
    nothing.
    """
    lost = _lost_by_any(found)
    if NotCarried.HOLES in lost and not _has_hole(path, found.st_size):
        # Files of /sys take no blocks, nor do compressed ones as many as they have data.
        lost.remove(NotCarried.HOLES)
    if not (0 <= found.st_mtime_ns <= TIME_NS_MAX and 0 <= found.st_atime_ns <= TIME_NS_MAX):
        lost.append(NotCarried.TIMES)
    if _has_attributes(path):
        lost.append(NotCarried.EXTENDED_ATTRIBUTES)
    return tuple(lost)


def _lost_by_any(found: Stat | os.stat_result) -> list[NotCarried]:
    lost: list[NotCarried] = []
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFREG and found.st_blocks * 512 + _HOLE_OCTETS <= found.st_size:
        lost.append(NotCarried.HOLES)
    if found.st_nlink > 1 and kind in {stat.S_IFREG, stat.S_IFLNK}:
        lost.append(NotCarried.HARD_LINKS)
    if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
        lost.append(NotCarried.OWNERS)
    return lost


def _has_hole(path: str, size: int) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        return os.lseek(fd, 0, os.SEEK_HOLE) < size
    except OSError:
        return True  # a file system that does not tell
    finally:
        os.close(fd)


def _has_attributes(path: str) -> bool:
    try:
        return not _GIVEN_BY_POLICY.issuperset(os.listxattr(path, follow_symlinks=False))
    except (OSError, AttributeError):
        return False  # a file system, or a system, without extended attributes
