"""The responder's half: the reply to a Transmit Request, according to its directions (sections 6.2 and 7.4)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.rtr.layout import (
    CONTINUE_OCTETS,
    ITEM_OCTETS,
    LOCATION_OCTETS,
    RESPONSE_OCTETS,
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

__all__ = ["DirectedReply", "arguments_start", "directed"]

_CREDENTIAL = 24
"""The offset of the credential in a call (RFC 5531 section 9)."""
_AUTH = struct.Struct(">II")
"""Flavor and length of a credential or a verifier."""


class _Choice(NamedTuple):
    """The chosen placement of a reply's items, and the layout of its messages (transmissions).

    `ways` has for each direction (the call's instruction for one item) the way of the placed item, `Way.EXPLICIT` or
    `Way.SEGMENTS`; or a `NotPlaced`, the reason why no item is placed.
    """

    ways: tuple[Location | Way, ...]
    layout: GroupLayout


def arguments_start(stream: bytes) -> int:
    """Returns the offset of the arguments in an encoded RPC call; 0 if its header is incomplete."""
    start = _CREDENTIAL
    for _ in range(2):
        if len(stream) < start + _AUTH.size:
            return 0
        _, octets = _AUTH.unpack_from(stream, start)
        start += _AUTH.size + octets + (-octets & 3)
    return start if start <= len(stream) else 0


def directed(
    sets: Sequence[DirectionSet], arguments: tuple[int, int], payload: Payload, begun: Sequence[int] | None
) -> list[int | None]:
    """Returns, for each direction of all sets in order, the index of the bulk item of the reply that it places.

    A direction states how the responder must place one bulk item of the reply; a set of directions is for the results
    of the arguments in a range of Positions (draft rtrext, 7.4). A program can pair results with arguments (`pragma
    pairs`), as NFSv4 pairs the operations of a COMPOUND: then a set places, in order, the items of those results whose
    argument begins in its range. Otherwise the directions of all sets whose range has any arguments place the items in
    order. A direction without an item has None; an item without a direction stays in the payload stream.

    Args:
        sets: the directions of the call, each set for the arguments in a range of Positions.
        arguments: the Positions where the arguments begin and end.
        payload: the encoded reply; the indices are those of its `items`.
        begun: the Positions where the paired arguments begin (`Decoder.begun` of the call); None without pairs.
    """
    start, end = arguments
    found: list[int | None] = []
    if begun is None or payload.begun is None:
        left = iter(range(len(payload.items)))
        for begin, most, results in sets:
            # A call without arguments belongs to a range with the place where they would be.
            holds = begin < max(end, start + 1) and most > min(start, end - 1)
            found += [next(left, None) if holds else None for _ in results]
        return found
    # Items before the first paired element belong to all arguments, those of surplus elements to none.
    places = [start, *begun, *[-1] * (len(payload.begun) - len(begun))]
    owners = [places[bisect_right(payload.begun, index)] for index in range(len(payload.items))]
    for begin, most, results in sets:
        within = [index for index, owner in enumerate(owners) if begin <= owner < most]
        found += [*within[: len(results)], *[None] * (len(results) - len(within))]
    return found


class DirectedReply:
    """Implements `CarriedReply` for a call in a Transmit Request, whose directions place the items of the reply.

    Args:
        link: the extension on the connection.
        requester: the abilities of the peer.
        sets: the directions of the call.
        arguments: the Positions where the arguments of the call begin and end.
        frames_max: the most transmissions (messages, each a Send) of the reply.
        counted: whether the statistics already count the call as one whose data travels by Send.
    """

    __slots__ = (
        "_arguments",
        "_chosen",
        "_counted",
        "_directions",
        "_frames_max",
        "_items",
        "_link",
        "_requester",
        "_sets",
    )

    def __init__(
        self,
        link: ExtensionLink,
        requester: Peer,
        sets: Sequence[DirectionSet],
        arguments: tuple[int, int],
        frames_max: int,
        *,
        counted: bool,
    ) -> None:
        self._link = link
        self._counted = counted
        self._requester = requester
        self._sets = sets
        self._arguments = arguments
        self._directions = [direction for _, _, results in sets for direction in results]
        self._items: Sequence[int | None] = ()
        self._frames_max = frames_max
        self._chosen: _Choice | None = None

    def refusal(self, payload: Payload, begun: Sequence[int] | None) -> ReplyPlan | None:
        """Assigns the bulk items of the reply to the call's directions, and checks that the reply can be sent.

        A direction is the call's instruction how to place one item. This object keeps the assignment for `plan`, which
        is called next, with the same `payload`: the encoded reply. `begun`: the Position of each argument that is
        paired with a result, such as an operation of an NFSv4 COMPOUND; None if the program pairs none. Returns None if
        the reply can be sent; a plan that refuses the call if an item is longer than the memory for its RDMA Write, or
        if the reply needs more messages (transmissions) than it may have.
        """
        self._items = directed(self._sets, self._arguments, payload, begun)
        for index, (direction, item) in enumerate(zip(self._directions, self._items, strict=True)):
            if item is None:
                continue
            length = len(payload.items[item].data)
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
        """Builds the reply's messages (transmissions) and RDMA Writes, and counts the reply in the statistics.

        `refusal` must have returned None for this reply. `payload`: the encoded reply. `room`: the most messages that
        credits allow now. Returns the RDMA Writes and the messages; None, with nothing counted, if the reply needs
        more than `room`: the caller then calls this method again with more room.
        """
        choice = self._chosen
        if choice is None or len(choice.layout.frames) > room:
            choice = self._choose(payload, min(room, self._frames_max))
        if choice is None:
            return None
        items = payload.items
        located: list[Item] = []
        written: list[tuple[int, WriteChunk]] = []
        in_segments: list[int] = []
        for way, direction, index in zip(choice.ways, self._directions, self._items, strict=True):
            if index is None:
                located.append(Item(0, 0, NotPlaced.NO_ITEM))
                continue
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
        """Chooses the location of each item and lays out the reply for the requester's receive buffers.

        A direction, the call's instruction how to place one item, can leave the choice to this side. All such items are
        placed in segments of Sends if the whole reply then fits `frames_max` messages. Otherwise those that fit
        the memory for their RDMA Write are written there, and only the others are in segments. Returns the way of each
        direction's item, and the layout; None if the whole reply fits in neither of these two ways.
        """
        found = self._lay_out(payload, frames_max, segments=True)
        if found is None and any(direction.way is Way.CHOICE for direction in self._directions):
            found = self._lay_out(payload, frames_max, segments=False)
        return found

    def _lay_out(self, payload: Payload, frames_max: int, *, segments: bool) -> _Choice | None:
        link = self._link
        items = payload.items
        header = link.prefix_octets + RESPONSE_OCTETS
        inline = payload.length
        ways: list[Location | Way] = []
        sizes: list[int] = []
        for direction, index in zip(self._directions, self._items, strict=True):
            header += ITEM_OCTETS
            if index is None:
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
    """Returns the placement of one item by its direction: `Way.EXPLICIT`, `Way.SEGMENTS` or `NotPlaced.TOO_SHORT`.

    An item that is empty or under `direction.least` octets is `TOO_SHORT`, and stays in the payload stream.
    `length`: octets of the item. `segments`: whether segments are chosen where the direction leaves the choice and RDMA
    would fit as well.
    """
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
