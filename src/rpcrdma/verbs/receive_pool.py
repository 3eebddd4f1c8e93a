"""Memory for incoming Sends that many queue pairs share, as with a shared receive queue of RDMA hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from rpcrdma.limits import RECEIVE_BUFFERS_KEPT_MAX
from rpcrdma.wire.buffers import Buffer

__all__ = ["ReceiveBuffer", "ReceivePool", "ReceiveSource", "ScatteredBuffer"]


class ScatteredBuffer:
    """One receive whose octets land in several pieces of memory, one after another, as with a scatter list.

    `parts` are those pieces.
    """

    __slots__ = ("octets", "parts")

    def __init__(self, parts: Sequence[memoryview]) -> None:
        self.parts = parts
        self.octets = sum(map(len, parts))

    def __len__(self) -> int:
        return self.octets

    def target(self, start: int, octets: int) -> memoryview:
        """Where the octets from `start` on go, up to `octets` of them, and no further than one piece reaches."""
        for part in self.parts:
            if start < len(part):
                return part[start : start + octets]
            start -= len(part)
        return memoryview(b"")

    def write(self, start: int, data: Buffer) -> None:
        """Puts octets where they belong, from `start` on."""
        rest = memoryview(data)
        while rest:
            target = self.target(start, len(rest))
            target[:] = rest[: len(target)]
            start += len(target)
            rest = rest[len(target) :]

    def joined(self, octets: int) -> bytes:
        """A copy of the first `octets`."""
        pieces: list[memoryview] = []
        for part in self.parts:
            pieces.append(part[:octets])
            octets -= len(pieces[-1])
        return b"".join(pieces)


ReceiveBuffer: TypeAlias = memoryview | ScatteredBuffer
"""What one message arrives in."""


class ReceiveSource(Protocol):
    """Where a queue pair gets the memory for incoming Sends, of up to `octets` each.

    A message that is known to have no more than `short_octets`, a number that may change, goes into what `take` gives,
    any other one into what `draw` gives. Both are asked in the order in which messages arrive, when all octets of the
    messages before are in place. Messages of up to `plain_octets` are never used where they arrive.
    """

    octets: int
    short_octets: int
    plain_octets: int

    def take(self) -> memoryview:
        """A buffer of at least `short_octets` with unspecified content; it is the caller's, who may keep it."""

    def draw(self) -> ReceiveBuffer:
        """A buffer of `octets` with unspecified content; it is the caller's, who may keep it."""

    def in_parts(self, buffer: memoryview) -> ScatteredBuffer:
        """What `take` has given, in the parts that another buffer would have."""

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """Takes back a buffer; its holder may not use it any more."""


class ReceivePool:
    """Gives buffers of `octets` each; at most `kept_max` of those that come back are kept for the next ones.

    The number of buffers in use is bounded by the receives posted: see `QueuePair.post_receives`.
    """

    __slots__ = ("_free", "_kept_max", "octets", "plain_octets", "short_octets")

    def __init__(self, octets: int, *, kept_max: int = RECEIVE_BUFFERS_KEPT_MAX) -> None:
        self.octets = self.short_octets = self.plain_octets = octets
        self._kept_max = kept_max
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        """A buffer with unspecified content; it is the caller's, who may keep it for good."""
        return self._free.pop() if self._free else memoryview(bytearray(self.octets))

    draw = take

    def in_parts(self, buffer: memoryview) -> ScatteredBuffer:
        """Buffers are one piece of memory."""
        return ScatteredBuffer((buffer,))

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """Takes back a buffer from `take`; its holder may not use it any more."""
        if len(self._free) < self._kept_max:
            assert isinstance(buffer, memoryview)
            self._free.append(buffer)
