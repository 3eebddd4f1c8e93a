"""The responder's half: the reply to a Transmit Request, according to its directions (sections 6.2 and 7.4)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.rtr.layout import (
    CONTINUE_OCTETS,
    ITEM_OCTETS,
    LOCATION_OCTETS,
    SEGMENT_OCTETS,
    GroupLayout,
    Peer,
    lay_out,
    transmissions,
)
from rpcrdma.rtr.messages import (
    XMTRESP,
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    Location,
    NotPlaced,
    ResultDirection,
    TransmitResponse,
    Way,
    encode_transmit_response,
)
from rpcrdma.transport import (
    Cause,
    ExtensionLink,
    Refusal,
    ReplyForm,
    ReplyPlan,
    ResponseGroup,
    WriteChunk,
    fill,
)
from rpcrdma.xdr.codec import Payload

__all__ = ["DirectedReply", "directed"]

_FIXED_OCTETS = 12
"""The length of a Transmit Response without items."""
_CREDENTIAL = 24
"""The offset of the credential in a call (RFC 5531 section 9)."""
_AUTH = struct.Struct(">II")
"""Flavor and length of a credential or a verifier."""


class _Choice(NamedTuple):
    """The location of each directed item, and the layout of the transmissions."""

    ways: tuple[Location | Way, ...]
    layout: GroupLayout


def directed(sets: Sequence[DirectionSet], stream: bytes, octets: int) -> range:
    """Returns the numbers of the directions, over all sets, that the results of a call follow.

    `stream` is the call without its items, `octets` its length with them. All results of a procedure derive from all of
    its arguments. So a range with only a part of the arguments does not tell its results, and a range without arguments
    has none (section 7.4).
    """
    first = 0
    for begin, end, results in sets:
        if end >= octets and (not begin or begin <= _arguments_start(stream)):
            return range(first, first + len(results))
        first += len(results)
    return range(0)


def _arguments_start(stream: bytes) -> int:
    """The offset of the arguments in a call; 0 if the header is incomplete, which a later check finds."""
    start = _CREDENTIAL
    for _ in range(2):
        if len(stream) < start + _AUTH.size:
            return 0
        _, octets = _AUTH.unpack_from(stream, start)
        start += _AUTH.size + octets + (-octets & 3)
    return start if start <= len(stream) else 0


class DirectedReply:
    """The reply to one call: its `directions` in order, in up to `frames_max` transmissions.

    The directions with numbers in `followed` are for its items, in order; other directions have no item. `counted`: the
    statistics already count the call as one whose data travel by Send.
    """

    __slots__ = ("_chosen", "_counted", "_directions", "_followed", "_frames_max", "_link", "_requester")

    def __init__(
        self,
        link: ExtensionLink,
        requester: Peer,
        directions: Sequence[ResultDirection],
        followed: range,
        frames_max: int,
        *,
        counted: bool,
    ) -> None:
        self._link = link
        self._counted = counted
        self._requester = requester
        self._directions = directions
        self._followed = followed
        self._frames_max = frames_max
        self._chosen: _Choice | None = None

    def refusal(self, payload: Payload) -> ReplyPlan | None:
        """See `rpcrdma.transport.CarriedReply`."""
        for index, item in zip(self._followed, payload.items, strict=False):
            direction = self._directions[index]
            length = len(item.data)
            room = WriteChunk(direction.segments).length
            explicit = direction.way is Way.EXPLICIT or (
                direction.way is Way.BY_SIZE and length >= direction.explicit_from
            )
            if explicit and length >= direction.least and length > room:
                return _refused(
                    Refusal(Cause.WRITE_RESOURCE, index + 1, length),
                    f"a result of {length} octets for memory of {room}",
                )
        self._chosen = self._choose(payload, self._frames_max)
        if self._chosen is None:
            return _refused(
                Refusal(Cause.REPLY_RESOURCE, needed=payload.length),
                f"a reply of {payload.length} octets for {self._frames_max} transmissions",
            )
        return None

    def plan(self, payload: Payload, room: int) -> ResponseGroup | None:
        """See `rpcrdma.transport.CarriedReply`."""
        choice = self._chosen
        if choice is None or len(choice.layout.frames) > room:
            choice = self._choose(payload, min(room, self._frames_max))
        if choice is None:
            return None
        items = payload.items
        located: list[Item] = []
        written: list[tuple[int, WriteChunk]] = []
        in_segments: list[int] = []
        index = -1
        for way, direction in zip(choice.ways, self._directions, strict=True):
            if way is NotPlaced.NO_ITEM:
                located.append(Item(0, 0, NotPlaced.NO_ITEM))
                continue
            index += 1
            position, length = items[index].position, len(items[index].data)
            where: Location
            if way is Way.EXPLICIT:
                chunk = fill(WriteChunk(direction.segments), length)
                written.append((index, chunk))
                where = Explicit(chunk.segments)
            elif way is Way.SEGMENTS:
                where = InSegments(0, choice.layout.numbers[len(in_segments)])
                in_segments.append(index)
            else:
                where = NotPlaced.TOO_SHORT
            located.append(Item(position, length, where))
        taken = {index for index, _ in written} | set(in_segments)
        pieces = payload.gather([items[index] for index in sorted(taken)])
        stream = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        header = encode_transmit_response(
            TransmitResponse(tuple(located), len(choice.layout.frames), choice.layout.frames[0].payload)
        )
        statistics = self._link.statistics
        statistics.groups_sent += 1
        statistics.items_sent_in_segments += len(in_segments)
        statistics.calls_by_send += bool(in_segments) and not self._counted
        data = [items[index].data for index in in_segments]
        group = transmissions(
            choice.layout, XMTRESP, self._link.prefix_octets, header, bytes(stream), data, answers=True
        )
        return ResponseGroup(written, group)

    def _choose(self, payload: Payload, frames_max: int) -> _Choice | None:
        """Chooses the location of each item; with a free choice, in segments if they have room for it."""
        found = self._lay_out(payload, frames_max, segments=True)
        if found is None and any(direction.way is Way.CHOICE for direction in self._directions):
            found = self._lay_out(payload, frames_max, segments=False)
        return found

    def _lay_out(self, payload: Payload, frames_max: int, *, segments: bool) -> _Choice | None:
        link = self._link
        items = payload.items
        header = link.prefix_octets + _FIXED_OCTETS
        inline = payload.length
        ways: list[Location | Way] = []
        sizes: list[int] = []
        last = min(len(items), len(self._followed))
        for index, direction in enumerate(self._directions, -self._followed.start):
            header += ITEM_OCTETS
            if not 0 <= index < last:
                ways.append(NotPlaced.NO_ITEM)
                continue
            length = len(items[index].data)
            way = _way(direction, length, segments=segments)
            if way is NotPlaced.TOO_SHORT:
                ways.append(way)
                continue
            inline -= (length + 3) & ~3
            ways.append(way)
            if way is Way.EXPLICIT:
                header += 4 + SEGMENT_OCTETS * len(direction.segments)
            else:
                header += LOCATION_OCTETS
                sizes.append(length)
        layout = lay_out(
            header,
            link.prefix_octets + CONTINUE_OCTETS,
            inline,
            tuple(sizes),
            self._requester.runs,
            min(link.send_octets, self._requester.octets),
            frames_max,
        )
        return None if layout is None else _Choice(tuple(ways), layout)


def _way(direction: ResultDirection, length: int, *, segments: bool) -> Location | Way:
    """Returns the location of one item; `segments`: choose segments if the direction leaves the choice."""
    if length < direction.least or not length:
        return NotPlaced.TOO_SHORT
    if direction.way is Way.BY_SIZE:
        return Way.EXPLICIT if length >= direction.explicit_from else Way.SEGMENTS
    if direction.way is Way.CHOICE:
        fits = length <= WriteChunk(direction.segments).length
        return Way.SEGMENTS if segments or not fits else Way.EXPLICIT
    return direction.way


def _refused(refusal: Refusal, reason: str) -> ReplyPlan:
    return ReplyPlan(ReplyForm.REFUSED, refusal=refusal, reason=reason)
