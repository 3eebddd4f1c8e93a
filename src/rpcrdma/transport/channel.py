"""What the two halves of an endpoint share: the queue pair, what was agreed on, events and counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from rpcrdma import limits
from rpcrdma.transport.calls import IncomingCall
from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.config import TransportConfig
from rpcrdma.transport.events import EndpointEvent
from rpcrdma.transport.private_data import PrivateData, agree
from rpcrdma.transport.statistics import TransportStatistics
from rpcrdma.verbs.memory import ProtectionDomain
from rpcrdma.verbs.queue_pair import QueuePair
from rpcrdma.verbs.receive_pool import ReceivePool
from rpcrdma.wire.buffers import Buffer

__all__ = ["JOIN_OCTETS_MAX", "Channel", "Dialect", "SendMark"]

JOIN_OCTETS_MAX = 4096
"""Up to here one copied buffer costs less than two entries of a gather list, each with its own checksum call."""

_SIGNAL_EVERY = 16
"""One Send in so many reports its completion, which stands for those before it."""


class Dialect(Protocol):
    """What differs between protocol versions when something is sent."""

    version: int

    def encode_message(self, xid: int, credits_: int, chunks: ChunkLists, *, long: bool) -> bytes:
        """The header of a call or reply."""

    def encode_chunk_refused(self, xid: int, credits_: int) -> bytes:
        """A whole message that refuses a call's chunks."""


class SendMark:
    """The work request of a signaled Send: it is the `count`th one, and `incoming` waits for its end."""

    __slots__ = ("count", "incoming")

    def __init__(self, count: int, incoming: IncomingCall | None) -> None:
        self.count = count
        self.incoming = incoming


class Channel:
    """Shared by requester and responder; octets, counts."""

    __slots__ = (
        "calls_expected",
        "config",
        "dialect",
        "events",
        "failure",
        "pd",
        "pool",
        "qp",
        "ready",
        "receive_octets",
        "receives_posted",
        "remote_invalidation",
        "replies_expected",
        "send_octets",
        "sends_ended",
        "sends_posted",
        "statistics",
    )

    def __init__(
        self,
        qp: QueuePair,
        pd: ProtectionDomain,
        config: TransportConfig,
        dialect: Dialect,
        pool: ReceivePool | None = None,
    ) -> None:
        self.qp = qp
        self.pd = pd
        self.pool = pool or ReceivePool(config.inline_receive_octets)
        self.config = config
        self.dialect = dialect
        self.events: deque[EndpointEvent] = deque()
        self.statistics = TransportStatistics()
        self.ready = False
        self.failure = ""
        self.sends_posted = 0
        self.sends_ended = 0
        self.receives_posted = 0
        self.calls_expected = 0
        """Calls that the peer may send before it hears of the next grant; the responder's."""
        self.replies_expected = 0
        """Calls of this side that are unanswered; the requester's."""
        self.send_octets, self.receive_octets, self.remote_invalidation = agree(config.abilities, None)

    def agree(self, peer: PrivateData | None) -> None:
        """Takes what the peer said while connecting."""
        self.send_octets, self.receive_octets, self.remote_invalidation = agree(self.config.abilities, peer)

    def violation(self, reason: str) -> None:
        """Ends the connection because the peer broke the protocol in a way that no message can answer."""
        if not self.failure:
            self.failure = reason
            self.qp.abort(reason)

    @property
    def sends_unfinished(self) -> int:
        """Sends whose end is not known: never below the true number."""
        return self.sends_posted - self.sends_ended

    def send(
        self, gather: Sequence[Buffer], *, invalidate: int | None = None, incoming: IncomingCall | None = None
    ) -> None:
        """Posts a Send; with `incoming`, a `ReplySent` follows."""
        count = self.sends_posted + 1
        self.sends_posted = count
        self.statistics.sends += 1
        if incoming is not None or not count % _SIGNAL_EVERY:
            self.qp.post_send(SendMark(count, incoming), gather, invalidate=invalidate)
        else:
            self.qp.post_send(None, gather, invalidate=invalidate, signaled=False)

    def post_receives(self) -> None:
        """Sees to it that there is a receive for each message that either direction may bring (RFC 8167 section 4.3).

        Some are spare: messages that are discarded or refused take one, too.
        """
        wanted = self.calls_expected + self.replies_expected + limits.SPARE_RECEIVES
        missing = wanted - self.receives_posted
        if missing > 0:
            self.receives_posted = wanted
            self.qp.post_receives(missing, self.pool)

    def backlog_allowed(self, credits_: int) -> bool:
        """Whether a peer that may have `credits_` calls in flight reads what it is sent.

        It cannot have had answers that are still here, so that more of them than it has credits were not asked for
        in good faith. Twice that leaves room for Sends whose end is not reported one by one. This side's own calls
        may be waiting to be sent as well.
        """
        sent = credits_ + self.replies_expected
        return self.sends_unfinished <= 2 * sent + _SIGNAL_EVERY + limits.SPARE_RECEIVES
