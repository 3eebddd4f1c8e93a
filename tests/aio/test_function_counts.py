"""The number of Python functions that a small call enters: an addition to the way of a call shows on any machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = {
    ("NULL", "1"): ((54, 47), (47, 44), (17, 16)),
    ("NULL", "2"): ((57, 50), (50, 47), (17, 16)),
    ("GETATTR", "1"): ((66, 67), (58, 60), (18, 19)),
    ("GETATTR", "2"): ((69, 70), (61, 63), (18, 19)),
    ("READ 4 KiB", "1"): ((115, 120), (102, 100), (23, 25)),
    ("READ 4 KiB", "2"): ((95, 112), (84, 95), (23, 24)),
    ("WRITE 4 KiB", "1"): ((146, 201), (111, 153), (24, 31)),
    ("WRITE 4 KiB", "2"): ((101, 137), (85, 114), (21, 26)),
}
"""For each call and version, at the client and in the server's loop: functions entered, different ones among them, and
modules. Version 2 sends 4 KiB in a message, where version 1 uses RDMA."""


def test_small_calls_enter_no_more_functions_than_they_may() -> None:
    command = [sys.executable, "function_calls.py", "--json", "--calls", *sorted({call for call, _ in MOST})]
    told = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True).stdout
    rows = {(row["call"], row["version"]): row for row in json.loads(told)}
    for call, limits in MOST.items():
        row = rows[call]
        for what, sides in zip(("", "_functions", "_modules"), limits, strict=True):
            for side, most in zip(("client", "server"), sides, strict=True):
                assert row[side + what] <= most, (call, side + what)

    for side in ("client", "server"):
        # Each end counts every message: four calls, of the 54, may be the price of that.
        assert rows["NULL", "2"][side] - rows["NULL", "1"][side] <= 4, side
