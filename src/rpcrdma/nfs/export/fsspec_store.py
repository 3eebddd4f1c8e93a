"""The file system of fsspec behind an export: its library's answers, and its errors as error numbers.

Libraries raise what they like. Their errors are told apart by type, by the status of HTTP that they carry, and by the
words in the names of their classes; all of these but a missing object are logged with their cause.
"""

from __future__ import annotations

import errno
import importlib.metadata
import logging
import re
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.nfs.export.export_limits import NFS_FSSPEC_INSTANCES_MAX, NFS_FSSPEC_LISTED_MAX
from rpcrdma.nfs.export.fsspec_info import ObjectInfo, Unusable, info_of
from rpcrdma.nfs.export.tree import NAME_OCTETS_MAX, FileKind, Refused

__all__ = ["FsspecStore", "errno_of", "missing_package", "shown_url"]

_LOGGER = logging.getLogger("rpcrdma.server")
_PASSWORD = re.compile(r"(//[^/:]*):[^/]*@")
"""A user, who may be an address of e-mail, and a password, which ends at the last "@" before the path."""
_CAUSE_SHOWN_MAX = 300
_DOTS = ("", ".", "..")
_UNREACHABLE = (
    errno.EAGAIN,
    errno.EBUSY,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.EINTR,
    errno.EMFILE,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EPIPE,
    errno.ETIMEDOUT,
)
_BY_ERRNO: Final = dict.fromkeys(_UNREACHABLE, errno.EAGAIN) | {
    number: number
    for number in (
        errno.EACCES,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ESTALE,
    )
}
_BY_TYPE: Final = (
    (FileNotFoundError, errno.ENOENT),
    (PermissionError, errno.EACCES),
    (NotADirectoryError, errno.ENOTDIR),
    (IsADirectoryError, errno.EISDIR),
    ((TimeoutError, ConnectionError), errno.EAGAIN),
)
_BY_STATUS: Final = {
    401: errno.EACCES,
    403: errno.EACCES,
    404: errno.ENOENT,
    408: errno.EAGAIN,
    410: errno.ENOENT,
    429: errno.EAGAIN,
    500: errno.EAGAIN,
    502: errno.EAGAIN,
    503: errno.EAGAIN,
    504: errno.EAGAIN,
}
_FAULTS: Final = (Exception, CancelledError)
"""What libraries raise: CancelledError, which is no Exception, comes from the tasks of those that are asynchronous."""
_BY_WORD: Final = (
    (re.compile("Credential|Auth|Unauthorized|Forbidden|AccessDenied|Token"), errno.EACCES),
    (re.compile("Timeout|TimedOut|Cancelled|Connect|Throttl|SlowDown|Unavailable"), errno.EAGAIN),
)


def shown_url(url: str) -> str:
    """Returns a URL, or a text with URLs, for a log: with "..." in place of passwords."""
    return _PASSWORD.sub(r"\1:...@", url)


def errno_of(error: BaseException) -> int:
    """Returns the nearest error number for an error of a library, by its type, errno, HTTP status or class name.

    EAGAIN stands for failures that may pass, and EIO for unknown ones.
    """
    for kinds, number in _BY_TYPE:
        if isinstance(error, kinds):
            return number
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    for holder in (error, getattr(error, "response", None)):
        for name in ("status", "status_code", "code"):
            status = getattr(holder, name, None)
            if isinstance(status, int) and status in _BY_STATUS:
                return _BY_STATUS[status]
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    return next((number for word, number in _BY_WORD if word.search(names)), errno.EIO)


def _open_url(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Returns (a new file system object of fsspec for `url`, the path in it); raises any error of the library."""
    from fsspec.core import url_to_fs  # noqa: PLC0415 - an optional package

    # An instance of our own: others would share its caches and its connections.
    filesystem, path = url_to_fs(url, skip_instance_cache=True, **options)
    return filesystem, path


def missing_package(protocol: str, error: ImportError) -> str:
    """Returns the text of `error`, which fsspec raises for a missing package, with the command that installs it.

    The text lacks the command if fsspec does not know the package. `protocol` is the scheme of the URL, such as "s3".
    """
    from fsspec.registry import known_implementations  # noqa: PLC0415 - an optional package

    text = str(error)
    # None where fsspec was put on the path without the metadata of its distribution.
    found = importlib.metadata.distributions(name="fsspec")
    extras = {extra for each in found for extra in each.metadata.get_all("Provides-Extra") or ()}
    # An extra has the name of one of the protocols of its library: http stands for https as well.
    libraries = {name: known["class"] for name, known in known_implementations.items()}
    alike = (name for name in (protocol, *libraries) if libraries.get(name) == libraries.get(protocol))
    extra = next((name for name in alike if name in extras), None)
    return text if extra is None or "pip install" in text else f"{text}: pip install 'fsspec[{extra}]'"


_SAID_IN_WORDS = {ValueError, ImportError, ModuleNotFoundError}
"""Classes of errors whose texts fsspec itself writes, as sentences."""


def _cause(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        # Libraries give the path alone.
        return "nothing is there"
    text = shown_url(" ".join(str(error).split()))[:_CAUSE_SHOWN_MAX]
    if text.startswith("[Errno") or (text and type(error) in _SAID_IN_WORDS):
        return text
    return f"{type(error).__name__}: {text or 'no details'}"


class FsspecStore:
    """The directory at a URL of fsspec, read by the library of its protocol. Thread-safe; all methods may block.

    Paths are relative to the URL, "" for the directory itself, with "/" between names. `options` are those of the
    library, and `now_ns` returns the time in nanoseconds since 1970. Raises OSError: a package is missing, or the URL
    cannot be read or leads to no directory.
    """

    def __init__(self, url: str, options: Mapping[str, Any], now_ns: Callable[[], int]) -> None:
        self.shown = shown_url(url)
        self._url = url
        self._options = dict(options)
        # If the system's clock was set back, fresh times would look old by `now_ns`, which may not follow.
        self._now_ns: Callable[[], int] = lambda: min(now_ns(), time.time_ns())
        self._log = LimitedLog(_LOGGER, later=lambda _delay_s, _callback: None)
        self._lock = threading.Lock()
        self._left_out = False
        filesystem, root = self._opened()
        self._shared = filesystem if getattr(filesystem, "async_impl", False) else None
        """The instance for all threads, of a library with an event loop of its own; None: each thread in a call needs
        its own."""
        self._idle = [filesystem]
        self._root = root
        self._below = root if not root or root.endswith("/") else root + "/"
        self.only_lists = len(root) > 1 and root.endswith("/")
        """Whether the URL ends with a slash, as of web servers: directories are asked for with a slash, and can only be
        listed."""
        self.identity = self.shown.rstrip("/").encode("utf-8", "surrogateescape")
        """Octets that stand for the directory of the URL, the same in each run of the server."""
        self._check_root()

    def info(self, path: str, *, kind: FileKind | None = None) -> ObjectInfo:
        """Asks the store for the present state of the object at `path`, relative to the URL; "" is the root.

        `kind` is the kind of the object if known, else None. With DIRECTORY the store is not asked about the root, nor
        about any directory if the URL ends with a slash: these are taken to exist. Otherwise `kind` has no effect, and
        the state may be that of an object of another kind.

        Raises Refused: ENOENT, also for an object that NFS cannot serve; or, logged, EACCES, EAGAIN, EIO, others.
        """
        if kind is FileKind.DIRECTORY and (self.only_lists or not path):
            # The root stays when all objects below it are gone; the list of a web server is the proof of the others.
            return ObjectInfo(FileKind.DIRECTORY, 0, None, None)
        with self._refusals(path), self._lent() as filesystem:
            where, now_ns = self._where(path), self._now_ns()
            filesystem.invalidate_cache(where)
            try:
                return info_of(filesystem.info(where), now_ns)
            except Unusable as error:
                self._leave_out(path, str(error))
                raise Refused(errno.ENOENT) from None

    def listing(self, path: str) -> Iterator[tuple[bytes, ObjectInfo]]:
        """Yields (name, state) of each object in the directory at `path`, except those that NFS cannot serve.

        `path` is relative to the URL, "" for its root. Yields nothing for a root that is missing. The store is asked
        when the iteration begins; the iteration raises the errors.

        Raises:
            Refused: ENOENT; EACCES, EAGAIN and others, which are logged; EIO also: the directory has more than
                `NFS_FSSPEC_LISTED_MAX` entries.
        """
        where = self._where(path, in_directory=True)
        with self._refusals(path), self._lent() as filesystem:
            now_ns = self._now_ns()
            filesystem.invalidate_cache(where)
            try:
                entries = filesystem.ls(where, detail=True)
            except FileNotFoundError:
                if path:
                    raise
                return
            for count, entry in enumerate(entries):
                if count >= NFS_FSSPEC_LISTED_MAX:
                    raise ValueError(f"the directory has more than {NFS_FSSPEC_LISTED_MAX} entries")
                if (found := self._entry(where.strip("/"), path, entry, now_ns)) is not None:
                    yield found

    def read(self, path: str, start: int, end: int) -> bytes:
        """Returns octets `start` to before `end` of the file at `path` below the URL; fewer if the file ends earlier.

        Raises Refused: ENOENT; EACCES, EAGAIN, EIO and others, which are logged.
        """
        with self._refusals(path), self._lent() as filesystem:
            data = filesystem.cat_file(self._where(path), start=start, end=end)
            if not isinstance(data, bytes | bytearray | memoryview):
                raise TypeError(f"the library has read {type(data).__name__}, no octets")
            return bytes(data)

    def complain(self, path: str, text: str) -> None:
        """Logs `text` as a warning, a fault with the object at `path`; at most one fault of the store a minute.

        Further faults are held back: `flush`, or the next fault that is logged, logs their number and the last of them.
        """
        with self._lock:
            self._log.log(logging.WARNING, self.shown, "%s: %r: %s", self.shown, path, text)

    def flush(self) -> None:
        """Logs the number and the last of the faults that `complain` has held back, since it logs one a minute."""
        with self._lock:
            self._log.flush()

    def _opened(self) -> tuple[Any, str]:
        try:
            return _open_url(self._url, self._options)
        except ImportError as error:
            if error.name is not None and error.name.startswith("fsspec"):
                cause = "the package fsspec is not installed: run pip install fsspec"
            else:
                # The last scheme of a chain, such as zip::s3://, needs a package most often.
                cause = missing_package((re.findall(r"(\w+)://", self._url) or [""])[-1], error)
            raise OSError(f"cannot export {self.shown}: {cause}") from None
        except _FAULTS as error:
            raise self._failure(_cause(error)) from error

    def _check_root(self) -> None:
        try:
            with self._lent() as filesystem:
                if self.only_lists:
                    filesystem.ls(self._root, detail=True)
                    return
                info = filesystem.info(self._root)
        except _FAULTS as error:
            raise self._failure(_cause(error)) from None
        if not isinstance(info, Mapping) or info.get("type") != "directory":
            raise self._failure("it is no directory")

    def _failure(self, cause: str) -> OSError:
        error = OSError(f"cannot export {self.shown}: {cause}")
        error.add_note("check that the store runs and has this directory, or correct the URL")
        return error

    def _where(self, path: str, *, in_directory: bool = False) -> str:
        """Returns the library's path of the object at `path` below the URL.

        `in_directory`: the object is a directory to be listed; its path then ends in "/" if the URL does.
        """
        if not path:
            return self._root
        return self._below + path + ("/" if in_directory and self.only_lists else "")

    @contextmanager
    def _lent(self) -> Iterator[Any]:
        """A context manager that yields an instance of the library's file system for the calls of this thread.

        Where each thread needs an instance of its own, it is kept for later calls, unless an error other than
        FileNotFoundError or Refused is raised.
        """
        if self._shared is not None:
            yield self._shared
            return
        with self._lock:
            filesystem = self._idle.pop() if self._idle else None
        if filesystem is None:
            filesystem = _open_url(self._url, self._options)[0]
        try:
            yield filesystem
        except (FileNotFoundError, Refused):
            self._take_back(filesystem)
            raise
        # After other errors its connection may be of no use.
        self._take_back(filesystem)

    def _take_back(self, filesystem: Any) -> None:
        with self._lock:
            if len(self._idle) < NFS_FSSPEC_INSTANCES_MAX:
                self._idle.append(filesystem)

    @contextmanager
    def _refusals(self, path: str) -> Iterator[None]:
        """A context manager that turns errors of the library of fsspec, about the object at `path`, into Refused.

        It logs these errors, except those of missing objects.
        """
        try:
            yield
        except Refused:
            raise
        except _FAULTS as error:
            number = errno_of(error)
            if number != errno.ENOENT:
                self.complain(path, f"{_cause(error)} (clients get {errno.errorcode[number]})")
            raise Refused(number) from error

    def _entry(self, where: str, path: str, entry: object, now_ns: int) -> tuple[bytes, ObjectInfo] | None:
        """Returns (name, state) of `entry`, an item of the library's `ls`; None: the directory itself, or unusable.

        `where` is the library's path of the directory, without slashes at its ends, and `path` that below the URL.
        `now_ns` is the time of the listing. The first unusable entry of the store is logged.
        """
        full = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(full, str):
            self._leave_out(path, "the library lists an object without a name")
            return None
        full = full.strip("/")
        if full == where:
            # Stores have an object in the place of an empty directory.
            return None
        below = where + "/" if where else ""
        # Web servers list objects by the name of another scheme.
        name = full.removeprefix(below) if full.startswith(below) else full.rpartition("/")[2]
        try:
            octets = name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            octets = b""
        if name in _DOTS or "/" in name or not 0 < len(octets) <= NAME_OCTETS_MAX or b"\0" in octets:
            self._leave_out(path, f"it is no name for NFS: {full[-_CAUSE_SHOWN_MAX:]!r}")
            return None
        try:
            return octets, info_of(entry, now_ns)
        except Unusable as error:
            self._leave_out(f"{path}/{name}".lstrip("/"), str(error))
            return None

    def _leave_out(self, path: str, why: str) -> None:
        """Logs that the object at a path is not served, and `why`; only for the first such object of the store."""
        with self._lock:
            if self._left_out:
                return
            self._left_out = True
        _LOGGER.warning("%s: objects that NFS cannot serve are left out; the first: %r: %s", self.shown, path, why)
