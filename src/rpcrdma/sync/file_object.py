"""Open files as the `io` module has them."""

from __future__ import annotations

import functools
import io
import operator
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rpcrdma.nfs.client import NfsFile as AsynchronousFile
from rpcrdma.nfs.client import Stat
from rpcrdma.sync.background_loop import BackgroundLoop, OwnProcess, iterate
from rpcrdma.wire.buffers import as_view

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from rpcrdma.sync.writers import Writers

__all__ = ["NfsFile"]


class NfsFile(OwnProcess, io.RawIOBase):
    """A file opened by `NfsFilesystem.open`: a raw binary file, which the classes of `io` may wrap.

    It is an `rpcrdma.nfs.client.NfsFile`, with its read-ahead and write-behind, whose calls wait: `read`, `readinto`
    and `write` stop short at the end of the file alone. `io.BufferedReader(file, 1 << 20)` makes many small reads fast,
    `io.TextIOWrapper` makes text of it. A file that is open for writing when it is dropped, when its file system is
    closed or when the program ends, is closed then.
    """

    def __init__(self, file: AsynchronousFile, loop: BackgroundLoop, mode: str, writers: Writers) -> None:
        super().__init__()
        self._asynchronous = file
        self._loop = loop
        self._mode = mode
        self._writers = writers
        if file.writable():
            writers.add(file)

    def __del__(self) -> None:
        """Does not wait for the server, other than its base: garbage may be collected anywhere."""
        file: AsynchronousFile | None = getattr(self, "_asynchronous", None)
        if file is None or file.closed or not file.writable() or self._loop.forked:
            return
        self._loop.post(functools.partial(self._writers.finish, file))
        warnings.warn(f"unclosed file {self!r}", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.name!r} mode={self.mode!r} closed={self.closed}>"

    @property
    def name(self) -> str:
        """The path that was opened."""
        return self._asynchronous.name

    @property
    def mode(self) -> str:
        """The mode in which it was opened."""
        return self._mode

    @property
    def closed(self) -> bool:
        """Whether the file has been closed."""
        return self._asynchronous.closed

    @property
    def size(self) -> int:
        """The file's size in octets as of the last reply and of later writes; `stat` asks the server."""
        return self._asynchronous.size

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        self._check_open()
        return self._asynchronous.readable()

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        self._check_open()
        return self._asynchronous.writable()

    def seekable(self) -> bool:
        """True."""
        self._check_open()
        return self._asynchronous.seekable()

    def tell(self) -> int:
        """The position of the next `read` or `write`."""
        self._check_open()
        return self._asynchronous.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves the position and returns it."""
        return self._loop.run(functools.partial(self._asynchronous.seek, operator.index(offset), whence))

    def stat(self) -> Stat:
        """The file's current attributes, which include all data written before."""
        return self._loop.run(self._asynchronous.stat)

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to `size` octets from the position on, or for -1 the rest; fewer only at the end of the file."""
        return self._loop.run(functools.partial(self._asynchronous.read, -1 if size is None else operator.index(size)))

    def readall(self) -> bytes:
        """The rest of the file."""
        return self.read()

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fills `buffer` from the position on; fewer octets than it holds only at the end of the file.

        The server places them in `buffer` itself if that is larger than the read-ahead, 8 MiB; `preadinto` always does.
        """
        return self._loop.run(functools.partial(self._asynchronous.readinto, as_view(buffer, "buffer", writable=True)))

    def readline(self, size: int | None = -1, /) -> bytes:
        """The rest of the line that the position is in, with its end; no more than `size` octets, unless negative."""
        return self._loop.run(functools.partial(self._asynchronous.readline, -1 if size is None else size))

    def readlines(self, hint: int | None = -1, /) -> list[bytes]:
        """The rest of the file as lines; with a `hint` above zero no more of them when they have so many octets."""
        return self._loop.run(functools.partial(self._asynchronous.readlines, -1 if hint is None else hint))

    def views(self) -> Iterator[memoryview]:
        """The rest of the file block by block without a copy: each view is valid until the file is used again."""
        return iterate(self._loop, self._asynchronous.views, at_once=1)

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` octets at `offset`, without moving the position; fewer only at the end of the file."""
        return self._loop.run(functools.partial(self._asynchronous.pread, size, offset))

    def preadinto(self, buffer: WriteableBuffer, offset: int) -> int:
        """Fills `buffer` from `offset` without a copy, many READs in flight, without moving the position."""
        return self._loop.run(
            functools.partial(self._asynchronous.preadinto, as_view(buffer, "buffer", writable=True), offset)
        )

    def write(self, data: ReadableBuffer, /) -> int:
        """Writes all of `data` at the position; opened for appending: at the end."""
        return self._loop.run(functools.partial(self._asynchronous.write, as_view(data, "data")))

    def pwrite(self, data: ReadableBuffer, offset: int) -> int:
        """Writes all of `data` at `offset` without moving the position."""
        return self._loop.run(functools.partial(self._asynchronous.pwrite, as_view(data, "data"), offset))

    def truncate(self, size: int | None = None, /) -> int:
        """Cuts the file off, or extends it with zeros, at `size` octets (default: the position); returns the size."""
        size = None if size is None else operator.index(size)
        return self._loop.run(functools.partial(self._asynchronous.truncate, size))

    def flush(self) -> None:
        """Waits until everything written is on the server's stable storage; nothing to do unless open for writing."""
        self._check_open()
        if self.writable():
            self._loop.run(self._asynchronous.flush)

    def fsync(self) -> None:
        """The same as `flush`."""
        self.flush()

    def close(self) -> None:
        """Flushes and ends the use of the file."""
        if not self.closed and not self._loop.forked:
            try:
                self._loop.run(self._asynchronous.close)
            finally:
                self._writers.discard(self._asynchronous)

    async def _abandon(self) -> None:
        await self._writers.finish(self._asynchronous)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
