"""The service of watched directories: subscriptions that outlive connections, and reverse calls with changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable
from typing import TypeAlias

from rpcrdma.aio.answering.buffer_pool import room
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.errors import CallTimeout, RpcRdmaError, TransportClosed
from rpcrdma.limits import (
    NFS_WATCH_BATCH_OCTETS_MAX,
    NFS_WATCH_CONNECTION_SUBSCRIPTIONS_MAX,
    NFS_WATCH_GATHER_S,
    NFS_WATCH_KEPT_S,
    NFS_WATCH_REPLY_S,
    NFS_WATCH_SUBSCRIPTIONS_MAX,
)
from rpcrdma.nfs.export.local_tree import LocalExports
from rpcrdma.nfs.export.tree import REFUSALS
from rpcrdma.nfs.server.change_journal import ChangeJournal, Numbered
from rpcrdma.nfs.server.directory_watcher import DirectoryWatcher, TooManyDirectories, WatchedTree, watch_status_of
from rpcrdma.nfs.server.inotify_thread import InotifyThread
from rpcrdma.nfs.watch import (
    CHANGES,
    SUBSCRIBE,
    UNSUBSCRIBE,
    WATCH_V1_Service,
    watch_batch,
    watch_change,
    watch_status,
    watch_subscribe_args,
    watch_subscribe_result,
    watch_subscribed,
)
from rpcrdma.rpc.auth import AuthSys, Credential
from rpcrdma.rpc.service import CallContext, ReverseCaller

__all__ = ["WatchService"]

_LOGGER = logging.getLogger("rpcrdma.server")
_BATCH_OCTETS = 16 + 8 + 4
"""A batch without changes: identifier, number, count."""
_NUMBER_MAX = 1 << 63
"""No subscription reaches this number: a client that claims a higher one has not counted."""

_Identity: TypeAlias = tuple[int, int, tuple[int, ...]] | str | None


class _Refusal(Exception):
    def __init__(self, status: watch_status) -> None:
        super().__init__(status.name)
        self.status = status


class _BlockingContext:
    """The context of a call whose work is done in a thread that may block."""

    may_block = True

    def __init__(self, context: CallContext) -> None:
        self.credential = context.credential
        self.principal = context.principal
        self.peer = context.peer
        self.xid = context.xid
        self.host_identity = context.host_identity
        self.client = context.client
        self.buffer = context.buffer
        self.call_octets = context.call_octets
        self.result_octets_max = context.result_octets_max


class _Subscription:
    """Implements `ChangeSink` for the inotify thread; all other methods belong to the event loop."""

    def __init__(self, identifier: bytes, args: watch_subscribe_args, owner: _Identity) -> None:
        self.identifier = identifier
        self.terms = (bytes(args.directory), args.recursive, owner)
        """The arguments and the caller with which a client must come back to resume the subscription."""
        self.client: ReverseCaller | None = None
        self.address = ""
        """The client's address on its last connection."""
        self.tree: WatchedTree | None = None
        self.sender: asyncio.Task[None] | None = None
        self.expiry: asyncio.TimerHandle | None = None
        self.wanted = asyncio.Event()
        """Set while changes wait to be sent."""
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._journal = ChangeJournal(args.acknowledged)
        self._woken = False

    def add(self, change: watch_change) -> None:
        with self._lock:
            self._journal.add(change)
        self._wake()

    def lose(self) -> None:
        with self._lock:
            self._journal.lose()
        self._wake()

    def end(self, status: watch_status) -> None:
        with self._lock:
            self._journal.end(status)
        self._wake()

    def batch(self, octets_max: int) -> Numbered | None:
        """See `ChangeJournal.batch`."""
        with self._lock:
            return self._journal.batch(octets_max)

    def acknowledge(self, number: int) -> None:
        """See `ChangeJournal.acknowledge`."""
        with self._lock:
            self._journal.acknowledge(number)

    def go_on(self, number: int) -> None:
        """Continues when the client, which has received the changes up to `number`, has connected again.

        A number that was never sent makes the client rescan.
        """
        with self._lock:
            try:
                self._journal.acknowledge(number)
            except ValueError:
                over = self._journal.over
                self._journal = ChangeJournal(max(number, self._journal.next - 1))
                self._journal.lose()
                if over:
                    self._journal.end(watch_status.WATCHERR_STALE)
        self.wanted.set()

    def told(self) -> watch_subscribed:
        """Returns the answer to SUBSCRIBE."""
        with self._lock:
            return watch_subscribed(self._journal.first, self._journal.begins_with_rescan)

    @property
    def is_over(self) -> bool:
        """Whether the client has acknowledged the last entry."""
        with self._lock:
            return self._journal.over and not self._journal

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wanted)

    def _wanted(self) -> None:
        self._woken = False
        self.wanted.set()


class WatchService(WATCH_V1_Service):
    """Tells clients of changes in directories of the exports; `exports` are those of the NFS service.

    To be closed before the server. Read-only exports may be watched as well. A client can use up the bounds, but cannot
    make any client, itself included, lose changes without a rescan.
    """

    # A repeat must reach the handler: it tells which connection the client has now.
    IDEMPOTENT = frozenset((SUBSCRIBE.number, UNSUBSCRIBE.number))

    def __init__(
        self, exports: LocalExports, *, kept_s: float = NFS_WATCH_KEPT_S, reply_s: float = NFS_WATCH_REPLY_S
    ) -> None:
        self._exports = exports
        self._kept_s = kept_s
        self._reply_s = reply_s
        self._thread: InotifyThread | None = None
        self._subscriptions: dict[bytes, _Subscription] = {}
        # One call at a time: a repeated call finds the subscription of the first.
        self._subscribing = asyncio.Lock()
        self._log = LimitedLog(_LOGGER)
        self._closed = False

    @property
    def subscriptions(self) -> int:
        """The number of subscriptions, those without a connection included."""
        return len(self._subscriptions)

    async def subscribe(self, args: watch_subscribe_args, context: CallContext) -> watch_subscribe_result:
        try:
            async with self._subscribing:
                subscription = await self._subscribe(args, context)
        except _Refusal as refusal:
            return watch_subscribe_result(refusal.status, None)
        except (TooManyDirectories, *REFUSALS) as error:
            return watch_subscribe_result(watch_status_of(error), None)
        return watch_subscribe_result(watch_status.WATCH_OK, subscription.told())

    def unsubscribe(self, args: bytes, context: CallContext) -> Awaitable[None] | None:
        subscription = self._subscriptions.get(bytes(args))
        if subscription is not None and subscription.terms[2] == _identity(context.credential):
            self._drop(subscription)
        return None

    async def close(self) -> None:
        """Ends all subscriptions; clients that come back to another server are told to rescan."""
        self._closed = True
        senders = [each.sender for each in self._subscriptions.values() if each.sender is not None]
        for subscription in list(self._subscriptions.values()):
            self._drop(subscription)
        await asyncio.gather(*senders, return_exceptions=True)
        self._log.flush()
        if self._thread is not None:
            await self._thread.close()

    async def _subscribe(self, args: watch_subscribe_args, context: CallContext) -> _Subscription:
        if self._closed:
            raise _Refusal(watch_status.WATCHERR_JUKEBOX)
        if args.acknowledged >= _NUMBER_MAX:
            raise _Refusal(watch_status.WATCHERR_INVAL)
        if self._thread is None:
            self._thread = InotifyThread(self._exports)
        identifier = bytes(args.id)
        was_known = identifier in self._subscriptions
        if was_known:
            blocking = _BlockingContext(context)
            await self._thread.run(lambda watcher: watcher.admit(args.directory, blocking))
        self._make_room(identifier, context)
        subscription = self._subscriptions.get(identifier)
        if subscription is None:
            subscription = await self._open(self._thread, args, context, resumes=args.resume or was_known)
        else:
            if subscription.terms != (bytes(args.directory), args.recursive, _identity(context.credential)):
                raise _Refusal(watch_status.WATCHERR_PERM)
            self._detach(subscription)
            subscription.go_on(args.acknowledged)
        subscription.address = context.peer
        self._attach(subscription, context.client)
        return subscription

    async def _open(
        self, thread: InotifyThread, args: watch_subscribe_args, context: CallContext, *, resumes: bool
    ) -> _Subscription:
        subscription = _Subscription(bytes(args.id), args, _identity(context.credential))
        blocking = _BlockingContext(context)

        def work(watcher: DirectoryWatcher) -> None:
            subscription.tree = watcher.open(args.directory, blocking, subscription, recursive=args.recursive)
            if resumes:
                # Changes made before the watches were set up again are unknown.
                subscription.lose()

        opening = asyncio.ensure_future(thread.run(work))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            thread.submit(lambda watcher: self._close_tree(watcher, subscription))
            raise
        if self._closed:
            # The thread ends all watches.
            raise _Refusal(watch_status.WATCHERR_JUKEBOX)
        self._subscriptions[subscription.identifier] = subscription
        return subscription

    def _make_room(self, identifier: bytes, context: CallContext) -> None:
        """Makes room for one more subscription of this client, be it new or from another connection.

        Clients share the places as they share memory (`room`). A subscription without a connection keeps its place
        until another one needs it: the client's own are dropped before others', and those longest without a connection
        first. A client that comes back to a dropped one is told to rescan.
        """
        others = [each for each in self._subscriptions.values() if each.identifier != identifier]
        of_connection = sum(each.client is context.client for each in others)
        if of_connection >= NFS_WATCH_CONNECTION_SUBSCRIPTIONS_MAX:
            raise _Refusal(watch_status.WATCHERR_NOSPC)
        if identifier in self._subscriptions:
            return
        of_client = [each for each in others if each.address == context.peer]
        most, free = NFS_WATCH_SUBSCRIPTIONS_MAX, NFS_WATCH_SUBSCRIPTIONS_MAX - len(others)
        if room(most, free, of_client=len(of_client), own=min(of_connection, 1)) > 0:
            return
        away = next((each for each in (of_client if free else (*of_client, *others)) if each.client is None), None)
        if away is None:
            raise _Refusal(watch_status.WATCHERR_NOSPC)
        self._drop(away)

    def _attach(self, subscription: _Subscription, client: ReverseCaller) -> None:
        client.ready()
        subscription.client = client
        subscription.sender = asyncio.ensure_future(self._tell(subscription, client))

    def _detach(self, subscription: _Subscription) -> None:
        subscription.client = None
        if subscription.sender is not None and subscription.sender is not asyncio.current_task():
            subscription.sender.cancel()
        subscription.sender = None
        if subscription.expiry is not None:
            subscription.expiry.cancel()
            subscription.expiry = None

    def _drop(self, subscription: _Subscription) -> None:
        self._detach(subscription)
        self._subscriptions.pop(subscription.identifier, None)
        if self._thread is not None:
            self._thread.submit(lambda watcher: self._close_tree(watcher, subscription))

    def _close_tree(self, watcher: DirectoryWatcher, subscription: _Subscription) -> None:
        if subscription.tree is not None:
            watcher.close(subscription.tree)

    async def _tell(self, subscription: _Subscription, client: ReverseCaller) -> None:
        """Calls the client whenever there are changes, one call at a time, until the connection ends."""
        ended = asyncio.ensure_future(client.wait_closed())
        try:
            while not client.closed:
                wanted = asyncio.ensure_future(subscription.wanted.wait())
                try:
                    await asyncio.wait((ended, wanted), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    wanted.cancel()
                if ended.done():
                    break
                await asyncio.sleep(NFS_WATCH_GATHER_S)
                subscription.wanted.clear()
                await self._tell_all(subscription, client)
                if subscription.is_over:
                    self._drop(subscription)
                    return
        except TransportClosed:
            pass
        except (RpcRdmaError, ValueError) as error:
            self._log.log(logging.WARNING, "watch", "ended the subscription of a watching client: %s", error)
            self._drop(subscription)
            return
        finally:
            ended.cancel()
        self._detach(subscription)
        # Moved to the end: `_make_room` drops from the front, where those longest without a connection stand.
        self._subscriptions[subscription.identifier] = self._subscriptions.pop(subscription.identifier)
        loop = asyncio.get_running_loop()
        subscription.expiry = loop.call_later(self._kept_s, self._drop, subscription)

    async def _tell_all(self, subscription: _Subscription, client: ReverseCaller) -> None:
        octets_max = min(NFS_WATCH_BATCH_OCTETS_MAX, client.arguments_octets_max) - _BATCH_OCTETS
        while (batch := subscription.batch(octets_max)) is not None:
            args = watch_batch(subscription.identifier, batch.first, batch.changes)
            # A slow client gets the batch again; by the numbers it knows which changes it already has.
            with contextlib.suppress(CallTimeout):
                subscription.acknowledge(await client.call(CHANGES, args, timeout_s=self._reply_s))


def _identity(credential: Credential) -> _Identity:
    if isinstance(credential, AuthSys):
        return credential.uid, credential.gid, tuple(credential.gids)
    return credential.principal
