"""The memory of messages on one connection: Read chunks, long messages of unanswered calls, and unfinished messages.

Unlike over TCP, no message can stay unread, because the peer has credits. So a message without room is refused.
"""

from __future__ import annotations

from typing import Protocol

from rpcrdma.limits import CONNECTION_MESSAGE_OCTETS_MAX, RPC_UNCOUNTED_CALL_OCTETS
from rpcrdma.wire.bulk_memory import bulk

__all__ = ["BufferSource", "MessageMemory", "MessageRoom", "PlainBuffers"]


class MessageRoom(Protocol):
    """The bound on the messages of all connections together."""

    def take_in(self, octets: int, /) -> bool:
        """Counts arrived octets; returns False, and counts none, if there is no room for all of them."""

    def give_back(self, octets: int, /) -> None:
        """Gives back octets of `take_in`, all or some."""


class BufferSource(MessageRoom, Protocol):
    """The source of memory for Read chunks; at a server it also accounts for arrived messages."""

    def acquire(self, length: int) -> memoryview | None:
        """Returns writable memory of at least `length` octets with unspecified content.

        None if there is no memory at present: the call waits for `Endpoint.resume_pulls`.

        Raises:
            MemoryError, RpcRdmaError: there is no memory at all; the call is refused.
        """

    def release(self, view: memoryview) -> None:
        """Takes back a view that `acquire` returned."""


class PlainBuffers:
    """New memory for each request."""

    __slots__ = ()

    def acquire(self, length: int) -> memoryview:
        return bulk(length)

    def release(self, view: memoryview) -> None:
        """Does nothing: Python frees the memory after the last reference."""

    def take_in(self, _octets: int) -> bool:
        """Accepts any size: returns True."""
        return True

    def give_back(self, _octets: int) -> None:
        """Does nothing, since nothing was counted."""


class MessageMemory:
    """The octets of one connection's messages, with a bound for the connection and that of `room`, if any.

    The first RPC_UNCOUNTED_CALL_OCTETS do not count against `room`.
    """

    __slots__ = ("_counted", "_group", "_octets", "_pieces", "_room")

    def __init__(self, room: MessageRoom | None = None) -> None:
        self._room = room
        self._octets = 0
        self._pieces = 0
        self._group = 0
        self._counted = 0

    def hold(self, octets: int) -> bool:
        """Counts the octets of a call; returns False, and counts none, if that exceeds a bound."""
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
        """Ends the count of an answered call's octets."""
        self._octets -= octets
        less = self._counted - max(0, self._octets - RPC_UNCOUNTED_CALL_OCTETS)
        if less > 0 and self._room is not None:
            self._counted -= less
            self._room.give_back(less)

    def hold_piece(self, octets: int) -> bool:
        """Counts the octets of a piece; returns False, and counts none, if that exceeds a bound."""
        if not self.hold(octets):
            return False
        self._pieces += octets
        return True

    def hold_group(self, octets: int) -> bool:
        """Counts the octets of an extension's group; returns False, and counts none, if that exceeds a bound."""
        if not self.hold(octets):
            return False
        self._group += octets
        return True

    def release_group(self) -> None:
        """Ends the count of the group's octets, after its end."""
        group, self._group = self._group, 0
        if group:
            self.release(group)

    def release_pieces(self) -> None:
        """Ends the count of all pieces' octets, after the last one, or after they were given up."""
        pieces, self._pieces = self._pieces, 0
        if pieces:
            self.release(pieces)
