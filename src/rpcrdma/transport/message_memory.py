"""What messages hold that have arrived on one connection: long ones of unanswered calls, and those that are not whole.

Nothing can be left unread as over TCP, for the peer has credits: a message without room is refused.
"""

from __future__ import annotations

from typing import Protocol

from rpcrdma.limits import CONNECTION_MESSAGE_OCTETS_MAX, RPC_UNCOUNTED_CALL_OCTETS

__all__ = ["MessageMemory", "MessageRoom"]


class MessageRoom(Protocol):
    """What all connections may hold together."""

    def take_in(self, octets: int, /) -> bool:
        """Counts so many octets that have arrived; False if there is no room for them."""

    def give_back(self, octets: int, /) -> None:
        """Ends `take_in`, of all or of some."""


class MessageMemory:
    """Octets of one connection's messages, counted against the bound of the connection and that of `room`, if any.

    What is held up to RPC_UNCOUNTED_CALL_OCTETS does not count against `room`.
    """

    __slots__ = ("_counted", "_group", "_octets", "_pieces", "_room")

    def __init__(self, room: MessageRoom | None = None) -> None:
        self._room = room
        self._octets = 0
        self._pieces = 0
        self._group = 0
        self._counted = 0

    def hold(self, octets: int) -> bool:
        """Of a call that has come; False if that is too much."""
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
        """The call has been answered."""
        self._octets -= octets
        less = self._counted - max(0, self._octets - RPC_UNCOUNTED_CALL_OCTETS)
        if less > 0 and self._room is not None:
            self._counted -= less
            self._room.give_back(less)

    def hold_piece(self, octets: int) -> bool:
        """Of the message that comes in pieces; False if that is too much."""
        if not self.hold(octets):
            return False
        self._pieces += octets
        return True

    def hold_group(self, octets: int) -> bool:
        """Of the message that comes in an extension's group; False if that is too much."""
        if not self.hold(octets):
            return False
        self._group += octets
        return True

    def release_group(self) -> None:
        """The group has ended, one way or another."""
        group, self._group = self._group, 0
        if group:
            self.release(group)

    def release_pieces(self) -> None:
        """The message is whole, or will never be."""
        pieces, self._pieces = self._pieces, 0
        if pieces:
            self.release(pieces)
