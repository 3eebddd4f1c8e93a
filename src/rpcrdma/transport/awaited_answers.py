"""Answers that an extension awaits; each wait ends with the answer, the peer's error or the end of the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from rpcrdma.errors import LocalProtocolError, RpcRdmaError
from rpcrdma.transport.message import Cause

__all__ = ["AwaitedAnswer", "AwaitedAnswers", "ExtensionError", "ExtensionRefused"]


class ExtensionError(NamedTuple):
    """The peer's error about a message that an extension has sent.

    Args:
        xid: the XID of the refused message.
        code: the error code, if an extension defines it; 0 if the protocol version does.
        words: the 32-bit words that follow the extension's code.
        cause: the reason, if the protocol version defines the error; otherwise `Cause.EXTENSION`.
    """

    xid: int
    code: int
    words: tuple[int, ...]
    cause: Cause


class ExtensionRefused(RpcRdmaError):
    """The peer has refused a message whose answer is awaited (`ExtensionLink.ask`).

    Args:
        error: the peer's error.
    """

    def __init__(self, error: ExtensionError) -> None:
        self.error = error
        code = f"error {error.code:#x} {error.words}" if error.code else error.cause.value
        super().__init__(f"the peer refused the message: {code}")


class AwaitedAnswer(Awaitable[Any], Protocol):
    """The methods of an event loop's future that a wait for an answer uses."""

    def done(self) -> bool:
        """Returns whether the wait has ended, with a result, an error or by cancellation."""

    def set_result(self, result: Any, /) -> None:
        """Ends the wait with a result."""

    def set_exception(self, exception: Exception, /) -> None:
        """Ends the wait with an error."""


def _no_event_loop() -> AwaitedAnswer:
    raise LocalProtocolError("an answer is awaited on a connection without an event loop")


class AwaitedAnswers:
    """The waits of one extension on one connection for answers to its messages.

    `futures` maps the XID of each message to its future. The connection's owner sets `new_future`, which makes a future
    of its event loop; before that `new_future` raises `LocalProtocolError`.
    """

    __slots__ = ("futures", "new_future")

    def __init__(self) -> None:
        self.futures: dict[int, AwaitedAnswer] = {}
        self.new_future: Callable[[], AwaitedAnswer] = _no_event_loop

    async def wait(self, xid: int, future: AwaitedAnswer) -> Any:
        """Enters `future` in `futures` under the XID of a message, waits for the answer, and removes the entry.

        Await this directly after the Send, before the event loop can handle an answer. `future`: a future from
        `new_future`, which `end` or `close` completes. Returns the value that was passed to `end`. If the wait is
        cancelled, `end` returns False for a later answer.

        Raises:
            Exception: the error that was passed to `end` or `close`.
        """
        self.futures[xid] = future
        try:
            return await future
        finally:
            self.futures.pop(xid, None)

    def end(self, xid: int, value: Any) -> bool:
        """Ends the wait for the answer to a message with the answer.

        `xid`: the XID of the message. `value`: the result of `wait`; if it is an exception, `wait` raises it. Returns
        True; False if nothing waits for the XID, or the wait was cancelled.
        """
        future = self.futures.pop(xid, None)
        if future is None or future.done():
            return False
        if isinstance(value, Exception):
            future.set_exception(value)
        else:
            future.set_result(value)
        return True

    def close(self, error: Exception) -> None:
        """Ends the waits for answers to all messages of the extension on this connection: each raises `error`."""
        for xid in list(self.futures):
            self.end(xid, error)
