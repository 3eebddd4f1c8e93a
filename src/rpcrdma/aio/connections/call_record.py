"""The record of a call of this side, which an observer of calls gets once the call has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rpcrdma.transport import CallHandle
from rpcrdma.xdr.codec import Decoder

__all__ = ["CallObserver", "CallRecord", "form_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call on one connection; a call that is sent again on another connection has a record for each."""

    xid: int
    procedure: str
    """Its name in the interface definition."""
    peer: str
    """ADDRESS:PORT."""
    form: str
    """Over RDMA how it travelled: "short", or "read chunk", "long call", "write chunk", "reply chunk" (offered, not
    used) and "long reply" (used), joined by " + "; "argument by send", "result by send", "result by choice" or "result
    by size" where the round-trip extension carried it; "tcp" over TCP."""
    octets_sent: int
    """Of the RPC call, chunks included, without transport headers."""
    octets_received: int
    """Of the RPC reply, likewise; 0 where none came."""
    elapsed_s: float
    error: BaseException | None
    """Why there is no result: an error of this library, or asyncio.CancelledError. Over TCP None for every reply, as
    the record is made before it is decoded."""


CallObserver = Callable[[CallRecord], None]
"""Is called in the event loop, and is not to raise."""


def form_of(handle: CallHandle, reply: Decoder | None) -> str:
    """The form of an RDMA call, whose `reply` is None where none came; see `CallRecord.form`."""
    if handle.carried is not None:
        return handle.carried.form
    chunks = handle.chunks
    words = ["long call"] if handle.long else []
    if any(chunk.position for chunk in chunks.reads):
        words.append("read chunk")
    if chunks.writes:
        words.append("write chunk")
    if chunks.reply is not None:
        data = reply.data if reply is not None else None
        buffer = None if handle.exposure is None else handle.exposure.reply_view
        used = isinstance(data, memoryview) and buffer is not None and data.obj is buffer.obj
        words.append("long reply" if used else "reply chunk")
    return " + ".join(words) or "short"
