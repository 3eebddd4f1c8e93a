"""docs/performance.md and the page of all figures have the rows and columns that their program knows."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.wire import native

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
PAGE = ROOT / "docs" / "performance.md"
FIGURES = ROOT / "docs" / "measured" / "performance.md"
ONE_CALL_EACH = ("--rounds", "1", "--seconds", "0", "--connections", "1")
"""Each batch makes as many calls as it has in flight, once."""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the benchmarks."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


def bench(*arguments: str | Path, path: str = os.environ["PATH"]) -> str:
    command = [sys.executable, BENCHMARKS / "bench.py", *arguments]
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def table_rows(text: str) -> list[list[str]]:
    """The cells of tables."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


@pytest.mark.thorough
def test_the_page_of_all_figures_has_the_measures_and_subjects_of_the_program(module: Any) -> None:
    report, subjects = module("performance_report"), module("subjects")
    text = FIGURES.read_text()
    table = table_rows(text)
    first = {row[0] for row in table}
    assert [name for name in report.BY_NAME if name not in first] == [], "run: make bench"
    assert [
        each.name for each in subjects.SUBJECTS if each.name not in table[0] and f"- {each.name}: " not in text
    ] == []
    known = {each.name for each in subjects.SUBJECTS}
    assert [name for name in table[0][2:] if name not in known] == []


@pytest.mark.thorough
def test_the_page_begins_with_medians_of_the_page_of_all_figures(module: Any) -> None:
    page = module("performance_page")
    whole = table_rows(FIGURES.read_text())
    cells = {(row[0], column): cell for row in whole for column, cell in zip(whole[0], row, strict=False)}
    head, *rows = table_rows(
        PAGE.read_text().partition("<!-- benchmarks/bench.py -->\n")[2].partition("<!-- end -->")[0]
    )
    assert [name for name in page.SHOWN if name not in head] == []
    assert [row[0] for row in rows[1:]] == [title for title, *_ in page.shown_rows()]
    assert len(rows[1:]) <= 12
    for row, (_, name, value, divisor) in zip(rows[1:], page.shown_rows(), strict=True):
        for column, cell in zip(head[1:], row[1:], strict=True):
            lines = cells[name, page.SHOWN[column]].split("<br>")
            figure = lines[value != "latency_us" and len(lines) > 1].partition("\u00a0")[0].replace(",", "")
            shown = float(cell.replace(",", "") or 0)
            assert shown == pytest.approx(float(figure or 0) / divisor, rel=0.01), (name, column)


def test_the_page_shows_its_plots() -> None:
    for name in ("performance-latency.svg", "performance-throughput.svg"):
        assert f"]({name})" in PAGE.read_text()
        assert (PAGE.parent / name).read_text().lstrip().startswith("<?xml")


@pytest.mark.thorough
def test_every_kind_of_call_is_made_once_by_each_of_our_subjects_and_by_the_floor(module: Any, tmp_path: Path) -> None:
    names = ["NULL x32", "READ 4 KiB x1, memory", "READ 64 KiB x16, disk", "WRITE 4 KiB x16, memory"]
    names += ["READ 16 MiB x1, memory", "NULL x1"]
    subjects = ["RDMA 2, Python", "TCP", "echo"] + (["floor"] if shutil.which("cc") else [])
    told = bench("--json", *ONE_CALL_EACH, "--disk", tmp_path, "--only", *names, "--subjects", *subjects)
    results = json.loads(told)
    assert results["missing"].keys() <= {"libfabric, READ and WRITE"}
    rows = {(row["subject"], row["measure"]) for row in results["rows"]}
    made = {(subject, name) for subject in subjects for name in names if subject != "echo"} | {("echo", "NULL x1")}
    assert made <= rows
    assert {subject for subject, _ in rows} == set(subjects)
    assert set(results["connection_kib"]) == {"RDMA 2, Python", "TCP"}
    assert {ratio["name"] for ratio in results["ratios"]} == {"latency of NULL x1: RDMA to TCP"}

    # The printed results make the same report, for the terminal and for the pages.
    kept = tmp_path / "results.json"
    kept.write_text(told)
    report = module("performance_report")
    page = tmp_path / "performance.md"
    page.write_text("before\n<!-- benchmarks/bench.py -->\nold\n<!-- end -->\nafter\n")
    printed = bench("--from", kept, "--write", page)
    assert report.table_text(report.Report.from_json(results)) + "\n" == printed
    medians = page.read_text()
    assert medians.startswith("before\n<!-- benchmarks/bench.py -->\n| | TCP |")
    assert medians.endswith("rounds.\n<!-- end -->\nafter\n")
    assert "| READ 1 MiB, µs |" not in medians, "no row without a figure"
    figures = (tmp_path / "measured" / "performance.md").read_text()
    for subject, name in made:
        assert f"| {name} | " in figures
        assert f"- {subject}: " in figures


@pytest.mark.thorough
def test_the_quick_table_has_a_column_of_another_checkout(tmp_path: Path) -> None:
    names, subjects = ("NULL x1", "READ 64 KiB x16, memory"), ("TCP", "before")
    chosen = ["--only", *names, "--subjects", *subjects, "--disk", tmp_path, "--minutes", "30"]
    head, *rows = table_rows(bench("--quick", "--against", ROOT / "src", *chosen, *ONE_CALL_EACH))
    assert head == ["", *(["before"] if native.find("1")[0] else []), "TCP"]
    assert [row[0] for row in rows[1:]] == ["NULL, µs", "READ 64 KiB x16, GB/s"]
    assert all(float(cell.replace(",", "")) > 0 for row in rows[1:] for cell in row[1:])


@pytest.mark.thorough
def test_missing_subjects_are_named_with_the_way_to_install_them(tmp_path: Path) -> None:
    told = bench("--subjects", "iperf3", "libfabric", "floor", *ONE_CALL_EACH, "--disk", tmp_path, path=str(tmp_path))
    assert "missing: iperf3: apt-get install iperf3" in told
    assert "missing: libfabric: apt-get install libfabric-bin" in told
    assert "missing: floor: apt-get install gcc" in told


@pytest.mark.thorough
def test_a_subject_that_fails_is_left_out(tmp_path: Path) -> None:
    program = tmp_path / "iperf3"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    arguments = ["--subjects", "iperf3", "echo", "--only", "NULL x1", "READ 4 KiB x16, memory", *ONE_CALL_EACH]
    told = json.loads(bench("--json", *arguments, "--disk", tmp_path, path=f"{tmp_path}:{os.environ['PATH']}"))
    assert told["missing"]["iperf3"].startswith("failed: ")
    assert [row["subject"] for row in told["rows"]] == ["echo"]


@pytest.mark.thorough
def test_no_batch_begins_when_the_time_is_up(tmp_path: Path) -> None:
    arguments = ["--subjects", "echo", "--only", "NULL x1", *ONE_CALL_EACH, "--minutes", "0", "--disk", tmp_path]
    assert json.loads(bench("--json", *arguments))["rows"] == []


def test_figures_and_ratios_are_medians_of_rounds_with_their_spread(module: Any) -> None:
    report, sample = module("performance_report"), module("orders").Sample
    assert report.Figure.of([110.0, 90.0, 100.0]).text() == "100 ±10%"
    null = report.Measure("NULL", 0, 1, "memory").name
    samples = {
        # The other subject has no third round: the ratio is of the rounds that both have.
        (null, "RDMA"): {
            0: sample(20.0, 1e4, 5.0, 6.0),
            1: sample(30.0, 1e4, 5.0, 6.0),
            2: sample(99.0, 1e4, 5.0, 6.0),
        },
        (null, "TCP"): {0: sample(10.0, 2e4, 2.0, 2.0), 1: sample(10.0, 2e4, 2.0, 2.0)},
    }
    (ratio,) = report.ratios_of(samples, "RDMA", "RDMA")
    assert (ratio.figure.low, ratio.figure.median, ratio.figure.high) == (2.0, 2.5, 3.0)
    first, _ = report.rows_of(samples)
    assert report.cell(first) == ["30.0 ±132%", "10,000", "5+6"]


@pytest.mark.thorough
def test_the_processor_time_of_a_call_is_compared_with_that_of_another_source(tmp_path: Path) -> None:
    command = [
        sys.executable,
        BENCHMARKS / "cpu_time.py",
        "--json",
        "--rounds",
        "1",
        "--batches",
        "1",
        "--disk",
        tmp_path,
    ]
    command += ["--only", "WRITE 4 KiB x1 disk", "--against", ROOT / "src"]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    assert [(row["call"], row["place"], row["ratio"] is None) for row in rows] == [
        ("WRITE", "disk", True),
        ("WRITE", "disk", False),
    ]
    assert all(row["client_us"] > 0 and row["server_us"] > 0 for row in rows)
