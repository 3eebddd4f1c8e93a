"""The resources of a process: registered memory, connections, and resident memory."""

from __future__ import annotations

import ctypes
import gc
import mmap
import statistics
from collections.abc import Sequence
from pathlib import Path

from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.iwarp import IwarpQueuePair
from rpcrdma.verbs import SoftwareProtectionDomain

_libc = ctypes.CDLL(None, use_errno=True)
_malloc_trim = getattr(_libc, "malloc_trim", None)
"""Only glibc has it; None elsewhere."""
_SLACK = 0.03
_SLACK_KIB = 6 << 10
"""KiB by which the memory of a process that repeats the same work goes up and down."""


def resident_kib() -> int:
    """The resident memory of this process, without freed memory and without the contents of buffer pools.

    The pools have a bound, and grow to the most that was ever needed at once, which may happen late in a run.
    """
    gc.collect()
    if _malloc_trim is not None:
        # The C library keeps freed memory for each thread, and the number of threads grows at first.
        _malloc_trim(0)
    pooled = sum(map(_resident_octets, _pooled_memory()))
    return _resident_kib() - (pooled >> 10)


def _pooled_memory() -> list[bytearray]:
    """The memory of all pools that outlives its use, in use or not."""
    pools = [each for each in gc.get_objects() if type(each) is BufferPool]
    free = [memory for pool in pools for size in pool._free.values() for memory in size]
    return free + [memory for pool in pools for memory, pooled in list(pool._lent.values()) if pooled]


def _resident_octets(memory: bytearray) -> int:
    """Octets of whole pages that have been touched: memory set aside for data that never came takes no room."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    first = -(-address // mmap.PAGESIZE)
    pages = (address + len(memory)) // mmap.PAGESIZE - first
    if pages <= 0:
        return 0
    touched = (ctypes.c_ubyte * pages)()
    start = ctypes.c_void_p(first * mmap.PAGESIZE)
    if _libc.mincore(start, ctypes.c_size_t(pages * mmap.PAGESIZE), touched):
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(page & 1 for page in touched) * mmap.PAGESIZE


def _resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def regions_registered() -> int:
    """Regions registered in all protection domains in memory, those of ended connections included."""
    gc.collect()
    return sum(len(each.regions) for each in gc.get_objects() if type(each) is SoftwareProtectionDomain)


def queue_pairs() -> int:
    """Connections that are in memory, ended ones included."""
    gc.collect()
    return sum(type(each) is IwarpQueuePair for each in gc.get_objects())


def growth(resident: Sequence[int]) -> tuple[int, int]:
    """The median of the last quarter less that of the second quarter, and the growth that is tolerated, in KiB."""
    quarter = max(1, len(resident) // 4)
    before = statistics.median(resident[quarter : 2 * quarter])
    after = statistics.median(resident[-quarter:])
    return round(after - before), round(max(before * _SLACK, _SLACK_KIB))
