"""systemd takes the units that packages install, and finds little that they leave open."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rpcrdma.cli.main import main
from rpcrdma.cli.settings import unit as of_exports

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
    unit = tmp_path / instance
    write(unit, name, rpcrdma_command)
    assert analyzed(unit, "verify", "--recursive-errors=no") == ""
    analyzed(unit, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}")


def test_systemd_takes_the_drop_in_of_exports(
    rpcrdma_command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = tmp_path / "rpcrdma.service"
    write(unit, unit.name, rpcrdma_command)
    file = tmp_path / "c.toml"
    directories = ("/srv/a b%i", "/srv/ä-x", "/srv/must")
    monkeypatch.setattr(of_exports, "mount_points", lambda: frozenset(map(Path, directories)))
    file.write_text(
        "".join(f'[[export]]\nname = "/{number}"\ndirectory = "{path}"\n' for number, path in enumerate(directories))
        + 'missing = "fail"\n'
    )
    assert main(["config", "unit", "--config", str(file)]) == 0
    text = capsys.readouterr().out
    drop_in = tmp_path / "rpcrdma.service.d" / "exports.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(text)
    assert analyzed(unit, "verify", "--recursive-errors=no") == ""
    points = said("systemd-escape", "--path", "--suffix=mount", *directories).split()
    for order in ("Wants", "After"):
        assert [line for line in text.splitlines() if line.startswith(f"{order}=")] == [
            f"{order}={point}" for point in points[:2]
        ]
    analyzed(unit, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}")


def write(unit: Path, name: str, rpcrdma_command: str) -> None:
    """Writes a unit with the command as it is installed here, for which systemd looks."""
    unit.write_text((UNITS / name).read_text().replace("=rpcrdma ", f"={rpcrdma_command} "))
    assert unit.read_text().count(rpcrdma_command) == 2


def analyzed(unit: Path, *words: str) -> str:
    """What `systemd-analyze` complains of."""
    return said("systemd-analyze", *words, str(unit), of="stderr")


def said(*command: str, of: str = "stdout") -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    found: str = getattr(done, of)
    return found
