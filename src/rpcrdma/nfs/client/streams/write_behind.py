"""Sequential writing: data is gathered into blocks, sent UNSTABLE with many WRITEs in flight, and committed.

Everything that the server has not promised to have on stable storage stays in memory, to be written again when the
server has lost it (see `stability`). The memory is bounded: when it is full, the writer waits for a COMMIT.

Appended data get their place when they are sent, from a GETATTR in the file's turn (see `append_turn`), and are on
stable storage before the turn ends: data that a restart of the server loses would be written again over the data that
others append meanwhile.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from rpcrdma.aio.misuse import check_loop
from rpcrdma.errors import TransportClosed
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.streams.append_turns import append_turn
from rpcrdma.nfs.client.streams.direct_calls import stability, write_direct, write_whole
from rpcrdma.nfs.client.workers import wait_ended
from rpcrdma.nfs.v3 import stable_how
from rpcrdma.wire.bulk_memory import PooledMemory

__all__ = ["WriteBehind"]


@dataclass(slots=True, eq=False)
class _Extent:
    offset: int
    buffer: memoryview
    length: int = 0
    number: int = 0
    """The place in the order in which extents were sent, counted from 1; 0 for appended data and single WRITEs."""
    verifier: bytes | None = None
    """The verifier that COMMIT has to answer with; None if the WRITEs of this extent did not end, or it is stable."""
    stable: bool = False
    """Whether the extent needs no COMMIT, and is kept as it overlaps older extents, which may be written again."""

    @property
    def end(self) -> int:
        return self.offset + self.length

    def overlaps(self, other: _Extent) -> bool:
        return self.offset < other.end and other.offset < self.end


class WriteBehind:
    """Gathers the data written to one file in blocks and sends them, as UNSTABLE WRITEs that COMMIT follows.

    A call to the server that fails, or an append that is cancelled, ends the writing: data that the server does not
    have is dropped, and every later `write`, `drain` and `flush` raises that error. Concurrent calls take turns.

    Args:
        procedures: makes the calls.
        node: the file.
        start: makes a task of a coroutine.
        block: octets of a WRITE.
        blocks: the most WRITEs in flight.
        octets_max: the most octets of data in memory, at least two blocks.
    """

    def __init__(
        self,
        procedures: NfsProcedures,
        node: Node,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        block: int,
        blocks: int,
        octets_max: int,
    ) -> None:
        self._procedures = procedures
        self._node = node
        self._start = start
        self._block = block
        self._blocks = max(1, blocks)
        self._octets_max = octets_max
        self._left = max(2, octets_max // block)
        self._sent = 0
        self._free: list[memoryview] = []
        self._current: _Extent | None = None
        self._appending = False
        """Whether the data in memory was appended."""
        self._gathered: list[_Extent] = []
        """Full blocks of appended data, which have no offset yet."""
        self._appended_to: int | None = None
        self._in_flight: dict[asyncio.Task[None], list[_Extent]] = {}
        self._uncommitted: list[_Extent] = []
        self._failure: Exception | None = None
        self._failure_raised = False
        self._lock = asyncio.Lock()

    @property
    def idle(self) -> bool:
        """Whether all data has been sent and committed; False after a failure."""
        return not (self._current or self._gathered or self._in_flight or self._uncommitted or self._failure)

    @property
    def unsent(self) -> int:
        """The number of octets that are not in a WRITE yet."""
        return sum(extent.length for extent in self._gathered) + (self._current.length if self._current else 0)

    @property
    def uncommitted(self) -> int:
        """The number of octets in flight, or at the server but not known to be on its stable storage."""
        # An extent that has just arrived is in both.
        return sum(extent.length for extent in {*self._sent_extents(), *self._uncommitted})

    @property
    def unraised_failure(self) -> Exception | None:
        """The error that has ended the writing, if no call has raised it yet; else None."""
        return None if self._failure_raised else self._failure

    def take_end(self) -> int | None:
        """Returns the end of the appended data at the server, plus the octets still to be appended: the future size.

        Returns None if no appended data has reached the server since the last call, even if some is unsent.
        """
        end, self._appended_to = self._appended_to, None
        if end is None:
            return None
        return end + self.unsent + sum(extent.length for extent in self._sent_extents())

    async def write(self, offset: int, data: memoryview, *, append: bool = False) -> None:
        """Copies all of `data`, to be written at `offset`: the caller may change it afterwards.

        Full blocks are sent; the call waits while memory is full or the most WRITEs are in flight. With `append` the
        data is written at the end that the file has when it is sent, and `offset` is the expected end. Without
        `append`, data of more blocks than may be in flight is not copied: it is on stable storage when this returns.
        A cancelled append has copied nothing, or, if a part of `data` was sent already, ends the writing.

        Raises:
            NfsError: a WRITE or COMMIT of this file has failed, or the GETATTR before an append.
            RpcRdmaError: such a call has failed with an error of `Caller.call`.
        """
        async with self._lock:
            self._check()
            if append != self._appending:
                await self._commit()
                self._check()
                self._appending = append
            # A caller that gives up takes its memory back, and WRITEs of it that are under way must not end a turn.
            if len(data) > self._block * self._blocks and not append:
                await self._write_uncopied(offset, data)
                return
            gathered, full, current, whole = self._gathered, len(self._gathered), self._current, len(data)
            length = current.length if current is not None else 0
            try:
                while data:
                    extent = self._current
                    if extent is None or not (self._appending or extent.end == offset) or not self._room(extent):
                        await self._send_current()
                        buffer = await self._buffer()
                        self._check()
                        extent = self._current = _Extent(offset, buffer)
                    count = min(len(data), self._room(extent))
                    extent.buffer[extent.length : extent.length + count] = data[:count]
                    extent.length += count
                    offset += count
                    data = data[count:]
                    if not self._room(extent):
                        await self._send_current()
            except asyncio.CancelledError:
                # The caller may append the same data again, in vain if a part has been sent.
                if append and gathered is self._gathered:
                    self._free.extend(extent.buffer for extent in gathered[full:] if extent is not current)
                    del gathered[full:]
                    if current is not None:
                        self._current, current.length = current, length
                elif append and len(data) < whole:
                    self._fail(TransportClosed("appending was cancelled when a part of the data had been sent"))
                raise

    async def drain(self) -> None:
        """Sends all unsent data and waits for replies, so that a READ returns it; raises the error of a failed call."""
        async with self._lock:
            await self._send_all()
            # The server may lack the data of WRITEs that `Volume.close` or a caller of `flush` has cancelled.
            if any(extent.verifier is None and not extent.stable for extent in self._uncommitted):
                await self._commit_arrived()
            self._check()

    async def flush(self) -> None:
        """Waits until the server has all data on stable storage; raises the error of a failed WRITE or COMMIT."""
        async with self._lock:
            extent = self._current
            if extent is not None and not (self._appending or self._in_flight or self._uncommitted):
                # All of a small file: one call instead of two.
                self._current = None
                await self._carry(extent, stable_how.FILE_SYNC)
            await self._commit()
            self._check()

    async def _write_uncopied(self, offset: int, data: memoryview) -> None:
        # Older data that had to be written again would undo this, where they overlap.
        await self._commit()
        self._check()
        try:
            for start in range(0, len(data), self._octets_max):
                await write_direct(
                    self._procedures,
                    self._node,
                    offset + start,
                    data[start : start + self._octets_max],
                    call_octets=self._block,
                    calls=self._blocks,
                )
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(error)
        self._check()

    def _room(self, extent: _Extent) -> int:
        """Returns the octets that still fit in `extent` before a multiple of the block size in the file; 0 if full."""
        return self._block - extent.offset % self._block - extent.length

    def _check(self) -> None:
        """Raises a copy of the error that has ended the writing, if any: frames of a traceback hold callers' data."""
        if self._failure is not None:
            self._failure_raised = True
            raise copy.copy(self._failure)

    def _fail(self, error: Exception) -> None:
        """Keeps `error` if it is the first, and drops all data; WRITEs in flight are left to arrive."""
        if self._failure is None:
            self._failure = error.with_traceback(None)
        self._current = None
        self._gathered = []
        self._uncommitted = []
        self._free = []

    async def _buffer(self) -> memoryview:
        if not self._free and not self._left:
            await self._commit()
        if self._free:
            return self._free.pop()
        buffer = memoryview(PooledMemory(self._block))
        self._left -= 1
        return buffer

    async def _send_current(self) -> None:
        extent = self._current
        if extent is None:
            return
        if self._appending:
            self._gathered.append(extent)
            self._current = None
            # Blocks that are full while others are in flight share the next turn.
            if not self._in_flight or len(self._gathered) == self._blocks:
                await self._send_gathered()
            return
        # Two WRITEs of the same octets must not overtake each other.
        while any(extent.overlaps(other) for other in self._sent_extents()):
            await self._arrivals(len(self._in_flight) - 1)
        await self._arrivals(self._blocks - 1)
        if self._failure is not None:
            return
        self._current = None
        self._sent += 1
        extent.number = self._sent
        self._send([extent], self._carry(extent, stable_how.UNSTABLE))

    async def _send_gathered(self) -> None:
        await self._arrivals(0)
        if self._gathered:
            extents, self._gathered = self._gathered, []
            # A task of its own: a caller that is cancelled while a WRITE is under way must not end the turn.
            self._send(extents, self._append(extents))

    async def _send_all(self) -> None:
        """Sends all unsent data, and waits until all replies have arrived; keeps an error, which `_check` raises."""
        await self._send_current()
        await self._send_gathered()
        await self._arrivals(0)

    def _send(self, extents: list[_Extent], work: Coroutine[Any, Any, None]) -> None:
        task = self._start(work)
        self._in_flight[task] = extents
        task.add_done_callback(self._arrived)

    def _arrived(self, task: asyncio.Task[None]) -> None:
        """Takes `task` out of those in flight; if cancelled, keeps its extents, or, if it appends, ends the writing."""
        extents = self._in_flight.pop(task)
        if not task.cancelled():
            return
        if self._appending:
            # Sent again after its turn, the data might be written over what others have appended since.
            self._fail(TransportClosed("appending was cancelled: the file system or its event loop was closed"))
        else:
            # A task that is cancelled before its first step has kept nothing itself.
            self._uncommitted.extend(extent for extent in extents if extent not in self._uncommitted)

    def _sent_extents(self) -> list[_Extent]:
        return [extent for extents in self._in_flight.values() for extent in extents]

    async def _append(self, extents: list[_Extent]) -> None:
        try:
            async with append_turn(self._node.handle.data):
                end = (await self._procedures.getattr(self._node)).size
                for extent in extents:
                    extent.offset = end
                    end = extent.end
                stable = stable_how.UNSTABLE if len(extents) > 1 else stable_how.FILE_SYNC
                await asyncio.gather(*(self._carry(extent, stable) for extent in extents))
                await self._commit_arrived()
                self._appended_to = end
                extents.clear()  # they are in flight no more
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(error)

    async def _arrivals(self, left: int) -> None:
        while len(self._in_flight) > left:
            check_loop(next(iter(self._in_flight)).get_loop())
            await wait_ended(self._in_flight)

    async def _carry(self, extent: _Extent, stable: stable_how) -> None:
        """Writes `extent` with stability `stable`; keeps it if it needs a COMMIT or overlaps such data, else frees it.

        An extent is a buffer and its offset in the file. An error is kept as that of the file, and not raised, except
        CancelledError.
        """
        try:
            extent.verifier = await write_whole(
                self._procedures, self._node, extent.offset, extent.buffer[: extent.length], stable
            )
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(error)
            return
        except BaseException:
            # Cancelled, so counted as not sent: no verifier of a COMMIT equals None.
            extent.verifier, extent.stable = None, False
            self._uncommitted.append(extent)
            raise
        if self._failure is not None:
            return
        extent.stable = extent.verifier is None
        if not extent.stable or any(extent.overlaps(other) for other in self._uncommitted):
            self._uncommitted.append(extent)
        else:
            self._free.append(extent.buffer)

    async def _commit(self) -> None:
        await self._send_all()
        await self._commit_arrived()

    async def _commit_arrived(self) -> None:
        in_vain = 0
        while self._uncommitted:
            try:
                verifier = await self._procedures.commit(self._node)
            except Exception as error:  # noqa: BLE001 - see _fail
                self._fail(error)
                return
            lost: list[_Extent] = []
            # An extent written after a lost one may overlap it, so it is written again after it.
            for extent in sorted(self._uncommitted, key=lambda extent: extent.number):
                if not lost and (extent.stable or extent.verifier == verifier):
                    self._free.append(extent.buffer)
                else:
                    lost.append(extent)
            self._uncommitted = list(lost)
            in_vain += 1
            # One after the other, in the order in which they were written.
            for extent in lost:
                self._uncommitted.remove(extent)
                await self._carry(extent, stability(in_vain))
                if self._failure is not None:
                    return
