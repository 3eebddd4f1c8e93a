"""The Makefile installs as much as a target needs, and the source distribution can be tested."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder

from support.cases import each_case

ROOT = Path(__file__).parents[2]
CORPUS = Path("tests/fuzz/corpus")
MADE = {"__pycache__", "findings", "build", "rpcrdma_native.egg-info"}
"""Folders that runs make."""


def ran(directory: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(directory / "src")}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no program make")
@each_case(
    ("target", "installed"),
    [
        ("install", {"."}),
        ("demo", {"."}),
        ("test", {".", "dev"}),
        ("check", {".", "dev"}),
        ("docs", {".", "docs"}),
        ("wheels", {".", "wheels"}),
        ("fuzz", {".", "dev", "fuzz"}),
    ],
)
def test_a_target_installs_as_much_as_it_needs(tmp_path: Path, target: str, installed: set[str]) -> None:
    steps = ran(ROOT, "make", "--dry-run", f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}", target)
    assert set(re.findall(r"pip install .* (?:-e|--group) (\S+)$", steps, re.MULTILINE)) == installed


def test_the_source_distribution_holds_all_that_tests_need() -> None:
    held = {file.relative_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    for folder in ("src", "tests", "specs", "examples", "native"):
        needed = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {name for name in needed - held if not set(Path(name).parts) & MADE} == set()
    assert f"{CORPUS}/" in "\n".join(held)


def test_nobody_is_sent_to_an_index_for_a_package_that_none_has() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "native" / "README.md"]
    sent = re.compile(r"pip install [^`\n]*\brpcrdma(?:\[|-native)")
    assert [
        str(path.relative_to(ROOT)) for path in [*(ROOT / "src").rglob("*.py"), *pages] if sent.search(path.read_text())
    ] == []
