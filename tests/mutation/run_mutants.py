"""Makes one small mistake after another in the protocol's code and says which of them no test notices.

Decoders, planners and machines are what is tried: `run_mutants.py --seconds 600 --seed 7`, and `--modules 'iwarp/*'`
for a part. The mistakes are drawn at random by the seed, and each runs in a process of its own against those tests of
the module's own folders that execute the line. The time of a mutant is bounded by what those tests took without it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutant import preload, start
from mutations import UNCHANGED, Mutation, find

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rpcrdma"
HERE = Path(__file__).parent
UNNOTICED = {"survived", "not executed"}

MODULES = ("wire/*.py", "xdr/codec.py", "rpc/*.py", "transport/**/*.py", "rtr/*.py", "iwarp/*.py", "dissect/*.py")
TESTS = ("tests/unit/{room}", "tests/properties/{room}", "tests/abuse/test_{room}_*.py")
"""Where the tests of a module are, by the folder that it is in."""

TESTS_S = 60.0
"""Of the tests that execute a line, so many seconds are run for a mutant, the fastest first; no bound for what is
executed on import."""
START_S = 20.0
"""For starting Python on a busy machine."""
SLOWER = 8.0
"""A mutant whose tests take so many times as long as they did is one that hangs, and so is noticed."""


@dataclass
class Room:
    """A folder's tests as they were without any mistake."""

    tests: list[str]
    durations: list[float]
    lines: dict[str, dict[str, list[int]]]

    def tests_of(self, path: Path, mutation: Mutation) -> list[int]:
        """Those that execute the line; all there are where it runs on import, as others may use what it defines."""
        lines = self.lines.get(str(path), {})
        numbers: set[int] = set()
        for line, executed_by in lines.items():
            if mutation.line <= int(line) <= mutation.end_line:
                numbers.update(executed_by)
        if not numbers and str(mutation.line) in lines:
            return sorted(range(len(self.tests)), key=self.durations.__getitem__)
        chosen: list[int] = []
        spent_s = 0.0
        for number in sorted(numbers, key=lambda number: self.durations[number]):
            spent_s += self.durations[number]
            if chosen and spent_s > TESTS_S:
                break
            chosen.append(number)
        return chosen


@dataclass
class Tried:
    """A mutant and what became of it: "killed", "survived", "hung" or "not executed"."""

    path: Path
    mutation: Mutation
    outcome: str

    def __str__(self) -> str:
        source = self.path.read_text().splitlines()[self.mutation.line - 1].strip()
        where = f"{self.path.relative_to(ROOT)}:{self.mutation.line}"
        return f"{where}: {self.mutation.what}  [{self.outcome}]\n    {source}"


def environment(**more: str) -> dict[str, str]:
    """Of the processes: the same examples of Hypothesis each time, and nothing kept."""
    return {
        **os.environ,
        "CI": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{HERE}{os.pathsep}{PACKAGE.parent}",
        **more,
    }


# Hypothesis is a plugin as well, and is loaded before the processes part.
LOADED_BEFORE = "ignore::pytest.PytestAssertRewriteWarning"
PYTEST = [
    "-q",
    "-W",
    LOADED_BEFORE,
    "-x",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-m",
    "not interop and not scale",
]


def baseline(room: str, directory: Path) -> Room:
    """Runs the tests of a room once.

    Raises:
        SystemExit: they fail as they are.
    """
    outcome = directory / f"{room}.json"
    pools = [str(path) for pattern in TESTS for path in sorted(ROOT.glob(pattern.format(room=room)))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PYTEST, "-p", "baseline", *pools],
        cwd=ROOT,
        env=environment(MUTATION_SOURCE=str(PACKAGE), MUTATION_BASELINE=str(outcome)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"error: the tests of {room} fail as they are\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return Room(**json.loads(outcome.read_text()))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


class Trial:
    """A mutant at work."""

    def __init__(self, path: Path, mutation: Mutation, room: Room, chosen: list[int], directory: Path) -> None:
        self.path = path
        self.mutation = mutation
        self.arguments = directory / f"{os.urandom(8).hex()}.args"
        self.arguments.write_text("\n".join(room.tests[number] for number in chosen))
        expected_s = sum(room.durations[number] for number in chosen)
        self.deadline_s = time.monotonic() + START_S + SLOWER * expected_s
        self.pid = start(module_name(path), path, mutation.number, [*PYTEST, f"@{self.arguments}"])

    def ended(self) -> Tried | None:
        """The outcome, if there is one by now."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        outcome = "killed" if status else "survived"
        if not pid:
            if time.monotonic() < self.deadline_s:
                return None
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            outcome = "hung"
        self.arguments.unlink()
        return Tried(self.path, self.mutation, outcome)


def try_all(
    mutants: list[tuple[Path, Mutation]], rooms: dict[str, Room], directory: Path, seconds: float, jobs: int
) -> Iterator[Tried]:
    """Runs mutants, `jobs` at a time, until the time is up."""
    until_s = time.monotonic() + seconds
    waiting = iter(mutants)
    at_work: list[Trial] = []
    more = True
    while more or at_work:
        while more and len(at_work) < jobs:
            following = next(waiting, None)
            more = following is not None and time.monotonic() < until_s
            if following is None or not more:
                break
            path, mutation = following
            room = rooms[room_of(path)]
            if chosen := room.tests_of(path, mutation):
                at_work.append(Trial(path, mutation, room, chosen, directory))
            else:
                yield Tried(path, mutation, "not executed")
        time.sleep(0.01)
        for trial in list(at_work):
            if (outcome := trial.ended()) is not None:
                at_work.remove(trial)
                yield outcome


def paths_of(patterns: list[str]) -> list[Path]:
    found = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    return sorted(path for path in found if path.name != "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def report(tried: list[Tried], possible: int) -> None:
    """Survivors by place, and the score of each module."""
    noticed = Counter(each.path for each in tried if each.outcome in {"killed", "hung"})
    total = Counter(each.path for each in tried)
    print("\nnot noticed by any test:")
    for each in sorted(tried, key=lambda each: (each.path, each.mutation.number)):
        if each.outcome in UNNOTICED:
            print(each)
    print("\nnoticed / tried")
    for path in sorted(total):
        print(f"  {noticed[path]:5} / {total[path]:5}  {path.relative_to(PACKAGE)}")
    share = 100 * noticed.total() / total.total() if total else 0.0
    print(f"  {noticed.total():5} / {total.total():5}  = {share:.1f} %, of {possible} possible")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to go on, after the tests' first run")
    parser.add_argument("--seed", type=int, default=1, help="which mutants are drawn first")
    parser.add_argument("--modules", nargs="+", default=list(MODULES), help="patterns of paths below src/rpcrdma")
    parser.add_argument("--most", type=int, default=None, help="try no more mutants than this")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    args = parser.parse_args()
    paths = paths_of(args.modules)
    if not paths:
        parser.error("no module matches")
    mutants = [(path, mutation) for path in paths for mutation in find(path.read_text())]
    random.Random(args.seed).shuffle(mutants)
    tried: list[Tried] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        rooms = {room: baseline(room, directory) for room in sorted({room_of(path) for path in paths})}
        print(f"{len(mutants)} possible mutants in {len(paths)} modules; seed {args.seed}", flush=True)
        os.environ.update(environment())
        os.chdir(ROOT)
        # The package beside these tests, whatever is installed.
        sys.path.insert(0, str(PACKAGE.parent))
        preload()
        controls = [(path, Mutation(UNCHANGED, 0, 10**6, "nothing")) for path in paths]
        for each in try_all(controls, rooms, directory, 3600.0, args.jobs):
            if each.outcome in {"killed", "hung"}:
                raise SystemExit(f"error: the tests of {each.path.relative_to(PACKAGE)} fail here without any mistake")
        for each in try_all(mutants[: args.most], rooms, directory, args.seconds, args.jobs):
            tried.append(each)
            if each.outcome in UNNOTICED:
                print(each, flush=True)
    report(tried, len(mutants))
    return 0


if __name__ == "__main__":
    sys.exit(main())
