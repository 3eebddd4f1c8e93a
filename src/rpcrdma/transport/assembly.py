"""Messages in several pieces: one sequence at a time, in order, bounded in octets and in pieces.

A message of another sequence interrupts the unfinished one. Neither of the two is executed, and further pieces of an
interrupted sequence are dropped, up to its last one.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from rpcrdma import limits
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.wire.buffers import Buffer

__all__ = ["Assembly", "Step"]

Key: TypeAlias = tuple[int, ...]
"""The identity of a sequence of pieces: the XID and type of their headers, or more."""


class Step(enum.Enum):
    """The result of `Assembly` for a received message, which is a piece or arrived while one was awaited.

    KEPT: the piece is stored, and further pieces must follow.
    """

    KEPT = "kept"
    WHOLE = "whole"
    """The last piece: `Assembly.release` returns the message."""
    FOREIGN = "foreign"
    """A message of another sequence, which interrupts the unfinished one."""
    TOO_LONG = "too long"
    """The sequence exceeds a bound."""
    DROPPED = "dropped"
    """A piece of an interrupted sequence."""


class Assembly:
    """Assembles messages that arrive in several pieces on one connection; at most one sequence of pieces is unfinished.

    `idle` is True while no further piece is awaited, neither of the unfinished sequence nor of one that was given up.
    `unfinished` identifies the unfinished sequence: 1 is the first one of the connection, 2 the second; 0: there is
    none. `memory` is the account against whose bounds the octets of the stored pieces count. The methods get the `key`
    of a message's sequence, a tuple that all of its pieces share, such as XID, header type and direction, and `more`:
    whether further pieces of the sequence follow the message.
    """

    __slots__ = ("_begun", "_dropping", "_key", "_octets", "_pieces", "idle", "memory", "unfinished")

    def __init__(self) -> None:
        self.memory = MessageMemory()
        self.idle = True
        self.unfinished = 0
        self._begun = 0
        self._octets = bytearray()
        self._key: Key | None = None
        self._pieces = 0
        # Of the last break, so at most two: the sequence that had begun, and the one that broke it.
        self._dropping: set[Key] = set()

    def drop(self, key: Key, *, more: bool) -> Step | None:
        """Drops a received message if it is a piece of one of the sequences given up last, up to its last piece.

        Returns `Step.DROPPED`; None if the message is no such piece.
        """
        if key not in self._dropping:
            return None
        if not more:
            self._dropping.remove(key)
            self._settle()
        return Step.DROPPED

    def take(self, key: Key, payload: Buffer, *, more: bool) -> Step:
        """Stores a piece of a message in several Sends; the piece may begin or end the message's sequence of pieces.

        `payload`: the octets of the piece, which are copied. Returns the `Step`: KEPT if further pieces must follow,
        WHOLE if `release` has the message. FOREIGN (another sequence is unfinished) and TOO_LONG: the piece and the
        unfinished sequence were given up.
        """
        if self._key is None:
            self._key = key
            self._octets = bytearray()
            self.unfinished = self._begun = self._begun + 1
        elif key != self._key:
            self.give_up(key, more=more)
            return Step.FOREIGN
        self._pieces += 1
        too_long = (
            self._pieces > limits.CONTINUED_PIECES_MAX or len(self._octets) + len(payload) > limits.CONTINUED_OCTETS_MAX
        )
        if too_long or not self.memory.hold(len(payload)):
            self.give_up(key, more=more)
            return Step.TOO_LONG
        self._octets += payload
        if more:
            self.idle = False
            return Step.KEPT
        self._end()
        return Step.WHOLE

    def release(self) -> memoryview:
        """Removes and returns the stored octets, of a complete or an unfinished message; empty if there are none.

        The account `Assembly.memory` stops counting the octets.
        """
        octets, self._octets = self._octets, bytearray()
        self.memory.release(len(octets))
        return memoryview(octets)

    def give_up(self, key: Key, *, more: bool) -> bool:
        """Discards the unfinished sequence when a message is refused; returns whether the message interrupted it.

        A message of the unfinished sequence itself does not interrupt it. From then on `drop` drops further pieces of
        the sequence and of the message, and forgets those given up before, unless no sequence was unfinished and `more`
        is False.
        """
        begun = self._key
        broken = begun is not None and begun != key
        dropping = {key} if more else set()
        if begun is not None and broken:
            dropping.add(begun)
        self.release()
        if dropping or self._key is not None:
            self._dropping = dropping
            self._end()
        return broken

    def _end(self) -> None:
        self._key = None
        self._pieces = 0
        self.unfinished = 0
        self._settle()

    def _settle(self) -> None:
        self.idle = self._key is None and not self._dropping
