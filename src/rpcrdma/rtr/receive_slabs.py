"""Memory for messages whose bulk data is used where it arrives.

A receive buffer has two parts. The first is for the header and the payload stream, and is used again at once. The
second, for placeable segments, is a slot of a slab; the slots of a slab lie side by side in memory, and are given out
in the order in which messages arrive. So an item that takes several segments of several transmissions is one piece of
memory. What uses an item refers to its memory; a slab is used again when nothing does.

Messages of up to 16 KiB, of which most are plain ones, go into one piece each that is laid out like such a buffer, as
long as no group is open. An item in it is used there as well.
"""

from __future__ import annotations

import mmap
import struct
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
from rpcrdma.rtr.code_points import XMTCONT, XMTREQ, XMTRESP
from rpcrdma.rtr.messages import decode_transmit_request, decode_transmit_response
from rpcrdma.verbs import ReceiveBuffer, ScatteredBuffer

__all__ = ["Slab", "SlabBuffer", "SlabReceives", "SlabStore"]

_UNUSED_REFERENCES = 3
"""Of a slab's memory that nothing refers to but the slab itself, the name that asks, and the question."""

_TYPE = struct.Struct(">12xI")


_SHORT_OCTETS = 16384
"""So much is copied out of plain messages in any case (`rpcrdma.transport.receive_buffers`)."""


class Slab:
    """`slots` of `octets` each, side by side, and `spare` ones for groups that begin before these.

    `taken` of them were given out, `touched` at most since the slab was made.
    """

    __slots__ = ("__weakref__", "memory", "octets", "slots", "spare", "taken", "touched")

    def __init__(self, octets: int, slots: int = RTR_SLAB_BUFFERS, spare: int = RTR_TRANSMISSIONS_MAX) -> None:
        # Pages that no data has come to take no memory.
        self.memory = mmap.mmap(-1, octets * (slots + spare))
        self.octets = octets
        self.slots = slots
        self.spare = spare
        self.taken = self.touched = 0

    @property
    def pinned_octets(self) -> int:
        """The memory that cannot be used for other messages as long as one slot is in use."""
        return self.touched * self.octets

    def view(self, start: int, octets: int) -> memoryview:
        """A part of the memory; as long as it or anything made of it exists, the slab is in use."""
        return memoryview(self.memory)[start : start + octets]

    @property
    def in_use(self) -> bool:
        """Whether anything refers to the memory."""
        memory = self.memory
        return sys.getrefcount(memory) > _UNUSED_REFERENCES


class ShortBuffer:
    """One piece of memory for a short message: its placeable segments are those from `head_octets` on."""

    __slots__ = ("_memory", "octets", "pinned_octets")

    def __init__(self, memory: memoryview, head_octets: int) -> None:
        self._memory = memory[head_octets:]
        self.octets = self.pinned_octets = len(self._memory)

    def view(self, start: int, octets: int) -> memoryview:
        """A part of what is placeable."""
        return self._memory[start : start + octets]


class SlabBuffer(ScatteredBuffer):
    """A receive buffer: `head`, and the slot of `slab` that starts at `start`."""

    __slots__ = ("head", "slab", "start")

    def __init__(self, head: memoryview, slab: Slab | ShortBuffer, start: int) -> None:
        super().__init__((head, slab.view(start, slab.octets)))
        self.head = head
        self.slab = slab
        self.start = start


class SlabStore:
    """What connections share: heads of `head_octets`, slabs with slots of `slot_octets`."""

    __slots__ = ("_heads", "_retired", "_shorts", "_started", "head_octets", "memory", "slot_octets")

    def __init__(self, head_octets: int, slot_octets: int) -> None:
        self.head_octets = head_octets
        self.slot_octets = slot_octets
        self._heads: list[memoryview] = []
        self._shorts: list[memoryview] = []
        self._started: list[Slab] = []
        self._retired: deque[Slab] = deque()
        self.memory: weakref.WeakSet[Slab] = weakref.WeakSet()
        """All slabs of several slots that there are."""

    def take_head(self) -> memoryview:
        """Memory for the first part of a message."""
        return self._heads.pop() if self._heads else memoryview(bytearray(self.head_octets))

    def give_head(self, head: memoryview) -> None:
        """Takes it back."""
        if len(self._heads) < RECEIVE_BUFFERS_KEPT_MAX:
            self._heads.append(head)

    def take_short(self) -> memoryview:
        """Memory for a short message; it begins at a page."""
        return self._shorts.pop() if self._shorts else memoryview(mmap.mmap(-1, self.short_octets))

    def give_short(self, short: memoryview) -> None:
        """Takes it back."""
        if len(self._shorts) < RECEIVE_BUFFERS_KEPT_MAX:
            self._shorts.append(short)

    @property
    def short_octets(self) -> int:
        """The most that a short message has."""
        return min(_SHORT_OCTETS, self.head_octets + self.slot_octets)

    def take_slab(self) -> Slab:
        """A slab that has slots left for a group of any size; of one slot where there are too many slabs."""
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
        self.memory.add(slab)
        return slab

    def give_slab(self, slab: Slab) -> None:
        """Takes back a slab, of which slots may be in use."""
        if not slab.spare:
            return
        if slab.taken < slab.slots:
            self._started.append(slab)
        elif len(self._retired) < RTR_SLABS_KEPT_MAX:
            self._retired.append(slab)


class SlabReceives:
    """The receive buffers of one connection; see `rpcrdma.verbs.ReceiveSource`.

    `prefix_octets` is what stands in a message before its body.
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

    def __init__(self, store: SlabStore) -> None:
        self._store = store
        self.octets = store.head_octets + store.slot_octets
        self.plain_octets = store.head_octets
        self.short_octets = store.short_octets
        self.prefix_octets = 0
        self._slab: Slab | None = None
        # Buffers whose messages are not complete or not looked at yet, the last one, and what its group still needs.
        self._ahead = 0
        self._last: SlabBuffer | None = None
        self._to_come = 0

    def take(self) -> memoryview:
        """A buffer for a short message."""
        return self._store.take_short()

    def in_parts(self, buffer: memoryview) -> SlabBuffer:
        """A short message, as if it had come in a buffer from `draw`."""
        return SlabBuffer(buffer[: self.plain_octets], ShortBuffer(buffer, self.plain_octets), 0)

    def draw(self) -> SlabBuffer:
        """A buffer whose slot follows the one before, if it is for the same group."""
        slab = self._slab
        if slab is not None and slab.taken >= slab.slots - RTR_TRANSMISSIONS_MAX:
            self._follow()
            if slab.taken >= slab.slots and not self._to_come:
                self._store.give_slab(slab)
                slab = None
        if slab is None or slab.taken == slab.slots + slab.spare:
            self._slab = slab = self._store.take_slab()
            self._to_come = 0
        start = slab.taken * slab.octets
        slab.taken += 1
        slab.touched = max(slab.touched, slab.taken)
        self._ahead += 1
        # What may belong to the same group has to lie behind this.
        self.short_octets = 0
        self._last = buffer = SlabBuffer(self._store.take_head(), slab, start)
        return buffer

    def _follow(self) -> None:
        """Counts what is to come of the group of the last message, now that all of that is here."""
        head = None if self._last is None else self._last.head
        header_type = 0 if head is None else _TYPE.unpack_from(head)[0]
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
        """Takes back a buffer of which nothing is needed any more."""
        if isinstance(buffer, memoryview):
            self._store.give_short(buffer)
            return
        assert isinstance(buffer, SlabBuffer)
        slab = buffer.slab
        if isinstance(slab, Slab) and buffer.start + slab.octets == slab.taken * slab.octets:
            slab.taken -= 1
        self.keep(buffer)

    def keep(self, buffer: SlabBuffer) -> None:
        """Takes back the head of a buffer; its slot stays with those who refer to it."""
        buffer.parts = ()
        if isinstance(buffer.slab, ShortBuffer):
            return
        self._store.give_head(buffer.head)
        self._ahead -= 1
        if not self._ahead and self._slab is not None:
            self.short_octets = self._store.short_octets
            # Nothing is awaited that belongs to what has come: other connections may use what is left of the slab.
            self._store.give_slab(self._slab)
            self._slab = None
            self._last = None
