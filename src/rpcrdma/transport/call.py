"""Calls and replies in progress: those of this side, and those of the peer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport.call_states import CallState
from rpcrdma.transport.carriers import CarriedCall, IncomingItems
from rpcrdma.transport.chunks import NO_CHUNKS
from rpcrdma.transport.exposure import Exposure
from rpcrdma.transport.message import Kind, Outgoing
from rpcrdma.transport.plan_reply import ReplyPlan
from rpcrdma.transport.reactions import CallForm
from rpcrdma.verbs.protection_domain import MemoryRegion
from rpcrdma.wire.buffers import Memory, as_view
from rpcrdma.xdr.codec import Decoder, Payload

if TYPE_CHECKING:
    from rpcrdma.rpc.gss.initiator import CallProtection

__all__ = ["NO_MEMORY", "Call", "IncomingCall"]

NO_MEMORY = "there is no memory to copy the reply"
"""The `IncomingCall.refusal` of a reply that fits what its call has offered."""

_NO_REPLY = Payload(b"")

_tuple = tuple.__new__


class Call(Outgoing):
    """One call of this side, from its making to its end, over RDMA or TCP; connections may send it one after another.

    A connection encodes the call to `payload`. Over RDMA it also sets `bound`; `form`, `exposure` and `carried` state
    how the call travels, `state` is its `CallState`. Observers and statistics get the call at its end.

    Args:
        procedure: the procedure.
        args: its arguments.
        into: a writable buffer for the result's first DDP-eligible item, or None.
        timeout_s: the time limit in seconds; None: no limit.
        placement: how the round-trip extension moves the bulk items, a value of `rpcrdma.extension.Preference`; "" as
            the connection's options say.

    Raises:
        TypeError: `into` has no buffer protocol, or its memory is read-only or not C-contiguous.
    """

    __slots__ = (
        "args", "began_ns", "bound", "carried", "deadline_s", "encoder", "ended_ns", "error", "exposure", "form",
        "future", "into", "long_reply", "next_form", "octets_received", "octets_sent", "over_tcp", "payload", "peer",
        "placement", "procedure", "protection", "sending", "sent_ns", "state", "status", "timeout_s", "transmissions",
    )  # fmt: skip

    kind = Kind.CALL
    payload: Payload | None
    """The encoded message; None before encoding and after the end."""
    bound: ReplyBound
    """The largest result."""
    form: CallForm
    """The form in which it travels."""
    exposure: Exposure | None
    """The memory that is exposed for it, or None."""
    carried: CarriedCall | None
    """The carrier's part of the call; None if no extension carries it."""
    sending: bool
    """Whether a Send may still read the memory of its arguments."""
    long_reply: bool
    """Whether the reply used the Reply chunk."""

    def __init__(
        self,
        procedure: Procedure[Any, Any],
        args: Any,
        into: Memory | None = None,
        timeout_s: float | None = None,
        placement: str = "",
    ) -> None:
        self.procedure = procedure
        self.args = args
        self.into: Sequence[memoryview | None] = () if into is None else (as_view(into, "into", writable=True),)
        """For each eligible result, in order, the buffer for its octets, or None."""
        self.timeout_s = timeout_s
        self.deadline_s: float | None = None
        """The deadline in the event loop's time; None: none."""
        self.protection: CallProtection | None = None
        """Makes and reads the messages under RPCSEC_GSS; None: the connection does, with its credential."""
        self.encoder: CallEncoder | None = None
        """Encodes its message with a credential of its own; None: with that of the connection."""
        self.placement = placement
        """How the round-trip extension is to move the bulk items; "" as the connection's options say."""
        self.peer = ""
        """ADDRESS:PORT of the responder."""
        self.next_form: CallForm | None = None
        """The form that `reset` sets, once, after a refusal in which `protection` could not encode the call anew."""
        self.future: Any = None
        """The connection's future for the result; None before a connection takes the call."""
        self.over_tcp = False
        self.transmissions = 0
        """How many times it was sent."""
        self.octets_sent = self.octets_received = 0
        """Of the RPC message, chunks included, without transport headers; a call counts as often as it was sent. Valid
        only if `began_ns` is not 0."""
        self.began_ns = self.sent_ns = self.ended_ns = 0
        """Times of making, last Send (0: not sent) and end. Taken only if `began_ns` is not 0."""
        self.error: BaseException | None = None
        """The error, if there is no result."""
        self.status: int | str = 0
        """The status in the result, 0 for success; or the name of the error, such as "TIMEOUT"."""

    def reset(self) -> None:
        """Sets `state` to QUEUED and `form` to `next_form`, or to the first form for `bound`; counts and times stay."""
        self.answers_call = False
        self.chunks = NO_CHUNKS
        self.long = False
        self.ends = None
        self.group = None
        form, self.next_form = self.next_form, None
        self.form = form or _tuple(CallForm, (self.bound, 1, False, False, 0, False))
        self.carried = None
        self.sending = False
        self.long_reply = False
        self.state = CallState.QUEUED
        self.exposure = None

    def __repr__(self) -> str:
        return f"<Call {self.procedure.name} xid={self.xid:#010x}>"

    @property
    def elapsed_s(self) -> float:
        """The seconds from the making of the call to its end; valid only if its attribute `began_ns` is not 0."""
        return (self.ended_ns - self.began_ns) / 1e9

    @property
    def travelled(self) -> str:
        """How the last transmission of the call travelled, in words.

        Over RDMA "short", or "read chunk", "long call", "write chunk", "reply chunk" (offered, not used) and "long
        reply" (used), joined by " + "; "argument by send", "result by send", "result by choice" or "result by size" if
        messages of the round-trip extension carried the bulk items; "tcp" over TCP; "not sent".
        """
        if not self.transmissions:
            return "not sent"
        if self.over_tcp:
            return "tcp"
        if self.carried is not None:
            return self.carried.form
        words = ["long call"] if self.long else []
        if any(chunk.position for chunk in self.chunks.reads):
            words.append("read chunk")
        if self.chunks.writes:
            words.append("write chunk")
        if self.chunks.reply is not None:
            words.append("long reply" if self.long_reply else "reply chunk")
        return " + ".join(words) or "short"


class IncomingCall(Outgoing):
    """A call of the peer, and the reply to it; answered once by `Responder.reply`, `fail_call` or `drop`.

    `decoder` is at the RPC call header. Its data stays valid until the answer, or until `ReplySent` if
    `Responder.reply` has returned True. `chunks` and `long` are those of the call until its reply is prepared, then
    those of the reply; but `long` is False once the Read chunks have arrived. `carried` has the bulk items that an
    extension received with the call, or is None. `payload` is the reply; `plan` says how it travels, None if its octets
    are simply copied to a message. `held_octets` counts the memory of its Read chunks, `message_octets` that of its
    message, 0 for a short one. `sink` is the memory of its Read chunks, `sink_region` its registration until all RDMA
    Reads have completed, of which `pending_reads` have not.

    The responder makes a call with `__new__` and assigns the fields of its message, without a call of `__init__`: the
    other fields keep their defaults.
    """

    kind = Kind.REPLY
    decoder: Decoder
    carried: IncomingItems | None = None
    payload: Payload = _NO_REPLY
    plan: ReplyPlan | None = None
    answered: bool = False
    pending_reads: int = 0
    held_octets: int = 0
    message_octets: int = 0
    refusal: str = ""
    """The reason for which the reply could not travel, so that an error was sent in its place; "" otherwise."""
    sink: memoryview | None = None
    sink_region: MemoryRegion | None = None

    def __init__(self, xid: int, decoder: Decoder) -> None:
        super().__init__(xid, answers_call=True)
        self.decoder = decoder

    def __repr__(self) -> str:
        return f"<{type(self).__name__} xid={self.xid:#010x}>"
