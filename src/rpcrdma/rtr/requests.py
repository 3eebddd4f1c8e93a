"""The requester's half: calls that travel as Transmit Requests, and their replies (sections 5 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from rpcrdma.errors import OutOfMemory, RemoteProtocolError
from rpcrdma.limits import CALL_ATTEMPTS_MAX, CONTINUED_OCTETS_MAX, RTR_ITEMS_MAX, RTR_TRANSMISSIONS_MAX
from rpcrdma.rtr.config import Costs, Preference, prefers_segments
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
    REPTERR,
    XMTREQ,
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
from rpcrdma.rtr.result_directions import direct_results
from rpcrdma.transport import (
    NO_CHUNKS,
    REPLY_ALLOWANCE_OCTETS,
    CallForm,
    CallPlan,
    CallToCarry,
    CarriedCall,
    CarriedResults,
    Cause,
    ChunkLists,
    ExtensionLink,
    PlanLimits,
    Refusal,
    Returned,
    Transmission,
    WriteChunk,
    returned_length,
    segments_needed,
)
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Payload, PlacedInOrder

__all__ = ["NOT_TAKEN", "Promises", "RequestCarrier", "Results", "SentCall"]

NOT_TAKEN = Refusal(Cause.EXTENSION, code=REPTERR)
"""The refusal of a call by a Report Error: the peer has not run the call."""

_DATA = attrgetter("data")

_REQUEST_OCTETS = 20
"""The length of a Transmit Request without items and directions."""
_HEADERS_KEPT = 16
"""Encoded headers kept for calls of one size: a file handle of another length moves the Positions of items."""
_PLANS_KEPT = 256
_SET_OCTETS = 12
_DIRECTION_OCTETS = 8


_FORMS = {
    Way.EXPLICIT: "write chunk",
    Way.SEGMENTS: "result by send",
    Way.CHOICE: "result by choice",
    Way.BY_SIZE: "result by size",
}


class Results(NamedTuple):
    """Implements `CarriedResults`: the bulk items of a reply, one for each direction of its call.

    `views` has, by Position, the octets of items in receive buffers; `held_octets` is the size of all their slots.
    """

    items: tuple[Item, ...]
    views: Mapping[int, memoryview]
    held_octets: int


class _Request(NamedTuple):
    """The placement of a call's items in a Transmit Request, by the indices of the items, and its layout.

    `placed` items are in segments, `explicit` items in memory that the responder reads by RDMA.
    """

    placed: tuple[int, ...]
    explicit: tuple[int, ...]
    layout: GroupLayout


class _Plan:
    """The plan for all calls of the same sizes, which `RequestCarrier` keeps, or for one call while credits are few.

    `request` places the arguments' items. `results` are the directions for the first bulk results; a direction with
    memory gets its RDMA segments for each call. `sizes` are the most octets of each bulk result. `extra_receives` is
    the number of messages (transmissions) that the reply may have beyond the first one. The attributes `call_plan` and
    `form` are `plan` and `form` of each `CarriedCall`; `headers` has encoded headers of calls without memory, by the
    Positions of their items.
    """

    __slots__ = ("call_plan", "extra_receives", "form", "headers", "request", "results")

    def __init__(
        self, request: _Request, results: Sequence[ResultDirection], sizes: Sequence[int], extra_receives: int
    ) -> None:
        self.request = request
        self.results = results
        self.extra_receives = extra_receives
        exposed = tuple(0 if result.way is Way.SEGMENTS else size for result, size in zip(results, sizes, strict=False))
        self.call_plan = CallPlan(read_items=request.explicit, write_chunks=exposed if any(exposed) else ())
        words = ["argument by send"] if request.placed else []
        if request.explicit:
            words.append("read chunk")
        words += sorted({_FORMS[result.way] for result in results})
        self.form = " + ".join(words)
        self.headers: dict[tuple[int, ...], bytes] = {}


class Promises:
    """Accounts for the credits that the peer gets for the messages of its replies beyond the first one of each.

    `reserve` (`ExtensionLink.reserve`) grants them; all reservations together are at most `most` at any time. The peer
    sends a reply when it has credits for all its messages. Its other messages may have taken some of these, which this
    end may grant again only when half of all credits are used. Therefore the credits of the longest reply so far are
    reserved a second time, for good: they are always available, or on their way. `left` is the most such messages of
    the next reply: both its reservation and, if it becomes the longest, the second one then fit.
    """

    __slots__ = ("_longest", "_reserve", "_unreserved", "left")

    def __init__(self, most: int, reserve: Callable[[int], None]) -> None:
        self._unreserved = most
        self._longest = 0
        self._reserve = reserve
        self._take(0)

    def _take(self, messages: int) -> None:
        self._unreserved = unreserved = self._unreserved - messages
        longest = self._longest
        self.left = unreserved if unreserved <= longest else (unreserved + longest) // 2
        if messages:
            self._reserve(messages)

    def make(self, messages: int) -> None:
        """Reserves credits for `messages` messages of the peer's reply after the first; at most `left` (unchecked)."""
        twice = max(0, messages - self._longest)
        self._longest += twice
        self._take(messages + twice)

    def end(self, messages: int) -> None:
        """Ends the reservation of `make` for `messages` messages of a reply, which has arrived or is given up."""
        self._take(-messages)


class SentCall:
    """A call that travels as a Transmit Request, with arguments in Sends if `by_send`; implements `CarriedCall`."""

    __slots__ = ("_how", "_link", "_payload", "_promised", "_promises", "by_send", "form", "plan")

    def __init__(self, link: ExtensionLink, promises: Promises, payload: Payload, how: _Plan) -> None:
        self._link = link
        self._promises = promises
        self._promised = 0
        self._payload = payload
        self._how = how
        self.plan = how.call_plan
        self.form = how.form
        self.by_send = bool(how.request.placed)

    @property
    def responses_max(self) -> int:
        """The most transmissions (messages, each a Send) in which the one response may travel."""
        return 1 + self._how.extra_receives

    def transmissions(self, chunks: ChunkLists) -> Sequence[Transmission]:
        """Returns the call's transmissions, counts the call, and reserves credits for further messages of the reply.

        `chunks`: the memory that is exposed for explicit items and results, in the order of the attribute `plan`.

        Raises:
            OutOfMemory: there is no memory for the payload stream; nothing is counted or reserved.
        """
        payload, how, link = self._payload, self._how, self._link
        placed, explicit, layout = how.request
        items = payload.items
        moved = [items[index] for index in placed + explicit]
        positions = tuple([item.position for item in moved])
        header = None if chunks is not NO_CHUNKS else how.headers.get(positions)
        if header is None:
            header = self._encode(chunks)
            if chunks is NO_CHUNKS and len(how.headers) < _HEADERS_KEPT:
                how.headers[positions] = header
        pieces = payload.gather(moved)
        data = [items[index].data for index in placed]
        try:
            stream = bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
            group = transmissions(layout, XMTREQ, link.prefix_octets, header, stream, data, answers=False)
        except MemoryError:
            raise OutOfMemory("no memory to copy the arguments of a call") from None
        statistics = link.statistics
        statistics.groups_sent += 1
        statistics.items_sent_in_segments += len(placed)
        self._promised = how.extra_receives
        if self._promised:
            self._promises.make(self._promised)
        return group

    def _encode(self, chunks: ChunkLists) -> bytes:
        """Encodes the Transmit Request's header; `chunks` is the memory exposed for RDMA of arguments and results."""
        payload, how = self._payload, self._how
        placed, explicit, layout = how.request
        items = payload.items
        located: list[Item] = []
        for index in sorted((*placed, *explicit)):
            item = items[index]
            where = (
                InSegments(0, layout.numbers[placed.index(index)])
                if index in placed
                else Explicit(chunks.reads[explicit.index(index)].segments)
            )
            located.append(Item(item.position, len(item.data), where))
        directions: tuple[DirectionSet, ...] = ()
        if how.results:
            results = how.results
            if chunks.writes:
                results = [
                    result._replace(segments=chunk.segments)
                    for result, chunk in zip(results, chunks.writes, strict=True)
                ]
            directions = (DirectionSet(0, payload.length, tuple(results)),)
        frames = layout.frames
        return encode_transmit_request(
            TransmitRequest(tuple(located), directions, len(frames), how.extra_receives, frames[0].payload)
        )

    def open(
        self,
        results: CarriedResults | None,
        data: Buffer,
        chunks: ChunkLists,
        targets: Sequence[memoryview | None],
    ) -> Returned | None:
        """Returns the payload stream and the memory of the items of a Transmit Response; None for an ordinary reply.

        The items are in segments of Sends or were written by RDMA. Statistics count the call if Sends moved its data.

        Args:
            results: the items of a Transmit Response; None for an ordinary reply.
            data: the reply without its items.
            chunks: the memory that the call exposed.
            targets: the memory of each Write chunk of the call; None for a chunk without memory.

        Raises:
            RemoteProtocolError: the items do not follow the directions of the call.
        """
        held = 0 if results is None else results.held_octets
        self._link.statistics.calls_by_send += self.by_send or held > 0
        if results is None:
            return None
        assert isinstance(results, Results)
        if len(results.items) != len(self._how.results):
            raise RemoteProtocolError(
                f"{len(self._how.results)} directions were given, {len(results.items)} items came", rfc="rtrext 7.4"
            )
        placed: list[memoryview | None] = []
        octets = 0
        for index, ((position, length, where), direction) in enumerate(
            zip(results.items, self._how.results, strict=True)
        ):
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

    def form_after(self, refusal: Refusal, form: CallForm, after: CallForm | None) -> CallForm | None:
        """Decides the form in which the refused call is sent again; returns None if the call fails for good.

        The call is sent without the extension (`CallForm.plain`) if a Report Error refused it, if its reply needs more
        transmissions than it may have (messages of the version are not limited so), or if it can offer no larger memory
        for a result. `refusal`: the reason. `form`: the form in which the call was sent. `after`: the next form by the
        version's own rules (`reactions.form_after`), None if the call fails by these.
        """
        plain = refusal == NOT_TAKEN or refusal.cause is Cause.REPLY_RESOURCE
        if not plain and (after is not None or refusal.cause is not Cause.WRITE_RESOURCE):
            return after
        return form._replace(attempts=form.attempts + 1, plain=True) if form.attempts < CALL_ATTEMPTS_MAX else None

    def end(self) -> None:
        """Ends the reservation of credits for the reply; no effect if there is none."""
        if self._promised:
            self._promises.end(self._promised)
            self._promised = 0


class RequestCarrier:
    """Implements `Carrier`: decides which calls of one connection travel as Transmit Requests, and plans them.

    Args:
        link: the extension on the connection.
        own: the abilities of this end.
        peer: the abilities of the other end.
        preference: the placement for calls that do not choose one.
        costs: the costs by which `Preference.AUTO` decides.
        promises_max: the most credits for messages of replies beyond the first that the peer may have at any time.
    """

    __slots__ = ("_costs", "_limits", "_link", "_own", "_peer", "_plans", "_preference", "eager", "promises")

    def __init__(
        self, link: ExtensionLink, own: Peer, peer: Peer, preference: Preference, costs: Costs, promises_max: int
    ) -> None:
        self._link = link
        self.promises = Promises(promises_max, link.reserve)
        self._own = own
        self._peer = peer
        self._preference = preference
        self.eager = preference is not Preference.AUTO
        self._costs = costs
        self._limits: PlanLimits | None = None
        self._plans: dict[tuple[object, ...], _Plan | None] = {}

    def take(self, call: CallToCarry) -> CarriedCall | None:
        """Plans a call as a Transmit Request, if that is possible and preferred.

        Returns a `SentCall`, which builds the messages; None if the call travels without the extension. Raises
        ValueError if `call.placement` is neither "" nor the value of a `Preference`.
        """
        preference = Preference(call.placement) if call.placement else self._preference
        if preference is Preference.RDMA:
            return None
        if call.room < RTR_TRANSMISSIONS_MAX or self.promises.left < RTR_TRANSMISSIONS_MAX:
            how = self._plan(call, preference)
        else:
            # Credits suffice for any plan, which therefore follows from the sizes alone.
            if call.limits is not self._limits:
                self._limits = call.limits
                self._plans.clear()
            payload = call.payload
            key = (
                call.placement,
                len(payload.reduced),
                *map(len, map(_DATA, payload.items)),
                call.results,
                *call.result_items,
                len(call.result_items),
            )
            try:
                how = self._plans[key]
            except KeyError:
                if len(self._plans) >= _PLANS_KEPT:
                    self._plans.clear()
                how = self._plans[key] = self._plan(call, preference)
        if how is None:
            return None
        placed = how.request.placed
        if preference is Preference.AUTO and not prefers_segments(
            len(how.request.layout.frames) if placed else how.extra_receives,
            self._costs,
            self._link.round_trip_s,
            arguments=bool(placed),
            given=call.given > 0,
        ):
            return None
        return SentCall(self._link, self.promises, call.payload, how)

    def _plan(self, call: CallToCarry, preference: Preference) -> _Plan | None:
        payload, limits = call.payload, call.limits
        worth = limits.direct_octets_min
        sizes = call.result_items[:RTR_ITEMS_MAX]
        directed = 0
        for index, size in enumerate(sizes, 1):
            if size >= worth:
                directed = index
        moved = tuple(index for index, item in enumerate(payload.items) if len(item.data) >= worth)
        geometry = limits.geometry
        whole = sum((size + 3) & ~3 for size in call.result_items) + REPLY_ALLOWANCE_OCTETS + call.results
        if preference is Preference.AUTO:
            if geometry.call_header + payload.length <= limits.call_octets_max:
                moved = ()
            if geometry.reply_header + whole <= limits.reply_octets_max:
                directed = 0
        if len(moved) > RTR_ITEMS_MAX or not (moved or directed):
            return None
        if not directed and geometry.reply_header + whole > CONTINUED_OCTETS_MAX:
            # The reply needs memory that only a call without the extension offers.
            return None
        results, extra_receives = direct_results(
            self._link, self._own, self._peer, call, sizes[:directed], preference, self.promises.left
        )
        if results is None:
            return None
        explicit = preference is Preference.EXPLICIT
        request = self._lay_out(call, moved, results, sizes, explicit=explicit)
        if request is None and results and not explicit:
            request = self._lay_out(call, moved, results, sizes, explicit=True)
        return None if request is None else _Plan(request, results, sizes, extra_receives)

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
        segments = 0
        for index in moved:
            header += ITEM_OCTETS
            if explicit:
                header += 4
                segments += segments_needed(len(payload.items[index].data), segment_max)
            else:
                header += LOCATION_OCTETS
        if results:
            header += _SET_OCTETS
            for result, size in zip(results, sizes, strict=False):
                header += _DIRECTION_OCTETS
                if result.way is not Way.SEGMENTS:
                    header += 4
                    segments += segments_needed(size, segment_max)
                if result.way is Way.BY_SIZE:
                    header += 4
        if segments > limits.segments_max:
            return None
        layout = lay_out(
            header + SEGMENT_OCTETS * segments,
            link.prefix_octets + CONTINUE_OCTETS,
            stream,
            () if explicit else tuple(len(payload.items[index].data) for index in moved),
            self._peer.runs,
            min(link.send_octets, self._peer.octets),
            min(self._peer.request_frames, call.room),
        )
        if layout is None:
            return None
        return _Request(() if explicit else moved, moved if explicit else (), layout)
