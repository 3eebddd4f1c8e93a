"""How many Python functions a small call enters: what a change adds to the way of a call is seen on any machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MOST = {
    "NULL": ((72, 70), (67, 67), (25, 24)),
    "GETATTR": ((86, 91), (78, 84), (26, 29)),
    "READ 4 KiB": ((152, 162), (136, 136), (32, 38)),
    "WRITE 4 KiB": ((184, 250), (143, 190), (34, 44)),
}
"""At the client and in the server's loop: functions entered, different ones among them, and modules."""


def test_small_calls_enter_no_more_functions_than_they_may() -> None:
    command = [sys.executable, "function_calls.py", "--json"]
    told = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True).stdout
    rows = {row["call"]: row for row in json.loads(told)}
    for call, limits in MOST.items():
        row = rows[call]
        for what, sides in zip(("", "_functions", "_modules"), limits, strict=True):
            for side, most in zip(("client", "server"), sides, strict=True):
                assert row[side + what] <= most, (call, side + what)
