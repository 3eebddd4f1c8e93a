"""Our own server before all checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rpcrdma.check import CATALOGUE, Verdict

if TYPE_CHECKING:
    from conftest import Judge


@pytest.mark.parametrize("versions", ["auto", "1", "2-07"])
def test_every_check_conforms(judge: Judge, versions: str) -> None:
    results = judge(versions=versions)
    assert [result.check.id for result in results] == [check.id for check in CATALOGUE]
    assert [(result.check.id, result.verdict.value, result.cause) for result in results if result.cause] == [
        (result.check.id, Verdict.NOT_SEEN.value, result.cause)
        for result in results
        if result.verdict is Verdict.NOT_SEEN
    ]
    unseen = {result.cause for result in results if result.verdict is Verdict.NOT_SEEN}
    spoken = {"auto": {"1", "2"}, "1": {"1"}, "2-07": {"2-07"}}[versions]
    needed = {check.conversation.get("version", "1") for check in CATALOGUE}
    assert len(unseen) == len(needed - spoken) + any("write" in check.needs for check in CATALOGUE)
