"""What fsspec calls the info of a file: its attributes as a dictionary."""

from __future__ import annotations

from typing import Any, TypeAlias

from rpcrdma.nfs.client import DirEntry, NfsFilesystem, Stat

__all__ = ["Info", "entry_info", "info_above", "info_at", "link_info"]

Info: TypeAlias = dict[str, Any]


def _info(name: str, found: Stat, destination: str | None = None) -> Info:
    info: Info = {
        "name": name,
        "size": found.st_size,
        "type": "directory" if found.is_dir() else "file" if found.is_file() else "other",
        "mtime": found.st_mtime,
        "ctime": found.st_ctime,
        "mode": found.st_mode,
        "uid": found.st_uid,
        "gid": found.st_gid,
        "nlink": found.st_nlink,
        "ino": found.st_ino,
        "islink": destination is not None,
    }
    if destination is not None:
        info["destination"] = destination
    return info


async def info_at(fs: NfsFilesystem, path: str, name: str) -> Info:
    """The info of what `path` leads to; of a symbolic link it tells the `destination` as well.

    Raises:
        FileNotFoundError: nothing is there, or a link leads nowhere.
    """
    found = await fs.lstat(path)
    if not found.is_symlink():
        return _info(name, found)
    destination = await fs.readlink(path)
    return _info(name, await fs.stat(path), destination)


def entry_info(entry: DirEntry, name: str) -> Info:
    """The info of an entry that is no symbolic link."""
    return _info(name, entry.stat())


async def link_info(fs: NfsFilesystem, entry: DirEntry, name: str) -> Info:
    """The info of a symbolic link in a listing: the size and type of the file that it leads to.

    Where it leads to a directory or nowhere, it is of type "other": what walks a tree does not follow it.
    """
    destination = await fs.readlink(entry)
    try:
        found = await fs.stat(entry)
    except OSError:
        found = entry.stat()
    info = _info(name, found, destination)
    if info["type"] != "file":
        info["type"], info["size"] = "other", 0
    return info


def info_above(name: str) -> Info:
    """The info of a directory that only leads to exports, and is none at the server."""
    return {"name": name, "size": 0, "type": "directory", "islink": False}
