"""The table of what each operation takes, in docs/versions.md, is what the program counts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "versions.md"


def operations(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / "operations.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_page_has_the_table_that_is_counted(tmp_path: Path) -> None:
    copy = tmp_path / "versions.md"
    shutil.copy(PAGE, copy)
    operations("--write", str(copy))
    assert copy.read_text() == PAGE.read_text(), "run: python benchmarks/operations.py --write docs/versions.md"


def test_version_2_takes_no_more_than_version_1_and_both_drafts_the_same() -> None:
    rows = json.loads(operations("--json"))
    counts = {(row.pop("operation"), row.pop("version")): row for row in rows}
    moved = 0
    for (operation, version), row in counts.items():
        if version != "1":
            assert row == counts[operation, "2"], operation
            before = counts[operation, "1"]
            for name in ("rdma_reads", "rdma_writes", "registrations", "round_trips"):
                assert row[name] <= before[name], (operation, name)
            moved += row != before
    assert moved, "no operation goes another way in version 2"
