"""Registered memory for the receives that a queue pair of an RDMA device posts before messages arrive.

Where buffers of the source have several parts, a receive has a scatter list of them, in a slab that the queue pair has
registered. A long message stays there until it has been used. Otherwise, and where messages occupy all slabs, a receive
has a slot, and its message is copied into memory of the source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from rpcrdma.errors import LocalProtocolError
from rpcrdma.limits import RECEIVE_SLABS_USED_MAX
from rpcrdma.verbs.binding import Entry, Right
from rpcrdma.verbs.device_memory import DeviceProtectionDomain, MemorySlot, MemorySlots, Pinned, has_scatter_lists
from rpcrdma.verbs.receive_pool import ReceiveSource, ScatteredBuffer
from rpcrdma.wire.bulk_memory import behind

__all__ = ["DeviceReceives", "PostedReceive"]

_SLAB_BUFFERS = 32
"""Receives of one slab. Of groups of n messages, the share (n - 1) / 32 lies in two slabs, and has its data copied."""


class PostedReceive:
    """A receive of a device's queue pair, with its scatter list (`entries`).

    `place` is its memory: a buffer of the queue pair's owner, registered for this receive alone; or a slot (registered
    memory for one message); or a slab (for 32 receives). `wr` is used with an owner's buffer only: the receive's
    completion repeats it. `number` is used with a slab only: the receive's index in that, 0 to 31.
    """

    __slots__ = ("entries", "number", "place", "wr")

    def __init__(
        self,
        entries: tuple[Entry, ...],
        place: Pinned | MemorySlot | ReceiveSlab,
        *,
        wr: object = None,
        number: int = 0,
    ) -> None:
        self.entries = entries
        self.place = place
        self.wr = wr
        self.number = number


class ReceiveSlab:
    """Registered memory for 32 (`_SLAB_BUFFERS`) receives of one queue pair; `posted` counts those posted.

    Each receive has memory for the head of its message and, behind all heads, a part for bulk data. The parts are
    adjacent in the order of posting, so that bulk data in several messages is contiguous where it fills the parts.
    """

    __slots__ = ("_buffers", "_pool", "_unused_references", "memory", "posted", "region", "view")

    def __init__(self, pd: DeviceProtectionDomain, pool: ReceiveSource) -> None:
        # The slots begin with a page, behind all heads.
        self.view = behind(_SLAB_BUFFERS * pool.plain_octets, _SLAB_BUFFERS * pool.octets)
        self.memory = self.view.obj
        self.region = pd.register_slab(self.view, Right.LOCAL_WRITE)
        self.posted = 0
        self._pool = pool
        self._buffers: Sequence[ScatteredBuffer] = ()
        self._unused_references = sys.getrefcount(self.memory)

    def receives(self) -> list[PostedReceive]:
        """Returns a new receive for each buffer in this memory, to be posted in this order; keeps none of them."""
        region = self.region
        made = []
        for number, buffer in enumerate(self._pool.divide(self.view, _SLAB_BUFFERS)):
            entries = tuple((region, region.start_of(part), len(part)) for part in buffer.parts)
            made.append(PostedReceive(entries, self, number=number))
        return made

    @property
    def in_use(self) -> bool:
        """Whether receives in this memory are posted, or views of messages in it exist."""
        return self.posted > 0 or sys.getrefcount(self.memory) > self._unused_references

    def delivered(self, receive: PostedReceive, octets: int) -> object:
        """Counts `receive`, one of those in this memory, as posted no longer; returns its message of `octets` octets.

        To be called once each time that the receive was posted. A message of at most the pool's `plain_octets` is a
        copy, `bytes`; a longer one is a `ScatteredBuffer` of the slab, which keeps the slab in use.
        """
        self.posted -= 1
        if octets <= self._pool.plain_octets:
            start = receive.entries[0][1]
            message: object = bytes(self.view[start : start + octets])
        else:
            if not self._buffers:
                # Not by `view`, with which its slices share one reference to the memory.
                self._buffers = self._pool.divide(memoryview(self.memory)[-len(self.view) :], _SLAB_BUFFERS)
            message = self._buffers[receive.number]
        if not self.posted:
            self._buffers = ()
        return message


class DeviceReceives:
    """The receives of one queue pair, in registered slabs (memory for 32 receives) or slots (memory for one).

    `pool` states the sizes, and lends buffers for long messages that are copied out of slots.
    """

    __slots__ = ("_free", "_pd", "_pool", "_rest", "_room", "_scatters", "_slabs", "_slots")

    def __init__(self, pd: DeviceProtectionDomain, pool: ReceiveSource) -> None:
        self._pd = pd
        self._pool = pool
        self._scatters = pool.plain_octets < pool.octets and has_scatter_lists(pd.device)
        self._slabs: list[tuple[ReceiveSlab, list[PostedReceive]]] = []
        self._room = True
        self._rest: Iterator[PostedReceive] = iter(())
        self._slots = MemorySlots(pd, pool.octets, Right.LOCAL_WRITE)
        self._free: list[PostedReceive] = []

    def take(self, posted: int) -> PostedReceive:
        """Returns a receive to be posted next; registers memory if no receive is free.

        `posted`: the number of receives that are to be posted in all, with this one and those taken together with it.
        The receive is in a slab if the device has scatter lists and the pool's buffers have several parts. There are at
        most as many slabs as `posted` receives take and RECEIVE_SLABS_USED_MAX more, since messages occupy slabs. If
        there is no slab for it, the receive has a slot.

        Raises:
            LocalProtocolError: no more memory can be registered.
            MemoryError: the system gives no more memory.
        """
        if self._scatters:
            receive = next(self._rest, None)
            if receive is not None or (receive := self._next_slab(posted)) is not None:
                return receive
        if self._free:
            return self._free.pop()
        slot = self._slots.take()
        return PostedReceive((slot.entry(self._pool.octets),), slot)

    def _next_slab(self, posted: int) -> PostedReceive | None:
        """Returns the first of 32 receives in an unused or new slab, and stores the other 31 in `_rest`.

        Returns None if all slabs are in use and no more can be made. `posted`: the number of receives that are to be
        posted in all, which bounds the slabs.
        """
        unused = next((each for each in self._slabs if not each[0].in_use), None) or self._made_slab(posted)
        if unused is None:
            return None
        slab, receives = unused
        slab.posted = _SLAB_BUFFERS
        self._rest = iter(receives)
        return next(self._rest)

    def _made_slab(self, posted: int) -> tuple[ReceiveSlab, list[PostedReceive]] | None:
        # Posted receives may begin and end within a slab.
        if not self._room or len(self._slabs) >= posted // _SLAB_BUFFERS + 2 + RECEIVE_SLABS_USED_MAX:
            return None
        try:
            slab = ReceiveSlab(self._pd, self._pool)
        except (LocalProtocolError, MemoryError):
            # To ask again would end registrations that are kept for calls, each time.
            self._room = False
            return None
        self._slabs.append((slab, slab.receives()))
        return self._slabs[-1]

    def delivered(self, receive: PostedReceive, octets: int) -> object:
        """Returns the message of `octets` octets that has arrived in `receive`, a receive from `take`.

        A message in a slab is a copy, `bytes`, up to the pool's `plain_octets`, else a `ScatteredBuffer`, which keeps
        the slab in use. A message in a slot, which is free for a further receive from now on, is a copy: `bytes` up to
        the pool's `short_octets`, else in a buffer that the pool lends.

        Raises:
            MemoryError: the system gives no more memory.
        """
        place = receive.place
        if isinstance(place, ReceiveSlab):
            return place.delivered(receive, octets)
        assert isinstance(place, MemorySlot)
        self._free.append(receive)
        data = place.view[:octets]
        if octets <= self._pool.short_octets:
            return bytes(data)
        buffer = self._pool.draw()
        if isinstance(buffer, ScatteredBuffer):
            buffer.write(0, data)
        else:
            buffer[:octets] = data
        return buffer
