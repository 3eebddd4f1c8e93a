"""Calls in progress, on either side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport.call_states import CallState
from rpcrdma.transport.carriers import CarriedCall, IncomingItems
from rpcrdma.transport.chunks import NO_CHUNKS
from rpcrdma.transport.exposure import Exposure
from rpcrdma.transport.message import Inbound, Kind, Outgoing
from rpcrdma.transport.plan_reply import ReplyPlan
from rpcrdma.transport.reactions import CallForm
from rpcrdma.verbs.memory import MemoryRegion
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["CallHandle", "IncomingCall", "OutgoingReply"]


_tuple = tuple.__new__


class CallHandle(Outgoing):
    """A call made by `Endpoint.call`. `context` belongs to the caller, None at first.

    Until it is done, the call keeps the data for another try in another form. `carried` is set if an extension carries
    the call, `sending` while the queue pair reads its arguments. `placement` is the caller's choice for bulk items, if
    any.
    """

    __slots__ = ("carried", "context", "exposure", "form", "into", "payload", "placement", "sending", "state")

    kind = Kind.CALL

    def __init__(self, xid: int, payload: Payload, bound: ReplyBound, into: Sequence[memoryview | None]) -> None:
        self.xid = xid
        self.answers_call = False
        self.chunks = NO_CHUNKS
        self.long = False
        self.ends = None
        self.group = None
        self.payload: Payload | None = payload
        self.form: CallForm = _tuple(CallForm, (bound, 1, False, False, 0, False))
        self.carried: CarriedCall | None = None
        self.sending = False
        self.placement = ""
        self.into = into
        self.context: Any = None
        self.state = CallState.QUEUED
        self.exposure: Exposure | None = None

    def __repr__(self) -> str:
        return f"CallHandle(xid={self.xid:#010x}, {self.state.name.lower()})"


class OutgoingReply(Outgoing):
    """The reply to a call. `plan` is None if it goes without chunks, joined with its header."""

    __slots__ = ("incoming", "payload", "plan")

    kind = Kind.REPLY

    def __init__(self, incoming: IncomingCall, payload: Payload, plan: ReplyPlan | None) -> None:
        self.xid = incoming.xid
        self.answers_call = True
        self.chunks = NO_CHUNKS
        self.long = False
        self.ends = None
        self.group = None
        self.incoming = incoming
        self.payload = payload
        self.plan = plan


class IncomingCall:
    """A call to answer once, with `Endpoint.reply`, `fail_call` or `drop`.

    `decoder` is at the RPC call header. Its data stay valid until the answer, and until `ReplySent` if that is
    announced. `context` belongs to the owner, None at first.
    """

    __slots__ = (
        "answered",
        "carried",
        "chunks",
        "context",
        "decoder",
        "ends",
        "held_octets",
        "long",
        "message_octets",
        "pending_reads",
        "refusal",
        "sink",
        "sink_region",
        "xid",
    )

    decoder: Decoder

    def __init__(self, message: Inbound, carried: IncomingItems | None = None) -> None:
        self.xid = message.xid
        self.chunks = message.chunks
        self.ends = message.ends
        self.long = message.long
        self.carried = carried
        self.context: Any = None
        self.answered = False
        self.pending_reads = 0
        self.held_octets = 0
        self.message_octets = 0
        self.refusal = ""
        """The reason for which a reply was refused with ERR_CHUNK; empty if none was."""
        self.sink: memoryview | None = None
        self.sink_region: MemoryRegion | None = None

    def __repr__(self) -> str:
        return f"IncomingCall(xid={self.xid:#010x})"
