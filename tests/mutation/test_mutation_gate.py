"""The mutation tool on a small package: which outcomes count as noticed, how tests are chosen, and the gate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coverage_map import HERE, Project
from equivalents import LEAST_PROOF, MOST_SHARE, Equivalents
from run_mutants import GATED, MODULES, ROOT, TESTS, drawn_all, key, paths_of

pytestmark = pytest.mark.thorough

MODULE = """
LIMIT = 3
UNIT = [1][0]


def limited(value):
    return value > LIMIT


def counted(least):
    count = 0
    while count < least:
        count += 1
    return count


def named(value):
    names = {1: "one", LIMIT: "three"}
    return names[value]


def first() -> list[int]:
    return [1, 2]


def shown(value):
    return [value]


def second() -> int:
    return first()[1]


def refused(value):
    if value:
        raise ValueError(value)


def seldom():
    return LIMIT + LIMIT


def unexecuted():
    return LIMIT + LIMIT
"""
TESTS_OF_MODULE = {
    # Neither name says which module the tests are of.
    "tests/test_here.py": """
import pytest
from toy.room import things
from toy.room.things import UNIT, counted, limited, named, refused, shown

def test_limit():
    assert limited(4)
    assert not limited(3)

def test_count():
    assert counted(2) == 2

def test_name():
    assert named(1) == "one"

def test_name_without_an_assertion():
    named(3)

def test_first():
    assert things.second() == 2

def test_shown():
    (value,) = shown(1)
    assert value

def test_refusal():
    refused(0)
    with pytest.raises(ValueError):
        refused(1)
    assert UNIT
""",
    "tests/further/test_there.py": """
from toy.room import things

def test_nothing_of_it():
    things.seldom()
""",
}


@dataclass
class Toy:
    """The small package, and the outcome of a run of the tool on it."""

    root: Path
    rows: list[dict[str, str]] = field(default_factory=list)
    outcomes: dict[str, dict[str, str]] = field(default_factory=dict)
    status: int = 0
    said: str = ""

    def run(self, *options: str) -> Toy:
        written = self.root / "outcomes.json"
        command = [sys.executable, str(HERE / "run_mutants.py"), "--root", str(self.root), "--package", "toy"]
        command += ["--tests", "tests", "--modules", "room/*.py", "--gated", "room", "--sample", "0"]
        done = subprocess.run(
            [*command, "--outcomes", str(written), *options],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTEST_ADDOPTS": "-p no:cacheprovider"},
        )
        self.status, self.said = done.returncode, done.stdout
        assert written.exists(), f"the tool said {done.stdout}{done.stderr}"
        self.rows = json.loads(written.read_text())
        self.outcomes = {f"{row['scope']}: {row['what']}": row for row in self.rows}
        return self

    def outcome(self, mutant: str) -> str:
        return self.outcomes[mutant]["outcome"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    root = tmp_path_factory.mktemp("project")
    for name, text in {
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\nmarkers =\n  interop\n  scale\n  data_tools\n",
        "pyproject.toml": "[tool.mypy]\nignore_missing_imports = true\n",
        "toy/__init__.py": "",
        "toy/room/__init__.py": "",
        "toy/room/things.py": MODULE,
        **TESTS_OF_MODULE,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Toy(root).run()


@pytest.mark.timeout(180)
class TestOutcomes:
    def test_a_failed_assertion_counts(self, toy: Toy) -> None:
        assert toy.outcome("limited: Gt -> GtE") == "asserted"
        assert toy.outcomes["limited: Gt -> GtE"]["by"] == "tests/test_here.py::test_limit"

    def test_an_error_that_pytest_raises_does_not_see_counts(self, toy: Toy) -> None:
        assert toy.outcome("refused: raise removed") == "asserted"
        assert toy.outcomes["refused: raise removed"]["why"].startswith("Failed: DID NOT RAISE")

    def test_tests_of_a_constant_are_the_ones_that_execute_its_uses(self, toy: Toy) -> None:
        assert toy.outcome(": 3 -> 4") == "asserted"
        assert toy.outcomes[": 3 -> 4"]["by"] == "tests/test_here.py::test_limit"

    def test_a_test_without_end_does_not_count(self, toy: Toy) -> None:
        assert toy.outcome("counted: removed: count += 1") == "hung"

    def test_a_crash_does_not_count(self, toy: Toy) -> None:
        assert toy.outcome("named: no entry LIMIT") == "crashed"
        assert toy.outcomes["named: no entry LIMIT"]["by"] == "tests/test_here.py::test_name_without_an_assertion"

    def test_a_mistake_that_only_the_type_checker_refuses_is_out_of_the_score(self, toy: Toy) -> None:
        assert toy.outcome("first: return None") == "ill typed"
        assert toy.outcomes["first: return None"]["why"].startswith("Incompatible return value type")

    def test_a_test_that_cannot_use_the_result_counts(self, toy: Toy) -> None:
        assert toy.outcome("shown: return None") == "contradicted"
        assert toy.outcomes["shown: return None"]["why"].startswith("TypeError: cannot unpack")

    def test_a_refusal_that_the_test_does_not_expect_counts(self, toy: Toy) -> None:
        assert toy.outcome("refused: negate value") == "contradicted"
        assert toy.outcomes["refused: negate value"]["why"].startswith("ValueError")

    def test_an_import_error_does_not_count_and_is_out_of_the_score(self, toy: Toy) -> None:
        assert toy.outcome(": 0 -> 1") == "not viable"

    def test_what_is_executed_without_an_assertion_survives(self, toy: Toy) -> None:
        assert toy.outcome("seldom: Add -> Sub") == "survived"

    def test_what_no_test_executes_is_not_noticed(self, toy: Toy) -> None:
        assert toy.outcome("unexecuted: Add -> Sub") == "not executed"


@pytest.mark.timeout(180)
class TestGate:
    def test_the_score_is_that_of_assertions_among_viable_mutants(self, toy: Toy) -> None:
        outcomes = [row["outcome"] for row in toy.rows]
        assert {"hung", "crashed", "not viable"} <= set(outcomes)
        noticed = outcomes.count("asserted") + outcomes.count("contradicted")
        share = 100 * noticed / (len(outcomes) - outcomes.count("not viable") - outcomes.count("ill typed"))
        assert f"{share:.1f} %: less than 95 %" in toy.said

    def test_a_low_score_is_a_status_other_than_0(self, toy: Toy) -> None:
        assert toy.status == 1

    def test_a_score_that_is_reached_is_status_0_and_coverage_is_not_measured_twice(self, toy: Toy) -> None:
        again = Toy(toy.root).run("--sample", "1")
        assert again.status == 0
        assert "measuring" in toy.said
        assert "measuring" not in again.said

    def test_the_tree_stays_as_it_is(self, toy: Toy) -> None:
        assert (toy.root / "toy/room/things.py").read_text() == MODULE
        assert not list(toy.root.rglob("*.pyc"))


def test_a_pattern_means_the_modules_that_it_matches(tmp_path: Path) -> None:
    room = tmp_path / "package" / "room"
    (room / "__pycache__").mkdir(parents=True)
    for name in ("__init__.py", "things.py", "things.x"):
        (room / name).touch()
    assert paths_of(Project(tmp_path, tmp_path / "package", ()), ["room/*"]) == ["package/room/things.py"]


class TestEquivalents:
    def test_each_row_is_a_possible_mistake_with_a_proof(self) -> None:
        project = Project(ROOT, ROOT / "src" / "rpcrdma", TESTS)
        equivalents = Equivalents.read(HERE / "equivalents.toml")
        possible = drawn_all(project, paths_of(project, list(MODULES)), Equivalents([]))
        known = Counter(key(mutant, project) for mutant in possible)
        rooms = Counter(project.room(mutant.path) for mutant in possible)
        for row, identity in zip(equivalents.rows, equivalents.keys, strict=True):
            # The same change can be possible twice in a line.
            assert known[identity] == int(row.get("times", 1)), f"{known[identity]} mistakes are {identity}"
            assert len(row["proof"]) >= LEAST_PROOF, f"no proof: {identity}"
        listed = Counter(project.room(row["path"]) for row in equivalents.rows)
        for room in GATED:
            assert listed[room] <= MOST_SHARE * rooms[room]

    def test_a_listed_mistake_is_not_drawn(self, tmp_path: Path) -> None:
        (tmp_path / "toy").mkdir()
        (tmp_path / "toy/things.py").write_text("def f(a):\n    return a + 1\n")
        project = Project(tmp_path, tmp_path / "toy", ("tests",))
        every = drawn_all(project, ["toy/things.py"], Equivalents([]))
        first = dict(zip(("path", "scope", "source", "change"), key(every[0], project), strict=True))
        rest = drawn_all(project, ["toy/things.py"], Equivalents([first]))
        assert [each.mutation for each in rest] == [each.mutation for each in every[1:]]
