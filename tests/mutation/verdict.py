"""The verdict on a mutant: a test noticed the mistake only if its call phase failed by the test's own expectation."""

from __future__ import annotations

import dis
import json
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import hypothesis
import pytest

__all__ = ["Judge", "Outcome", "leave_out_shrinking"]

SLOWER = 5.0
"""A test that takes so many times its usual processor time, and a second besides, hangs."""
WAITING = 20.0
"""The same of the time by the clock, which passes faster on a busy machine: with five seconds besides."""
MOST_HANGS = 2
MOST_CRASHES = 30
"""Tests of one mutant that hang or crash before the rest is left out: the rest would, too."""


class Outcome(StrEnum):
    """The outcome of a mutant."""

    ASSERTED = "asserted"
    """A test's assertion failed."""
    CONTRADICTED = "contradicted"
    """A `raise` statement of the code under test refused a test's input, or an expression of the test raised."""
    CRASHED = "crashed"
    """Tests ended by an exception that the code under test did not raise on purpose."""
    HUNG = "hung"
    """Tests did not end in time."""
    SURVIVED = "survived"
    NOT_EXECUTED = "not executed"
    """No test executes the place."""
    BROKEN = "broken"
    """The process ended without a verdict: by a signal, or because pytest could not go on."""
    NOT_VIABLE = "not viable"
    """The package or its tests cannot be imported: a program that does not start is no mutant."""

    ILL_TYPED = "ill typed"
    """No test noticed, and the type checker refuses the mistake: a program that `make check` refuses is no mutant."""

    @property
    def viable(self) -> bool:
        """Whether the mutant counts in the score."""
        return self not in {Outcome.NOT_VIABLE, Outcome.ILL_TYPED}

    @property
    def noticed(self) -> bool:
        """Whether the mistake counts as noticed."""
        return self in {Outcome.ASSERTED, Outcome.CONTRADICTED}


_BY_WEIGHT = (Outcome.ASSERTED, Outcome.CONTRADICTED, Outcome.HUNG, Outcome.CRASHED)
"""Where several tests fail, the first of these is the mutant's outcome."""


class Hung(BaseException):
    """The test takes too long; not an `Exception`, so that the code under test does not handle it."""


def _outcome_of(error: BaseException, code: Path) -> Outcome:
    """The outcome of a test whose call phase ended by `error`; `code` is the folder of the code under test."""
    if isinstance(error, Hung):
        return Outcome.HUNG
    if isinstance(error, BaseExceptionGroup):
        # Hypothesis found several failures.
        outcomes = {_outcome_of(each, code) for each in error.exceptions}
        return next(each for each in _BY_WEIGHT if each in outcomes)
    if isinstance(error, pytest.fail.Exception):
        return Outcome.HUNG if "pytest-timeout" in str(error) else Outcome.ASSERTED
    if isinstance(error, AssertionError):
        return Outcome.ASSERTED
    if isinstance(error, MemoryError | RecursionError):
        return Outcome.CRASHED
    return Outcome.CONTRADICTED if _raised_on_purpose(error, code) else Outcome.CRASHED


def _raised_on_purpose(error: BaseException, code: Path) -> bool:
    """Whether an expression of a test raised the error, or a `raise` statement of the code under test."""
    raised_at = None
    at = error.__traceback__
    while at is not None:
        path = Path(at.tb_frame.f_code.co_filename)
        in_code = path.is_relative_to(code)
        if in_code or "tests" in path.parts:
            raised_at = at
            # A package's tools for tests are part of the tests.
            in_test = not in_code or path.is_relative_to(code / "testing")
        at = at.tb_next
    if raised_at is None:
        return False
    instruction = raised_at.tb_frame.f_code.co_code[raised_at.tb_lasti]
    return in_test or (raised_at.tb_next is None and dis.opname[instruction] == "RAISE_VARARGS")


def leave_out_shrinking(items: list[pytest.Item]) -> None:
    """Keeps Hypothesis from looking for the smallest example of a failure: the first one is enough."""
    for item in items:
        test: Any = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        if (chosen := getattr(test, "_hypothesis_internal_use_settings", None)) is not None:
            phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
            test._hypothesis_internal_use_settings = hypothesis.settings(chosen, phases=phases)


class Judge:
    """A pytest plugin that runs chosen tests in order until one notices the mistake, and writes the outcome."""

    def __init__(self, tests: dict[str, float], code: Path) -> None:
        """`tests`: the ids in the order in which they run, with the seconds that each usually takes.

        `code` is the folder of the code under test.
        """
        self.tests = tests
        self.code = code
        self.counts: Counter[Outcome] = Counter()
        self.by = ""
        self.why = ""
        self.viable = True

    @property
    def decided(self) -> bool:
        counts = self.counts
        given_up = counts[Outcome.HUNG] >= MOST_HANGS or counts[Outcome.CRASHED] >= MOST_CRASHES
        return given_up or any(each.noticed for each in counts)

    def write(self, path: Path) -> None:
        reached = (each for each in _BY_WEIGHT if self.counts[each])
        outcome = next(reached, Outcome.SURVIVED) if self.viable else Outcome.NOT_VIABLE
        path.write_text(json.dumps({"outcome": outcome, "by": self.by, "why": self.why}))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        by_id = {item.nodeid: item for item in items}
        items[:] = [by_id[test] for test in self.tests if test in by_id]
        leave_out_shrinking(items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.viable = False
            self.why = str(report.longrepr)[-300:]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        usual_s = self.tests[item.nodeid]

        def end(number: int, frame: object) -> None:
            raise Hung

        signal.signal(signal.SIGPROF, end)
        signal.signal(signal.SIGALRM, end)
        # They go on to fire, as a handler of the code under test can swallow one.
        signal.setitimer(signal.ITIMER_PROF, 1 + SLOWER * usual_s, 0.2)
        signal.setitimer(signal.ITIMER_REAL, 5 + WAITING * usual_s, 0.5)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self) -> bool:
        """Keeps pytest-timeout from a deadline of its own."""
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "call" and call.excinfo is not None and report.failed:
            error = call.excinfo.value
            outcome = _outcome_of(error, self.code)
            self.counts[outcome] += 1
            if outcome.noticed or not self.by:
                self.by, self.why = item.nodeid, f"{type(error).__name__}: {error}"[:300]
            if self.decided:
                item.session.shouldstop = "decided"
        return report

    def run(self, items: list[pytest.Item], protocol: Callable[..., object]) -> None:
        """Runs items that were collected before."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            protocol(item, nextitem=following, log=False)
            if self.decided:
                return
