"""A provider in memory: two queue pairs joined end to end, with no wire between them.

It obeys the rules that hardware obeys: a Send needs a posted receive of sufficient size, remote memory is reached only
through its protection domain, RDMA Reads wait for a free slot, work completes in the order of posting, and everything
is flushed when the connection ends. Data move when `progress` is called, one work request of each side in turn, so that
a run is reproducible to the step.
"""

# ruff: noqa: SLF001 - the two ends of a connection are one thing

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence

from rpcrdma.errors import LocalProtocolError, RemoteAccessError
from rpcrdma.verbs.memory import Access, MemoryRegion, SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import (
    Completion,
    ConnectRequested,
    Disconnected,
    Established,
    QueuePairEvent,
    Status,
    Verb,
)
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ReceiveSource, ScatteredBuffer
from rpcrdma.wire.buffers import Buffer, gather_length

__all__ = ["LoopbackQueuePair"]

_PLACED_AT_ONCE_OCTETS = 1 << 16
"""Late writes to abandoned memory are discarded in pieces of this size, see `SoftwareProtectionDomain.abandon`."""


class _State(enum.Enum):
    IDLE = "idle"
    CONNECTING = "connecting"
    REQUESTED = "requested"
    ACCEPTED = "accepted"
    ESTABLISHED = "established"
    CLOSED = "closed"


class _Work:
    """One entry of the send queue; `verb` None stands for an orderly disconnect."""

    __slots__ = (
        "ended",
        "gather",
        "handle",
        "length",
        "offset",
        "signaled",
        "sink",
        "sink_start",
        "status",
        "verb",
        "wr",
    )

    def __init__(self, wr: object, verb: Verb | None, gather: Sequence[Buffer] = (), *, signaled: bool = True) -> None:
        self.wr = wr
        self.verb = verb
        self.gather = gather
        self.signaled = signaled
        self.handle: int | None = None
        self.offset = 0
        self.length = 0
        self.sink: MemoryRegion | None = None
        self.sink_start = 0
        self.ended = False
        self.status = Status.SUCCESS


class LoopbackQueuePair:
    """One end of a connection in memory; made by `pair`."""

    def __init__(
        self, pd: SoftwareProtectionDomain, private_data: bytes, inbound_reads: int, outbound_reads: int
    ) -> None:
        self.pd = pd
        self.state = _State.IDLE
        self._private_data = private_data
        self._inbound_reads = inbound_reads
        self._outbound_reads = outbound_reads
        self._receives: deque[tuple[object, ReceiveBuffer]] = deque()
        self._shared_receives = 0
        self._receive_pool: ReceiveSource | None = None
        self._send_queue: deque[_Work] = deque()
        self._unreported: deque[_Work] = deque()
        self._reads_asked: deque[_Work] = deque()
        self.completions: deque[Completion] = deque()
        self.events: list[QueuePairEvent] = []
        self._peer: LoopbackQueuePair

    @staticmethod
    def pair(
        pd_a: SoftwareProtectionDomain,
        pd_b: SoftwareProtectionDomain,
        *,
        private_data: bytes = b"",
        inbound_reads: tuple[int, int] = (32, 32),
        outbound_reads: tuple[int, int] = (32, 32),
    ) -> tuple[LoopbackQueuePair, LoopbackQueuePair]:
        """An initiator, which connects with `private_data` at the first `progress`, and the end that it connects to.

        The limits of outstanding RDMA Reads are those of (initiator, responder).
        """
        initiator = LoopbackQueuePair(pd_a, private_data, inbound_reads[0], outbound_reads[0])
        responder = LoopbackQueuePair(pd_b, b"", inbound_reads[1], outbound_reads[1])
        initiator._peer = responder
        responder._peer = initiator
        initiator.state = _State.CONNECTING
        return initiator, responder

    @property
    def has_news(self) -> bool:
        """Whether there are completions or events to take."""
        return bool(self.completions or self.events)

    @property
    def ended(self) -> bool:
        """Whether the connection has ended, also where that event was not taken yet."""
        return self.state is _State.CLOSED

    @property
    def inbound_reads(self) -> int:
        """RDMA Reads that the peer may have outstanding."""
        return self._inbound_reads

    @property
    def outbound_reads(self) -> int:
        """RDMA Reads that this end may have outstanding."""
        return self._outbound_reads

    @property
    def receives_posted(self) -> int:
        """Messages that the peer may send now."""
        return len(self._receives) + self._shared_receives

    def post_receive(self, wr: object, buffer: memoryview) -> None:
        if self.state is _State.CLOSED:
            self.completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
        else:
            self._receives.append((wr, buffer))

    def post_receives(self, count: int, pool: ReceiveSource) -> None:
        if self.state is not _State.CLOSED:
            self._shared_receives += count
            self._receive_pool = pool

    def post_send(
        self, wr: object, gather: Sequence[Buffer], *, invalidate: int | None = None, signaled: bool = True
    ) -> None:
        work = _Work(wr, Verb.SEND, gather, signaled=signaled)
        work.handle = invalidate
        self._post(work)

    def post_write(
        self, wr: object, gather: Sequence[Buffer], handle: int, offset: int, *, signaled: bool = True
    ) -> None:
        work = _Work(wr, Verb.RDMA_WRITE, gather, signaled=signaled)
        work.handle = handle
        work.offset = offset
        self._post(work)

    def post_read(self, wr: object, sink: MemoryRegion, sink_start: int, length: int, handle: int, offset: int) -> None:
        work = _Work(wr, Verb.RDMA_READ)
        work.sink = sink
        work.sink_start = sink_start
        work.length = length
        work.handle = handle
        work.offset = offset
        self._post(work)

    def _post(self, work: _Work) -> None:
        if self.state is _State.CLOSED:
            assert work.verb is not None
            self.completions.append(Completion(work.wr, work.verb, Status.FLUSHED))
        else:
            self._send_queue.append(work)

    def accept(self, private_data: bytes) -> None:
        if self.state is not _State.REQUESTED:
            raise LocalProtocolError("no peer asks to be accepted")
        self._private_data = private_data
        self.state = _State.ACCEPTED

    def reject(self, private_data: bytes = b"") -> None:
        del private_data  # `Disconnected` has no field that could carry it to the peer
        if self.state is not _State.REQUESTED:
            raise LocalProtocolError("no peer asks to be rejected")
        self._end("rejected", by_peer=False)
        self._peer._end("the peer rejected the connection", by_peer=True)

    def disconnect(self) -> None:
        if self.state is _State.ESTABLISHED:
            self._send_queue.append(_Work(None, None))
        elif self.state is not _State.CLOSED:
            self.abort("disconnected before the connection was made")

    def abort(self, reason: str) -> None:
        self._end(reason, by_peer=False)
        self._peer._end("the peer ended the connection", by_peer=True)

    def progress(self, steps: int | None = None) -> bool:
        """Moves data in both directions until nothing moves any more, or for `steps` work requests of each side.

        Returns whether anything moved.
        """
        moved = False
        while steps is None or steps > 0:
            # Both sides always get their turn.
            if not (self._step() | self._peer._step()):
                break
            moved = True
            if steps is not None:
                steps -= 1
        return moved

    def _step(self) -> bool:
        peer = self._peer
        state = self.state
        if state is _State.ESTABLISHED:
            if peer._reads_asked:
                self._respond(peer._reads_asked.popleft())
                return True
            if peer.state is _State.ESTABLISHED and self._send_queue:
                return self._work(self._send_queue[0])
            return False
        if state is _State.CONNECTING and peer.state is _State.IDLE:
            peer.state = _State.REQUESTED
            peer.events.append(ConnectRequested(private_data=self._private_data))
            return True
        if state is _State.ACCEPTED:
            for end in (self, peer):
                end.state = _State.ESTABLISHED
                end._inbound_reads = min(end._inbound_reads, end._peer._outbound_reads)
            for end in (self, peer):
                end._outbound_reads = end._peer._inbound_reads
                end.events.append(
                    Established(
                        private_data=end._peer._private_data,
                        inbound_reads=end._inbound_reads,
                        outbound_reads=end._outbound_reads,
                    )
                )
            return True
        return False

    def _work(self, work: _Work) -> bool:
        peer = self._peer
        if work.verb is Verb.RDMA_READ:
            if len(self._reads_asked) >= self._outbound_reads:
                if not self._outbound_reads:
                    self._break("RDMA Read without a read slot", work)
                return not self._outbound_reads
            self._send_queue.popleft()
            self._unreported.append(work)
            self._reads_asked.append(work)
            return True
        self._send_queue.popleft()
        self._unreported.append(work)
        if work.verb is None:
            self._unreported.pop()
            self._end("disconnected", by_peer=False)
            peer._end("the peer disconnected", by_peer=True)
        elif work.verb is Verb.SEND:
            self._send(work)
        else:
            try:
                self._write(work)
            except RemoteAccessError as error:
                work.status = Status.REMOTE_ACCESS
                self._break(str(error), work)
        self._ended(work)
        return True

    def _send(self, work: _Work) -> None:
        peer = self._peer
        length = gather_length(work.gather)
        if not peer._receives and not peer._draw(length):
            self._break("receiver not ready: no receive is posted", work)
            return
        wr, buffer = peer._receives[0]
        if length > len(buffer):
            self._break(f"a message of {length} octets for a receive of {len(buffer)}", work)
            return
        if work.handle is not None and peer.pd.invalidate_handle(work.handle) is None:
            self._break(f"invalidation of unknown handle {work.handle:#010x}", work)
            return
        peer._receives.popleft()
        start = 0
        for piece in work.gather:
            if isinstance(buffer, ScatteredBuffer):
                buffer.write(start, piece)
            else:
                buffer[start : start + len(piece)] = piece
            start += len(piece)
        peer.completions.append(Completion(wr, Verb.RECEIVE, Status.SUCCESS, length, work.handle))
        work.length = length

    def _draw(self, length: int) -> bool:
        """Posts a receive with a buffer of the pool for so many octets; False if none of its receives is left."""
        if not self._shared_receives:
            return False
        assert self._receive_pool is not None
        self._shared_receives -= 1
        pool = self._receive_pool
        buffer: ReceiveBuffer = pool.take() if length <= pool.short_octets else pool.draw()
        self._receives.append((buffer, buffer))
        return True

    def _write(self, work: _Work) -> None:
        assert work.handle is not None
        work.length = gather_length(work.gather)
        if not work.length:
            return
        find = self._peer.pd.find
        find(work.handle, work.offset, work.length, Access.REMOTE_WRITE)
        offset = work.offset
        for piece in work.gather:
            view = memoryview(piece)
            for start in range(0, len(view), _PLACED_AT_ONCE_OCTETS):
                part = view[start : start + _PLACED_AT_ONCE_OCTETS]
                find(work.handle, offset, len(part), Access.REMOTE_WRITE)[:] = part
                offset += len(part)

    def _respond(self, work: _Work) -> None:
        """Answers the peer's RDMA Read `work`."""
        peer = self._peer
        sink = work.sink
        assert sink is not None
        assert work.handle is not None
        try:
            if work.length:
                data = self.pd.find(work.handle, work.offset, work.length, Access.REMOTE_READ)
                peer.pd.find(sink.handle, sink.offset + work.sink_start, work.length, Access.REMOTE_WRITE)[:] = data
        except RemoteAccessError as error:
            work.status = Status.REMOTE_ACCESS
            peer._break(str(error), work)
        peer._ended(work)

    def _ended(self, work: _Work) -> None:
        work.ended = True
        unreported = self._unreported
        while unreported and unreported[0].ended:
            done = unreported.popleft()
            if done.verb is not None and (done.signaled or done.status is not Status.SUCCESS):
                self.completions.append(Completion(done.wr, done.verb, done.status, done.length))

    def _break(self, reason: str, work: _Work) -> None:
        """Ends the connection because this side's work request is against the rules."""
        if work.status is Status.SUCCESS:
            work.status = Status.FLUSHED
        self._ended(work)
        self._end(reason, by_peer=False, protocol_error=True)
        self._peer._end(reason, by_peer=True, protocol_error=True)

    def _end(self, reason: str, *, by_peer: bool, protocol_error: bool = False) -> None:
        if self.state is _State.CLOSED:
            return
        self.state = _State.CLOSED
        for work in self._unreported:
            status = work.status if work.ended and work.status is not Status.SUCCESS else Status.FLUSHED
            if work.verb is not None:
                self.completions.append(Completion(work.wr, work.verb, status))
        for work in self._send_queue:
            if work.verb is not None:
                self.completions.append(Completion(work.wr, work.verb, Status.FLUSHED))
        for wr, _ in self._receives:
            self.completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
        self._unreported.clear()
        self._send_queue.clear()
        self._reads_asked.clear()
        self._receives.clear()
        self._shared_receives = 0
        self.events.append(Disconnected(reason=reason, by_peer=by_peer, protocol_error=protocol_error))
