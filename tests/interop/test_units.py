"""systemd takes the units that packages install, and finds little that they leave open."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze: make interop"),
]

UNITS = Path(__file__).parents[2] / "packaging" / "systemd"
EXPOSURE_MAX = "25"
"""Tenths of the scale to 10: the servers of Debian that export files have 9.0 to 9.6."""


@pytest.mark.parametrize(
    ("name", "instance"), [("rpcrdma.service",) * 2, ("rpcrdma@.service", "rpcrdma@daemon.service")]
)
def test_systemd_takes_a_unit_and_calls_its_exposure_low(
    name: str, instance: str, rpcrdma_command: str, tmp_path: Path
) -> None:
    # It looks for the command, which is installed elsewhere here.
    unit = tmp_path / instance
    text = (UNITS / name).read_text()
    unit.write_text(text.replace("=rpcrdma ", f"={rpcrdma_command} "))
    assert unit.read_text().count(rpcrdma_command) == 2

    def analyzed(*words: str) -> str:
        command = ["systemd-analyze", *words, str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr

    assert analyzed("verify", "--recursive-errors=no") == ""
    analyzed("security", "--offline=true", f"--threshold={EXPOSURE_MAX}")
