"""The connections of a process to its servers: one for each event loop, server, set of options, and export.

All file systems with the same options share them. The connections of fsspec's own event loop are closed when the
process ends: its thread runs until then. After a fork the child begins with none.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import weakref
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.urls import Url
from rpcrdma.errors import ConnectFailed, RpcRdmaError, TransportClosed
from rpcrdma.nfs.client import FileOptions, MountedFilesystem
from rpcrdma.nfs.client.connecting import mount_path
from rpcrdma.nfs.errors import NfsNotFound, ServerPathError
from rpcrdma.sync.file_object import Writers, files_around, warn_left_open

__all__ = [
    "MountedPath",
    "Mounts",
    "Server",
    "close_all_mounts",
    "close_left_open",
    "close_mounts",
    "mounts_of",
    "open_writers",
]

_LOGGER = logging.getLogger("rpcrdma.client")
_CLOSE_S = 10.0
"""Seconds that the end of a process waits for the connections of an event loop to one server to close."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server and the options of its connections.

    Attributes:
        url: the URL of the server.
        options: the settings of connections.
        files: bounds of calls in flight, copies and listings.
        key: a text that is equal only for the same server and options.
    """

    url: Url
    options: ConnectOptions
    files: FileOptions
    key: str


class Closable(Protocol):
    """An open file with a blocking `close`."""

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""

    def close(self) -> None:
        """Sends the remaining data, waits for it, and ends the use of the file."""


class Mounts:
    """The exports of `server` that an event loop has mounted, each over a connection of its own.

    `mounts_of` makes it; all file systems with the same loop, server and options share it.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._mounted: dict[str, MountedFilesystem] = {}
        self._listed: frozenset[str] = frozenset()
        self._lock = asyncio.Lock()
        self._closings = 0
        self._watching: set[asyncio.Task[None]] = set()
        self._making: dict[str, asyncio.Task[None]] = {}
        self.listings: dict[str, asyncio.Task[None]] = {}
        """By directory: the task that reads a page of its listing; questions about other files there wait for it."""
        self._writers: weakref.WeakValueDictionary[int, Closable] = weakref.WeakValueDictionary()
        self.updated = Writers()
        """Files open for reading and writing, which are closed before their connections."""

    def note_writer(self, file: Closable) -> None:
        """Registers a file open for writing, which `ServerFileSystem.close` and the end of the process are to close."""
        # By its identity: a file of fsspec may ask its server for its hash.
        self._writers[id(file)] = file

    def open_writers(self) -> list[Closable]:
        """Returns the registered files that still exist, and the files around them, in the order of their closing."""
        # Taken at once, as other threads open files meanwhile.
        found: list[Any] = [file for each in self._writers.valuerefs() if (file := each()) is not None]
        return [*files_around(found), *found]

    async def make_directories(self, path: str, *, prefix: str = "") -> None:
        """Makes the directory `path` and those above it within the export, where they are missing.

        `path` is the path on the server, which begins with a slash. `prefix` is the server as the caller's path names
        it, which errors put before paths. Concurrent calls for the same directory, as from a copy of many files, share
        one MKDIR, which goes on if one of the callers is cancelled. Raises OSError if the server refuses, RpcRdmaError
        if it cannot be reached.
        """
        task = self._making.get(path)
        if task is None:
            task = self._making[path] = asyncio.get_running_loop().create_task(self._make_directory(path, prefix))
            task.add_done_callback(lambda _: self._making.pop(path))
        # A caller that is cancelled does not end it for the others.
        await asyncio.wait([task])
        task.result()

    async def _make_directory(self, path: str, prefix: str) -> None:
        async def make() -> None:
            async with MountedPath(self, path, prefix) as (fs, at):
                await fs.mkdir(at, exist_ok=True)

        try:
            await make()
        except NfsNotFound:
            above = path.rpartition("/")[0]
            if self._export_of(path) in {"", path} or not above:
                raise
            await self.make_directories(above, prefix=prefix)
            await make()

    async def close(self) -> None:
        """Closes the files of `updated` (read and written), unmounts all exports and closes their connections.

        The files that are only written stay open without a connection: their methods raise `TransportClosed` when
        they have data to send. Raises the first error of closing a file, at the end.
        """
        for task in self._watching:
            task.cancel()
        self._closings += 1
        mounted, self._mounted = set(self._mounted.values()), {}
        async with contextlib.AsyncExitStack() as stack:
            for fs in mounted:
                # Each is closed, also if the closing of another one fails or is cancelled.
                stack.push_async_callback(fs.close)
            await self.updated.close()
        async with self._lock:
            pass  # a mount that was in progress closes its connection

    async def mounted(self, path: str) -> tuple[str, MountedFilesystem]:
        """Returns (path of the export, its file system) for the export that `path` is in; mounts it first if necessary.

        `path` is the path on the server, which begins with a slash.

        Raises:
            ConnectFailed: the server cannot be reached.
            NoSuchExport: no export has that path.
            TransportClosed: `close` was called meanwhile.
            RpcRdmaError, OSError: the mount fails otherwise, as by CallTimeout or a refusal of the server.
        """
        fs = self._mounted.get(self._export_of(path))
        if fs is None:
            async with self._lock:
                fs = self._mounted.get(self._export_of(path))
                if fs is None:
                    fs = await self._mount(path)
        return fs.export, fs

    def _export_of(self, path: str) -> str:
        """Returns the path of the innermost export that holds `path`, of those mounted or listed; "" if none does."""
        export = path
        while export not in self._mounted and export not in self._listed:
            if export in {"", "/"}:
                return ""
            export = export.rpartition("/")[0] or "/"
        return export

    async def _mount(self, path: str) -> MountedFilesystem:
        server, closings = self._server, self._closings
        fs = await mount_path(replace(server.url, path=path), None, server.options, server.files)
        if self._closings != closings:
            await fs.close()
            raise TransportClosed("the connection was closed on this side")
        self._listed |= fs.listed_exports
        known = self._mounted.get(fs.export)
        if known is None:
            task = asyncio.get_running_loop().create_task(self._forget_when_lost(fs))
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)
        kept = known or fs
        # An export that is listed, but not for this client, is part of the one above it.
        self._mounted[self._export_of(path) or fs.export] = self._mounted[fs.export] = kept
        if kept is not fs:
            # Its `close` would tell the server by UMNT that the export, which `kept` uses, is used no longer.
            await fs.connection.close()
        return kept

    async def _forget_when_lost(self, fs: MountedFilesystem) -> None:
        """Waits until the connection of `fs` ends for good, then removes `fs` from the mounts and closes it.

        The next call of `mounted` mounts again.
        """
        with contextlib.suppress(RpcRdmaError):
            while True:
                await fs.connection.wait_reconnected(fs.connection.reconnects)
        self._mounted = {name: other for name, other in self._mounted.items() if other is not fs}
        await fs.close()


class MountedPath:
    """Mounts the export of a path: `async with MountedPath(...) as (file system, path in it)`, which stays mounted.

    Errors about paths at the server (`ServerPathError`), raised on entering or in the block, get the paths in the
    caller's form: `prefix`, then the path.

    Args:
        mounts: the mounted exports of the server.
        path: the path on the server, which begins with a slash.
        prefix: the server as the caller's path names it; empty where the caller names paths alone.
        hint: a note for an error of connecting; None for no note.

    Raises:
        ConnectFailed: when entered: the server cannot be reached.
        NoSuchExport: when entered: no export has that path.
        RpcRdmaError, OSError: when entered: the mount fails otherwise, as by CallTimeout or a refusal of the server.
    """

    __slots__ = ("_above", "_hint", "_mounts", "_path")

    def __init__(self, mounts: Mounts, path: str, prefix: str, hint: str | None = None) -> None:
        self._mounts = mounts
        self._path = path
        self._above = prefix
        self._hint = hint

    async def __aenter__(self) -> tuple[MountedFilesystem, str]:
        try:
            export, fs = await self._mounts.mounted(self._path)
        except (ServerPathError, ConnectFailed) as error:
            self._name(error)
            raise
        if export != "/":
            self._above += export
        return fs, "/" + self._path[len(export) :].lstrip("/")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._name(error)

    def _name(self, error: BaseException | None) -> None:
        if isinstance(error, ServerPathError):
            error.name_below(self._above)
        elif self._hint is not None and isinstance(error, ConnectFailed):
            error.add_note(self._hint)


_MOUNTS: dict[tuple[int, asyncio.AbstractEventLoop, str], Mounts] = {}
"""By process, loop and key. A child keeps those of its parent, unused: dropped, they would be closed in the child."""


def mounts_of(server: Server, loop: asyncio.AbstractEventLoop) -> Mounts:
    """Returns the `Mounts` of `server` that this process uses in the event loop `loop`; the first call makes it.

    `Server` objects with the same `key` share it. A forked child gets objects of its own. No export is mounted by that.
    """
    key = (os.getpid(), loop, server.key)
    found = _MOUNTS.get(key)
    if found is None:
        # Other threads do the same meanwhile.
        for other in list(_MOUNTS):
            if other[1].is_closed():
                _MOUNTS.pop(other, None)
        found = _MOUNTS.setdefault(key, Mounts(server))
    return found


def open_writers(server: Server, loop: asyncio.AbstractEventLoop) -> list[Closable]:
    """Returns the files open for writing, and those around them, of `server` that this process uses in `loop`.

    They are in the order in which they are to be closed.
    """
    found = _MOUNTS.get((os.getpid(), loop, server.key))
    return [] if found is None else found.open_writers()


def close_left_open(file: Closable) -> None:
    """Closes a file of `open_writers`; for an open binary file the log warns that others may hold data for it."""
    url = getattr(file, "full_name", None)
    if url is not None and not file.closed:
        warn_left_open(url)
    file.close()


async def close_mounts(server: Server) -> None:
    """Closes the mounts of `server` in the running event loop, if there are any (`Mounts.close`).

    `mounts_of` then makes new ones. Raises the error of a file that could not be closed.
    """
    found = _MOUNTS.pop((os.getpid(), asyncio.get_running_loop(), server.key), None)
    if found is not None:
        await found.close()


def close_all_mounts() -> None:
    """Closes this process's files open for writing, and its connections in all event loops that still run.

    It is called as the process ends. Blocks, for each server of a loop, until the files open for writing are closed,
    and then up to 10 s for the connections. Errors are logged, and not raised.
    """
    for (process, loop, _), mounts in list(_MOUNTS.items()):
        if process != os.getpid() or not loop.is_running():
            continue  # the parent's, or of a program that has ended the loop without closing its file systems
        for file in mounts.open_writers():
            try:
                close_left_open(file)
            except Exception:
                _LOGGER.exception("closing %s failed", file)
        try:
            asyncio.run_coroutine_threadsafe(mounts.close(), loop).result(_CLOSE_S)
        except Exception as error:  # noqa: BLE001 - the process ends, and its connections with it
            _LOGGER.debug("closing connections: %s", error)


atexit.register(close_all_mounts)
