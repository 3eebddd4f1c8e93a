"""Sequential reading: the next blocks are fetched before they are asked for.

Blocks stand in a row without gaps, each in a buffer of its own out of a fixed set. A read fetches the octets that it
wants. Reads that go on where the read before them ended also fetch as many octets beyond as all of them together have
asked for, up to `blocks` blocks. So at most twice the octets are fetched that are asked for, and a page. A jump
elsewhere gives the row up: READs in flight are left to arrive in their buffers, which are used again after that,
because a cancelled READ costs the server as much and the transport more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from rpcrdma.aio.own_loop import check_loop

__all__ = ["LEAST_AHEAD_OCTETS", "Fetch", "ReadAhead"]

Fetch: TypeAlias = Callable[[int, memoryview], Awaitable[tuple[int, bool]]]
"""(offset, buffer to fill) to (octets, whether the end was reached)."""

LEAST_AHEAD_OCTETS = 4096
"""Fetched beyond the second of two tiny reads in a row: one page takes no longer than one octet."""


@dataclass(slots=True, eq=False)
class _Block:
    offset: int
    end: int
    buffer: memoryview
    task: asyncio.Task[tuple[int, bool]]
    ended: bool = False
    """Whether the file ended in this block when it was fetched."""


class ReadAhead:
    """Blocks of up to `block` octets out of a file, at most `blocks` in flight, in `blocks` + 1 buffers.

    `start` makes a task of a coroutine. `size` is the file's as of the last reply: octets beyond it are fetched only
    when asked for.
    """

    def __init__(
        self,
        fetch: Fetch,
        start: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
        *,
        block: int,
        blocks: int,
        size: int,
    ) -> None:
        self.size = size
        self._fetch = fetch
        self._start = start
        self._block = block
        self._blocks = max(1, blocks)
        self._row: deque[_Block] = deque()
        self._run_start = 0
        self._expected = 0
        self._wanted_to = 0
        self._goes_on = False
        self._free: list[memoryview] = []
        self._allocated = 0
        self._given_up: dict[asyncio.Task[Any], memoryview] = {}

    async def at(self, position: int, wanted: int) -> memoryview:
        """Some of the octets from `position` on, up to `wanted`, without a copy; none at the end of the file.

        They are valid until the next call. A call for the rest of the octets that were wanted belongs to the same read.
        Not for concurrent use. Raises the errors of `fetch`.
        """
        row = self._row
        end = position + wanted
        if position != self._expected:
            self._run_start, self._goes_on = position, False
        elif end != self._wanted_to:
            self._goes_on = position != self._run_start
        self._wanted_to = end
        while row and not row[0].offset <= position < row[0].end:
            head = row.popleft()
            self._drop(head)
            if head.ended and position == self._expected == head.end:
                self.discard()
                return head.buffer[:0]
        ahead = min(max(end - self._run_start, LEAST_AHEAD_OCTETS), self._blocks * self._block) if self._goes_on else 0
        if not row:
            while not self._free and self._allocated > self._blocks:
                await asyncio.wait(self._given_up, return_when=asyncio.FIRST_COMPLETED)
            self._add(position, min(wanted + ahead, self._to_boundary(position)))
        self._extend(end, ahead)
        head = row[0]
        if not head.task.done():
            check_loop(head.task.get_loop())
            await asyncio.wait((head.task,))
        try:
            got, head.ended = head.task.result()
        except BaseException:
            self.discard()
            # The end of its loop has cancelled the task.
            check_loop(head.task.get_loop())
            raise
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

    def discard(self) -> None:
        """Gives up all blocks, fetched or in flight: the file has changed, or is not read on."""
        while self._row:
            self._drop(self._row.popleft())

    def _extend(self, end: int, ahead: int) -> None:
        """Has the row reach to `end`, and up to `ahead` octets beyond, in whole blocks or by half of `ahead`."""
        row = self._row
        while row[-1].end < self.size and len(row) <= self._blocks and (self._free or self._allocated <= self._blocks):
            start = row[-1].end
            to_boundary = self._to_boundary(start)
            length = min(to_boundary, end + ahead - start)
            if length <= 0 or (start >= end and length < min(to_boundary, ahead // 2)):
                return
            self._add(start, length)

    def _to_boundary(self, offset: int) -> int:
        """Octets to the next multiple of the block size, where a server's own blocks end."""
        return self._block - offset % self._block

    def _add(self, offset: int, length: int) -> None:
        if self._free:
            buffer = self._free.pop()
        else:
            self._allocated += 1
            buffer = memoryview(bytearray(self._block))
        task = self._start(self._fill(offset, buffer[:length]))
        self._row.append(_Block(offset, offset + length, buffer, task))

    async def _fill(self, offset: int, buffer: memoryview) -> tuple[int, bool]:
        return await self._fetch(offset, buffer)

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
