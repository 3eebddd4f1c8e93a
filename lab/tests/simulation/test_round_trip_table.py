"""The table of `rpcrdma roundtrips`, count by count, and its reproducibility."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpcrdma.testing.virtual import PROFILES
from rpcrdma_lab.simulation.measured_calls import OPERATIONS, VARIANTS
from rpcrdma_lab.simulation.round_trips import cells, measured, rows

SIZE = 8192
MODEL = replace(PROFILES["machine-room"], miles=1.0)

TABLE = """
trips, interrupts S and C, registrations S and C, local invalidations S and C, remote ones, Sends, Reads, Writes, acks

short call
all                             1   1   1   0   0   0   0   0   2   0   0   2

READ
version 1                       1 1+1   1   0   1   0   0   1   2   0   1   3
version 1, local invalidation   1 1+1   1   0   1   0   1   0   2   0   1   3
version 2                       1 1+1   1   0   1   0   0   1   2   0   1   3
version 2, local invalidation   1 1+1   1   0   1   0   1   0   2   0   1   3
version 2, continued            1 1+1   1   0   0   0   0   0   4   0   0   4
requests by Send, 4 KiB         1 1+1   1   0   1   0   1   0   2   0   1   3
responses by Send, 4 KiB        1 1+1   1   0   0   0   0   0   3   0   0   3
both by Send, 4 KiB             1 1+1   1   0   0   0   0   0   3   0   0   3
both by Send, 8 KiB             1 1+1   1   0   0   0   0   0   2   0   0   2
defaults                        1   1   1   0   0   0   0   0   2   0   0   2

WRITE
version 1                       2   2   1   1   1   1   0   1   2   1   0   2
version 1, local invalidation   2   2   1   1   1   1   1   0   2   1   0   2
version 2                       2   2   1   1   1   1   0   1   2   1   0   2
version 2, local invalidation   2   2   1   1   1   1   1   0   2   1   0   2
version 2, continued            1   1   1   0   0   0   0   0   4   0   0   4
requests by Send, 4 KiB         1   1 1+1   0   0   0   0   0   3   0   0   3
responses by Send, 4 KiB        2   2   1   1   1   1   0   1   2   1   0   2
both by Send, 4 KiB             1   1 1+1   0   0   0   0   0   3   0   0   3
both by Send, 8 KiB             1   1 1+1   0   0   0   0   0   2   0   0   2
defaults                        1   1   1   0   0   0   0   0   2   0   0   2

long call
version 1                       2   2   1   1   1   1   0   1   2   1   0   2
version 1, local invalidation   2   2   1   1   1   1   1   0   2   1   0   2
version 2                       2   2   1   1   1   1   0   1   2   1   0   2
version 2, local invalidation   2   2   1   1   1   1   1   0   2   1   0   2
version 2, continued            1   1   1   0   0   0   0   0   4   0   0   4
requests by Send, 4 KiB         2   2   1   1   1   1   0   1   2   1   0   2
responses by Send, 4 KiB        2   2   1   1   1   1   0   1   2   1   0   2
both by Send, 4 KiB             1   1   1   0   0   0   0   0   3   0   0   3
both by Send, 8 KiB             1   1   1   0   0   0   0   0   2   0   0   2
defaults                        1   1   1   0   0   0   0   0   2   0   0   2

long reply
version 1                       1 1+1   1   0   1   0   0   1   2   0   1   3
version 1, local invalidation   1 1+1   1   0   1   0   1   0   2   0   1   3
version 2                       1 1+1   1   0   1   0   0   1   2   0   1   3
version 2, local invalidation   1 1+1   1   0   1   0   1   0   2   0   1   3
version 2, continued            1 1+1   1   0   0   0   0   0   4   0   0   4
requests by Send, 4 KiB         1 1+1   1   0   1   0   0   1   2   0   1   3
responses by Send, 4 KiB        1 1+1   1   0   1   0   0   1   2   0   1   3
both by Send, 4 KiB             1 1+1   1   0   0   0   0   0   3   0   0   3
both by Send, 8 KiB             1 1+1   1   0   0   0   0   0   2   0   0   2
defaults                        1 1+1   1   0   0   0   0   0   2   0   0   2

4 transfers in one call
version 1                       2 2+1   1   1   4   1   3   1   2   2   2   4
version 1, local invalidation   2 2+1   1   1   4   1   4   0   2   2   2   4
version 2                       2 2+1   1   1   4   1   3   1   2   2   2   4
version 2, local invalidation   2 2+1   1   1   4   1   4   0   2   2   2   4
version 2, continued            1 1+1   1   0   0   0   0   0  10   0   0  10
requests by Send, 4 KiB         1 1+1 1+1   0   2   0   2   0   5   0   2   7
responses by Send, 4 KiB        2 2+1   1   1   2   1   2   0   5   2   0   5
both by Send, 4 KiB             1 1+1 1+1   0   0   0   0   0   8   0   0   8
both by Send, 8 KiB             1 1+1 1+1   0   0   0   0   0   4   0   0   4
defaults                        1   1   1   0   0   0   0   0   2   0   0   2

8 short calls at once
all                             1   1 1+7   0   0   0   0   0  16   0   0  16
"""
"""S is the server, C the client; "1+1" is one on the critical path and one beside it."""


def expected() -> dict[tuple[str, str], list[str]]:
    found = {}
    for block in TABLE.strip().split("\n\n")[1:]:
        operation, *lines = block.splitlines()
        for line in lines:
            name, counts = line[:30].strip(), line[30:].split()
            for variant in [each.name for each in VARIANTS] if name == "all" else [name]:
                found[operation, variant] = counts
    return found


@pytest.mark.thorough
def test_the_table_has_these_counts() -> None:
    found = rows(MODEL, SIZE, VARIANTS)
    assert {(row.operation, row.variant): cells(row.account)[:-1] for row in found} == expected()
    for row in found:
        account = row.account
        assert account.one_way_trips % 2 == 0, row.operation
        assert account.acknowledgements_on_path == 0, row.operation
        assert abs(sum(account.parts_s.values()) - account.latency_s) < 1e-12, row.operation


def test_a_measurement_is_the_same_each_time() -> None:
    first, again = (measured(MODEL, VARIANTS[0], OPERATIONS[1], SIZE).account for _ in range(2))
    assert first == again
