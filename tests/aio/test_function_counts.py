"""The number of Python functions that a call enters: an addition to the way of a call shows on any machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST: dict[tuple[str, str], tuple[tuple[int, int] | None, tuple[int, int], tuple[int, int]]] = {
    ("NULL", "1"): ((47, 41), (40, 38), (16, 15)),
    ("NULL", "2"): ((48, 42), (41, 39), (16, 15)),
    ("GETATTR", "1"): ((59, 54), (51, 52), (17, 18)),
    ("GETATTR", "2"): ((60, 55), (52, 53), (17, 18)),
    ("READ 4 KiB", "1"): ((107, 95), (94, 85), (22, 23)),
    ("READ 4 KiB", "2"): ((85, 86), (74, 78), (22, 23)),
    ("WRITE 4 KiB", "1"): ((137, 183), (106, 145), (23, 30)),
    ("WRITE 4 KiB", "2"): ((93, 124), (77, 104), (21, 24)),
    ("READ 1 MiB", "1"): (None, (105, 93), (23, 24)),
    ("READ 1 MiB", "2"): (None, (104, 94), (24, 24)),
    ("WRITE 1 MiB", "1"): (None, (110, 153), (23, 30)),
    ("WRITE 1 MiB", "2"): (None, (110, 153), (24, 30)),
}
"""For each call and version, at the client and in the server's loop: functions entered, different ones among them, and
modules. Version 2 sends 4 KiB in a message, where version 1 uses RDMA. How many functions a call of 1 MiB enters in all
depends on the size of the sockets' buffers, and so do up to four of the different ones."""


def test_calls_enter_no_more_functions_than_they_may() -> None:
    command = [sys.executable, "function_calls.py", "--json", "--calls", *sorted({call for call, _ in MOST})]
    told = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True).stdout
    rows = {(row["call"], row["version"]): row for row in json.loads(told)}
    for call, limits in MOST.items():
        row = rows[call]
        for what, sides in zip(("", "_functions", "_modules"), limits, strict=True):
            if sides is None:
                continue
            for side, most in zip(("client", "server"), sides, strict=True):
                assert row[side + what] <= most, (call, side + what)

    for side in ("client", "server"):
        # Each end counts every message: four calls, of the 46, may be the price of that.
        assert rows["NULL", "2"][side] - rows["NULL", "1"][side] <= 4, side
