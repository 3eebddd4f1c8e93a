"""The info dictionaries of fsspec: the attributes of files."""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable
from typing import Any, TypeAlias

from fsspec.asyn import _run_coros_in_chunks

from rpcrdma.nfs.client import DirEntry, NfsFilesystem, Stat
from rpcrdma.nfs.client.paths import base_name

__all__ = ["Info", "entry_info", "info_above", "info_at", "listed_infos"]

Info: TypeAlias = dict[str, Any]


_LOGGER = logging.getLogger("rpcrdma.client")

_TYPES = {stat.S_IFDIR: "directory", stat.S_IFREG: "file"}


def _info(name: str, found: Stat, destination: str | None = None) -> Info:
    info: Info = {
        "name": name,
        "size": found.st_size,
        "type": _TYPES.get(stat.S_IFMT(found.st_mode), "other"),
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


async def info_at(fs: NfsFilesystem, path: str, name: str) -> tuple[Info, DirEntry | None]:
    """Returns (info dictionary of fsspec, directory entry) of the object at `path` in `fs`.

    `name` is the value of "name" in the info. The info of a symbolic link has the attributes of the target, and the
    link's text as "destination". The entry is None for a symbolic link, for the root, and for a path that ends with "."
    or "..".

    Raises:
        OSError: the server refuses; FileNotFoundError: nothing exists there, or a link leads nowhere.
        RpcRdmaError: a call fails otherwise.
    """
    if base_name(path) in {"", ".", ".."}:
        return _info(name, await fs.stat(path)), None
    entry = await fs.entry(path)
    if not entry.is_symlink():
        return entry_info(entry, name), entry
    found = await fs.stat(path)
    return _info(name, found, await fs.readlink(entry)), None


def entry_info(entry: DirEntry, name: str) -> Info:
    """Returns fsspec's info dictionary, with `name` as "name", of a directory entry that is no symbolic link."""
    return _info(name, entry.stat())


async def listed_infos(fs: NfsFilesystem, path: str, prefix: str, seen: Callable[[Info, DirEntry], None]) -> list[Info]:
    """Returns fsspec's info dictionaries of all entries of the directory `path`, in the order of the listing.

    The "name" of each is `prefix` + the entry's name. `seen` is called with (info, entry) of each entry that is no
    symbolic link. The info of a symbolic link to a file has the file's size and type; that of another link has the size
    0 and the type "other". An entry whose attributes or link the server refuses has the size None and the type "other";
    a warning is logged, and `seen` is not called. Raises OSError if the directory cannot be read, RpcRdmaError if a
    call fails otherwise.
    """
    infos: list[Info] = []
    links: list[tuple[int, DirEntry]] = []
    async for entry in fs.scandir(path):
        if entry.refusal is not None:
            infos.append(_refused_info(prefix + entry.name, entry.refusal))
        elif entry.is_symlink():
            links.append((len(infos), entry))
            infos.append({})
        else:
            info = entry_info(entry, prefix + entry.name)
            infos.append(info)
            seen(info, entry)
    told = await _run_coros_in_chunks([_link_info(fs, entry, prefix + entry.name) for _, entry in links], nofiles=True)
    for (place, _), info in zip(links, told, strict=True):
        infos[place] = info
    return infos


async def _link_info(fs: NfsFilesystem, entry: DirEntry, name: str) -> Info:
    """Returns the info, with `name` as "name", of a symbolic link in a listing: size and type are its target's.

    A link to an object that is no file, or is missing, has type "other" and size 0, so that walks through trees do not
    follow it. If the server refuses to read or follow the link, the type is "other", the size None, and a warning is
    logged.
    """
    try:
        destination = await fs.readlink(entry)
    except OSError as error:
        return _refused_info(name, error) | {"islink": True}
    try:
        found = await fs.stat(entry)
    except FileNotFoundError:
        found = entry.stat()
    except OSError as error:
        return _refused_info(name, error) | {"islink": True, "destination": destination}
    info = _info(name, found, destination)
    if info["type"] != "file":
        info["type"], info["size"] = "other", 0
    return info


def _refused_info(name: str, error: OSError) -> Info:
    _LOGGER.warning("%s is listed without its attributes: %s", getattr(error, "url", None) or name, error.strerror)
    return {"name": name, "size": None, "type": "other", "islink": False}


def info_above(name: str) -> Info:
    """Returns an info, with `name` as "name", of a directory above exports, which does not exist at the server."""
    return {"name": name, "size": 0, "type": "directory", "islink": False}
