"""The exposed memory of one call: registered before the call is sent, fenced before the reply is reported.

The lengths that a reply states are checked against the offered chunks before the caller sees any data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.errors import LocalProtocolError, OutOfMemory, RemoteProtocolError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk, merge_small, segments_of
from rpcrdma.transport.dialects.dialect import LAST_PIECE_OCTETS_MIN
from rpcrdma.transport.message import Inbound
from rpcrdma.transport.plan_call import CallPlan, PlanLimits
from rpcrdma.verbs.protection_domain import Access, MemoryRegion, ProtectionDomain
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.bulk_memory import ResultMemory
from rpcrdma.xdr.codec import Payload, PlacedInOrder

__all__ = ["Exposure", "Returned", "check_echo", "result_sizes", "returned_length"]

_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


class Returned(NamedTuple):
    """An opened reply to a call of this side.

    `data[start:]` is its payload stream, `placed` has the items outside the stream (None without any), and `octets` is
    the number of octets that the responder has written by RDMA.
    """

    data: Buffer
    start: int
    placed: PlacedInOrder | None
    octets: int


class Exposure:
    """The memory of one call that is registered, so that the responder can read arguments and write results.

    `regions` are the registrations. `chunks` are the call's chunk lists, which name this memory; `segments` is the
    number of their segments. `inline` is the payload of the call's message. `targets` is the memory of each Write
    chunk (empty: None), `reply_view` that of the Reply chunk, or None. `end` or `abandon` ends the registrations.
    """

    __slots__ = ("_pd", "_segment_octets_max", "chunks", "inline", "regions", "reply_view", "segments", "targets")

    def __init__(
        self,
        pd: ProtectionDomain,
        payload: Payload,
        plan: CallPlan,
        into: Sequence[memoryview | None],
        plan_limits: PlanLimits,
        memory: ResultMemory,
        *,
        carried: bool,
    ) -> None:
        """Registers the memory that `plan` exposes: arguments, and the results' buffers in `into`.

        Args:
            pd: registers the memory.
            payload: the encoded call.
            plan: the items in Read chunks, and the sizes of Write chunks and the Reply chunk.
            into: for each result with a Write chunk the caller's buffer, or None for memory from `memory`.
            plan_limits: the largest segments, and the smallest buffers that are not copied together.
            memory: provides the memory for results without a buffer and for a long reply.
            carried: whether an extension sends the data that is not exposed, so that `inline` is unused.

        Raises:
            LocalProtocolError: a buffer for results is read-only, or there are too many regions; nothing is registered
                then.
            OutOfMemory: the system has no memory for results or copies; nothing is registered then.
        """
        self._pd = pd
        self._segment_octets_max = plan_limits.segment_octets_max
        self.regions: list[MemoryRegion] = []
        self.segments = 0
        self.targets: list[memoryview | None] = []
        self.reply_view: memoryview | None = None
        self.inline: Sequence[Buffer] = (payload.reduced,)
        reads: tuple[ReadChunk, ...] = ()
        reply = None
        try:
            if plan.read_items or plan.long or (payload.items and not carried):
                reads = self._expose_arguments(payload, plan, plan_limits.direct_octets_min, carried=carried)
            writes = self._expose_results(plan.write_chunks, into, memory) if plan.write_chunks else ()
            if plan.reply_chunk:
                self.reply_view = memory.take(plan.reply_chunk)
                reply = WriteChunk(self._register(self.reply_view, Access.REMOTE_WRITE))
        except MemoryError as error:
            # That of small memory is Python's own, without a text.
            self.end()
            raise OutOfMemory(str(error) or "no memory for the results of a call, or to copy its arguments") from None
        except BaseException:
            self.end()
            raise
        self.chunks = _tuple(ChunkLists, (reads, writes, reply)) if reads or writes or reply else NO_CHUNKS

    def _expose_arguments(
        self, payload: Payload, plan: CallPlan, direct_octets_min: int, *, carried: bool
    ) -> tuple[ReadChunk, ...]:
        items = payload.items
        apart = len(plan.read_items) < len(items)
        moved = [items[index] for index in plan.read_items] if apart else items
        inline = payload.gather(moved)
        reads: list[ReadChunk] = []
        if plan.long:
            stream: list[Segment] = []
            for buffer in merge_small(inline, direct_octets_min):
                stream += self._register(buffer, Access.REMOTE_READ)
            reads.append(ReadChunk(0, tuple(stream)))
            inline = []
        for item in moved:
            segments = self._register(item.data, Access.REMOTE_READ)
            reads.append(_tuple(ReadChunk, (item.position, segments)))
        if apart and inline and not carried:
            # Items that travel inline are copied: they may be sent after the call was abandoned, when its caller
            # may have changed the memory.
            inline = [b"".join(inline)]
        self.inline = inline
        return tuple(reads)

    def _register(self, buffer: Buffer, access: Access) -> tuple[Segment, ...]:
        region = self._pd.register(buffer, access)
        self.regions.append(region)
        segments = segments_of(region, self._segment_octets_max)
        self.segments += len(segments)
        return segments

    def _expose_results(
        self, sizes: Sequence[int], into: Sequence[memoryview | None], memory: ResultMemory
    ) -> tuple[WriteChunk, ...]:
        writes: list[WriteChunk] = []
        for index, size in enumerate(sizes):
            if not size:
                writes.append(WriteChunk(()))
                self.targets.append(None)
                continue
            buffer = into[index] if index < len(into) else None
            target = memory.take(size) if buffer is None else buffer[:size]
            writes.append(_tuple(WriteChunk, (self._register(target, Access.REMOTE_WRITE),)))
            self.targets.append(target)
        return tuple(writes)

    def end(self) -> None:
        """Invalidates the registrations of the memory: when this returns, no peer can touch the memory.

        An RDMA Read of the memory that is not answered yet ends the connection.

        Raises:
            RpcRdmaError: the provider cannot invalidate a region; those after it stay registered.
        """
        invalidate = self._pd.invalidate
        for region in self.regions:
            invalidate(region)

    def check_headers(self, limits: PlanLimits, *, continued: bool) -> None:
        """Checks that the headers of the call and of its reply can hold the chunks; ends the exposure if they cannot.

        `limits`: the largest messages, and the most segments that the peer takes. `continued`: whether the version
        continues a long message in further Sends; only then the number of segments is checked.

        Raises:
            LocalProtocolError: a header is too long, or the call has more segments than the peer takes.
        """
        geometry, chunks = limits.geometry, self.chunks
        header = geometry.call_header + geometry.size_chunks(chunks)
        echoed = geometry.reply_header + geometry.size_chunks(ChunkLists((), chunks.writes, chunks.reply))
        kept = LAST_PIECE_OCTETS_MIN if continued else 0
        if header + kept > limits.send_octets or echoed + kept > limits.receive_octets:
            self.end()
            raise LocalProtocolError(
                f"a transport header of {max(header, echoed)} octets: use larger segments or fewer items"
            )
        if continued and self.segments > limits.segments_max:
            self.end()
            raise LocalProtocolError(
                f"a call in {self.segments} segments, of which the peer takes {limits.segments_max}: use larger "
                f"segments (TransportConfig.segment_octets_max) or fewer items"
            )

    def abandon(self) -> None:
        """Ends the exposure for a call that was given up: further RDMA Writes of the responder do not reach the memory.

        The handles stay valid for such Writes, which are discarded, and for an invalidation by the late reply. RDMA
        Reads that are late or not answered yet end the connection. A provider that cannot keep the handles ends them at
        once (`ProtectionDomain.abandon`): any use of them then ends the connection.

        Raises:
            LocalProtocolError: the provider cannot end the exposure of a region.
        """
        abandon = self._pd.abandon
        for region in self.regions:
            abandon(region)
        self.targets = []
        self.reply_view = None


def check_echo(
    message: Inbound,
    offered: ChunkLists,
    targets: Sequence[memoryview | None],
    reply_view: memoryview | None,
    *,
    may_be_inline: bool,
) -> Returned:
    """Compares the chunks of a reply to a call of this side with the offered chunks, and opens the reply.

    Returns the payload stream, the bulk items outside of it, and the number of octets written by RDMA.

    Args:
        message: the reply.
        offered: the chunks of the call.
        targets: the memory of each Write chunk of the call, in order; None for an empty chunk.
        reply_view: the memory of the call's Reply chunk; None without one.
        may_be_inline: whether results that are too large for their Write chunks may be in the reply's stream.

    Raises:
        RemoteProtocolError: the chunks of the reply do not match the offered ones.
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
        in_order = PlacedInOrder(placed, targets if may_be_inline else None)
    if not message.long:
        if length:
            raise RemoteProtocolError("an inline reply with a filled Reply chunk", rfc="8166 4.3.3")
        return _tuple(Returned, (message.data, message.start, in_order, octets))
    if reply_view is None or length < 8:
        raise RemoteProtocolError("a long reply without a reply in it", rfc="8166 4.2.4")
    stream = reply_view[:length]
    if int.from_bytes(stream[:4]) != message.xid:
        raise RemoteProtocolError("the reply in the Reply chunk has another XID", rfc="8166 4.2.1")
    return Returned(stream, 0, in_order, octets + length)


def returned_length(mine: WriteChunk, theirs: WriteChunk, what: str) -> int:
    """Returns the number of octets that the responder has written to an offered chunk, as its reply's chunk states.

    A segment that is not full must be the last one used, and a segment with octets must equal the offered one. A
    segment without octets may have any handle and offset. `mine`: the chunk that the call offered. `theirs`: the chunk
    in the reply. `what`: the kind of chunk, for the error's text.

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
                f"{returned.offset:#x}, but offered were handle {offered.handle:#010x}, offset {offered.offset:#x}",
                rfc="8166 3.4.6",
            )
        full = full and returned.length == offered.length
        total += returned.length
    return total


def result_sizes(items: tuple[int, ...], into: Sequence[memoryview | None]) -> tuple[tuple[int, ...], int]:
    """Limits the sizes of a call's result items by the caller's buffers.

    `items`: the largest size in octets of each item. `into`: the buffer for each of the first items, or None. Returns
    the sizes in octets, each at most that of the item's buffer; and the number of items up to the last one with a
    buffer, 0 without buffers.
    """
    sizes = list(items)
    given = 0
    for index, (size, buffer) in enumerate(zip(items, into, strict=False)):
        if buffer is not None:
            given = index + 1
            if buffer.nbytes < size:
                sizes[index] = buffer.nbytes
    return tuple(sizes), given
