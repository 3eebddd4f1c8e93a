"""Attributes of files on a server, formatted as text and as JSON."""

from __future__ import annotations

import stat
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpcrdma.nfs.client.attributes import Stat

__all__ = ["attributes_json", "kind_of", "local_time", "long_columns"]

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFCHR: "character-device",
    stat.S_IFBLK: "block-device",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


def kind_of(attributes: Stat) -> str:
    """Returns the type of a file in a word, such as "file", "directory" or "symlink"; "unknown" for other types."""
    return _KINDS.get(stat.S_IFMT(attributes.st_mode), "unknown")


def local_time(nanoseconds: int) -> str:
    """Returns a time stamp, given in nanoseconds since 1970, as "YYYY-MM-DD HH:MM:SS" in the local time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(nanoseconds // 10**9))


def long_columns(attributes: Stat) -> list[str]:
    """Returns mode, link count, numeric owner and group, octets, and modification time as texts, like `ls -ln`."""
    return [
        stat.filemode(attributes.st_mode),
        str(attributes.st_nlink),
        str(attributes.st_uid),
        str(attributes.st_gid),
        str(attributes.st_size),
        local_time(attributes.st_mtime_ns),
    ]


def attributes_json(path: str, attributes: Stat) -> dict[str, Any]:
    """Returns the attributes of a file as a JSON object with units in its keys; its `path` is the argument.

    `mode` has the permission bits as text of four octal digits.
    """
    return {
        "path": path,
        "type": kind_of(attributes),
        "mode": f"{stat.S_IMODE(attributes.st_mode):04o}",
        "nlink": attributes.st_nlink,
        "uid": attributes.st_uid,
        "gid": attributes.st_gid,
        "size_bytes": attributes.st_size,
        "atime_ns": attributes.st_atime_ns,
        "mtime_ns": attributes.st_mtime_ns,
        "ctime_ns": attributes.st_ctime_ns,
        "fileid": attributes.st_ino,
    }
