"""What a process holds: registered memory, connections, and memory altogether."""

from __future__ import annotations

import ctypes
import gc
import statistics
from collections.abc import Sequence
from pathlib import Path

from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.iwarp import IwarpQueuePair
from rpcrdma.verbs import SoftwareProtectionDomain

_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc's alone."""
_SLACK = 0.03
_SLACK_KIB = 6 << 10
"""What the memory of a process that repeats the same work goes up and down by."""


def resident_kib() -> int:
    """The memory of this process, less what buffer pools hold and what has been freed.

    Their size, which has a bound, is the most that was ever needed at once: chance may bring that late in a run.
    """
    gc.collect()
    if _malloc_trim is not None:
        # The C library keeps what threads have freed, of ever more threads at first.
        _malloc_trim(0)
    pooled = sum(each.pooled_octets for each in gc.get_objects() if type(each) is BufferPool)
    return _resident_kib() - (pooled >> 10)


def _resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def regions_registered() -> int:
    """Of all connections that anything refers to, ended ones included."""
    gc.collect()
    return sum(len(each.regions) for each in gc.get_objects() if type(each) is SoftwareProtectionDomain)


def queue_pairs() -> int:
    """Connections that are in memory, ended ones included."""
    gc.collect()
    return sum(type(each) is IwarpQueuePair for each in gc.get_objects())


def growth(resident: Sequence[int]) -> tuple[int, int]:
    """What the median of the last quarter is above that of the second one, and how much counts as none, in KiB."""
    quarter = max(1, len(resident) // 4)
    before = statistics.median(resident[quarter : 2 * quarter])
    after = statistics.median(resident[-quarter:])
    return round(after - before), round(max(before * _SLACK, _SLACK_KIB))
