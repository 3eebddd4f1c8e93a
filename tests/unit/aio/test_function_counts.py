"""How many Python functions a small call enters: what a change adds to the way of a call is seen on any machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MOST = {"NULL": (87, 82), "GETATTR": (98, 106), "READ 4 KiB": (169, 198), "WRITE 4 KiB": (182, 266)}
"""At the client and in the server's loop."""


def test_small_calls_enter_no_more_functions_than_they_may() -> None:
    command = [sys.executable, "function_calls.py", "--json"]
    told = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True).stdout
    counts = {row["call"]: (row["client"], row["server"]) for row in json.loads(told)}
    for call, (client, server) in MOST.items():
        assert counts[call][0] <= client, call
        assert counts[call][1] <= server, call
