"""The events of an endpoint, in the order of their occurrence."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from rpcrdma.errors import HostAuthenticationFailed, RpcRdmaError
from rpcrdma.transport.call import Call
from rpcrdma.xdr.codec import Decoder

__all__ = ["CallArrived", "CallFailed", "Closed", "EndpointEvent", "Ready", "ReplyArrived", "ReplySent"]


class Ready(NamedTuple):
    """The connection is open, and message sizes are agreed on.

    `inbound_reads` and `outbound_reads` are the limits of outstanding RDMA Reads (IRD and ORD).
    """

    inbound_reads: int
    outbound_reads: int


class CallArrived(NamedTuple):
    """A call of the peer, `incoming`, has arrived, with the data of its Read chunks.

    `incoming` is an `IncomingCall`, of the class that the `Endpoint` was given.
    """

    incoming: Any


class ReplyArrived(NamedTuple):
    """The reply to `call` has arrived; `decoder` is at its RPC header. No peer can touch the call's memory any more."""

    call: Call
    decoder: Decoder


class CallFailed(NamedTuple):
    """A call of this side ended with `error` and without a usable reply. No peer can touch its memory any more."""

    call: Call
    error: RpcRdmaError


class ReplySent(NamedTuple):
    """The reply to `incoming` was sent, or never will be: the buffers of its payload are free.

    The event follows each `Responder.reply` that has returned True.
    """

    incoming: Any


class Closed(NamedTuple):
    """The last event: the connection ended, or was not established.

    `reason` is in words. `by_peer`: whether the peer ended the connection, or this side did for a fault that counts as
    the peer's (`Session.violation`). `protocol_error`: whether one side broke the protocol. `refusal` is the error of a
    failed host authentication, or None.
    """

    reason: str
    by_peer: bool
    protocol_error: bool
    refusal: HostAuthenticationFailed | None = None


EndpointEvent: TypeAlias = Ready | CallArrived | ReplyArrived | CallFailed | ReplySent | Closed
