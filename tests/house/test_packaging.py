"""The Makefile installs as much as a target needs, and the source distribution can be tested."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORPUS = Path("tests/fuzz/corpus")


def ran(directory: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(directory / "src")}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no program make")
@pytest.mark.parametrize(
    ("target", "installed"),
    [("install", {"."}), ("demo", {"."}), ("test", {".", "'.[dev]'"}), ("check", {".", "'.[dev]'"})],
)
def test_a_target_installs_as_much_as_it_needs(tmp_path: Path, target: str, installed: set[str]) -> None:
    steps = ran(ROOT, "make", "--dry-run", f"VENV={tmp_path / 'venv'}", target)
    assert set(re.findall(r"pip install .* -e (\S+)$", steps, re.MULTILINE)) == installed


def test_the_source_distribution_holds_the_corpus_of_the_fuzzers(tmp_path: Path) -> None:
    ran(ROOT, sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    unpacked = archive.with_suffix("").with_suffix("")
    kept = {path.relative_to(ROOT) for path in (ROOT / CORPUS).rglob("*") if path.is_file()}
    assert kept
    assert {path.relative_to(unpacked) for path in (unpacked / CORPUS).rglob("*") if path.is_file()} == kept
    # All targets are imported, with the golden messages from which they start.
    pytest_command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/fuzz"]
    ran(unpacked, *pytest_command, "-k", "test_the_corpus_is_small_and_belongs_to_targets")
