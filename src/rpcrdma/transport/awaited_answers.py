"""Answers that an extension awaits: each ends with the answer, the peer's error or the end of the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from rpcrdma.errors import LocalProtocolError, RpcRdmaError
from rpcrdma.transport.message import Cause

__all__ = ["AwaitedAnswer", "AwaitedAnswers", "ExtensionError", "ExtensionRefused"]


class ExtensionError(NamedTuple):
    """The peer's error about a message of the extension: a code of the extension with its words, or `cause`."""

    xid: int
    code: int
    words: tuple[int, ...]
    cause: Cause


class ExtensionRefused(RpcRdmaError):
    """The peer has refused a message whose answer is awaited (`ExtensionLink.ask`); `error` has its error."""

    def __init__(self, error: ExtensionError) -> None:
        self.error = error
        code = f"error {error.code:#x} {error.words}" if error.code else error.cause.value
        super().__init__(f"the peer refused the message: {code}")


class AwaitedAnswer(Awaitable[Any], Protocol):
    """A future, as asyncio has it."""

    def done(self) -> bool:
        """Whether it has a result or an error, or nobody waits for it any more."""

    def set_result(self, result: Any, /) -> None:
        """Ends the wait."""

    def set_exception(self, exception: Exception, /) -> None:
        """Ends the wait with an error."""


def _no_event_loop() -> AwaitedAnswer:
    raise LocalProtocolError("an answer is awaited on a connection without an event loop")


class AwaitedAnswers:
    """The answers that one extension awaits on one connection: `futures` by the XID of the message.

    The connection's owner sets `new_future`.
    """

    __slots__ = ("futures", "new_future")

    def __init__(self) -> None:
        self.futures: dict[int, AwaitedAnswer] = {}
        self.new_future: Callable[[], AwaitedAnswer] = _no_event_loop

    async def wait(self, xid: int, future: AwaitedAnswer) -> Any:
        """Returns the answer to the message with this XID, or raises its error."""
        self.futures[xid] = future
        try:
            return await future
        finally:
            self.futures.pop(xid, None)

    def end(self, xid: int, value: Any) -> bool:
        """Ends a wait with a result or an error; False if nothing waits for the XID."""
        future = self.futures.pop(xid, None)
        if future is None or future.done():
            return False
        if isinstance(value, Exception):
            future.set_exception(value)
        else:
            future.set_result(value)
        return True

    def close(self, error: Exception) -> None:
        """Ends all waits with an error."""
        for xid in list(self.futures):
            self.end(xid, error)
