"""A pytest plugin for the run before the mutants: which tests execute which lines, and how long each takes.

The environment names what is measured (MUTATION_SOURCE) and the file for the outcome (MUTATION_BASELINE).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

_coverage = coverage.Coverage(source=[os.environ["MUTATION_SOURCE"]], data_file=None, branch=False)
_durations: dict[str, float] = {}
_coverage.start()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _coverage.switch_context(item.nodeid)
    result = yield
    _coverage.switch_context("")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _durations[report.nodeid] = _durations.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    _coverage.stop()
    data = _coverage.get_data()
    tests = list(_durations)
    numbers = {test: number for number, test in enumerate(tests)}
    lines: dict[str, dict[int, list[int]]] = {}
    for path in data.measured_files():
        contexts: dict[int, list[str]] = data.contexts_by_lineno(path)
        lines[path] = {
            line: sorted(numbers[name] for name in names if name in numbers) for line, names in contexts.items()
        }
    outcome: dict[str, Any] = {"tests": tests, "durations": [_durations[test] for test in tests], "lines": lines}
    Path(os.environ["MUTATION_BASELINE"]).write_text(json.dumps(outcome))
