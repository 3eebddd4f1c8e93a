"""Paths: from a caller's text to the names that LOOKUP takes, and the checks of names that a server sends."""

from __future__ import annotations

import errno
import os
from typing import TypeAlias

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.nfs.errors import ServerPathError, nfs_error
from rpcrdma.nfs.v3 import NFS3_MAXNAMLEN, nfsstat3

__all__ = ["Path", "base_name", "components", "join", "listed_name", "names_in", "normal", "text_of", "told_target"]

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
"""A path on the server: `str`, `bytes` or an `os.PathLike` of either. The server gets the octets of names unchanged."""


def text_of(path: Path) -> str:
    """Returns `path` as text, in which octets that are not UTF-8 are surrogate escapes (PEP 383), in every locale.

    Raises:
        TypeError: `path` is no path.
        ValueError: `path` holds a NUL, which no name can contain.
    """
    raw = os.fspath(path)
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    if "\0" in text:
        raise ValueError("embedded null character in a path")
    return text


def components(path: str) -> list[str]:
    """Splits `path` at slashes and returns its names in order, without empty names and ".".

    If a path with a name ends in a slash or in ".", and so must lead to a directory, "." is the last item. The list is
    empty for a path without names, such as "/", "" and ".".

    Raises:
        NfsError: NFS3ERR_NAMETOOLONG: a name is longer than 255 octets.
        UnicodeEncodeError: a name holds a surrogate that is no escaped octet.
    """
    pieces = path.split("/")
    names = [name for name in pieces if name and name != "."]
    for name in names:
        if len(name.encode("utf-8", "surrogateescape")) > NFS3_MAXNAMLEN:
            raise nfs_error(nfsstat3.NFS3ERR_NAMETOOLONG, path)
    if names and pieces[-1] in {"", "."}:
        names.append(".")
    return names


def names_in(path: str) -> list[str]:
    """Splits `path` at slashes and returns its names in order, without empty names."""
    return [name for name in path.split("/") if name]


def normal(path: str) -> str:
    """Returns `path` as an absolute path with single slashes and none at the end; "/" for a path without names."""
    return "/" + "/".join(names_in(path))


def join(directory: str, path: str) -> str:
    """Returns `path` itself if it is absolute, else the absolute path `directory` with `path` appended.

    The result is `directory` if `path` is empty or ".".
    """
    if path.startswith("/"):
        return path
    if path in {"", "."}:
        return directory
    return f"{directory}{path}" if directory.endswith("/") else f"{directory}/{path}"


def base_name(path: str) -> str:
    """Returns the last name of `path`; slashes at the end are ignored, and the result is "" for "/"."""
    return path.rstrip("/").rpartition("/")[2]


def listed_name(name: str) -> str | None:
    """Checks a name from a server's directory listing and returns it; returns None for "." and "..".

    Raises:
        RemoteProtocolError: `name` is empty, or holds a slash or a NUL.
    """
    if name in {".", ".."}:
        return None
    if not name or "/" in name or "\0" in name:
        raise RemoteProtocolError(f"the server lists an entry {name!r}, which can be no file's name", rfc="1813 3.2")
    return name


def told_target(target: str, path: str) -> str:
    """Checks `target`, which READLINK has returned for the symbolic link at `path`, and returns it unchanged.

    Raises:
        OSError: EINVAL: `target` is empty or holds a NUL.
    """
    if not target or "\0" in target:
        fault = "holds a NUL" if target else "is empty"
        raise ServerPathError(errno.EINVAL, f"the target of this symbolic link {fault}", path)
    return target
