"""The number of Python functions that a small call enters: an addition to the way of a call shows on any machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = {
    ("NULL", "1"): ((54, 57), (47, 54), (17, 19)),
    ("NULL", "2"): ((57, 60), (50, 57), (17, 19)),
    ("GETATTR", "1"): ((66, 77), (58, 70), (18, 24)),
    ("GETATTR", "2"): ((69, 80), (61, 73), (18, 24)),
    ("READ 4 KiB", "1"): ((115, 139), (102, 115), (23, 32)),
    ("READ 4 KiB", "2"): ((95, 129), (84, 109), (23, 31)),
    ("WRITE 4 KiB", "1"): ((146, 212), (111, 164), (24, 38)),
    ("WRITE 4 KiB", "2"): ((101, 146), (85, 124), (21, 32)),
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
