"""Mutants at work, each in a process of its own that runs tests against it until one notices."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from code_swap import LiveFunctions, Pair
from mutations import UNCHANGED, Mutation, apply
from verdict import Judge, Outcome, leave_out_shrinking

__all__ = ["Collected", "Mutant", "at_work", "import_with_mistake", "preload"]

MOST_MEMORY_OCTETS = 4 << 30
"""Of a mutant that collects without end."""
START_S = 60.0
SLOWER = 30.0
"""A process that takes so many times as long as its tests did, and START_S besides, is ended. Single tests are bounded
by their processor time before."""

_PRELOADED = (
    "_hypothesis_pytestplugin",
    "asyncio",
    "crc32c",
    "hypothesis.strategies",
    "lark",
    "pytest_timeout",
    "rich",
)
"""Modules that tests import besides the package: loaded once, before the processes part."""


@dataclass
class Mutant:
    """One mistake, the tests that are run against it, and its outcome."""

    path: str
    """From the root of the project."""
    mutation: Mutation
    tests: dict[str, float] = field(default_factory=dict)
    pairs: list[Pair] | None = None
    """The code that changes, if it can be changed in functions that were imported before."""
    outcome: Outcome = Outcome.NOT_EXECUTED
    by: str = ""
    why: str = ""


def preload(package: str) -> None:
    """Loads modules that every mutant's process needs and that have no mutants."""
    for name in _PRELOADED:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    assert not any(name.split(".")[0] == package for name in sys.modules), "a mutant would not be seen"


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the mutant and keeps it to itself: neither source nor byte code is written."""

    number = 0

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(apply(Path(self.path).read_text(), self.number), self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, loader: _Loader) -> None:
        self.name = name
        self.loader = loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.loader.path, loader=self.loader)


def import_with_mistake(name: str, path: Path, mutant: Mutant, options: list[str], judge: Judge) -> None:
    """Runs pytest from its beginning; the module `name` gets its mistake as it is imported."""
    sys.dont_write_bytecode = True
    loader = _Loader(name, str(path))
    loader.number = mutant.mutation.number
    sys.meta_path.insert(0, _Finder(name, loader))
    files = dict.fromkeys(test.split("::")[0] for test in mutant.tests)
    if pytest.main([*options, *files], plugins=[judge]) not in {0, 1, 2, 5}:
        raise RuntimeError("pytest could not go on")


class Collected:
    """Tests that were collected, and so have imported the package: mistakes are put into its functions."""

    def __init__(self, items: list[pytest.Item], package: Path) -> None:
        leave_out_shrinking(items)
        self._items = {item.nodeid: item for item in items}
        self._functions = LiveFunctions(str(package))

    def run(self, mutant: Mutant, judge: Judge) -> None:
        """Runs the mutant's tests."""
        assert mutant.pairs is not None
        if not self._functions.swap(mutant.pairs) and mutant.mutation.number != UNCHANGED:
            raise RuntimeError(f"{mutant.path}:{mutant.mutation.line} is in no function that exists")
        items = [self._items[test] for test in mutant.tests]
        items[0].config.pluginmanager.register(judge)
        items[0].session.shouldstop = False
        judge.run(items, runtestprotocol)


def _start(mutant: Mutant, run: Callable[[Mutant, Judge], None], code: Path, result: Path) -> int:
    """The id of the process, and of its group."""
    if pid := os.fork():
        return pid
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_OCTETS, MOST_MEMORY_OCTETS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        judge = Judge(mutant.tests, code)
        run(mutant, judge)
        judge.write(result)
    finally:
        os._exit(0)


def at_work(
    mutants: list[Mutant], run: Callable[[Mutant, Judge], None], code: Path, directory: Path, jobs: int
) -> Iterator[Mutant]:
    """Tries mutants, `jobs` at a time, by `run` in a process of its own; yields each when its outcome is there.

    `code` is the folder of the code under test, `directory` one for files.
    """
    waiting = [mutant for mutant in reversed(mutants) if mutant.tests]
    yield from (mutant for mutant in mutants if not mutant.tests)
    running: dict[int, tuple[Mutant, Path, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                mutant = waiting.pop()
                result = directory / f"{os.urandom(8).hex()}.json"
                deadline_s = time.monotonic() + START_S + SLOWER * sum(mutant.tests.values())
                running[_start(mutant, run, code, result)] = mutant, result, deadline_s
            time.sleep(0.004)
            for pid, (mutant, result, deadline_s) in list(running.items()):
                if not os.waitpid(pid, os.WNOHANG)[0]:
                    if time.monotonic() < deadline_s:
                        continue
                    mutant.outcome = Outcome.HUNG
                    _kill(pid)
                    os.waitpid(pid, 0)
                elif result.exists():
                    outcome = json.loads(result.read_text())
                    mutant.outcome, mutant.by, mutant.why = Outcome(outcome["outcome"]), outcome["by"], outcome["why"]
                else:
                    mutant.outcome = Outcome.BROKEN
                # Processes that the tests have started are in its group.
                _kill(pid)
                del running[pid]
                yield mutant
    finally:
        for pid in running:
            _kill(pid)
            os.waitpid(pid, 0)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
