"""A provider around another one: it reports Sends and receives to watchers, and withholds credits on demand.

Transport and provider are the real ones. Each posted receive and each Send between them is reported before it is passed
on, so that a checker need not trust the counters of either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from rpcrdma.provider import (
    Completion,
    DeadlineTimer,
    Driver,
    LimitedLog,
    Link,
    LinkListener,
    ProtectionDomain,
    Provider,
    QueuePair,
    ReceiveSource,
    Status,
    Terms,
    Verb,
)
from rpcrdma.xdr import Buffer

__all__ = ["WatchedEnd", "WatchedProvider", "Watcher"]

_CREDIT = slice(8, 12)
"""The credit word of a transport header, in every version."""
_VERSION = slice(4, 8)
_TYPE = slice(12, 16)
_ERROR = bytes((0, 0, 0, 4))
"""The header type of an error, in every version."""
_INCREMENT_MAX = 0xFFFF


class WatchedEnd:
    """One end of a connection at the node named `node`, with its protection domain, `domain`.

    `peer` is the other end, None until that end's driver is made. `active` says whether this end is the connecting one.
    """

    __slots__ = ("active", "domain", "node", "peer", "withheld")

    def __init__(self, node: str, domain: ProtectionDomain, *, active: bool) -> None:
        self.node = node
        self.domain = domain
        self.active = active
        self.peer: WatchedEnd | None = None
        self.withheld = 0
        """Credits that Sends of a version that counts increments would have granted, but were withheld."""


class Watcher:
    """An observer of the Sends and receives that transports pass to providers; `WatchedProvider` calls its methods.

    Those that a watcher does not override do nothing.
    """

    def opened(self, end: WatchedEnd) -> None:
        """Called when the driver of an end of a connection was made, before anything is posted through it."""

    def receives(self, end: WatchedEnd, count: int) -> None:
        """Called just before the end posts `count` receives."""

    def sends(self, end: WatchedEnd, message: bytes) -> None:
        """Called just before the end posts a Send with the octets `message`."""

    def received(self, end: WatchedEnd) -> None:
        """Called when the end's transport takes the completion of its next received message."""

    def closed(self, end: WatchedEnd) -> None:
        """Called when the end's driver has released all its resources."""


class WatchedProvider:
    """An RDMA provider around `inner` at one node, which reports Sends and receives to `watchers`, not Reads or Writes.

    While `withholds_grants` is set, Sends of the node grant no further credits. `ends` has the ends of connections by
    (own address, other end's address). All nodes of a world share and extend it.
    """

    def __init__(
        self,
        inner: Provider,
        node: str,
        watchers: Sequence[Watcher],
        ends: dict[tuple[object, object], WatchedEnd],
    ) -> None:
        self.name = inner.name
        self.withholds_grants = False
        """Whether Sends of the node grant no further credits at present."""
        self.node = node
        self.watchers = watchers
        self._inner = inner
        self._ends = ends

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> Link:
        return _WatchedLink(self, await self._inner.connect(host, port, reserved_port=reserved_port))

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> LinkListener:
        return self._inner.listener(lambda link: on_link(_WatchedLink(self, link)), log)

    def explain_unmade(self, where: str, cause: str) -> str:
        return self._inner.explain_unmade(where, cause)

    def join(self, end: WatchedEnd, link: Link) -> None:
        """Adds `end` to the shared `ends` by the addresses of `link`; sets `peer` of both ends once both are there."""
        self._ends[link.local, link.peer] = end
        peer = self._ends.get((link.peer, link.local))
        if peer is not None and peer.peer is None and peer.active != end.active:
            end.peer, peer.peer = peer, end


class _WatchedLink:
    def __init__(self, provider: WatchedProvider, link: Link) -> None:
        self._watched = provider
        self._link = link
        self.provider = link.provider
        self.device = link.device
        self.local = link.local
        self.peer = link.peer
        self.active = link.active
        self.settle_s = link.settle_s
        self.remote_invalidation = link.remote_invalidation
        self.refuse = link.refuse

    def open(
        self, private_data: bytes, timer: DeadlineTimer, on_turn: Callable[[], None], on_closed: Callable[[], None]
    ) -> Driver:
        return _WatchedDriver(self._watched, self._link, private_data, timer, on_turn, on_closed)


class _WatchedDriver:
    def __init__(
        self,
        provider: WatchedProvider,
        link: Link,
        private_data: bytes,
        timer: DeadlineTimer,
        on_turn: Callable[[], None],
        on_closed: Callable[[], None],
    ) -> None:
        self._on_closed = on_closed
        self._watchers = provider.watchers
        self._driver = driver = link.open(private_data, timer, on_turn, self._closed)
        self._end = end = WatchedEnd(provider.node, driver.protection_domain, active=link.active)
        provider.join(end, link)
        self.protection_domain = driver.protection_domain
        self.queue_pair = _WatchedQueuePair(provider, end, driver.queue_pair)
        self.flush = driver.flush
        self.expect_end = driver.expect_end
        self.close = driver.close
        for watcher in provider.watchers:
            watcher.opened(end)

    @property
    def terms(self) -> Terms:
        return self._driver.terms

    @property
    def blocked(self) -> bool:
        return self._driver.blocked

    @property
    def round_trip_s(self) -> float | None:
        return self._driver.round_trip_s

    def _closed(self) -> None:
        for watcher in self._watchers:
            watcher.closed(self._end)
        self._on_closed()


class _WatchedCompletions(deque[Completion]):
    """A view of the completion queue `inner`; `popleft` calls `on_received` for each successful receive.

    Only `popleft` and `len` work: any other method sees an empty queue.
    """

    def __init__(self, inner: deque[Completion], on_received: Callable[[], None]) -> None:
        super().__init__()
        self._inner = inner
        self._on_received = on_received

    def __len__(self) -> int:
        return len(self._inner)

    def popleft(self) -> Completion:
        completion = self._inner.popleft()
        if completion.verb is Verb.RECEIVE and completion.status is Status.SUCCESS:
            self._on_received()
        return completion


class _WatchedQueuePair:
    def __init__(self, provider: WatchedProvider, end: WatchedEnd, inner: QueuePair) -> None:
        self._provider = provider
        self._watchers = provider.watchers
        self._end = end
        self._inner = inner
        self.completions: deque[Completion] = _WatchedCompletions(inner.completions, self._received)
        self.events = inner.events
        self.post_write = inner.post_write
        self.post_read = inner.post_read
        self.accept = inner.accept
        self.reject = inner.reject
        self.disconnect = inner.disconnect
        self.abort = inner.abort

    def _received(self) -> None:
        for watcher in self._watchers:
            watcher.received(self._end)

    def post_receive(self, wr: object, buffer: memoryview) -> None:
        for watcher in self._watchers:
            watcher.receives(self._end, 1)
        self._inner.post_receive(wr, buffer)

    def post_receives(self, count: int, pool: ReceiveSource) -> None:
        for watcher in self._watchers:
            watcher.receives(self._end, count)
        self._inner.post_receives(count, pool)

    def post_send(
        self, wr: object, gather: Sequence[Buffer], *, invalidate: int | None = None, signaled: bool = True
    ) -> None:
        message = b"".join(gather)
        given = self._granted(message)
        if given is not message:
            gather = [given]
        for watcher in self._watchers:
            watcher.sends(self._end, given)
        self._inner.post_send(wr, gather, invalidate=invalidate, signaled=signaled)

    def _granted(self, message: bytes) -> bytes:
        """Returns an RPC-over-RDMA message, whose credit word is changed if credits are or were withheld.

        While the provider's `withholds_grants` is set, a message of version 1 grants 1 credit. A message of another
        version, whose grant is an increment, grants none; increments withheld are added to later grants. Error messages
        are returned as they are.
        """
        end = self._end
        if message[_TYPE] == _ERROR:
            # Its receiver ignores the word.
            return message
        word = int.from_bytes(message[_CREDIT], "big")
        if not (self._provider.withholds_grants or end.withheld):
            return message
        if int.from_bytes(message[_VERSION], "big") == 1:
            word = 1
        else:
            owed = end.withheld + (word & _INCREMENT_MAX)
            given = 0 if self._provider.withholds_grants else min(owed, _INCREMENT_MAX)
            end.withheld = owed - given
            word = word & ~_INCREMENT_MAX | given
        return message[: _CREDIT.start] + word.to_bytes(4, "big") + message[_CREDIT.stop :]
