"""The memory that the handler of a call takes for its results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self

from rpcrdma.aio.answering.buffer_pool import octets_reserved
from rpcrdma.aio.answering.call_source import CallSource
from rpcrdma.rpc.dispatch import Route
from rpcrdma.transport import IncomingCall

__all__ = ["CallWithResults"]


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
        """Whether the call has to wait until there is memory for its results; then `resume(call)` is called.

        For a handler with bulk results that cannot be run again, the largest that it may return are reserved. Others
        begin if there is memory for an ordinary result, or if their connection holds nothing and they may be run again.
        """
        share = self.source.results
        if share.closed:
            return False
        if self.route.reserves:
            wanted = min(octets_reserved(self.route.procedure.reply_bound(self.args).items), share.octets_max)
            if not wanted or share.reserve(wanted):
                self.reserved = wanted
                return False
            share.wait(wanted, functools.partial(resume, self))
        elif not share.crowded or not (share.held or self.route.at_most_once):
            return False
        else:
            share.wait_while_crowded(functools.partial(resume, self))
        return True

    def wait_for_buffers(self, resume: Callable[[Self], None]) -> bool:
        """After `OutOfBuffers`: gives all buffers back and calls `resume(call)` when the handler could have its memory.

        False if it never can: then nothing is called.
        """
        share = self.source.results
        wanted, self._wanted = self._wanted, 0
        if not wanted or share.closed or wanted > share.octets_max:
            return False
        self.release()
        share.wait(wanted, functools.partial(resume, self))
        return True
