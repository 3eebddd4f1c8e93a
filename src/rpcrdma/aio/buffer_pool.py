"""Reusable memory for bulk results: pages that are warm, in a bounded amount."""

from __future__ import annotations

import threading

from rpcrdma.errors import RpcRdmaError
from rpcrdma.limits import BUFFER_OCTETS_MAX, BUFFER_POOL_OCTETS_MAX

__all__ = ["BufferPool", "OutOfBuffers"]

_SMALLEST_BITS = 12
_LARGEST_BITS = 22


class OutOfBuffers(RpcRdmaError):
    """Handlers already hold as much memory as they may."""


class BufferPool:
    """Lends buffers of any length; those of up to 4 MiB come from size classes and are used again.

    `pool_octets_max` bounds what is kept for reuse together with what of it is lent. Beyond it, and above 4 MiB, a
    buffer is allocated for one use; `octets_max` bounds all that is lent. Safe to use from several threads.
    """

    __slots__ = ("_free", "_lent", "_lock", "_pooled", "lent_octets", "octets_max", "pool_octets_max")

    def __init__(self, *, pool_octets_max: int = BUFFER_POOL_OCTETS_MAX, octets_max: int = BUFFER_OCTETS_MAX) -> None:
        self.pool_octets_max = pool_octets_max
        self.octets_max = octets_max
        self.lent_octets = 0
        self._pooled = 0
        self._free: dict[int, list[bytearray]] = {}
        self._lent: dict[int, tuple[bytearray, bool]] = {}
        """By the identity of the memory: the memory, and whether it goes back to a size class."""
        self._lock = threading.Lock()

    def acquire(self, length: int) -> memoryview:
        """Writable memory of `length` octets with unspecified content.

        Raises:
            OutOfBuffers: `octets_max` octets would be exceeded.
        """
        size = 1 << max(_SMALLEST_BITS, (length - 1).bit_length())
        with self._lock:
            free = self._free.get(size)
            if free and self.lent_octets + size <= self.octets_max:
                memory = free.pop()
                pooled = True
            else:
                pooled = size <= 1 << _LARGEST_BITS and self._may_pool(size)
                if not pooled:
                    size = length
                if self.lent_octets + size > self.octets_max:
                    raise OutOfBuffers(
                        f"{length} octets asked for, {self.lent_octets} of at most {self.octets_max} are in use"
                    )
                memory = bytearray(size)
                if pooled:
                    self._pooled += size
            self._lent[id(memory)] = (memory, pooled)
            self.lent_octets += size
        return memoryview(memory)[:length]

    def release(self, buffer: memoryview) -> None:
        """Takes back what `acquire` returned; nobody may use it any more. No effect on other memory."""
        with self._lock:
            lent = self._lent.pop(id(buffer.obj), None)
            if lent is None:
                return
            memory, pooled = lent
            size = len(memory)
            self.lent_octets -= size
            if pooled:
                self._free.setdefault(size, []).append(memory)

    def _may_pool(self, size: int) -> bool:
        """Makes room for `size` octets in the pool at the cost of free buffers of other sizes."""
        excess = self._pooled + size - self.pool_octets_max
        if excess <= 0:
            return True
        for other, free in self._free.items():
            while free and excess > 0:
                free.pop()
                self._pooled -= other
                excess -= other
        return excess <= 0
