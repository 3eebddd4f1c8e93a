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
"""Maps the number of octets at hand (1 or more) to the number that is moved at once, from 1."""


class ByteStreamQueuePair(Protocol):
    """A queue pair whose messages travel on a byte stream, such as TCP: the methods that the driver of a socket calls.

    `wants_close`: whether this end has nothing more to send and the driver is to close the stream.
    """

    wants_close: bool

    def next_buffers(self) -> list[memoryview]:
        """Returns the buffers to fill, in order, with the next octets received; valid until `bytes_received`."""

    def bytes_received(self, octets: int) -> object:
        """Processes `octets` octets that were received into the buffers of `next_buffers`; the result means nothing."""

    def end_of_stream(self) -> None:
        """Handles the end of the octets from the peer, after which none follow."""

    def next_gather(self, max_octets: int) -> list[Buffer]:
        """Returns the next octets to send: at most `max_octets`, or one frame that is longer; [] if there are none."""

    def bytes_sent(self, octets: int) -> None:
        """Removes the first `octets` octets of the gather list of `next_gather`, since they were sent."""


def whole(available: int) -> int:
    """Returns `available`: as `chunking` of a `JoinedPair`, moves all octets at hand at once."""
    return available


def byte_by_byte(available: int) -> int:
    """Returns 1: as `chunking` of a `JoinedPair`, moves one octet at a time."""
    del available
    return 1


def sizes(draw: Callable[[int, int], int]) -> Chunking:
    """Returns a `chunking` for `JoinedPair`: it moves `draw(1, available)` octets, such as by `Random().randint`."""
    return lambda available: draw(1, available)


def feed(receiver: ByteStreamQueuePair, octets: Buffer) -> int:
    """Copies octets into the receive buffers of a queue pair, like one `recvmsg_into`, and has it process them.

    Returns the number of octets that fit into the buffers; the others are not delivered.
    """
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
    """Two queue pairs over byte streams, joined in memory; octets move only in `progress`.

    Args:
        a: one end.
        b: the other end.
        chunking: maps the number of octets at hand to the number that is moved at once.
        gather_octets: the most octets that an end may send at once.
        recording: whether `log_a` and `log_b` keep the octets that each end has sent.
    """

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
        """Moves octets in both directions until neither end has more to send.

        Returns:
            Whether any octets, or the end of a stream, were moved.

        Raises:
            AssertionError: the two ends still answer each other after a million moves, or `next_buffers` of one end has
                no room for octets of the other.
        """
        moved = False
        for _ in range(_MOVES_MAX):
            if not (self._move(self.a, self.b, self.log_a) | self._move(self.b, self.a, self.log_b)):
                return moved
            moved = True
        raise AssertionError("the two ends do not come to rest")

    def _move(self, sender: ByteStreamQueuePair, receiver: ByteStreamQueuePair, log: bytearray) -> bool:
        """Moves the next octets of `sender`, as many as `chunking` says, into `receiver`, in steps of `chunking`, too.

        If `sender` has no octets and wants to close, passes on the end of the stream, once. Appends the octets to `log`
        if the pair records. Returns whether octets, or the end of the stream, were moved.
        """
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
            taken = feed(receiver, view[start : start + step])
            if not taken:
                raise AssertionError("an end has no buffer for the octets of the other one")
            start += taken
        return True
