"""An open file: a stream with read-ahead and write-behind, and reads and writes at any offset."""

from __future__ import annotations

import io
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self

from rpcrdma.aio.misuse import AsynchronousOnly
from rpcrdma.nfs.client.attributes import Stat, set_attributes, stat_from
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.streams.direct_calls import check_offset, grown_size, placed_bytes, read_direct, read_whole
from rpcrdma.nfs.client.streams.open_state import OpenMode, SharedPosition
from rpcrdma.nfs.client.streams.read_ahead import ReadAhead, SequentialRun
from rpcrdma.nfs.client.streams.write_behind import WriteBehind
from rpcrdma.nfs.client.volume import TransferSizes, Volume
from rpcrdma.nfs.errors import in_words
from rpcrdma.wire.buffers import Memory, as_view

__all__ = ["NfsFile"]

_READ_AHEAD_BLOCKS = 8
"""READs ahead of the block being read that a stream has in flight at most, of the server's preferred size, or 1 MiB."""
_WRITE_BEHIND_BLOCKS = 8
"""WRITEs that a stream has in flight at most."""
_UNCOMMITTED_OCTETS_MAX = 32 << 20
"""Written, but not yet committed data that a stream keeps in memory, to write it again if the server restarts."""
_LINES_OCTETS = 1 << 16
"""Octets copied at a time to search for the ends of lines: a memoryview has no `find`."""


class NfsFile:
    """An open file, made by `NfsFilesystem.open`; an asynchronous context manager and iterator over lines of `bytes`.

    Methods may be called concurrently. Those that share the position (`read`, `readinto`, `views`, `readline`, `write`,
    `seek`, `truncate`, iteration) and `pread_ahead` take turns in the order of their calls; `pread`, `preadinto` and,
    unless the file is open for reading as well, `pwrite` wait for no turn. Written data is sent when a block is full,
    and before each read, so that reads return it; `flush`, `fsync` (the same) and `close` put it on stable storage. A
    failed write is raised by each later call that reads, writes, flushes or asks for attributes, and by `close`, which
    closes the file all the same. A file that is dropped without `close` loses unsent data, with a ResourceWarning.

    Args:
        volume: the file system.
        node: the file.
        mode: the mode in which the file is open.
        sizes: the octets that one call transfers.
        size: the file's size in octets.

    Shared by the methods:
        buffer: writable memory to fill.
        size: the most octets; negative: all up to the end of the file.
        offset: the offset in the file, in octets.
        data: the octets to write, which the caller may change after the call.
        NfsError: the server refused the operation.
        ValueError: the file is closed, or an argument is negative.
        RpcError, CallTimeout, TransportClosed, DecodeError: as `rpcrdma.rpc.Caller.call`.
    """

    def __init__(self, volume: Volume, node: Node, mode: OpenMode, sizes: TransferSizes, size: int) -> None:
        self._volume = volume
        self._node = node
        self._mode = mode
        self._sizes = sizes
        self._position = SharedPosition(size if mode.appends else 0)
        self._end = size
        self._closed = False
        self._when_closed: Callable[[NfsFile], None] | None = None
        """Is called with the file when `close` has ended, by success or failure."""
        self._lines = b""
        self._lines_start = 0
        procedures = volume.procedures

        # Does not refer to `self`: a reference cycle would keep the file until the garbage collector runs.
        fetch, grown = partial(read_whole, procedures, node), partial(grown_size, procedures, node)
        self._run = SequentialRun()
        self._ahead = ReadAhead(fetch, grown, volume.start, block=sizes.read, blocks=_READ_AHEAD_BLOCKS, size=size)
        self._behind = WriteBehind(
            procedures,
            node,
            volume.start,
            block=sizes.write,
            blocks=_WRITE_BEHIND_BLOCKS,
            octets_max=_UNCOMMITTED_OCTETS_MAX,
        )

    def __del__(self) -> None:
        behind: WriteBehind | None = getattr(self, "_behind", None)
        if behind is None or behind.idle:
            return
        lost: list[str] = []
        if behind.unsent:
            lost.append(f"{behind.unsent:,} octets written to it are lost")
        if behind.uncommitted:
            lost.append(f"{behind.uncommitted:,} octets may get lost, which the server has not committed")
        if behind.unraised_failure is not None:
            lost.append(f"writing has failed: {behind.unraised_failure}")
        if not lost:
            return
        state = "closing was not completed" if self._closed else "unclosed"
        warnings.warn(f"{in_words(self.name)}: {state}: {'; '.join(lost)}", ResourceWarning, source=self, stacklevel=2)

    __enter__ = AsynchronousOnly("async with")
    __iter__ = AsynchronousOnly("async for")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The absolute path of the file in the mount, at which it was opened."""
        return self._node.path

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._closed

    @property
    def size(self) -> int:
        """The size in octets at the opening (with `ask=False`: the listing) or last `stat`, with own later changes."""
        return self._end

    def readable(self) -> bool:
        """Returns whether the file was opened for reading."""
        return self._mode.reads

    def writable(self) -> bool:
        """Returns whether the file was opened for writing."""
        return self._mode.writes

    def seekable(self) -> bool:
        """Returns True: the position of every file can be moved."""
        return True

    def tell(self) -> int:
        """Returns the offset in octets of the next `read`, and of the next `write` unless the file is for appending."""
        return self._position.at

    async def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position, after the operations that were called before.

        Args:
            offset: octets, counted from the place that `whence` names.
            whence: `io.SEEK_SET`, `io.SEEK_CUR`, or `io.SEEK_END`, which asks the server for the size.

        Returns:
            The new position.

        Raises:
            ValueError: the position would be negative, `whence` is none of the three, or the file is closed.
            NfsError: with `io.SEEK_END`: the server refuses, or an earlier write has failed.
        """
        with self._position if self._position.free else await self._position.turn():
            self._check_open()
            if whence == io.SEEK_CUR:
                offset += self._position.at
            elif whence == io.SEEK_END:
                offset += (await self.stat()).st_size
            elif whence != io.SEEK_SET:
                raise ValueError(f"invalid whence {whence}")
            if offset < 0:
                raise ValueError(f"negative seek position {offset}")
            self._position.at = offset
            return offset

    async def stat(self) -> Stat:
        """Sends the written data and returns the file's current attributes from GETATTR, which include that data.

        Raises `NfsError` if the server refuses or a write has failed, ValueError if the file is closed.
        """
        self._check_open()
        await self._behind.drain()
        self._follow()
        end = self._end
        attributes = await self._volume.procedures.getattr(self._node)
        if self._end == end:  # no data was written meanwhile, which the reply may lack
            self._end = self._ahead.size = attributes.size
        return stat_from(attributes)

    async def read(self, size: int = -1) -> bytes:
        """Returns the next `size` octets, all up to the end if negative; fewer only at the end of the file, b"" there.

        Raises `NfsError` if the server refuses, ValueError if the file is closed or was not opened for reading.
        """
        with self._position if self._position.free else await self._position.turn():
            await self._settle_writes()
            wanted = self._rest() if size < 0 else size
            ahead = self._octets_ahead(wanted)
            data = await self._next_data(wanted, ahead)
            if len(data) == size or not data:
                return bytes(data)
            copies = [bytes(data)]
            left = size - len(data)
            while left and (data := await self._next_data(self._rest() if size < 0 else left, ahead)):
                copies.append(bytes(data))
                left -= len(data)
            return b"".join(copies)

    async def readinto(self, buffer: Memory) -> int:
        """Fills `buffer` with the next octets and returns their number, which is smaller only at the end of the file.

        A read of more than 8 times the server's preferred size (usually 1 MiB) is placed in `buffer` without a copy.
        Raises `NfsError` if the server refuses, ValueError if the file is closed or was not opened for reading,
        TypeError if `buffer` is no writable C-contiguous memory.
        """
        with self._position if self._position.free else await self._position.turn():
            await self._settle_writes()
            buffer = as_view(buffer, "buffer", writable=True)
            if len(buffer) > self._sizes.read * _READ_AHEAD_BLOCKS:
                count = await read_direct(self._volume, self._node, self._position.at, buffer)
                self._position.at += count
                return count
            filled, ahead = 0, self._octets_ahead(len(buffer))
            while filled < len(buffer) and (data := await self._next_data(len(buffer) - filled, ahead)):
                buffer[filled : filled + len(data)] = data
                filled += len(data)
            return filled

    async def views(self) -> AsyncIterator[memoryview]:
        """Yields views of the file's octets from the position to its end, without a copy.

        Each view has at most the server's preferred size, usually 1 MiB. The position moves behind a view before it is
        yielded. A view is valid until the next read of the file by this iteration or a method other than `pread` and
        `preadinto`. Iteration raises the errors of `read`.
        """
        while True:
            with self._position if self._position.free else await self._position.turn():
                await self._settle_writes()
                data = await self._next_data(self._sizes.read, self._octets_ahead(self._sizes.read))
            if not data:
                return
            yield data

    async def readline(self, size: int = -1) -> bytes:
        r"""Returns the rest of the present line with its b"\n", at most `size` octets unless negative.

        Returns b"" at the end of the file. Errors are those of `read`.
        """
        with self._position if self._position.free else await self._position.turn():
            await self._settle_writes()
            parts = []
            while size:
                data = await self._part_of_line(size)
                parts.append(data)
                if not data or data.endswith(b"\n"):
                    break
                size -= len(data)
            return parts[0] if len(parts) == 1 else b"".join(parts)

    async def readlines(self, hint: int = -1) -> list[bytes]:
        r"""Returns the file from the position to its end as lines with their b"\n"; errors are those of `read`.

        Args:
            hint: if positive, the number of octets of lines after which no further line is read.
        """
        lines: list[bytes] = []
        octets = 0
        async for line in self:
            lines.append(line)
            octets += len(line)
            if 0 < hint <= octets:
                break
        return lines

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    async def pread(self, size: int, offset: int) -> bytes:
        """Returns `size` octets at `offset`, without moving the position; fewer only at the end of the file.

        Raises `NfsError` if the server refuses, ValueError if the file is closed, was not opened for reading, or `size`
        or `offset` is negative, OutOfMemory if the octets do not fit in memory.
        """
        await self._settle_writes()
        check_offset(offset)
        known = min(size, max(0, self._end - offset) + self._sizes.read)
        data = await self._placed(known, offset)
        if len(data) == known < size:
            # The file has grown since a reply last told its size.
            return b"".join((data, await self._placed(size - known, offset + known)))
        return data

    async def pread_ahead(self, size: int, offset: int, ahead: int) -> tuple[bytes, memoryview]:
        """Reads at `offset`, without moving the position, for a reader that continues: fetches the next octets as well.

        Args:
            size: the most octets to return.
            offset: the offset in the file, in octets.
            ahead: the most octets, at least 0, to fetch behind those, which is not waited for.

        Returns:
            (the octets, fewer than `size` only at the end of the file; a view of the octets behind them that the same
                READ has fetched, maybe none, valid until a read other than `pread`, `preadinto`).

        Raises:
            NfsError: the server refuses.
            ValueError: the file is closed or was not opened for reading, or an argument is negative.
            OutOfMemory: `size` octets do not fit in memory.
        """

        async def fill(buffer: memoryview) -> int:
            filled = 0
            while filled < size and (data := await self._ahead.at(offset + filled, size - filled, ahead)):
                buffer[filled : filled + len(data)] = data
                filled += len(data)
            return filled

        with self._position if self._position.free else await self._position.turn():
            await self._settle_writes()
            if min(offset, ahead) < 0:
                raise ValueError(f"negative offset {offset} or ahead {ahead}")
            found = await placed_bytes(self._node, size, fill)
            # Without octets, the row may be that of a read elsewhere.
            return found, self._ahead.rest(offset + len(found)) if found else memoryview(b"")

    async def preadinto(self, buffer: Memory, offset: int) -> int:
        """Fills `buffer` from `offset` without a copy; returns the number of octets, fewer only at the end of the file.

        The position stays. Raises `NfsError` if the server refuses, ValueError for a closed or write-only file or a
        negative `offset`, TypeError if `buffer` is no writable C-contiguous memory.
        """
        await self._settle_writes()
        return await read_direct(self._volume, self._node, offset, as_view(buffer, "buffer", writable=True))

    async def write(self, data: Memory) -> int:
        """Writes all of `data` at the position, or at the end of a file opened for appending; returns its length.

        The end is asked for when the data is sent, by `flush` at the latest. Files of one process that append to one
        file take turns. NFSv3 cannot promise this to several processes: two that send at the same moment overwrite each
        other's data. Raises `NfsError` if this or an earlier write has failed, ValueError if the file is closed or
        read-only, TypeError if `data` is no C-contiguous memory.
        """
        with self._position if self._position.free else await self._position.turn():
            if not self._mode.appends:
                count = await self._write_at(data, self._position.at)
                self._position.at += count
                return count
            count = await self._write_at(data, self._end, append=True)
            self._position.at = self._end
            return count

    async def pwrite(self, data: Memory, offset: int) -> int:
        """Writes all of `data` at `offset` without moving the position; returns its length.

        The data is sent when a block is full, or by `flush`. If the file is open for appending, data written before is
        flushed first, and `data` is written at `offset` all the same. Raises `NfsError` if this or an earlier write has
        failed, ValueError for a closed or read-only file or a negative `offset`, TypeError if `data` is no C-contiguous
        memory.
        """
        if self._mode.appends:
            await self.flush()
        if not self._mode.reads:
            return await self._write_at(data, offset)
        # Under the position's lock, so that no older data is read ahead meanwhile.
        with self._position if self._position.free else await self._position.turn():
            return await self._write_at(data, offset)

    async def truncate(self, size: int | None = None) -> int:
        """Flushes the file, then cuts it, or extends it with zeros.

        Args:
            size: the new size in octets; None: the position after the flush, which gives appended data its place.

        Returns:
            The new size.

        Raises:
            ValueError: `size` is negative, or the file is closed or not open for writing.
            NfsError: the server refuses, or a write has failed.
        """
        with self._position if self._position.free else await self._position.turn():
            self._check(self._mode.writes, "writing")
            if size is not None and size < 0:
                raise ValueError(f"negative size {size}")
            # Committed, not only sent: data that had to be written again would undo the truncation.
            await self.flush()
            length = self._position.at if size is None else size
            self._forget_read()
            await self._volume.procedures.setattr(self._node, set_attributes(size=length))
            self._end = self._ahead.size = length
            return length

    async def flush(self) -> None:
        """Waits until written data is on stable storage; `NfsError` if a write has failed, ValueError if closed."""
        self._check_open()
        await self._behind.flush()
        self._follow()

    async def fsync(self) -> None:
        """Waits until all written data is on the server's stable storage, with the errors of `flush`."""
        await self.flush()

    async def close(self) -> None:
        """Flushes the file and ends its use; no effect on a closed file. Does not wait for READs still in flight.

        Raises `NfsError` if a write has failed; the file is closed in any case.
        """
        if self._closed:
            return
        self._closed = True
        self._forget_read()
        try:
            await self._behind.flush()
        finally:
            if self._when_closed is not None:
                self._when_closed(self)

    def _follow(self) -> None:
        """Sets the size, and a position at the old size, to the end of data appended since the last call, if any."""
        end = self._behind.take_end()
        if end is not None:
            if self._position.at == self._end:
                self._position.at = end
            self._end = self._ahead.size = end

    def _rest(self) -> int:
        """Returns the octets to ask for to read the rest of the file: at least a block, as the file may have grown."""
        return max(self._end - self._position.at, self._sizes.read)

    def _octets_ahead(self, wanted: int) -> int:
        return self._run.octets_ahead(self._position.at, self._position.at + wanted)

    async def _next_data(self, wanted: int, ahead: int) -> memoryview:
        """Returns a view of the next octets, at most `wanted`, and moves the position behind them.

        The view is empty only at the end of the file, or if `wanted` is 0; it is valid until the next read. Up to
        `ahead` octets beyond `wanted` are fetched meanwhile.
        """
        if not wanted:
            return memoryview(b"")
        data = await self._ahead.at(self._position.at, wanted, ahead)
        self._position.at += len(data)
        self._run.read_to = self._position.at
        return data

    async def _part_of_line(self, size: int) -> bytes:
        """Returns a part of the present line, up to its end or the end of the octets in memory, and moves the position.

        The part has at most `size` octets unless `size` is negative; it is empty at the end of the file.
        """
        start = self._position.at - self._lines_start
        if not 0 <= start < len(self._lines):
            ahead = self._octets_ahead(_LINES_OCTETS)
            self._lines = bytes(await self._ahead.at(self._position.at, _LINES_OCTETS, ahead))
            self._lines_start, start = self._position.at, 0
            self._run.read_to = self._position.at + len(self._lines)
        end = self._lines.find(b"\n", start) + 1 or len(self._lines)
        data = self._lines[start : end if size < 0 else min(end, start + size)]
        self._position.at += len(data)
        return data

    async def _write_at(self, data: Memory, offset: int, *, append: bool = False) -> int:
        self._check(self._mode.writes, "writing")
        check_offset(offset)
        data = as_view(data, "data")
        if self._mode.reads:
            self._forget_read()
        await self._behind.write(offset, data, append=append)
        if data:
            self._end = self._ahead.size = max(self._end, offset + len(data))
        self._follow()
        return len(data)

    def _forget_read(self) -> None:
        """Discards the data that was read ahead or kept for lines, as the file changes or is closed."""
        self._ahead.discard()
        self._lines = b""

    def _placed(self, size: int, offset: int) -> Coroutine[Any, Any, bytes]:
        return placed_bytes(self._node, size, lambda buffer: read_direct(self._volume, self._node, offset, buffer))

    async def _settle_writes(self) -> None:
        self._check(self._mode.reads, "reading")
        if not self._behind.idle:
            await self._behind.drain()
            self._follow()

    def _check(self, allowed: bool, what: str) -> None:
        self._check_open()
        if not allowed:
            raise io.UnsupportedOperation(f"{in_words(self._node.path)} was not opened for {what}")

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("I/O operation on closed file")
