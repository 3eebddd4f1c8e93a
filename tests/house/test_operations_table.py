"""The tables of operations in docs/versions.md and docs/round-trips.md equal the program's counts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
EXTENDED = "2, by Send"
PAGES = [ROOT / "docs" / name for name in ("versions.md", "round-trips.md")]


def operations(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / "operations.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_pages_have_the_tables_that_are_counted(tmp_path: Path) -> None:
    copies = [tmp_path / page.name for page in PAGES]
    for page, copy in zip(PAGES, copies, strict=True):
        shutil.copy(page, copy)
    operations("--write", *map(str, copies))
    for page, copy in zip(PAGES, copies, strict=True):
        assert copy.read_text() == page.read_text(), f"run: python benchmarks/operations.py --write docs/{page.name}"


def test_version_2_takes_no_more_than_version_1() -> None:
    rows = json.loads(operations("--json"))
    counts = {(row.pop("operation"), row.pop("version")): row for row in rows}
    moved = 0
    for (operation, version), row in counts.items():
        if version == EXTENDED and operation.startswith(("READ, ", "WRITE, ")):
            by_send = not operation.endswith(" 1024 KiB")
            taken = (row["rdma_reads"], row["rdma_writes"], row["registrations"], row["round_trips"])
            assert (taken == (0, 0, 0, 1)) is by_send, operation
        elif version != "1":
            before = counts[operation, "1"]
            for name in ("rdma_reads", "rdma_writes", "registrations", "round_trips"):
                assert row[name] <= before[name], (operation, name)
            moved += row != before
    assert moved, "no operation goes another way in version 2"
