"""A pytest plugin: records which tests execute which lines, and how long each test takes.

The environment names the measured sources (MUTATION_SOURCE), the common root of the paths (MUTATION_ROOT) and the
directory that gets one JSON document for each test file (MUTATION_BASELINE).
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

_ROOT = Path(os.environ["MUTATION_ROOT"])
_coverage = coverage.Coverage(source=[os.environ["MUTATION_SOURCE"]], data_file=None, branch=False, config_file=False)
_durations: dict[str, float] = {}
_failed: set[str] = set()
_coverage.start()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _coverage.switch_context(item.nodeid)
    result = yield
    _coverage.switch_context("")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _durations[report.nodeid] = _durations.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    _coverage.stop()
    files: dict[str, dict[str, Any]] = {}
    for item in session.items:
        # A file without a passing test gets a document, too: it needs no second measurement.
        files.setdefault(item.nodeid.split("::")[0], {"tests": [], "durations": [], "failed": [], "lines": {}})
    numbers: dict[str, int] = {}
    for test, duration in _durations.items():
        found = files[test.split("::")[0]]
        if test in _failed:
            found["failed"].append(test)
        else:
            numbers[test] = len(found["tests"])
            found["tests"].append(test)
            found["durations"].append(round(duration, 4))
    imported: dict[str, list[int]] = {}
    data = _coverage.get_data()
    for path in data.measured_files():
        name = str(Path(path).relative_to(_ROOT))
        for line, tests in data.contexts_by_lineno(path).items():
            for test in tests:
                if test in numbers:
                    lines = files[test.split("::")[0]]["lines"]
                    lines.setdefault(name, defaultdict(list))[line].append(numbers[test])
                elif not test:
                    imported.setdefault(name, []).append(line)
    for number, (file, measured) in enumerate(sorted(files.items())):
        outcome = Path(os.environ["MUTATION_BASELINE"]) / f"{os.getpid()}-{number}.json"
        outcome.write_text(json.dumps({"file": file, "imported": imported, **measured}))
