"""Bulk memory: page-aligned maps, and memory for results and messages that comes from such maps again and again.

The kernel's copies take three to four times as long on some processors (AMD Zen 3) where the destination lies 1 to 31
octets behind the source's place in its page. Files lie in pages of the page cache, and large memory of the C library
begins 16 octets behind the begin of a page. So bulk data has memory that begins with a page; the system takes it back
at its end, and no hole in a heap keeps it.

Fresh memory costs a page fault for each 4 KiB, which takes longer than to receive the octets. Python counts the
references to a buffer, those of views and of the objects that share the memory included. Memory to which only its owner
refers is therefore free.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from collections.abc import Sequence
from typing import Self

from rpcrdma.errors import OutOfMemory
from rpcrdma.limits import RESULT_OCTETS_KEPT_MAX

__all__ = ["PooledMemory", "ResultMemory", "behind", "buffer", "bulk"]

_HUGE_PAGES_OCTETS = 1 << 22
"""The size from which on memory has huge pages: such memory is seldom used twice, and 16 MiB of fresh memory take 2.7
ms in huge pages instead of 7.5 ms."""

_FRESH_OCTETS_MAX = (1 << 14) - 1
"""Smaller memory comes warm from the allocator of Python or of the C library."""

_FRESH_REGISTERED_OCTETS_MAX = (1 << 12) - 1
"""The bound in place of `_FRESH_OCTETS_MAX` where a device registers memory, which it does by pages."""

_TRIED = 4
"""Buffers that are looked at, the oldest first, before fresh memory is taken."""


class PooledMemory(mmap.mmap):
    """Memory of `octets` (1 or more) zero octets that begins with a page and that the system takes back at its end.

    Its owner uses it for many calls: an RDMA device keeps it registered until it is freed. Its length must not change,
    since it may move then, and the device would go on with the old place.

    Raises:
        OutOfMemory: the system gives no more memory.
    """

    __slots__ = ()

    def __new__(cls, octets: int) -> Self:
        try:
            memory = super().__new__(cls, -1, octets, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            # The latter where the length is none that an address space can have.
            raise OutOfMemory(f"{octets} octets: {getattr(error, 'strerror', error)}") from None
        if octets >= _HUGE_PAGES_OCTETS:
            with contextlib.suppress(OSError):
                memory.madvise(mmap.MADV_HUGEPAGE)
        return memory


def buffer(octets: int) -> memoryview:
    """Returns `octets` octets of writable memory, zero at first, that begin with a page.

    Its place in memory slows down no READ into it and no WRITE of it, and an RDMA device keeps it registered from call
    to call. Use it again: fresh memory costs a page fault for each 4 KiB.

    Args:
        octets: 0 or more. The memory takes whole pages.

    Returns:
        A view, for `into=` or as bulk data. `numpy.frombuffer(view, dtype)` makes an array of it. The memory is freed
        with the last view.

    Raises:
        TypeError: `octets` is no int.
        ValueError: `octets` is negative.
        MemoryError: the system gives no more memory.
    """
    if not hasattr(octets, "__index__"):
        raise TypeError(f"octets must be of type int, not {type(octets).__name__}")
    if octets < 0:
        raise ValueError(f"octets must be 0 or more, not {octets}")
    return memoryview(PooledMemory(octets) if octets else bytearray())


def bulk(octets: int) -> memoryview:
    """Returns `octets` octets of writable memory, zero at first, which begins with a page if it has 16 KiB or more.

    Raises:
        MemoryError: the system gives no more memory.
    """
    return buffer(octets) if octets > _FRESH_OCTETS_MAX else memoryview(bytearray(octets))


def behind(lead: int, octets: int) -> memoryview:
    """Returns `octets` octets of writable memory, zero at first, in which the octet with index `lead` begins a page.

    Raises:
        MemoryError: the system gives no more memory.
    """
    before = -lead % mmap.PAGESIZE
    return buffer(before + octets)[before:]


def _references(buffers: Sequence[object], index: int) -> int:
    return sys.getrefcount(buffers[index])


_ALONE = _references([bytearray()], 0)
"""The references to a buffer to which nothing refers but a list of buffers."""


class ResultMemory:
    """Lends memory for results and messages, and reuses it when its holder has dropped all references to it.

    At most RESULT_OCTETS_KEPT_MAX octets are kept, lent ones included. `registers`: whether an RDMA device registers
    the memory, so that smaller memory, from 4 KiB instead of 16 KiB on, is kept as well.
    """

    __slots__ = ("_buffers", "_fresh_octets_max", "_octets")

    def __init__(self, *, registers: bool = False) -> None:
        self._fresh_octets_max = _FRESH_REGISTERED_OCTETS_MAX if registers else _FRESH_OCTETS_MAX
        # By their length, the length that was asked for longest ago first; of each, the one lent longest ago first.
        self._buffers: dict[int, list[PooledMemory]] = {}
        self._octets = 0

    def take(self, octets: int) -> memoryview:
        """Returns `octets` octets of writable memory with unspecified content, lent until no reference to it is left.

        Raises:
            MemoryError: the system gives no more memory.
        """
        if octets <= self._fresh_octets_max:
            return memoryview(bytearray(octets))
        # Whole pages: messages of nearly the same length use the same memory.
        size = -(-octets // mmap.PAGESIZE) * mmap.PAGESIZE
        if size > RESULT_OCTETS_KEPT_MAX:
            return buffer(octets)
        buffers = self._buffers.get(size) or []
        for index in range(min(_TRIED, len(buffers))):
            if _references(buffers, index) == _ALONE:
                memory = buffers.pop(index)
                break
        else:
            memory = PooledMemory(size)
            self._octets += size
        buffers.append(memory)
        # Last, and not before there is memory: without it nothing has changed.
        self._buffers.pop(size, None)
        self._buffers[size] = buffers
        while self._octets > RESULT_OCTETS_KEPT_MAX:
            self._drop()
        return memoryview(memory)[:octets]

    def _drop(self) -> None:
        """Stops keeping one buffer: of the length whose last request is the oldest, the buffer lent longest ago.

        A holder may continue to use it. At least one buffer must be kept.
        """
        length, buffers = next(iter(self._buffers.items()))
        buffers.pop(0)
        self._octets -= length
        if not buffers:
            del self._buffers[length]

    def clear(self) -> None:
        """Stops keeping any buffer; memory that callers hold stays valid."""
        self._buffers.clear()
        self._octets = 0
