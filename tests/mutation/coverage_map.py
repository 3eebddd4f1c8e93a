"""Which tests execute which line of the package: measured once, and again for files of tests that have changed."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mutations import Mutation, bound_names

__all__ = ["CACHE", "CoverageMap", "Project", "environment", "measure"]

HERE = Path(__file__).parent
CACHE = ".mutation_cache"
_WORD = re.compile(r"\w+")
MOST_HOPS = 4
"""A constant can be part of another, and that of a third: so many steps are followed to lines that tests execute."""


@dataclass(frozen=True)
class Project:
    """A package and the tests that are run against its mutants."""

    root: Path
    package: Path
    tests: tuple[str, ...]
    """Folders, and patterns of files, below the root."""

    @cached_property
    def sources(self) -> dict[str, str]:
        """The text of each module, by its path from the root."""
        return {str(path.relative_to(self.root)): path.read_text() for path in sorted(self.package.rglob("*.py"))}

    @cached_property
    def test_files(self) -> list[str]:
        found: list[Path] = []
        for name in self.tests:
            found += self.root.glob(name if name.endswith(".py") else f"{name}/**/test_*.py")
        return [str(path.relative_to(self.root)) for path in sorted(found)]

    def room(self, path: str) -> str:
        """The folder of the package that a module is in; the package's own name for the modules beside the folders."""
        parts = (self.root / path).relative_to(self.package).parts
        return parts[0] if len(parts) > 1 else self.package.name

    def module_name(self, path: str) -> str:
        return ".".join((self.root / path).relative_to(self.package.parent).with_suffix("").parts)


def environment(project: Project, **more: str) -> dict[str, str]:
    """The processes' environment: the same Hypothesis examples each time, this package before an installed one."""
    return {
        **os.environ,
        # By sys.monitoring, its default from Python 3.14 on, a line belongs to the first test alone that executes it.
        "COVERAGE_CORE": "ctrace",
        "HYPOTHESIS_PROFILE": "quick",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{HERE}{os.pathsep}{project.package.parent}",
        **more,
    }


@dataclass
class CoverageMap:
    """The tests that pass without a mistake, and the lines that each executes."""

    project: Project
    durations: dict[str, float] = field(default_factory=dict)
    """Seconds of each test by its id, measured with coverage."""
    failed: list[str] = field(default_factory=list)
    """Tests that fail without a mistake; no mutant is tried with them."""
    lines: dict[str, dict[int, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    imported: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Lines that are executed while modules and tests are imported."""

    def add(self, measured: dict[str, Any]) -> None:
        tests = measured["tests"]
        self.durations.update(zip(tests, measured["durations"], strict=True))
        self.failed += measured["failed"]
        for path, lines in measured["lines"].items():
            for line, numbers in lines.items():
                self.lines[path][int(line)].update(tests[number] for number in numbers)
        for path, imported in measured["imported"].items():
            self.imported[path].update(imported)

    def is_imported(self, path: str, mutation: Mutation) -> bool:
        """Whether the place is executed on import: a mutant has to be there before it."""
        return not self.imported[path].isdisjoint(range(mutation.line, mutation.end_line + 1))

    def tests_of(self, path: str, mutation: Mutation) -> set[str]:
        """Tests that execute the mistake's lines; of a definition, tests that execute the lines that use its names."""
        lines = self.lines[path]
        tests = set().union(*(lines.get(at, ()) for at in range(mutation.line, mutation.end_line + 1)))
        if self.is_imported(path, mutation):
            tests |= self._users(bound_names(self._trees[path], mutation.line), MOST_HOPS)
        return tests

    def _users(self, names: set[str], hops: int) -> set[str]:
        tests: set[str] = set()
        further: set[str] = set()
        for name in names:
            for path, number in self._places_of.get(name, ()):
                tests |= self.lines[path].get(number, set())
                if number in self.imported[path]:
                    further |= bound_names(self._trees[path], number)
            tests |= self._tests_naming.get(name, set())
        further -= names
        return tests | self._users(further, hops - 1) if hops and further else tests

    @cached_property
    def _places_of(self) -> dict[str, list[tuple[str, int]]]:
        """Where each word stands in the package."""
        places = defaultdict(list)
        for path, source in self.project.sources.items():
            for number, text in enumerate(source.splitlines(), 1):
                for word in set(_WORD.findall(text)):
                    places[word].append((path, number))
        return places

    @cached_property
    def _tests_naming(self) -> dict[str, set[str]]:
        """The tests in files in which each word stands."""
        tests_of = defaultdict(set)
        for test in self.durations:
            tests_of[test.split("::")[0]].add(test)
        naming: dict[str, set[str]] = defaultdict(set)
        for file, tests in tests_of.items():
            for word in set(_WORD.findall((self.project.root / file).read_text())):
                naming[word] |= tests
        return naming

    @cached_property
    def _trees(self) -> dict[str, ast.Module]:
        return {path: ast.parse(source) for path, source in self.project.sources.items()}


def _digest(project: Project, files: Iterator[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(project.root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _keys(project: Project) -> dict[str, str]:
    """For each file of tests a key of all that its coverage depends on."""
    tests = {project.root / file for file in project.test_files}
    folders = (project.root / "tests", project.root / "lab" / "tests")
    found = [project.root / "conftest.py", *(path for folder in folders for path in sorted(folder.rglob("*")))]
    support = (path for path in found if path.suffix in {".py", ".toml", ".json"} and path.exists())
    shared = _digest(project, iter(sorted(project.package.rglob("*.py"))))
    shared += _digest(project, (path for path in support if not path.name.startswith("test_") and path.parent != HERE))
    shared += f"{sys.version}{HERE.joinpath('baseline.py').read_text()}"
    return {
        str(path.relative_to(project.root)): hashlib.sha256(
            f"{shared}{_digest(project, iter([path]))}".encode()
        ).hexdigest()
        for path in tests
    }


def measure(project: Project, pytest_options: list[str], jobs: int) -> CoverageMap:
    """The map of the project, of the cache where nothing has changed."""
    cache = project.root / CACHE
    cache.mkdir(exist_ok=True)
    keys = _keys(project)
    for old in cache.glob("*.json"):
        if old.stem not in keys.values():
            old.unlink()
    fresh: list[dict[str, Any]] = []
    missing = [file for file in project.test_files if not (cache / f"{keys[file]}.json").exists()]
    if missing:
        print(f"measuring the coverage of {len(missing)} files of tests", flush=True)
        with tempfile.TemporaryDirectory() as name:
            at_work = [
                subprocess.Popen(
                    [sys.executable, "-m", "pytest", *pytest_options, "-p", "baseline", *missing[number::jobs]],
                    cwd=project.root,
                    env=environment(
                        project,
                        MUTATION_ROOT=str(project.root),
                        MUTATION_SOURCE=str(project.package),
                        MUTATION_BASELINE=name,
                    ),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                for number in range(min(jobs, len(missing)))
            ]
            said = [process.communicate()[0] for process in at_work]
            for process, text in zip(at_work, said, strict=True):
                # 1: some tests failed, 5: there were none.
                if process.returncode not in {0, 1, 5}:
                    raise SystemExit(f"error: the tests do not run as they are\n{text[-4000:]}")
            for path in Path(name).iterdir():
                measured = json.loads(path.read_text())
                fresh.append(measured)
                # A failure may be the machine's, and is looked at again.
                if not measured["failed"]:
                    shutil.copyfile(path, cache / f"{keys[measured['file']]}.json")
    found = CoverageMap(project)
    for measured in fresh:
        found.add(measured)
    for file in set(project.test_files) - set(missing):
        if (path := cache / f"{keys[file]}.json").exists():
            found.add(json.loads(path.read_text()))
    return found
