"""Two byte-stream queue pairs joined back to back in memory, with control over the cuts of the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rpcrdma.wire.buffers import Buffer, gather_length

__all__ = ["ByteStreamQueuePair", "Chunking", "JoinedPair", "byte_by_byte", "feed", "sizes", "whole"]

_GATHER_OCTETS = 1 << 18
_MOVES_MAX = 1_000_000
"""More than any finite exchange needs: two ends that answer each other for ever are a bug."""

Chunking = Callable[[int], int]
"""How many of the octets on hand (1 or more) are moved at once: 1 to that number."""


class ByteStreamQueuePair(Protocol):
    """The interface of a queue pair that a socket driver uses."""

    wants_close: bool

    def next_buffers(self) -> list[memoryview]:
        """The buffers for the next octets received."""

    def bytes_received(self, octets: int) -> object:
        """`octets` were received into those buffers."""

    def end_of_stream(self) -> None:
        """The peer's stream has ended."""

    def next_gather(self, max_octets: int) -> list[Buffer]:
        """The octets to send."""

    def bytes_sent(self, octets: int) -> None:
        """The first `octets` of them were sent."""


def whole(available: int) -> int:
    """All octets on hand at once."""
    return available


def byte_by_byte(available: int) -> int:
    """One octet at a time."""
    del available
    return 1


def sizes(draw: Callable[[int, int], int]) -> Chunking:
    """Pieces of `draw(1, available)` octets: give it a seeded generator's `randint`."""
    return lambda available: draw(1, available)


def feed(receiver: ByteStreamQueuePair, octets: Buffer) -> int:
    """Receives as one `recvmsg_into` would: returns how many of `octets` fitted into the buffers."""
    rest = memoryview(octets)
    taken = 0
    for buffer in receiver.next_buffers():
        step = min(len(buffer), len(rest) - taken)
        buffer[:step] = rest[taken : taken + step]
        taken += step
        if taken == len(rest):
            break
    receiver.bytes_received(taken)
    return taken


class JoinedPair:
    """Two ends joined by a stream in memory. If `recording`, `log_a` and `log_b` hold the octets that each has sent."""

    def __init__(
        self,
        a: ByteStreamQueuePair,
        b: ByteStreamQueuePair,
        *,
        chunking: Chunking = whole,
        gather_octets: int = _GATHER_OCTETS,
        recording: bool = False,
    ) -> None:
        self.a = a
        self.b = b
        self.chunking = chunking
        self.gather_octets = gather_octets
        self.recording = recording
        self.log_a = bytearray()
        self.log_b = bytearray()
        self._ended: set[int] = set()

    def progress(self) -> bool:
        """Moves octets both ways until neither end has any to send; returns whether any were moved."""
        moved = False
        for _ in range(_MOVES_MAX):
            if not (self._move(self.a, self.b, self.log_a) | self._move(self.b, self.a, self.log_b)):
                return moved
            moved = True
        raise AssertionError("the two ends do not come to rest")

    def _move(self, sender: ByteStreamQueuePair, receiver: ByteStreamQueuePair, log: bytearray) -> bool:
        """One send, and the receives that take all its octets."""
        gather = sender.next_gather(self.gather_octets)
        if not gather:
            if sender.wants_close and id(sender) not in self._ended:
                self._ended.add(id(sender))
                receiver.end_of_stream()
                return True
            return False
        octets = self.chunking(gather_length(gather))
        # A copy, as TCP makes one: octets in a socket's buffer do not change with the memory they came from.
        data = b"".join(gather)[:octets]
        if self.recording:
            log += data
        sender.bytes_sent(octets)
        start = 0
        view = memoryview(data)
        while start < octets:
            step = self.chunking(octets - start)
            start += feed(receiver, view[start : start + step])
        return True
