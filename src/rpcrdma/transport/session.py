"""What requester, responder and outbox of one connection share: what was agreed on, credits, events and counters."""

from __future__ import annotations

from collections import deque

from rpcrdma.transport.config import ReverseSupport, Role, TransportConfig
from rpcrdma.transport.dialects import Dialect
from rpcrdma.transport.events import EndpointEvent
from rpcrdma.transport.negotiation import TRANSITIONS, Input, State
from rpcrdma.transport.plan_call import REPLY_ALLOWANCE_OCTETS, PlanLimits
from rpcrdma.transport.private_data import Agreement, PrivateData
from rpcrdma.transport.statistics import TransportStatistics
from rpcrdma.verbs.memory import ProtectionDomain
from rpcrdma.verbs.queue_pair import QueuePair

__all__ = ["Session"]


class Session:
    """`send_octets` and `receive_octets` are the largest messages of either direction.

    `call_octets` and `results_octets` are the largest RPC call, and the largest results, that go without chunks. `owed`
    counts what this side holds memory for until the peer does something: calls whose Read chunks are being read, and
    replies on their way.
    """

    __slots__ = (
        "call_octets",
        "config",
        "dialect",
        "events",
        "failure",
        "owed",
        "pd",
        "plan_limits",
        "qp",
        "receive_octets",
        "remote_invalidation",
        "results_octets",
        "reverse_support",
        "send_octets",
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
    ) -> None:
        self.qp = qp
        self.pd = pd
        self.config = config
        self.dialect = dialect
        self.window = dialect.window(config, role, reverse=reverse)
        self.reverse_support = ReverseSupport.NONE
        if reverse:
            self.reverse_support = ReverseSupport.GENERAL if config.reverse_chunks else ReverseSupport.INLINE
        self.state = State.CONNECTING
        self.failure = ""
        self.owed = 0
        self.events: deque[EndpointEvent] = deque()
        self.statistics = TransportStatistics()
        self._take(dialect.agree(config.abilities, None))

    def agree(self, peer: PrivateData | None) -> None:
        """Takes what the peer said while connecting."""
        self._take(self.dialect.agree(self.config.abilities, peer))

    def _take(self, agreement: Agreement) -> None:
        self.send_octets, self.receive_octets, self.remote_invalidation = agreement
        config, geometry = self.config, self.dialect.geometry
        self.call_octets = self.send_octets - geometry.call_header
        self.results_octets = self.receive_octets - geometry.reply_header - REPLY_ALLOWANCE_OCTETS
        self.plan_limits = PlanLimits(
            self.send_octets,
            self.receive_octets,
            config.segment_octets_max,
            config.direct_octets_min,
            config.read_chunks_max,
            geometry,
        )

    def move(self, moved: Input) -> None:
        """Changes the state."""
        self.state = TRANSITIONS[self.state, moved]

    def violation(self, reason: str) -> None:
        """Ends the connection because the peer broke the protocol in a way that no message can answer."""
        if not self.failure:
            self.failure = reason
            self.move(Input.BREAK)
            self.qp.abort(reason)
