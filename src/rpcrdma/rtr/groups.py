"""Groups of transmissions that make up one message (sections 4.2, 6.1 and 9.2 to 9.4).

The first transmission describes the whole message. The others follow in order, without any other message between them.
The payloads are joined by a copy; bulk items stay in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.rtr.messages import (
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    NotPlaced,
    ReportCode,
    TransmitContinue,
    TransmitRequest,
    TransmitResponse,
    expected,
    out_of_range,
)
from rpcrdma.rtr.receive_slabs import LentSlots, Slab, SlabBuffer
from rpcrdma.wire.buffers import Buffer

__all__ = ["Arrived", "Group", "Placement", "check_positions", "check_ranges", "take_payload"]


class Arrived(NamedTuple):
    """One transmission in memory.

    `octets` is its length and `payload_end` the end of its payload, both from the start of its header. A short
    transmission has no `buffer`, as none of it is in placeable segments.
    """

    buffer: SlabBuffer | None
    octets: int
    payload_end: int


class Placement(NamedTuple):
    """The items of a message by Position, and the number of items that were copied."""

    views: dict[int, memoryview]
    joined: int


class Group:
    """An incomplete message; `lead` is the header type of its first transmission."""

    __slots__ = ("_payloads", "arrived", "head", "held", "lead", "xid")

    def __init__(self, xid: int, lead: int, head: TransmitRequest | TransmitResponse, count_max: int) -> None:
        """Raises TransmissionFault if the number of transmissions is zero or too large."""
        if not 1 <= head.count <= count_max:
            expected(ReportCode.SEQUENCE, count_max, head.count)
        self.xid = xid
        self.lead = lead
        self.head = head
        self.arrived: list[Arrived] = []
        self.held = 0
        """The octets that are counted for the group."""
        self._payloads: list[Buffer] = []

    @property
    def complete(self) -> bool:
        """Whether all transmissions have arrived."""
        return len(self.arrived) == self.head.count

    def add(self, arrived: Arrived, payload: Buffer) -> None:
        """Adds the next transmission, and its part of the payload."""
        self.arrived.append(arrived)
        self._payloads.append(payload)

    def check_next(self, xid: int, header: TransmitContinue) -> None:
        """Raises TransmissionFault if a Transmit Continue is not the next one of this group."""
        if xid != self.xid:
            expected(ReportCode.XID, self.xid, xid)
        if header.begun_by != self.lead:
            expected(ReportCode.OPTIONAL_TYPE, self.lead, header.begun_by)
        if header.number != len(self.arrived):
            expected(ReportCode.SEQUENCE, len(self.arrived), header.number)
        if header.payload_octets and not self._payloads[0]:
            # The payload begins in the first transmission (section 9.1).
            out_of_range(ReportCode.PAYLOAD, header.payload_octets, 0, 0)

    @property
    def pinned_octets(self) -> int:
        """The memory that is unavailable while the group is open, with whole slabs."""
        buffers = [arrived.buffer for arrived in self.arrived if arrived.buffer is not None]
        slabs = {id(buffer.slab): buffer.slab.pinned_octets for buffer in buffers}
        heads = sum(len(buffer.head) for buffer in buffers)
        return sum(map(len, self._payloads)) + heads + sum(slabs.values())

    @property
    def stream(self) -> bytes:
        """The whole payload stream."""
        return b"".join(self._payloads)

    @property
    def held_octets(self) -> int:
        """The size of the receive buffers in which items stay."""
        return sum(arrived.buffer.slab.octets for arrived in self.arrived if arrived.buffer is not None)

    def place(self, items: Sequence[Item], segment_octets: int, each: int) -> Placement:
        """Locates the items in placeable segments, of which every buffer has `each`, all of this length.

        Raises:
            TransmissionFault: an item is not at its stated place.
        """
        views: dict[int, memoryview] = {}
        joined = 0
        free = 0
        """The end of the previous item, counted in octets of all placeable segments of the group."""
        for position, length, where in items:
            if not isinstance(where, InSegments):
                continue
            if not each and where.numbers:
                out_of_range(ReportCode.SEGMENT_NUMBER, where.numbers[0], 1, 0)
            pieces, free = self._pieces(length, where, free, segment_octets, each)
            if len(pieces) == 1:
                slab, start, octets = pieces[0]
                views[position] = slab.view(start, octets)
            else:
                joined += bool(pieces)
                views[position] = memoryview(b"".join(slab.view(start, octets) for slab, start, octets in pieces))
        return Placement(views, joined)

    def _pieces(
        self, length: int, where: InSegments, free: int, segment_octets: int, each: int
    ) -> tuple[list[tuple[Slab | LentSlots, int, int]], int]:
        """Returns the memory of one item, with adjacent segments merged, and the end of the item."""
        offset, numbers = where
        if offset >= segment_octets:
            out_of_range(ReportCode.OFFSET, offset, 0, segment_octets - 1)
        if length > len(numbers) * segment_octets - offset:
            out_of_range(ReportCode.PAYLOAD, length, 0, len(numbers) * segment_octets - offset)
        pieces: list[tuple[Slab | LentSlots, int, int]] = []
        left = length
        most = self.head.count * each - 1
        index = 0
        while index < len(numbers):
            number = numbers[index]
            least = free // segment_octets
            if not least <= number <= most:
                out_of_range(ReportCode.SEGMENT_NUMBER, number, least, most)
            if number * segment_octets + offset < free:
                out_of_range(ReportCode.OFFSET, offset, free % segment_octets, segment_octets - 1)
            transmission, segment = divmod(number, each)
            together = 1
            while (
                index + together < len(numbers)
                and segment + together < each
                and numbers[index + together] == number + together
            ):
                together += 1
            index += together
            part = min(left, together * segment_octets - offset)
            slab, slot, room = self._segment(transmission, segment * segment_octets, offset, segment_octets)
            if part > room:
                out_of_range(ReportCode.PAYLOAD, length, 0, length - left + room)
            free = number * segment_octets + offset + part
            left -= part
            slot += offset
            offset = 0
            if slab is None or not part:
                continue
            if pieces and pieces[-1][0] is slab and pieces[-1][1] + pieces[-1][2] == slot:
                _, slot, before = pieces.pop()
                part += before
            pieces.append((slab, slot, part))
        return pieces, free

    def _segment(
        self, transmission: int, start: int, offset: int, segment_octets: int
    ) -> tuple[Slab | LentSlots | None, int, int]:
        """Returns the memory of the segment that begins at `start` of a transmission's placeable segments.

        The third value is the number of octets that arrived from `offset` of the segment on.
        """
        buffer, octets, payload_end = self.arrived[transmission]
        if buffer is None:
            # A short transmission is in the head as a whole.
            return None, 0, 0
        begin = len(buffer.head) + start
        if begin + offset < payload_end:
            out_of_range(ReportCode.OFFSET, offset, payload_end - begin, segment_octets - 1)
        return buffer.slab, buffer.start + start, max(0, octets - begin - offset)


def check_positions(items: Sequence[Item], stream_octets: int) -> None:
    """Raises TransmissionFault if items overlap or exceed the stream, whose octets without items are given."""
    end = removed = 0
    for position, length, where in items:
        if isinstance(where, NotPlaced):
            continue
        most = min(stream_octets + removed, 0xFFFFFFFC)
        if position & 3 or not end <= position <= most:
            out_of_range(ReportCode.OFFSET, position, end, most)
        if isinstance(where, Explicit):
            named = sum(segment.length for segment in where.segments)
            if length > named:
                out_of_range(ReportCode.PAYLOAD, length, 0, named)
        removed += (length + 3) & ~3
        # The next item has at least its length in the stream before it.
        end = position + max(4, (length + 3) & ~3)


def check_ranges(directions: Sequence[DirectionSet]) -> None:
    """Raises TransmissionFault if the ranges of directions are not in order (section 7.4)."""
    least = 0
    for begin, end, _ in directions:
        if begin < least:
            out_of_range(ReportCode.OFFSET, begin, least, 0xFFFFFFFF)
        if end < begin:
            out_of_range(ReportCode.OFFSET, end, begin, 0xFFFFFFFF)
        least = max(end, begin + 1)


def take_payload(body: Buffer, start: int, octets: int, prefix: int, arrived: tuple[SlabBuffer, int] | None) -> bytes:
    """Copies the payload that begins at `start` of the body and may extend into the placeable segments.

    Raises:
        TransmissionFault: the transmission is shorter.
    """
    room = len(body) - start if arrived is None else arrived[1] - prefix - start
    if octets > room:
        out_of_range(ReportCode.PAYLOAD, octets, 0, room)
    if arrived is None or start + octets <= len(body):
        return bytes(body[start : start + octets])
    return arrived[0].joined(prefix + start + octets)[prefix + start :]
