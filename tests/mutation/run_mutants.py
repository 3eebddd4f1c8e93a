"""Makes one small mistake after another in the protocol's code, and fails if its tests notice too few.

`run_mutants.py --sample 300 --seed 7` draws 300 mistakes of each package; `--modules 'iwarp/*'` keeps to a part. A
mistake counts as noticed if a test that executes the place fails by its own expectation: docs/maintainers.md.
Exit status: 0, or 1 if a gated package has less than its score.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from code_swap import changed_code
from coverage_map import CACHE, HERE, CoverageMap, Project, environment, measure
from equivalents import Equivalents
from mutations import UNCHANGED, Mutation, find
from trials import Collected, Mutant, at_work, import_with_mistake, preload
from type_check import TypeCheck
from verdict import Judge, Outcome

ROOT = Path(__file__).parents[2]
MODULES = ("wire/*.py", "xdr/codec.py", "rpc/*.py", "transport/**/*.py", "rtr/*.py", "iwarp/*.py")
GATED = ("transport", "iwarp", "rtr", "rpc")
LEAST_SHARE = 95.0
"""Percent of the mistakes in a gated package that tests must notice."""
# Tests in memory: none of them waits for a socket or a process. Which of them execute a line is measured.
TESTS = (
    "tests/wire",
    "tests/verbs",
    "tests/xdr/test_codec.py",
    "tests/rpc",
    "tests/iwarp",
    "tests/transport",
    "tests/rtr",
    "lab/tests/dissect",
    "tests/conformance",
    "examples/extension_batches/test_batches.py",
    "examples/extension_batches/test_batches_hostile.py",
)
MOST_TEST_S = 2.0
"""Tests that take longer are not run against mutants."""
TESTS_S = 20.0
"""Of the tests that execute a line, so many seconds (measured with coverage) are run for a mutant."""
MOST_FAILING = 0.02

PYTEST = [
    "-q",
    "-W",
    # Hypothesis is a plugin as well, and is loaded before the processes part.
    "ignore::pytest.PytestAssertRewriteWarning",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    # Files that hold output would be shared by the processes.
    "--capture=sys",
]
MARKED = ["-m", "not interop and not scale and not data_tools"]


def paths_of(project: Project, patterns: list[str]) -> list[str]:
    found = {path for pattern in patterns for path in project.package.glob(pattern)}
    modules = (path for path in found if path.suffix == ".py" and path.name != "__init__.py")
    return sorted(str(path.relative_to(project.root)) for path in modules)


class Order:
    """In which order tests are tried: the ones that noticed mistakes of the module first, then the module's own."""

    def __init__(self, coverage: CoverageMap) -> None:
        self._coverage = coverage
        self._noticed: dict[str, Counter[str]] = defaultdict(Counter)
        self.left_out: set[str] = set()

    def tests(self, path: str, mutation: Mutation) -> dict[str, float]:
        durations = self._coverage.durations
        noticed, room = self._noticed[path], self._coverage.project.room(path)
        tests = [
            test for test in self._coverage.tests_of(path, mutation) - self.left_out if durations[test] <= MOST_TEST_S
        ]
        tests.sort(key=lambda test: (-noticed[test], room not in test, durations[test], test))
        chosen: dict[str, float] = {}
        spent_s = 0.0
        for test in tests:
            spent_s += durations[test]
            if chosen and spent_s > TESTS_S:
                break
            chosen[test] = durations[test]
        return chosen

    def learn(self, mutant: Mutant) -> None:
        if mutant.outcome.noticed:
            self._noticed[mutant.path][mutant.by] += 1


class Run:
    """All drawn mutants: first the ones that have to be imported with their mistake, then the rest."""

    def __init__(self, project: Project, coverage: CoverageMap, jobs: int, directory: Path) -> None:
        self.project = project
        self.order = Order(coverage)
        self.coverage = coverage
        self.jobs = jobs
        self.directory = directory
        self.tried: list[Mutant] = []
        self._types = TypeCheck(project.root, project.root / CACHE / "mypy")

    def try_all(self, mutants: list[Mutant]) -> None:
        """Tries each; `tried` has them with their outcomes."""
        for mutant in mutants:
            if not self.coverage.is_imported(mutant.path, mutant.mutation):
                mutant.pairs = changed_code(
                    self.project.sources[mutant.path], str(self.project.root / mutant.path), mutant.mutation.number
                )
        self._rounds([mutant for mutant in mutants if mutant.pairs is None], self._import)
        later = [mutant for mutant in mutants if mutant.pairs is not None]
        files = sorted({test.split("::")[0] for each in later for test in self.order.tests(each.path, each.mutation)})
        if files:
            pytest.main(
                [*PYTEST, *MARKED, f"--basetemp={self.directory / 'tmp'}", *files], plugins=[_Loop(self, later)]
            )
        else:
            self.tried += later
        if len(self.tried) != len(mutants):
            raise SystemExit(f"error: of {len(mutants)} mutants {len(self.tried)} were tried; pytest says why above")

    def _import(self, mutant: Mutant, judge: Judge) -> None:
        # A directory of its own: pytest clears it.
        options = [*PYTEST, *MARKED, f"--basetemp={self.directory / str(os.getpid())}"]
        path = self.project.root / mutant.path
        import_with_mistake(self.project.module_name(mutant.path), path, mutant, options, judge)

    def _rounds(self, mutants: list[Mutant], run: Callable[[Mutant, Judge], None]) -> None:
        """Tries mutants; tries a mutant again if the test that noticed it fails here without any mistake."""
        while mutants:
            tried: list[Mutant] = []
            for mutant in self._each(mutants, run):
                tried.append(mutant)
                if not mutant.outcome.noticed and mutant.outcome.viable:
                    complaint = self._types.complaint(mutant.path, mutant.mutation.number)
                    if complaint:
                        mutant.outcome, mutant.why = Outcome.ILL_TYPED, complaint
                if mutant.outcome.viable and not mutant.outcome.noticed:
                    print(said(mutant, self.project), flush=True)
            wrong = self._failing_without({mutant.by: mutant for mutant in tried if mutant.outcome.noticed}, run)
            for test in sorted(wrong):
                print(f"{test} is left out: it fails here without any mistake", flush=True)
            self.order.left_out |= wrong
            self.tried += [mutant for mutant in tried if mutant.by not in wrong]
            mutants = [mutant for mutant in tried if mutant.by in wrong]

    def _each(self, mutants: list[Mutant], run: Callable[[Mutant, Judge], None]) -> Iterator[Mutant]:
        """In small numbers, so that the order of tests improves."""
        step = 10 * self.jobs
        for start in range(0, len(mutants), step):
            some = mutants[start : start + step]
            for mutant in some:
                mutant.tests = self.order.tests(mutant.path, mutant.mutation)
            for mutant in at_work(some, run, self.project.package, self.directory, self.jobs):
                self.order.learn(mutant)
                yield mutant

    def _failing_without(self, by: dict[str, Mutant], run: Callable[[Mutant, Judge], None]) -> set[str]:
        """The tests that noticed a mutant, and fail in such a process without any mistake."""
        wrong: set[str] = set()
        left = dict(by)
        while left:
            tests = {test: self.coverage.durations[test] for test in left}
            path = next(iter(left.values())).path
            control = Mutant(path, Mutation(UNCHANGED, 0, 0, "nothing"), tests, pairs=[])
            (control,) = at_work([control], run, self.project.package, self.directory, 1)
            if not control.by or control.outcome is Outcome.SURVIVED:
                if control.outcome is not Outcome.SURVIVED:
                    raise SystemExit(f"error: tests do not run here without any mistake ({control.outcome})")
                return wrong
            wrong.add(control.by)
            del left[control.by]
        return wrong


class _Loop:
    """A pytest plugin: in place of running the collected tests, runs mutants against them."""

    def __init__(self, run: Run, mutants: list[Mutant]) -> None:
        self._run = run
        self._mutants = mutants

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        collected = Collected(session.items, self._run.project.package)
        self._run._rounds(self._mutants, collected.run)
        return True


def said(mutant: Mutant, project: Project) -> str:
    source = project.sources[mutant.path].splitlines()[mutant.mutation.line - 1].strip()
    text = f"{mutant.path}:{mutant.mutation.line}: {mutant.mutation.what}  [{mutant.outcome}]\n    {source}"
    return f"{text}\n    {mutant.by}: {mutant.why}" if mutant.by else text


def report(tried: list[Mutant], project: Project, gated: list[str], least_share: float) -> bool:
    """Prints survivors by place and the score of each package; whether every gated one has the score."""
    print("\nnot noticed:")
    for mutant in sorted(tried, key=lambda each: (each.path, each.mutation.number)):
        if mutant.outcome.viable and not mutant.outcome.noticed:
            print(said(mutant, project))
    print(f"\n{'package':12} {'tried':>6} " + " ".join(f"{outcome.value:>12}" for outcome in Outcome) + "   noticed")
    enough = True
    for room in sorted({project.room(mutant.path) for mutant in tried}):
        counts = Counter(mutant.outcome for mutant in tried if project.room(mutant.path) == room)
        viable = sum(count for outcome, count in counts.items() if outcome.viable)
        noticed = sum(count for outcome, count in counts.items() if outcome.noticed)
        share = 100 * noticed / viable if viable else 0.0
        verdict = ""
        if room in gated and share < least_share:
            enough = False
            verdict = f": less than {least_share:g} %"
        numbers = " ".join(f"{counts[outcome]:12}" for outcome in Outcome)
        print(f"{room:12} {counts.total():6} {numbers} {share:7.1f} %{verdict}")
    return enough


def main() -> int:
    # Tests and mistaken modules are imported here and in forked processes; nothing of them stays behind.
    sys.dont_write_bytecode = True
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300, help="mistakes that are drawn of each package; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="which ones are drawn")
    parser.add_argument("--modules", nargs="+", default=list(MODULES), help="patterns of paths below the package")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--tier", choices=("all", "quick"), default="all", help="quick: with the tests of `make test`")
    parser.add_argument("--outcomes", type=Path, help="write what became of each mutant to this file, as JSON")
    parser.add_argument("--again", type=Path, help="try what was not noticed in the run that wrote this file")
    parser.add_argument("--root", type=Path, default=ROOT, help="of the project")
    parser.add_argument("--package", type=Path, default=Path("src/rpcrdma"), help="from the root")
    parser.add_argument("--tests", nargs="+", default=list(TESTS), help="files and folders, from the root")
    parser.add_argument("--gated", nargs="*", default=list(GATED), help="packages that need the score")
    parser.add_argument(
        "--least", type=float, default=LEAST_SHARE, help="the score that gated packages need, in percent"
    )
    args = parser.parse_args()
    root = args.root.resolve()
    project = Project(root, root / args.package, tuple(args.tests))
    os.chdir(root)
    os.environ.update(environment(project))
    paths = paths_of(project, args.modules)
    if not paths:
        parser.error("no module matches")
    equivalents = Equivalents.read(HERE / "equivalents.toml") if root == ROOT else Equivalents([])
    drawn = draw(project, paths, equivalents, args.sample, args.seed)
    if args.again:
        unnoticed = {
            (each["path"], each["scope"], each["source"], each["what"])
            for each in json.loads(args.again.read_text())
            if not Outcome(each["outcome"]).noticed
        }
        drawn = [each for each in drawn_all(project, paths, equivalents) if key(each, project) in unnoticed]
    coverage = measure(project, [*PYTEST, *MARKED], args.jobs)
    print_failed(coverage)
    print(f"{len(drawn)} mutants of {len(paths)} modules; seed {args.seed}", flush=True)
    # The package beside these tests comes before an installed one.
    sys.path.insert(0, str(project.package.parent))
    preload(project.package.name)
    with tempfile.TemporaryDirectory() as name:
        run = Run(project, coverage, args.jobs, Path(name))
        if args.tier == "quick":
            run.order.left_out |= thorough_tests(project)
        run.try_all(drawn)
    if args.outcomes:
        rows = [
            dict(zip(("path", "scope", "source", "what"), key(each, project), strict=True))
            | {"line": each.mutation.line, "outcome": each.outcome, "by": each.by, "why": each.why}
            for each in run.tried
        ]
        args.outcomes.write_text(json.dumps(rows, indent=1))
    return 0 if report(run.tried, project, args.gated, args.least) else 1


def thorough_tests(project: Project) -> set[str]:
    """The tests that `make test` leaves out, by their ids."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-m", "thorough", *project.test_files]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 5}:
        raise SystemExit(f"error: the tests cannot be collected\n{done.stdout[-4000:]}")
    return {line for line in done.stdout.splitlines() if "::" in line}


def key(mutant: Mutant, project: Project) -> tuple[str, str, str, str]:
    """The module, scope, line and change of a mutant: they stay the same while lines move."""
    source = project.sources[mutant.path].splitlines()[mutant.mutation.line - 1].strip()
    return mutant.path, mutant.mutation.scope, source, mutant.mutation.what


def drawn_all(project: Project, paths: list[str], equivalents: Equivalents) -> list[Mutant]:
    """Every mistake that can be made and changes something."""
    mutants = [Mutant(path, mutation) for path in paths for mutation in find(project.sources[path])]
    return [mutant for mutant in mutants if key(mutant, project) not in equivalents]


def draw(project: Project, paths: list[str], equivalents: Equivalents, sample: int, seed: int) -> list[Mutant]:
    """`sample` of each package."""
    rooms: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in drawn_all(project, paths, equivalents):
        rooms[project.room(mutant.path)].append(mutant)
    drawn: list[Mutant] = []
    for room, mutants in sorted(rooms.items()):
        random.Random(f"{seed} {room}").shuffle(mutants)
        drawn += mutants[: sample or None]
    return drawn


def print_failed(coverage: CoverageMap) -> None:
    for test in coverage.failed:
        print(f"{test} is left out: it fails without any mistake", flush=True)
    if len(coverage.failed) > MOST_FAILING * len(coverage.durations):
        raise SystemExit("error: too many tests fail as they are")


if __name__ == "__main__":
    sys.exit(main())
