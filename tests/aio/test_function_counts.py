"""How many Python functions a small call enters: what a change adds to the way of a call is seen on any machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = {
    ("NULL", "1"): ((64, 66), (58, 64), (21, 22)),
    ("NULL", "2"): ((67, 69), (61, 67), (21, 22)),
    ("GETATTR", "1"): ((78, 87), (69, 80), (22, 28)),
    ("GETATTR", "2"): ((80, 90), (72, 83), (22, 28)),
    ("READ 4 KiB", "1"): ((145, 156), (128, 131), (30, 37)),
    ("READ 4 KiB", "2"): ((113, 142), (101, 121), (26, 37)),
    ("WRITE 4 KiB", "1"): ((175, 246), (135, 186), (31, 43)),
    ("WRITE 4 KiB", "2"): ((116, 164), (99, 140), (26, 36)),
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
        # Each end counts every message: four calls, of the 65, may be the price of that.
        assert rows["NULL", "2"][side] - rows["NULL", "1"][side] <= 4, side
