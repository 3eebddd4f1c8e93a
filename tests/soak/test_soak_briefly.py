"""The soak test, for two seconds in each version: `make soak` is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("soak.py")


@pytest.mark.timeout(90)
@pytest.mark.parametrize("version", ["1", "2"])
def test_calls_survive_cut_connections_and_run_once(version: str) -> None:
    command = [sys.executable, SCRIPT, "--seconds", "2", "--seed", "1", "--connections", "8", "--file-octets", "200000"]
    command += ["--rpcrdma-version", version]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=80)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all as it must be\n")
