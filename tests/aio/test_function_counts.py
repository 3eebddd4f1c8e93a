"""The number of Python functions that a call enters: an addition to the way of a call shows on any machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST: dict[tuple[str, str], tuple[tuple[int, int] | None, tuple[int, int], tuple[int, int]]] = {
    ("NULL", "1"): ((44, 38), (40, 37), (16, 15)),
    ("NULL", "2"): ((45, 39), (41, 38), (16, 15)),
    ("GETATTR", "1"): ((57, 57), (51, 52), (17, 18)),
    ("GETATTR", "2"): ((58, 58), (52, 53), (17, 18)),
    ("READ 4 KiB", "1"): ((102, 102), (92, 91), (21, 24)),
    ("READ 4 KiB", "2"): ((81, 95), (72, 85), (20, 24)),
    ("WRITE 4 KiB", "1"): ((125, 176), (98, 141), (22, 30)),
    ("WRITE 4 KiB", "2"): ((88, 116), (74, 99), (20, 24)),
    ("READ 1 MiB", "1"): (None, (103, 94), (22, 24)),
    ("READ 1 MiB", "2"): (None, (102, 95), (23, 24)),
    ("WRITE 1 MiB", "1"): (None, (102, 148), (22, 30)),
    ("WRITE 1 MiB", "2"): (None, (102, 148), (23, 30)),
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
