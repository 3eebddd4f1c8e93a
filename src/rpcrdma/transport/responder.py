"""The responder: takes calls, reads their Read chunks, writes results into their Write and Reply chunks.

A call is reported when all of it is here. What its chunks hold is bounded: a call over its own bound is
refused, a call over the connection's bound waits, with only its header, until others have been answered. In the
reverse direction chunks may be left out altogether.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from rpcrdma.errors import LocalProtocolError, RpcRdmaError
from rpcrdma.transport.calls import IncomingCall
from rpcrdma.transport.channel import JOIN_OCTETS_MAX, Channel
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, WriteChunk, fill, split_gather
from rpcrdma.transport.credits import GrantedCredits
from rpcrdma.transport.events import CallArrived, ReplySent
from rpcrdma.transport.header_v1 import SHORT_HEADER_OCTETS
from rpcrdma.transport.plan_reply import ReplyForm, ReplyPlan, plan_reply
from rpcrdma.verbs.memory import Access
from rpcrdma.verbs.queue_pair import Status
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Payload, PlacedByPosition

__all__ = ["BufferSource", "PlainBuffers", "Responder"]

_CALL = 0
_OFFSET_END = 1 << 64
_SINK = Access.LOCAL_WRITE | Access.REMOTE_WRITE


class BufferSource(Protocol):
    """Where memory for Read chunks comes from."""

    def acquire(self, length: int) -> memoryview | None:
        """Writable memory of at least `length` octets; its content is unspecified.

        None: there is none at present; the call waits for `Endpoint.resume_pulls`.

        Raises:
            MemoryError, RpcRdmaError: there is none to be had; the call is then refused.
        """

    def release(self, view: memoryview) -> None:
        """Takes back what `acquire` gave: the very same view."""


class PlainBuffers:
    """New memory for each request."""

    __slots__ = ()

    def acquire(self, length: int) -> memoryview:
        return memoryview(bytearray(length))

    def release(self, view: memoryview) -> None:
        """Nothing to do: the memory goes when nobody refers to it."""


class Responder:
    """One direction's calls of the peer."""

    __slots__ = (
        "_buffers",
        "_channel",
        "_chunks",
        "_held_octets",
        "_reading",
        "_resuming",
        "_waiting",
        "credits",
        "reverse",
        "wanted_octets",
    )

    def __init__(
        self,
        channel: Channel,
        buffers: BufferSource,
        credits_granted: int,
        *,
        reverse: bool = False,
        chunks: bool = True,
    ) -> None:
        self.reverse = reverse
        self._channel = channel
        self._buffers = buffers
        self._chunks = chunks
        self.credits = GrantedCredits(credits_granted)
        self._held_octets = 0
        self.wanted_octets = 0
        """Of memory, that the first call in line waits for; 0 if none waits for memory."""
        self._waiting: deque[IncomingCall] = deque()
        self._resuming = False
        # In the order of arrival, in which RDMA Reads are answered.
        self._reading: dict[IncomingCall, None] = {}

    @property
    def pulling(self) -> IncomingCall | None:
        """The call whose RDMA Reads have been outstanding for the longest time."""
        return next(iter(self._reading), None)

    def on_call(self, xid: int, chunks: ChunkLists, data: Buffer, start: int, *, long: bool) -> None:
        """Takes a decoded call; `data[start:]` is what came inline."""
        channel = self._channel
        if not self.credits.on_call():
            channel.violation(f"more than the {self.credits.granted} calls that credits allow")
            return
        if not channel.backlog_allowed(self.credits.granted):
            channel.violation("the peer does not read its replies")
            return
        incoming = IncomingCall(xid, chunks)
        if self.reverse:
            channel.statistics.reverse_calls += 1
        if chunks is not NO_CHUNKS and (not self._chunks or not _addressable(chunks)):
            # An empty Write chunk is an entry of its list, too (RFC 8167 section 5.3).
            self.fail_call(incoming)
            return
        if not chunks.reads:
            incoming.decoder = Decoder(data, start)
            channel.events.append(CallArrived(incoming))
            return
        incoming.long = long
        incoming.decoder = Decoder(data, start)
        if not _well_placed(chunks.reads, None if long else len(data) - start):
            self.fail_call(incoming)
            return
        held = sum((chunk.length + 3) & ~3 for chunk in chunks.reads)
        if held > channel.config.call_octets_pulled_max:
            self.fail_call(incoming)
            return
        incoming.held_octets = held
        self._waiting.append(incoming)
        if len(self._waiting) == 1:
            self.resume()

    def refuse(self, message: bytes) -> None:
        """Answers a message that is no call to be counted with an RDMA_ERROR, if the peer reads such answers at all."""
        channel = self._channel
        if not channel.backlog_allowed(self.credits.granted):
            channel.violation("the peer does not read its errors")
            return
        self.post_receives()
        channel.statistics.errors_sent += 1
        channel.send([message])

    def post_receives(self) -> None:
        """Posts the receives that the grant promises."""
        self._channel.calls_expected = self.credits.granted
        self._channel.post_receives()

    def _pull(self, incoming: IncomingCall) -> bool:
        """Posts the RDMA Reads of a call, all into one sink, each chunk at a multiple of four; False without memory."""
        channel = self._channel
        held = incoming.held_octets
        if held:
            try:
                incoming.sink = self._buffers.acquire(held)
                if incoming.sink is None:
                    return False
                self._held_octets += held
                incoming.sink_region = region = channel.pd.register(incoming.sink[:held], _SINK)
            except (RpcRdmaError, MemoryError):
                if incoming.sink is None:
                    incoming.held_octets = 0
                self.fail_call(incoming)
                return True
            channel.statistics.registrations += 1
            self._reading[incoming] = None
            start = 0
            for chunk in incoming.chunks.reads:
                at = start
                for handle, length, offset in chunk.segments:
                    if length:
                        incoming.pending_reads += 1
                        channel.qp.post_read(incoming, region, at, length, handle, offset)
                        at += length
                start += (chunk.length + 3) & ~3
            channel.statistics.rdma_reads += incoming.pending_reads
            channel.statistics.octets_read += held
        if not incoming.pending_reads:
            self._deliver(incoming)
        return True

    def on_read(self, incoming: IncomingCall, status: Status) -> None:
        """One RDMA Read of a call has ended."""
        # After a failed one the connection ends, and `on_closed` clears up.
        if status is Status.SUCCESS and incoming in self._reading:
            incoming.pending_reads -= 1
            if not incoming.pending_reads:
                self._deliver(incoming)

    def _deliver(self, incoming: IncomingCall) -> None:
        channel = self._channel
        self._reading.pop(incoming, None)
        if incoming.sink_region is not None:
            channel.pd.invalidate(incoming.sink_region)
            incoming.sink_region = None
        sink = memoryview(b"") if incoming.sink is None else incoming.sink
        placed: dict[int, memoryview] = {}
        start = 0
        for chunk in incoming.chunks.reads:
            length = chunk.length
            placed[chunk.position] = sink[start : start + length]
            start += (length + 3) & ~3
        statistics = channel.statistics
        if incoming.long:
            stream = placed.pop(0)
            if len(stream) < 8 or int.from_bytes(stream[:4]) != incoming.xid or int.from_bytes(stream[4:8]) != _CALL:
                self.fail_call(incoming)
                return
            statistics.calls_long += 1
            incoming.decoder = Decoder(stream, placed=PlacedByPosition(placed) if placed else None)
        else:
            incoming.decoder.placed = PlacedByPosition(placed)
        if placed:
            statistics.calls_read_chunk += 1
        channel.events.append(CallArrived(incoming))

    def reply(self, incoming: IncomingCall, payload: Payload) -> bool:
        """Answers a call. True if the payload's buffers are in use until `ReplySent`, False if they are free already.

        Raises:
            LocalProtocolError: the call has been answered.
        """
        self._answer(incoming)
        try:
            channel = self._channel
            if not channel.ready:
                self._release(incoming)
                return False
            chunks = incoming.chunks
            statistics = channel.statistics
            reduced = payload.reduced
            if (
                not payload.items
                and not chunks.writes
                and chunks.reply is None
                and SHORT_HEADER_OCTETS + len(reduced) <= min(channel.send_octets, JOIN_OCTETS_MAX)
            ):
                if not chunks.reads:
                    statistics.calls_short += 1
                header = channel.dialect.encode_message(incoming.xid, self.credits.granted, NO_CHUNKS, long=False)
                self._send(incoming, [header + reduced], wait=False)
                self._release(incoming)
                return False
            plan = plan_reply(len(reduced), [len(item.data) for item in payload.items], chunks, channel.send_octets)
            if plan.form is ReplyForm.REFUSED:
                incoming.refusal = plan.reason
                self._refuse_call(incoming)
                return False
            self._send(incoming, self._place(incoming, payload, plan), wait=True)
        except Exception:
            self._give_up(incoming)
            raise
        return True

    def _place(self, incoming: IncomingCall, payload: Payload, plan: ReplyPlan) -> list[Buffer]:
        """Posts the RDMA Writes of a reply and returns its message."""
        chunks = incoming.chunks
        statistics = self._channel.statistics
        echo: list[WriteChunk] = []
        for chunk, index in zip(chunks.writes, plan.placed, strict=True):
            if index is None:
                echo.append(fill(chunk, 0))
            else:
                data = payload.items[index].data
                self._write([data], chunk)
                echo.append(fill(chunk, len(data)))
        gather = payload.gather([payload.items[index] for index in plan.placed if index is not None])
        long = plan.form is ReplyForm.LONG
        reply = chunks.reply
        if reply is not None:
            if long:
                self._write(gather, reply)
            reply = fill(reply, sum(map(len, gather)) if long else 0)
        if long:
            gather = []
            statistics.replies_long += 1
        if chunks.writes:
            statistics.calls_write_chunk += 1
        elif not long and not chunks.reads:
            statistics.calls_short += 1
        lists = ChunkLists((), tuple(echo), reply) if echo or reply is not None else NO_CHUNKS
        header = self._channel.dialect.encode_message(incoming.xid, self.credits.granted, lists, long=long)
        return [header, *gather]

    def _write(self, gather: list[Buffer], chunk: WriteChunk) -> None:
        channel = self._channel
        for segment, part in split_gather(gather, chunk.segments):
            channel.statistics.rdma_writes += 1
            channel.statistics.octets_written += sum(map(len, part))
            channel.qp.post_write(None, part, segment.handle, segment.offset, signaled=False)

    def _send(self, incoming: IncomingCall, message: list[Buffer], *, wait: bool) -> None:
        channel = self._channel
        self.credits.on_answer()
        channel.statistics.calls += 1
        # The receives that this grant promises, before it is sent (RFC 8166 section 3.3.1).
        self.post_receives()
        invalidate = None
        if channel.remote_invalidation and incoming.chunks is not NO_CHUNKS:
            invalidate = _any_handle(incoming.chunks)
            if invalidate is not None:
                channel.statistics.remote_invalidations += 1
        channel.send(message, invalidate=invalidate, incoming=incoming if wait else None)

    def on_sent(self, incoming: IncomingCall) -> None:
        """The Send of a reply has ended."""
        self._release(incoming)
        self._channel.events.append(ReplySent(incoming))

    def fail_call(self, incoming: IncomingCall) -> None:
        """Answers with ERR_CHUNK.

        Raises:
            LocalProtocolError: the call has been answered.
        """
        self._answer(incoming)
        try:
            self._refuse_call(incoming)
        except Exception:
            self._give_up(incoming)
            raise

    def _give_up(self, incoming: IncomingCall) -> None:
        """Nothing can be made or sent as the answer to a call: the connection ends (RFC 8166 section 4.5.4)."""
        self._channel.qp.abort("a call could not be answered")
        self._release(incoming)

    def drop(self, incoming: IncomingCall) -> None:
        """Never answers: the requester loses one credit.

        Raises:
            LocalProtocolError: the call has been answered.
        """
        self._answer(incoming)
        self._release(incoming)

    def _refuse_call(self, incoming: IncomingCall) -> None:
        channel = self._channel
        if channel.ready:
            self.credits.on_answer()
            channel.statistics.calls += 1
            channel.statistics.calls_failed += 1
            self.refuse(channel.dialect.encode_chunk_refused(incoming.xid, self.credits.granted))
        self._release(incoming)

    def _answer(self, incoming: IncomingCall) -> None:
        if incoming.answered:
            raise LocalProtocolError(f"the call with XID {incoming.xid:#010x} has been answered")
        incoming.answered = True

    def _release(self, incoming: IncomingCall) -> None:
        sink = incoming.sink
        if sink is not None:
            incoming.sink = None
            self._buffers.release(sink)
        if incoming.held_octets and incoming not in self._reading:
            self._held_octets -= incoming.held_octets
            incoming.held_octets = 0
        if self._waiting:
            self.resume()

    def resume(self) -> None:
        """Pulls for waiting calls as far as the connection's bound and the memory there is allow."""
        # A call that is refused when its turn comes is released from here: one loop sees to all that wait.
        if self._resuming:
            return
        self._resuming = True
        waiting, channel = self._waiting, self._channel
        self.wanted_octets = 0
        while waiting and channel.ready:
            incoming = waiting[0]
            if self._held_octets + incoming.held_octets > channel.config.connection_octets_pulled_max:
                break
            if not self._pull(incoming):
                self.wanted_octets = incoming.held_octets
                break
            waiting.popleft()
        self._resuming = False

    def on_closed(self) -> None:
        """Calls that are not whole are dropped; those that were reported keep their memory until they are answered."""
        self._waiting.clear()
        self.wanted_octets = 0
        reading = list(self._reading)
        self._reading.clear()
        for incoming in reading:
            incoming.answered = True
            if incoming.sink_region is not None:
                try:
                    self._channel.pd.invalidate(incoming.sink_region)
                except RpcRdmaError:
                    # The provider may still write there: the memory is not given back for reuse.
                    incoming.sink = None
            self._release(incoming)


def _any_handle(chunks: ChunkLists) -> int | None:
    """A handle of the call for Send with Invalidate: that of the memory that the requester needs first."""
    for write in chunks.writes:
        if write.segments:
            return write.segments[0].handle
    if chunks.reply is not None and chunks.reply.segments:
        return chunks.reply.segments[0].handle
    for read in chunks.reads:
        return read.segments[0].handle
    return None


def _addressable(chunks: ChunkLists) -> bool:
    """Whether every segment ends within the 64-bit offsets that RDMA knows: no work could be posted for another one."""
    for read in chunks.reads:
        for _, length, offset in read.segments:
            if offset + length > _OFFSET_END:
                return False
    for write in chunks.writes if chunks.reply is None else (*chunks.writes, chunks.reply):
        for _, length, offset in write.segments:
            if offset + length > _OFFSET_END:
                return False
    return True


def _well_placed(reads: tuple[ReadChunk, ...], inline: int | None) -> bool:
    """Whether Read chunks stand side by side in the unreduced stream, and within it.

    `inline` is the length of the reduced stream; None where it is in the Position-Zero chunk.
    """
    end = 0
    taken = 0
    for chunk in sorted(reads):
        length = chunk.length
        if chunk.position == 0:
            if inline is not None:
                return False
            inline = length
            continue
        if chunk.position < end or inline is None or chunk.position - taken > inline:
            return False
        taken += (length + 3) & ~3
        end = chunk.position + ((length + 3) & ~3)
    return inline is not None
