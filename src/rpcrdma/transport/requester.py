"""The requester: sends calls, exposes their memory, takes replies; in the forward direction or in the reverse one.

A call waits for a credit, is planned (`plan_call`), has its memory registered, and is sent. Its memory is invalidated
before its reply is reported, whatever the reply is. An abandoned call's memory is fenced at once, while its credit is
held until the reply comes or the connection ends: the responder may still be working on it.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence

from rpcrdma.errors import DecodeError, LocalProtocolError, RemoteProtocolError, RpcRdmaError, TransportClosed
from rpcrdma.transport.calls import CallHandle, CallState
from rpcrdma.transport.channel import JOIN_OCTETS_MAX, Channel
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk, merge_small, segments_of
from rpcrdma.transport.credits import RequestedCredits
from rpcrdma.transport.events import CallFailed, ReplyArrived
from rpcrdma.transport.header_v1 import SHORT_HEADER_OCTETS, size_chunks
from rpcrdma.transport.message_bounds import ReplyBound
from rpcrdma.transport.plan_call import REPLY_ALLOWANCE_OCTETS, CallPlan, PlanLimits, plan_call
from rpcrdma.verbs.memory import Access, MemoryRegion
from rpcrdma.wire.buffers import Buffer, as_view
from rpcrdma.xdr.codec import Decoder, Payload, PlacedInOrder

__all__ = ["Requester"]


class _ResultDecoder(Decoder):
    """Decodes a reply whose caller named buffers for results that may nevertheless come inline."""

    __slots__ = ("_into", "_taken")

    def __init__(self, data: Buffer, start: int, placed: PlacedInOrder | None, into: Sequence[Buffer | None]) -> None:
        super().__init__(data, start, placed=placed)
        self._into = into
        self._taken = 0

    def bulk(self, limit: int, field: str) -> memoryview:
        before = self.pos
        data = super().bulk(limit, field)
        index = self._taken
        self._taken = index + 1
        # The length word alone was read: the data were placed.
        if self.pos == before + 4 or index >= len(self._into):
            return data
        buffer = self._into[index]
        if buffer is None:
            return data
        target = as_view(buffer)
        if len(data) > len(target):
            raise DecodeError(field, before - self.start, f"at most {len(target)} octets", f"{len(data)}")
        target[: len(data)] = data
        return target[: len(data)]


class Requester:
    """One direction's calls of this side."""

    __slots__ = ("_calls", "_channel", "_chunks", "_plan_limits", "_queue", "credits")

    def __init__(self, channel: Channel, credits_requested: int, *, chunks: bool = True) -> None:
        self._channel = channel
        self._chunks = chunks
        self._calls: dict[int, CallHandle] = {}
        self._queue: deque[CallHandle] = deque()
        self.credits = RequestedCredits(credits_requested)
        self._plan_limits = self._limits()

    def _limits(self) -> PlanLimits:
        config = self._channel.config
        return PlanLimits(
            self._channel.send_octets,
            self._channel.receive_octets,
            config.segment_octets_max,
            config.direct_octets_min,
            config.read_chunks_max,
        )

    def on_ready(self) -> None:
        """The connection stands: thresholds are known."""
        self._plan_limits = self._limits()
        self._drain()

    def call(self, xid: int, payload: Payload, bound: ReplyBound, into: Sequence[Buffer | None]) -> CallHandle:
        """Sends a call as soon as credits allow.

        Raises:
            LocalProtocolError: the XID is in use, a buffer is unfit, the call is too complex for its header, or it
                needs chunks where there are none.
        """
        if xid in self._calls:
            raise LocalProtocolError(f"a call with XID {xid:#010x} is outstanding")
        handle = CallHandle(xid, payload, bound, into)
        if self._queue or self.credits.available <= 0 or not self._channel.ready:
            self._queue.append(handle)
        else:
            self._launch(handle)
        self._calls[xid] = handle
        return handle

    def abandon(self, handle: CallHandle) -> None:
        """Nobody waits for the reply any more; its memory is fenced when this returns."""
        if handle.state is CallState.QUEUED:
            handle.state = CallState.DONE
            del self._calls[handle.xid]
            # Or they would pile up where a peer answers nothing. The oldest come first, and time out first.
            self._queue.remove(handle)
        elif handle.state is CallState.SENT:
            handle.state = CallState.ABANDONED
            pd = self._channel.pd
            for region in handle.read_regions:
                pd.invalidate(region)
            for region in handle.write_regions:
                pd.abandon(region)
            if handle.reply_region is not None:
                pd.abandon(handle.reply_region)
            self._channel.statistics.calls_abandoned += 1
        else:
            return
        handle.payload = None
        handle.into = ()
        handle.buffers = ()

    def _drain(self) -> None:
        queue = self._queue
        while queue and self.credits.available > 0 and self._channel.ready:
            handle = queue.popleft()
            try:
                self._launch(handle)
            except LocalProtocolError as error:
                handle.state = CallState.DONE
                del self._calls[handle.xid]
                self._channel.events.append(CallFailed(handle, error))

    def _launch(self, handle: CallHandle) -> None:
        payload = handle.payload
        assert payload is not None
        channel = self._channel
        bound = handle.bound
        reduced = payload.reduced
        if (
            not payload.items
            and not bound.items
            and SHORT_HEADER_OCTETS + len(reduced) <= channel.send_octets
            and SHORT_HEADER_OCTETS + REPLY_ALLOWANCE_OCTETS + bound.results <= channel.receive_octets
        ):
            header = channel.dialect.encode_message(handle.xid, self.credits.requested, NO_CHUNKS, long=False)
            gather: list[Buffer] = [header + reduced] if len(reduced) <= JOIN_OCTETS_MAX else [header, reduced]
        elif self._chunks:
            gather = self._expose(handle, payload)
        else:
            gather = self._inline(handle, payload)
        handle.state = CallState.SENT
        self.credits.in_flight += 1
        channel.replies_expected = self.credits.in_flight
        # A receive for each reply that is now expected, before it can come (RFC 8166 section 3.3.1).
        channel.post_receives()
        channel.send(gather)

    def _inline(self, handle: CallHandle, payload: Payload) -> list[Buffer]:
        """The Short Call of a direction without chunks, whose reply is sure to be short as well."""
        channel = self._channel
        bound = handle.bound
        call = SHORT_HEADER_OCTETS + payload.length
        reply = SHORT_HEADER_OCTETS + REPLY_ALLOWANCE_OCTETS + bound.results
        reply += sum((length + 3) & ~3 for length in bound.items)
        if call > channel.send_octets or reply > channel.receive_octets:
            raise LocalProtocolError(
                f"a call of {call} octets with a reply of up to {reply} needs chunks: without them the limits are "
                f"{channel.send_octets} and {channel.receive_octets}"
            )
        header = channel.dialect.encode_message(handle.xid, self.credits.requested, NO_CHUNKS, long=False)
        return [header, *payload.gather()]

    def _expose(self, handle: CallHandle, payload: Payload) -> list[Buffer]:
        """Plans the call, registers its memory and returns the message."""
        sizes = list(handle.bound.items)
        for index, buffer in enumerate(handle.into[: len(sizes)]):
            if buffer is not None:
                sizes[index] = min(sizes[index], len(as_view(buffer)))
        items = payload.items
        plan = plan_call(
            len(payload.reduced), [len(item.data) for item in items], handle.bound.results, sizes, self._plan_limits
        )
        handle.plan = plan
        regions: list[MemoryRegion] = []
        try:
            header, inline = self._register(handle, payload, plan, regions)
            echoed = SHORT_HEADER_OCTETS + size_chunks(ChunkLists((), tuple(handle.write_chunks), handle.reply_chunk))
            if len(header) > self._channel.send_octets or echoed > self._channel.receive_octets:
                raise LocalProtocolError(
                    f"a transport header of {max(len(header), echoed)} octets: use larger segments or fewer items"
                )
        except RpcRdmaError:
            self._channel.statistics.calls_unsendable += 1
            for region in regions:
                self._channel.pd.invalidate(region)
            raise
        statistics = self._channel.statistics
        statistics.registrations += len(regions)
        if plan.long:
            statistics.calls_long += 1
        if plan.read_items:
            statistics.calls_read_chunk += 1
        if plan.write_chunks:
            statistics.calls_write_chunk += 1
            for chunk in handle.write_chunks:
                statistics.segments_write += len(chunk.segments)
        if handle.reply_chunk is not None:
            statistics.segments_reply += len(handle.reply_chunk.segments)
            statistics.octets_offered += plan.reply_chunk
        for region in handle.write_regions:
            statistics.octets_offered += region.length
        if inline and len(items) > len(plan.read_items):
            # Items that travel inline are copied: they may be sent after the call was abandoned, and its caller's
            # memory is no longer what it was then.
            return [b"".join((header, *inline))]
        return [header, *inline]

    def _register(
        self, handle: CallHandle, payload: Payload, plan: CallPlan, regions: list[MemoryRegion]
    ) -> tuple[bytes, list[Buffer]]:
        register = self._channel.pd.register
        segment_max = self._plan_limits.segment_octets_max
        moved = [payload.items[index] for index in plan.read_items]
        inline = payload.gather(moved)
        reads: list[ReadChunk] = []
        if plan.long:
            stream: list[Segment] = []
            for buffer in merge_small(inline, self._plan_limits.direct_octets_min):
                region = register(buffer, Access.REMOTE_READ)
                regions.append(region)
                stream += segments_of(region, segment_max)
            reads.append(ReadChunk(0, tuple(stream)))
            inline = []
        for item in moved:
            region = register(item.data, Access.REMOTE_READ)
            regions.append(region)
            reads.append(ReadChunk(item.position, segments_of(region, segment_max)))
        handle.read_regions = tuple(regions)

        writes: list[WriteChunk] = []
        buffers: list[memoryview | None] = []
        for index, size in enumerate(plan.write_chunks):
            if not size:
                writes.append(WriteChunk(()))
                buffers.append(None)
                continue
            into = handle.into[index] if index < len(handle.into) else None
            target = memoryview(bytearray(size)) if into is None else as_view(into)[:size]
            region = register(target, Access.REMOTE_WRITE)
            regions.append(region)
            writes.append(WriteChunk(segments_of(region, segment_max)))
            buffers.append(target)
        handle.write_regions = tuple(regions[len(handle.read_regions) :])
        handle.write_chunks = writes
        handle.buffers = buffers

        if plan.reply_chunk:
            region = register(bytearray(plan.reply_chunk), Access.REMOTE_WRITE)
            regions.append(region)
            handle.reply_region = region
            handle.reply_chunk = WriteChunk(segments_of(region, segment_max))
        for chunk in reads:
            self._channel.statistics.segments_read += len(chunk.segments)
        chunks = ChunkLists(tuple(reads), tuple(writes), handle.reply_chunk)
        encode = self._channel.dialect.encode_message
        return encode(handle.xid, self.credits.requested, chunks, long=plan.long), inline

    def on_reply(
        self,
        xid: int,
        granted: int,
        chunks: ChunkLists,
        data: Buffer,
        start: int,
        *,
        long: bool,
        invalidated: int | None,
    ) -> bool:
        """Takes a decoded reply; `data[start:]` is what came inline. False where no call waits for it."""
        handle = self._calls.get(xid)
        if handle is None or handle.state is CallState.QUEUED:
            self._channel.statistics.bad_xids += 1
            return False
        if invalidated is not None and not self._accept_invalidation(handle, invalidated):
            return True
        reply_view = handle.reply_region.view if handle.reply_region is not None else None
        abandoned = handle.state is CallState.ABANDONED
        if not self._finish(handle):
            return True
        self.credits.on_grant(granted)
        if not abandoned:
            try:
                decoder = self._open(handle, chunks, data, start, reply_view if long else None, long=long)
            except RemoteProtocolError as error:
                self._channel.statistics.calls_failed += 1
                self._channel.statistics.bad_replies += 1
                self._channel.events.append(CallFailed(handle, error))
            else:
                self._channel.events.append(ReplyArrived(handle, decoder))
        if self._queue:
            self._drain()
        return True

    def on_refused(self, xid: int, error: RpcRdmaError, *, invalidated: int | None) -> bool:
        """Takes an RDMA_ERROR; its credits mean nothing (RFC 8167 section 4.1). False where no call waits for it."""
        handle = self._calls.get(xid)
        if handle is None or handle.state is CallState.QUEUED:
            self._channel.statistics.bad_xids += 1
            return False
        if invalidated is not None and not self._accept_invalidation(handle, invalidated):
            return True
        abandoned = handle.state is CallState.ABANDONED
        if not self._finish(handle):
            return True
        self._channel.statistics.calls_failed += 1
        if not abandoned:
            self._channel.events.append(CallFailed(handle, error))
        self._drain()
        return True

    def on_closed(self, reason: str, *, protocol_error: bool = False) -> None:
        """Ends every call: no peer can touch its memory any more."""
        calls = list(self._calls.values())
        self._calls.clear()
        self._queue.clear()
        for handle in calls:
            for region in handle.regions:
                # If that fails, which may be why the connection has ended, the call must still be told of.
                with contextlib.suppress(RpcRdmaError):
                    self._channel.pd.invalidate(region)
            if handle.state is not CallState.ABANDONED:
                handle.state = CallState.DONE
                self._channel.events.append(CallFailed(handle, TransportClosed(reason, protocol_error=protocol_error)))

    def _accept_invalidation(self, handle: CallHandle, invalidated: int) -> bool:
        channel = self._channel
        # The peer need not have announced the ability itself: Linux servers use it where the client allows it.
        if not channel.config.remote_invalidation:
            channel.violation("the peer used Send with Invalidate, which was not agreed on")
            return False
        if all(region.handle != invalidated for region in handle.regions):
            channel.violation(f"the peer invalidated handle {invalidated:#010x}, which the call did not expose")
            return False
        channel.statistics.remote_invalidations += 1
        return True

    def _finish(self, handle: CallHandle) -> bool:
        """Ends the exposure of the call's memory; False if that fails, and with it the connection."""
        if handle.read_regions or handle.write_regions or handle.reply_region is not None:
            try:
                for region in handle.regions:
                    self._channel.pd.invalidate(region)
            except RpcRdmaError as error:
                # RFC 8166 section 4.5.4: the connection goes before the call completes.
                self._channel.violation(f"memory cannot be invalidated: {error}")
                return False
        del self._calls[handle.xid]
        handle.state = CallState.DONE
        handle.payload = None
        self.credits.in_flight -= 1
        self._channel.replies_expected = self.credits.in_flight
        self._channel.statistics.calls += 1
        return True

    def _open(
        self,
        handle: CallHandle,
        chunks: ChunkLists,
        data: Buffer,
        start: int,
        reply_view: memoryview | None,
        *,
        long: bool,
    ) -> Decoder:
        """The decoder of a reply whose chunks are as they must be.

        Raises:
            RemoteProtocolError: they are not.
        """
        offered = handle.write_chunks
        offered_reply = handle.reply_chunk
        statistics = self._channel.statistics
        if not long and not offered and not handle.read_regions:
            statistics.calls_short += 1
        if chunks is NO_CHUNKS and not offered and not long:
            return _ResultDecoder(data, start, None, handle.into) if handle.into else Decoder(data, start)
        if chunks.reads:
            raise RemoteProtocolError("a reply with a Read list", rfc="8166 4.3.1")
        if len(chunks.writes) != len(offered):
            raise RemoteProtocolError(
                f"{len(offered)} Write chunks were offered, {len(chunks.writes)} returned", rfc="8166 4.3.2"
            )
        placed: list[memoryview | None] = []
        for mine, theirs, buffer in zip(offered, chunks.writes, handle.buffers, strict=True):
            length = _returned_length(mine, theirs, "Write chunk")
            statistics.octets_returned += length
            placed.append(None if buffer is None else buffer[:length])
        if chunks.reply is not None:
            if offered_reply is None:
                raise RemoteProtocolError("a Reply chunk that was not offered", rfc="8166 4.3.3")
            length = _returned_length(offered_reply, chunks.reply, "Reply chunk")
        else:
            length = 0
        if long:
            if reply_view is None or length < 8:
                raise RemoteProtocolError("an RDMA_NOMSG without a reply in it", rfc="8166 4.2.4")
            statistics.replies_long += 1
            statistics.octets_returned += length
            data, start = reply_view[:length], 0
            if int.from_bytes(data[:4]) != handle.xid:
                raise RemoteProtocolError("the reply in the Reply chunk has another XID", rfc="8166 4.2.1")
        elif length:
            raise RemoteProtocolError("an inline reply with a filled Reply chunk", rfc="8166 4.3.3")
        in_order = PlacedInOrder(placed) if placed else None
        if handle.into:
            return _ResultDecoder(data, start, in_order, handle.into)
        return Decoder(data, start, placed=in_order)


def _returned_length(mine: WriteChunk, theirs: WriteChunk, what: str) -> int:
    """Octets that the responder says it wrote; its handles and offsets are not looked at.

    Octets are where they are named: a segment that is not full must be the last one used.
    """
    if len(mine.segments) != len(theirs.segments):
        raise RemoteProtocolError(
            f"{what}: {len(mine.segments)} segments were offered, {len(theirs.segments)} returned", rfc="8166 3.4.6"
        )
    total = 0
    full = True
    for offered, returned in zip(mine.segments, theirs.segments, strict=True):
        if returned.length > offered.length or (returned.length and not full):
            raise RemoteProtocolError(
                f"{what}: {returned.length} octets returned in a segment of {offered.length}", rfc="8166 3.4.6"
            )
        full = returned.length == offered.length
        total += returned.length
    return total
