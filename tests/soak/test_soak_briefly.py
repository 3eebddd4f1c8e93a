"""The soak test, for a moment in version 2: soak.py is the long one, in any version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).with_name("soak.py")


def test_calls_survive_cut_connections_and_run_once() -> None:
    command = [
        sys.executable,
        SCRIPT,
        "--seconds",
        "0.6",
        # Cut so early, more connections are cut in half the time, and more repeats answered.
        "--cut-octets",
        "2097152",
        "--seed",
        "1",
        "--connections",
        "8",
        "--file-octets",
        "200000",
    ]
    command += ["--rpcrdma-version", "2", "--extension", "rtr"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all as it must be\n")
