"""Joins long messages: RPC messages that RDMA Reads and Writes carry in the segments of one chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.headers import MemorySegment

__all__ = ["LongMessage", "Payload", "Room"]


@dataclass(slots=True)
class Room:
    """Octets that the long messages of one connection may take."""

    left: int = limits.DISSECTED_MESSAGE_OCTETS_MAX


@dataclass(frozen=True, slots=True)
class Payload:
    """The first octets of an RPC message without its reduced items, and how many there are of it."""

    data: bytes
    octets: int

    @property
    def whole(self) -> bool:
        """Whether these are all."""
        return len(self.data) == self.octets


@dataclass(slots=True)
class LongMessage:
    """The octets of each segment, by the number of the segment; `octets` are counted beyond the room as well."""

    room: Room
    octets: int = 0
    _segments: dict[int, bytearray] = field(default_factory=dict)

    def add(self, number: int, place: int, data: bytearray, octets: int) -> None:
        """Takes `octets` octets at `place` of a segment, of which `data` are the first."""
        self.octets += octets
        segment = self._segments.setdefault(number, bytearray())
        if place == len(segment):
            kept = data[: self.room.left]
            segment += kept
            self.room.left -= len(kept)

    def joined(self, segments: Sequence[MemorySegment]) -> Payload:
        """Returns the message in segments of these lengths, up to the first octet that is missing."""
        data = bytearray()
        for number, segment in enumerate(segments, 1):
            part = self._segments.get(number, bytearray())[: segment.length]
            data += part
            if len(part) < segment.length:
                break
        return Payload(bytes(data), sum(segment.length for segment in segments))

    def leave(self) -> None:
        """Gives back the memory that the message counts for: its call is answered or forgotten."""
        self.room.left += sum(map(len, self._segments.values()))
