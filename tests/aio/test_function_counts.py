"""How many Python functions a small call enters: what a change adds to the way of a call is seen on any machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = {
    ("NULL", "1"): ((47, 47), (40, 44), (16, 18)),
    ("NULL", "2"): ((48, 48), (41, 45), (16, 18)),
    ("GETATTR", "1"): ((59, 67), (51, 60), (17, 23)),
    ("GETATTR", "2"): ((60, 68), (52, 61), (17, 23)),
    ("READ 4 KiB", "1"): ((107, 127), (94, 108), (22, 32)),
    ("READ 4 KiB", "2"): ((85, 116), (74, 100), (22, 31)),
    ("WRITE 4 KiB", "1"): ((137, 199), (106, 156), (24, 37)),
    ("WRITE 4 KiB", "2"): ((93, 136), (77, 112), (21, 30)),
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
