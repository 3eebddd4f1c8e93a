"""The events of an endpoint, in the order of their occurrence."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from rpcrdma.errors import HostAuthenticationFailed, RpcRdmaError
from rpcrdma.transport.call import Call
from rpcrdma.xdr.codec import Decoder

__all__ = ["CallArrived", "CallFailed", "Closed", "EndpointEvent", "Ready", "ReplyArrived", "ReplySent"]


class Ready(NamedTuple):
    """The connection is open, and thresholds are agreed on.

    `inbound_reads` and `outbound_reads` are the limits of outstanding RDMA Reads (IRD and ORD).
    """

    inbound_reads: int
    outbound_reads: int


class CallArrived(NamedTuple):
    """A call has arrived, with its Read chunks; `incoming` is of the endpoint's class of `IncomingCall`."""

    incoming: Any


class ReplyArrived(NamedTuple):
    """The reply to a call: `decoder` is at the RPC reply header. No peer can touch the call's memory any more."""

    call: Call
    decoder: Decoder


class CallFailed(NamedTuple):
    """The call ended without a reply. No peer can touch its memory any more."""

    call: Call
    error: RpcRdmaError


class ReplySent(NamedTuple):
    """The buffers of a reply whose `Responder.reply` returned True are free: it was sent, or never will be."""

    incoming: Any


class Closed(NamedTuple):
    """The last event: the connection ended, or was not established.

    `by_peer`: the peer ended it, or violated the protocol (then also `protocol_error`). `refusal`: host authentication
    failed.
    """

    reason: str
    by_peer: bool
    protocol_error: bool
    refusal: HostAuthenticationFailed | None = None


EndpointEvent: TypeAlias = Ready | CallArrived | ReplyArrived | CallFailed | ReplySent | Closed
