"""Messages to give to a dialect, and their expected outcomes."""

from __future__ import annotations

from dataclasses import replace

from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing, Refusal

__all__ = ["FAULTY_REPLY", "PIECE", "RpcMessage", "refused", "simple"]

XID, CREDIT_WORD = 7, 9

FAULTY_REPLY = Inbound(Kind.REPLY, XID, CREDIT_WORD, 2, long=True)
"""What fails a call without being an answer to it."""
PIECE = Inbound(Kind.PIECE, XID, CREDIT_WORD, 2)


class RpcMessage(Outgoing):
    """A call or a reply."""

    def __init__(
        self,
        kind: Kind,
        chunks: ChunkLists = NO_CHUNKS,
        *,
        xid: int = XID,
        long: bool = False,
        ends: int | None = None,
    ) -> None:
        super().__init__(xid, answers_call=kind is Kind.REPLY)
        self.kind = kind  # type: ignore[misc]
        self.chunks = NO_CHUNKS if chunks == NO_CHUNKS else chunks
        self.long = long
        self.ends = ends


def refused(cause: Cause, *, xid: int = XID, limit: int = 0) -> Inbound:
    """A message that is answered with an error."""
    return Inbound(Kind.UNREADABLE, xid, CREDIT_WORD, 2, refusal=Refusal(cause, limit=limit))


def simple(found: Inbound | None) -> Inbound | None:
    """With its payload cut out, so that it can be compared."""
    return None if found is None else replace(found, data=bytes(found.data[found.start :]), start=0)
