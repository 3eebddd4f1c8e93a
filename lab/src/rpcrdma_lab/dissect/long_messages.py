"""Joins long messages: RPC messages that RDMA Reads and Writes carry in the segments of one chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.headers import MemorySegment

__all__ = ["LongMessage", "Payload", "Room"]


@dataclass(slots=True)
class Room:
    """A budget of memory: `left` is the number of octets that the long messages of one connection may still take."""

    left: int = limits.DISSECTED_MESSAGE_OCTETS_MAX


@dataclass(frozen=True, slots=True)
class Payload:
    """The first octets of an RPC message, `data`, and the whole message's length, `octets`, both without reduced items.

    Reduced items are those that chunks carry beside the message (RFC 8166 section 3.4).
    """

    data: bytes
    octets: int

    @property
    def whole(self) -> bool:
        """Whether `data` is the whole message."""
        return len(self.data) == self.octets


@dataclass(slots=True)
class LongMessage:
    """An RPC message that RDMA carries in the segments of a chunk: its octets captured so far, by segment number.

    `octets` counts all octets transferred, and `kept` those that are kept: `room`, the connection's budget of memory,
    bounds these.
    """

    room: Room
    octets: int = 0
    kept: int = 0
    _segments: dict[int, bytearray] = field(default_factory=dict)

    def add(self, number: int, place: int, data: bytearray, octets: int) -> None:
        """Adds octets that were transferred by RDMA.

        Args:
            number: the number of the segment in its chunk, from 1 on.
            place: the offset of the octets in the segment; they are kept only if they continue the octets already kept.
            data: the octets transferred, possibly without the last ones, which the decoder has dropped before.
            octets: the number of octets transferred, with the dropped ones.
        """
        self.octets += octets
        segment = self._segments.setdefault(number, bytearray())
        if place == len(segment):
            kept = data[: self.room.left]
            segment += kept
            self.kept += len(kept)
            self.room.left -= len(kept)

    def joined(self, segments: Sequence[MemorySegment]) -> Payload:
        """Returns the octets of the message before the first missing octet, and the length of the whole message.

        `segments` are those of the chunk, in order, with the lengths that were used; their sum is the length.
        """
        data = bytearray()
        for number, segment in enumerate(segments, 1):
            part = self._segments.get(number, bytearray())[: segment.length]
            data += part
            if len(part) < segment.length:
                break
        return Payload(bytes(data), sum(segment.length for segment in segments))

    def leave(self) -> None:
        """Gives the memory of the message back to `room`; called once, when the call was answered or is forgotten."""
        self.room.left += self.kept
