"""The RDMA Writes of a reply: results into Write chunks, a long reply into the Reply chunk."""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.transport.call import IncomingCall
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, WriteChunk, fill, split_gather
from rpcrdma.transport.plan_reply import ReplyForm, ReplyPlan
from rpcrdma.transport.session import Session
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import BulkItem

__all__ = ["write_carried", "write_results"]

_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


def write_results(session: Session, incoming: IncomingCall, plan: ReplyPlan) -> Sequence[Buffer]:
    """Posts the RDMA Writes of a reply by its plan, and returns the payload that is left for its message."""
    chunks = incoming.chunks
    payload = incoming.payload
    statistics = session.statistics
    echo: list[WriteChunk] = []
    written: list[BulkItem] = []
    for chunk, index in zip(chunks.writes, plan.placed, strict=True):
        if index is None:
            echo.append(fill(chunk, 0))
        else:
            item = payload.items[index]
            written.append(item)
            echo.append(_write(session, [item.data], chunk))
    gather = payload.gather(written)
    long = plan.form is ReplyForm.LONG
    reply_chunk = chunks.reply
    if reply_chunk is not None:
        reply_chunk = _write(session, gather, reply_chunk) if long else fill(reply_chunk, 0)
    if long:
        gather = []
        statistics.replies_long += 1
    if chunks.writes:
        statistics.calls_write_chunk += 1
    elif not long and not chunks.reads:
        statistics.calls_short += 1
    incoming.chunks = NO_CHUNKS
    if echo or reply_chunk is not None:
        incoming.chunks = _tuple(ChunkLists, ((), tuple(echo), reply_chunk))
    incoming.long = long
    return gather


def write_carried(session: Session, incoming: IncomingCall) -> Sequence[Buffer] | None:
    """Posts the RDMA Writes of a reply that an extension carries; None if it waits for more credits."""
    payload = incoming.payload
    assert incoming.carried is not None
    assert incoming.carried.reply is not None
    found = incoming.carried.reply.plan(payload, session.window.balance)
    if found is None:
        return None
    for index, chunk in found.written:
        _write(session, [payload.items[index].data], chunk)
    incoming.group = found.transmissions
    return ()


def _write(session: Session, gather: list[Buffer], chunk: WriteChunk) -> WriteChunk:
    """Posts the RDMA Writes of a gather list; returns the chunk as the reply echoes it."""
    octets = sum(map(len, gather))
    for (handle, _, offset), part in split_gather(gather, chunk.segments):
        session.statistics.rdma_writes += 1
        session.qp.post_write(None, part, handle, offset, signaled=False)
    session.statistics.octets_written += octets
    return fill(chunk, octets)
