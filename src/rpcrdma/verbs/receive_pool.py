"""Memory for incoming Sends that many queue pairs share, as with a shared receive queue of RDMA hardware."""

from __future__ import annotations

import struct
from collections.abc import Container, Sequence
from typing import Protocol, TypeAlias

from rpcrdma.limits import RECEIVE_BUFFERS_KEPT_MAX
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.bulk_memory import bulk

__all__ = ["KIND_OF_MESSAGE", "ReceiveBuffer", "ReceivePool", "ReceiveSource", "ScatteredBuffer", "is_plain"]

KIND_OF_MESSAGE = struct.Struct(">4xI4xI")
"""The version and the header type with which messages of any version of RPC-over-RDMA begin."""


class ScatteredBuffer:
    """A receive buffer in several pieces of memory, filled one after another, as with a scatter list.

    Args:
        parts: the pieces, in order.
    """

    __slots__ = ("octets", "parts")

    def __init__(self, parts: Sequence[memoryview]) -> None:
        self.parts = parts
        self.octets = sum(map(len, parts))

    def __len__(self) -> int:
        return self.octets

    def target(self, start: int, octets: int) -> memoryview:
        """Returns the memory at an index of the buffer, as far as it is in one piece.

        Args:
            start: the index of the first octet.
            octets: the most octets.

        Returns:
            The memory from `start` to the end of its piece, at most `octets`; empty behind the last piece.
        """
        for part in self.parts:
            if start < len(part):
                return part[start : start + octets]
            start -= len(part)
        return memoryview(b"")

    def write(self, start: int, data: Buffer) -> None:
        """Copies octets into the buffer.

        Args:
            start: the index of the first octet.
            data: the octets, which must end within the buffer.

        Raises:
            ValueError: the octets end behind the buffer; nothing is copied.
        """
        rest = memoryview(data)
        if start + len(rest) > self.octets:
            raise ValueError(f"{len(rest)} octets at {start} do not fit in a buffer of {self.octets}")
        while rest:
            target = self.target(start, len(rest))
            target[:] = rest[: len(target)]
            start += len(target)
            rest = rest[len(target) :]

    def joined(self, octets: int) -> bytes:
        """Copies the first octets of the buffer into one piece.

        Args:
            octets: the number of octets.

        Returns:
            The copy; all of the buffer if that is shorter.
        """
        pieces: list[memoryview] = []
        for part in self.parts:
            pieces.append(part[:octets])
            octets -= len(pieces[-1])
        return b"".join(pieces)


ReceiveBuffer: TypeAlias = memoryview | ScatteredBuffer
"""The memory of one incoming message: in one piece, or scattered."""


class ReceiveSource(Protocol):
    """Lends a queue pair the memory for incoming Sends, of up to `octets` each.

    The queue pair delivers a message that is known to have at most `short_octets`, a number that may change, as `bytes`
    or in a buffer from `take`. It delivers any other message in a buffer from `draw`, or as `bytes` if `is_plain`. It
    calls `take` and `draw` in the order in which messages arrive, each call after all octets of the previous messages
    are in place. A queue pair that must name the memory before messages arrive gets buffers from `divide` instead, and
    delivers a message of at most `plain_octets`, which lies in the first part of such a buffer, as `bytes`.
    """

    octets: int
    short_octets: int
    plain_octets: int

    @property
    def scattered(self) -> Container[tuple[int, ...]]:
        """The (version, header type) of messages that must stay in parts of a buffer from `draw`, not in `bytes`."""

    def take(self) -> memoryview:
        """Returns a buffer of at least `short_octets`, unspecified content, lent for good or until `give_back`."""

    def draw(self) -> ReceiveBuffer:
        """Returns a buffer of the source's `octets`, unspecified content, lent for good or until `give_back`."""

    def divide(self, memory: memoryview, count: int) -> Sequence[ScatteredBuffer]:
        """Divides memory into buffers with parts like those of a buffer from `draw`.

        Args:
            memory: memory of the queue pair, `count * octets` octets; or, with a `count` of 1, a buffer from `take`,
                which may be shorter than `octets`: then the last part is shorter, or empty.
            count: the number of buffers.

        Returns:
            The buffers, in the order in which messages fill them.
        """

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """Takes back a buffer for reuse; its holder may not use it any more.

        Args:
            buffer: the buffer.
        """


def is_plain(pool: ReceiveSource, message: Buffer) -> bool:
    """Returns whether a complete message of more than `pool.short_octets` may be delivered as `bytes`.

    It may if it has at most `pool.octets`, and its (version, header type) is not in `pool.scattered`. Otherwise, and if
    it is too short to have a header type, it must be delivered in a buffer from `pool.draw`.
    """
    octets = len(message)
    return KIND_OF_MESSAGE.size <= octets <= pool.octets and KIND_OF_MESSAGE.unpack_from(message) not in pool.scattered


class ReceivePool:
    """Lends buffers of equal size that many queue pairs share; implements `rpcrdma.provider.ReceiveSource`.

    A receive takes its buffer when a message begins to arrive. `short_octets` and `plain_octets` equal `octets`, and no
    kind of message is `scattered`: any message may be delivered as `bytes`. `draw` is `take`.

    Args:
        octets: the size of each buffer.
        kept_max: returned buffers that are kept for reuse.
    """

    __slots__ = ("_free", "_kept_max", "octets", "plain_octets", "scattered", "short_octets")

    def __init__(self, octets: int, *, kept_max: int = RECEIVE_BUFFERS_KEPT_MAX) -> None:
        self.octets = self.short_octets = self.plain_octets = octets
        self.scattered: Container[tuple[int, ...]] = ()
        self._kept_max = kept_max
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        """Returns a buffer of `octets` with unspecified content, lent for good or until `give_back`."""
        return self._free.pop() if self._free else bulk(self.octets)

    draw = take

    def divide(self, memory: memoryview, count: int) -> list[ScatteredBuffer]:
        each = len(memory) // count
        return [ScatteredBuffer((memory[start : start + each],)) for start in range(0, count * each, each)]

    def give_back(self, buffer: ReceiveBuffer) -> None:
        if len(self._free) < self._kept_max:
            assert isinstance(buffer, memoryview)
            self._free.append(buffer)
