"""The exposed memory of one call: registered before the call is sent, fenced before the reply is reported.

The lengths that a reply states are checked against the offered chunks before the caller sees any data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.errors import RemoteProtocolError, RpcRdmaError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk, merge_small, segments_of
from rpcrdma.transport.message import Inbound
from rpcrdma.transport.plan_call import CallPlan, PlanLimits
from rpcrdma.verbs.memory import Access, MemoryRegion, ProtectionDomain
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Payload, PlacedInOrder

__all__ = ["Exposure", "Returned", "check_echo", "returned_length"]


class Returned(NamedTuple):
    """An opened reply: `data[start:]` is its stream, `placed` has the items outside the stream.

    `octets` is the number of octets that the responder has written.
    """

    data: Buffer
    start: int
    placed: PlacedInOrder | None
    octets: int


class Exposure:
    """The exposed memory of one call.

    `chunks` name the memory, `inline` is the payload of the call's message. `targets` is the memory for the results of
    the Write chunks.
    """

    __slots__ = ("_pd", "_read", "_reply", "_write", "chunks", "inline", "targets")

    def __init__(
        self,
        pd: ProtectionDomain,
        payload: Payload,
        plan: CallPlan,
        into: Sequence[memoryview | None],
        plan_limits: PlanLimits,
        *,
        carried: bool = False,
    ) -> None:
        """Registers the memory. `carried`: an extension sends the data that is not exposed; `inline` has none of it.

        Raises:
            LocalProtocolError: a buffer is unfit, or there are too many regions; nothing is registered then.
        """
        self._pd = pd
        self._read: list[MemoryRegion] = []
        self._write: list[MemoryRegion] = []
        self._reply: MemoryRegion | None = None
        self.targets: list[memoryview | None] = []
        try:
            self.inline, reads = self._expose_arguments(payload, plan, plan_limits, carried=carried)
            writes = self._expose_results(plan.write_chunks, into, plan_limits.segment_octets_max)
            reply = None
            if plan.reply_chunk:
                self._reply = region = pd.register(bytearray(plan.reply_chunk), Access.REMOTE_WRITE)
                reply = WriteChunk(segments_of(region, plan_limits.segment_octets_max))
        except RpcRdmaError:
            self.end()
            raise
        self.chunks = ChunkLists(reads, writes, reply)
        if not (reads or writes or reply):
            self.chunks = NO_CHUNKS

    def _expose_arguments(
        self, payload: Payload, plan: CallPlan, plan_limits: PlanLimits, *, carried: bool
    ) -> tuple[list[Buffer], tuple[ReadChunk, ...]]:
        segment_max = plan_limits.segment_octets_max
        moved = [payload.items[index] for index in plan.read_items]
        inline = payload.gather(moved)
        reads: list[ReadChunk] = []
        if plan.long:
            stream: list[Segment] = []
            for buffer in merge_small(inline, plan_limits.direct_octets_min):
                stream += segments_of(self._readable(buffer), segment_max)
            reads.append(ReadChunk(0, tuple(stream)))
            inline = []
        reads += [ReadChunk(item.position, segments_of(self._readable(item.data), segment_max)) for item in moved]
        if len(payload.items) > len(moved) and inline and not carried:
            # Items that travel inline are copied: they may be sent after the call was abandoned, when its caller
            # may have changed the memory.
            inline = [b"".join(inline)]
        return inline, tuple(reads)

    def _readable(self, buffer: Buffer) -> MemoryRegion:
        region = self._pd.register(buffer, Access.REMOTE_READ)
        self._read.append(region)
        return region

    def _expose_results(
        self, sizes: Sequence[int], into: Sequence[memoryview | None], segment_max: int
    ) -> tuple[WriteChunk, ...]:
        writes: list[WriteChunk] = []
        for index, size in enumerate(sizes):
            if not size:
                writes.append(WriteChunk(()))
                self.targets.append(None)
                continue
            buffer = into[index] if index < len(into) else None
            target = memoryview(bytearray(size)) if buffer is None else buffer[:size]
            region = self._pd.register(target, Access.REMOTE_WRITE)
            self._write.append(region)
            writes.append(WriteChunk(segments_of(region, segment_max)))
            self.targets.append(target)
        return tuple(writes)

    @property
    def regions(self) -> list[MemoryRegion]:
        """All exposed regions."""
        return [*self._read, *self._write, *([] if self._reply is None else [self._reply])]

    def end(self) -> None:
        """Ends the exposure: when this returns, no peer can touch the memory.

        Raises:
            RpcRdmaError: the provider cannot invalidate a region.
        """
        invalidate = self._pd.invalidate
        for region in self._read:
            invalidate(region)
        for region in self._write:
            invalidate(region)
        if self._reply is not None:
            invalidate(self._reply)

    def abandon(self) -> None:
        """Ends the exposure, and discards further writes of the responder: the connection continues."""
        pd = self._pd
        for region in self._read:
            pd.invalidate(region)
        for region in self._write:
            pd.abandon(region)
        if self._reply is not None:
            pd.abandon(self._reply)
        self.targets = []

    @property
    def reply_view(self) -> memoryview | None:
        """The memory for a long reply."""
        return None if self._reply is None else self._reply.view


class _PlacedIfItFits(PlacedInOrder):
    """The Write chunks of a reply whose results come inline if they do not fit their chunks.

    `room` has the offered length of each chunk.
    """

    __slots__ = ("_room",)

    def __init__(self, chunks: Sequence[memoryview | None], room: Sequence[int]) -> None:
        super().__init__(chunks)
        self._room = room

    def take(self, position: int, length: int, field: str) -> memoryview | None:
        index = self._next
        if index < len(self._chunks) and not self._chunks[index] and length > self._room[index]:
            self._next += 1
            return None
        return super().take(position, length, field)


def check_echo(
    message: Inbound,
    offered: ChunkLists,
    targets: Sequence[memoryview | None],
    reply_view: memoryview | None,
    *,
    may_be_inline: bool,
) -> Returned:
    """Opens a reply in the chunks that its call offered; see `Exposure.targets` and `Exposure.reply_view`.

    `may_be_inline`: results that are too large for their Write chunks may come in the message.

    Raises:
        RemoteProtocolError: its chunks do not match the offered ones.
    """
    chunks = message.chunks
    if chunks.reads:
        raise RemoteProtocolError("a reply with a Read list", rfc="8166 4.3.1")
    if len(chunks.writes) != len(offered.writes):
        raise RemoteProtocolError(
            f"{len(offered.writes)} Write chunks were offered, {len(chunks.writes)} returned", rfc="8166 4.3.2"
        )
    placed: list[memoryview | None] = []
    octets = 0
    for mine, theirs, target in zip(offered.writes, chunks.writes, targets, strict=True):
        length = returned_length(mine, theirs, "Write chunk")
        octets += length
        placed.append(None if target is None else target[:length])
    length = 0
    if chunks.reply is not None:
        if offered.reply is None:
            raise RemoteProtocolError("a Reply chunk that was not offered", rfc="8166 4.3.3")
        length = returned_length(offered.reply, chunks.reply, "Reply chunk")
    in_order: PlacedInOrder | None = None
    if placed:
        room = [chunk.length for chunk in offered.writes]
        in_order = _PlacedIfItFits(placed, room) if may_be_inline else PlacedInOrder(placed)
    if not message.long:
        if length:
            raise RemoteProtocolError("an inline reply with a filled Reply chunk", rfc="8166 4.3.3")
        return Returned(message.data, message.start, in_order, octets)
    if reply_view is None or length < 8:
        raise RemoteProtocolError("a long reply without a reply in it", rfc="8166 4.2.4")
    stream = reply_view[:length]
    if int.from_bytes(stream[:4]) != message.xid:
        raise RemoteProtocolError("the reply in the Reply chunk has another XID", rfc="8166 4.2.1")
    return Returned(stream, 0, in_order, octets + length)


def returned_length(mine: WriteChunk, theirs: WriteChunk, what: str) -> int:
    """Returns the number of octets that the responder states to have written.

    A segment that is not full must be the last one used, and a segment with octets must equal the offered one. A
    segment without octets may have any handle and offset.

    Raises:
        RemoteProtocolError: the stated lengths do not match the offered chunk.
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
        if returned.length and (returned.handle != offered.handle or returned.offset != offered.offset):
            raise RemoteProtocolError(
                f"{what}: {returned.length} octets returned at handle {returned.handle:#010x}, offset "
                f"{returned.offset:#x}; offered were handle {offered.handle:#010x}, offset {offered.offset:#x}",
                rfc="8166 3.4.6",
            )
        full = full and returned.length == offered.length
        total += returned.length
    return total
