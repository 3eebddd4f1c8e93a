"""docs/round-trip-analysis.md has the results that its program measures, and explains each difference to the draft."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "round-trip-analysis.md"
SECTIONS = ["1.2", "2.1", "2.2", "2.3", "3.1", "3.2", "3.3", "3.4", "3.5", "4", "5"]


@pytest.mark.thorough
def test_the_page_has_the_results_that_are_measured(tmp_path: Path) -> None:
    copy = Path(shutil.copy(PAGE, tmp_path))
    program = ROOT / "benchmarks" / "round_trip_analysis.py"
    subprocess.run([sys.executable, str(program), "--write", str(copy)], capture_output=True, text=True, check=True)
    command = f"python benchmarks/{program.name} --write docs/{PAGE.name}"
    assert (copy.read_text() == PAGE.read_text()) is True, f"run: {command}"


def test_the_page_has_statements_of_every_section_and_the_reason_of_each_difference() -> None:
    row = re.compile(r"^\| ([\d.]+) \| [^|]+ \| [^|]+ \| (yes|\*\*no\*\*: [^|]*) \| [^|]+ \|$", re.MULTILINE)
    rows = row.findall(PAGE.read_text())
    assert list(dict.fromkeys(section for section, _ in rows)) == SECTIONS
    assert [section for section, verdict in rows if verdict != "yes" and len(verdict) < 40] == []
    assert "In the simulation, 0 counts differ of " in PAGE.read_text()
