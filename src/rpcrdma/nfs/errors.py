"""NFS status codes as the exceptions that file operations raise in Python."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from rpcrdma.limits import NFS_DEFERRED_S
from rpcrdma.nfs.v3 import nfsstat3

if TYPE_CHECKING:
    from rpcrdma.aio.urls import Url

__all__ = [
    "STATUS_OF_ERRNO",
    "ExportPath",
    "NfsError",
    "NfsExists",
    "NfsIsADirectory",
    "NfsNotADirectory",
    "NfsNotFound",
    "NfsPermission",
    "ServerPathError",
    "in_words",
    "nfs_error",
]

STATUS_OF_ERRNO: dict[int, nfsstat3] = {
    errno.EPERM: nfsstat3.NFS3ERR_PERM,
    errno.ENOENT: nfsstat3.NFS3ERR_NOENT,
    errno.EIO: nfsstat3.NFS3ERR_IO,
    errno.ENXIO: nfsstat3.NFS3ERR_NXIO,
    errno.EACCES: nfsstat3.NFS3ERR_ACCES,
    errno.EEXIST: nfsstat3.NFS3ERR_EXIST,
    errno.EXDEV: nfsstat3.NFS3ERR_XDEV,
    errno.ENODEV: nfsstat3.NFS3ERR_NODEV,
    errno.ENOTDIR: nfsstat3.NFS3ERR_NOTDIR,
    errno.EISDIR: nfsstat3.NFS3ERR_ISDIR,
    errno.EINVAL: nfsstat3.NFS3ERR_INVAL,
    errno.EFBIG: nfsstat3.NFS3ERR_FBIG,
    errno.ENOSPC: nfsstat3.NFS3ERR_NOSPC,
    errno.EROFS: nfsstat3.NFS3ERR_ROFS,
    errno.EMLINK: nfsstat3.NFS3ERR_MLINK,
    errno.ENAMETOOLONG: nfsstat3.NFS3ERR_NAMETOOLONG,
    errno.ENOTEMPTY: nfsstat3.NFS3ERR_NOTEMPTY,
    errno.EDQUOT: nfsstat3.NFS3ERR_DQUOT,
    errno.ESTALE: nfsstat3.NFS3ERR_STALE,
    errno.EOPNOTSUPP: nfsstat3.NFS3ERR_NOTSUPP,
}
"""Status codes by errno: for a server's replies, and reversed for a client's errors."""

_ERRNO: dict[nfsstat3, int] = {status: number for number, status in STATUS_OF_ERRNO.items()} | {
    nfsstat3.NFS3ERR_REMOTE: errno.EREMOTE,
    nfsstat3.NFS3ERR_BADHANDLE: errno.ESTALE,
    nfsstat3.NFS3ERR_NOT_SYNC: errno.EAGAIN,
    nfsstat3.NFS3ERR_BAD_COOKIE: errno.EINVAL,
    nfsstat3.NFS3ERR_TOOSMALL: errno.EINVAL,
    nfsstat3.NFS3ERR_SERVERFAULT: errno.EREMOTEIO,
    nfsstat3.NFS3ERR_BADTYPE: errno.EINVAL,
    nfsstat3.NFS3ERR_JUKEBOX: errno.EBUSY,
}
# Codes whose errno says less than they do.
_TEXT: dict[nfsstat3, str] = {
    nfsstat3.NFS3ERR_BADHANDLE: "the server does not recognise the file handle",
    nfsstat3.NFS3ERR_NOT_SYNC: "the file has changed since its attributes were read",
    nfsstat3.NFS3ERR_BAD_COOKIE: "the directory has changed too much to go on listing it",
    nfsstat3.NFS3ERR_TOOSMALL: "the server needs a larger buffer",
    nfsstat3.NFS3ERR_SERVERFAULT: "the server failed to carry out the operation",
    nfsstat3.NFS3ERR_BADTYPE: "the server does not support objects of this type",
    nfsstat3.NFS3ERR_JUKEBOX: (
        f"the server was not ready for {NFS_DEFERRED_S:g} s (JUKEBOX), as in the grace period after a restart; "
        "look into its log, and try again"
    ),
}


class ExportPath(str):
    """A path in an export whose URL, `export_url`, is known: errors show the URL of the object."""

    __slots__ = ("export_url",)

    export_url: Url

    def __new__(cls, path: str, export_url: Url) -> Self:
        made = super().__new__(cls, path)
        made.export_url = export_url
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ExportPath, (str(self), self.export_url)

    def with_text(self, path: str) -> ExportPath:
        """Returns another path in the same export."""
        return ExportPath(path, self.export_url)


def in_words(path: str) -> str:
    """Returns the URL of the object at `path` if the export's URL is known, else the path; for messages."""
    return _url_of(path) or path


def _url_of(path: str | None) -> str | None:
    if not isinstance(path, ExportPath):
        return None
    export = path.export_url
    return str(replace(export, path=export.path.rstrip("/") + path, mount_port=None))


class ServerPathError(OSError):
    """A failure with an object of a server: `filename`, and `filename2` of two objects, are paths in the export.

    The text shows the URLs `url` and `url2` of the objects instead, if they are known. Another OSError is about paths
    of this machine.
    """

    _url: str | None = None
    _url2: str | None = None

    @property
    def url(self) -> str | None:
        """The URL of the object at `filename`; None if unknown."""
        return self._url or _url_of(self.filename)

    @property
    def url2(self) -> str | None:
        """The URL of the object at `filename2`; None if unknown."""
        return self._url2 or _url_of(self.filename2)

    def __str__(self) -> str:
        if self.url is None:
            return super().__str__()
        second = "" if self.url2 is None else f" -> {self.url2!r}"
        return f"[Errno {self.errno}] {self.strerror}: {self.url!r}{second}"

    def found_at(self, url: Url) -> None:
        """Sets the URL of an error without one, whose export is unknown.

        Args:
            url: the URL.
        """
        self._url = self.url or str(replace(url, mount_port=None))

    @property
    def path(self) -> str | None:
        """The path, equal to `filename`."""
        path: str | None = self.filename
        return path

    def name_below(self, prefix: str) -> None:
        """Adds a prefix to both paths.

        Args:
            prefix: the export, and the part of the caller's path before it.
        """
        self._url, self._url2 = self.url, self.url2
        if isinstance(self.filename, str):
            self.filename = prefix + self.filename
        if isinstance(self.filename2, str):
            self.filename2 = prefix + self.filename2


_KEPT = ("__notes__", "_url", "_url2")


class NfsError(ServerPathError):
    """The server answered with a status other than NFS3_OK (RFC 1813 section 2.6).

    Errors are of the subclass that Python's own file operations raise for the same errno (`nfs_error`), so that `except
    FileNotFoundError` works. `errno` is the status as a local number.

    Args:
        status: the status.
        path: the path of the object.
        path2: the second path of operations with two.
    """

    def __init__(self, status: nfsstat3, path: str | None = None, path2: str | None = None) -> None:
        number = _ERRNO[status]
        text = _TEXT.get(status) or os.strerror(number)
        super().__init__(number, text)
        self.filename = path
        if path2 is not None:
            self.filename2 = path2
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {name: value for name, value in self.__dict__.items() if name in _KEPT}
        return nfs_error, (self.status, self.path, self.filename2), kept


class NfsNotFound(NfsError, FileNotFoundError):
    """NFS3ERR_NOENT."""


class NfsExists(NfsError, FileExistsError):
    """NFS3ERR_EXIST."""


class NfsNotADirectory(NfsError, NotADirectoryError):
    """NFS3ERR_NOTDIR."""


class NfsIsADirectory(NfsError, IsADirectoryError):
    """NFS3ERR_ISDIR."""


class NfsPermission(NfsError, PermissionError):
    """NFS3ERR_PERM and NFS3ERR_ACCES."""


_CLASS: dict[nfsstat3, type[NfsError]] = {
    nfsstat3.NFS3ERR_NOENT: NfsNotFound,
    nfsstat3.NFS3ERR_EXIST: NfsExists,
    nfsstat3.NFS3ERR_NOTDIR: NfsNotADirectory,
    nfsstat3.NFS3ERR_ISDIR: NfsIsADirectory,
    nfsstat3.NFS3ERR_PERM: NfsPermission,
    nfsstat3.NFS3ERR_ACCES: NfsPermission,
}


def nfs_error(status: nfsstat3, path: str | None = None, path2: str | None = None) -> NfsError:
    """Returns the exception for a status that is not NFS3_OK, of the subclass for it."""
    return _CLASS.get(status, NfsError)(status, path, path2)
