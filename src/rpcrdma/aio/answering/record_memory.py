"""The memory that the calls of one record stream hold, counted against the memory that all clients share.

Records are received into memory of their own, which the kernel gives as it is written to. So nothing is lent here: it
is only counted, and the stream is left unread while there is no room for the record that its next octets are part of.
"""

from __future__ import annotations

from collections.abc import Callable

from rpcrdma.aio.answering.buffer_pool import BufferShare
from rpcrdma.limits import RPC_UNCOUNTED_CALL_OCTETS

__all__ = ["CallMemory"]


class CallMemory:
    """Counts the octets of one TCP connection's calls, waiting, running or being received, against `share`.

    `share` is the connection's share of a buffer pool. The first RPC_UNCOUNTED_CALL_OCTETS octets of all these calls
    together do not count. If the share has no room, the attribute `short` is true and the connection must not read on.
    `on_room` is called in the event loop when `short` becomes false because memory was freed elsewhere.
    """

    __slots__ = ("_covered", "_octets", "_on_room", "_share", "_waits", "expected", "short")

    def __init__(self, share: BufferShare, on_room: Callable[[], None]) -> None:
        self._share = share
        self._on_room: Callable[[], None] | None = on_room
        self._octets = 0
        self._covered = RPC_UNCOUNTED_CALL_OCTETS
        """The octets that may be held without counting more against the share."""
        self._waits = False
        self.expected = 0
        """Octets of the record that is being received, as far as they were announced."""
        self.short = False
        """Whether there is no room for the octets held and expected, so that no more must be read."""

    @property
    def octets(self) -> int:
        """The octets of the completely received calls, from `add` until `remove`."""
        return self._octets

    def add(self, octets: int) -> None:
        """Counts the `octets` of a received call; sets the attribute `short` (stop reading) if they have no room."""
        self._octets += octets
        if self._octets + self.expected > self._covered:
            self._cover()

    def remove(self, octets: int) -> None:
        """Ends the count of the `octets` of an answered call; clears `short` (stop reading) if there is room again."""
        self._octets -= octets
        if self.short or self._covered > RPC_UNCOUNTED_CALL_OCTETS:
            self._cover()

    def expect(self, octets: int) -> None:
        """Sets the announced octets of the record being received (0: none); sets or clears `short` (stop reading)."""
        self.expected = octets
        if self.short or self._octets + octets > self._covered or self._covered > RPC_UNCOUNTED_CALL_OCTETS:
            self._cover()

    def close(self) -> None:
        """Closes the pool share at the end of the connection, and clears `short` (stop reading) for good.

        `on_room` is called no more. Running calls count until `remove` is called for them.
        """
        self.expected = 0
        self.short = False
        self._on_room = None
        self._share.close()
        self._cover()

    def _cover(self) -> None:
        share = self._share
        # One record must have room, in however small a pool: with all of it, nothing else of the client is held.
        wanted = min(self._octets + self.expected, RPC_UNCOUNTED_CALL_OCTETS + share.octets_max)
        more = max(wanted, RPC_UNCOUNTED_CALL_OCTETS) - self._covered
        self.short = False
        if more < 0:
            share.give_back(-more)
        elif more and not share.reserve(more):
            if not self._octets and self._covered > RPC_UNCOUNTED_CALL_OCTETS:
                # The counted octets were an earlier call's. For one record all octets are requested at once: a
                # connection gets its first piece sooner than a little more.
                share.give_back(self._covered - RPC_UNCOUNTED_CALL_OCTETS)
                self._covered = RPC_UNCOUNTED_CALL_OCTETS
                self._cover()
                return
            self.short = not share.closed
            if self.short and not self._waits:
                self._waits = True
                share.wait(more, self._resumed)
            return
        self._covered += more

    def _resumed(self) -> None:
        self._waits = False
        if self.short:
            self._cover()
            if not self.short and self._on_room is not None:
                self._on_room()
