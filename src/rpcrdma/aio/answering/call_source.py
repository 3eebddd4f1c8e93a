"""The connection on which calls arrive, as the code that answers them sees it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from rpcrdma.aio.answering.buffer_pool import BufferShare
from rpcrdma.rpc.service import ReverseCaller
from rpcrdma.xdr.codec import Payload

__all__ = ["CallSource"]

C_contra = TypeVar("C_contra", contravariant=True)
"""The class of the calls."""


class CallSource(Protocol[C_contra]):
    """The part of a connection on which calls arrive.

    It ends each call by one of `reply`, `drop` and a `refuse` that returns True. Then, or once the reply has left, it
    releases the call's memory.
    """

    @property
    def client(self) -> ReverseCaller:
        """The connection, which calls the peer back."""

    @property
    def host(self) -> str:
        """The peer's address, without port."""

    @property
    def results(self) -> BufferShare:
        """Memory for the results of handlers."""

    def reply(self, call: C_contra, reply: Payload) -> None:
        """Sends the reply and sets `octets_sent`; drops the reply if the connection has ended.

        Sets `refusal` if the reply fits nothing that the call has offered. The requester has been told; it may call
        again. A reply that is too long for the transport is replaced by an error.
        """

    def refuse(self, call: C_contra) -> bool:
        """Refuses the call in the transport's own way; False: there is none, and nothing was done."""

    def drop(self, call: C_contra) -> None:
        """Sends nothing."""
