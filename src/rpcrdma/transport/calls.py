"""Calls in progress, on either side."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from rpcrdma.transport.chunks import ChunkLists, WriteChunk
from rpcrdma.transport.message_bounds import ReplyBound
from rpcrdma.transport.plan_call import CallPlan
from rpcrdma.verbs.memory import MemoryRegion
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["CallHandle", "CallState", "IncomingCall"]


class CallState(enum.Enum):
    """How far a call of ours has come."""

    QUEUED = "queued"
    """Waits for a credit."""
    SENT = "sent"
    ABANDONED = "abandoned"
    """Sent, but nobody waits for it: its memory is fenced, its credit is held until the reply comes."""
    DONE = "done"


class CallHandle:
    """A call made by `Endpoint.call`. `context` is the caller's own, None at first."""

    __slots__ = (
        "bound",
        "buffers",
        "context",
        "into",
        "payload",
        "plan",
        "read_regions",
        "reply_chunk",
        "reply_region",
        "state",
        "write_chunks",
        "write_regions",
        "xid",
    )

    def __init__(self, xid: int, payload: Payload, bound: ReplyBound, into: Sequence[Buffer | None]) -> None:
        self.xid = xid
        self.payload: Payload | None = payload
        self.plan: CallPlan | None = None
        """How it travels; None: as a Short Call that offers nothing, or it has not been sent yet."""
        self.bound = bound
        self.into = into
        self.context: Any = None
        self.state = CallState.QUEUED
        self.read_regions: Sequence[MemoryRegion] = ()
        self.write_regions: Sequence[MemoryRegion] = ()
        self.reply_region: MemoryRegion | None = None
        self.write_chunks: Sequence[WriteChunk] = ()
        self.reply_chunk: WriteChunk | None = None
        self.buffers: Sequence[memoryview | None] = ()

    def __repr__(self) -> str:
        return f"CallHandle(xid={self.xid:#010x}, {self.state.value})"

    @property
    def regions(self) -> list[MemoryRegion]:
        """All memory that the call exposes."""
        regions = [*self.read_regions, *self.write_regions]
        if self.reply_region is not None:
            regions.append(self.reply_region)
        return regions


class IncomingCall:
    """A call to answer with `Endpoint.reply`, `fail_call` or `drop`, once.

    `decoder` stands at the RPC call header; its data stay valid until then, and until `ReplySent` if that is announced.
    `context` is the owner's own, None at first.
    """

    __slots__ = (
        "answered",
        "chunks",
        "context",
        "decoder",
        "held_octets",
        "long",
        "pending_reads",
        "refusal",
        "sink",
        "sink_region",
        "xid",
    )

    decoder: Decoder

    def __init__(self, xid: int, chunks: ChunkLists) -> None:
        self.xid = xid
        self.chunks = chunks
        self.context: Any = None
        self.answered = False
        self.long = False
        self.pending_reads = 0
        self.held_octets = 0
        self.refusal = ""
        """Why a reply was refused with ERR_CHUNK; empty if none was."""
        self.sink: memoryview | None = None
        self.sink_region: MemoryRegion | None = None

    def __repr__(self) -> str:
        return f"IncomingCall(xid={self.xid:#010x})"
