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
    """The bound on memory in use would be exceeded."""


def octets_taken(length: int) -> int:
    """Returns the octets of a pool that a buffer of `length` octets takes at most: its size class."""
    if length <= 1 << _SMALLEST_BITS:
        return 1 << _SMALLEST_BITS
    return 1 << (length - 1).bit_length() if length <= 1 << _LARGEST_BITS else length


def octets_reserved(items: Iterable[int]) -> int:
    """Returns the octets of a pool to reserve for a call whose bulk results are no larger than `items`.

    For each of them at most `REPLY_OCTETS_MAX` are reserved, and nothing for small ones.
    """
    reserved = 0
    for item in items:
        if item > UNCOUNTED_RESULT_OCTETS:
            reserved += octets_taken(min(item, REPLY_OCTETS_MAX))
    return reserved


def room(most: int, free: int, *, of_client: int, own: int, parts: int = CLIENT_FREE_PARTS) -> int:
    """Returns how many octets more a connection may have.

    Args:
        most: all octets.
        free: those that nobody has.
        of_client: those that all connections of its client have.
        own: those that it has.
        parts: the 8 of the rule below.

    A client that holds nothing gets the free amount. Another client gets more while the amounts held by the connection,
    held by its client and requested are together at most an eighth of the amount then free. One connection can hold a
    17th and one client a ninth, the next client a ninth of the rest, and so on: 16 that take all they can get leave
    15 % to everybody else. Beside that the first that a connection asks for it gets as long as half of all is free:
    the other connections of its client cannot keep it from that.
    """
    if not of_client:
        return free
    left = free // parts - of_client
    if own:
        return left - own
    return max(left, free - most // CONNECTIONS_FIRST_PARTS)


class BufferPool:
    """Lends buffers of any length; those of up to 4 MiB come from size classes and are used again.

    `pool_octets_max` bounds the buffers kept for reuse, lent ones included. Beyond it, and above 4 MiB, a buffer is
    allocated for one use; `octets_max` bounds all lent buffers. Safe to use from several threads. Each connection uses
    the pool through its own `share`, so that none takes the memory that others need.
    """

    __slots__ = (
        "_free",
        "_lent",
        "_loop",
        "_pooled",
        "_serving",
        "lent_octets",
        "lock",
        "messages",
        "octets_max",
        "on_short",
        "pool_octets_max",
        "turns",
    )

    def __init__(self, *, pool_octets_max: int = BUFFER_POOL_OCTETS_MAX, octets_max: int = BUFFER_OCTETS_MAX) -> None:
        self.pool_octets_max = pool_octets_max
        self.octets_max = octets_max
        self.lent_octets = 0
        self._pooled = 0
        self._free: dict[int, list[PooledMemory]] = {}
        self._lent: dict[int, tuple[PooledMemory, list[PooledMemory] | None, BufferShare | None]] = {}
        """By the identity of the whole buffer: the buffer, the free list of its size class, and the share it was
        lent to."""
        self.lock = threading.Lock()
        self.turns: Turns[BufferShare] = Turns()
        self._loop: asyncio.AbstractEventLoop | None = None
        """Of those that wait."""
        self._serving = False
        self.messages = ResultMemory()
        """Memory of large messages that arrive over TCP, for the event loop."""
        self.on_short: Callable[[], None] | None = None
        """Is called when a connection begins to wait: a server can end connections that hold memory for too long."""

    @property
    def waited_for(self) -> bool:
        """Whether a connection waits for memory."""
        return bool(self.turns.waiting)

    def acquire(self, length: int) -> memoryview:
        """Returns writable memory of `length` octets with unspecified content.

        Raises:
            OutOfBuffers: `octets_max` octets would be exceeded.
        """
        with self.lock:
            buffer = self.take(length, self.octets_max - self.lent_octets)
        if buffer is None:
            raise OutOfBuffers(f"{length} octets asked for, {self.lent_octets} of at most {self.octets_max} are in use")
        return memoryview(buffer)[:length]

    def release(self, buffer: memoryview) -> None:
        """Takes back a buffer that `acquire` returned and that is not used any more. No effect on other buffers."""
        with self.lock:
            self.take_back(buffer, None)
        self.serve_soon()

    def share(self, client: str) -> BufferShare:
        """Returns a connection's share; `client` is the address, which all connections of one client have in common."""
        return BufferShare(self, self.turns.join(client))

    def take(self, length: int, room: int, share: BufferShare | None = None) -> PooledMemory | None:
        """Lends a buffer of at least `length` and at most `room` octets, and counts its whole size.

        None if `length` exceeds `room`. `share` is its borrower. The caller holds `lock`.
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
                self._pooled += size
            else:
                free = None
                # Of whole pages, as that is what it takes.
                size = min(room, -(-length // PAGESIZE) * PAGESIZE)
            buffer = PooledMemory(size)
        self._lent[id(buffer)] = buffer, free, share
        self.lent_octets += size
        return buffer

    def take_back(self, buffer: memoryview, share: BufferShare | None) -> int:
        """Takes back a buffer that was lent to `share`, and returns the octets freed; 0 for another buffer.

        The caller holds `lock`.
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
        """Drops free buffers of other sizes until the pool has room for `size` octets; False if it has none then."""
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
        """Puts `share` into the line for memory; for shares."""
        self._loop = asyncio.get_running_loop()
        self.turns.wait(share)
        if self.on_short is not None:
            self.on_short()

    def leave_line(self, share: BufferShare) -> None:
        """Removes `share` from the line for memory; for shares."""
        self.turns.leave(share)

    def forget(self, share: BufferShare) -> None:
        """Forgets `share`, which is closed and holds nothing; for shares."""
        self.turns.part(share)

    def serve_soon(self) -> None:
        """Schedules a callback that gives out free memory.

        The connection that freed it may be in the midst of a turn.
        """
        if self.turns.waiting and not self._serving:
            self._serving = True
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._serve)

    def _serve(self) -> None:
        """Gives one turn to each client with a connection whose memory is available now."""
        self._serving = False
        for client in self.turns.in_order():
            for share in client.in_order():
                if share.take_turn():
                    self.turns.had_turn(share, waits=share.waits)
                    self.serve_soon()
                    break


class BufferShare(Share):
    """The share of one connection in a pool's memory; implements `rpcrdma.transport.BufferSource`.

    `room` decides its size.
    """

    __slots__ = ("_over", "_pool", "_turns", "closed", "counted")

    def __init__(self, pool: BufferPool, client: Client[BufferShare]) -> None:
        super().__init__(client)
        self._pool = pool
        self._turns: list[tuple[int, bool, Callable[[], None]]] = []
        """Octets, whether `counted` is left out, and the request that continues then."""
        self.counted = 0
        """Octets of `held` that are counted without a buffer."""
        self.closed = False
        self._over = False

    @property
    def held_octets(self) -> int:
        """Octets that this connection holds."""
        return self.held

    @property
    def octets_max(self) -> int:
        """The most octets that this connection can ever hold."""
        return self._pool.octets_max

    @property
    def crowded(self) -> bool:
        """Returns whether this client's share is so full that an ordinary result might find no memory.

        The octets that this connection has reserved are left out: the handlers that they are for may wait for the call
        that asks.
        """
        counted = self.counted
        ordinary = min(BULK_RESULT_OCTETS, self._pool.octets_max)
        return self.client.held > counted and self._room(counted=counted) < ordinary

    @property
    def waits(self) -> bool:
        """Whether the connection waits for memory."""
        return bool(self._turns)

    def acquire(self, length: int, *, outliving: bool = False, reserved: int = 0) -> memoryview | None:
        """Returns writable memory of `length` octets with unspecified content; None if there is none now: see `wait`.

        `outliving`: the memory may outlive the share. `reserved`: octets of an earlier `reserve` that the buffer uses
        up, at most `octets_taken(length)`; they are given back if the buffer takes less.

        Raises:
            OutOfBuffers: there can never be that much, or the share is closed.
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
        """Takes back a buffer that `acquire` returned, also when closed; no effect on other buffers."""
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
        """Counts octets as held without lending them; returns False if there is no room at present: see `wait`."""
        return self._count(octets, CLIENT_FREE_PARTS)

    def take_in(self, octets: int) -> bool:
        """Counts octets that have arrived as held; a client may hold more of them than by `reserve`.

        False if there is no room.
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
        """Gives back octets of `reserve` or `take_in`, all or some; also when closed."""
        pool = self._pool
        with pool.lock:
            pool.lent_octets -= octets
            self.counted -= octets
            self.hold(-octets)
        if self.closed:
            self._leave()
        pool.serve_soon()

    def wait(self, length: int, resume: Callable[[], None]) -> None:
        """Calls `resume` in the event loop when it is this share's turn and `length` octets are free, or at its end.

        `resume` may find that they are gone again, and wait once more.
        """
        self._wait(length, resume, leaves_counted=False)

    def wait_while_crowded(self, resume: Callable[[], None]) -> None:
        """Calls `resume` as `wait` does, when there is memory for an ordinary result: see `crowded`."""
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
        """Lets the oldest waiting request continue, and returns True, if it can have its memory.

        If octets are reserved, a request that does not count them passes those before it.
        """
        for number, (length, leaves_counted, resume) in enumerate(self._turns):
            if number and not (leaves_counted and self.counted):
                continue
            if length <= self._room(counted=self.counted if leaves_counted else 0):
                del self._turns[number]
                resume()
                return True
            if not self.counted:
                break
        return False

    def close(self) -> None:
        """Stops lending; all waiting requests are resumed, and find the share closed. Lent buffers return as before."""
        if not self.closed:
            self.closed = True
            while self._turns:
                self._turns.pop(0)[2]()
            self._pool.leave_line(self)
            self._leave()

    def _leave(self) -> None:
        """Leaves the client when a closed share holds nothing any more; until then it counts for the client."""
        if not self.held and not self._over:
            self._over = True
            self._pool.forget(self)

    def _room(self, parts: int = CLIENT_FREE_PARTS, *, counted: int = 0) -> int:
        """Returns how much more the share may have, with the given number of counted octets left out."""
        pool = self._pool
        most = pool.octets_max
        free = most - pool.lent_octets + counted
        return room(most, free, of_client=self.client.held - counted, own=self.held - counted, parts=parts)
