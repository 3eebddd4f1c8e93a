"""The memory of messages on one connection: Read chunks, long messages of unanswered calls, and unfinished messages.

Unlike over TCP, no message can stay unread, because the peer has credits. So a message without room is refused.
"""

from __future__ import annotations

from typing import Protocol

from rpcrdma.limits import CONNECTION_MESSAGE_OCTETS_MAX, RPC_UNCOUNTED_CALL_OCTETS
from rpcrdma.wire.bulk_memory import bulk

__all__ = ["BufferSource", "MessageMemory", "MessageRoom", "PlainBuffers"]


class MessageRoom(Protocol):
    """The bound on the memory of received messages of all connections together; a server implements this interface."""

    def take_in(self, octets: int, /) -> bool:
        """Counts `octets` of received messages; returns False, and counts none, if there is no room for all of them."""

    def give_back(self, octets: int, /) -> None:
        """Stops counting `octets` of those that `take_in` has counted."""


class BufferSource(MessageRoom, Protocol):
    """The source of memory for Read chunks, which at a server also accounts for received messages."""

    def acquire(self, length: int) -> memoryview | None:
        """Lends writable memory of at least `length` octets with unspecified content.

        Returns the memory; None if none is free at present: the call then waits until `Endpoint.resume_pulls` is
        called, or another call of the connection has ended.

        Raises:
            MemoryError, RpcRdmaError: there will be no memory for this length; the call is refused.
        """

    def release(self, view: memoryview) -> None:
        """Takes back memory that `acquire` returned and that nothing uses any more."""


class PlainBuffers:
    """Implements `BufferSource` by new memory for each request, without any bound."""

    __slots__ = ()

    def acquire(self, length: int) -> memoryview:
        return bulk(length)

    def release(self, view: memoryview) -> None:
        """Does nothing: Python frees the memory after the last reference."""

    def take_in(self, _octets: int) -> bool:
        """Returns True for any number of octets: nothing is bounded or counted."""
        return True

    def give_back(self, _octets: int) -> None:
        """Does nothing, since `take_in` counts nothing."""


class MessageMemory:
    """Counts the octets of one connection's received messages, against a bound of the connection and that of `room`.

    `room` is the bound of all connections together, against which the first RPC_UNCOUNTED_CALL_OCTETS of a connection
    do not count; None: there is no such bound.
    """

    __slots__ = ("_counted", "_group", "_octets", "_room")

    def __init__(self, room: MessageRoom | None = None) -> None:
        self._room = room
        self._octets = 0
        self._group = 0
        self._counted = 0

    def hold(self, octets: int) -> bool:
        """Counts `octets` of messages; returns False, and counts none, beyond the connection's or `room`'s bound."""
        after = self._octets + octets
        if after > CONNECTION_MESSAGE_OCTETS_MAX:
            return False
        more = after - RPC_UNCOUNTED_CALL_OCTETS - self._counted
        if more > 0 and self._room is not None:
            if not self._room.take_in(more):
                return False
            self._counted += more
        self._octets = after
        return True

    def release(self, octets: int) -> None:
        """Stops counting `octets` of a call that has ended, or of pieces or a group that is no longer held."""
        self._octets -= octets
        less = self._counted - max(0, self._octets - RPC_UNCOUNTED_CALL_OCTETS)
        if less > 0 and self._room is not None:
            self._counted -= less
            self._room.give_back(less)

    def hold_group(self, octets: int) -> bool:
        """Counts an extension's `octets` until `release_group`; returns False, and counts none, beyond a bound."""
        if not self.hold(octets):
            return False
        self._group += octets
        return True

    def release_group(self) -> None:
        """Stops counting the octets of every earlier `hold_group`: the extension has joined or dropped the messages."""
        group, self._group = self._group, 0
        if group:
            self.release(group)
