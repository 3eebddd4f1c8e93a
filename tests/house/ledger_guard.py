"""A pytest plugin: holds the conformance ledger against the tests that were run and passed.

With `--ledger COMMAND` the session is the judge that the ledger calls COMMAND: at its end, every row that is `done` and
names this judge needs a test that bears its id, was executed and has passed. A test skipped, expected to fail, or only
collected counts for nothing. It works across the processes of pytest-xdist: the ids travel with each test's report.
With `--collect-only` besides, it needs a test that is there and is neither skipped nor expected to fail.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

DEFAULT_JUDGE = "make test-all"
"""Judges the rows that name no judge of their own."""
JUDGES = (DEFAULT_JUDGE, "make interop")

_PROPERTY = "ledger id"


def read_rows(directory: Path) -> list[tuple[str, dict[str, Any]]]:
    """Every row of the ledger, with the name of its file."""
    return [
        (path.name, row)
        for path in sorted(directory.glob("*.toml"))
        for row in tomllib.loads(path.read_text())["requirement"]
    ]


class LedgerGuard:
    """Collects the ids that tests prove, and reports each contradiction."""

    def __init__(self, judge: str, rows: list[dict[str, Any]]) -> None:
        self.judge = judge
        self._rows = {row["id"]: row for row in rows}
        self._marked: set[tuple[str, str]] = set()
        self._proved: set[str] = set()
        self.findings: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ids = [value for name, value in report.user_properties if name == _PROPERTY]
        self._marked.update((identifier, report.nodeid) for identifier in ids)
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self._proved.update(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            for item in session.items:
                ids = {value for name, value in item.user_properties if name == _PROPERTY}
                self._marked.update((str(identifier), item.nodeid) for identifier in ids)
                if not any(mark.name in {"skip", "xfail"} for mark in item.iter_markers()):
                    self._proved.update(map(str, ids))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        broken_off = session.shouldstop or session.shouldfail
        if broken_off or exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            return
        self.findings = self._judged()
        if self.findings:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _judged(self) -> list[str]:
        findings = [
            f"{identifier} is done, but no test that bears it was executed and has passed: mark the test that proves "
            f'it with @pytest.mark.req("{identifier}"), or set the status to "open"'
            for identifier, row in self._rows.items()
            if row["status"] == "done"
            and row.get("judge", DEFAULT_JUDGE) == self.judge
            and identifier not in self._proved
        ]
        for identifier, place in sorted(self._marked):
            if identifier not in self._rows:
                findings.append(f"{place} bears {identifier}, which is no row of the ledger")
            elif self._rows[identifier]["status"] == "not-applicable":
                findings.append(f"{place} proves {identifier}, which does not apply")
        return findings

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.findings:
            terminalreporter.section("conformance ledger", red=True)
            for finding in self.findings:
                terminalreporter.line(finding)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ledger", choices=JUDGES, help="judge the rows of specs/requirements that name this command, or none"
    )


def pytest_configure(config: pytest.Config) -> None:
    judge = config.getoption("--ledger")
    # The processes that run tests for another one have `workerinput`: that one judges.
    if judge is not None and not hasattr(config, "workerinput"):
        rows = [row for _, row in read_rows(config.rootpath / "specs" / "requirements")]
        config.pluginmanager.register(LedgerGuard(judge, rows), "ledger-guard")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties.extend((_PROPERTY, id_) for mark in item.iter_markers("req") for id_ in mark.args)
