"""Memory for incoming Sends that many queue pairs share, as with a shared receive queue of RDMA hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from rpcrdma.limits import RECEIVE_BUFFERS_KEPT_MAX
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.bulk_memory import bulk

__all__ = ["ReceiveBuffer", "ReceivePool", "ReceiveSource", "ScatteredBuffer"]


class ScatteredBuffer:
    """A receive buffer in several pieces of memory, filled one after another, as with a scatter list.

    `parts` are those pieces.
    """

    __slots__ = ("octets", "parts")

    def __init__(self, parts: Sequence[memoryview]) -> None:
        self.parts = parts
        self.octets = sum(map(len, parts))

    def __len__(self) -> int:
        return self.octets

    def target(self, start: int, octets: int) -> memoryview:
        """Returns the memory for up to `octets` octets from `start` on, within one piece."""
        for part in self.parts:
            if start < len(part):
                return part[start : start + octets]
            start -= len(part)
        return memoryview(b"")

    def write(self, start: int, data: Buffer) -> None:
        """Writes octets from `start` on."""
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
"""The memory of one incoming message."""


class ReceiveSource(Protocol):
    """The source of a queue pair's memory for incoming Sends, of up to `octets` each.

    A message of certainly at most `short_octets`, a number that may change, is delivered as `bytes` or goes into a
    buffer from `take`. Any other one goes into a buffer from `draw`. The queue pair calls both in the order in which
    messages arrive, after all octets of the previous messages are in place. A queue pair that has to name the memory
    before messages arrive gets its buffers from `divide` instead. A message of at most `plain_octets` lies in the first
    part of such a buffer, and is delivered as `bytes`.
    """

    octets: int
    short_octets: int
    plain_octets: int

    def take(self) -> memoryview:
        """Returns a buffer of at least `short_octets` with unspecified content, which the caller may keep."""

    def draw(self) -> ReceiveBuffer:
        """Returns a buffer of `octets` with unspecified content, which the caller may keep."""

    def divide(self, memory: memoryview, count: int) -> Sequence[ScatteredBuffer]:
        """Divides memory into `count` buffers with parts like those of a buffer from `draw`.

        The memory is a buffer from `take`, or belongs to the queue pair and has `count * octets` octets. Messages take
        the buffers in this order.
        """

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """Takes back a buffer, which its holder may not use any more."""


class ReceivePool:
    """Provides buffers of `octets` each, and keeps at most `kept_max` returned buffers for reuse.

    The number of buffers in use is bounded by the receives posted: see `QueuePair.post_receives`.
    """

    __slots__ = ("_free", "_kept_max", "octets", "plain_octets", "short_octets")

    def __init__(self, octets: int, *, kept_max: int = RECEIVE_BUFFERS_KEPT_MAX) -> None:
        self.octets = self.short_octets = self.plain_octets = octets
        self._kept_max = kept_max
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        """Returns a buffer with unspecified content, which the caller may keep."""
        return self._free.pop() if self._free else bulk(self.octets)

    draw = take

    def divide(self, memory: memoryview, count: int) -> list[ScatteredBuffer]:
        """Returns buffers of one part each."""
        each = len(memory) // count
        return [ScatteredBuffer((memory[start : start + each],)) for start in range(0, count * each, each)]

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """Takes back a buffer from `take`, which its holder may not use any more."""
        if len(self._free) < self._kept_max:
            assert isinstance(buffer, memoryview)
            self._free.append(buffer)
