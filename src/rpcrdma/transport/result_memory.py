"""Memory for results whose callers gave none: warm pages, used again when no caller refers to them any more.

Fresh memory costs a page fault for each 4 KiB, which takes longer than to receive the octets. Python counts the
references to a buffer, those of views and of the objects that share the memory included. Memory to which only this
module refers is therefore free.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rpcrdma.limits import RESULT_OCTETS_KEPT_MAX
from rpcrdma.wire.buffers import PooledMemory

__all__ = ["ResultMemory"]

_FRESH_OCTETS_MAX = 1 << 15
"""Smaller memory comes warm from the allocator of Python or of the C library."""

_FRESH_REGISTERED_OCTETS_MAX = (1 << 12) - 1
"""The same where a device registers memory, which it does by pages."""

_TRIED = 4
"""Buffers that are looked at, the oldest first, before fresh memory is taken."""


def _references(buffers: Sequence[bytearray], index: int) -> int:
    return sys.getrefcount(buffers[index])


_ALONE = _references([bytearray()], 0)
"""The references to a buffer to which nothing refers but a list of buffers."""


class ResultMemory:
    """The memory for results of one connection; it keeps at most RESULT_OCTETS_KEPT_MAX octets, lent ones included.

    `registers`: fresh memory costs a registration with a device as well.
    """

    __slots__ = ("_buffers", "_fresh_octets_max", "_octets")

    def __init__(self, *, registers: bool = False) -> None:
        self._fresh_octets_max = _FRESH_REGISTERED_OCTETS_MAX if registers else _FRESH_OCTETS_MAX
        # By their length, the length that was asked for longest ago first; of each, the one lent longest ago first.
        self._buffers: dict[int, list[PooledMemory]] = {}
        self._octets = 0

    def take(self, octets: int) -> memoryview:
        """Returns writable memory of `octets` with unspecified content, whose holder may keep it."""
        if octets <= self._fresh_octets_max or octets > RESULT_OCTETS_KEPT_MAX:
            return memoryview(bytearray(octets))
        buffers = self._buffers.pop(octets, None) or []
        self._buffers[octets] = buffers
        for index in range(min(_TRIED, len(buffers))):
            if _references(buffers, index) == _ALONE:
                buffer = buffers.pop(index)
                break
        else:
            buffer = PooledMemory(octets)
            self._octets += octets
        buffers.append(buffer)
        while self._octets > RESULT_OCTETS_KEPT_MAX:
            self._drop()
        return memoryview(buffer)

    def _drop(self) -> None:
        """Keeps one buffer less, of the length that was asked for longest ago."""
        length, buffers = next(iter(self._buffers.items()))
        buffers.pop(0)
        self._octets -= length
        if not buffers:
            del self._buffers[length]

    def clear(self) -> None:
        """Keeps nothing; memory that callers have stays theirs."""
        self._buffers.clear()
        self._octets = 0
