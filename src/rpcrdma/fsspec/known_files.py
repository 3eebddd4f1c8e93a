"""A cache of attributes, handles and small files, for tools that ask for the same file several times.

Arrow asks whether a file exists before it opens it, and pandas before Arrow. Attributes are valid for
`attributes_valid_s` seconds, and are dropped when this process changes the file. `open` asks the server by the cached
handle whether the file has changed, unless close-to-open consistency is off. The data of small files is cached for the
same time, since tools open a file twice. Tools ask for the files of a directory one by one as well: the third question
brings a page of the listing, which answers the next ones.

All file systems with the same options share a cache: fsspec makes an object for each thread, and these read the cache
without the event loop.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rpcrdma.fsspec.entry_info import Info
from rpcrdma.limits import FSSPEC_HELD_OCTETS_MAX, FSSPEC_KNOWN_FILES_MAX
from rpcrdma.nfs.client import DirEntry, NfsFile

__all__ = ["Known", "KnownFiles", "known_files"]

_ASKED_ONE_BY_ONE = 2
"""Unknown files of a directory that are looked up by name, before the next question makes a page be listed."""


@dataclass(slots=True)
class Known:
    """The cached state of a path in `KnownFiles`.

    Attributes:
        info: the info dictionary of fsspec.
        entry: the directory entry, with attributes and NFS file handle.
        told_at: the time at which the state was cached, in seconds of the cache's clock.
        data: the content, or the end, of a file; empty if none is cached.
    """

    info: Info
    entry: DirEntry
    told_at: float
    data: bytes = b""


class KnownFiles:
    """A cache of the states of files and directories by path; symbolic links are left out, as their targets may change.

    A state is a `Known`: info, entry and maybe data. `clock` returns the time in seconds. Methods may be called in any
    thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.changes = 0
        """The number of changes by this process; an answer that was asked for before a change is not cached."""
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._lock = threading.Lock()
        self._writers: weakref.WeakKeyDictionary[NfsFile, str] = weakref.WeakKeyDictionary()
        self._held = 0
        self._asked: dict[str, tuple[float, int]] = {}
        """By directory: (when the first of its unknown files was asked for, the number of such questions)."""

    def find(self, path: str, valid_s: float) -> Known | None:
        """Returns the cached state of `path`; None if there is none, or it is `valid_s` seconds old or older."""
        found = self._known.get(path)
        return found if found is not None and self._clock() < found.told_at + valid_s else None

    def is_worth_listing(self, directory: str, valid_s: float) -> bool:
        """Counts a question about a file of `directory` whose state is not cached; returns whether it is the third.

        The questions within `valid_s` seconds of the first one count, and only the third has the result True, at which
        the caller lists the directory. The next question after that time is the first of a new count.
        """
        with self._lock:
            now = self._clock()
            since, count = self._asked.pop(directory, (now, 0))
            if now >= since + valid_s:
                since, count = now, 0
            # Put in last, so that the directory asked about least recently is the first one.
            self._asked[directory] = since, count + 1
            if len(self._asked) > FSSPEC_KNOWN_FILES_MAX:
                del self._asked[next(iter(self._asked))]
            return count == _ASKED_ONE_BY_ONE

    def keep(self, path: str, info: Info, entry: DirEntry, *, changes: int) -> None:
        """Caches `info` and `entry`, the server's answer about `path`, in place of an earlier state.

        `changes` is the value of the attribute `changes` when the server was asked. No effect if this process has
        changed files since then, or while a file at `path` is open for writing. The oldest state is dropped if there
        are more than FSSPEC_KNOWN_FILES_MAX.
        """
        with self._lock:
            if changes != self.changes or path in self._writers.values():
                return
            # Taken out first, so that the dictionary is in the order of time.
            self._drop(path)
            self._known[path] = Known(info, entry, self._clock())
            if len(self._known) > FSSPEC_KNOWN_FILES_MAX:
                self._drop(next(iter(self._known)))

    def hold(self, path: str, entry: DirEntry, data: bytes, valid_s: float) -> None:
        """Adds the data of a file, all of it or its end, to the state of `path`; drops states `valid_s` seconds old.

        Adds nothing unless the state has this very object `entry`, and no data. If the cache then holds more than
        `FSSPEC_HELD_OCTETS_MAX` (64 Mi) octets of data, the oldest states are dropped.
        """
        with self._lock:
            now = self._clock()
            while self._known and (oldest := next(iter(self._known))) and now >= self._known[oldest].told_at + valid_s:
                self._drop(oldest)
            known = self._known.get(path)
            if known is None or known.entry is not entry or known.data:
                return
            known.data = data
            self._held += len(data)
            while self._held > FSSPEC_HELD_OCTETS_MAX:
                self._drop(next(iter(self._known)))

    def _drop(self, path: str) -> None:
        known = self._known.pop(path, None)
        if known is not None:
            self._held -= len(known.data)

    def note_writer(self, path: str, file: NfsFile) -> None:
        """Drops the state of `path`, where `file` is open for writing, now and again when `file` has been closed.

        The state of the directory is dropped as well. In between nothing is cached for `path`.
        """
        with self._lock:
            self._writers[file] = path
        file._when_closed = partial(self._forget_written, path)  # noqa: SLF001 - no part of the API for users
        self.forget(path)

    def _forget_written(self, path: str, file: NfsFile) -> None:
        with self._lock:
            self._writers.pop(file, None)
        self.forget(path)

    def forget(self, path: str) -> None:
        """Drops the states of `path`, which this process changes, and of its directory; adds 1 to `changes`."""
        with self._lock:
            self.changes += 1
            directory = path.rpartition("/")[0]
            self._drop(path)
            self._drop(directory)
            self._asked.pop(directory, None)

    def forget_all(self) -> None:
        """Drops all states, and adds 1 to `changes`, so that answers asked for before are not cached."""
        with self._lock:
            self.changes += 1
            self._known.clear()
            self._asked.clear()
            self._held = 0

    def forget_tree(self, path: str) -> None:
        """Drops the states of `path`, of the directory that contains it and of all paths below; adds 1 to `changes`."""
        self.forget(path)
        below = path.rstrip("/") + "/"
        with self._lock:
            for known in [known for known in self._known if known.startswith(below)]:
                self._drop(known)
            for directory in [directory for directory in self._asked if f"{directory}/".startswith(below)]:
                del self._asked[directory]


_BY_KEY: dict[tuple[int, str], KnownFiles] = {}
"""By process and key: a thread of the parent may have held the lock of the parent's at the fork."""


def known_files(key: str) -> KnownFiles:
    """Returns the cache that all file systems with `key`, that of a server and its options, share in this process."""
    process_key = (os.getpid(), key)
    return _BY_KEY.get(process_key) or _BY_KEY.setdefault(process_key, KnownFiles())
