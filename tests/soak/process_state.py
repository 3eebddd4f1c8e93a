"""What a process holds: registered memory, connections, and memory altogether."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Sequence
from pathlib import Path

from rpcrdma.iwarp import IwarpQueuePair
from rpcrdma.verbs import SoftwareProtectionDomain

_SLACK = 0.03
_SLACK_KIB = 6 << 10
"""What the memory of a process that repeats the same work goes up and down by."""


def resident_kib() -> int:
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
