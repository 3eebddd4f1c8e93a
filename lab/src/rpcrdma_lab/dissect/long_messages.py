"""Joins long messages: RPC messages that RDMA Reads and Writes carry in the segments of one chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.headers import MemorySegment

__all__ = ["LongMessage", "Payload", "Room"]


@dataclass(slots=True)
class Room:
    """The octets, `left`, that the long messages of one connection may still take."""

    left: int = limits.DISSECTED_MESSAGE_OCTETS_MAX


@dataclass(frozen=True, slots=True)
class Payload:
    """The first octets of an RPC message without its reduced items, and the message's length, `octets`."""

    data: bytes
    octets: int

    @property
    def whole(self) -> bool:
        """Whether `data` is the whole message."""
        return len(self.data) == self.octets


@dataclass(slots=True)
class LongMessage:
    """The octets of a long message in a capture, by number of the chunk's segment.

    Octets beyond `room` are counted in `octets`, but not kept.
    """

    room: Room
    octets: int = 0
    _segments: dict[int, bytearray] = field(default_factory=dict)

    def add(self, number: int, place: int, data: bytearray, octets: int) -> None:
        """Adds octets that were transferred by RDMA.

        Args:
            number: the number of the segment in its chunk, from 1 on.
            place: the offset in the segment; octets are kept only if they continue the kept ones.
            data: the octets transferred, possibly without the last ones, which the decoder has dropped before.
            octets: the number of octets transferred.
        """
        self.octets += octets
        segment = self._segments.setdefault(number, bytearray())
        if place == len(segment):
            kept = data[: self.room.left]
            segment += kept
            self.room.left -= len(kept)

    def joined(self, segments: Sequence[MemorySegment]) -> Payload:
        """Returns the message in `segments`, a chunk's segments in order, with its octets before the first missing one.

        The message's length is the sum of the segments' lengths.
        """
        data = bytearray()
        for number, segment in enumerate(segments, 1):
            part = self._segments.get(number, bytearray())[: segment.length]
            data += part
            if len(part) < segment.length:
                break
        return Payload(bytes(data), sum(segment.length for segment in segments))

    def leave(self) -> None:
        """Gives the octets that the message takes back to `room`, because its call is answered or forgotten."""
        self.room.left += sum(map(len, self._segments.values()))
