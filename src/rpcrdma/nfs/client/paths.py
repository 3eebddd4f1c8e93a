"""Paths: from a caller's text to the names that LOOKUP takes, and the checks of names that a server sends."""

from __future__ import annotations

import errno
import os
from typing import TypeAlias

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.nfs.errors import ServerPathError, nfs_error
from rpcrdma.nfs.v3 import NFS3_MAXNAMLEN, nfsstat3

__all__ = ["Path", "base_name", "components", "join", "listed_name", "text_of", "told_target"]

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
"""A path on the server, as `os` functions take it; the server gets its octets as they are."""


def text_of(path: Path) -> str:
    """Returns the path as text; octets that are not UTF-8 become surrogates in every locale.

    Raises:
        ValueError: the path holds a NUL, which no name can.
    """
    raw = os.fspath(path)
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    if "\0" in text:
        raise ValueError("embedded null character in a path")
    return text


def components(path: str) -> list[str]:
    """Returns the names along `path`, without empty ones and "."; a path that must be a directory ends in ".".

    Raises:
        NfsError: NFS3ERR_NAMETOOLONG, as no server could take the name.
        UnicodeEncodeError: a name has characters that stand for no octets.
    """
    pieces = path.split("/")
    names = [name for name in pieces if name and name != "."]
    for name in names:
        if len(name.encode("utf-8", "surrogateescape")) > NFS3_MAXNAMLEN:
            raise nfs_error(nfsstat3.NFS3ERR_NAMETOOLONG, path)
    if names and pieces[-1] in {"", "."}:
        names.append(".")
    return names


def join(directory: str, path: str) -> str:
    """Returns `path` as an absolute path, seen from `directory`, which is absolute."""
    if path.startswith("/"):
        return path
    if path in {"", "."}:
        return directory
    return f"{directory}{path}" if directory.endswith("/") else f"{directory}/{path}"


def base_name(path: str) -> str:
    """Returns the last name of `path`, empty for a root; slashes at its end do not count."""
    return path.rstrip("/").rpartition("/")[2]


def listed_name(name: str) -> str | None:
    """Returns a name out of a directory listing; None for "." and "..", which every directory has.

    Raises:
        RemoteProtocolError: `name` cannot be one: it is empty, or holds a slash or a NUL.
    """
    if name in {".", ".."}:
        return None
    if not name or "/" in name or "\0" in name:
        raise RemoteProtocolError(f"the server lists an entry {name!r}, which can be no file's name", rfc="1813 3.2")
    return name


def told_target(target: str, path: str) -> str:
    """Returns the target of the symbolic link `path`, after a check of the server's text.

    Raises:
        OSError: EINVAL, as no link can have this target: it is empty, or holds a NUL.
    """
    if not target or "\0" in target:
        fault = "holds a NUL" if target else "is empty"
        raise ServerPathError(errno.EINVAL, f"the target of this symbolic link {fault}", path)
    return target
