"""Queue pairs: the work that a transport posts to a provider, and the completions and events that a provider reports.

Work requests are methods; `completions` has their results, on each queue in the order of posting. A `QueuePair` never
waits: a driver moves its octets or its hardware events, then the transport takes completions and events.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from rpcrdma.verbs.protection_domain import MemoryRegion
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
    """The operation of a work request, which its completion reports."""

    SEND = "send"
    RECEIVE = "receive"
    RDMA_WRITE = "rdma-write"
    RDMA_READ = "rdma-read"


class Status(enum.Enum):
    """The outcome of a work request."""

    SUCCESS = "success"
    FLUSHED = "flushed"
    """The connection ended first; whether the peer saw the work is unknown."""
    REMOTE_ACCESS = "remote-access"
    """The peer refused access to the memory named; the connection ends."""


class Completion(NamedTuple):
    """The end of one work request.

    Args:
        wr: the identifier given when the work was posted.
        verb: the operation.
        status: the outcome.
        length: octets received (Receive) or transferred, if `status` is SUCCESS.
        invalidated: the handle that the peer's Send with Invalidate ended (Receive only), or None.
    """

    wr: object
    verb: Verb
    status: Status
    length: int = 0
    invalidated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequested:
    """A peer asks for a connection (passive side): answer with `accept` or `reject`."""

    private_data: bytes
    """The peer's private data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Established:
    """Both sides are connected.

    Args:
        private_data: the peer's private data.
        inbound_reads: agreed limit of RDMA Reads that the peer has outstanding (IRD).
        outbound_reads: agreed limit of RDMA Reads that this side has outstanding (ORD).
    """

    private_data: bytes
    inbound_reads: int
    outbound_reads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnected:
    """The connection has ended, or was never established.

    Args:
        reason: the cause in words, for a log.
        by_peer: whether the peer ended it or broke the protocol; False if the peer does not answer.
        protocol_error: whether one side broke a rule, as found here or stated by the peer (Terminate).
    """

    reason: str
    by_peer: bool
    protocol_error: bool = False


QueuePairEvent: TypeAlias = ConnectRequested | Established | Disconnected
"""A change of a connection's state."""


class QueuePair(Protocol):
    """A reliable connected queue pair.

    Posting is allowed in any state: before `Established` work waits, after `Disconnected` it completes as FLUSHED. If a
    device has no room for the memory of the work, or for further receives, the connection ends; nothing is raised.
    Gather lists and their buffers must not change until the completion of the work or of later work: data may not be
    copied.

    Shared by the methods:
        wr: the identifier that the completion of the work repeats.
        gather: the octets, as a list of buffers.
        handle, offset: the place in the peer's memory.
        signaled: whether success has a completion; a failure always has one.
        LocalProtocolError: `accept` or `reject` without a `ConnectRequested`; private data, a length, an offset or a
            sink that the provider cannot carry.
    """

    completions: deque[Completion]
    """Completions not taken yet, the oldest first; the queue pair's owner removes them."""
    events: list[QueuePairEvent]
    """Events of the connection not taken yet, the oldest first; the queue pair's owner removes them."""

    def post_receive(self, wr: object, buffer: memoryview) -> None:
        """Offers a buffer for one incoming Send; a Send that finds no posted receive ends the connection.

        So receives for the peer's first messages are posted before `accept`, or before this end connects.

        Args:
            wr: the identifier that the completion repeats.
            buffer: writable memory, at least as long as the message.
        """

    def post_receives(self, count: int, pool: ReceiveSource) -> None:
        """Posts receives with buffers of a pool, behind those posted already.

        A buffer is taken from the pool when a message begins to arrive, so that idle connections hold none. The buffer
        is the `wr` of the completion, and belongs to the code that takes the completion. A message that is short, or
        long but `is_plain`, may instead be delivered as `bytes`, which are then the `wr`. Receives without a message
        are dropped without a completion when the connection ends.

        Args:
            count: the number of receives.
            pool: the pool, the same one in all calls.
        """

    def post_send(
        self, wr: object, gather: Sequence[Buffer], *, invalidate: int | None = None, signaled: bool = True
    ) -> None:
        """Sends one message into the peer's next receive buffer.

        Args:
            wr: the identifier that the completion repeats.
            gather: the message as a list of buffers.
            invalidate: the peer's handle that the Send invalidates, or None.
            signaled: whether success has a completion; a failure always has one.

        Raises:
            LocalProtocolError: the provider cannot carry a message of this length.
        """

    def post_write(
        self, wr: object, gather: Sequence[Buffer], handle: int, offset: int, *, signaled: bool = True
    ) -> None:
        """Writes octets into the peer's memory (RDMA Write), before any Send posted later is delivered.

        Args:
            wr: the identifier that the completion repeats.
            gather: the octets, as a list of buffers.
            handle: the peer's handle.
            offset: the peer's offset of the first octet.
            signaled: whether success has a completion; a failure always has one.

        Raises:
            LocalProtocolError: the provider cannot carry this handle, offset or length.
        """

    def post_read(self, wr: object, sink: MemoryRegion, sink_start: int, length: int, handle: int, offset: int) -> None:
        """Reads the peer's memory into `sink.view[sink_start:]`; queued until fewer Reads than agreed are outstanding.

        If no Reads are agreed (`Established.outbound_reads` is 0), the Read ends the connection.

        Args:
            wr: the identifier that the completion repeats.
            sink: the region to fill; registered with REMOTE_WRITE for providers whose wire names it (iWARP).
            sink_start: the index in `sink.view`.
            length: octets.
            handle: the peer's handle.
            offset: the peer's offset of the first octet.

        Raises:
            LocalProtocolError: the provider cannot carry this handle, offset or length, or use this sink.
        """

    def accept(self, private_data: bytes) -> None:
        """Accepts the connection after `ConnectRequested` (passive side).

        Args:
            private_data: octets for the peer.

        Raises:
            LocalProtocolError: no `ConnectRequested` awaits an answer, or the provider cannot carry the private data.
        """

    def reject(self, private_data: bytes = b"") -> None:
        """Rejects the connection after `ConnectRequested` (passive side), which ends it.

        Args:
            private_data: octets for the peer.

        Raises:
            LocalProtocolError: no `ConnectRequested` awaits an answer, or the provider cannot carry the private data.
        """

    def disconnect(self) -> None:
        """Ends the connection once all posted work is sent, or at once if none can be sent yet; `Disconnected` follows.

        RDMA Reads that are not answered by then may complete as FLUSHED. After the end it has no effect.
        """

    def abort(self, reason: str) -> None:
        """Ends the connection now: outstanding work is flushed, `Disconnected` follows.

        After the end it has no effect, except that a Terminate or a rejection that is not sent yet is dropped.

        Args:
            reason: the cause in words, for `Disconnected`.
        """
