"""Cookies that hold while a directory changes.

Entries are listed in the order of a keyed digest of their names, and an entry's cookie is this digest. So a name keeps
its cookie and its place whatever happens around it, in this run of the server and the next: a listing goes on where
it was, every name that is there throughout is listed exactly once, and no cookie ever goes bad. The price is that a
page needs the names of the whole directory; they are kept, sorted, from one page to the next. Of a directory that is
too large a window is kept, the names that come next.
"""

from __future__ import annotations

import bisect
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rpcrdma.limits import NFS_LISTING_ENTRIES_MAX

__all__ = ["COOKIE_DOT", "COOKIE_DOT_DOT", "DirectoryListings", "ListedEntry", "Scan", "name_digest"]

COOKIE_DOT = 1
COOKIE_DOT_DOT = 2
_COOKIE_FIRST = 3
_COOKIE_BITS = 63
"""Some clients pass cookies on as signed offsets."""


class ListedEntry(NamedTuple):
    """One entry; ordered by cookie, then name."""

    cookie: int
    name: bytes
    inode: int


Scan = Callable[[], Iterable[tuple[bytes, int]]]
"""Reads a whole directory: (name, inode number) without "." and ".."."""


class _Window:
    __slots__ = ("after", "complete", "entries", "ticket")

    def __init__(self, ticket: int, after: int, entries: list[ListedEntry], *, complete: bool) -> None:
        self.ticket = ticket
        self.after = after
        self.entries = entries
        self.complete = complete

    def from_cookie(self, cookie: int) -> list[ListedEntry] | None:
        """The entries after `cookie`; None where the window does not show them."""
        entries = self.entries
        if cookie < self.after or not (self.complete or (entries and cookie < entries[-1].cookie)):
            return None
        return entries[bisect.bisect_left(entries, (cookie + 1,)) :]


def name_digest(key: bytes) -> Callable[[bytes], int]:
    """The function from names to cookies of a server with this key."""
    keyed = hashlib.blake2b(key=key, digest_size=8, person=b"nfs-cookie")

    def digest(name: bytes) -> int:
        hashed = keyed.copy()
        hashed.update(name)
        return max(int.from_bytes(hashed.digest(), "big") >> (64 - _COOKIE_BITS), _COOKIE_FIRST)

    return digest


class DirectoryListings:
    """The windows of listings that go on. Thread-safe; `limit` bounds the entries held, and those of a window."""

    def __init__(self, digest: Callable[[bytes], int], limit: int = NFS_LISTING_ENTRIES_MAX) -> None:
        self._digest = digest
        self._limit = limit
        self._windows: OrderedDict[bytes, _Window] = OrderedDict()
        self._held = 0
        self._tickets = 0
        self._lock = threading.Lock()

    def after(self, directory: bytes, cookie: int, scan: Scan) -> tuple[list[ListedEntry], bool]:
        """(entries after a cookie in order, whether they are the last) of the directory with this handle.

        A listing that begins (a cookie below 3) always reads the directory; one that goes on may use what has been
        read since it began. Entries of one cookie must not be put on two pages.
        """
        with self._lock:
            window = self._windows.get(directory)
            if window is not None and cookie >= _COOKIE_FIRST:
                rest = window.from_cookie(cookie)
                if rest is not None:
                    self._windows.move_to_end(directory)
                    return rest, window.complete
            # Taken before the directory is read: what was read earlier never replaces what was read later.
            self._tickets += 1
            ticket = self._tickets
        window = self._read(ticket, cookie, scan)
        self._keep(directory, window)
        return window.entries, window.complete

    def forget(self, directory: bytes) -> None:
        """Lets go of a directory that has been removed."""
        with self._lock:
            self._remove(directory)

    def _read(self, ticket: int, cookie: int, scan: Scan) -> _Window:
        digest = self._digest
        after = max(cookie, _COOKIE_FIRST - 1)
        limit = self._limit
        entries: list[ListedEntry] = []
        complete = True
        for name, inode in scan():
            cookie = digest(name)
            if cookie > after:
                entries.append(ListedEntry(cookie, name, inode))
                if len(entries) > 2 * limit:
                    entries.sort()
                    del entries[limit:]
                    complete = False
        entries.sort()
        if len(entries) > limit:
            del entries[limit:]
            complete = False
        if not complete and entries[0].cookie != entries[-1].cookie:
            # Names that share the last cookie may have been cut off.
            last = entries[-1].cookie
            while entries[-1].cookie == last:
                entries.pop()
        return _Window(ticket, after, _without_repetitions(entries), complete=complete)

    def _keep(self, directory: bytes, window: _Window) -> None:
        with self._lock:
            before = self._windows.get(directory)
            if before is not None and before.ticket > window.ticket:
                return
            self._remove(directory)
            self._windows[directory] = window
            self._held += len(window.entries)
            while self._held > self._limit and len(self._windows) > 1:
                self._remove(next(iter(self._windows)))

    def _remove(self, directory: bytes) -> None:
        window = self._windows.pop(directory, None)
        if window is not None:
            self._held -= len(window.entries)


def _without_repetitions(entries: list[ListedEntry]) -> list[ListedEntry]:
    """Some file systems list a name twice when the directory changes while it is read."""
    return [entry for at, entry in enumerate(entries) if not at or entry.name != entries[at - 1].name]
