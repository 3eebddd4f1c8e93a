"""Watches a directory of a server: its changes as they happen, across lost connections."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import errno
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.drivers.effects import random_bits
from rpcrdma.errors import CallTimeout, ProgramUnavailable, RemoteProtocolError, UserAuthenticationFailed
from rpcrdma.limits import NFS_WATCH_UNREAD_CHANGES_MAX
from rpcrdma.nfs.errors import ServerPathError, nfs_error
from rpcrdma.nfs.v3 import nfsstat3
from rpcrdma.nfs.watch import (
    SUBSCRIBE,
    UNSUBSCRIBE,
    WATCH_IDSIZE,
    WATCH_V1,
    WATCHER_V1_Service,
    watch_batch,
    watch_change,
    watch_kind,
    watch_status,
    watch_subscribe_args,
)
from rpcrdma.rpc.service import CallContext

__all__ = ["RESCAN", "Change", "ChangeKind", "Changes", "believed"]


class ChangeKind(enum.Enum):
    """The kind of a change."""

    CREATED = "created"
    """A name was added: an object was made, or moved in from a directory that is not watched."""
    REMOVED = "removed"
    """A name was removed, with all below it: the object was removed, or moved to a directory that is not watched."""
    RENAMED = "renamed"
    """A name became another one, within the watched directories."""
    CHANGED = "changed"
    """A file's content changed."""
    ATTRIBUTES = "attributes"
    """Mode, owner, times or other attributes were set."""
    RESCAN = "rescan"
    """Changes were missed: only a new listing of the whole tree shows its state."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change in a watched directory; paths are relative to it, "" is the directory itself."""

    kind: ChangeKind
    """The kind."""
    path: str = ""
    """The path of the object."""
    target: str | None = None
    """RENAMED: the new path; else None."""
    is_directory: bool = False
    """Whether the object is a directory."""


RESCAN = Change(ChangeKind.RESCAN, is_directory=True)

_KINDS = {
    watch_kind.WATCH_CREATED: ChangeKind.CREATED,
    watch_kind.WATCH_REMOVED: ChangeKind.REMOVED,
    watch_kind.WATCH_RENAMED: ChangeKind.RENAMED,
    watch_kind.WATCH_CHANGED: ChangeKind.CHANGED,
    watch_kind.WATCH_ATTRIBUTES: ChangeKind.ATTRIBUTES,
}


def believed(told: watch_change) -> Change:
    """Converts a reported change, after a check of its paths.

    Raises:
        RemoteProtocolError: a path could lead out of the directory, or cannot be a path.
    """
    kind = _KINDS.get(told.kind)
    if kind is None:
        return RESCAN
    names_itself = kind is ChangeKind.ATTRIBUTES
    target = _path(told.target) if kind is ChangeKind.RENAMED else None
    return Change(kind, _path(told.path, may_be_empty=names_itself), target, told.is_directory)


def _path(path: str, *, may_be_empty: bool = False) -> str:
    if (path or not may_be_empty) and any(name in {"", ".", ".."} or "\0" in name for name in path.split("/")):
        raise RemoteProtocolError(f"the server tells of a change at {path!r}, which can be no path in a directory")
    return path


_RETRY_S = 0.5
"""The pause before a new try at a server that postpones the subscription or does not answer."""
_GOODBYE_S = 1.0
"""How long the end of a subscription may take; the server notices without it."""


class _Receiver(WATCHER_V1_Service):
    """The service that the server calls back."""

    def __init__(self, take: Callable[[watch_batch], int]) -> None:
        self._take = take

    def changes(self, args: watch_batch, context: CallContext) -> int:
        del context
        return self._take(args)


class Changes:
    """The changes in a directory, made by `MountedFilesystem.watch`: an asynchronous context manager and iterator.

    All changes between entering and leaving are yielded in order; a change of kind RESCAN stands for missed ones. The
    connection is the object's own, and is restored after a loss.

    Args:
        url: the server.
        locate: returns the directory's handle and path.
        recursive: whether directories below it are watched, too.
        options: the settings of the connection.
        on_reconnected: called each time the connection was lost and restored.
    """

    def __init__(
        self,
        url: str,
        locate: Callable[[], Awaitable[tuple[bytes, str]]],
        *,
        recursive: bool,
        options: ConnectOptions,
        on_reconnected: Callable[[], None] | None = None,
    ) -> None:
        self.reconnects = 0
        """How many times the connection was lost and restored."""
        self._url = url
        self._locate = locate
        self._recursive = recursive
        self._options = replace(options, services=(*options.services, _Receiver(self._receive)), reconnect=True)
        self._on_reconnected = on_reconnected
        self._id = random_bits(8 * WATCH_IDSIZE).to_bytes(WATCH_IDSIZE, "big")
        self._path = ""
        self._handle = b""
        self._got = 0
        self._unread: deque[Change] = deque()
        self._failure: Exception | None = None
        self._news = asyncio.Event()
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._options.services_security is not None:
            raise UserAuthenticationFailed(
                f"{self._url}: the server tells of changes in calls of its own, which Kerberos does not protect; "
                'use tcp:// in TLS (ConnectOptions(xprtsec="tls")), or take them in the clear '
                "(ConnectOptions(services_in_clear=True))"
            )
        self._handle, self._path = await self._locate()
        self._connection = connection = await connect(self._url, WATCH_V1, options=self._options)
        try:
            count = connection.reconnects
            await self._subscribe(connection, resume=False)
        except BaseException:
            await connection.close()
            raise
        self._keeper = asyncio.create_task(self._keep(connection, count))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the subscription and the connection; may be called again."""
        keeper, connection = self._keeper, self._connection
        self._keeper = self._connection = None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        if connection is not None:
            try:
                with contextlib.suppress(Exception):
                    await connection.call(UNSUBSCRIBE, self._id, timeout_s=_GOODBYE_S)
            finally:
                await connection.close()
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """Waits for the next change; ends after `close`.

        Raises:
            NfsError: the server has ended the subscription: FileNotFoundError or a similar error if the directory is
                gone, PermissionError if it may no longer be read.
            TransportClosed: the connection was lost and could not be restored.
            RemoteProtocolError: the server reported an impossible change.
        """
        while not self._unread:
            if self._failure is not None:
                raise self._failure
            if self._connection is None:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._unread.popleft()

    def _receive(self, batch: watch_batch) -> int:
        """Queues the changes of a batch from the server for iteration.

        Returns the number of the last change received.
        """
        if bytes(batch.id) != self._id or self._failure is not None:
            # The batch is of an earlier subscription, or this one has failed: it is acknowledged and dropped.
            return batch.first + len(batch.changes) - 1
        try:
            self._take(batch)
        except RemoteProtocolError as error:
            self._fail(error)
        return self._got

    def _take(self, batch: watch_batch) -> None:
        if batch.first > self._got + 1 and batch.changes and batch.changes[0].kind is not watch_kind.WATCH_RESCAN:
            self._add(RESCAN)
        for number, told in enumerate(batch.changes, batch.first):
            if number <= self._got:
                continue
            self._got = number
            if told.kind is watch_kind.WATCH_ENDED:
                self._fail(self._refusal(told.status))
                return
            self._add(believed(told))

    def _add(self, change: Change) -> None:
        if len(self._unread) >= NFS_WATCH_UNREAD_CHANGES_MAX:
            self._unread.clear()
            change = RESCAN
        if change.kind is not ChangeKind.RESCAN or not self._unread or self._unread[-1] is not change:
            self._unread.append(change)
        self._news.set()

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        self._news.set()

    async def _keep(self, connection: Connection, count: int) -> None:
        """Subscribes again on each new connection; `count`: the `reconnects` of the connection up to now."""
        try:
            while True:
                await connection.wait_reconnected(count)
                count = connection.reconnects
                await self._subscribe_patiently(connection)
                if connection.reconnects == count:
                    self.reconnects += 1
                    if self._on_reconnected is not None:
                        self._on_reconnected()
        except Exception as error:  # noqa: BLE001 - the reader of the changes gets it
            self._fail(error)

    async def _subscribe_patiently(self, connection: Connection) -> None:
        """Subscribes again until the server takes the subscription: after its start it may be busy."""
        while True:
            with contextlib.suppress(CallTimeout, BlockingIOError):
                await self._subscribe(connection, resume=True)
                return
            await asyncio.sleep(_RETRY_S)

    async def _subscribe(self, connection: Connection, *, resume: bool) -> None:
        args = watch_subscribe_args(self._id, self._handle, self._recursive, resume, self._got)
        try:
            result = await connection.call(SUBSCRIBE, args)
        except ProgramUnavailable:
            raise ServerPathError(
                errno.EOPNOTSUPP, "the server does not offer to watch directories; `rpcrdma serve` does", self._path
            ) from None
        if result.status is watch_status.WATCHERR_JUKEBOX and resume:
            raise BlockingIOError
        if result.status is not watch_status.WATCH_OK:
            raise self._refusal(result.status)

    def _refusal(self, status: watch_status) -> OSError:
        if status is watch_status.WATCHERR_NOSPC:
            text = "the server watches as many directories as it may; watch fewer, or a smaller tree"
            return ServerPathError(errno.ENOSPC, text, self._path)
        return nfs_error(nfsstat3(int(status)), self._path)
