"""`rpcrdma roundtrips`: its table, its JSON and its plot."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from rpcrdma.testing.virtual import PROFILES
from rpcrdma_lab.commands import latency_plot, roundtrips
from rpcrdma_lab.simulation.latency_curves import Curves
from rpcrdma_lab.simulation.measured_calls import OPERATIONS, VARIANTS
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Command

BATCHES = Path(__file__).parents[3] / "examples" / "extension_batches" / "batches.py"


@pytest.mark.thorough
def test_the_table_has_a_row_and_a_path_for_each_operation_and_variant(command: Command) -> None:
    ran = command.done("roundtrips", "--miles", "1", "--size", "4Ki", "--paths")
    blocks = ran.text.strip().split("\n\n")
    assert blocks[0] == "4096 octets of data, 1 mile (16 µs of round trip), profile machine-room"
    assert [block.splitlines()[0] for block in blocks[1:]] == [operation.name for operation in OPERATIONS]
    names = [variant.name for variant in VARIANTS]
    for block in blocks[1:]:
        lines = block.splitlines()[2:]
        rows, paths = lines[: len(names)], lines[len(names) :]
        assert [next(name for name in sorted(names, reverse=True) if row.startswith(name)) for row in rows] == names
        assert [path.partition(": client call 0, ")[0].strip() for path in paths] == names
        assert all(path.rpartition(", ")[2].startswith("return ") for path in paths)


@pytest.mark.thorough
def test_the_json_has_counts_times_and_paths_and_an_extension_of_the_user_is_one_more_variant(command: Command) -> None:
    extension = f"{BATCHES}:batches_extension"
    found = command.done("roundtrips", "--profile", "campus", "--json", "--add-extension", extension).json
    assert (found["profile"], found["size_bytes"], found["curves"]) == ("campus", 8192, [])
    assert found["model"]["miles"] == PROFILES["campus"].miles
    assert len(found["rows"]) == len(OPERATIONS) * (len(VARIANTS) + 1)
    for row in found["rows"]:
        assert sum(row["parts_us"].values()) == pytest.approx(row["latency_us"], abs=0.01)
        assert (row["path"][0]["event"], row["path"][-1]["event"]) == ("call", "return")
        assert row["path"][-1]["part"] in row["parts_us"]
        assert row["round_trips"] == row["one_way_trips"] / 2
    sends = {row["variant"]: row["sends"] for row in found["rows"] if row["operation"] == "8 short calls at once"}
    assert (sends["version 2, batches_extension"], sends["version 2"]) == (2, 16)


def test_profiles_are_those_of_the_simulation() -> None:
    assert tuple(PROFILES) == roundtrips._PROFILES


@each_case("name", ["nowhere.py:make", f"{BATCHES}:nothing", "batches_extension"])
def test_an_extension_that_is_not_there_is_named_with_the_remedy(command: Command, name: str) -> None:
    ran = command.run("roundtrips", "--add-extension", name)
    assert ran.status == 1
    assert name in ran.err
    assert "hint: name a Python file" in ran.err


@each_case(
    ("body", "told"),
    [
        ("return 1 / 0", "make.py:make: ZeroDivisionError in line 2: division by zero"),
        ("return 7", "make.py:make returns int, no rpcrdma.extension.Extension"),
    ],
)
def test_a_broken_function_of_the_user_is_named_with_its_line(
    command: Command, tmp_path: Path, body: str, told: str
) -> None:
    (tmp_path / "make.py").write_text(f"def make():\n    {body}\n")
    ran = command.run("roundtrips", "--add-extension", f"{tmp_path / 'make.py'}:make")
    assert (ran.status, ran.err.splitlines()[0]) == (1, f"error: {tmp_path}/{told}")


@each_case("miles", ["-1", "12501", "nan", "far"])
def test_a_distance_is_a_number_of_miles(command: Command, miles: str) -> None:
    ran = command.run("roundtrips", f"--miles={miles}")
    assert ran.status == 2
    assert "is not a distance: write miles from 0 to 12500, such as 0.5" in ran.err


def test_a_call_has_a_limited_size(command: Command) -> None:
    ran = command.run("roundtrips", "--size", "524289")
    assert ran.status == 2
    assert "is too large: a call has up to 512Ki of data here" in ran.err


def test_a_plot_needs_matplotlib(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    ran = command.run("roundtrips", "--plot", str(tmp_path / "latency.svg"))
    assert ran.status == 1
    assert "error: --plot needs the package matplotlib" in ran.err
    assert "hint: install it: pip install matplotlib" in ran.err


def test_a_plot_is_an_svg_file(command: Command) -> None:
    ran = command.run("roundtrips", "--plot", "latency.png")
    assert ran.status == 1
    assert "hint: choose a name that ends in .svg" in ran.err


def test_a_plot_that_cannot_be_written_is_told_before_the_calls(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    ran = command.run("roundtrips", "--plot", str(tmp_path / "absent" / "latency.svg"))
    assert (ran.status, ran.text) == (1, "")
    assert "absent/latency.svg: no such file or directory" in ran.err


@pytest.mark.thorough
def test_a_plot_is_drawn_of_each_operation_by_distance_and_by_size(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(latency_plot, "draw", lambda curves, file: drawn.append((curves, Path(file.name))))
    monkeypatch.setattr(roundtrips, "_MILES", (1.0,))
    monkeypatch.setattr(roundtrips, "_SIZES", (1024, 65536))
    file = tmp_path / "latency.svg"
    found = command.done("roundtrips", "--json", "--plot", str(file)).json["curves"]
    (curves, named) = drawn.pop()
    assert named == file
    assert [(each.operation, each.over) for each in curves] == [(each["operation"], each["over"]) for each in found]
    assert {each["operation"] for each in found} == {"short call", "READ", "WRITE", "long call", "long reply"}
    (write,) = [each for each in found if (each["operation"], each["over"]) == ("WRITE", "octets")]
    (crossing,) = [each for each in write["crossings"] if each["slower_beyond"] == "version 1, local invalidation"][:1]
    assert 1024 < crossing["at"] < 65536


def test_a_plot_has_the_same_octets_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the extra `plots`")
    curves = [
        Curves(operation=operation, over="miles", at=[0.0, 1.0], latencies_s={"version 1": [1.0, 2.0], "other": last})
        for operation, last in (("short call", [1.0, 2.0]), ("READ", [2.0, 1.0]))
    ]
    files = [tmp_path / name for name in ("first.svg", "again.svg")]
    for file in files:
        with file.open("wb") as opened:
            latency_plot.draw(curves, opened)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert ET.parse(files[0]).getroot().tag.endswith("svg")
