"""The Makefile installs as much as a target needs, and distributions hold what pip and an index need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder

from support.cases import each_case

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


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
        ("wheels", {".", "dev", "wheels"}),
        ("fuzz", {".", "dev", "fuzz"}),
    ],
)
def test_a_target_installs_as_much_as_it_needs(tmp_path: Path, target: str, installed: set[str]) -> None:
    steps = ran(ROOT, "make", "--dry-run", f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}", target)
    assert set(re.findall(r"pip install .* (?:-e|--group) (\S+)$", steps, re.MULTILINE)) == installed


def test_the_source_distribution_holds_the_package_and_no_tests() -> None:
    held = {file.relative_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    package = {path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert held == {str(path.relative_to(ROOT)) for path in package} | {"CHANGELOG.md", "README.md"}


def test_the_description_on_an_index_has_no_link_that_needs_a_checkout() -> None:
    description = (ROOT / "README.md").read_text()
    relative = re.compile(r"\]\((?!https?://)")
    assert relative.search(description), "in a checkout, the links of README lead to its pages"
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        description = re.sub(rule["pattern"], rule["replacement"], description)
    assert not relative.search(description)
    assert "](" not in (ROOT / "native" / "README.md").read_text(), "it is shown as it is"


def test_nobody_is_sent_to_an_index_for_a_package_that_none_has() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "native" / "README.md"]
    sent = re.compile(r"pip install [^`\n]*\brpcrdma(?:\[|-native)")
    assert [
        str(path.relative_to(ROOT)) for path in [*(ROOT / "src").rglob("*.py"), *pages] if sent.search(path.read_text())
    ] == []
