"""The state that requester, responder and outbox of one connection share: agreement, credits, events, counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.limits import CHUNK_SEGMENTS_MAX, CONTINUED_OCTETS_MAX
from rpcrdma.transport.carriers import Batcher
from rpcrdma.transport.config import ReverseSupport, Role, TransportConfig
from rpcrdma.transport.connection_states import TRANSITIONS, Input, State
from rpcrdma.transport.dialects import Dialect
from rpcrdma.transport.events import EndpointEvent
from rpcrdma.transport.message import Inbound
from rpcrdma.transport.plan_call import (
    DIRECT_OCTETS_MIN,
    REPLY_ALLOWANCE_OCTETS,
    PlanLimits,
    cheap_call_octets,
    cheap_reply_octets,
)
from rpcrdma.transport.private_data import PrivateData
from rpcrdma.transport.properties import Properties, decode_properties, properties_of
from rpcrdma.transport.statistics import TransportStatistics
from rpcrdma.verbs.protection_domain import ProtectionDomain
from rpcrdma.verbs.queue_pair import QueuePair
from rpcrdma.wire.buffers import Buffer

__all__ = ["JOIN_OCTETS_MAX", "Session"]

JOIN_OCTETS_MAX = 4096 + 512
"""Up to this length, 4 KiB of data and the headers of RPC and NFS, one copied buffer costs less than two entries of a
gather list, each with its own CRC call."""

_COPIED_OCTETS_MAX = (32 << 10) + 512
"""Up to this length a copy of a reply costs less than the completion that releases the memory of its items: a fifth of
the functions of a READ at the server. Copies count neither as unsent nor against the server's memory. So beyond
UNFINISHED_SELDOM unfinished Sends, 0.8 MB of copies, those of up to JOIN_OCTETS_MAX alone are made."""


class Session:
    """The agreement and state of one connection, which its requester, responder and outbox share.

    `send_octets` and `receive_octets` are the largest messages that this side sends and receives; with `splits` a
    longer message travels in several pieces. A payload of up to `joined_octets` is joined with a header without chunks.
    `names_ended`: a call names the handle that its reply may invalidate. `call_octets` and `results_octets` are the
    largest RPC call, and the largest results, that fit one message without chunks. A call with bulk items travels like
    that only up to `items_inline_octets`, which is at most `call_octets`. A reply without chunks has its items copied
    up to `copied_reply_octets`. `round_trip_s` is the measured round trip to the peer in seconds, 0 if unknown.
    `segment_octets_taken` is the largest segment that this side takes. `owed` counts obligations of the peer for which
    this side holds memory: RDMA Reads of calls, and unsent replies. `peer` has the transport properties of the peer, or
    is None; `proof` is the host authentication value of this side. `failure` is the reason for which this side ends the
    connection, "" for none; after the end, the reason of either side. `refusal` is the error of a failed host
    authentication. Calls are planned by `plan_limits`, those longer than one message by `far_limits` if that is not
    None: over a long round trip, a call in several messages costs less than RDMA Reads. While an extension expects a
    group of messages, `between` gets each message first. With a `batcher`, short calls and replies, and messages
    without credits, wait for the end of the event loop's iteration.

    The parameter `reverse` is whether the connection has calls from server to client, and `reservable` the most credits
    that its extensions add for the peer by `ExtensionLink.reserve` at any time.
    """

    __slots__ = (
        "_groups",
        "_peer_data",
        "_reply_messages",
        "_reservable",
        "_reserved",
        "_reverse",
        "batcher",
        "between",
        "call_octets",
        "config",
        "copied_reply_octets",
        "dialect",
        "events",
        "failure",
        "far_limits",
        "in_messages_octets",
        "items_inline_octets",
        "joined_octets",
        "names_ended",
        "owed",
        "pd",
        "peer",
        "plan_limits",
        "proof",
        "qp",
        "receive_octets",
        "refusal",
        "remote_invalidation",
        "results_octets",
        "reverse_support",
        "role",
        "round_trip_s",
        "segment_octets_taken",
        "send_octets",
        "splits",
        "state",
        "statistics",
        "window",
    )

    def __init__(
        self,
        qp: QueuePair,
        pd: ProtectionDomain,
        config: TransportConfig,
        role: Role,
        dialect: Dialect,
        *,
        reverse: bool,
        reservable: int = 0,
    ) -> None:
        self.qp = qp
        self.pd = pd
        self.config = config
        self.role = role
        self._reverse = reverse
        self._peer_data: PrivateData | None = None
        self.state = State.CONNECTING
        self.failure = ""
        self.proof: bytes | None = None
        self.refusal: HostAuthenticationFailed | None = None
        self.owed = 0
        self.round_trip_s = 0.0
        self.batcher: Batcher | None = None
        # The credits of a server, for its further calls, are enough for a continued call.
        self._reply_messages = 0
        if role is Role.CLIENT:
            self._reply_messages = CONTINUED_OCTETS_MAX // config.offered_receive_octets + 1
        self._reservable = reservable + self._reply_messages
        self.between: Callable[[Inbound, Buffer], bool] | None = None
        self._groups = 0
        most = config.in_messages_octets_max
        self.in_messages_octets = None if most is None else min(most, CONTINUED_OCTETS_MAX)
        """`TransportConfig.in_messages_octets_max`, as far as messages can be continued."""
        self.events: deque[EndpointEvent] = deque()
        self.statistics = TransportStatistics()
        self.use(dialect)

    def use(self, dialect: Dialect) -> None:
        """Changes the protocol version to that of `dialect`; credits and the peer's properties begin anew."""
        self.dialect = dialect
        self.window = dialect.window(self.config, self.role, reverse=self._reverse, reservable=self._reservable)
        self.peer: Properties | None = None
        self.reverse_support = ReverseSupport.NONE
        if self._reverse:
            general = self.config.reverse_chunks
            self.reverse_support = ReverseSupport.GENERAL if general else ReverseSupport.INLINE
        self.splits = dialect.geometry.piece_header > 0
        self._reserved = False
        if (self.in_messages_octets or 0) > self.config.offered_receive_octets:
            self.expect_continued_replies()
        self.names_ended = self.config.remote_invalidation and dialect.introduces
        self.segment_octets_taken = self.own.segment_octets_max if self.splits else (1 << 32) - 1
        self._agree()

    def expect_continued_replies(self) -> None:
        """Grants the server credits for all messages of the longest reply; no effect at a server or in version 1."""
        if not self._reserved:
            self._reserved = True
            self.window.reserve(self._reply_messages)

    def expect_group(self, between: Callable[[Inbound, Buffer], bool] | None) -> None:
        """Sets the function that gets each received message first while an extension awaits the rest of a group.

        A group is the messages that together carry one call or reply. `between`: gets a message and its octets, and
        returns whether it has handled the message; if False, the message is handled as usual. None: the group is
        complete or dropped, and no function gets messages first any more.
        """
        self.between = between
        self._groups += between is not None

    @property
    def unfinished(self) -> int:
        """A number that identifies the incomplete continued message, or extension's group of messages; 0: none.

        Each such message or group has another number than the one before.
        """
        return self.dialect.unfinished if self.between is None else -self._groups

    def agree(self, peer: PrivateData | None) -> None:
        """Stores the peer's private data (None: none sent), which set message sizes and invalidation in version 1."""
        self._peer_data = peer
        self._agree()

    def _agree(self) -> None:
        agreed = self.dialect.agree(self.config.abilities, self._peer_data)
        self.remote_invalidation = agreed.remote_invalidation
        self._limit(agreed.send_octets, agreed.receive_octets)

    def measure(self, round_trip_s: float) -> None:
        """Stores the measured round trip to the peer, in seconds, and derives the limits of continued calls from it."""
        self.round_trip_s = round_trip_s
        self._limit(self.send_octets, self.receive_octets)

    def limit_first_message(self) -> None:
        """Limits a client's messages to the size that every server receives, before the server's properties are known.

        Later calls of `use_defaults` or `take_properties` replace the limit. No effect at a server, or if the version
        has no such size.
        """
        first = self.dialect.geometry.first_message
        if self.role is Role.CLIENT and first:
            self._limit(min(self.send_octets, first), self.receive_octets)

    def use_defaults(self) -> None:
        """Limits messages and reverse calls as for a peer without transport properties; no effect if `peer` has some.

        The limits are the defaults of the protocol version, which every peer supports; in version 1, which has no
        properties, those of messages follow from the private data. `peer` stays None, and a later `take_properties`
        sets other limits.
        """
        if self.peer is None:
            self._agree()
            if self.dialect.introduces:
                self._agree_reverse()

    @property
    def own(self) -> Properties:
        """The transport properties of this side that the protocol version itself defines, not those of extensions."""
        reverse = ReverseSupport.GENERAL if self._reverse else ReverseSupport.NONE
        return properties_of(self.config, reverse, self.proof)

    def take_properties(self, peer: Properties) -> None:
        """Stores the transport properties of the peer; limits messages and reverse calls to what both ends support."""
        own = self.own
        self.peer = peer
        self._agree_reverse()
        self._limit(min(own.send_octets, peer.receive_octets), min(own.receive_octets, peer.send_octets))

    def _agree_reverse(self) -> None:
        """Sets `reverse_support` to the client's property: that of this side at a client, the peer's at a server.

        No effect if the connection has no reverse calls.
        """
        if self._reverse:
            self.reverse_support = (self.own if self.role is Role.CLIENT else self._told).reverse

    @property
    def segment_octets_possible(self) -> int:
        """The largest segment, in octets, that the peer takes; in version 1, which states none, this side's setting."""
        return self._told.segment_octets_max if self.splits else self.config.segment_octets_max

    @property
    def _told(self) -> Properties:
        """The transport properties of the peer; the protocol version's defaults before they arrive."""
        return self.peer or decode_properties((), self.dialect.properties)

    def _limit(self, send_octets: int, receive_octets: int) -> None:
        config, geometry = self.config, self.dialect.geometry
        self.send_octets = send_octets
        self.receive_octets = receive_octets
        self.call_octets = send_octets - geometry.call_header
        self.results_octets = receive_octets - geometry.reply_header - REPLY_ALLOWANCE_OCTETS
        self.items_inline_octets = self.call_octets
        self.joined_octets = min(JOIN_OCTETS_MAX, send_octets - max(geometry.call_header, geometry.reply_header))
        # A device would have to register the copy, where it keeps the memory of results registered.
        self.copied_reply_octets = 0
        if self.pd.counts is None:
            self.copied_reply_octets = min(_COPIED_OCTETS_MAX, send_octets - geometry.reply_header)
        # Without continuation only the largest message bounds inline data.
        self.plan_limits = PlanLimits(
            send_octets,
            receive_octets,
            config.segment_octets_max,
            DIRECT_OCTETS_MIN,
            config.read_chunks_max,
            geometry,
            send_octets,
            receive_octets,
            CHUNK_SEGMENTS_MAX,
        )
        self.far_limits: PlanLimits | None = None
        if self.splits:
            most, told = self.in_messages_octets, self._told
            self.plan_limits = self.plan_limits._replace(
                segment_octets_max=min(config.segment_octets_max, told.segment_octets_max),
                call_octets_max=cheap_call_octets(send_octets, geometry) if most is None else most,
                reply_octets_max=receive_octets if most is None else most,
                segments_max=told.segments_max,
                reply_continued_octets_max=cheap_reply_octets(receive_octets, geometry) if most is None else 0,
            )
            far = cheap_call_octets(send_octets, geometry, self.round_trip_s) if most is None else most
            if far > self.plan_limits.call_octets_max:
                self.far_limits = self.plan_limits._replace(call_octets_max=far)
            if most is not None:
                self.items_inline_octets = min(self.call_octets, most - geometry.call_header)

    def move(self, moved: Input) -> None:
        """Changes the attribute `state`, the connection's state, by an input of the table of transitions.

        Raises:
            KeyError: the table does not allow the input in the present state.
        """
        self.state = TRANSITIONS[self.state, moved]

    def refuse(self, error: HostAuthenticationFailed) -> None:
        """Ends the connection after all posted Sends, for a failed host authentication; no effect after any failure.

        `error` becomes `refusal`, and its text `failure`.
        """
        if not self.failure:
            self.refusal = error
            self.failure = str(error)
            self.move(Input.BREAK)
            self.qp.disconnect()

    def violation(self, reason: str) -> None:
        """Aborts the connection because of a fault that no message can answer, such as a violation of the protocol.

        `reason` is the fault in words. No effect after another failure.
        """
        if not self.failure:
            self.failure = reason
            self.move(Input.BREAK)
            self.qp.abort(reason)
