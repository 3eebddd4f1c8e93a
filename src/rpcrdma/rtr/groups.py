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
    """One received transmission in memory.

    `octets` is its length and `payload_end` the end of its payload, both from the start of the version's header. A
    short transmission has no `buffer`, as none of it is in placeable segments.
    """

    buffer: SlabBuffer | None
    octets: int
    payload_end: int


class Placement(NamedTuple):
    """The items of a message in placeable segments, by Position, and the number of items that had to be copied."""

    views: dict[int, memoryview]
    joined: int


class Group:
    """A message whose transmissions arrive one after another.

    `lead` is the header type of the first transmission, `head` its header. `arrived` lists the transmissions so far.
    """

    __slots__ = ("_payloads", "arrived", "head", "held", "lead", "xid")

    def __init__(self, xid: int, lead: int, head: TransmitRequest | TransmitResponse, count_max: int) -> None:
        """Begins the record of a message that arrives in several transmissions.

        Args:
            xid: the XID of the message.
            lead: the header type of the first transmission, XMTREQ or XMTRESP.
            head: its header.
            count_max: the most transmissions that the group may have.

        Raises:
            TransmissionFault: the number of transmissions that `head` states is zero or exceeds `count_max`.
        """
        if not 1 <= head.count <= count_max:
            expected(ReportCode.SEQUENCE, count_max, head.count)
        self.xid = xid
        self.lead = lead
        self.head = head
        self.arrived: list[Arrived] = []
        self.held = 0
        """The octets of memory that `ExtensionLink.hold` counts for the group."""
        self._payloads: list[Buffer] = []

    @property
    def complete(self) -> bool:
        """Whether all transmissions of the message have arrived."""
        return len(self.arrived) == self.head.count

    def add(self, arrived: Arrived, payload: Buffer) -> None:
        """Adds the next transmission; `payload` is the part of the message's payload stream in it."""
        self.arrived.append(arrived)
        self._payloads.append(payload)

    def check_next(self, xid: int, header: TransmitContinue) -> None:
        """Checks that a Transmit Continue is the next transmission of this call or reply.

        Raises:
            TransmissionFault: the XID, the type of the first transmission or the number is not the expected one; or the
                transmission has payload and the first one had none.
        """
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
        """The octets of memory that no other message can use while this one is incomplete.

        They include whole slabs: memory shared by many receive buffers, in which the group's transmissions lie.
        """
        buffers = [arrived.buffer for arrived in self.arrived if arrived.buffer is not None]
        slabs = {id(buffer.slab): buffer.slab.pinned_octets for buffer in buffers}
        heads = sum(len(buffer.head) for buffer in buffers)
        return sum(map(len, self._payloads)) + heads + sum(slabs.values())

    @property
    def stream(self) -> bytes:
        """The payload stream of the whole message, joined by a copy."""
        return b"".join(self._payloads)

    @property
    def held_octets(self) -> int:
        """The octets of all slots (parts for bulk data) of the group's receive buffers, also of those without items."""
        return sum(arrived.buffer.slab.octets for arrived in self.arrived if arrived.buffer is not None)

    def place(self, items: Sequence[Item], segment_octets: int, each: int) -> Placement:
        """Returns the items in placeable segments, the pieces of receive buffers that are for bulk data.

        An item whose segments are not adjacent is copied. `items`: the bulk items of the message; those elsewhere are
        left out. `segment_octets`: the length of each placeable segment. `each`: the number of placeable segments in
        each receive buffer. Returns views of the items by Position, and the number of copied items.

        Raises:
            TransmissionFault: the stated segments, offset or length of an item are out of range, or the item overlaps
                the payload or the previous item.
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
        """Returns the pieces of memory of one item, as (memory of slots, start in it, octets), and the item's end.

        An item's end is an offset in the row of all placeable segments of the group. An empty item has no pieces.

        Args:
            length: octets of the item.
            where: its stated segments.
            free: the end of the previous item, as such an offset.
            segment_octets: the length of each segment.
            each: the number of placeable segments in each receive buffer.

        Raises:
            TransmissionFault: a segment, the offset or the length is out of range.
        """
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
        """Locates one placeable segment of a transmission, a piece of its receive buffer for bulk data, in memory.

        Bulk data follows the header and payload in a transmission. Returns the memory that has the segment (None for a
        short transmission, which has no segments), the segment's start in it, and the number of octets from `offset` to
        the end of the transmission.

        Args:
            transmission: the number of the transmission in its group, from 0.
            start: the offset of the segment among the transmission's placeable segments.
            offset: the offset of the data in the segment.
            segment_octets: the length of the segment.

        Raises:
            TransmissionFault: the data would overlap the payload.
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
    """Checks that the Positions of items are ascending, aligned to four octets, without overlap and within the message.

    `stream_octets`: octets of the payload stream, which excludes the items. Items whose location is a `NotPlaced` are
    not checked.

    Raises:
        TransmissionFault: a Position is wrong, or an item is longer than its RDMA segments.
    """
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
    """Checks that the ranges of Positions in a call's sets of directions are in order (draft rtrext, 7.4).

    A set states how the responder must place the results of the arguments in its range.

    Raises:
        TransmissionFault: a range begins within the previous range, or ends before it begins.
    """
    least = 0
    for begin, end, _ in directions:
        if begin < least:
            out_of_range(ReportCode.OFFSET, begin, least, 0xFFFFFFFF)
        if end < begin:
            out_of_range(ReportCode.OFFSET, end, begin, 0xFFFFFFFF)
        least = max(end, begin + 1)


def take_payload(body: Buffer, start: int, octets: int, prefix: int, arrived: tuple[SlabBuffer, int] | None) -> bytes:
    """Copies the payload of a transmission, and returns the copy.

    Args:
        body: the octets after the version's header; of a transmission in several pieces of memory only those in the
            first piece.
        start: the offset of the payload in the body.
        octets: the stated length of the payload, which may extend into the placeable segments.
        prefix: the length of the version's header before the body.
        arrived: for a transmission in several pieces of memory the buffer, and the octets that arrived in it; None for
            one in one piece.

    Raises:
        TransmissionFault: the transmission is too short for its stated payload.
    """
    room = len(body) - start if arrived is None else arrived[1] - prefix - start
    if octets > room:
        out_of_range(ReportCode.PAYLOAD, octets, 0, room)
    if arrived is None or start + octets <= len(body):
        return bytes(body[start : start + octets])
    return arrived[0].joined(prefix + start + octets)[prefix + start :]
