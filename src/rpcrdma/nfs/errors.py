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
"""The status of version 3 for each error number of this machine; a client looks up the reverse."""

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
    """The path of an object within an export, as a string, with the URL of the export in `export_url`.

    A client that knows the URL hands out such paths, so that errors show the URL of the object.
    """

    __slots__ = ("export_url",)

    export_url: Url

    def __new__(cls, path: str, export_url: Url) -> Self:
        made = super().__new__(cls, path)
        made.export_url = export_url
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ExportPath, (str(self), self.export_url)

    def with_text(self, path: str) -> ExportPath:
        """Returns an `ExportPath` for another path of the same export: the text `path`, and the same `export_url`."""
        return ExportPath(path, self.export_url)


def in_words(path: str) -> str:
    """Returns text for messages: the URL of the object at `path` if that is an `ExportPath`, else `path` itself."""
    return _url_of(path) or path


def _url_of(path: str | None) -> str | None:
    if not isinstance(path, ExportPath):
        return None
    export = path.export_url
    return str(replace(export, path=export.path.rstrip("/") + path, mount_port=None))


class ServerPathError(OSError):
    """An error about an object of a server; the paths in an OSError of another class are of this machine.

    `filename` is the path of the object within the export, behind a prefix where `name_below` was called; `filename2`
    is the second path of an operation that has two, else None. The text shows the URLs `url` and `url2` where they are
    known, else the paths.
    """

    _url: str | None = None
    _url2: str | None = None

    @property
    def url(self) -> str | None:
        """The URL of the object at `filename`, without a port of MOUNT; None if it is unknown."""
        return self._url or _url_of(self.filename)

    @property
    def url2(self) -> str | None:
        """The URL of the object at `filename2`, without a port of MOUNT; None if it is unknown."""
        return self._url2 or _url_of(self.filename2)

    def __str__(self) -> str:
        if self.url is None:
            return super().__str__()
        second = "" if self.filename2 is None else f" -> {self.url2 or self.filename2!r}"
        return f"[Errno {self.errno}] {self.strerror}: {self.url!r}{second}"

    def found_at(self, url: Url) -> None:
        """Sets the property `url`, unless it is known already.

        Args:
            url: the URL of the object that the error is about; a port of MOUNT in it is left out.
        """
        self._url = self.url or str(replace(url, mount_port=None))

    @property
    def path(self) -> str | None:
        """The path of the object, equal to `filename`; None if it is unknown."""
        path: str | None = self.filename
        return path

    def name_below(self, prefix: str) -> None:
        """Puts `prefix` before `filename` and `filename2`, where they are strings; `url` and `url2` stay as they are.

        Args:
            prefix: the text, such as the path of the export; no slash is added between.
        """
        self._url, self._url2 = self.url, self.url2
        if isinstance(self.filename, str):
            self.filename = prefix + self.filename
        if isinstance(self.filename2, str):
            self.filename2 = prefix + self.filename2


_KEPT = ("__notes__", "_url", "_url2")


class NfsError(ServerPathError):
    """The server answered with a status other than NFS3_OK (RFC 1813 section 2.6).

    `nfs_error` makes these errors. For some statuses there are subclasses that derive from an exception of Python's
    file operations as well, so that `except FileNotFoundError` works. `errno` is this machine's error number for the
    status, or the nearest one, such as ESTALE for NFS3ERR_BADHANDLE and EBUSY for NFS3ERR_JUKEBOX.

    Args:
        status: the status.
        path: the path of the object within the export; None if it is unknown.
        path2: the second path of an operation that has two, such as RENAME; None for other operations.
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
    """The error for the status NFS3ERR_NOENT, which `nfs_error` makes."""


class NfsExists(NfsError, FileExistsError):
    """The error for the status NFS3ERR_EXIST, which `nfs_error` makes."""


class NfsNotADirectory(NfsError, NotADirectoryError):
    """The error for the status NFS3ERR_NOTDIR, which `nfs_error` makes."""


class NfsIsADirectory(NfsError, IsADirectoryError):
    """The error for the status NFS3ERR_ISDIR, which `nfs_error` makes."""


class NfsPermission(NfsError, PermissionError):
    """The error for the statuses NFS3ERR_PERM and NFS3ERR_ACCES, which `nfs_error` makes."""


_CLASS: dict[nfsstat3, type[NfsError]] = {
    nfsstat3.NFS3ERR_NOENT: NfsNotFound,
    nfsstat3.NFS3ERR_EXIST: NfsExists,
    nfsstat3.NFS3ERR_NOTDIR: NfsNotADirectory,
    nfsstat3.NFS3ERR_ISDIR: NfsIsADirectory,
    nfsstat3.NFS3ERR_PERM: NfsPermission,
    nfsstat3.NFS3ERR_ACCES: NfsPermission,
}


def nfs_error(status: nfsstat3, path: str | None = None, path2: str | None = None) -> NfsError:
    """Makes the exception for a status, of the `NfsError` subclass for it if there is one; the caller raises it.

    Args:
        status: the status of the reply; raises KeyError for NFS3_OK, which is no error.
        path: the path of the object within the export; None if it is unknown.
        path2: the second path of an operation that has two; None for other operations.
    """
    return _CLASS.get(status, NfsError)(status, path, path2)
