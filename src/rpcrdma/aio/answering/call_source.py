"""The connection on which calls arrive, as the code that answers them sees it, and the memory of their results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

from rpcrdma.aio.answering.buffer_pool import BufferShare, octets_reserved
from rpcrdma.rpc.dispatch import Route
from rpcrdma.rpc.service import ReverseCaller
from rpcrdma.transport import IncomingCall
from rpcrdma.xdr.codec import Payload

__all__ = ["CallSource", "CallWithResults"]

C_contra = TypeVar("C_contra", contravariant=True)
"""The class of the calls, such as `ServerCall`."""


class CallSource(Protocol[C_contra]):
    """The interface of a connection on which calls arrive, for the code that answers them; RDMA and TCP implement it.

    The answering code ends each call by exactly one of: `reply`, `drop`, or a `refuse` that returns True. By that the
    connection releases the call's memory (`CallWithResults.release`): within `drop` and `refuse`, and after `reply` as
    soon as the transport uses it no more, at the latest when the reply has left or the connection has ended.
    """

    @property
    def client(self) -> ReverseCaller:
        """The object by which this side calls the peer, in the reverse direction (RFC 8167)."""

    @property
    def host(self) -> str:
        """The peer's network address as text, without port."""

    @property
    def results(self) -> BufferShare:
        """The connection's share of the memory for results of handlers; it is closed when the connection ends."""

    def reply(self, call: C_contra, reply: Payload) -> None:
        """Sends `reply` as the answer to `call` and sets `call.octets_sent`.

        After the end of the connection only the call's memory is released. If the reply does not fit the chunks that
        the call provides, the requester gets an error, and the implementation sets `call.refusal` to the reason: the
        requester may repeat the call with more memory. A reply that is too long for the transport is replaced by an
        error.
        """

    def reply_octets_max(self, call: C_contra, items: Sequence[int]) -> int:
        """Returns the most octets of a reply to `call`, RPC header included, bulk items excluded.

        `items` are the lengths in octets of the reply's bulk items. An item that no Write chunk of the call takes is
        sent within the reply, and reduces the result. Returns 0 if the items alone do not fit. The method may be called
        in any thread.
        """

    def refuse(self, call: C_contra) -> bool:
        """Refuses `call` by the transport's own error, such as RDMA_ERROR with ERR_CHUNK, and returns True.

        Returns False, without any effect, if the transport has no such error, as TCP.
        """

    def drop(self, call: C_contra) -> None:
        """Ends `call` without a reply and releases its memory."""


class CallWithResults(IncomingCall):
    """A received call together with the memory for its results, which its handler borrows from `source.results`.

    `buffers` are the borrowed buffers, None if there are none. `source` is the connection, `route` the handler and the
    way in which it runs.
    """

    source: CallSource[Any]
    route: Route
    args: Any
    buffers: list[memoryview] | None = None
    reserved: int = 0
    """Octets of memory that are reserved for `buffer`."""
    _wanted: int = 0
    """Octets of all buffers that the handler needed when `buffer` found no room; 0: it has found room."""

    def release(self) -> None:
        """Gives every buffer that the handler borrowed back to the buffer pool; no effect when repeated."""
        buffers = self.buffers
        if buffers is not None:
            self.buffers = None
            for buffer in buffers:
                self.source.results.release(buffer)

    def end_reservation(self) -> None:
        """Gives back the reserved octets that the handler did not use; called when the handler has ended."""
        reserved, self.reserved = self.reserved, 0
        self.source.results.give_back(reserved)

    def wait_for_room(self, resume: Callable[[Self], None]) -> bool:
        """Returns whether the call must wait for memory for its results; if so, has `resume(call)` called later.

        `resume` must call this method again. If the handler has bulk results and must not begin twice, this method
        reserves memory for the largest results, counted in `reserved`; the call waits while there is no room for them.
        Any other call, with bulk results or without, waits while its client is `BufferShare.crowded`, unless its
        connection holds no memory and the handler may begin twice. After the end of the connection no call waits.
        """
        share = self.source.results
        if share.closed:
            return False
        if self.route.reserves:
            procedure, args = self.route.procedure, self.args
            items = procedure.reply_bound(args).items if procedure.items is None else procedure.items(args)
            wanted = octets_reserved(items) if items else 0
            if not wanted:
                return False
            wanted = min(wanted, share.octets_max)
            if share.reserve(wanted):
                self.reserved = wanted
                return False
            share.wait(wanted, functools.partial(resume, self))
        elif not share.crowded or not (share.held or self.route.begins_once):
            return False
        else:
            share.wait_while_crowded(functools.partial(resume, self))
        return True

    def wait_for_buffers(self, resume: Callable[[Self], None]) -> bool:
        """Gives all buffers back after the handler raised `OutOfBuffers`, and has `resume(call)` called later.

        `resume` is called when there is room for all buffers that the handler asked for, or when the connection ends.
        Returns True. If waiting is useless, the method returns False, and the call keeps its buffers until `release`:
        the connection has ended, the buffers together exceed the pool, or `ServerCall.buffer` has not raised
        `OutOfBuffers` for lack of room since the last call of this method.
        """
        share = self.source.results
        wanted, self._wanted = self._wanted, 0
        if not wanted or share.closed or wanted > share.octets_max:
            return False
        self.release()
        share.wait(wanted, functools.partial(resume, self))
        return True
