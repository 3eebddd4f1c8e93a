"""The requester's half: calls that go as Transmit Requests, and what their replies bring (sections 5 and 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.limits import RTR_ITEMS_MAX
from rpcrdma.rtr.choice import Costs, Preference, prefers_segments
from rpcrdma.rtr.code_points import XMTREQ
from rpcrdma.rtr.layout import Layout, lay_out
from rpcrdma.rtr.messages import (
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    NotPlaced,
    ResultDirection,
    TransmitRequest,
    Way,
    encode_transmit_request,
)
from rpcrdma.rtr.peer import Peer
from rpcrdma.rtr.sending import CONTINUE_OCTETS, ITEM_OCTETS, LOCATION_OCTETS, transmissions
from rpcrdma.transport import (
    REPLY_ALLOWANCE_OCTETS,
    CallPlan,
    CallToCarry,
    CarriedCall,
    CarriedResults,
    ChunkLists,
    ExtensionLink,
    Returned,
    Transmission,
    WriteChunk,
    returned_length,
    segments_needed,
)
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Payload, PlacedInOrder

__all__ = ["Calls", "Results"]

_REQUEST_OCTETS = 20
"""Of a Transmit Request without items and directions."""
_RESPONSE_OCTETS = 12
"""Of a Transmit Response without items."""
_SET_OCTETS = 12
_DIRECTION_OCTETS = 8


_FORMS = {
    Way.EXPLICIT: "write chunk",
    Way.SEGMENTS: "result by send",
    Way.CHOICE: "result by choice",
    Way.BY_SIZE: "result by size",
}


class Results(NamedTuple):
    """What came with the stream of a reply: an item for each direction, and those in segments by Position."""

    items: tuple[Item, ...]
    views: Mapping[int, memoryview]
    held_octets: int


class _Request(NamedTuple):
    """What a Transmit Request is made of: items `placed` in segments by the layout, others `explicit`, by index."""

    placed: tuple[int, ...]
    explicit: tuple[int, ...]
    layout: Layout


class _Call:
    """One call that goes as a Transmit Request; see `rpcrdma.transport.CarriedCall`.

    `results` say how each result is to come; those that have memory are given its segments when that is known.
    """

    __slots__ = ("_link", "_payload", "_request", "_results", "by_send", "extra_receives", "plan", "promised")

    def __init__(
        self,
        link: ExtensionLink,
        payload: Payload,
        request: _Request,
        results: Sequence[ResultDirection],
        sizes: Sequence[int],
        extra_receives: int,
    ) -> None:
        self._link = link
        self._payload = payload
        self._request = request
        self._results = results
        self.extra_receives = extra_receives
        self.promised = 0
        self.by_send = bool(request.placed)
        exposed = tuple(0 if result.way is Way.SEGMENTS else size for result, size in zip(results, sizes, strict=False))
        self.plan = CallPlan(read_items=request.explicit, write_chunks=exposed if any(exposed) else ())

    @property
    def form(self) -> str:
        """See `rpcrdma.transport.CarriedCall`."""
        words = ["argument by send"] if self.by_send else []
        if self._request.explicit:
            words.append("read chunk")
        words += sorted({_FORMS[result.way] for result in self._results})
        return " + ".join(words)

    def transmissions(self, chunks: ChunkLists) -> Sequence[Transmission]:
        """See `rpcrdma.transport.CarriedCall`."""
        payload = self._payload
        placed, explicit, layout = self._request
        items = payload.items
        data = [items[index].data for index in placed]
        located: list[Item] = []
        for index in sorted((*placed, *explicit)):
            item = items[index]
            where = (
                InSegments(0, layout.numbers[placed.index(index)])
                if index in placed
                else Explicit(chunks.reads[explicit.index(index)].segments)
            )
            located.append(Item(item.position, len(item.data), where))
        pieces = payload.gather([items[index] for index in (*placed, *explicit)])
        stream = bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
        directions: tuple[DirectionSet, ...] = ()
        if self._results:
            results = self._results
            if chunks.writes:
                results = [
                    result._replace(segments=chunk.segments)
                    for result, chunk in zip(results, chunks.writes, strict=True)
                ]
            directions = (DirectionSet(0, payload.length, tuple(results)),)
        header = encode_transmit_request(
            TransmitRequest(
                tuple(located), directions, len(layout.frames), self.extra_receives, layout.frames[0].payload
            )
        )
        statistics = self._link.statistics
        statistics.groups_sent += 1
        statistics.items_sent_in_segments += len(placed)
        return transmissions(layout, XMTREQ, self._link.prefix_octets, header, stream, data, answers=False)

    def open(
        self,
        results: CarriedResults,
        data: Buffer,
        chunks: ChunkLists,
        targets: Sequence[memoryview | None],
    ) -> Returned:
        """See `rpcrdma.transport.CarriedCall`."""
        assert isinstance(results, Results)
        if len(results.items) != len(self._results):
            raise RemoteProtocolError(
                f"{len(self._results)} directions were given, {len(results.items)} items came", rfc="rtrext 7.4"
            )
        placed: list[memoryview | None] = []
        octets = 0
        for index, ((position, length, where), direction) in enumerate(zip(results.items, self._results, strict=True)):
            if isinstance(where, NotPlaced):
                placed.append(None)
                continue
            if (direction.way is Way.EXPLICIT) if isinstance(where, InSegments) else (direction.way is Way.SEGMENTS):
                raise RemoteProtocolError(f"an item placed otherwise than by {direction.way.name}", rfc="rtrext 7.4")
            if isinstance(where, InSegments):
                placed.append(results.views[position])
                continue
            written = returned_length(chunks.writes[index], WriteChunk(where.segments), "item of the response")
            target = targets[index]
            if written != length or target is None:
                raise RemoteProtocolError(f"an item of {length} octets, {written} written", rfc="rtrext 7.4")
            octets += written
            placed.append(target[:written])
        return Returned(data, 0, PlacedInOrder(placed), octets)


class Calls:
    """The carrier of one connection; see `rpcrdma.transport.Carrier`."""

    __slots__ = ("_costs", "_link", "_own", "_peer", "_preference", "_response_octets")

    def __init__(
        self, link: ExtensionLink, own: Peer, peer: Peer, response_octets: int, preference: Preference, costs: Costs
    ) -> None:
        self._link = link
        self._own = own
        self._peer = peer
        self._response_octets = response_octets
        self._preference = preference
        self._costs = costs

    def take(self, call: CallToCarry) -> CarriedCall | None:
        """See `rpcrdma.transport.Carrier`."""
        preference = Preference(call.placement) if call.placement else self._preference
        if preference is Preference.RDMA:
            return None
        automatic = preference is Preference.AUTO
        payload, limits = call.payload, call.limits
        worth = limits.direct_octets_min
        sizes = call.result_items[:RTR_ITEMS_MAX]
        directed = 0
        for index, size in enumerate(sizes, 1):
            if size >= worth:
                directed = index
        moved = tuple(index for index, item in enumerate(payload.items) if len(item.data) >= worth)
        if automatic:
            geometry = limits.geometry
            if geometry.call_header + payload.length <= limits.send_octets:
                moved = ()
            whole = sum((size + 3) & ~3 for size in sizes) + REPLY_ALLOWANCE_OCTETS + call.results
            if geometry.reply_header + whole <= limits.receive_octets:
                directed = 0
        if len(moved) > RTR_ITEMS_MAX or not (moved or directed):
            return None
        results, extra_receives = self._direct(call, sizes[:directed], preference)
        if results is None:
            return None
        explicit = preference is Preference.EXPLICIT
        request = self._lay_out(call, moved, results, sizes, explicit=explicit)
        if request is None and results and not explicit:
            request = self._lay_out(call, moved, results, sizes, explicit=True)
        if request is None:
            return None
        if automatic and not prefers_segments(
            len(request.layout.frames) - 1 if request.placed else extra_receives,
            self._costs,
            self._link.round_trip_s,
            arguments=bool(request.placed),
            given=call.given > 0,
        ):
            return None
        return _Call(self._link, payload, request, results, sizes, extra_receives)

    def _direct(
        self, call: CallToCarry, sizes: Sequence[int], preference: Preference
    ) -> tuple[Sequence[ResultDirection] | None, int]:
        """Directions for the results, and how many messages beyond the first one the reply may have.

        None: the results are for RDMA, and there is nothing to be gained.
        """
        if not sizes:
            return (), 0
        least = call.limits.direct_octets_min
        if not self._own.takes_responses:
            # Directions are answered in no other way.
            return None, 0
        if preference is Preference.EXPLICIT or not self._own.runs:
            return [ResultDirection(least, Way.EXPLICIT)] * len(sizes), 0
        link = self._link
        frames_max = min(self._peer.response_frames(self._own), 1 + max(0, call.extra_room))
        header = link.prefix_octets + _RESPONSE_OCTETS + (ITEM_OCTETS + LOCATION_OCTETS) * len(sizes)
        layout = lay_out(
            header,
            link.prefix_octets + CONTINUE_OCTETS,
            REPLY_ALLOWANCE_OCTETS + call.results,
            tuple(size for size in sizes if size),
            self._own.runs,
            self._response_octets,
            frames_max,
        )
        if layout is not None and preference is not Preference.BY_SIZE:
            way = Way.CHOICE if preference is Preference.CHOICE else Way.SEGMENTS
            return [ResultDirection(least, way)] * len(sizes), len(layout.frames) - 1
        if preference is Preference.AUTO:
            return None, 0
        if len(sizes) > 1:
            return [ResultDirection(least, Way.EXPLICIT)] * len(sizes), 0
        # One buffer less than there are: the header and the rest of the reply need room, too.
        each = sum(run.octets * run.count for run in self._own.runs)
        threshold = max(least + 1, each * max(1, frames_max - 1))
        if layout is not None:
            threshold = min(threshold, sizes[0])
        return [ResultDirection(least, Way.BY_SIZE, explicit_from=threshold)], frames_max - 1

    def _lay_out(
        self,
        call: CallToCarry,
        moved: tuple[int, ...],
        results: Sequence[ResultDirection],
        sizes: Sequence[int],
        *,
        explicit: bool,
    ) -> _Request | None:
        link, payload, limits = self._link, call.payload, call.limits
        header = link.prefix_octets + _REQUEST_OCTETS
        segment_max = limits.segment_octets_max
        stream = payload.length - sum((len(payload.items[index].data) + 3) & ~3 for index in moved)
        for index in moved:
            header += ITEM_OCTETS
            if explicit:
                header += 4 + 16 * segments_needed(len(payload.items[index].data), segment_max)
            else:
                header += LOCATION_OCTETS
        if results:
            header += _SET_OCTETS
            for result, size in zip(results, sizes, strict=False):
                header += _DIRECTION_OCTETS
                if result.way is not Way.SEGMENTS:
                    header += 4 + 16 * segments_needed(size, segment_max)
                if result.way is Way.BY_SIZE:
                    header += 4
        layout = lay_out(
            header,
            link.prefix_octets + CONTINUE_OCTETS,
            stream,
            () if explicit else tuple(len(payload.items[index].data) for index in moved),
            self._peer.runs,
            link.send_octets,
            min(self._peer.request_frames, call.room),
        )
        if layout is None:
            return None
        return _Request(() if explicit else moved, moved if explicit else (), layout)
