"""Cookies that hold while a directory changes.

Entries are listed in the order of a keyed digest of their names, and an entry's cookie is this digest. So a name keeps
its cookie and its place under all changes around it, in this run of the server and the next: a listing goes on where
it was, every name that is there throughout is listed exactly once, and no cookie ever goes bad. The price is that a
page needs the names of the whole directory; they are kept, sorted, from one page to the next, and from one listing to
the next while the directory does not change. Of a directory that is too large a window is kept, the names that come
next.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from rpcrdma.nfs.export.export_limits import NFS_LISTING_OCTETS_MAX
from rpcrdma.nfs.export.name_table import NameTable
from rpcrdma.nfs.export.tree import Entry

__all__ = ["COOKIE_DOT", "COOKIE_DOT_DOT", "DirectoryListings", "KnownEntries", "ListedEntry", "Version", "name_digest"]

COOKIE_DOT = 1
"""The cookie of the entry "."."""
COOKIE_DOT_DOT = 2
"""The cookie of the entry ".."."""
_COOKIE_FIRST = 3
_COOKIE_BITS = 63
"""Bits of a cookie: 63, since some clients treat cookies as signed offsets."""


class KnownEntries:
    """The entries of a directory after a cookie, for trees that have all names in memory; implements `tree.Entries`."""

    complete = True

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)


class ListedEntry(NamedTuple):
    """An entry of a directory: its cookie, its name and its inode number."""

    cookie: int
    name: bytes
    inode: int


Scan = Callable[[], Iterable[tuple[bytes, int]]]
"""Reads a whole directory: yields (name, inode number) without "." and ".."."""

Version = tuple[int, int] | None
"""Two numbers of which at least one changes when the directory changes; None while the times of the directory are too
recent to tell."""


@dataclass(slots=True, eq=False)
class _Window:
    """The names of a directory after the cookie `after`, sorted by cookie in `table`.

    `complete`: whether they reach to the end of the directory; otherwise the limit of memory allows no more. `version`
    is that of the directory before it was read; `ticket` is a number that grows with the time when reading began.
    """

    ticket: int
    version: Version
    after: int
    table: NameTable
    complete: bool

    def shows(self, cookie: int) -> bool:
        """Returns whether this window has the entry that follows `cookie`, or shows that no entry follows."""
        return cookie >= self.after and (self.complete or cookie < self.table.last_key())

    def entries(self, cookie: int) -> Iterator[ListedEntry]:
        """Yields the entries after `cookie` in the order of their cookies, each name once."""
        last, names = -1, set[bytes]()
        for key, inode, name in self.table.rows(cookie + 1):
            if key != last:
                last, names = key, {name}
            elif name in names:
                # Some file systems list a name twice when the directory changes while it is read.
                continue
            else:
                names.add(name)
            yield ListedEntry(key, name, inode)


class _Turn:
    """The lock under which one thread at a time reads a directory, and the number of threads that hold or await it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0


def _cut(table: NameTable, first: int, limit: int) -> tuple[NameTable, bool]:
    """Sorts `table` by cookie; returns (new table of the names from cookie `first` on, whether some were cut off).

    Names at the end are cut off if the memory would exceed `limit` octets. `table` must not be empty.
    """
    table.sort()
    last = table.last_key()
    table = table.least(limit, first)
    return table, bool(len(table)) and table.last_key() < last


def name_digest(key: bytes) -> Callable[[bytes], int]:
    """Returns a function that computes the cookie of a name, 3 to 2^63 - 1, by a keyed digest.

    `key` is the server's secret of at most 64 octets, so that clients cannot choose names with equal cookies.
    """
    keyed = hashlib.blake2b(key=key, digest_size=8, person=b"nfs-cookie")

    def digest(name: bytes) -> int:
        hashed = keyed.copy()
        hashed.update(name)
        return max(int.from_bytes(hashed.digest(), "big") >> (64 - _COOKIE_BITS), _COOKIE_FIRST)

    return digest


class DirectoryListings:
    """Lists directories in pages, and keeps the names that it has read for the next pages. Thread-safe.

    `digest` computes the cookie of a name. `limit` is the most octets held for all directories, and for one. One thread
    at a time reads a directory; threads that wait for that may use the result.
    """

    def __init__(self, digest: Callable[[bytes], int], limit: int = NFS_LISTING_OCTETS_MAX) -> None:
        self._digest = digest
        self._limit = limit
        self._windows: OrderedDict[bytes, _Window] = OrderedDict()
        self._held = 0
        self._tickets = 0
        self._turns: dict[bytes, _Turn] = {}
        self._lock = threading.Lock()

    def after(
        self, directory: bytes, cookie: int, scan: Scan, version: Version = None
    ) -> tuple[Iterator[ListedEntry], bool]:
        """Returns (iterator over a directory's entries by cookie, whether they reach to the directory's end).

        The entries are those with larger cookies than `cookie`, without "." and "..". A listing that begins (a cookie
        below 3) shows the directory as it is now; a later page may use names that were read when the listing began or
        later. The caller must put entries with equal cookies into one reply. Errors of `scan` are raised by this call.

        Args:
            directory: the handle of the directory.
            cookie: the cookie of the last entry of the page before; 0: the entries from the start.
            scan: yields (name, inode number) of the whole directory; is called unless the names are held.
            version: the directory's state before this call: two numbers of which one or both change with the directory.
                A listing that begins uses held names if they were read in the same state; None: the state is not known,
                and such a listing reads the directory anew. Later pages do not depend on `version`.
        """
        from_cookie = max(cookie, _COOKIE_FIRST - 1)
        with self._lock:
            arrived = self._ticket()
            window = self._usable(directory, cookie, arrived, version)
        if window is None:
            with self._turn(directory):
                with self._lock:
                    window = self._usable(directory, cookie, arrived, version)
                    # Taken before the directory is read, so that an earlier reading never replaces a later one.
                    ticket = self._ticket()
                if window is None:
                    window = self._read(ticket, version, from_cookie, scan)
                    self._keep(directory, window)
        return window.entries(from_cookie), window.complete

    def forget(self, directory: bytes) -> None:
        """Drops the names held for a removed directory; `directory` is its handle."""
        with self._lock:
            self._remove(directory)

    def forget_those(self, which: Callable[[bytes], bool]) -> None:
        """Drops the names held for each directory for whose handle `which` returns True."""
        with self._lock:
            for directory in [each for each in self._windows if which(each)]:
                self._remove(directory)

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def _usable(self, directory: bytes, cookie: int, arrived: int, version: Version) -> _Window | None:
        window = self._windows.get(directory)
        if window is None or not window.shows(max(cookie, _COOKIE_FIRST - 1)):
            return None
        unchanged = version is not None and window.version == version
        if cookie < _COOKIE_FIRST and not unchanged and window.ticket < arrived:
            return None
        self._windows.move_to_end(directory)
        return window

    @contextmanager
    def _turn(self, directory: bytes) -> Iterator[None]:
        with self._lock:
            turn = self._turns.setdefault(directory, _Turn())
            turn.users += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.users -= 1
                if not turn.users:
                    del self._turns[directory]

    def _read(self, ticket: int, version: Version, after: int, scan: Scan) -> _Window:
        """Reads a directory by `scan`; returns all its names if they take at most the `limit` of this object.

        If the names take more, returns those after the cookie `after` that fit. The result keeps `ticket`, a
        number that grows from reading to reading, and `version`, the state of the directory before this reading.
        """
        digest, limit = self._digest, self._limit
        table = NameTable()
        first, last = _COOKIE_FIRST, 1 << _COOKIE_BITS
        complete = True
        for name, inode in scan():
            cookie = digest(name)
            if first <= cookie <= last:
                table.add(cookie, inode, name)
                if table.octets > limit + limit // 4:
                    first = after + 1
                    table, cut = _cut(table, first, limit)
                    if cut:
                        complete, last = False, table.last_key()
        table.sort()
        if table.octets > limit:
            first = after + 1
            table, cut = _cut(table, first, limit)
            complete = complete and not cut
        return _Window(ticket, version, first - 1, table, complete)

    def _keep(self, directory: bytes, window: _Window) -> None:
        with self._lock:
            before = self._windows.get(directory)
            if before is not None and before.ticket > window.ticket:
                return
            self._remove(directory)
            self._windows[directory] = window
            self._held += window.table.octets
            while self._held > self._limit and len(self._windows) > 1:
                self._remove(next(iter(self._windows)))

    def _remove(self, directory: bytes) -> None:
        window = self._windows.pop(directory, None)
        if window is not None:
            self._held -= window.table.octets
