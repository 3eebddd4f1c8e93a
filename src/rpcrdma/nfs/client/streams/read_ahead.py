"""Sequential reading: the next blocks are fetched before the reader asks for them.

`SequentialRun` decides how far to read ahead, `ReadAhead` fetches. Blocks form a row without gaps, each in a buffer of
its own from a fixed set. A read elsewhere discards the row: READs in flight are left to arrive in their buffers, which
are used again after that, because a cancelled READ costs the server as much and the transport more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from rpcrdma.aio.misuse import check_loop
from rpcrdma.errors import TransportClosed
from rpcrdma.nfs.client.workers import wait_ended
from rpcrdma.wire.bulk_memory import PooledMemory

__all__ = ["Fetch", "ReadAhead", "SequentialRun"]

Fetch: TypeAlias = Callable[[int, memoryview], Coroutine[Any, Any, tuple[int, bool]]]
"""Takes (offset, buffer to fill); returns (octets read, whether the end of the file was reached)."""

_LEAST_AHEAD_OCTETS = 4096
"""The least octets fetched beyond a read that continues another: a page takes no longer than one octet."""


class SequentialRun:
    """Decides how far to read ahead in a file, by the run of reads that each begin where the read before ended.

    The first read of a run fetches only the octets that it asks for. Each later read fetches beyond its end as many
    octets as the whole run has asked for, at least 4096. So a run fetches at most twice the octets that it asks for, or
    4096 more than these.
    """

    __slots__ = ("_start", "read_to")

    def __init__(self) -> None:
        self._start = 0
        self.read_to = 0
        """The offset behind the last read."""

    def octets_ahead(self, start: int, end: int) -> int:
        """Counts a read from offset `start` to before `end`; returns the number of octets to fetch behind `end`.

        The number is 0 unless `start` is the `end` of the read before. Otherwise it is the number of octets from the
        start of the run to `end`, at least 4096.
        """
        if start != self.read_to:
            self._start = start
        self.read_to = end
        return max(end - self._start, _LEAST_AHEAD_OCTETS) if start != self._start else 0


@dataclass(slots=True, eq=False)
class _Block:
    offset: int
    end: int
    buffer: memoryview
    task: asyncio.Task[tuple[int, bool]]
    ended: bool = False
    """Whether the file ended in this block when it was fetched."""


class ReadAhead:
    """Reads one file by blocks that are fetched before the reader asks for them.

    Args:
        fetch: takes (offset in the file, buffer), fills the buffer; returns (octets read, whether the file ends there).
        grown: takes an offset beyond the size, up to which a fetch has found octets and no end; returns the size now,
            or raises an exception.
        start: makes a task of a coroutine.
        block: the most octets of a fetch.
        blocks: the most blocks fetched beyond the one that is being read.
        size: the file's size in octets; those beyond are fetched only when they are asked for. Callers set the
            attribute `size` when they learn another.
    """

    def __init__(
        self,
        fetch: Fetch,
        grown: Callable[[int], Awaitable[int]],
        start: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
        *,
        block: int,
        blocks: int,
        size: int,
    ) -> None:
        self.size = size
        self._fetch = fetch
        self._grown = grown
        self._start = start
        self._block = block
        self._blocks = max(1, blocks)
        self._row: deque[_Block] = deque()
        self._expected = 0
        self._free: list[memoryview] = []
        self._allocated = 0
        self._given_up: dict[asyncio.Task[Any], memoryview] = {}

    async def at(self, position: int, wanted: int, ahead: int) -> memoryview:
        """Returns a view of the file's octets from `position` on: 1 to `wanted` octets, none at the end of the file.

        Waits until they have arrived. The view is valid until the next call. Up to `ahead` octets beyond `wanted` are
        fetched meanwhile. Not for concurrent use.

        Raises:
            LocalProtocolError: the caller runs in another event loop than the calls before.
            TransportClosed: the task of the fetch was cancelled, as by `Volume.close`.
            Exception: the errors of `fetch` and `grown`.
        """
        row = self._row
        end = position + wanted
        while row and not row[0].offset <= position < row[0].end:
            head = row.popleft()
            self._drop(head)
            if head.ended and position == self._expected == head.end:
                self.discard()
                return head.buffer[:0]
        ahead = min(ahead, self._blocks * self._block)
        if not row:
            while not self._free and self._allocated > self._blocks:
                await wait_ended(self._given_up)
            self._add(position, min(wanted + ahead, self._to_boundary(position)))
        self._extend(end, ahead)
        head = row[0]
        if not head.task.done():
            check_loop(head.task.get_loop())
            await wait_ended((head.task,))
        try:
            got, head.ended = head.task.result()
        except BaseException as error:
            self.discard()
            # Only the end of its loop, or that of the file system, cancels the task: `discard` lets fetches run to the
            # end, and the cancellation of a reader ends `wait_ended`, which cancels no task.
            check_loop(head.task.get_loop())
            if isinstance(error, asyncio.CancelledError):
                raise TransportClosed("the file system was closed") from None
            raise
        if not head.ended and head.offset + got > self.size:
            self.size = await self._grown(head.offset + got)
        start = position - head.offset
        data = head.buffer[start : min(start + wanted, got)] if start < got else head.buffer[:0]
        self._expected = position + len(data)
        if not data:
            # The end of the file, for now: the next call asks the server again.
            self.discard()
        elif head.offset + got < head.end:
            while len(row) > 1:
                self._drop(row.pop())
        return data

    def rest(self, position: int) -> memoryview:
        """Returns a view of the octets from `position` on in the block from which `at` has returned octets last.

        `position` is the offset behind these octets. The view is empty if no block is held, and valid until the next
        call of `at`.
        """
        if not self._row:
            return memoryview(b"")
        head = self._row[0]
        got, _ = head.task.result()
        return head.buffer[position - head.offset : got]

    def discard(self) -> None:
        """Drops all blocks, as the file has changed or is read at another offset; running fetches end unused."""
        while self._row:
            self._drop(self._row.popleft())

    def _extend(self, end: int, ahead: int) -> None:
        """Starts fetches from the end of the last block on, up to `ahead` octets beyond the offset `end` in the file.

        Each fetch ends at the next multiple of the block size at the latest. A fetch from `end` or beyond starts only
        if it reaches that multiple, or has at least half of `ahead` octets. No fetch starts at the file's size or
        beyond, when more than `self._blocks` blocks are held, or when all `self._blocks + 1` buffers are in use.
        """
        row = self._row
        while row[-1].end < self.size and len(row) <= self._blocks and (self._free or self._allocated <= self._blocks):
            start = row[-1].end
            to_boundary = self._to_boundary(start)
            length = min(to_boundary, end + ahead - start)
            if length <= 0 or (start >= end and length < min(to_boundary, ahead // 2)):
                return
            self._add(start, length)

    def _to_boundary(self, offset: int) -> int:
        """Returns the octets from `offset` to the first multiple of the block size beyond it: 1 to a whole block."""
        return self._block - offset % self._block

    def _add(self, offset: int, length: int) -> None:
        if self._free:
            buffer = self._free.pop()
        else:
            buffer = memoryview(PooledMemory(self._block))
            self._allocated += 1
        task = self._start(self._fetch(offset, buffer[:length]))
        self._row.append(_Block(offset, offset + length, buffer, task))

    def _drop(self, block: _Block) -> None:
        self._given_up[block.task] = block.buffer
        if block.task.done():
            self._arrived(block.task)
        else:
            block.task.add_done_callback(self._arrived)

    def _arrived(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()
        self._free.append(self._given_up.pop(task))
