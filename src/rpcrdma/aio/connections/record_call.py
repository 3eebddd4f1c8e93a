"""A call that has arrived on a TCP connection."""

from __future__ import annotations

from rpcrdma.aio.answering.call_context import ServerCallContext

__all__ = ["RecordCall"]


class RecordCall:
    """The part of a call that a connection keeps until its reply has left; it is the reply's ticket."""

    __slots__ = ("context", "octets")

    def __init__(self, octets: int) -> None:
        self.context: ServerCallContext | None = None
        """None if no handler is run."""
        self.octets = octets
        """Of the call: counted while it is unanswered."""

    def release(self) -> None:
        """Gives back the memory of its result."""
        if self.context is not None:
            self.context.release()
