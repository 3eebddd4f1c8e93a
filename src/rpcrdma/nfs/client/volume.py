"""The state that all operations on one mounted file system share."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from rpcrdma.aio.drivers.effects import loop_clock
from rpcrdma.aio.misuse import check_options, known_options
from rpcrdma.limits import NFS_LISTED_NAMES_HELD_MAX, NFS_LISTED_NAMES_MAX
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.resolver import LookupCache, Resolver
from rpcrdma.nfs.client.workers import BufferRing
from rpcrdma.nfs.errors import nfs_error
from rpcrdma.nfs.v3 import FSINFO3resok, fattr3, ftype3, nfs_fh3, nfsstat3
from rpcrdma.rpc.program import Caller

__all__ = ["FileOptions", "TransferSizes", "Volume"]


@known_options
@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Bounds of the calls in flight, the copies and the listings of an `NfsFilesystem`.

    Raises TypeError for a value that is no whole number, ValueError for a negative number, or 0 `files_at_once`.
    `direct_calls` 0 counts as 1; a bound of 0 names admits what one reply lists.
    """

    direct_calls: int = 8
    """Calls in flight for one `read_into`, `pread` or copied file; 8 of 1 MiB hide the latency of a local network."""
    files_at_once: int = 32
    """The most files that a copy of a tree copies, or `rmtree` removes, at a time."""
    listed_names_max: int = NFS_LISTED_NAMES_MAX
    """The most names of one directory that a listing takes, as a listing may be endless."""
    listed_names_held_max: int = NFS_LISTED_NAMES_HELD_MAX
    """The most names that a call holds in memory: of a directory for `listdir`, of all directories for `walk`."""

    def __post_init__(self) -> None:
        check_options(self, "files_at_once")


_LEAST = 4096
"""The least octets of a READ or WRITE, also for a server that states fewer or none: it may return fewer."""
_MOST = 1 << 20
"""The most octets of a READ or WRITE: more than 1 MiB gains nothing; it is the most that Linux asks for."""
_LISTING_LEAST = 1 << 13
_LISTING_MOST = 1 << 16
"""The most octets of a READDIRPLUS reply, which hold some 300 entries with attributes and handles."""
_NAMES = 1 << 18
"""The most octets of a READDIR reply, which hold some 6,000 names, whatever the server prefers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSizes:
    """The octets that one call transfers, chosen for a server.

    Attributes:
        read_max: at most for a READ.
        read: preferred for each READ of a sequence.
        write: preferred for each WRITE of a sequence.
        listing: for a READDIRPLUS reply.
        names: for a READDIR reply.
    """

    read_max: int
    read: int
    write: int
    listing: int
    names: int

    @classmethod
    def of(cls, info: FSINFO3resok) -> TransferSizes:
        """Returns sizes within fixed bounds (data 4 KiB to 1 MiB, listings 8 to 256 KiB) for a server's FSINFO."""
        read_max = _within(info.rtmax, _LEAST, _MOST)
        write_max = _within(info.wtmax, _LEAST, _MOST)
        listing = _within(info.dtpref, _LISTING_LEAST, _LISTING_MOST)
        return cls(
            read_max=read_max,
            read=_within(info.rtpref or read_max, _LEAST, read_max),
            write=_within(info.wtpref or write_max, _LEAST, write_max),
            listing=listing,
            names=_within(read_max, listing, _NAMES),
        )


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))


T = TypeVar("T")
P = ParamSpec("P")

_LOOKUP_VALID_S = 3.0
"""Seconds for which cached directories along a path are used; Linux starts with 3 s."""
_LOOKUP_ENTRIES_MAX = 4096
"""The most cached directories and links: more than the paths in use have within the seconds that entries are valid."""
_TRANSFER_OCTETS_MAX = 32 << 20
"""The octets of the buffers of all downloads and uploads together."""
_LOCAL_THREADS = 4
"""Threads that read and write local files: enough for system calls to overlap."""


class _RunOnce(Generic[T]):
    """Runs `function` in the first thread that calls this object; other threads wait, and all get its outcome.

    An executor that cannot start a thread keeps the work all the same, for a thread that is there already; what the
    function holds is released once it has run.
    """

    __slots__ = ("_first", "_function", "_outcome")

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._first = threading.Lock()
        self._outcome: Future[T] = Future()

    def __call__(self) -> T:
        if self._first.acquire(blocking=False):
            try:
                self._outcome.set_result(self._function())
            except BaseException as error:  # noqa: BLE001 - raised below
                self._outcome.set_exception(error)
            del self._function
        return self._outcome.result()


class Volume:
    """The state that all operations on a mounted file system share: procedures, sizes, buffers, tasks and threads.

    Args:
        caller: the connection to the NFS server.
        root: the root handle.
        directory: the absolute path at which relative paths start.
        top: the path of the root, "/"; an `ExportPath` makes errors show URLs.
        options: bounds of calls, copies and listings.
        clock: returns seconds, for the cache of directories; None: the event loop's clock.
        sleep: waits for the given seconds between repeated calls to a busy server.
    """

    def __init__(
        self,
        caller: Caller,
        root: nfs_fh3,
        *,
        directory: str,
        top: str,
        options: FileOptions,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.options = options
        self.procedures = NfsProcedures(caller, sleep=sleep)
        cache = LookupCache(clock or loop_clock(), valid_s=_LOOKUP_VALID_S, entries_max=_LOOKUP_ENTRIES_MAX)
        self.resolver = Resolver(self.procedures, root, cache, directory, top)
        self._sizes: TransferSizes | None = None
        self._ring: BufferRing | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._background: dict[asyncio.Task[Any], None] = {}

    async def sizes(self) -> TransferSizes:
        """Returns the most and the preferred octets of each kind of call; asks the server by FSINFO the first time.

        Raises `NfsError` if the server refuses, and the errors of `Caller.call`.
        """
        if self._sizes is None:
            self._sizes = TransferSizes.of(await self.procedures.fsinfo(self.resolver.root))
        return self._sizes

    async def ring(self) -> BufferRing:
        """Returns the buffers that all downloads and uploads share: as many as 32 MiB hold, but at least two.

        Each buffer has the size of the larger preferred READ or WRITE. The first call may raise the errors of `sizes`.
        """
        sizes = await self.sizes()
        if self._ring is None:
            size = max(sizes.read, sizes.write)
            self._ring = BufferRing(size, max(2, _TRANSFER_OCTETS_MAX // size))
        return self._ring

    async def attributes(self, node: Node) -> fattr3:
        """Returns the attributes of `node`, from GETATTR unless `node.fresh` says that this operation has fetched them.

        Attributes from GETATTR are stored in `node`. Raises `NfsError` if the server refuses, and the errors of
        `Caller.call`.
        """
        if node.attributes is None or not node.fresh:
            node.attributes = await self.procedures.getattr(node)
        return node.attributes

    async def file_attributes(self, node: Node) -> fattr3:
        """Returns the attributes of the regular file `node`, by GETATTR unless `node.fresh` is set.

        Raises:
            NfsError: IsADirectoryError for a directory, EINVAL with a note for another object that is no regular file;
                or the server refuses; and the errors of `Caller.call`.
        """
        attributes = await self.attributes(node)
        if attributes.type != ftype3.NF3REG:
            is_dir = attributes.type == ftype3.NF3DIR
            error = nfs_error(nfsstat3.NFS3ERR_ISDIR if is_dir else nfsstat3.NFS3ERR_INVAL, node.path)
            if not is_dir:
                error.add_note("it is a device, pipe or socket, and no regular file")
            raise error
        return attributes

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls `function` with the arguments in a thread for local files; returns its result, or raises its exception.

        A cancelled caller waits until the function has returned, and drops the result.
        """
        return await self.from_thread(lambda _result: None, function, *args, **kwargs)

    async def from_thread(
        self, undo: Callable[[T], object], function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Calls `function` in a thread for local files, like `in_thread`; `undo` gets the result of a cancelled call.

        A cancelled call waits until `function` has ended, calls `undo`, such as to close a descriptor, in the event
        loop's thread unless `function` has raised an exception, and raises CancelledError. Any other call returns the
        result, or raises the exception, of `function`. If no thread can be started, the event loop's thread runs
        `function`: a copy cannot close and remove its files otherwise.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_LOCAL_THREADS, thread_name_prefix="rpcrdma-files")
        work = _RunOnce(functools.partial(function, *args, **kwargs))
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except RuntimeError:
            return work()
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The function may be using a buffer or descriptor that its caller is about to release.
            while not running.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((running,))
            if not running.cancelled() and running.exception() is None:
                undo(running.result())
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts `work` as a task, which `close` cancels, and returns the task; it may outlive its caller."""
        task = asyncio.get_running_loop().create_task(work)
        self._background[task] = None
        task.add_done_callback(self._background.pop)
        return task

    async def close(self) -> None:
        """Cancels the tasks of `start` and waits for them, then ends the threads for local files.

        The event loop is blocked until these threads have done their work.
        """
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=True)
            self._threads = None
