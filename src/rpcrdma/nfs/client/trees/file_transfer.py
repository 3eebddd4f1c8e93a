"""Copies one file from or to a server: many calls in flight, buffers from a bounded ring, local I/O in threads.

Either way the copy grows under a temporary name and takes its own when it is complete, so that no reader sees half
a file where a whole one is expected, nor a mixture where the file changed meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from rpcrdma.nfs.client.attributes import TIME_NS_MAX, set_attributes, stat_from
from rpcrdma.nfs.client.node import Node, path_of
from rpcrdma.nfs.client.paths import base_name
from rpcrdma.nfs.client.streams.direct_calls import beyond_end, read_whole, stability, write_whole
from rpcrdma.nfs.client.trees import local_files
from rpcrdma.nfs.client.trees.copy_source import (
    InOrder,
    RemoteFile,
    of_no_use,
    partial_name,
    require_unchanged,
    window_octets,
)
from rpcrdma.nfs.client.trees.temporary_names import give_name, kept_file, looked_up, same_file, temporary_file
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.client.workers import BufferRing, run_each
from rpcrdma.nfs.errors import NfsError, nfs_error
from rpcrdma.nfs.v3 import fattr3, ftype3, post_op_attr, stable_how

__all__ = ["FileTransfer", "Progress", "expressible", "times_of"]

_COMMIT_OCTETS = 64 << 20
"""Octets written by an upload between two COMMITs."""
_REMOTE_HOLE = 1 << 16
"""Fewer zeros than this are written with the data around them: another WRITE would cost more."""

Progress: TypeAlias = Callable[[int, int], None]
"""The type of `progress` functions: called with (files, octets) copied so far."""


def times_of(attributes: fattr3) -> tuple[int, int]:
    """Returns (last access, last modification) of `attributes` in nanoseconds since 1970."""
    shown = stat_from(attributes)
    return shown.st_atime_ns, shown.st_mtime_ns


def expressible(time_ns: int) -> int:
    """Returns the time nearest to `time_ns` that NFSv3 can express; both are nanoseconds since 1970."""
    return max(0, min(time_ns, TIME_NS_MAX))


@contextlib.contextmanager
def _told_of(path: str) -> Iterator[None]:
    """Replaces an `NfsError` of the `with` block, about a temporary file, by one with the same status about `path`."""
    try:
        yield
    except NfsError as error:
        raise nfs_error(error.status, path) from error


def _is_directory(path: str) -> bool:
    """Returns whether the local `path` leads to a directory; False also if it leads to no object or cannot be followed.

    Raises OSError (EINVAL) if it leads to a device, pipe or socket.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - pathlib takes "" for "."
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        local_files.require_regular(found, path)
    return stat.S_ISDIR(found.st_mode)


def _known(end: int | None, source: RemoteFile) -> int:
    """Returns `end`, where READs have found the end of `source`; raises RemoteProtocolError if it is None."""
    if end is None:
        raise beyond_end(source.node, source.attributes.size)
    return end


class FileTransfer:
    """Copies files between `volume` and this machine, counts the copied octets and reports them to `progress`.

    Args:
        volume: the file system.
        progress: called with (files, octets) copied so far.
        exact_modes: whether downloads get the server's permissions (0o777), not those of a replaced file or of the
            umask.
        sparse: whether runs of zeros (from 4 KiB on in a download, 64 KiB in an upload) are left out as holes.
        resume: whether a file that is there with the size and mtime of its source is not copied, and an interrupted
            copy of more than one READ or WRITE is continued.
    """

    def __init__(
        self,
        volume: Volume,
        progress: Progress | None = None,
        *,
        exact_modes: bool = False,
        sparse: bool = False,
        resume: bool = False,
    ) -> None:
        self.sparse = sparse
        self.resume = resume
        self.kept = 0
        """Files that were there already and were not copied (`resume`); `files` and `octets` count them, too."""
        self.files = 0
        self.octets = 0
        self._exact = exact_modes
        self._volume = volume
        self._progress = progress

    async def download(self, node: Node, own_name: str, local: str) -> int:
        """Copies the file `node` to the local path `local`; returns the file's size in octets.

        If `local` is a directory, the copy gets the name `own_name` in it. Raises OSError: FileChanged, EINVAL if
        `local` leads to a device, pipe or socket, or `NfsError`, as if `node` is no regular file; and RpcRdmaError.
        """
        await self._volume.file_attributes(node)
        in_thread = self._volume.in_thread
        if await in_thread(_is_directory, local):
            folder, name = local, own_name
        else:
            folder, name = os.path.split(local)
            name = local_files.server_name(name)
        directory = await self._volume.from_thread(os.close, local_files.open_directory, folder or (name and "."))
        try:
            with local_files.told_of(os.path.join(folder, name)):  # noqa: PTH118 - a name is no path
                return await self.fetch(node, directory, name)
        finally:
            os.close(directory)

    async def fetch(self, node: Node, directory: int, name: str) -> int:
        """Copies the file `node`, which has attributes, to `name` in the local directory with descriptor `directory`.

        An existing file of this name is replaced when the copy is complete; with `resume`, it is kept if its size and
        mtime are those of `node`. Returns the file's size in octets.

        Raises:
            OSError: this system, or (`NfsError`) the server, refuses an operation.
            FileChanged: the file changed while it was read; a file of one READ is then read once more, and this is
                raised if it changed again. The copy is removed.
            RemoteProtocolError: the server has more data than the size that it still tells, and tells no end.
            RpcRdmaError: the errors of `Caller.call`.
        """
        local_files.local_name(name)
        ring, attributes = await self._volume.ring(), node.attributes
        assert attributes is not None, "of an entry, or asked for"
        size = attributes.size
        block = (await self._volume.sizes()).read
        source = RemoteFile(attributes, node)
        if self.resume:
            mtime_ns = times_of(attributes)[1]
            if await self._volume.in_thread(local_files.is_copied, name, directory, size, mtime_ns):
                return self._keep(size)
        if size <= block:
            buffer = await ring.acquire()
            try:
                got, complete = await self._read(0, buffer[:size], source) if size else (0, True)
                complete = complete and not source.changed
                if complete:
                    arguments = (buffer[:got], name, directory, attributes.mode, times_of(attributes))
                    await self._volume.in_thread(
                        local_files.store_file, *arguments, exact=self._exact, sparse=self.sparse
                    )
            finally:
                ring.release(buffer)
            if complete:
                self.count(got, 1)
                return got
            # A file that has changed since it was listed is read once more, to go with its current attributes.
            source = RemoteFile(source.attributes, node)
        size = await self._fetch_large(source, directory, name, ring, block)
        self.count(0, 1)
        return size

    async def store(self, local: str, local_directory: int | None, directory: Node, name: str) -> tuple[int, Node]:
        """Copies a local file to `name` in `directory` at the server; returns (its size in octets, the copy's node).

        `local` is a name in the directory of the descriptor `local_directory`, or a path if that is None. The copy
        replaces a file of its name; with `resume`, a regular file with the size and mtime of the local file is kept.
        Raises OSError, `NfsError` if the server refuses, FileChanged if the local file changes meanwhile; RpcRdmaError.
        """
        ring = await self._volume.ring()
        with contextlib.ExitStack() as opened, contextlib.ExitStack() as held:
            buffer = await ring.acquire()
            held.callback(ring.release, buffer)
            block = (await self._volume.sizes()).write
            descriptor, got, found = await self._volume.from_thread(
                lambda loaded: os.close(loaded[0]), local_files.load_file, local, local_directory, buffer[:block]
            )
            opened.callback(os.close, descriptor)
            whole = got < block or found.st_size <= got
            if self.resume and (there := await self._at_server(directory, name, found)) is not None:
                return self._keep(found.st_size), there
            with _told_of(path_of((directory, name))):
                if self.resume and not whole:
                    partial = partial_name(name, found.st_size, found.st_mtime_ns)
                    making = kept_file(self._volume, directory, partial)
                else:
                    making = temporary_file(self._volume, directory)
                async with making as node:
                    if whole and got:
                        procedures = self._volume.procedures
                        parts = local_files.filled_parts(buffer[:got], _REMOTE_HOLE) if self.sparse else ((0, got),)
                        for start, end in parts:
                            data = buffer[start:end]
                            await write_whole(procedures, node, start, data, stable_how.FILE_SYNC)
                    # The beginning is read again with the rest: uploads that hold a buffer while they wait for others
                    # could all stop.
                    held.close()
                    if not whole:
                        got = await _Upload(self, self._volume, ring, descriptor, found.st_size, node).run()
                        await self._volume.in_thread(require_unchanged, descriptor, found, local)
                    await self._finish(node, found, directory, name)
        self.count(got if whole else 0, 1)
        return got, node

    def _keep(self, octets: int) -> int:
        self.kept += 1
        self.count(octets, 1)
        return octets

    async def _at_server(self, directory: Node, name: str, found: os.stat_result) -> Node | None:
        """Returns the node of the server's regular file `name` in `directory` if that is a copy already; else None.

        It is one if its size and mtime are those of the local file with the attributes `found`.
        """
        there = await looked_up(self._volume.procedures, directory, name)
        if there is None or there.attributes is None or there.attributes.type != ftype3.NF3REG:
            return None
        same = (there.attributes.size, times_of(there.attributes)[1]) == (
            found.st_size,
            expressible(found.st_mtime_ns),
        )
        return there if same else None

    def count(self, octets: int, files: int = 0) -> None:
        """Adds to the numbers of copied octets and files, and calls `progress` with (files, octets) copied so far."""
        self.octets += octets
        self.files += files
        if self._progress is not None:
            self._progress(self.files, self.octets)

    async def _read(self, offset: int, buffer: memoryview, source: RemoteFile) -> tuple[int, bool]:
        return await read_whole(self._volume.procedures, source.node, offset, buffer, source.hear)

    async def _fetch_large(self, source: RemoteFile, directory: int, name: str, ring: BufferRing, block: int) -> int:
        in_thread = self._volume.in_thread
        attributes = source.attributes

        partial = partial_name(name, attributes.size, times_of(attributes)[1]) if self.resume else None
        arguments = (name, directory, attributes.mode)
        file = await self._volume.from_thread(
            local_files.abandon_file, local_files.create_temporary, *arguments, exact=self._exact, partial=partial
        )
        window = window_octets(self._volume.options.direct_calls, block)
        begin = max(0, min(file.size, attributes.size) - window) // block * block
        order = InOrder(window)
        end: int | None = None

        def starts() -> Iterator[int]:
            # The size is the server's claim: what the server has ends before it does.
            start = begin
            while start < attributes.size and (end is None or start < end):
                yield start
                start += block

        async def fetch_range(start: int, octets: int) -> None:
            nonlocal end
            buffer = await ring.acquire()
            try:
                got, complete = await self._read(start, buffer[:octets], source)
                source.require_unchanged()
                if got:
                    write = local_files.write_sparse if self.sparse else local_files.write_at
                    await in_thread(write, file.descriptor, buffer[:got], start)
            finally:
                ring.release(buffer)
            if complete:
                end = start + got if end is None else min(end, start + got)
            self.count(got)

        async def fetch(start: int) -> None:
            # No more than the file has: the buffer is exposed for as many octets as are asked for, and analysers
            # of captures take a Write chunk that is not filled for a damaged one.
            async with order.turn(start) if self.resume else contextlib.nullcontext():
                await fetch_range(start, min(block, attributes.size - start))

        try:
            self.count(begin)
            await run_each(min(self._volume.options.direct_calls, -(-attributes.size // block)), starts(), fetch)
            if end is None:
                await fetch_range(attributes.size, block)
            if end is None or not source.heard:
                # The file may have grown since its size was asked for, and the server may give no attributes.
                source.hear(post_op_attr(True, await self._volume.procedures.getattr(source.node)))
                source.require_unchanged()
            octets = _known(end, source)
            await in_thread(local_files.finish_file, file, octets, times_of(attributes))
        except BaseException as error:
            await in_thread(local_files.abandon_file, file, stale=of_no_use(error))
            raise
        return octets

    async def _finish(self, node: Node, found: os.stat_result, directory: Node, name: str) -> None:
        procedures = self._volume.procedures
        attributes = set_attributes(
            size=found.st_size if self.sparse or self.resume else None,
            mode=found.st_mode,
            atime_ns=expressible(found.st_atime_ns),
            mtime_ns=expressible(found.st_mtime_ns),
        )
        await procedures.setattr(node, attributes)
        with self._volume.resolver.changing(directory, name):
            await give_name(
                procedures, directory, base_name(node.path), name, lambda found: same_file(procedures, node, found)
            )


class _Upload:
    """The upload of a large local file; data that the server loses in a restart is read and written again.

    `descriptor` is the local file of `size` octets, `node` the copy at the server; `transfer` counts the octets, and
    `ring` lends the memory between the file and the WRITEs.
    """

    def __init__(
        self, transfer: FileTransfer, volume: Volume, ring: BufferRing, descriptor: int, size: int, node: Node
    ) -> None:
        self._transfer = transfer
        self._volume = volume
        self._ring = ring
        self._descriptor = descriptor
        self._node = node
        self._end = size
        self._next = 0
        self._order: InOrder | None = None
        self._committing = asyncio.Lock()
        self._again: deque[tuple[int, int]] = deque()
        self._written: list[tuple[int, int, bytes]] = []
        self._uncommitted = 0
        self._in_vain = 0
        self._block = 0

    async def run(self) -> int:
        """Writes and commits the file (with `resume`, what the copy may lack); returns its size, less if it has shrunk.

        Raises OSError (`NfsError` if the server refuses) and the errors of `Caller.call`.
        """
        self._block = min(self._ring.size, (await self._volume.sizes()).write)
        if self._transfer.resume:
            window = window_octets(self._volume.options.direct_calls, self._block)
            self._order = InOrder(window)
            # A restarted server may have lost all uncommitted data: the window that is being committed, as much again
            # that has been written meanwhile, and the blocks in progress.
            there = (await self._volume.attributes(self._node)).size
            whole = max(0, min(there, self._end) - 2 * _COMMIT_OCTETS - window)
            self._next = whole // self._block * self._block
            self._transfer.count(self._next)
        while self._again or self._next < self._end or self._written:
            left = len(self._again) + -(-max(0, self._end - self._next) // self._block)
            if left:
                await run_each(
                    min(self._volume.options.direct_calls, left), iter(self._next_range, None), self._carry_in_turn
                )
            await self._commit()
        return self._end

    def _next_range(self) -> tuple[int, int, bool] | None:
        """Takes the next range to write: (offset, octets, whether the server has lost it); None if none is left.

        Ranges that the server has lost come first.
        """
        if self._again:
            return *self._again.popleft(), True
        start = self._next
        if start >= self._end:
            return None
        self._next = start + self._block
        return start, min(self._block, self._end - start), False

    async def _carry_in_turn(self, following: tuple[int, int, bool]) -> None:
        async with contextlib.nullcontext() if self._order is None else self._order.turn(following[0]):
            await self._carry(*following)
        if self._uncommitted >= _COMMIT_OCTETS:
            async with self._committing:
                await self._commit()

    async def _carry(self, start: int, length: int, again: bool) -> None:
        sparse = self._transfer.sparse
        if sparse and not again:
            filled = await self._volume.in_thread(local_files.next_data, self._descriptor, start)
            if filled >= start + length:
                # The blocks that are in the same hole are passed over, too.
                before, self._next = self._next, max(self._next, filled - filled % self._block)
                self._transfer.count(length + self._next - before)
                return
        buffer = await self._ring.acquire()
        try:
            got = await self._volume.in_thread(local_files.read_at, self._descriptor, buffer[:length], start)
            if got < length:
                self._end = min(self._end, start + got)
            if not got:
                return
            parts = local_files.filled_parts(buffer[:got], _REMOTE_HOLE) if sparse else ((0, got),)
            for first, end in parts:
                at, data = start + first, buffer[first:end]
                how = stability(self._in_vain)
                verifier = await write_whole(self._volume.procedures, self._node, at, data, how)
                if verifier is not None:
                    self._written.append((at, len(data), verifier))
                    self._uncommitted += len(data)
        finally:
            self._ring.release(buffer)
        if not again:
            self._transfer.count(got)

    async def _commit(self) -> None:
        written, self._written = self._written, []
        self._uncommitted = 0
        if not written:
            return
        verifier = await self._volume.procedures.commit(self._node)
        lost = [(start, length) for start, length, promised in written if promised != verifier]
        if lost:
            self._in_vain += 1
            self._again.extend(lost)
