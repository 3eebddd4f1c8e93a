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

        Sets `refusal` if the reply does not fit the chunks of the call. The requester gets an error then, and may call
        again. A reply that is too long for the transport is replaced by an error.
        """

    def reply_octets_max(self, call: C_contra, items: Sequence[int]) -> int:
        """Returns the most octets of the reply beside bulk items of the lengths `items`; 0 if these have no room.

        An item that no Write chunk of the call takes counts as a part of the reply. May be called in any thread.
        """

    def refuse(self, call: C_contra) -> bool:
        """Refuses the call in the transport's own way; returns False, and does nothing, if it has none."""

    def drop(self, call: C_contra) -> None:
        """Ends the call without a reply."""


class CallWithResults(IncomingCall):
    """A call whose handler takes memory of the connection's share."""

    source: CallSource[Any]
    route: Route
    args: Any
    buffers: list[memoryview] | None = None
    reserved: int = 0
    """Octets of memory that are reserved for `buffer`."""
    _wanted: int = 0

    def release(self) -> None:
        """Returns every buffer to the pool; may be called again."""
        buffers = self.buffers
        if buffers is not None:
            self.buffers = None
            for buffer in buffers:
                self.source.results.release(buffer)

    def end_reservation(self) -> None:
        """Gives back the reserved memory that the handler, which has ended, did not take."""
        reserved, self.reserved = self.reserved, 0
        self.source.results.give_back(reserved)

    def wait_for_room(self, resume: Callable[[Self], None]) -> bool:
        """Returns whether the call must wait for memory for its results; then calls `resume(call)` when there is some.

        A handler with bulk results that must not be run twice waits until memory for the largest of them is reserved.
        Any other call begins if there is memory for an ordinary result, or if its connection holds no memory and the
        handler may be run again. After the end of the connection no call waits.
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
        """Gives all buffers back after `OutOfBuffers`, and calls `resume(call)` when the handler can have its memory.

        False if it never can: then nothing is called.
        """
        share = self.source.results
        wanted, self._wanted = self._wanted, 0
        if not wanted or share.closed or wanted > share.octets_max:
            return False
        self.release()
        share.wait(wanted, functools.partial(resume, self))
        return True
