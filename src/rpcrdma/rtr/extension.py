"""The extension for `rpcrdma.transport`: its rows, the groups of one connection, and the choice of users."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Sequence

from rpcrdma.errors import DecodeError, RemoteProtocolError
from rpcrdma.limits import CHUNK_SEGMENTS_MAX
from rpcrdma.rtr.answers import DirectedReply, arguments_start
from rpcrdma.rtr.config import Preference, RoundTripConfig, extension_choice
from rpcrdma.rtr.groups import Arrived, Group, check_positions, check_ranges, take_payload
from rpcrdma.rtr.layout import Peer, peer_of, runs_of
from rpcrdma.rtr.messages import (
    REPTERR,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    Explicit,
    ReportCode,
    TransmissionFault,
    TransmissionId,
    TransmitRequest,
    TransmitResponse,
    decode_report,
    decode_transmit_continue,
    decode_transmit_request,
    decode_transmit_response,
    encode_report,
)
from rpcrdma.rtr.properties import Support, property_rows
from rpcrdma.rtr.receive_slabs import SlabBuffer, SlabReceives, SlabStore
from rpcrdma.rtr.requests import NOT_TAKEN, RequestCarrier, Results, SentCall
from rpcrdma.transport import (
    Cause,
    ChunkLists,
    Extension,
    ExtensionLink,
    ExtensionMessage,
    HeaderRow,
    Inbound,
    IncomingItems,
    Kind,
    ReadChunk,
    TransportConfig,
    WriteChunk,
    check_extensions,
    fill,
)
from rpcrdma.wire.buffers import Buffer

__all__ = ["NAME", "RoundTrip", "all_extensions"]

NAME = "round trips"
_PREFERENCES = {"auto": Preference.AUTO, "rtr": Preference.SEGMENTS}

_CALL, _REPLY = 0, 1
_ANY_FLAGS = 0xFFFFFFFC
_NONE: frozenset[int] = frozenset()
_TYPE = struct.Struct(">12xI")


class RoundTrip:
    """The round-trip extension of a client or server, whose connections share memory for arriving messages.

    Its attribute `extension` is the `Extension` for `ConnectOptions.extensions` or `RdmaServerConfig.extensions`.

    Args:
        config: the settings; None for the defaults.
        receive_octets: size of announced buffers; `TransportConfig.offered_receive_octets` bounds messages, too.

    Raises:
        ValueError: a buffer of that size would have too many segments.
    """

    def __init__(self, config: RoundTripConfig | None = None, *, receive_octets: int = 36864) -> None:
        self.config = config = config or RoundTripConfig()
        self.structure = structure = config.structure(receive_octets)
        self.own = Peer(config.support, structure.octets, runs_of(structure), config.requests_max, config.responses_max)
        # Weak, so that the memory ends with the last connection: cached tables keep this object longer.
        self._stores: weakref.WeakValueDictionary[int, SlabStore] = weakref.WeakValueDictionary()
        self.extension = self._rows(config.support, self._rows(config.support & ~Support.REQUEST, None))

    def _rows(self, support: Support, without_calls: Extension | None) -> Extension:
        """Builds the `Extension` of an end: its header types with their handlers, its properties, its receive buffers.

        `support`: the header types that the end announces. `without_calls`: the result's `Extension.without_calls`.
        """
        config = self.config
        # Undefined flags of a report are ignored, since nothing answers a report.
        headers = [HeaderRow(REPTERR, "Report Error", self._on_report, flags=_ANY_FLAGS)]
        # An end that takes no calls reads requests in order to refuse them.
        if Support.REQUEST in config.support:
            headers.append(HeaderRow(XMTREQ, "Transmit Request", self._on_request))
        if Support.RESPONSE in support:
            headers.append(HeaderRow(XMTRESP, "Transmit Response", self._on_response))
        if Support.CONTINUE in support:
            headers.append(HeaderRow(XMTCONT, "Transmit Continue", self._on_continue))
        return Extension(
            name=NAME,
            headers=tuple(headers),
            properties=property_rows(support, self.structure, config.requests_max, config.responses_max),
            on_ready=self._on_ready,
            on_closed=self._on_closed,
            receives=self._receives if self.own.runs else None,
            reserve_max=config.promises_max,
            without_calls=without_calls,
        )

    def _receives(self, octets: int) -> SlabReceives:
        """Returns receive buffers of a connection, of at least `octets` each; those of equal size share memory."""
        head = self.structure.segments[0][1]
        align = self.structure.groups[-1][1].align or 1
        slot = -(-(max(self.structure.octets, octets) - head) // align) * align
        return SlabReceives(self._stores.setdefault(slot, SlabStore(head, slot)))

    def _on_ready(self, link: ExtensionLink) -> None:
        link.state = connection = _Connection(self, link)
        if isinstance(link.receives, SlabReceives):
            link.receives.prefix_octets = link.prefix_octets
        if connection.peer.takes_requests:
            config = self.config
            peer = connection.peer
            link.carry(RequestCarrier(link, self.own, peer, config.preference, config.costs, config.promises_max))

    def _on_closed(self, link: ExtensionLink) -> None:
        if link.state is not None:
            link.state.close()

    def _on_request(self, link: ExtensionLink, message: ExtensionMessage) -> None:
        link.state.on_first(message, XMTREQ)

    def _on_response(self, link: ExtensionLink, message: ExtensionMessage) -> None:
        link.state.on_first(message, XMTRESP)

    def _on_continue(self, link: ExtensionLink, message: ExtensionMessage) -> None:
        link.state.on_continue(message)

    def _on_report(self, link: ExtensionLink, message: ExtensionMessage) -> None:
        link.state.on_report(message)


class _Connection:
    """Joins transmissions on one connection to calls and replies; `peer` has the abilities of the other end.

    A group is the consecutive transmissions of one call or reply, so that at most one group is open at a time.
    """

    __slots__ = ("_dropped", "_extension", "_group", "_link", "peer")

    def __init__(self, extension: RoundTrip, link: ExtensionLink) -> None:
        self._extension = extension
        self._link = link
        self.peer = peer_of(link.peer)
        self._group: Group | None = None
        # The XIDs of groups that were given up, whose further transmissions may still arrive.
        self._dropped: frozenset[int] = _NONE

    def on_first(self, message: ExtensionMessage, lead: int) -> None:
        """Handles the first transmission of a group, the consecutive transmissions of one call or reply.

        The call or reply is delivered if it is complete; otherwise the group is open for further transmissions. An end
        that takes no calls refuses the call. A fault discards the transmission and any open group, fails the call of
        a reply, and is reported unless the octets do not decode or the flags are wrong. `lead`: XMTREQ or XMTRESP.

        Raises:
            DecodeError: a request's header does not decode, or its whole payload does not begin a call with its XID.
        """
        if self._contradicts(message, lead):
            self._refuse_flags(message)
            return
        self._dropped = _NONE
        bad = TransmissionId(message.xid, _CALL if lead == XMTREQ else _REPLY, 0)
        if self._group is not None:
            self._give_up(TransmissionFault(ReportCode.OPTIONAL_TYPE, XMTCONT, lead), bad, message)
            return
        if lead == XMTREQ and not self._link.takes_calls:
            # The properties of this end say that it takes no requests.
            self._let_go(message)
            self._dropped = frozenset((message.xid,))
            self._link.refuse_call(message.xid, Cause.HEADER_TYPE)
            return
        try:
            head, start = self._decode_first(message, lead)
            group = Group(message.xid, lead, head, self._transmissions_max(message.xid, head))
            self._add(group, message, start, head.payload_octets)
            if group.complete:
                self._finish(group)
            else:
                self._open(group)
        except TransmissionFault as fault:
            self._give_up(fault, bad, message)
        except DecodeError as error:
            self._let_go(message)
            self._dropped = frozenset((message.xid,))
            if lead == XMTREQ:
                raise
            self._link.fail_call(message.xid, error)

    def _decode_first(self, message: ExtensionMessage, lead: int) -> tuple[TransmitRequest | TransmitResponse, int]:
        """Decodes the header of the first transmission of a call or reply, which may lie in two parts of its buffer.

        `lead`: the header type, XMTREQ or XMTRESP. Returns the header, and the offset of its end from the start of the
        transmission's body, which follows the version's header.

        Raises:
            DecodeError: the octets are no such header.
        """
        decode = decode_transmit_request if lead == XMTREQ else decode_transmit_response
        try:
            return decode(message.body, 0)
        except DecodeError:
            prefix = self._link.prefix_octets
            if message.arrived is None or message.arrived[1] == prefix + len(message.body):
                raise
            return decode(message.arrived[0].joined(message.arrived[1])[prefix:], 0)

    def _transmissions_max(self, xid: int, head: TransmitRequest | TransmitResponse) -> int:
        """Returns the most messages of the call or reply whose first header is `head`; may call `stop_learning`.

        A call has those that this end takes, a reply those that both ends allow and its call has announced. If `head`,
        of a call, announces receives for the reply, further credits of the peer do not raise the limit on own calls.
        """
        own = self._extension.own
        if isinstance(head, TransmitRequest):
            if head.extra_receives:
                self._link.stop_learning()
            return own.request_frames
        most = self.peer.response_frames(own)
        call = self._link.carried_call(xid)
        return min(most, call.responses_max) if isinstance(call, SentCall) else most

    def on_continue(self, message: ExtensionMessage) -> None:
        """Handles a further transmission of the open group, one call or reply; the last one delivers the call or reply.

        A fault, such as that no group is open, ends the group, fails the call of a reply and is reported to the peer.
        Further transmissions of a group that was given up are discarded.

        Raises:
            DecodeError: unless a reply is open, the header does not decode, or the payload begins no call with its XID.
        """
        group = self._group
        if group is None and message.xid in self._dropped:
            self._let_go(message)
            return
        number = 0 if group is None else len(group.arrived)
        direction = _CALL if group is None or group.lead == XMTREQ else _REPLY
        try:
            header, start = decode_transmit_continue(message.body, 0)
            number = header.number
            # The flags are compared with the type that the message names only if the group began with that type.
            if (group is None or header.begun_by == group.lead) and self._contradicts(message, header.begun_by):
                self._refuse_flags(message)
                return
            if group is None:
                direction = _REPLY if header.begun_by == XMTRESP else _CALL
                self._give_up(
                    TransmissionFault(ReportCode.CONTINUATION), TransmissionId(message.xid, direction, number), message
                )
                return
            group.check_next(message.xid, header)
            self._add(group, message, start, header.payload_octets)
            if not group.complete:
                self._hold(group)
                return
            # The delivered message is counted separately.
            self._group = None
            self._link.expect_group(None)
            self._finish(group)
        except TransmissionFault as fault:
            self._group = group
            self._give_up(fault, TransmissionId(message.xid, direction, number), message)
        except DecodeError as error:
            self._group = group
            self.close()
            self._let_go(message)
            self._dropped = frozenset((message.xid, *(() if group is None else (group.xid,))))
            if direction == _CALL:
                raise
            self._link.fail_call(message.xid if group is None else group.xid, error)

    def _add(self, group: Group, message: ExtensionMessage, start: int, payload_octets: int) -> None:
        """Adds one transmission to its group, the transmissions of one call or reply.

        Args:
            group: the group.
            message: the transmission.
            start: the offset of its payload from the start of its body, which follows the version's header.
            payload_octets: the length of its payload, as its header states.

        Raises:
            TransmissionFault: the payload exceeds the transmission.
        """
        link = self._link
        prefix = link.prefix_octets
        arrived = None
        if message.arrived is not None:
            buffer, octets = message.arrived
            assert isinstance(buffer, SlabBuffer)
            arrived = buffer, octets
        payload = take_payload(message.body, start, payload_octets, prefix, arrived)
        end = prefix + start + payload_octets
        if arrived is None:
            group.add(Arrived(None, prefix + len(message.body), end), payload)
        else:
            group.add(Arrived(arrived[0], arrived[1], end), payload)

    def _open(self, group: Group) -> None:
        self._group = group
        self._link.expect_group(self._between)
        self._hold(group)

    def _hold(self, group: Group) -> None:
        """Counts memory of an incomplete call or reply; over a limit drops it, and refuses or fails the call."""
        more = group.pinned_octets - group.held
        if self._link.hold(more):
            group.held += more
            return
        self._dropped = frozenset((group.xid,))
        self.close()
        if group.lead == XMTREQ:
            self._link.refuse_call(group.xid, Cause.SYSTEM)
        else:
            reason = "a reply in several messages, while calls of the peer hold all memory that it may fill"
            self._link.fail_call(group.xid, RemoteProtocolError(reason))

    def close(self) -> None:
        """Drops the transmissions of an incomplete call or reply, if there are any."""
        group, self._group = self._group, None
        if group is not None:
            self._link.expect_group(None)
            self._release(group)

    def _finish(self, group: Group) -> None:
        """Places the items of a complete call or reply; passes a call to the responder, a reply to the requester.

        A reply to no call is discarded; a call with too many RDMA segments is refused.

        Raises:
            TransmissionFault: an item, or the Positions to which a set of directions applies, are not as they must be.
            DecodeError: the payload is not the start of a call, or reply, with the XID of the group.
        """
        link, extension = self._link, self._extension
        head = group.head
        stream = group.stream
        try:
            check_positions(head.items, len(stream))
            runs = extension.own.runs
            each = sum(run.count for run in runs)
            views, joined = group.place(head.items, runs[0].octets if runs else 1, each)
        finally:
            self._release(group)
        statistics = link.statistics
        statistics.groups_received += 1
        statistics.items_in_segments += len(views)
        statistics.items_joined += joined
        statistics.octets_in_segments += sum(map(len, views.values()))
        held = group.held_octets if views else 0
        if isinstance(head, TransmitResponse):
            if not link.deliver_reply(group.xid, stream, Results(head.items, views, held)):
                statistics.discarded += 1
            return
        statistics.calls_by_send += bool(views)
        check_ranges(head.directions)
        reads = tuple(
            ReadChunk(item.position, fill(WriteChunk(item.where.segments), item.length).segments)
            for item in head.items
            if isinstance(item.where, Explicit)
        )
        directions = [direction for group_of in head.directions for direction in group_of.results]
        answer = None
        writes: tuple[WriteChunk, ...] = ()
        # A peer that takes no Transmit Response has to be answered without.
        if directions and self.peer.takes_responses:
            writes = tuple(WriteChunk(direction.segments) for direction in directions)
            frames_max = min(1 + head.extra_receives, extension.own.response_frames(self.peer))
            octets = len(stream) + sum((item.length + 3) & ~3 for item in head.items)
            arguments = arguments_start(stream), octets
            answer = DirectedReply(link, self.peer, head.directions, arguments, frames_max, counted=bool(views))
        chunks = ChunkLists(reads, writes, None)
        # One alone has no more than its list may have.
        if len(reads) + len(writes) > 1 and chunks.count_segments() > CHUNK_SEGMENTS_MAX:
            link.refuse_call(group.xid, Cause.SEGMENTS, CHUNK_SEGMENTS_MAX)
            return
        link.deliver_call(group.xid, stream, chunks, IncomingItems(views, held, answer))

    def _release(self, group: Group) -> None:
        """Gives back the receive buffers of a group's transmissions, except placeable segments to which items refer."""
        receives = self._link.receives
        if isinstance(receives, SlabReceives):
            for arrived in group.arrived:
                if arrived.buffer is not None and arrived.buffer.parts:
                    receives.keep(arrived.buffer)

    def _let_go(self, message: ExtensionMessage) -> None:
        """Gives the receive buffer of a discarded transmission, if it has one, back to the connection's buffers."""
        if message.arrived is not None and message.arrived[0].parts:
            self._link.receives.give_back(message.arrived[0])

    def _give_up(self, fault: TransmissionFault, bad: TransmissionId, message: ExtensionMessage | None) -> None:
        """Discards a faulty transmission and the incomplete message, reports the fault, fails calls of faulty replies.

        `fault`: the fault, which the Report Error states. `bad`: names the faulty transmission. `message`: the faulty
        transmission, whose memory is released; None for a message that the extension does not own.
        """
        group = self._group
        self.close()
        if message is not None:
            self._let_go(message)
        lead = None
        if group is not None:
            lead = TransmissionId(group.xid, _CALL if group.lead == XMTREQ else _REPLY, 0)
        self._dropped = frozenset(one.xid for one in (bad, lead) if one is not None)
        for xid in {one.xid for one in (bad, lead) if one is not None and one.direction == _REPLY}:
            self._link.fail_call(xid, fault)
        self._link.statistics.reports_sent += 1
        body = encode_report(fault.report(bad, lead))
        self._link.report(REPTERR, [body], xid=bad.xid, answer=bad.direction == _CALL)

    def _contradicts(self, message: ExtensionMessage, lead: int) -> bool:
        """Returns whether the flag RESPONSE of `message` contradicts `lead`, the type of its group's first message.

        RESPONSE must be set exactly if `lead` is XMTRESP. False for a `lead` that begins no group.
        """
        return lead in {XMTREQ, XMTRESP} and message.answers != (lead == XMTRESP)

    def _refuse_flags(self, message: ExtensionMessage) -> None:
        """Discards a message with a wrong RESPONSE flag, and the incomplete call or reply, without a Report Error.

        RESPONSE states that this end chose the XID (version 2, section 6.4.3): a message with the flag is not answered,
        and fails this end's call with that XID; one without is refused by an error of version 2. Likewise an incomplete
        reply fails its call, and an incomplete call is refused.
        """
        group = self._group
        self.close()
        self._let_go(message)
        broken = {(message.xid, message.answers)}
        if group is not None:
            broken.add((group.xid, group.lead == XMTRESP))
        self._dropped = frozenset(xid for xid, _ in broken)
        for xid, answers in sorted(broken):
            if not answers:
                self._link.refuse_call(xid, Cause.FLAGS)
            elif not self._link.fail_call(xid, RemoteProtocolError("RESPONSE does not fit to a transmission")):
                self._link.statistics.discarded += 1

    def _between(self, message: Inbound, data: Buffer) -> bool:
        """Handles a message that arrives between the transmissions of a group: as a fault, if it may not be there.

        A grant of credits is no fault: a sender that waits for credits itself must be able to give some
        (requirement V2-D22). `data`: the octets of `message`. Returns False for grants and messages of the extension,
        to be handled as usual; True for others: then the fault was reported, and the incomplete call or reply dropped.
        """
        if message.kind is Kind.GRANT:
            return False
        if message.kind is Kind.EXTENSION and message.header_type in {XMTREQ, XMTRESP, XMTCONT, REPTERR}:
            return False
        direction = _REPLY if message.kind in {Kind.REPLY, Kind.ERROR} else _CALL
        code = ReportCode.OPTIONAL_TYPE if message.kind is Kind.EXTENSION else ReportCode.HEADER_TYPE
        fault = TransmissionFault(code, XMTCONT, _TYPE.unpack_from(data)[0])
        self._give_up(fault, TransmissionId(message.xid, direction, 0), None)
        return True

    def on_report(self, message: ExtensionMessage) -> None:
        """Handles the peer's Report Error: a refused call is sent again in plain messages, or fails.

        It fails if it was plain, was sent CALL_ATTEMPTS_MAX times, or cannot be protected anew (RPCSEC_GSS). A refused
        reply is lost, as the peer knows. An unreadable report is discarded, since nothing answers a report.
        """
        statistics = self._link.statistics
        try:
            report = decode_report(message.body, 0)
        except DecodeError:
            statistics.discarded += 1
            return
        statistics.reports_received += 1
        refused = {one.xid for one in (report.bad, report.lead) if one is not None and one.direction == _CALL}
        for xid in refused:
            self._link.on_refused(xid, NOT_TAKEN)


def all_extensions(choice: str, transport: TransportConfig, others: Sequence[Extension]) -> list[Extension]:
    """Returns a new list of `others` and the round-trip extension, for connections with the settings `transport`.

    `choice`: the extension carries, for "auto", calls that cost less so, for "rtr" all bulk data that it can; for
    "off", or if `others` (the user's) has it, it is not added. `transport`: has the receive size for the extension.

    Raises:
        ValueError: the choice is unknown.
        LocalProtocolError: extensions use the same codes.
    """
    extensions = list(others)
    if extension_choice(choice) != "off" and all(other.name != NAME for other in others):
        config = RoundTripConfig(preference=_PREFERENCES[choice])
        extensions.append(RoundTrip(config, receive_octets=transport.offered_receive_octets).extension)
    check_extensions(extensions)
    return extensions
