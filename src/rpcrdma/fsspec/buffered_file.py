"""Files for programs without an event loop: fsspec's buffered file over an open file of the NFS client."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import sys
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from fsspec.caching import BaseCache, register_cache
from fsspec.spec import AbstractBufferedFile

from rpcrdma.fsspec.fsspec_file import OpeningFileSystem
from rpcrdma.fsspec.waiting import FilesLoop
from rpcrdma.nfs.client import NfsFile
from rpcrdma.nfs.client.streams.direct_calls import LentMemory
from rpcrdma.nfs.client.streams.read_ahead import SequentialRun
from rpcrdma.nfs.client.trees.local_files import temporary_name
from rpcrdma.nfs.errors import NfsError, nfs_error
from rpcrdma.sync.file_object import Writers, files_around
from rpcrdma.wire.buffers import Buffer, as_view

__all__ = ["BufferedNfsFile", "check_transaction"]

T = TypeVar("T")

_DIRECT_OCTETS = 1 << 20
"""A `readinto` of at least this size, or of a block, is placed in the caller's memory by the READs themselves."""

_LINES_OCTETS = 1 << 14
"""Octets that are searched at a time for the ends of lines."""


def check_transaction(url: str, mode: str) -> None:
    """Checks that `mode` is "wb", the only one in which a transaction of fsspec may write the file at `url`.

    Raises:
        io.UnsupportedOperation: it is another mode; the message has `url`.
    """
    if mode != "wb":
        raise io.UnsupportedOperation(f"{url}: a transaction takes new files, of mode wb, not {mode}")


class _OwnReadAhead(BaseCache):
    """The default cache of fsspec's files, which keeps nothing: `BufferedNfsFile` reads ahead itself."""

    name = "rpcrdma"


register_cache(_OwnReadAhead)


class BufferedNfsFile(AbstractBufferedFile):
    """An open file for programs without an event loop, in mode "rb", "wb", "ab" or "xb".

    `UpdatedFile` has the modes with "+". A read fetches the octets that it asks for. Sequential reads have the next
    blocks fetched meanwhile (`SequentialRun`) and take their octets from them. Written data is gathered in blocks, and
    is on the server's stable storage after `flush` and `close`.

    Args:
        fs: the file system.
        path: the path of the file.
        mode: the mode.
        block_size: octets of a block, 4 MiB by default.
        autocommit: False, as in a transaction, gives a new file a temporary name until `commit`.
        cache_type: the name of a cache of fsspec in place of the read-ahead.
        cache_options: the options of that cache.
        size: ignored. Reads end at the file's size at the opening, as `NfsFile.size` has it.
        opened: the file of the NFS client if it is open already; None: it is opened.
        tail: the last octets of the file, if they were read before; reads then take them from memory.
        kwargs: options of `fsspec.spec.AbstractBufferedFile`.

    Raises:
        io.UnsupportedOperation: a transaction with another mode than "rb" and "wb".
        OSError, ValueError, RpcRdmaError: without `opened`: the server refuses, a mode is unknown, or no answer comes.

    Shared by the methods:
        length, size: the most octets; None or negative: all up to the end of the file, or of the line.
        ValueError: the file is closed.
        RpcRdmaError: the server cannot be reached, or does not answer; it is no OSError.
    """

    DEFAULT_BLOCK_SIZE = 4 << 20
    closed: bool
    buffer: io.BytesIO
    fs: Any

    def __init__(
        self,
        fs: OpeningFileSystem,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = "default",
        autocommit: bool = True,
        cache_type: str = _OwnReadAhead.name,
        cache_options: dict[str, Any] | None = None,
        size: int | None = None,  # noqa: ARG002 - that of a file which was pickled; the server tells the present one
        *,
        opened: NfsFile | None = None,
        tail: bytes = b"",
        **kwargs: Any,
    ) -> None:
        self._closed = True  # until it is open: an object whose making fails is finalized as well
        self._temporary: str | None = None
        if not autocommit and mode != "rb":
            check_transaction(fs.unstrip_protocol(path), mode)
            self._temporary = f"{path.rpartition('/')[0]}/{temporary_name()}"
        self.fs, self.path = fs, path
        self._fs_loop = fs.loop
        self._files_loop = FilesLoop(fs, path)
        self._file: NfsFile = opened or self._await(fs.open_async, self._temporary or path, mode)
        self._reads_ahead = cache_type == _OwnReadAhead.name
        self._run = SequentialRun()
        self._lines = b""
        self._lines_start = 0
        self._held: bytes | memoryview = tail
        self._held_start = self._file.size - len(tail)
        super().__init__(
            fs, path, mode, block_size, autocommit, cache_type, cache_options, size=self._file.size, **kwargs
        )
        if mode != "rb":
            self.buffer = LentMemory()
            self.loc = self._file.tell()
            self._writers: Writers = fs.note_writer(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.full_name}>"

    def info(self) -> dict[str, Any]:
        """Returns the attributes of the file by name ("name", "size", "type", "mtime", "mode" and more).

        A file open for writing is flushed first. Of a file open for reading, later calls return the attributes of the
        first call.

        Raises:
            ValueError: the file was open for writing, and is closed.
            OSError: the flush has failed, or the server refuses.
        """
        if self.mode == "rb":
            found: dict[str, Any] = self.details
            return found
        self.flush()
        return {**self.fs.info(self._temporary or self.path, refresh=True), "name": self.path}

    def _await(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        try:
            return self._files_loop.run(partial(function, *args))
        except NfsError as error:
            if self._temporary is None:
                raise
            failure = nfs_error(error.status, self.path)
            place = self.fs.place(self.path)
            failure.found_at(replace(place.server.url, path=place.path))
            raise failure from None

    # Reading

    def read(self, length: int | None = -1) -> bytes:
        """Returns the next octets, all up to the end if `length` is None or negative; fewer only at the end.

        Raises ValueError if the file is closed or open for writing, OSError if the server refuses.
        """
        found: bytes = super().read(length)
        return found

    def readinto(self, b: Buffer) -> int:
        """Fills a buffer with the next octets and returns their number, which is smaller only at the end of the file.

        Octets that no earlier read left in memory are read without a copy if they are at least 1 MiB or a block,
        whichever is smaller, and the file has no cache of fsspec. Raises ValueError if the file is closed or open for
        writing, OSError if the server refuses.

        Args:
            b: writable memory.
        """
        buffer = as_view(b, "b", writable=True)
        if self.mode == "rb":
            buffer = buffer[: max(0, self.size - self.loc)]
        held = self._held_at(self.loc, self.loc + len(buffer))
        direct = self._reads_ahead and len(buffer) - len(held) >= self._direct_octets
        if self.mode != "rb" or self.closed or not direct:
            count: int = super().readinto(buffer)
            return count
        buffer[: len(held)] = held
        self.loc += len(held)
        count = self._await(self._file.preadinto, buffer[len(held) :], self.loc)
        self.loc += count
        return len(held) + count

    @property
    def _direct_octets(self) -> int:
        return min(int(self.blocksize), _DIRECT_OCTETS)

    def readline(self, size: int | None = -1) -> bytes:
        """Returns the rest of the present line with its end, at most `size` octets unless None or negative.

        Returns b"" at the end of the file. Raises ValueError if the file is closed or open for writing, OSError if the
        server refuses.
        """
        left = -1 if size is None else size
        parts = []
        while left:
            part = self._part_of_line(left)
            parts.append(part)
            if not part or part.endswith(b"\n"):
                break
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part_of_line(self, size: int) -> bytes:
        """Returns a part of the present line and moves the position; reads 16 KiB if no octets of it are in memory.

        The part ends with the line, or where the octets in memory end. It has at most `size` octets unless `size` is
        negative; it is empty at the end of the file.
        """
        start = self.loc - self._lines_start
        if not 0 <= start < len(self._lines):
            self._lines_start, start = self.loc, 0
            self._lines = self.read(_LINES_OCTETS)
        end = self._lines.find(b"\n", start) + 1 or len(self._lines)
        part = self._lines[start : end if size < 0 else min(end, start + size)]
        self.loc = self._lines_start + start + len(part)
        return part

    def readlines(self, hint: int | None = -1) -> list[bytes]:
        """Returns the rest of the file as lines with their ends.

        Raises ValueError if the file is closed or open for writing, OSError if the server refuses.

        Args:
            hint: if positive, no further line is read once the lines have at least `hint` octets.
        """
        lines: list[bytes] = []
        octets = 0
        for line in self:
            lines.append(line)
            octets += len(line)
            if hint is not None and 0 < hint <= octets:
                break
        return lines

    def _fetch_range(self, start: int, end: int) -> bytes:
        """Returns the octets from offset `start` up to offset `end` of the file, fewer only at its end.

        The file's end is that at the opening. fsspec's caches read by this method. With the default cache, a read of at
        most two blocks that continues the read before also reads ahead. Raises OSError if the server refuses.
        """
        end = min(end, self.size)
        if end <= start:
            return b""
        if not self._reads_ahead:
            return self._await(self._file.pread, end - start, start)
        ahead = min(self._run.octets_ahead(start, end), self.blocksize)
        held = self._held_at(start, end)
        first = start + len(held)
        before = bytes(held)
        if first == end:
            return before
        if not ahead or end - first > 2 * self.blocksize:
            data = self._await(self._file.pread, end - first, first)
            if len(data) < self._direct_octets:
                self._held, self._held_start = data, first
        else:
            # A view of memory that this call fills anew, even if it then fails.
            self._held = b""
            data, rest = self._await(self._file.pread_ahead, end - first, first, ahead)
            self._held, self._held_start = rest, first + len(data)
        return b"".join((before, data)) if before else data

    def _held_at(self, start: int, end: int) -> bytes | memoryview:
        """Returns octets from offset `start` on, up to `end` at most, that an earlier read left in memory; or b""."""
        at = start - self._held_start
        return self._held[at : at + end - start] if 0 <= at < len(self._held) else b""

    # Writing

    def write(self, data: Buffer) -> int:
        """Writes all of `data` at the position, in mode "ab" at the end of the file; returns its length in octets.

        Data smaller than a block is gathered in memory and sent when it fills a block; other data is passed to
        `NfsFile.write` of the NFS client at once. All is on the server's stable storage only after `flush` or `close`.

        Args:
            data: the octets.

        Raises:
            io.UnsupportedOperation: the file is open for reading.
            ValueError: the file is closed.
            OSError: this or an earlier write has failed.
        """
        if not self.writable():
            if self.closed:
                raise ValueError("I/O operation on closed file")
            raise io.UnsupportedOperation(f"{self.full_name} is open for reading")
        view = as_view(data, "data")
        if len(view) >= self.blocksize and not _in_a_collection():
            self._send()
            self._await(self._file.write, view)
        else:
            self.buffer.write(view)
            if self.buffer.tell() >= self.blocksize:
                self._send()
        self.loc += len(view)
        return len(view)

    def seek(self, loc: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position of a file that is open for reading, and returns it.

        Args:
            loc: octets, counted from the place that `whence` names.
            whence: `io.SEEK_SET`, `io.SEEK_CUR` or `io.SEEK_END`.

        Raises:
            io.UnsupportedOperation: the file is open for writing.
            ValueError: the position would be negative, or `whence` is none of the three.
        """
        if self.writable():
            raise io.UnsupportedOperation(f"{self.full_name} is written in one go: for seeks open it with w+b or r+b")
        position: int = super().seek(loc, whence)
        return position

    def flush(self, force: bool = False) -> None:  # noqa: ARG002 - fsspec's name for the flush of `close`
        """Waits until all written data is on the server's stable storage; no effect on a file open for reading.

        Args:
            force: ignored; fsspec's name for the flush of `close`.

        Raises:
            ValueError: the file is closed.
            OSError: a write has failed.
        """
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if self.writable() and not _in_a_collection():
            self._send()
            self._await(self._file.flush)
            # Appended data may have got another place than expected.
            self.loc = self._file.tell()

    def close(self) -> None:
        """Waits until all written data is on the server's stable storage, and closes the file; no effect if closed.

        The file is closed, too, when the method raises the OSError of a failed write. In a transaction the temporary
        name stays until `commit` or `discard`. While garbage is collected, nothing is waited for; the log has errors.
        """
        if self.closed or getattr(self, "_unclosable", False):
            return
        if self.writable() and _in_a_collection():
            self._leave()
            return
        try:
            if self.writable():
                self._end()
        finally:
            # The READs that are in flight are left to arrive.
            self.closed = True
            self._held = self._lines = b""
            cache, self.cache = getattr(self, "cache", None), None
            if cache is not None and hasattr(cache, "close"):
                cache.close()

    def _end(self) -> None:
        try:
            self._send()
        finally:
            self.buffer = LentMemory()
            self._await(self._file.close)

    def commit(self) -> None:
        """Closes the file of a transaction and those around it, and renames it; no effect outside of transactions.

        Called when the transaction ends. Raises OSError if a write has failed, or the renaming fails.
        """
        if self._temporary is not None:
            for each in () if self.closed else (*files_around([self]), self):
                each.close()
            self._await(self.fs._mv_file, self._temporary, self.path)  # noqa: SLF001 - fsspec's name for it
            self._temporary = None

    def discard(self) -> None:
        """Closes the file without its unsent data, and removes it if it belongs to a transaction.

        Raises OSError if the removal fails; errors of closing are ignored.
        """
        if not self.closed:
            self.buffer = LentMemory()
            with contextlib.suppress(Exception):
                self.close()
        if self._temporary is not None:
            self._await(self.fs._rm_file, self._temporary)  # noqa: SLF001 - fsspec's name for it
            self._temporary = None

    def __del__(self) -> None:
        files_loop: FilesLoop | None = getattr(self, "_files_loop", None)
        if files_loop is not None and files_loop.forked:
            _OF_PARENTS.append(getattr(self, "_file", None))
        if self.closed or not self.writable() or sys.is_finalizing() or files_loop is None or files_loop.forked:
            return
        if asyncio._get_running_loop() is self._fs_loop:  # noqa: SLF001 - raises nothing
            self._leave()  # a loop cannot wait for itself
        else:
            self.close()

    def _leave(self) -> None:
        self.closed = True
        self._files_loop.post(partial(self._writers.finish, self._file, self.buffer.getvalue()))

    def _send(self) -> None:
        if not self.buffer.tell() or _in_a_collection():
            return
        # Another one meanwhile: this memory cannot grow, and another thread may close the file. It stays so after an
        # exception, whose frames refer to the memory.
        unsent, self.buffer = self.buffer, LentMemory()
        before = self._file.tell()
        try:
            with unsent.getbuffer() as data:
                self._await(self._file.write, data)
        except BaseException:
            # An interrupt may have come after the data was taken.
            if self._file.tell() == before:
                since, self.buffer = self.buffer, LentMemory()
                self.buffer.write(unsent.getvalue() + since.getvalue())
            raise


_OF_PARENTS: list[object] = []
"""Files of the process that this one was forked from, dropped here: the parent still writes them."""
_COLLECTING: set[int] = set()
"""The thread that collects garbage. It may hold any lock, so that a file that it finds must not wait for another."""


def _note_collection(phase: str, _info: object) -> None:
    (_COLLECTING.add if phase == "start" else _COLLECTING.discard)(threading.get_ident())


def _in_a_collection() -> bool:
    return threading.get_ident() in _COLLECTING


gc.callbacks.append(_note_collection)
