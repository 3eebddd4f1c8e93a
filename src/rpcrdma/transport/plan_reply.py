"""Deciding how a reply travels through the chunks that its call offered (RFC 8166 sections 3.5, 4.3.2 and 4.3.3).

Eligible results go into the Write chunks in order, whatever their size. What is left goes inline if it fits,
else into the Reply chunk, else the call is refused with ERR_CHUNK before any memory of the requester is touched.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.header_v1 import SHORT_HEADER_OCTETS, size_chunks

__all__ = ["ReplyForm", "ReplyPlan", "plan_reply"]


class ReplyForm(enum.Enum):
    """Where the reply's stream goes."""

    INLINE = "inline"
    """RDMA_MSG."""
    LONG = "long"
    """RDMA_NOMSG: the Reply chunk."""
    REFUSED = "refused"
    """RDMA_ERROR with ERR_CHUNK: it fits nowhere."""


class ReplyPlan(NamedTuple):
    """How one reply travels.

    `placed`: for each offered Write chunk the index of the item written into it, or None for an unused or empty chunk.
    `reason`: why it was refused.
    """

    form: ReplyForm
    placed: tuple[int | None, ...] = ()
    reason: str = ""


_SHORT = ReplyPlan(ReplyForm.INLINE)


def plan_reply(reduced: int, items: Sequence[int], offered: ChunkLists, send_octets: int) -> ReplyPlan:
    """Plans a reply.

    Args:
        reduced: octets of the reply without its bulk items.
        items: octets of each bulk item, without padding.
        offered: the call's chunk lists.
        send_octets: the reply inline threshold.
    """
    writes = offered.writes
    placed: list[int | None] = []
    left = reduced
    for index, length in enumerate(items):
        if index >= len(writes) or not writes[index].segments:
            left += (length + 3) & ~3
            if index < len(writes):
                placed.append(None)
        elif length > writes[index].length:
            return ReplyPlan(
                ReplyForm.REFUSED,
                reason=f"a result of {length} octets for a Write chunk of {writes[index].length}",
            )
        else:
            placed.append(index)
    if writes:
        placed.extend([None] * (len(writes) - len(placed)))
    header = SHORT_HEADER_OCTETS
    if writes or offered.reply is not None:
        header += size_chunks(ChunkLists((), writes, offered.reply))
    if header + left <= send_octets:
        return ReplyPlan(ReplyForm.INLINE, tuple(placed)) if placed else _SHORT
    if offered.reply is None:
        return ReplyPlan(ReplyForm.REFUSED, reason=f"a reply of {left} octets without a Reply chunk")
    if left > offered.reply.length:
        return ReplyPlan(
            ReplyForm.REFUSED, reason=f"a reply of {left} octets for a Reply chunk of {offered.reply.length}"
        )
    if header > send_octets:
        return ReplyPlan(ReplyForm.REFUSED, reason=f"a reply header of {header} octets")
    return ReplyPlan(ReplyForm.LONG, tuple(placed))
