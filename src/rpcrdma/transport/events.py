"""The events that an endpoint reports, in the order in which they happened."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from rpcrdma.errors import HostAuthenticationFailed, RpcRdmaError
from rpcrdma.transport.call import Call, IncomingCall
from rpcrdma.xdr.codec import Decoder

__all__ = ["CallArrived", "CallFailed", "Closed", "EndpointEvent", "Ready", "ReplyArrived", "ReplySent"]


class Ready(NamedTuple):
    """The connection stands; thresholds are agreed on.

    `inbound_reads` and `outbound_reads` are the limits of outstanding RDMA Reads (IRD and ORD).
    """

    inbound_reads: int
    outbound_reads: int


class CallArrived(NamedTuple):
    """A whole call is here, its Read chunks included."""

    incoming: IncomingCall


class ReplyArrived(NamedTuple):
    """The answer to a call: `decoder` stands at the RPC reply header. No peer can touch the call's memory any more."""

    call: Call
    decoder: Decoder


class CallFailed(NamedTuple):
    """The call ended without a reply. No peer can touch its memory any more."""

    call: Call
    error: RpcRdmaError


class ReplySent(NamedTuple):
    """The provider is done with the buffers of a reply whose `Responder.reply` returned True: sent, or never to be."""

    incoming: IncomingCall


class Closed(NamedTuple):
    """The connection ended, or was not made: the last event.

    `by_peer` if the peer ended it or broke the protocol (then `protocol_error`). `refusal`: it ended since one of the
    hosts is not content with the other.
    """

    reason: str
    by_peer: bool
    protocol_error: bool
    refusal: HostAuthenticationFailed | None = None


EndpointEvent: TypeAlias = Ready | CallArrived | ReplyArrived | CallFailed | ReplySent | Closed
