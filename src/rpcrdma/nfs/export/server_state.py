"""The state that a server keeps from one run to the next: the key of its file handles and where it last saw objects.

The file `format` has the number of the layout of all files of the directory, those of other modules as well. A change
by which an older version would misread one of them raises `FORMAT`.

A place, (parent's handle, name) by handle, is a hint: `ObjectTree` checks that the object is still there. So places are
written to a small database lazily and never synced; a place lost in a crash is found again by other means, and a
damaged database is put aside. In memory alone the index also knows deleted objects, so that a client that repeats a
stale handle starts no search.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import re
import sqlite3
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from rpcrdma.nfs.export.export_limits import NFS_PLACES_IN_MEMORY_MAX, NFS_PLACES_MAX, NFS_PLACES_UNWRITTEN_MAX
from rpcrdma.nfs.export.mount_table import MountTable, is_at_or_below, real_path
from rpcrdma.nfs.export.state_database import is_damage, open_database, put_aside

__all__ = [
    "DELETED",
    "FORMAT",
    "NameInDirectory",
    "PlaceIndex",
    "ServerState",
    "StatePlace",
    "check_state",
    "open_state",
]

_LOGGER = logging.getLogger("rpcrdma.server")
FORMAT: Final = 1
"""The newest layout of the files in a state directory that this version reads and writes."""
_FORMAT_FILE = "format"
_FORMAT_OCTETS_MAX = 20
_KEY_FILE = "file-handle.key"
_INDEX_FILE = "places.sqlite3"
_KEY_OCTETS = 32
_VERIFIER_OCTETS = 8
_OF_THIS_MACHINE = re.compile(r"^(?:file|local):(?://)?")
"""The beginning of a URL by which fsspec reads a path of this machine, as it reads one without a protocol."""

_LOSS = "objects are looked for anew"
_SCHEMA = "CREATE TABLE IF NOT EXISTS place (object BLOB PRIMARY KEY, parent BLOB NOT NULL, name BLOB NOT NULL)"
_PUT = "INSERT OR REPLACE INTO place VALUES (?, ?, ?)"
_GET = "SELECT parent, name FROM place WHERE object = ?"
_COUNT = "SELECT count(*) FROM place"
_DROP = "DELETE FROM place WHERE object = ?"
_TRIM = "DELETE FROM place WHERE rowid IN (SELECT rowid FROM place ORDER BY rowid LIMIT ?)"


class NameInDirectory(NamedTuple):
    """The place of an object: the file handle of its directory, and its name there."""

    parent: bytes
    name: bytes


DELETED: Final = NameInDirectory(b"", b"")
"""The place of an object that has been deleted: no entry has an empty name."""


class PlaceIndex:
    """The places, (parent's handle, name), where objects were last seen, by file handle. Thread-safe.

    A place is a hint that calling code checks. Memory has the newest `NFS_PLACES_IN_MEMORY_MAX` places. Places are also
    written lazily to a database at `path`, the newest `NFS_PLACES_MAX`; with `path` None, or after the database has
    failed, which is logged, they are kept in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        """Is never held during a wait for the disk; `_database_lock` may be, and is taken before this one."""
        self._database_lock = threading.Lock()
        self._recent: OrderedDict[bytes, NameInDirectory] = OrderedDict()
        self._unwritten: dict[bytes, NameInDirectory | None] = {}
        self._path = path
        self._database, self._rows = _open_places(path) if path is not None else (None, 0)

    @property
    def needs_flush(self) -> bool:
        """Whether a thread that may block should call `flush`: `NFS_PLACES_UNWRITTEN_MAX` or more are unwritten."""
        return len(self._unwritten) >= NFS_PLACES_UNWRITTEN_MAX

    def remember(self, key: bytes, parent: bytes, name: bytes) -> None:
        """Records that the object of handle `key` is `name` in the directory of handle `parent`; never blocks."""
        recent = self._recent
        place = NameInDirectory(parent, name)
        if recent.get(key) == place:
            return
        with self._lock:
            self._hold(key, place)
            self._note(key, place)

    def forget(self, key: bytes, *, deleted: bool = False) -> None:
        """Drops the place (directory and name) recorded for the object with the handle `key`; never blocks.

        `deleted`: the object has left the file system for good. `find` then returns `DELETED` for it until this entry
        is evicted from memory.
        """
        with self._lock:
            self._recent.pop(key, None)
            if deleted:
                self._hold(key, DELETED)
            self._note(key, None)

    def find(self, key: bytes) -> NameInDirectory | None:
        """Returns (handle of the directory, name) where the object of handle `key` was last seen; None: unknown.

        Returns `DELETED` for an object known to be gone. May block. A failure of the database is logged, not raised;
        the place then counts as unknown.
        """
        with self._lock:
            place = self._recent.get(key)
            if place is not None or self._database is None:
                return place
            if key in self._unwritten:
                return self._unwritten[key]
        with self._database_lock:
            row = None
            if self._database is not None:
                try:
                    row = self._database.execute(_GET, (key,)).fetchone()
                except sqlite3.Error as error:
                    self._do_without(error)
            place = NameInDirectory(*row) if row is not None and _is_place(*row) else None
            # Before a flush can follow: of an object that was seen elsewhere meanwhile, memory knows that.
            with self._lock:
                if key in self._recent or key in self._unwritten:
                    return self._recent.get(key) or self._unwritten.get(key)
                if place is not None:
                    self._hold(key, place)
        return place

    def flush(self) -> None:
        """Writes the places (directory and name by handle) that have changed to the database; may block.

        Does nothing without a database, or while another thread uses it. A failure is logged, not raised.
        """
        if self._database_lock.acquire(blocking=False):
            try:
                self._flush()
            finally:
                self._database_lock.release()

    def close(self) -> None:
        """Writes the places (directory and name by handle) that have changed to the database, and closes it; may block.

        A failure to write is logged, not raised. Later places are kept in memory only. May be called again.
        """
        with self._database_lock:
            self._flush()
            if self._database is not None:
                self._database.close()
                self._database = None

    def _note(self, key: bytes, place: NameInDirectory | None) -> None:
        # While the disk stands still, further places are only kept in memory.
        if self._database is not None and len(self._unwritten) < 2 * NFS_PLACES_UNWRITTEN_MAX:
            self._unwritten[key] = place

    def _hold(self, key: bytes, place: NameInDirectory) -> None:
        self._recent[key] = place
        self._recent.move_to_end(key)
        if len(self._recent) > NFS_PLACES_IN_MEMORY_MAX:
            self._recent.popitem(last=False)

    def _flush(self) -> None:
        database = self._database
        if database is None or not self._unwritten:
            return
        with self._lock:
            unwritten, self._unwritten = self._unwritten, {}
        rows = [(key, *place) for key, place in unwritten.items() if place is not None]
        gone = [(key,) for key, place in unwritten.items() if place is None]
        try:
            with database:
                database.execute("BEGIN")
                database.executemany(_PUT, rows)
                database.executemany(_DROP, gone)
                # Replaced rows count twice, so the bound takes effect too early rather than too late.
                self._rows += len(rows)
                if self._rows > NFS_PLACES_MAX:
                    database.execute(_TRIM, (self._rows - NFS_PLACES_MAX + NFS_PLACES_MAX // 10,))
                    self._rows = database.execute(_COUNT).fetchone()[0]
        except sqlite3.Error as error:
            self._do_without(error)

    def _do_without(self, error: sqlite3.Error) -> None:
        """Closes the failed database and logs the error; from then on places are in memory only.

        A damaged database file gets another name if the directory can be written.
        """
        database, self._database = self._database, None
        with self._lock:
            self._unwritten.clear()
        if database is not None and self._path is not None:
            with contextlib.suppress(sqlite3.Error):
                database.close()
            if not is_damage(error) or not put_aside(self._path, error, _LOSS):
                _LOGGER.warning("%s: %s; until the server is restarted it does without", self._path, error)


def _open_places(path: Path) -> tuple[sqlite3.Connection | None, int]:
    """Opens the database of places (directory and name by handle); returns (connection, number of its rows).

    Returns (None, 0), and logs a warning, if there can be no database.
    """
    try:
        database = open_database(path, _SCHEMA, _GET.replace("?", "x''"), durable=False, loss=_LOSS)
        return database, database.execute(_COUNT).fetchone()[0]
    except sqlite3.Error as error:
        _LOGGER.warning("%s: %s; the server does without it", path, error)
        return None, 0


def _is_place(parent: object, name: object) -> bool:
    """Returns whether the columns of a row, maybe damaged, are a directory's handle and a name that can be there."""
    return isinstance(parent, bytes) and isinstance(name, bytes) and bool(name) and not {0, ord("/")} & set(name)


class ServerState:
    """The state of a server that its exports share: key, places, and write verifier (RFC 1813 section 3.3.7).

    `key`, 32 octets, seals the file handles, and `places` has the directory and name where each object was last seen;
    both stay from run to run. `write_verifier` has 8 octets, new in each run and by `data_lost`. `open_state` makes
    instances.
    """

    __slots__ = ("directory", "key", "places", "write_verifier")

    def __init__(self, key: bytes, write_verifier: bytes, places: PlaceIndex, directory: Path) -> None:
        self.directory = directory
        """The directory that holds the key and the places."""
        self.key = key
        self.write_verifier = write_verifier
        self.places = places

    def data_lost(self) -> None:
        """Replaces the write verifier after a loss of unstable data, so that clients send their unstable data again."""
        self.write_verifier = hashlib.blake2b(self.write_verifier, key=self.key, digest_size=8).digest()

    def close(self) -> None:
        """Writes changed places (directory and name) to the database, and closes it; may block, and be called again."""
        self.places.close()


class StatePlace:
    """Where the state directory of a server is, to find exports that would show clients the key of all file handles.

    The directory is located once, at construction: use an instance for one pass over exports only. The constructor and
    the methods may block.

    Args:
        directory: the state directory, which need not exist.
        mounts: the table of mounts for this pass; None: a new one.
    """

    def __init__(self, directory: Path, mounts: MountTable | None = None) -> None:
        self._directory = directory
        self._mounts = mounts or MountTable()
        try:
            self._place: tuple[bytes, str] | None = self._mounts.place_of(directory)
        except OSError:
            self._place = None

    def is_shown_by(self, source: Path | str) -> bool:
        """Returns whether the state directory is, or is below, the directory that an export shows to clients.

        Symbolic links are followed, and a directory is recognised at each place where its file system is mounted. File
        systems mounted below an exported path are not part of the export, but are part of one by URL. Returns False if
        the state directory or `source` cannot be examined.

        Args:
            source: a Path: the exported directory; a str: the exported URL. Of the parts of a URL that "::" joins, only
                those count that fsspec reads as paths of this machine.
        """
        if isinstance(source, str):
            *wrappers, last = source.split("::")
            # A part in front is the name of a protocol, if it is one word.
            paths = map(_local_path, (last, *(part for part in wrappers if not part.isalpha())))
            return any(
                is_at_or_below(real_path(self._directory), real_path(path)) or self.is_shown_by(path)
                for path in paths
                if path is not None
            )
        if self._place is None:
            return False
        try:
            device, exported = self._mounts.place_of(source)
        except OSError:
            return False
        return device == self._place[0] and is_at_or_below(self._place[1], exported)

    def refuse(self, source: Path | str) -> None:
        """Raises OSError if `source`, the directory (a Path) or URL (a str) of an export, shows the state directory.

        It does if the state directory is, or is below, the directory that clients see, as `is_shown_by` finds out.
        """
        if self.is_shown_by(source):
            text = f"{source} contains the directory of the server's state, {self._directory}"
            raise OSError(f"{text}; keep the state in a directory that is not exported")


def _local_path(url: str) -> Path | None:
    """Returns the path of this machine as which fsspec reads `url`, without "::"; None if it is no such path."""
    path = _OF_THIS_MACHINE.sub("", url)
    if path == url and "://" in url:
        return None
    return Path(os.path.expanduser(path))


def open_state(directory: Path, random_bytes: Callable[[int], bytes] = os.urandom) -> ServerState:
    """Opens, or makes if missing, the state that a server keeps on disk so that handles stay valid after a restart.

    Args:
        directory: the state directory, which is made if missing, for the owner alone.
        random_bytes: returns the given number of unpredictable octets; a test may hand in known ones.

    Returns:
        The state; the caller closes it.

    Raises:
        PermissionError: other users have access to the key, or its owner is neither the server's user nor root.
        OSError: the directory, its format or its key cannot be read or made, or is invalid, or the format is newer. A
            database that fails is logged only.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _check_format(directory):
        _name_format(directory / _FORMAT_FILE, random_bytes)
    key = _read_or_make_key(directory / _KEY_FILE, random_bytes)
    return ServerState(key, random_bytes(_VERIFIER_OCTETS), PlaceIndex(directory / _INDEX_FILE), directory)


def check_state(directory: Path) -> None:
    """Checks that `open_state` accepts the format and the key in a state directory; makes no file.

    A missing directory or file passes. In a process of root a key that another user owns passes without being read.

    Raises:
        OSError: the format is newer or invalid, the key has another length or is open to other users, or a file cannot
            be read.
    """
    _check_format(directory)
    key = directory / _KEY_FILE
    with contextlib.suppress(FileNotFoundError):
        # For root the state may be that of another user's server, which alone can tell.
        if os.geteuid() != 0 or key.lstat().st_uid == 0:
            _read_key(key)


def _check_format(directory: Path) -> bool:
    """Checks that this version knows the format of a state directory.

    Returns:
        True if the directory has the file that names its format. False: the directory is new, or was made by a version
        that did not write this file, whose format is 1.

    Raises:
        OSError: the format is newer, or the file is invalid or cannot be read.
    """
    path = directory / _FORMAT_FILE
    try:
        text = _read(path, _FORMAT_OCTETS_MAX + 1, "to have it written again")
    except FileNotFoundError:
        return False
    number = int(text) if len(text) <= _FORMAT_OCTETS_MAX and text.strip().isdigit() else 0
    if number < 1:
        raise OSError(f"{path} holds no number of a format: remove it to have it written again")
    if number > FORMAT:
        raise OSError(
            f"{directory} has format {number}, and this version of rpcrdma knows formats up to {FORMAT}: install the"
            f" version that has written it, or remove all files there but {_KEY_FILE}, which costs clients their locks"
        )
    return True


def _name_format(path: Path, random_bytes: Callable[[int], bytes]) -> None:
    try:
        _make_file(path, b"%d\n" % FORMAT, random_bytes)
    except OSError as error:
        # Where only the key can be read, it stays without.
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise


def _read_or_make_key(path: Path, random_bytes: Callable[[int], bytes]) -> bytes:
    try:
        return _read_key(path)
    except FileNotFoundError:
        _make_file(path, random_bytes(_KEY_OCTETS), random_bytes)
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    key = _read(path, _KEY_OCTETS + 1, "to get a new key", private=True)
    if len(key) != _KEY_OCTETS:
        raise OSError(f"{path} has {len(key)} octets, no key of {_KEY_OCTETS}: remove it to get a new one")
    return key


def _read(path: Path, octets: int, purpose: str, *, private: bool = False) -> bytes:
    """Returns at most `octets` octets from the start of the regular file at `path`; follows no symbolic link.

    The rest of a longer file is left out. `purpose`, such as "to get a new key", follows "remove it " in the texts of
    errors. `private`: whether access of other users is an error.

    Raises:
        PermissionError: with `private`, other users have access, or the owner is neither the process's user nor root.
        OSError: the file is missing, cannot be read, or is not regular.
    """
    # What stands there may be a pipe, which would be waited for.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is no file: remove it {purpose}")
        if private and (stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid not in {os.geteuid(), 0}):
            raise PermissionError(
                f"{path} is open to users other than its owner: run chmod 600, or remove it {purpose}"
            )
        return os.read(fd, octets)
    finally:
        os.close(fd)


def _make_file(path: Path, content: bytes, random_bytes: Callable[[int], bytes]) -> None:
    """Makes a file with `content` at `path`, for its owner alone; keeps a file that exists there already.

    The content is synced in a temporary file, whose name has 8 octets of `random_bytes`, and which is then linked to
    `path`, so that two servers that start at once use the same file. Raises OSError if that fails.
    """
    aside = path.with_name(f"{path.name}.{random_bytes(8).hex()}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink()
