"""Open files as the `io` module has them. Data that is written arrives even if a program closes no file."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import io
import logging
import operator
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rpcrdma.aio.awaited_call import without_frames
from rpcrdma.nfs.client import NfsFile as AsynchronousFile
from rpcrdma.nfs.client.streams.open_state import parse_open_mode
from rpcrdma.nfs.errors import in_words
from rpcrdma.sync.background_loop import BackgroundLoop, OwnProcess, WaitedLoop, iterate, waiting
from rpcrdma.wire.buffers import as_view

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["NfsFile", "TextFile", "Writers", "binary_mode", "files_around", "warn_left_open"]

T = TypeVar("T")

_LOGGER = logging.getLogger("rpcrdma.client")

_TEXT_OCTETS = 1 << 17
"""Octets that a text file reads or writes at a time: waiting for the thread takes little beside decoding them."""


class NfsFile(OwnProcess, io.RawIOBase):
    """An open binary file, made by `NfsFilesystem.open`: an `io.RawIOBase`, which the classes of `io` may wrap.

    Its methods block, see `rpcrdma.nfs.NfsFile`; `read` and `readinto` are short only at the end of the file, `write`
    never is. `io.BufferedReader(file, 1 << 20)` makes many small reads fast. A file open for writing is closed when it
    is dropped, when its file system closes and when the program ends.

    Args:
        file: the asynchronous file.
        loop: the background thread's loop.
        mode: the mode.
        writers: the files of the file system that are open for writing, of which it closes those left unclosed.

    Shared by the methods:
        buffer: writable memory to fill.
        size: the most octets; None or negative: all up to the end of the file.
        data: the octets to write.
        ValueError: the file is closed.
        OSError, RpcError, CallTimeout, TransportClosed, DecodeError: as the methods of `rpcrdma.nfs.NfsFile`.
    """

    def __init__(self, file: AsynchronousFile, loop: WaitedLoop, mode: str, writers: Writers) -> None:
        super().__init__()
        self._asynchronous = file
        self._loop = loop
        self._mode = mode
        self._writers = writers
        self._appended = b""
        """The octets of a `write` that an interrupt has ended, but that were appended; b"" when the file is flushed.

        Buffers around the file repeat such a call without a flush of the file itself, which only a program calls.
        """
        if file.writable():
            writers.add(file)

    def __del__(self) -> None:
        """Closes a dropped file that is open for writing, in the background without waiting, and warns of it.

        The warning is a ResourceWarning. No effect on other files, or in a forked child.
        """
        file: AsynchronousFile | None = getattr(self, "_asynchronous", None)
        if file is None or file.closed or not file.writable() or self._loop.forked:
            return
        self._loop.post(functools.partial(self._writers.finish, file))
        warnings.warn(f"unclosed file {self!r}", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.name!r} mode={self.mode!r} closed={self.closed}>"

    @property
    def name(self) -> str:
        """The absolute path of the file, from the root of the mounted export."""
        return self._asynchronous.name

    @property
    def mode(self) -> str:
        """The mode in which the file was opened, such as "rb"."""
        return self._mode

    # A function in Python might be interrupted, and buffers of `io` would raise ValueError then: they take the file for
    # closed when they cannot find out.
    closed = property(operator.attrgetter("_asynchronous._closed"), doc="Whether the file has been closed.")

    @property
    def size(self) -> int:
        """The size in octets at the opening (the listing, after `ask=False`) or last `stat`, with own later changes."""
        return self._asynchronous.size

    def readable(self) -> bool:
        """Returns whether the file was opened for reading; raises ValueError if it is closed."""
        self._check_open()
        return self._asynchronous.readable()

    def writable(self) -> bool:
        """Returns whether the file was opened for writing; raises ValueError if it is closed."""
        self._check_open()
        return self._asynchronous.writable()

    def seekable(self) -> bool:
        """Returns True; raises ValueError if the file is closed."""
        self._check_open()
        return self._asynchronous.seekable()

    def tell(self) -> int:
        """Returns the offset in octets of the next `read`, and of the next `write` unless the file is for appending.

        Raises ValueError if the file is closed.
        """
        self._check_open()
        return self._asynchronous.tell()

    @without_frames
    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves the position to `offset` octets from `whence`, as `io.IOBase.seek`, and returns the new position.

        With `io.SEEK_END` the server is asked for the size: OSError is raised if it refuses, or if an earlier write has
        failed. Raises ValueError if the position would be negative, `whence` is none of `io.SEEK_SET`, `io.SEEK_CUR`
        and `io.SEEK_END`, or the file is closed.
        """
        return self._moving(functools.partial(self._asynchronous.seek, operator.index(offset), whence))

    stat = waiting(AsynchronousFile.stat)
    pread = waiting(AsynchronousFile.pread)
    preadinto = waiting(AsynchronousFile.preadinto)
    pwrite = waiting(AsynchronousFile.pwrite)

    @without_frames
    def read(self, size: int | None = -1, /) -> bytes:
        """Returns the next `size` octets, all up to the end if None or negative; fewer only at the end of the file.

        Returns b"" at the end. Raises OSError if the server refuses or an earlier write has failed, ValueError if the
        file is closed or was not opened for reading.
        """
        return self._moving(functools.partial(self._asynchronous.read, -1 if size is None else operator.index(size)))

    def readall(self) -> bytes:
        """Returns the octets from the position to the end of the file; errors are those of `read`."""
        return self.read()

    @without_frames
    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fills `buffer` with the next octets and returns their number, which is smaller only at the end of the file.

        The octets are placed in `buffer` without a copy if it is larger than the read-ahead, usually 8 MiB; `preadinto`
        never copies. Errors are those of `read`, and TypeError if `buffer` is no writable C-contiguous memory.
        """
        return self._moving(functools.partial(self._asynchronous.readinto, as_view(buffer, "buffer", writable=True)))

    @without_frames
    def readline(self, size: int | None = -1, /) -> bytes:
        """Returns the rest of the line at the position, with its end; b"" at the end of the file.

        At most `size` octets of the line are returned, unless `size` is None or negative. Errors are those of `read`.
        """
        return self._moving(functools.partial(self._asynchronous.readline, -1 if size is None else size))

    @without_frames
    def readlines(self, hint: int | None = -1, /) -> list[bytes]:
        """Returns the rest of the file as lines with their ends. Errors are those of `read`.

        If `hint` is positive, no further line is read once the lines together have `hint` octets or more.
        """
        return self._moving(functools.partial(self._asynchronous.readlines, -1 if hint is None else hint))

    def views(self) -> Iterator[memoryview]:
        """Yields the rest of the file in blocks, usually of up to 1 MiB, without a copy; errors are those of `read`.

        Each view is valid until the next block is taken, or another method of the file is called.
        """
        return iterate(self._loop, self._asynchronous.views, at_once=1)

    @without_frames
    def write(self, data: ReadableBuffer, /) -> int:
        """Writes all of `data` at the position, or at the end of a file opened for appending; returns its length.

        The data is sent when a block is full, by `flush` or `close` at the latest. Raises OSError if this or an earlier
        write has failed, ValueError if the file is closed or was not opened for writing, TypeError if `data` is no
        C-contiguous memory. An interrupted call may be repeated: it neither moves the position nor appends twice. To
        append the same data twice on purpose, call `flush` in between.
        """
        view, write = as_view(data, "data"), self._asynchronous.write
        if "a" not in self._mode:
            return self._moving(functools.partial(write, view))
        before, appended = self._asynchronous.tell(), self._appended
        done = len(appended) if view[: len(appended)] == appended else 0
        try:
            count = done + self._loop.run(functools.partial(write, view[done:]))
        except BaseException as error:
            if not isinstance(error, Exception) and self._asynchronous.tell() != before:
                self._appended = bytes(view)
            raise
        self._appended = b""
        return count

    def _moving(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs a call of the asynchronous file that moves the position; if it is interrupted, the position stays.

        An interrupt may come when the call has ended. Buffers around the file then make it once more.
        """
        before = self._asynchronous.tell()
        try:
            return self._loop.run(begin)
        except BaseException as error:
            if not isinstance(error, Exception) and self._asynchronous.tell() != before:
                self._loop.run(functools.partial(self._asynchronous.seek, before))
            raise

    @without_frames
    def truncate(self, size: int | None = None, /) -> int:
        """Flushes the file and sets its size to `size` octets, or to the position if None; returns the new size.

        A shorter file is extended with zeros; the position stays. Raises OSError if the server refuses or a write has
        failed, ValueError if `size` is negative, or the file is closed or was not opened for writing.
        """
        size = None if size is None else operator.index(size)
        size = self._loop.run(functools.partial(self._asynchronous.truncate, size))
        self._appended = b""
        return size

    @without_frames
    def flush(self) -> None:
        """Blocks until written data is on the server's stable storage; no effect on a file open only for reading.

        Raises OSError if a write has failed, ValueError if the file is closed.
        """
        self._check_open()
        if self.writable():
            self._loop.run(self._asynchronous.flush)
            self._appended = b""

    def fsync(self) -> None:
        """Does the same as `flush`: blocks until all written data is on the server's stable storage."""
        self.flush()

    @without_frames
    def close(self) -> None:
        """Flushes the file and closes it; no effect if it is closed already, or in a forked child.

        Raises OSError if a write has failed; the file is closed in any case.
        """
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


class TextFile(OwnProcess, io.TextIOWrapper):
    """A text file, made by `NfsFilesystem.open` as by the built-in `open`, over an `NfsFile`.

    A file open for writing is closed when it is dropped, when its file system closes and when the program ends.

    Args:
        file: the binary file.
        mode: the mode.
        encoding: the encoding.
        errors: as for the built-in `open`.
        newline: as for the built-in `open`.
    """

    def __init__(self, file: NfsFile, mode: str, *, encoding: str, errors: str | None, newline: str | None) -> None:
        kind = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
        self._held = kind(file, _TEXT_OCTETS)
        self._mode = mode
        self._loop = file._loop  # noqa: SLF001 - its own module's
        self._writers = file._writers  # noqa: SLF001
        # A dropped file is closed in a thread of its own, perhaps while its file system closes it: one comes first.
        self._closing = threading.RLock()
        super().__init__(self._held, encoding, errors, newline)
        self._CHUNK_SIZE = _TEXT_OCTETS
        if file.writable():
            # Garbage collection might close it while it lacks text.
            self._writers.kept.add(self._held)

    @property
    def mode(self) -> str:
        """The mode in which the file was opened, such as "r"."""
        return self._mode

    @without_frames
    def flush(self) -> None:
        """Blocks until all written text is on the server's stable storage; no effect on a file open only for reading.

        Raises OSError if a write has failed, ValueError if the file is closed.
        """
        super().flush()
        if self._held.writable():
            self._held.raw.flush()

    def close(self) -> None:
        """Flushes the file and closes it; no effect if it is closed already, or in a forked child.

        Raises OSError if a write has failed; the file is closed in any case.
        """
        if self._loop.forked:
            return
        try:
            with self._closing:
                super().close()
        finally:
            self._writers.kept -= {self, self._held}

    def detach(self) -> Any:
        """Flushes the text, and returns the buffered binary file beneath (of `io`), which the caller is to close.

        The text file is unusable afterwards. Raises ValueError if it was detached before, and the errors of `flush`.
        """
        super().detach()
        self._writers.kept.discard(self._held)
        return self._held

    def __del__(self) -> None:
        """Closes a dropped file in another thread, without waiting; warns (ResourceWarning) if it is open for writing.

        No effect if the file is closed or detached, or in a forked child.
        """
        self._writers.kept.discard(self._held)
        with contextlib.suppress(ValueError):  # detached
            if not self.closed and not self._loop.forked:
                if self.writable():
                    warnings.warn(f"unclosed file {self!r}", ResourceWarning, source=self, stacklevel=2)
                self._writers.kept.add(self)
                self._loop.post(functools.partial(self._writers.finish, self))


def files_around(files: Iterable[object]) -> list[Any]:
    """Returns the files of text or compressed data, and archives of `zipfile`, around `files`, the outermost first.

    Anyone may have made them, and they lose the data that they hold if `files` are closed before them. Each is of a
    class of `io` or a `ZipFile`, and refers to one of `files` or to another one of the result.
    """
    inner = list(files)
    if not inner:
        return []
    from zipfile import ZipFile  # noqa: PLC0415 - few programs leave files open

    known, found = set(map(id, inner)), list[Any]()
    if gc.get_freeze_count():
        gc.unfreeze()  # No referrer is found among frozen objects.
    while inner:
        referring = gc.get_referrers(*inner)
        referring += gc.get_referrers(*(each for each in referring if isinstance(each, dict)))
        around = {id(each): each for each in referring if isinstance(each, io.IOBase | ZipFile)}
        # The way from a GzipFile's own buffer back to it: closed first, it would take the buffer's data along.
        around = {key: each for key, each in around.items() if type(each).__name__ != "_WriteBufferStream"}
        referring.clear()  # This function's frame may be in it, and all would stay until garbage is collected.
        inner = [each for key, each in around.items() if key not in known]
        known.update(around)
        found = [*inner, *found]
    return found


def warn_left_open(name: str) -> None:
    """Logs a warning that other objects may hold data for the binary file `name`, which the caller closes next."""
    _LOGGER.warning(
        "%s was open for writing when its file system was closed: data written to it is sent, but data that another "
        "object, such as a tarfile.TarFile, still holds for it may be lost; use `with` to close both",
        name,
    )


def binary_mode(mode: str) -> str:
    """Returns the mode for the binary file under a text file in `mode`, as "rb" for "r"; a binary mode unchanged.

    Raises:
        ValueError: the mode is unknown.
    """
    binary = mode if "b" in mode else f"{mode.replace('t', '', 1)}b"
    try:
        parse_open_mode(binary)
    except ValueError:
        raise ValueError(
            f"invalid mode {mode!r}: use r, w, x or a, with b for octets, with + to read and write"
        ) from None
    return binary


class Writers:
    """The files of a file system that are open for writing, to be closed when they are dropped, or all together.

    To close, the file system calls `close_around`, then `close`, before it ends a connection of its own; `end` does
    both at the end of the process. The coroutines run in the loop of the files. The other methods may be called from
    any thread, except that `close_around` and `end`, which block, must not run in the thread of that loop.
    """

    def __init__(self) -> None:
        self._files: set[AsynchronousFile] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self.kept: set[io.IOBase] = set()
        """Buffers of text files, which garbage collection might close while they lack text; dropped text files."""

    def add(self, file: AsynchronousFile) -> None:
        """Registers a binary file that is open for writing, for `close` and `end` to close."""
        self._files.add(file)

    def discard(self, file: AsynchronousFile) -> None:
        """Removes a closed binary file from those registered; no effect if it is not registered."""
        self._files.discard(file)

    def close_around(self) -> None:
        """Closes the files of text or compressed data around registered files; blocks until that is done.

        Must not run in the thread of their loop.

        Raises:
            Exception: an error of closing a file, of several the last; the other files are closed all the same.
        """
        with contextlib.ExitStack() as stack:
            for each in reversed(files_around(list(self._files))):
                if not isinstance(each, NfsFile):
                    stack.callback(each.close)

    async def finish(self, file: AsynchronousFile | TextFile, unsent: bytes = b"") -> None:
        """Closes a file that the program dropped without closing; logs a failure instead of raising it.

        To a binary file it first writes the octets of `unsent`.

        Must run as a task of its own in the loop of the file; `close` waits for the task. At the end of the process,
        where no thread can start, a text file stays open without a log entry, for `close_around`.
        """
        task = asyncio.current_task()
        assert task is not None, "it was posted to the loop"
        self._ending.add(task)
        try:
            if isinstance(file, TextFile):
                await asyncio.to_thread(file.close)
            else:
                self._files.discard(file)
                try:
                    if unsent:
                        await file.write(unsent)
                finally:
                    await file.close()
        except Exception as error:  # noqa: BLE001 - every error is logged
            if file in self.kept and not file.closed:
                return  # No thread begins at the end of the process, whose own thread closes the file then.
            name = in_words(file.name)
            _LOGGER.error("%s was not closed, and the data written to it last may be lost: %s", name, error)  # noqa: TRY400
        finally:
            self._ending.discard(task)

    def end(self, loop: BackgroundLoop) -> None:
        """Closes all files at the end of the process; blocks, so that it must not run in the thread of `loop`.

        Logs a warning for each binary file that is open after `close_around`. An error is raised after all are closed.
        """
        try:
            self.close_around()
        finally:
            loop.run(self.close)

    async def close(self) -> None:
        """Closes all registered binary files, each with a warning in the log, and waits until dropped files are closed.

        Raises:
            Exception: the first error of closing a file; the other files are closed all the same.
        """
        files, self._files = list(self._files), set()
        for file in files:
            warn_left_open(in_words(file.name))
        ends = await asyncio.gather(*self._ending, *(file.close() for file in files), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
