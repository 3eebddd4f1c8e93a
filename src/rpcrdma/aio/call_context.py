"""The context that a server hands to its handlers."""

from __future__ import annotations

from rpcrdma.aio.buffer_pool import BufferPool
from rpcrdma.rpc.dispatch import Invocation

__all__ = ["ServerCallContext"]


class ServerCallContext:
    """`rpcrdma.rpc.CallContext` for one call; its buffers live until `release`, after the reply has been sent."""

    __slots__ = ("_buffers", "_pool", "credential", "may_block", "peer", "unsent_octets", "xid")

    def __init__(self, invocation: Invocation, peer: str, pool: BufferPool) -> None:
        self.credential = invocation.credential
        self.xid = invocation.xid
        self.peer = peer
        self.may_block = False
        self.unsent_octets = 0
        """Of the reply, from when it is handed to the transport until it has been sent; the server's own."""
        self._pool = pool
        self._buffers: list[memoryview] | None = None

    def buffer(self, length: int) -> memoryview:
        """See `CallContext.buffer`.

        Raises:
            OutOfBuffers: handlers hold as much memory as they may.
        """
        buffer = self._pool.acquire(length)
        if self._buffers is None:
            self._buffers = [buffer]
        else:
            self._buffers.append(buffer)
        # A view of its own: a handler may release what it was given.
        return buffer[:]

    def release(self) -> None:
        """Returns every buffer to the pool; may be called again."""
        buffers = self._buffers
        if buffers is not None:
            self._buffers = None
            for buffer in buffers:
                self._pool.release(buffer)
