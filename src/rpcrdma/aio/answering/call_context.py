"""The context that a server hands to its handlers."""

from __future__ import annotations

import functools
from collections.abc import Callable

from rpcrdma.aio.answering.buffer_pool import BufferShare, OutOfBuffers, octets_taken
from rpcrdma.limits import BULK_RESULT_OCTETS
from rpcrdma.rpc.dispatch import Invocation
from rpcrdma.rpc.host_identity import HostIdentity
from rpcrdma.rpc.service import ReverseCaller

__all__ = ["ServerCallContext"]


class ServerCallContext:
    """`rpcrdma.rpc.CallContext` for one call; its buffers live until `release`, after the reply has been sent."""

    __slots__ = (
        "_buffers",
        "_outliving",
        "_share",
        "_wanted",
        "arrived_ns",
        "begun_ns",
        "client",
        "credential",
        "invocation",
        "may_block",
        "octets",
        "peer",
        "unsent_octets",
        "xid",
    )

    octets: int
    """Of the call; this and the next one are set where calls are counted."""
    arrived_ns: int

    def __init__(self, invocation: Invocation, peer: str, share: BufferShare, client: ReverseCaller) -> None:
        self.begun_ns = 0
        """When its handler had what it waited for, a thread, memory or its turn as a task; 0: it did not wait."""
        self.client = client
        self.invocation = invocation
        self.credential = invocation.credential
        self.xid = invocation.xid
        self.peer = peer
        self.may_block = False
        self.unsent_octets = 0
        """Of the reply, from when it is handed to the transport until it has been sent; the connection's own."""
        # A call that must not run twice gets memory also when its connection has ended: a repeat may get its result.
        self._outliving = invocation.at_most_once
        self._share = share
        self._wanted = 0
        self._buffers: list[memoryview] | None = None

    @property
    def host_identity(self) -> HostIdentity | None:
        """See `CallContext.host_identity`."""
        return self.client.host_identity

    @property
    def ended(self) -> bool:
        """Whether the connection has ended: no reply can reach the client on it."""
        return self._share.closed

    def buffer(self, length: int) -> memoryview:
        """See `CallContext.buffer`.

        Raises:
            OutOfBuffers: the handlers of this connection hold as much memory as they may, or it has ended.
        """
        buffer = self._share.acquire(length, outliving=self._outliving)
        if buffer is None:
            self._wanted = octets_taken(length) + sum(octets_taken(len(other)) for other in self._buffers or ())
            raise OutOfBuffers(f"{length} octets asked for, {self._share.held_octets} are in use for this connection")
        if self._buffers is None:
            self._buffers = [buffer]
        else:
            self._buffers.append(buffer)
        # A second view, since the handler may release the one that it gets.
        return buffer[:]

    def release(self) -> None:
        """Returns every buffer to the pool; may be called again."""
        buffers = self._buffers
        if buffers is not None:
            self._buffers = None
            for buffer in buffers:
                self._share.release(buffer)

    def wait_if_crowded(self, resume: Callable[..., None], *args: object) -> bool:
        """Whether the call has to wait until there is memory for an ordinary result; then `resume(*args)` is called.

        A call that may be run again need not wait if its connection holds nothing: most calls want no memory.
        """
        share = self._share
        if not share.client.held or not share.crowded or share.closed or not (share.held or self._outliving):
            return False
        share.wait(min(BULK_RESULT_OCTETS, share.octets_max), functools.partial(resume, *args))
        return True

    def wait_for_buffers(self, resume: Callable[[], None]) -> bool:
        """After `OutOfBuffers`: gives all buffers back and calls `resume` when the handler could have its memory.

        False if it never can: then nothing is called.
        """
        wanted, self._wanted = self._wanted, 0
        if not wanted or self._share.closed or wanted > self._share.octets_max:
            return False
        self.release()
        self._share.wait(wanted, resume)
        return True
