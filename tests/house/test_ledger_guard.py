"""The guard of the conformance ledger asks for tests that were executed and passed: shown on suites of its own."""

from __future__ import annotations

import pytest

ROW = '[[requirement]]\nid = "{}"\nstatus = "{}"\n'


class Suite:
    """A project with a ledger and one test file."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makeconftest('pytest_plugins = ["ledger_guard"]')
        pytester.makepyprojecttoml(
            '[tool.pytest.ini_options]\nxfail_strict = false\nmarkers = ["req(*ids): what it proves"]\n'
        )
        self.ledger = pytester.path / "specs" / "requirements" / "rows.toml"
        self.ledger.parent.mkdir(parents=True)
        self.rows("done")

    def rows(self, *statuses: str, more: str = "") -> None:
        self.ledger.write_text("".join(ROW.format(f"A-{n}", s) for n, s in enumerate(statuses, 1)) + more)

    def run(self, source: str, *options: str, judge: str = "make test-all") -> tuple[int, str]:
        self.pytester.makepyfile("import pytest\n" + source)
        result = self.pytester.runpytest_inprocess("-p", "no:cacheprovider", "--ledger", judge, *options)
        return int(result.ret), result.stdout.str()


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    return Suite(pytester)


PROVED = """
@pytest.mark.req("A-1")
def test_it(): pass
"""
NOT_PROVED = {
    "skipped": '@pytest.mark.req("A-1")\n@pytest.mark.skip(reason="x")\ndef test_it(): pass',
    "skipped at run time": '@pytest.mark.req("A-1")\ndef test_it(): pytest.skip(reason="x")',
    "expected to fail": '@pytest.mark.req("A-1")\n@pytest.mark.xfail(reason="x")\ndef test_it(): assert False',
    "passed against expectation": '@pytest.mark.req("A-1")\n@pytest.mark.xfail(reason="x")\ndef test_it(): pass',
    "on a helper": '@pytest.mark.req("A-1")\ndef helper(): pass\ndef test_it(): helper()',
    "under if False": 'if False:\n    @pytest.mark.req("A-1")\n    def test_it(): pass\ndef test_other(): pass',
    "no test": "def test_other(): pass",
    "failed": '@pytest.mark.req("A-1")\ndef test_it(): assert False',
    "failed in set-up": '@pytest.fixture\ndef f(): assert False\n@pytest.mark.req("A-1")\ndef test_it(f): pass',
}


def test_a_row_with_an_executed_and_passed_test_is_proved(suite: Suite) -> None:
    status, said = suite.run(PROVED)
    assert status == 0
    assert "conformance ledger" not in said


@pytest.mark.parametrize("source", NOT_PROVED.values(), ids=NOT_PROVED)
def test_what_was_not_executed_or_has_not_passed_proves_nothing(suite: Suite, source: str) -> None:
    status, said = suite.run(source)
    assert status == 1
    assert "A-1 is done, but no test that bears it was executed and has passed" in said


@pytest.mark.thorough
def test_the_verdict_spans_the_processes_of_xdist(suite: Suite) -> None:
    suite.rows("done", "done")
    status, said = suite.run(PROVED + NOT_PROVED["skipped"].replace("A-1", "A-2").replace("it()", "two()"), "-n", "2")
    assert status == 1
    assert "A-2 is done, but" in said
    assert "A-1 is done, but" not in said


def test_one_passed_case_of_many_is_enough_and_marks_on_modules_and_cases_count(suite: Suite) -> None:
    suite.rows("done", "done")
    status, _ = suite.run(
        'pytestmark = pytest.mark.req("A-1")\n'
        '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.req("A-2")), '
        'pytest.param(2, marks=pytest.mark.skip(reason="x"))])\n'
        "def test_it(x): pass"
    )
    assert status == 0


def test_a_collection_asks_for_tests_that_are_not_skipped(suite: Suite) -> None:
    assert suite.run(PROVED.replace("pass", "assert False"), "--collect-only")[0] == 0
    for cause in ("skipped", "expected to fail", "on a helper", "under if False", "no test"):
        assert suite.run(NOT_PROVED[cause], "--collect-only")[0] == 1, cause


def test_an_id_without_a_row_is_noticed(suite: Suite) -> None:
    suite.rows("open")
    status, said = suite.run(PROVED.replace("A-1", "A-7"))
    assert status == 1
    assert "bears A-7, which is no row of the ledger" in said


def test_nothing_is_proved_of_what_does_not_apply_but_parts_of_a_deviation_may_be(suite: Suite) -> None:
    suite.rows("not-applicable")
    status, said = suite.run(PROVED)
    assert status == 1
    assert "proves A-1, which does not apply" in said
    suite.rows("deviation")
    assert suite.run(PROVED)[0] == 0


@pytest.mark.parametrize(("judge", "expected"), [("make test-all", 0), ("make interop", 1)])
def test_a_row_is_judged_by_the_command_that_it_names(suite: Suite, judge: str, expected: int) -> None:
    suite.rows("open", more=ROW.format("A-2", "done") + 'judge = "make interop"\n')
    status, said = suite.run("def test_other(): pass", judge=judge)
    assert status == expected
    assert ("A-2 is done, but" in said) is bool(expected)


def test_open_rows_and_runs_that_were_broken_off_are_not_judged(suite: Suite) -> None:
    suite.rows("open")
    assert suite.run("def test_other(): pass")[0] == 0
    suite.rows("done")
    status, said = suite.run("def test_a(): assert False\n" + PROVED, "-x")
    assert status == 1
    assert "conformance ledger" not in said
