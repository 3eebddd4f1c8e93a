"""Reusable memory for bulk results and arguments: pages that are warm, in a bounded amount, shared fairly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from mmap import PAGESIZE

from rpcrdma.aio.answering.turns import Client, Share, Turns
from rpcrdma.errors import RpcRdmaError
from rpcrdma.limits import (
    BUFFER_OCTETS_MAX,
    BUFFER_POOL_OCTETS_MAX,
    BULK_RESULT_OCTETS,
    CLIENT_FREE_PARTS,
    CLIENT_FREE_PARTS_ARRIVED,
    CONNECTIONS_FIRST_PARTS,
    REPLY_OCTETS_MAX,
    UNCOUNTED_RESULT_OCTETS,
)
from rpcrdma.wire.bulk_memory import PooledMemory, ResultMemory

__all__ = ["BufferPool", "BufferShare", "OutOfBuffers", "octets_reserved", "octets_taken", "room"]

_SMALLEST_BITS = 12
_LARGEST_BITS = 22


class OutOfBuffers(RpcRdmaError):
    """Signals that memory would exceed the pool's bound or the connection's share, or that the connection has ended."""


def octets_taken(length: int) -> int:
    """Returns the octets that a buffer of `length` octets usually occupies in a pool, and counts for: its size class.

    Size classes are the powers of two from 4 KiB to 4 MiB. A buffer above 4 MiB has no class: the result is `length`,
    while the pool counts `length` rounded up to whole pages, as it does for every buffer while memory is scarce.
    """
    if length <= 1 << _SMALLEST_BITS:
        return 1 << _SMALLEST_BITS
    return 1 << (length - 1).bit_length() if length <= 1 << _LARGEST_BITS else length


def octets_reserved(items: Iterable[int]) -> int:
    """Returns the octets of a pool to reserve for bulk results whose greatest lengths in octets are `items`.

    The result is the sum of `octets_taken(min(item, REPLY_OCTETS_MAX))`. Items of at most UNCOUNTED_RESULT_OCTETS do
    not count.
    """
    reserved = 0
    for item in items:
        if item > UNCOUNTED_RESULT_OCTETS:
            reserved += octets_taken(min(item, REPLY_OCTETS_MAX))
    return reserved


def room(most: int, free: int, *, of_client: int, own: int, parts: int = CLIENT_FREE_PARTS) -> int:
    """Returns how many more octets a connection may take from a pool of `most` octets, of which `free` are unused.

    The connection holds `own` octets, and all connections of its client, itself included, hold `of_client`. If the
    client holds nothing, the result is `free`. Otherwise it is `free` / `parts` - `of_client` - `own` (`own` counts
    twice); but for a connection that holds nothing it is at least the number of octets by which `free` exceeds half of
    `most`. A negative result means that the connection gets nothing. With 8 parts, and apart from both exceptions, one
    connection can hold 1/17 of the pool, the connections of one client 1/9, and the next client 1/9 of the rest: 16
    greedy clients leave 15 %.
    """
    if not of_client:
        return free
    left = free // parts - of_client
    if own:
        return left - own
    return max(left, free - most // CONNECTIONS_FIRST_PARTS)


class BufferPool:
    """Lends memory buffers of any length; buffers of up to 4 MiB come from size classes and are used again.

    `pool_octets_max` bounds the octets of the buffers for reuse, lent ones included. Beyond that bound, and above 4
    MiB, a buffer is allocated for one use. `octets_max` bounds `lent_octets`: the sum of the sizes of all lent buffers,
    and of the octets that connections have reserved (`BufferShare.reserve`) or hold as received data
    (`BufferShare.take_in`). Each connection uses the pool through a `BufferShare`, so that no connection takes the
    memory that others need.
    """

    __slots__ = (
        "_free", "_lent", "_loop", "_pooled", "_serving", "lent_octets", "lock", "messages", "octets_max", "on_short",
        "pool_octets_max", "turns",
    )  # fmt: skip

    def __init__(self, *, pool_octets_max: int = BUFFER_POOL_OCTETS_MAX, octets_max: int = BUFFER_OCTETS_MAX) -> None:
        self.pool_octets_max = pool_octets_max
        self.octets_max = octets_max
        self.lent_octets = 0
        self._pooled = 0
        self._free: dict[int, list[PooledMemory]] = {}
        self._lent: dict[int, tuple[PooledMemory, list[PooledMemory] | None, BufferShare]] = {}
        """Each lent buffer, by the identity of the whole buffer: the buffer, the free list of its size class, and the
        share to which it is lent."""
        self.lock = threading.Lock()
        self.turns: Turns[BufferShare] = Turns()
        """The connections that wait for memory, in the order in which they get it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the connections that wait; None before the first."""
        self._serving = False
        self.messages = ResultMemory()
        """The memory into which large messages are received over TCP; used in the event loop only."""
        self.on_short: Callable[[], None] | None = None
        """Is called in the event loop each time that a connection begins to wait, so that a server can schedule the end
        of connections that hold memory for too long; or None."""

    @property
    def waited_for(self) -> bool:
        """Whether at least one connection waits for memory of this pool."""
        return bool(self.turns.waiting)

    def share(self, client: str) -> BufferShare:
        """Returns a new share, by which one connection borrows memory of the pool until `BufferShare.close`.

        `client` is the peer's address: all shares with one address count together as one client.
        """
        return BufferShare(self, self.turns.join(client))

    def take(self, length: int, room: int, share: BufferShare) -> PooledMemory | None:
        """Returns a buffer of at least `length` and at most `room` octets; None if `length` exceeds `room`.

        The buffer's whole size is added to `lent_octets` of the pool; what `share`, the borrower, and its client hold
        is left for the caller to count. The caller holds the pool's `lock`. Raises OutOfMemory if the system has none.
        """
        if length > room:
            return None
        size = octets_taken(length)
        free = self._free.get(size)
        if free and size <= room:
            # The one that came back last: its octets are in the processor's cache.
            buffer = free.pop()
        else:
            if length <= 1 << _LARGEST_BITS and size <= room and self._may_pool(size):
                free = self._free.setdefault(size, [])
            else:
                free = None
                # Of whole pages, as that is what it takes.
                size = min(room, -(-length // PAGESIZE) * PAGESIZE)
            buffer = PooledMemory(size)
            # Not before there is memory: without it nothing has changed.
            if free is not None:
                self._pooled += size
        self._lent[id(buffer)] = buffer, free, share
        self.lent_octets += size
        return buffer

    def take_back(self, buffer: memoryview, share: BufferShare) -> int:
        """Takes back a buffer that was lent to `share`, and returns the octets that this frees.

        Returns 0, and does nothing, for any other buffer. The caller holds the pool's `lock`.
        """
        lent = self._lent.get(id(buffer.obj))
        if lent is None or lent[2] is not share:
            return 0
        whole, free, _ = lent
        del self._lent[id(whole)]
        size = len(whole)
        self.lent_octets -= size
        if free is not None:
            free.append(whole)
        return size

    def _may_pool(self, size: int) -> bool:
        """Returns whether `size` octets more fit in `pool_octets_max`; drops unused buffers to make room for them."""
        excess = self._pooled + size - self.pool_octets_max
        if excess <= 0:
            return True
        for other, free in self._free.items():
            while free and excess > 0:
                free.pop()
                self._pooled -= other
                excess -= other
        return excess <= 0

    def wait_in_line(self, share: BufferShare) -> None:
        """Adds `share` to the line of connections that wait for memory, and calls the pool's `on_short` if it is set.

        Called in the thread of the event loop.
        """
        self._loop = asyncio.get_running_loop()
        self.turns.wait(share)
        if self.on_short is not None:
            self.on_short()

    def serve_soon(self) -> None:
        """Has the event loop resume requests that wait for memory, if there is room; no effect if no connection waits.

        They are not resumed at once, because the connection that has freed memory may be processing its events.
        Thread-safe.
        """
        if self.turns.waiting and not self._serving:
            self._serving = True
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._serve)

    def _serve(self) -> None:
        """Resumes, for each waiting client, at most one request for which there is room; the least holder is first.

        If a request was resumed and others still wait, another run of this method is scheduled.
        """
        self._serving = False
        for client in self.turns.in_order():
            for share in client.in_order():
                resumed = True
                try:
                    resumed = share.take_turn()
                finally:
                    # Also after a fault of this connection, for which the others must not wait.
                    if resumed:
                        self.turns.had_turn(share, waits=share.waits)
                        self.serve_soon()
                if resumed:
                    break


class BufferShare(Share):
    """The share of one connection in the memory of a `BufferPool`; implements `rpcrdma.transport.BufferSource`.

    `acquire` and `release` lend buffers; `reserve`, `take_in` and `give_back` count octets without one; `wait` calls a
    function when there is room. The function `room` of this module decides how much the share may hold.
    `BufferPool.share` makes the share of a connection of `client`.
    """

    __slots__ = ("_over", "_pool", "_turns", "closed", "counted")

    def __init__(self, pool: BufferPool, client: Client[BufferShare]) -> None:
        super().__init__(client)
        self._pool = pool
        self._turns: list[tuple[int, bool, Callable[[], None]]] = []
        """The waiting requests, the oldest first: (octets, whether `counted` counts as free, `resume` function)."""
        self.counted = 0
        """The part of `held` that `reserve` and `take_in` have counted, in octets: no buffer is lent for it."""
        self.closed = False
        self._over = False

    @property
    def octets_max(self) -> int:
        """The most octets that this connection can ever hold: all octets of the pool."""
        return self._pool.octets_max

    @property
    def crowded(self) -> bool:
        """Whether the client holds memory of the pool and has no room for a further bulk result at present.

        The further result is taken to have BULK_RESULT_OCTETS, or the size of the pool if that is less. The octets that
        this connection holds by `reserve` and `take_in` count as free here. If they counted as held, a call could wait
        for the memory of handlers that themselves wait for this call.
        """
        counted = self.counted
        ordinary = min(BULK_RESULT_OCTETS, self._pool.octets_max)
        return self.client.held > counted and self._room(counted=counted) < ordinary

    @property
    def waits(self) -> bool:
        """Whether at least one `resume` function, of `wait` or `wait_while_crowded`, has not been called yet."""
        return bool(self._turns)

    def acquire(self, length: int, *, outliving: bool = False, reserved: int = 0) -> memoryview | None:
        """Returns writable memory of `length` octets with unspecified content; None if there is no room at present.

        Args:
            length: octets.
            outliving: whether the memory may be used after the share is closed. If true, a closed share lends memory,
                too.
            reserved: octets of an earlier `reserve` that the buffer uses up, at most `octets_taken(length)`; those that
                the buffer does not need are given back. If None is returned, the reservation stays.

        Raises:
            OutOfBuffers: `length` exceeds the size of the pool, or the share is closed and `outliving` is false.
            OutOfMemory: the system has no memory.
        """
        pool = self._pool
        if length > pool.octets_max:
            raise OutOfBuffers(f"{length} octets asked for, at most {pool.octets_max} can be had")
        if self.closed and not outliving:
            raise OutOfBuffers("the connection has ended")
        client, most = self.client, pool.octets_max
        with pool.lock:
            free = most - pool.lent_octets + reserved
            if client.held > reserved:
                free = room(most, free, of_client=client.held - reserved, own=self.held - reserved)
                if reserved:
                    free = max(free, reserved)
            buffer = pool.take(length, free, self)
            if buffer is None:
                return None
            pool.lent_octets -= reserved
            self.counted -= reserved
            size = len(buffer) - reserved
            self.held += size
            client.held += size
        return memoryview(buffer)[:length]

    def release(self, buffer: memoryview) -> None:
        """Takes back a buffer that `acquire` of this share returned, also after `close`; ignores any other buffer.

        Connections that wait for memory are resumed soon.
        """
        pool = self._pool
        with pool.lock:
            size = pool.take_back(buffer, self)
            self.held -= size
            self.client.held -= size
        if self.closed:
            self._leave()
        if pool.turns.waiting:
            pool.serve_soon()

    def reserve(self, octets: int) -> bool:
        """Counts `octets` as held by the connection, without a buffer, until `give_back`; returns whether it did.

        Returns False, and counts nothing, if there is no room at present or the share is closed.
        """
        return self._count(octets, CLIENT_FREE_PARTS)

    def take_in(self, octets: int) -> bool:
        """Counts `octets` of received data as held by the connection, until `give_back`; returns whether it did.

        Returns False, and counts nothing, if there is no room at present or the share is closed. The octets add to what
        the connection holds by `reserve` and in buffers, but have more room: this method lets a client hold up to a
        quarter of the pool's free memory (CLIENT_FREE_PARTS_ARRIVED), `reserve` and `acquire` up to an eighth.
        """
        return self._count(octets, CLIENT_FREE_PARTS_ARRIVED)

    def _count(self, octets: int, parts: int) -> bool:
        pool = self._pool
        with pool.lock:
            if self.closed or octets > self._room(parts):
                return False
            pool.lent_octets += octets
            self.counted += octets
            self.hold(octets)
        return True

    def give_back(self, octets: int) -> None:
        """Takes `octets` off those that `reserve` and `take_in` have counted; also after `close`.

        Connections that wait for memory are resumed soon.
        """
        pool = self._pool
        with pool.lock:
            pool.lent_octets -= octets
            self.counted -= octets
            self.hold(-octets)
        if self.closed:
            self._leave()
        pool.serve_soon()

    def wait(self, length: int, resume: Callable[[], None]) -> None:
        """Returns at once; the event loop later calls `resume`, when the share has room for `length` octets.

        If `length` exceeds the whole pool, room for all of the pool is enough. Among the shares that wait, those of
        clients that hold least are first. `close` calls `resume`, too, and this method calls it at once if the share is
        closed. No memory is kept for the caller: `resume` must ask for it again, may find it taken, and may then wait
        once more. Called in the thread of the event loop.
        """
        self._wait(length, resume, leaves_counted=False)

    def wait_while_crowded(self, resume: Callable[[], None]) -> None:
        """Has the event loop call `resume` when there is room for BULK_RESULT_OCTETS, or the whole pool if smaller.

        Returns at once. If the share is closed, calls `resume` itself; `close` calls it, too. The octets that this
        connection holds by `reserve` and `take_in` count as free.
        """
        self._wait(min(BULK_RESULT_OCTETS, self._pool.octets_max), resume, leaves_counted=True)

    def _wait(self, length: int, resume: Callable[[], None], *, leaves_counted: bool) -> None:
        if self.closed:
            resume()
            return
        self._turns.append((length, leaves_counted, resume))
        self._pool.wait_in_line(self)
        # The memory may have come back since the request was refused.
        self._pool.serve_soon()

    def take_turn(self) -> bool:
        """Calls the oldest waiting `resume` function if there is room for its octets; returns whether it called one.

        While the connection of this share holds octets by `reserve` or `take_in`, a function of `wait_while_crowded`
        may be called before older ones, since these octets count as free for it. Only `BufferPool` calls this method.
        """
        for number, (length, leaves_counted, resume) in enumerate(self._turns):
            if number and not (leaves_counted and self.counted):
                continue
            # The pool may be smaller by now: the resumed request asks again, and is capped or refused.
            if min(length, self._pool.octets_max) <= self._room(counted=self.counted if leaves_counted else 0):
                del self._turns[number]
                resume()
                return True
            if not self.counted:
                break
        return False

    def close(self) -> None:
        """Ends the share with its connection: calls all waiting `resume` functions; no effect when repeated.

        Afterwards only `acquire(outliving=True)` lends memory. Lent buffers are given back by `release` as before.
        """
        if not self.closed:
            self.closed = True
            while self._turns:
                self._turns.pop(0)[2]()
            self._pool.turns.leave(self)
            self._leave()

    def _leave(self) -> None:
        """Removes the closed share from the shares of its client, once, if it holds no octets any more."""
        if not self.held and not self._over:
            self._over = True
            self._pool.turns.part(self)

    def _room(self, parts: int = CLIENT_FREE_PARTS, *, counted: int = 0) -> int:
        """Returns how many more octets the share may hold by this module's function `room`; 0 or less: none.

        `parts` is passed to `room`, as the divisor of the unused memory. `counted` octets, which the share holds by
        `reserve` or `take_in`, count as free.
        """
        pool = self._pool
        most = pool.octets_max
        free = most - pool.lent_octets + counted
        return room(most, free, of_client=self.client.held - counted, own=self.held - counted, parts=parts)
