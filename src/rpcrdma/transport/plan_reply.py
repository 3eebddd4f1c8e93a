"""Decides how a reply travels through the chunks that its call offered, and writes it (RFC 8166 sections 3.5 and 4.3).

Eligible results of any size go into the Write chunks in order. The rest goes inline if it fits, otherwise into the
Reply chunk. If neither is possible, the call is refused before any memory of the requester is touched.

If messages can be continued, inline means several messages: up to the length that costs less than a Reply chunk, or, if
a chunk is too small, up to the longest continued message.

The RDMA Writes of a plan are posted just before the Send of the reply.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, WriteChunk, fill, split_gather
from rpcrdma.transport.dialects.dialect import LAST_PIECE_OCTETS_MIN, Geometry
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.transport.statistics import TransportStatistics
from rpcrdma.verbs.queue_pair import QueuePair
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import BulkItem, Payload

__all__ = ["ReplyForm", "ReplyPlan", "plan_reply", "reply_octets_max", "write_chunk", "write_results"]


class ReplyForm(enum.Enum):
    """The place of a reply's payload stream."""

    INLINE = "inline"
    LONG = "long"
    """Into the Reply chunk."""
    REFUSED = "refused"
    """No place is large enough: an error to the requester takes the place of the reply."""


class ReplyPlan(NamedTuple):
    """The way in which one reply travels, as decided by `plan_reply`.

    `form` is the place of the reply's payload stream. `placed`: for each offered Write chunk the index of the bulk item
    in it, or None for an unused or empty chunk; () stands for no chunk. If the reply fits nowhere, `form` is REFUSED,
    `refusal` has the resource that is too small and the required size (HEADER: the header is too long), and `reason`
    says the same in words; else these two are None and "".
    """

    form: ReplyForm
    placed: tuple[int | None, ...] = ()
    refusal: Refusal | None = None
    reason: str = ""


_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""

_SHORT = ReplyPlan(ReplyForm.INLINE)
_ONE_PLACED = ReplyPlan(ReplyForm.INLINE, (0,))


def plan_reply(
    reduced: int,
    items: Sequence[int],
    offered: ChunkLists,
    send_octets: int,
    geometry: Geometry,
    cheap_octets: int = 0,
    continued_octets_max: int = 0,
) -> ReplyPlan:
    """Decides which bulk items of a reply go into the call's Write chunks, and where the rest goes.

    Returns the plan: the item of each Write chunk, and INLINE (one message, or several if one is too small for the
    reply) or LONG (Reply chunk); with a `refusal` if the reply fits nowhere.

    Args:
        reduced: octets of the reply without its bulk items.
        items: octets of each bulk item, without padding.
        offered: the call's chunk lists.
        send_octets: the largest message, header included.
        geometry: the header sizes of the connection's version.
        cheap_octets: the longest reply, with its header, that is continued rather than put into a Reply chunk; 0 if
            none is.
        continued_octets_max: the longest reply, with its header, that can be continued; 0 if none can.
    """
    header = geometry.reply_header
    match items, offered:
        case [length], (_, (((segment,),),), None) if length <= segment.length:
            # The usual reply with a Write chunk.
            if header + geometry.write_chunk + geometry.segment + reduced <= send_octets:
                return _ONE_PLACED
    writes = offered.writes
    header = _header_octets(offered, geometry)
    if header + LAST_PIECE_OCTETS_MIN > send_octets:
        # The last message has the whole header.
        cheap_octets = continued_octets_max = 0
    placed: list[int | None] = []
    left = reduced
    for index, length in enumerate(items):
        if index >= len(writes) or not writes[index].segments:
            left += (length + 3) & ~3
            if index < len(writes):
                placed.append(None)
        elif length > writes[index].length:
            whole = sum((item + 3) & ~3 for item in items) + reduced
            if header + whole <= continued_octets_max:
                placed.append(None)
                left += (length + 3) & ~3
                continue
            return _refused(
                Refusal(Cause.WRITE_RESOURCE, index + 1, length),
                f"a result of {length} octets for a Write chunk of {writes[index].length}",
            )
        else:
            placed.append(index)
    if writes:
        placed.extend([None] * (len(writes) - len(placed)))
    if header + left <= max(send_octets, cheap_octets):
        return _tuple(ReplyPlan, (ReplyForm.INLINE, tuple(placed), None, "")) if placed else _SHORT
    if header + left <= continued_octets_max and (offered.reply is None or left > offered.reply.length):
        return ReplyPlan(ReplyForm.INLINE, tuple(placed))
    if header > send_octets:
        return _refused(Refusal(Cause.HEADER), f"a reply header of {header} octets for a message of {send_octets}")
    too_small = Refusal(Cause.REPLY_RESOURCE, needed=left)
    if offered.reply is None:
        return _refused(too_small, f"a reply of {left} octets without a Reply chunk")
    if left > offered.reply.length:
        return _refused(too_small, f"a reply of {left} octets for a Reply chunk of {offered.reply.length}")
    return ReplyPlan(ReplyForm.LONG, tuple(placed))


def reply_octets_max(
    items: Sequence[int],
    offered: ChunkLists,
    send_octets: int,
    geometry: Geometry,
    cheap_octets: int = 0,
    continued_octets_max: int = 0,
) -> int:
    """Finds the most octets, bulk items excluded, that a reply can have without a refusal by `plan_reply`.

    Returns the octets; 0 if there is no room, as when a bulk item fits nowhere.

    Args:
        items: octets of each bulk item, without padding.
        offered: the call's chunk lists.
        send_octets: the largest message, header included.
        geometry: the header sizes of the connection's version.
        cheap_octets: the longest reply, with its header, that is continued rather than put into a Reply chunk; 0 if
            none is.
        continued_octets_max: the longest reply, with its header, that can be continued; 0 if none can.
    """
    match items, offered:
        case [length], (_, (((segment,),),), None) if length <= segment.length:
            # The usual call with a Write chunk.
            header = geometry.reply_header + geometry.write_chunk + geometry.segment
            if header + LAST_PIECE_OCTETS_MIN <= send_octets:
                return max(send_octets, cheap_octets, continued_octets_max) - header
    header = _header_octets(offered, geometry)
    if header + LAST_PIECE_OCTETS_MIN > send_octets:
        cheap_octets = continued_octets_max = 0
    room = max(send_octets, cheap_octets, continued_octets_max) - header
    if offered.reply is not None and header <= send_octets:
        room = max(room, offered.reply.length)
    for index, length in enumerate(items):
        if index >= len(offered.writes) or not offered.writes[index].segments:
            room -= (length + 3) & ~3
        elif length > offered.writes[index].length:
            # Only a reply that is continued takes the item into its stream, together with all others.
            room = continued_octets_max - header - sum((item + 3) & ~3 for item in items)
            break
    return max(room, 0)


def _header_octets(offered: ChunkLists, geometry: Geometry) -> int:
    """Returns the octets of a reply's header, which returns the offered Write and Reply chunks to the requester."""
    header = geometry.reply_header
    for chunk in offered.writes:
        header += geometry.write_chunk + geometry.segment * len(chunk.segments)
    if offered.reply is not None:
        header += geometry.reply_chunk + geometry.segment * len(offered.reply.segments)
    return header


def _refused(refusal: Refusal, reason: str) -> ReplyPlan:
    return ReplyPlan(ReplyForm.REFUSED, refusal=refusal, reason=reason)


def write_results(
    plan: ReplyPlan,
    payload: Payload,
    offered: ChunkLists,
    qp: QueuePair,
    statistics: TransportStatistics,
    *,
    carried: bool,
) -> tuple[list[Buffer], ChunkLists]:
    """Posts the RDMA Writes of a reply by its plan.

    Returns (the gather list for the reply's message, the chunk lists of its header). The gather list is empty if the
    Reply chunk has the payload stream.

    Args:
        plan: the plan of the reply, from `plan_reply`, without a refusal.
        payload: the encoded reply.
        offered: the call's chunk lists.
        qp: the queue pair.
        statistics: counts the call by its chunks, a reply in the Reply chunk, and the RDMA Writes.
        carried: whether an extension carried the call, which then does not count as short.
    """
    echo: list[WriteChunk] = []
    written: list[BulkItem] = []
    for chunk, index in zip(offered.writes, plan.placed, strict=True):
        if index is None:
            echo.append(fill(chunk, 0))
        else:
            item = payload.items[index]
            written.append(item)
            echo.append(write_chunk([item.data], chunk, qp, statistics))
    gather = payload.gather(written)
    long = plan.form is ReplyForm.LONG
    reply_chunk = offered.reply
    if reply_chunk is not None:
        reply_chunk = write_chunk(gather, reply_chunk, qp, statistics) if long else fill(reply_chunk, 0)
    if long:
        gather = []
        statistics.replies_long += 1
    if offered.writes:
        statistics.calls_write_chunk += 1
    elif not (long or offered.reads or carried):
        statistics.calls_short += 1
    if echo or reply_chunk is not None:
        return gather, _tuple(ChunkLists, ((), tuple(echo), reply_chunk))
    return gather, NO_CHUNKS


def write_chunk(gather: list[Buffer], chunk: WriteChunk, qp: QueuePair, statistics: TransportStatistics) -> WriteChunk:
    """Posts unsignaled RDMA Writes of a gather list into a chunk of the peer, which must be large enough.

    `qp`: the queue pair. `statistics`: counts the RDMA Writes and their octets. Returns the chunk with the lengths
    written.
    """
    octets = sum(map(len, gather))
    for (handle, _, offset), part in split_gather(gather, chunk.segments):
        statistics.rdma_writes += 1
        qp.post_write(None, part, handle, offset, signaled=False)
    statistics.octets_written += octets
    return fill(chunk, octets)
