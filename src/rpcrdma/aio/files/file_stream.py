"""An open file: a stream with read-ahead and write-behind, and reads and writes at any offset."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from rpcrdma.aio.files.direct_read import read_direct, read_whole
from rpcrdma.aio.files.read_ahead import ReadAhead
from rpcrdma.aio.files.volume import Volume
from rpcrdma.aio.files.write_behind import WriteBehind
from rpcrdma.nfs.client.attributes import Stat, set_attributes, stat_from
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.open_mode import OpenMode
from rpcrdma.nfs.client.transfer_sizes import TransferSizes
from rpcrdma.wire.buffers import Buffer, as_view

__all__ = ["NfsFile"]


class NfsFile:
    """A file opened by `NfsFilesystem.open`; an asynchronous context manager and iterator over chunks of `bytes`.

    `read`, `readinto`, `write`, `seek` and `truncate` share one position and want to be called one at a time; `pread`,
    `preadinto` and `pwrite` may be called concurrently. What is written reaches the server when a block is full, and
    its stable storage with `flush`, `fsync` (the same) or `close`; a failure to write is raised by whichever of these
    comes next. Beyond `NfsError` every method may raise what `Caller.call` raises, and ValueError on a closed file.
    """

    def __init__(self, volume: Volume, node: Node, mode: OpenMode, sizes: TransferSizes, size: int) -> None:
        self._volume = volume
        self._node = node
        self._mode = mode
        self._sizes = sizes
        self._position = size if mode.appends else 0
        self._end = size
        self._closed = False
        options = volume.options
        self._ahead = ReadAhead(
            self._fetch, volume.start, block=sizes.read, blocks=options.read_ahead_blocks, size=size
        )
        self._behind = WriteBehind(
            volume.procedures,
            node.handle,
            node.path,
            volume.start,
            block=sizes.write,
            blocks=options.write_behind_blocks,
            octets_max=options.uncommitted_octets_max,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The path that was opened."""
        return self._node.path

    @property
    def closed(self) -> bool:
        """Whether the file has been closed."""
        return self._closed

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._mode.reads

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._mode.writes

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position of the next `read` or `write`."""
        return self._position

    async def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position and returns it; `io.SEEK_END` asks the server for the size.

        Raises:
            ValueError: the position would be negative, or `whence` is none of the three.
        """
        self._check_open()
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END:
            offset += (await self.stat()).st_size
        elif whence != io.SEEK_SET:
            raise ValueError(f"invalid whence {whence}")
        if offset < 0:
            raise ValueError(f"negative seek position {offset}")
        self._position = offset
        return offset

    async def stat(self) -> Stat:
        """The file's attributes as of now, with what has been written."""
        self._check_open()
        await self._behind.drain()
        attributes = await self._volume.procedures.getattr(self._node.handle, self._node.path)
        self._end = self._ahead.size = attributes.size
        return stat_from(attributes)

    async def read(self, size: int = -1) -> bytes:
        """Up to `size` octets from the position on, all that is left for -1; fewer only at the end of the file."""
        await self._settle_writes()
        if size < 0:
            return await self._read_rest()
        view = await self._ahead.at(self._position, size) if size else memoryview(b"")
        self._position += len(view)
        if len(view) == size or not view:
            return bytes(view)
        pieces = [bytes(view)]
        left = size - len(view)
        while left and (view := await self._ahead.at(self._position, left)):
            pieces.append(bytes(view))
            self._position += len(view)
            left -= len(view)
        return b"".join(pieces)

    async def readinto(self, buffer: Buffer) -> int:
        """Fills `buffer` from the position on; fewer octets than it holds only at the end of the file.

        What is larger than the read-ahead goes straight into `buffer`.
        """
        await self._settle_writes()
        view = as_view(buffer)
        if len(view) > self._sizes.read * self._volume.options.read_ahead_blocks:
            count = await self._direct(self._position, view)
            self._position += count
            return count
        filled = 0
        while filled < len(view) and (found := await self._ahead.at(self._position, len(view) - filled)):
            view[filled : filled + len(found)] = found
            filled += len(found)
            self._position += len(found)
        return filled

    async def views(self) -> AsyncIterator[memoryview]:
        """The rest of the file block by block without a copy: each view is good until the next step."""
        await self._settle_writes()
        while view := await self._ahead.at(self._position, self._sizes.read):
            self._position += len(view)
            yield view

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for view in self.views():
            yield bytes(view)

    async def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` octets at `offset`, without moving the position; fewer only at the end of the file."""
        await self._settle_writes()
        buffer = bytearray(min(size, max(0, self._end - offset) + self._sizes.read))
        got = await self._direct(offset, memoryview(buffer))
        if got == len(buffer) < size:
            # The file has grown since its size was last heard of.
            more = bytearray(size - got)
            count = await self._direct(offset + got, memoryview(more))
            return b"".join((buffer, memoryview(more)[:count]))
        return bytes(memoryview(buffer)[:got])

    async def preadinto(self, buffer: Buffer, offset: int) -> int:
        """Fills `buffer` from `offset` without a copy, many READs in flight, without moving the position."""
        await self._settle_writes()
        return await self._direct(offset, as_view(buffer))

    async def write(self, data: Buffer) -> int:
        """Writes all of `data` at the position; opened for appending: where the file ended at that time, and on."""
        count = await self.pwrite(data, self._position)
        self._position += count
        return count

    async def pwrite(self, data: Buffer, offset: int) -> int:
        """Writes all of `data` at `offset` without moving the position."""
        self._check(self._mode.writes, "writing")
        view = as_view(data)
        if self._mode.reads:
            self._ahead.discard()
        await self._behind.write(offset, view)
        self._end = self._ahead.size = max(self._end, offset + len(view))
        return len(view)

    async def truncate(self, size: int | None = None) -> int:
        """Cuts the file off, or extends it with zeros, at `size` octets (default: the position); returns the size."""
        self._check(self._mode.writes, "writing")
        length = self._position if size is None else size
        # Committed, not only sent: data that had to be written again would undo the truncation.
        await self._behind.flush()
        self._ahead.discard()
        await self._volume.procedures.setattr(self._node.handle, set_attributes(size=length), self._node.path)
        self._end = self._ahead.size = length
        return length

    async def flush(self) -> None:
        """Waits until everything written is on the server's stable storage."""
        self._check_open()
        await self._behind.flush()

    async def fsync(self) -> None:
        """The same as `flush`."""
        await self.flush()

    async def close(self) -> None:
        """Flushes and ends the use of the file; reads that are still on their way are left to arrive."""
        if self._closed:
            return
        self._closed = True
        self._ahead.discard()
        await self._behind.flush()

    async def _read_rest(self) -> bytes:
        pieces = [bytes(view) async for view in self.views()]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _fetch(self, offset: int, into: memoryview) -> tuple[int, bool]:
        return await read_whole(self._volume.procedures, self._node.handle, offset, into, self._node.path)

    async def _direct(self, offset: int, into: memoryview) -> int:
        return await read_direct(
            self._volume.procedures,
            self._node.handle,
            offset,
            into,
            self._node.path,
            call_octets=self._sizes.read_max,
            calls=self._volume.options.direct_calls,
        )

    async def _settle_writes(self) -> None:
        self._check(self._mode.reads, "reading")
        if not self._behind.idle:
            await self._behind.drain()

    def _check(self, allowed: bool, what: str) -> None:
        self._check_open()
        if not allowed:
            raise io.UnsupportedOperation(f"{self._node.path} was not opened for {what}")

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("I/O operation on closed file")
