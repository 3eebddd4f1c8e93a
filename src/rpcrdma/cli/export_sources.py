"""Looks at the directories and stores of exports in threads, so that one that does not answer holds up no other."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, TypeAlias

from rpcrdma.cli.daemon_threads import DaemonThreads, start_daemon
from rpcrdma.cli.export_options import Exported, reached_source
from rpcrdma.limits import EXPORT_ANSWERS_S, EXPORT_NEEDED_ANSWERS_S
from rpcrdma.nfs.export.giving_way import give_way

__all__ = ["MAKE_DIRECTORY", "ExportSources"]

MAKE_DIRECTORY: Final = "make the directory, or name another one"
"""The remedy for a directory that cannot be served, where its error has none."""

_PATIENCE_S: Final = 0.25
"""How long sources wait for those before them, until as many threads again as there are look at them as well."""
_Source: TypeAlias = tuple[Path | str, bool]
"""What the answer depends on: directory or URL, and whether it must be a mount point."""


class ExportSources:
    """Looks at the directories and stores of exports, and remembers the answers. Thread-safe.

    A file system may never answer, as that of a network server that is gone; a thread that asks it cannot be ended. So
    a source that does not answer has one daemon thread, and callers wait for a bounded time. An answer that comes later
    counts from then on.
    """

    def __init__(self) -> None:
        self.of_paths = DaemonThreads()
        """Looks at the other paths of the settings, such as the state directory."""
        self._changed = threading.Condition()
        self._found: dict[_Source, Path | Exception | None] = {}
        """The directory of each source, None for a URL, or the reason why it cannot be served."""
        self._asked: dict[_Source, float] = {}
        """The sources that have not answered yet, with the monotonic time of the question."""
        self._queue: deque[Exported] = deque()
        """Exports with those sources in `_asked` that no thread looks at yet."""

    def look(self, exports: Iterable[Exported], *, needed: Collection[str] = (), again: bool = True) -> None:
        """Looks at the sources of `exports`; waits for the answers, EXPORT_ANSWERS_S (5) seconds at most.

        For exports that must be there it waits EXPORT_NEEDED_ANSWERS_S (30) seconds. A source that has not answered an
        earlier look is not asked again; its time counts from that look. `directory_of` raises the failures.

        Args:
            exports: the exports.
            needed: names of exports that must be there, beside those with `missing` "fail".
            again: whether sources are looked at again that have answered before.

        Raises:
            OSError: no further thread can be started.
        """
        began_s, threads = time.monotonic(), 0
        waits_s: dict[_Source, float] = {}
        with self._changed:
            for export in exports:
                source = _source_of(export)
                if source not in waits_s and source not in self._asked and (again or source not in self._found):
                    self._asked[source] = began_s
                    self._queue.append(export)
                is_needed = export.missing == "fail" or export.name in needed
                wait_s = EXPORT_NEEDED_ANSWERS_S if is_needed else EXPORT_ANSWERS_S
                waits_s[source] = max(wait_s, waits_s.get(source, 0.0))
            while silent := [source for source in waits_s if source in self._asked]:
                if self._queue:
                    more = min(max(1, threads), len(self._queue))
                    threads += more
                    for _ in range(more):
                        start_daemon(self._work, "rpcrdma exports")
                left_s = max(self._asked[source] + waits_s[source] for source in silent) - time.monotonic()
                if left_s <= 0:
                    return
                self._changed.wait(min(left_s, _PATIENCE_S) if self._queue else left_s)

    def is_silent(self, export: Exported) -> bool:
        """Returns whether a look at the source of an export is still without an answer."""
        return _source_of(export) in self._asked

    def directory_of(self, export: Exported) -> Path | None:
        """Returns the directory of an export as the last `look` at it has found, absolute and without symbolic links.

        None: the source is a URL, and its store has answered. Asks no file system.

        Raises:
            OSError: the directory cannot be served, or the store has no directory at the URL.
            TimeoutError: the last `look` has no answer yet, even if an earlier one had.
            KeyError: `look` was never called for the export.
        """
        source = _source_of(export)
        with self._changed:
            if source in self._asked:
                of = "directory" if isinstance(export.source, Path) else "store"
                remedy = "mend its file system" if isinstance(export.source, Path) else "check that it runs"
                raise TimeoutError(f"the {of} of {export.name} does not answer; {remedy}")
            found = self._found[source]
        if isinstance(found, Exception):
            raise found.with_traceback(None)
        return found

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._changed.notify_all()
                    return
                export = self._queue.popleft()
            give_way()
            found: Path | Exception | None
            try:
                found = reached_source(export)
            except Exception as error:  # noqa: BLE001 - raised in the thread that asks for the directory
                found = error
            source = _source_of(export)
            with self._changed:
                self._found[source] = found
                del self._asked[source]


def _source_of(export: Exported) -> _Source:
    return export.source, export.mount_point
