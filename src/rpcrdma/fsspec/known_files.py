"""What the server has told of files a moment ago, for tools that ask the same several times over.

Arrow asks whether a file is there before each time that it opens it, pandas before that. Answers are believed for as
long as the file system was told (`attributes_valid_s`), and dropped when this process changes the file. Opening always
asks the server, by the handle that is remembered here.

All file systems with the same options share what is known: fsspec makes objects of their own for threads, and these ask
here without the event loop.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from rpcrdma.fsspec.entry_info import Info
from rpcrdma.limits import FSSPEC_KNOWN_FILES_MAX
from rpcrdma.nfs.client import DirEntry, NfsFile

__all__ = ["Known", "KnownFiles", "known_files"]


class Known(NamedTuple):
    """Of one path: its info, the entry with its handle, and until when both are believed."""

    info: Info
    entry: DirEntry
    until: float


class KnownFiles:
    """Files and directories by path; symbolic links are not kept, since what they lead to may change without them.

    `clock` counts seconds, and entries are believed for `valid_s` of them.
    """

    def __init__(self, valid_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._valid_s = valid_s
        self._clock = clock
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._lock = threading.Lock()
        self._writers: weakref.WeakKeyDictionary[NfsFile, str] = weakref.WeakKeyDictionary()
        self.changes = 0
        """Of this process, so far: what was asked before the last one ended is not kept."""

    def find(self, path: str) -> Known | None:
        """What is known of `path`, and still believed; may be called in any thread."""
        found = self._known.get(path)
        return found if found is not None and self._clock() < found.until else None

    def keep(self, path: str, info: Info, entry: DirEntry, *, changes: int) -> None:
        """Remembers the answer to a question that was asked after so many changes."""
        with self._lock:
            if self._valid_s <= 0 or changes != self.changes or self._is_written(path):
                return
            # Taken out first, so that the dictionary is in the order of time.
            self._known.pop(path, None)
            self._known[path] = Known(info, entry, self._clock() + self._valid_s)
            if len(self._known) > FSSPEC_KNOWN_FILES_MAX:
                self._known.popitem(last=False)

    def note_writer(self, path: str, file: NfsFile) -> None:
        """Nothing is kept of the path as long as this file, which is open for writing, is not closed."""
        with self._lock:
            self._writers[file] = path
        self.forget(path)

    def _is_written(self, path: str) -> bool:
        return any(each == path and not file.closed for file, each in self._writers.items())

    def forget(self, path: str) -> None:
        """Drops what is known of a file that is being changed, and of the directory that it is in."""
        with self._lock:
            self.changes += 1
            self._known.pop(path, None)
            self._known.pop(path.rpartition("/")[0], None)

    def forget_all(self) -> None:
        """Drops everything."""
        with self._lock:
            self.changes += 1
            self._known.clear()

    def forget_tree(self, path: str) -> None:
        """`forget` of a path and of everything below it."""
        self.forget(path)
        below = path.rstrip("/") + "/"
        with self._lock:
            for known in [known for known in self._known if known.startswith(below)]:
                del self._known[known]


_BY_KEY: dict[str, KnownFiles] = {}


def known_files(key: str, valid_s: float) -> KnownFiles:
    """What all file systems of this key, server and options, know."""
    return _BY_KEY.setdefault(f"{key} {valid_s}", KnownFiles(valid_s))


os.register_at_fork(after_in_child=_BY_KEY.clear)
