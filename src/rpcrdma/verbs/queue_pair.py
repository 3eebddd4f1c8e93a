"""Queue pairs: the work that a transport posts to a provider, and the completions and events that a provider reports.

Work requests are methods; `completions` has their results, on each queue in the order of posting.
A `QueuePair` does no waiting of its own: a driver moves its octets (or its hardware events), then
the transport takes completions and events.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from rpcrdma.verbs.memory import MemoryRegion
from rpcrdma.verbs.receive_pool import ReceiveSource
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "Completion",
    "ConnectRequested",
    "Disconnected",
    "Established",
    "QueuePair",
    "QueuePairEvent",
    "Status",
    "Verb",
]


class Verb(enum.Enum):
    """The work that a completion reports."""

    SEND = "send"
    RECEIVE = "receive"
    RDMA_WRITE = "rdma-write"
    RDMA_READ = "rdma-read"


class Status(enum.Enum):
    """How a work request ended."""

    SUCCESS = "success"
    FLUSHED = "flushed"
    """The connection ended first; whether the peer saw the work is unknown."""
    REMOTE_ACCESS = "remote-access"
    """The peer refused the memory that the work named; the connection ends."""


class Completion(NamedTuple):
    """The end of one work request.

    `wr` is the identifier given when the work was posted. `length` counts the octets received (Receive) or transferred;
    `invalidated` is the handle that the peer's Send with Invalidate ended (Receive only).
    """

    wr: object
    verb: Verb
    status: Status
    length: int = 0
    invalidated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequested:
    """Passive side: a peer asks; answer with `accept` or `reject`."""

    private_data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Established:
    """Both sides are connected. `private_data` is the peer's, on both sides.

    `inbound_reads` and `outbound_reads` are the agreed limits of outstanding RDMA Reads (IRD and ORD).
    """

    private_data: bytes
    inbound_reads: int
    outbound_reads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnected:
    """The connection ended, or was not made; `reason` in words for a log.

    `by_peer`: the peer ended it or broke the protocol.
    `protocol_error`: the peer (or this side, as told by the peer's Terminate) broke a rule.
    """

    reason: str
    by_peer: bool
    protocol_error: bool = False


QueuePairEvent: TypeAlias = ConnectRequested | Established | Disconnected


class QueuePair(Protocol):
    """A reliable connected queue pair.

    Posting is allowed in any state: before `Established` work waits, after `Disconnected` it completes as FLUSHED.
    Gather lists and their buffers belong to the queue pair until the completion; data are not copied.
    With `signaled=False` only a failure is reported.
    """

    completions: deque[Completion]
    """Completions that were not taken yet, the first one next: the owner of the queue pair removes them."""
    events: list[QueuePairEvent]
    """Likewise the connection events."""

    def post_receive(self, wr: object, buffer: memoryview) -> None:
        """Offers a buffer for one incoming Send. Allowed, and needed, before `accept` and before connecting."""

    def post_receives(self, count: int, pool: ReceiveSource) -> None:
        """Posts `count` more receives with buffers of `pool` (always the same pool), after those posted already.

        A buffer is taken from the pool when a message begins to arrive, so that idle connections hold none. It is the
        `wr` of the completion, and belongs to the one who takes that. A message that `ReceiveSource` allows to
        be delivered as `bytes` is itself the `wr`. Receives into which no message has begun to arrive are dropped
        without a completion when the connection ends.
        """

    def post_send(
        self, wr: object, gather: Sequence[Buffer], *, invalidate: int | None = None, signaled: bool = True
    ) -> None:
        """Sends one message into the peer's next receive buffer, ending the peer's handle `invalidate` if given."""

    def post_write(
        self, wr: object, gather: Sequence[Buffer], handle: int, offset: int, *, signaled: bool = True
    ) -> None:
        """Writes into the peer's memory at (`handle`, `offset`). Placed before any Send posted later is delivered."""

    def post_read(self, wr: object, sink: MemoryRegion, sink_start: int, length: int, handle: int, offset: int) -> None:
        """Reads `length` octets of the peer's memory into `sink.view[sink_start:]`.

        Waits for a free read slot if need be.
        `sink` must have been registered with REMOTE_WRITE on providers whose wire names it (iWARP).
        """

    def accept(self, private_data: bytes) -> None:
        """Passive side, after `ConnectRequested`."""

    def reject(self, private_data: bytes = b"") -> None:
        """Passive side, after `ConnectRequested`; the connection then ends."""

    def disconnect(self) -> None:
        """Ends the connection when all work posted so far has been done; `Disconnected` follows."""

    def abort(self, reason: str) -> None:
        """Ends the connection now; everything outstanding is flushed and `Disconnected` follows."""
