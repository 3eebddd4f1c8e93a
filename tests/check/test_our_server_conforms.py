"""Our own server before all checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rpcrdma.check import CATALOGUE, Verdict

if TYPE_CHECKING:
    from conftest import Judge


@pytest.mark.parametrize(("versions", "spoken"), [("auto", {"1", "2"}), ("1", {"1"}), ("2-07", {"2-07"})])
def test_every_check_conforms(judge: Judge, versions: str, spoken: set[str]) -> None:
    results = judge(versions=versions, write=".")
    assert [result.check.id for result in results] == [check.id for check in CATALOGUE]
    wrong = [result for result in results if result.verdict not in {Verdict.CONFORMS, Verdict.NOT_SEEN}]
    assert [(result.check.id, result.verdict.value, result.cause) for result in wrong] == []
    unseen = {result.check.id for result in results if result.verdict is Verdict.NOT_SEEN}
    beyond = {check.id for check in CATALOGUE if check.conversation.get("version", "1") not in spoken}
    assert unseen == beyond | {check.id for check in CATALOGUE if "nfs41" in check.needs}


def test_without_leave_to_write_nothing_is_written(judge: Judge) -> None:
    results = judge([check for check in CATALOGUE if check.conversation.get("version") != "2-07"])
    assert {result.check.id for result in results if "write" in result.check.needs} == {
        result.check.id for result in results if result.verdict is Verdict.NOT_SEEN and "--write" in result.cause
    }
