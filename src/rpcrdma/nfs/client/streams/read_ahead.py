"""Sequential reading: the next blocks are fetched before they are asked for.

Blocks stand in a row without gaps, each in a buffer of its own out of a fixed set. The first read at a new position
fetches only the octets wanted; each block that is read to its end doubles the number of blocks kept in flight behind
it, up to `blocks`. A jump elsewhere gives the row up: READs in flight are left to arrive in their buffers, which are
used again after that, because a cancelled READ costs the server as much and the transport more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from rpcrdma.aio.own_loop import check_loop

__all__ = ["Fetch", "ReadAhead"]

Fetch: TypeAlias = Callable[[int, memoryview], Awaitable[tuple[int, bool]]]
"""(offset, buffer to fill) to (octets, whether the end was reached)."""

_FIRST_OCTETS = 1 << 17
"""The first block after a jump: half a 1 MiB block's time, and enough for a program that reads a header."""


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
        self._depth = 0
        self._expected = 0
        self._free: list[memoryview] = []
        self._allocated = 0
        self._given_up: dict[asyncio.Task[Any], memoryview] = {}

    async def at(self, position: int, wanted: int) -> memoryview:
        """Some of the octets from `position` on, up to `wanted`, without a copy; none at the end of the file.

        They are valid until the next call. Not for concurrent use. Raises the errors of `fetch`.
        """
        row = self._row
        sequential = position == self._expected
        while row and not row[0].offset <= position < row[0].end:
            head = row.popleft()
            passed = sequential and position == head.end
            if passed:
                self._depth = min(max(1, 2 * self._depth), self._blocks)
            self._drop(head)
            if passed and head.ended:
                self.discard()
                return head.buffer[:0]
        if not row:
            await self._begin(position, wanted, sequential=sequential)
        head = row[0]
        self._top_up()
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

    async def _begin(self, position: int, wanted: int, *, sequential: bool) -> None:
        if not sequential:
            self._depth = 0
        elif position == 0:
            # A reader that starts at the beginning is likely to go on.
            self._depth = max(1, self._depth)
        # Blocks end at multiples of their size, where a server's own blocks end.
        to_boundary = self._block - position % self._block
        length = to_boundary if self._depth else min(max(wanted, _FIRST_OCTETS), to_boundary)
        while not self._free and self._allocated > self._blocks:
            await asyncio.wait(self._given_up, return_when=asyncio.FIRST_COMPLETED)
        self._add(position, length)

    def _top_up(self) -> None:
        row = self._row
        while len(row) <= self._depth and row[-1].end < self.size and (self._free or self._allocated <= self._blocks):
            self._add(row[-1].end, self._block - row[-1].end % self._block)

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
