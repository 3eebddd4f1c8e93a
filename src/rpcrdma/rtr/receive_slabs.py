"""Receive buffers in which bulk data stays until the application has used it.

A receive buffer has two parts. The head holds the header and the payload stream, and is reused at once. The placeable
segments are a slot of a slab. The slots of a slab are adjacent in memory, and messages take them in the order of their
arrival, so an item in several segments of several transmissions is contiguous. Users of an item refer to its memory; a
slab is reused after the last reference has gone.

Messages of up to 16 KiB are mostly plain ones. While no group is open, each goes into one piece of memory with the same
layout, in which an item can be used as well.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque

from rpcrdma.errors import DecodeError
from rpcrdma.limits import (
    RECEIVE_BUFFERS_KEPT_MAX,
    RTR_SLAB_BUFFERS,
    RTR_SLABS_KEPT_MAX,
    RTR_SLABS_MAX,
    RTR_TRANSMISSIONS_MAX,
)
from rpcrdma.rtr.messages import XMTCONT, XMTREQ, XMTRESP, decode_transmit_request, decode_transmit_response
from rpcrdma.verbs import ReceiveBuffer, ScatteredBuffer
from rpcrdma.verbs.receive_pool import KIND_OF_MESSAGE
from rpcrdma.wire.bulk_memory import PooledMemory, behind

__all__ = ["Slab", "SlabBuffer", "SlabReceives", "SlabStore"]

_SCATTERED = frozenset((2, header_type) for header_type in (XMTREQ, XMTRESP, XMTCONT))
"""The messages whose placeable segments stay where they arrive, by version and header type."""

_SHORT_OCTETS = 16384
"""Plain messages up to this length are copied in any case (`rpcrdma.transport.receive_buffers`)."""


class Slab:
    """Memory of `slots` adjacent receive slots of `octets` each, and of `spare` ones behind them.

    A slot receives the bulk data of one transmission; a call or reply whose first transmission is in one of the last
    slots continues in the spare ones. `taken` slots are given out, `touched` is the highest value of `taken` so far.
    The slab is reused when nothing refers to its memory.
    """

    __slots__ = ("__weakref__", "_unused_references", "memory", "octets", "slots", "spare", "taken", "touched")

    def __init__(self, octets: int, slots: int = RTR_SLAB_BUFFERS, spare: int = RTR_TRANSMISSIONS_MAX) -> None:
        # Pages without data occupy no memory.
        self.memory = PooledMemory(octets * (slots + spare))
        # Measured, since versions of Python differ: from 3.14 on, an argument is no reference of its own.
        self._unused_references = sys.getrefcount(self.memory)
        self.octets = octets
        self.slots = slots
        self.spare = spare
        self.taken = self.touched = 0

    @property
    def pinned_octets(self) -> int:
        """The octets of the `touched` slots, which all stay occupied while a message in any slot is in use."""
        return self.touched * self.octets

    def view(self, start: int, octets: int) -> memoryview:
        """Returns a view of `octets` octets of the memory from octet `start` on; the slab is in use while it exists."""
        return memoryview(self.memory)[start : start + octets]

    @property
    def in_use(self) -> bool:
        """Whether anything but the slab refers to its memory."""
        return sys.getrefcount(self.memory) > self._unused_references


class LentSlots:
    """Receive slots, for bulk data, in memory of another owner, such as a queue pair that registers its memory.

    The parameter `memory` has `count` heads (the parts of receive buffers for headers) of `head_octets` each, followed
    by `count` adjacent slots. `octets` is the size of a slot, `pinned_octets` that of all slots together.
    """

    __slots__ = ("_memory", "octets", "pinned_octets")

    def __init__(self, memory: memoryview, head_octets: int, count: int = 1) -> None:
        self._memory = memory[count * head_octets :]
        self.pinned_octets = len(self._memory)
        self.octets = self.pinned_octets // count

    def view(self, start: int, octets: int) -> memoryview:
        """Returns a view of `octets` octets of the slots' memory, `start` octets behind the start of the first slot."""
        return self._memory[start : start + octets]


class SlabBuffer(ScatteredBuffer):
    """A receive buffer in two parts: `head` for the header and the payload, and the slot at offset `start` of `slab`.

    The slab may be a `Slab` or `LentSlots`.
    """

    __slots__ = ("head", "slab", "start")

    def __init__(self, head: memoryview, slab: Slab | LentSlots, start: int) -> None:
        super().__init__((head, slab.view(start, slab.octets)))
        self.head = head
        self.slab = slab
        self.start = start


class SlabStore:
    """The memory for received messages that the connections of one extension share.

    A receive buffer has a head of `head_octets` for header and payload, and a slot of `slot_octets` for bulk data, one
    of several adjacent slots in a slab. `shorts` are unused buffers of one piece for messages of up to `short_octets`.
    """

    __slots__ = (
        "__weakref__", "_heads", "_retired", "_started", "head_octets", "memory", "short_octets", "shorts",
        "slot_octets",
    )  # fmt: skip

    def __init__(self, head_octets: int, slot_octets: int) -> None:
        self.head_octets = head_octets
        self.slot_octets = slot_octets
        self.short_octets = min(_SHORT_OCTETS, head_octets + slot_octets)
        self._heads: list[memoryview] = []
        self.shorts: list[memoryview] = []
        self._started: list[Slab] = []
        self._retired: deque[Slab] = deque()
        self.memory: weakref.WeakSet[PooledMemory] = weakref.WeakSet()
        """The memory of all slabs of several slots, also of those that are not kept but have slots in use."""

    def take_head(self) -> memoryview:
        """Returns memory of `head_octets` for the header and the payload of a message, with unspecified content."""
        return self._heads.pop() if self._heads else memoryview(bytearray(self.head_octets))

    def give_head(self, head: memoryview) -> None:
        """Takes back memory of `take_head`, to which nothing refers any more, for reuse; drops it if many are kept."""
        if len(self._heads) < RECEIVE_BUFFERS_KEPT_MAX:
            self._heads.append(head)

    def take_slab(self) -> Slab:
        """Returns a slab with free slots: one partly given out, else a full one no longer in use, else a new one.

        If the memory of RTR_SLABS_MAX slabs is kept or in use, a new one has a single slot and is not reused.
        """
        if self._started:
            return self._started.pop()
        for _ in range(len(self._retired)):
            slab = self._retired.popleft()
            if not slab.in_use:
                slab.taken = 0
                return slab
            self._retired.append(slab)
        if len(self.memory) >= RTR_SLABS_MAX:
            return Slab(self.slot_octets, 1, 0)
        slab = Slab(self.slot_octets)
        self.memory.add(slab.memory)
        return slab

    def give_slab(self, slab: Slab) -> None:
        """Takes back a slab, of which slots may still be in use, for later `take_slab`.

        Drops a slab of a single slot, and a slab without free slots if RTR_SLABS_KEPT_MAX of these are kept.
        """
        if not slab.spare:
            return
        if slab.taken < slab.slots:
            self._started.append(slab)
        elif len(self._retired) < RTR_SLABS_KEPT_MAX:
            self._retired.append(slab)


class SlabReceives:
    """The receive buffers of one connection, with bulk data in slabs; implements `rpcrdma.verbs.ReceiveSource`.

    The queue pair draws a buffer when a message begins to arrive, often before the extension has handled the previous
    messages. All transmissions of a group should lie in one slab, memory of adjacent slots. So at the end of a slab
    `draw` reads from the header of the previous message how many transmissions its group still awaits. Without this,
    with four writes of 200 KB in flight, every fourth item would have to be copied. `prefix_octets` is the length of
    the version's header before that of the extension; the other attributes are those of `ReceiveSource`.
    """

    __slots__ = (
        "_ahead",
        "_last",
        "_slab",
        "_store",
        "_to_come",
        "octets",
        "plain_octets",
        "prefix_octets",
        "short_octets",
    )

    scattered = _SCATTERED

    def __init__(self, store: SlabStore) -> None:
        self._store = store
        self.octets = store.head_octets + store.slot_octets
        self.plain_octets = store.head_octets
        self.short_octets = store.short_octets
        self.prefix_octets = 0
        self._slab: Slab | None = None
        # Drawn buffers that are not kept or given back, the last one, and the transmissions that its group awaits.
        self._ahead = 0
        self._last: SlabBuffer | None = None
        self._to_come = 0

    def take(self) -> memoryview:
        """Returns a piece of memory for a message of up to the store's `short_octets`; its bulk data begins a page."""
        store = self._store
        return store.shorts.pop() if store.shorts else behind(store.head_octets, store.short_octets)

    def divide(self, memory: memoryview, count: int) -> list[SlabBuffer]:
        """Returns `count` buffers of two parts in `memory`: first all heads, for headers, then all slots, for data.

        The slots are adjacent, so that an item in several of them is contiguous.
        """
        head = self.plain_octets
        slots = LentSlots(memory, head, count)
        return [
            SlabBuffer(memory[each * head : (each + 1) * head], slots, each * slots.octets) for each in range(count)
        ]

    def draw(self) -> SlabBuffer:
        """Returns a buffer of `octets` octets for a message that begins to arrive.

        If the message is one of several transmissions of a call or reply, the part of its buffer for bulk data follows
        that of the previous one in memory, unless the slab has a single slot. The attribute `short_octets` is 0 until
        all drawn buffers are passed to `keep` or `give_back`, so that short messages get drawn buffers meanwhile.
        """
        slab = self._slab
        if slab is not None and slab.taken >= slab.slots - RTR_TRANSMISSIONS_MAX:
            self._follow()
            if slab.taken == slab.slots + slab.spare or (slab.taken >= slab.slots and not self._to_come):
                self._store.give_slab(slab)
                slab = None
        if slab is None:
            self._slab = slab = self._store.take_slab()
            self._to_come = 0
        start = slab.taken * slab.octets
        slab.taken += 1
        slab.touched = max(slab.touched, slab.taken)
        self._ahead += 1
        # Further messages, even short ones, may belong to the same group and have to lie behind this one.
        self.short_octets = 0
        self._last = buffer = SlabBuffer(self._store.take_head(), slab, start)
        return buffer

    def _follow(self) -> None:
        """Updates `_to_come`: the transmissions that follow the one in the last drawn buffer in the same call or reply.

        A first transmission states their number; a Transmit Continue reduces it by one. For any other message, or a
        faulty header, it becomes 0.
        """
        head = None if self._last is None else self._last.head
        header_type = 0 if head is None else KIND_OF_MESSAGE.unpack_from(head)[1]
        try:
            if header_type == XMTREQ:
                self._to_come = decode_transmit_request(head or b"", self.prefix_octets)[0].count - 1
            elif header_type == XMTRESP:
                self._to_come = decode_transmit_response(head or b"", self.prefix_octets)[0].count - 1
            else:
                self._to_come = max(0, self._to_come - 1) if header_type == XMTCONT else 0
        except DecodeError:
            self._to_come = 0
        self._to_come = max(0, min(self._to_come, RTR_TRANSMISSIONS_MAX - 1))

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """Takes back a buffer to whose memory nothing refers; its slot is free again only if no later one is drawn."""
        if isinstance(buffer, memoryview):
            shorts = self._store.shorts
            if len(shorts) < RECEIVE_BUFFERS_KEPT_MAX:
                shorts.append(buffer)
            return
        assert isinstance(buffer, SlabBuffer)
        slab = buffer.slab
        if isinstance(slab, Slab) and buffer.start + slab.octets == slab.taken * slab.octets:
            slab.taken -= 1
        self.keep(buffer)

    def keep(self, buffer: SlabBuffer) -> None:
        """Takes back the head (for header and payload) of a drawn buffer; views may refer to its slot, for bulk data.

        When the connection has no other drawn buffer, its slab is given to the store, so that other connections may use
        the free slots. `parts`, the buffer's pieces, becomes (), which marks the buffer as taken back. If the slot is
        in `LentSlots`, nothing else is done: head and slot are not the store's, and are free without views of them.
        """
        buffer.parts = ()
        if isinstance(buffer.slab, LentSlots):
            return
        self._store.give_head(buffer.head)
        self._ahead -= 1
        if not self._ahead and self._slab is not None:
            self.short_octets = self._store.short_octets
            # No group is open: other connections may use the rest of the slab.
            self._store.give_slab(self._slab)
            self._slab = None
            self._last = None
