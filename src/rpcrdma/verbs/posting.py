"""The posting half of queue pairs in memory: posted work and receives, and their flush when the connection ends."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence

from rpcrdma.verbs.protection_domain import MemoryRegion
from rpcrdma.verbs.queue_pair import Completion, Disconnected, QueuePairEvent, Status, Verb
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ReceiveSource, ScatteredBuffer
from rpcrdma.wire.buffers import Buffer, gather_length

__all__ = ["EndState", "PostedWork", "PostingQueuePair", "ReceiveQueue"]


class EndState(enum.Enum):
    """The state of one end of a connection in memory or over a device."""

    IDLE = "idle"
    """This end has neither asked for the connection nor received the peer's request."""
    CONNECTING = "connecting"
    """This end has asked for the connection."""
    REQUESTED = "requested"
    """The peer has asked for the connection; `accept` or `reject` is due."""
    ACCEPTED = "accepted"
    """`accept` was called; `Established` follows."""
    ESTABLISHED = "established"
    CLOSED = "closed"


class PostedWork:
    """One entry of the send queue; `verb` None stands for an orderly disconnect.

    `wr` is the identifier that the completion repeats; work that is not `signaled` completes only if it fails. `handle`
    and `offset` name the peer's memory; for a Send, `handle` is the one to invalidate, or None. An RDMA Read fills
    `sink` from index `sink_start` on. `ended`: the work is done or has failed, but its completion may wait for earlier
    work. `ready_s` and `cause` belong to a provider that simulates: the virtual time of the posting in seconds, before
    which the work does not begin, and the number of the trace's event for the posting, -1 without a trace.
    """

    __slots__ = (
        "cause", "ended", "gather", "handle", "length", "offset", "ready_s", "signaled", "sink", "sink_start", "status",
        "verb", "wr",
    )  # fmt: skip

    def __init__(self, wr: object, verb: Verb | None, gather: Sequence[Buffer] = (), *, signaled: bool = True) -> None:
        self.wr = wr
        self.verb = verb
        self.gather = gather
        self.signaled = signaled
        self.handle: int | None = None
        self.offset = 0
        self.length = gather_length(gather)
        self.sink: MemoryRegion | None = None
        self.sink_start = 0
        self.ended = False
        self.status = Status.SUCCESS
        self.ready_s = 0.0
        self.cause = -1


class ReceiveQueue:
    """The posted receives of one queue pair, the oldest first; receives with memory of a pool come last."""

    __slots__ = ("_own", "_pool", "_shared")

    def __init__(self) -> None:
        self._own: deque[tuple[object, ReceiveBuffer]] = deque()
        self._shared = 0
        self._pool: ReceiveSource | None = None

    def __len__(self) -> int:
        return len(self._own) + self._shared

    def post(self, wr: object, buffer: ReceiveBuffer) -> None:
        """Posts a receive with a buffer of its own; `wr` is the identifier that its completion repeats."""
        self._own.append((wr, buffer))

    def post_shared(self, count: int, pool: ReceiveSource) -> None:
        """Posts `count` receives whose buffers are taken from `pool` when messages arrive."""
        self._shared += count
        self._pool = pool

    def next_for(self, length: int) -> tuple[object, ReceiveBuffer] | None:
        """Returns (identifier, buffer) of the receive for a message of `length` octets; None if no receive is posted.

        A receive without a buffer takes one for this length from the pool; that buffer is its identifier as well. The
        receive stays posted, and further calls return the same pair, until `take`.
        """
        if not self._own:
            if not self._shared:
                return None
            assert self._pool is not None
            self._shared -= 1
            buffer: ReceiveBuffer = self._pool.take() if length <= self._pool.short_octets else self._pool.draw()
            self._own.append((buffer, buffer))
        return self._own[0]

    def fill(self, gather: Sequence[Buffer]) -> None:
        """Copies the octets of `gather`, which must fit, to the start of the buffer that `next_for` has returned."""
        _, buffer = self._own[0]
        start = 0
        for piece in gather:
            if isinstance(buffer, ScatteredBuffer):
                buffer.write(start, piece)
            else:
                buffer[start : start + len(piece)] = piece
            start += len(piece)

    def take(self) -> None:
        """Removes the receive that `next_for` has returned."""
        self._own.popleft()

    def flush(self) -> list[object]:
        """Removes all receives; returns the identifiers of those that have a buffer, for flushed completions.

        Receives whose buffer is not yet taken from the pool are dropped.
        """
        flushed = [wr for wr, _ in self._own]
        self._own.clear()
        self._shared = 0
        return flushed


class PostingQueuePair:
    """The half of a queue pair in memory that takes work and receives; after the end, all work completes as flushed.

    `_unreported` is the work that has begun, in the order of posting. A subclass moves work there from `_send_queue`.
    """

    def __init__(self, inbound_reads: int, outbound_reads: int) -> None:
        self.inbound_reads = inbound_reads
        """RDMA Reads that the peer may have outstanding."""
        self.outbound_reads = outbound_reads
        """RDMA Reads that this end may have outstanding."""
        self.ended = False
        """Whether the connection has ended, also where that event was not taken yet."""
        self.completions: deque[Completion] = deque()
        self.events: list[QueuePairEvent] = []
        self._receives = ReceiveQueue()
        self._send_queue: deque[PostedWork] = deque()
        self._unreported: deque[PostedWork] = deque()

    @property
    def has_news(self) -> bool:
        """Whether there are completions or events that the owner has not taken."""
        return bool(self.completions or self.events)

    @property
    def receives_posted(self) -> int:
        """The number of posted receives: the messages that the peer may send now."""
        return len(self._receives)

    def post_receive(self, wr: object, buffer: memoryview) -> None:
        if self.ended:
            self.completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
        else:
            self._receives.post(wr, buffer)

    def post_receives(self, count: int, pool: ReceiveSource) -> None:
        if not self.ended:
            self._receives.post_shared(count, pool)

    def post_send(
        self, wr: object, gather: Sequence[Buffer], *, invalidate: int | None = None, signaled: bool = True
    ) -> None:
        work = PostedWork(wr, Verb.SEND, gather, signaled=signaled)
        work.handle = invalidate
        self._post(work)

    def post_write(
        self, wr: object, gather: Sequence[Buffer], handle: int, offset: int, *, signaled: bool = True
    ) -> None:
        work = PostedWork(wr, Verb.RDMA_WRITE, gather, signaled=signaled)
        work.handle = handle
        work.offset = offset
        self._post(work)

    def post_read(self, wr: object, sink: MemoryRegion, sink_start: int, length: int, handle: int, offset: int) -> None:
        work = PostedWork(wr, Verb.RDMA_READ)
        work.sink = sink
        work.sink_start = sink_start
        work.length = length
        work.handle = handle
        work.offset = offset
        self._post(work)

    def _post(self, work: PostedWork) -> None:
        if self.ended:
            assert work.verb is not None
            self.completions.append(Completion(work.wr, work.verb, Status.FLUSHED))
        else:
            self._enqueue(work)

    def _enqueue(self, work: PostedWork) -> None:
        self._send_queue.append(work)

    def _flush(self, reason: str, *, by_peer: bool, protocol_error: bool) -> None:
        """Completes all work and the receives with buffers, as flushed or with their error, and reports `Disconnected`.

        `reason`: the cause in words. `by_peer`: whether the peer ended the connection. `protocol_error`: whether one
        side broke a rule.
        """
        self.ended = True
        completions = self.completions
        for work in (*self._unreported, *self._send_queue):
            if work.verb is not None:
                status = Status.FLUSHED if work.status is Status.SUCCESS else work.status
                completions.append(Completion(work.wr, work.verb, status))
        completions.extend(Completion(wr, Verb.RECEIVE, Status.FLUSHED) for wr in self._receives.flush())
        self._unreported.clear()
        self._send_queue.clear()
        self.events.append(Disconnected(reason=reason, by_peer=by_peer, protocol_error=protocol_error))
