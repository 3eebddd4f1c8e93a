"""Blocks of remote files in memory, which all readers share, and the reading ahead of those who read in sequence.

The thread that wants a missing range fetches it. A thread that wants a block which is on its way waits for that block.
Reading ahead takes a few threads of its own. It never waits for one of them: while all are busy, readers fetch for
themselves.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from rpcrdma.nfs.export.export_limits import (
    NFS_FSSPEC_AHEAD_FETCHES_MAX,
    NFS_FSSPEC_AHEAD_OCTETS_MAX,
    NFS_FSSPEC_BLOCKS_OCTETS_MAX,
    NFS_FSSPEC_READERS_MAX,
)

__all__ = ["BLOCK_OCTETS", "BlockCache", "RemoteFile"]

BLOCK_OCTETS = 128 << 10
"""Octets of a block, the unit of fetching: 1 ms of a transfer at 1 Gbit/s, where a request takes 20 ms and more."""
_IN_SEQUENCE_OCTETS = 1 << 20
"""A read that begins within this distance from the end of the last one continues it, since reads arrive out of
order."""

_Block: TypeAlias = tuple[bytes, int, int]
"""The file's handle, the state of its content, and the block's place in it."""


class RemoteFile(Protocol):
    """A file in one state of its content, which a `BlockCache` reads; `fetch` is called in several threads."""

    @property
    def handle(self) -> bytes:
        """The file handle, which identifies the file."""

    @property
    def change(self) -> int:
        """A number that differs between two states of the file's content."""

    @property
    def size(self) -> int:
        """The size of the file in octets."""

    def fetch(self, start: int, end: int) -> bytes:
        """Returns all octets from `start` to before `end` <= `size`; waits for the network and may raise any error."""


@dataclass(slots=True, eq=False)
class _Fetch:
    """A request for `count` blocks from block `first` on, for whose end readers wait by the event `done`.

    Before `done` is set, either `data` gets the blocks, or `error` the failure. If no thread could be started for a
    request ahead of the readers, `done` is set with `data` empty and `error` None: the readers then make a new request.
    """

    first: int
    count: int
    data: bytes = b""
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def start(self) -> int:
        """The offset in the file at which block `first` begins, in octets."""
        return self.first * BLOCK_OCTETS


class _Reader:
    """The recent reads of a file while its change attribute is `change`, by which fetches ahead are planned.

    `end` is the offset at which the first read ended.
    """

    __slots__ = ("ahead_to", "change", "next", "window")

    def __init__(self, change: int, end: int) -> None:
        self.change = change
        self.next = end
        """The offset at which the last read ended."""
        self.window = 0
        """Octets to be fetched ahead of `next`: 0 while reads are not in sequence."""
        self.ahead_to = 0
        """The offset at which the last range that was fetched ahead ends."""


def _in_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="rpcrdma read-ahead", daemon=True).start()


class BlockCache:
    """A cache of blocks of remote files, which fetches missing blocks, and ahead of sequential reads. Thread-safe.

    `limit` is the most octets held, and `start` runs a function in another thread.
    """

    def __init__(
        self, limit: int = NFS_FSSPEC_BLOCKS_OCTETS_MAX, start: Callable[[Callable[[], None]], None] = _in_thread
    ) -> None:
        self._limit = limit
        self._start = start
        self._lock = threading.Lock()
        """Is never held while data is fetched."""
        self._blocks: OrderedDict[_Block, bytes] = OrderedDict()
        self._held = 0
        self._on_the_way: dict[_Block, _Fetch] = {}
        self._readers: OrderedDict[bytes, _Reader] = OrderedDict()
        self._ahead = 0
        """The number of fetches ahead that are running."""

    def read(self, file: RemoteFile, buffer: memoryview, offset: int, *, at_once: bool) -> int:
        """Reads from `offset`, in octets, into `buffer`; returns the number of octets read, 0 from the file's end on.

        Without `at_once` waits until missing blocks are fetched: the number is smaller than the buffer's length only at
        the file's end. With `at_once` reads only the leading octets that are in memory, maybe none. If reads are in
        sequence, another thread fetches blocks ahead. Raises the error of the fetch of a missing block.
        """
        wanted = min(len(buffer), file.size - offset)
        if wanted <= 0:
            return 0
        got = self._copy(file, buffer[:wanted], offset)
        if got < wanted and at_once:
            return got
        self._read_ahead(file, offset, wanted)
        last = (offset + wanted - 1) // BLOCK_OCTETS
        while got < wanted:
            at = offset + got
            fetch = self._fetched(file, at // BLOCK_OCTETS, last)
            part = memoryview(fetch.data)[at - fetch.start :][: wanted - got]
            buffer[got : got + len(part)] = part
            got += len(part)
            got += self._copy(file, buffer[got:wanted], offset + got)
        return got

    def drop_all(self) -> None:
        """Drops all blocks, and forgets where reads ended, so that reading ahead begins anew.

        Fetches that are running go on, and add their blocks.
        """
        with self._lock:
            self._blocks.clear()
            self._readers.clear()
            self._held = 0

    def _copy(self, file: RemoteFile, buffer: memoryview, offset: int) -> int:
        """Fills `buffer` from blocks in memory, up to the first that is missing; returns the number of octets copied.

        `offset` is that of the first octet in the file; the buffer must not reach beyond the file's end.
        """
        got = 0
        while got < len(buffer):
            index, within = divmod(offset + got, BLOCK_OCTETS)
            with self._lock:
                block = self._block(file, index)
            if block is None:
                break
            part = memoryview(block)[within:][: len(buffer) - got]
            buffer[got : got + len(part)] = part
            got += len(part)
        return got

    def _block(self, file: RemoteFile, index: int) -> bytes | None:
        key = (file.handle, file.change, index)
        block = self._blocks.get(key)
        if block is not None:
            self._blocks.move_to_end(key)
        return block

    def _fetched(self, file: RemoteFile, first: int, last: int) -> _Fetch:
        """Returns a finished `_Fetch` whose `data` contains block `first`, and maybe others, or is empty; may block.

        It is empty if the fetch of another thread could not begin. Blocks are numbered from 0 in the file. Takes the
        block from the cache, waits for another thread's fetch, or fetches it, with the blocks up to `last` at most.
        Raises the error of that fetch.
        """
        with self._lock:
            if (block := self._block(file, first)) is not None:
                fetch = _Fetch(first, 1)
                fetch.data = block
                return fetch
            of_another = self._on_the_way.get((file.handle, file.change, first))
            fetch = of_another or self._claim(file, first, last)
        if of_another is None:
            self._run(file, fetch)
        else:
            fetch.done.wait()
        if fetch.error is not None:
            raise fetch.error
        return fetch

    def _claim(self, file: RemoteFile, first: int, last: int) -> _Fetch:
        """Registers and returns a new request for the blocks `first` to `last` of a file, the last one included.

        The request ends before the first block that is in the cache or requested already, so it may have no blocks. The
        caller, which holds the lock, passes it to `_run` afterwards, which fetches the blocks.
        """
        handle, change = file.handle, file.change
        fetch = _Fetch(first, 0)
        for index in range(first, last + 1):
            key = (handle, change, index)
            if key in self._blocks or key in self._on_the_way:
                break
            self._on_the_way[key] = fetch
            fetch.count += 1
        return fetch

    def _run(self, file: RemoteFile, fetch: _Fetch) -> None:
        """Fetches the blocks of `fetch`, a result of `_claim`, into the cache, and wakes waiting readers; may block.

        If that fails, sets `fetch.error` and raises nothing.
        """
        try:
            fetch.data = file.fetch(fetch.start, min(fetch.start + fetch.count * BLOCK_OCTETS, file.size))
        except BaseException as error:  # noqa: BLE001 - libraries raise more than Exception; raised where data is wanted
            fetch.error = error
        self._settle(file, fetch)

    def _settle(self, file: RemoteFile, fetch: _Fetch) -> None:
        """Puts the blocks of a fetch that has ended into the cache, none if it failed or has not begun; wakes readers.

        Readers that waited for a fetch without data or error fetch its blocks for themselves. Evicts the blocks that
        were read least recently beyond the limit.
        """
        handle, change = file.handle, file.change
        with self._lock:
            for place in range(fetch.count):
                del self._on_the_way[handle, change, fetch.first + place]
            # Without room for the copies, readers have the data of the fetch itself.
            with contextlib.suppress(MemoryError):
                for place in range(fetch.count if fetch.data else 0):
                    # Memory of its own, which is free when the block is dropped.
                    block = fetch.data[place * BLOCK_OCTETS : (place + 1) * BLOCK_OCTETS]
                    self._blocks[handle, change, fetch.first + place] = block
                    self._held += len(block)
            while self._held > self._limit:
                self._held -= len(self._blocks.popitem(last=False)[1])
        fetch.done.set()

    def _read_ahead(self, file: RemoteFile, offset: int, octets: int) -> None:
        """Records a read of `octets` octets at `offset`; if reads are in sequence, may start a fetch of those after it.

        The fetch runs in another thread, and is not waited for. If no thread can be started, readers fetch for
        themselves.
        """
        with self._lock:
            fetch = self._ahead_of(file, offset, octets)
            if fetch is None:
                return
            self._ahead += 1

        def run() -> None:
            try:
                self._run(file, fetch)
            finally:
                with self._lock:
                    self._ahead -= 1

        try:
            self._start(run)
        except (RuntimeError, MemoryError):
            # The process has no thread left. Readers may wait for these blocks since the claim.
            self._settle(file, fetch)
            with self._lock:
                self._ahead -= 1

    def _ahead_of(self, file: RemoteFile, offset: int, octets: int) -> _Fetch | None:
        """Records a read of `octets` octets at `offset`; returns a registered request for the blocks after it.

        The caller, which holds the lock, passes the request to `_run` afterwards, which fetches the blocks. Returns
        None if reads are not in sequence, enough is fetched ahead, or too many fetches are running.
        """
        end = offset + octets
        reader = self._readers.get(file.handle)
        if reader is None or reader.change != file.change or abs(offset - reader.next) > _IN_SEQUENCE_OCTETS:
            self._readers[file.handle] = _Reader(file.change, end)
            self._readers.move_to_end(file.handle)
            if len(self._readers) > NFS_FSSPEC_READERS_MAX:
                self._readers.popitem(last=False)
            return None
        self._readers.move_to_end(file.handle)
        reader.next = max(reader.next, end)
        reader.window = min(2 * max(reader.window, octets), NFS_FSSPEC_AHEAD_OCTETS_MAX)
        goal = min(reader.next + reader.window, file.size)
        start = max(reader.ahead_to, reader.next)
        if start >= goal or start - reader.next > reader.window // 2 or self._ahead >= NFS_FSSPEC_AHEAD_FETCHES_MAX:
            return None
        # The block in which the read ends is the reader's own to fetch.
        first, last = -(-start // BLOCK_OCTETS), (goal - 1) // BLOCK_OCTETS
        if first > last:
            return None
        fetch = self._claim(file, first, last)
        # Blocks that are there already are passed over one at a time, once for each read.
        reader.ahead_to = (first + max(fetch.count, 1)) * BLOCK_OCTETS
        return fetch if fetch.count else None
