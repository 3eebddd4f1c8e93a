"""Our own server before all checks."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest

from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma_lab.check import CATALOGUE, Verdict
from support.cases import each_case
from support.device_in_memory import DeviceInMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Judge, Recorded

pytestmark = pytest.mark.thorough


@each_case(("versions", "spoken"), [("auto", {"1", "2"}), ("1", {"1"})])
def test_every_check_conforms(recorded: Callable[[str], Recorded], versions: str, spoken: set[str]) -> None:
    results = recorded(versions).results
    assert [result.check.id for result in results] == [check.id for check in CATALOGUE]
    wrong = [result for result in results if result.verdict not in {Verdict.CONFORMS, Verdict.NOT_SEEN}]
    assert [(result.check.id, result.verdict.value, result.cause) for result in wrong] == []
    unseen = {result.check.id for result in results if result.verdict is Verdict.NOT_SEEN}
    elsewhere = {check.id for check in CATALOGUE if check.conversation.get("version", "1") not in spoken}
    # Our server demands CRCs, and no markers.
    vacuous = {"mpa.startup.crc-of-neither", *(check.id for check in CATALOGUE if "markers" in check.needs)}
    assert unseen == elsewhere | vacuous


OVER_A_DEVICE = [
    "ddp.version.*",
    "mpa.startup.no-private-data",
    "rdmap.read.one-at-a-time",
    "rpc.two-calls",
    "v1.credits.*",
    "v1.invalidation.*",
    "v1.nomsg.*",
    "v1.read.5*",
    "v1.type.*",
    "v1.write.5*",
    "v1.writes.*",
    "v2.back-channel.*",
    "v2.read.*",
    "v2.reverse.*",
    "v2.rtr.read.*",
    "v2.rtr.write.*",
]


def test_over_a_device_checks_above_frames_conform_and_others_are_not_seen(judge: Judge) -> None:
    checks = [check for check in CATALOGUE if any(fnmatchcase(check.id, each) for each in OVER_A_DEVICE)]
    results = judge(checks, provider=VerbsProvider(DeviceInMemory()), write=".")
    found = {result.check.id: (result.verdict, result.cause[:27]) for result in results}
    right, not_seen = (Verdict.CONFORMS, ""), (Verdict.NOT_SEEN, "it judges the frames of iWARP"[:27])
    assert found == {check.id: not_seen if check.of_frames else right for check in checks}
    assert {check.id[:3] for check in checks if check.of_frames} == {"ddp", "mpa", "rdm"}


def test_without_leave_to_write_nothing_is_written(judge: Judge) -> None:
    of_files = [check for check in CATALOGUE if check.needs & {"file", "write"}]
    results = judge(of_files)
    assert {result.check.id for result in results if "write" in result.check.needs} == {
        result.check.id for result in results if result.verdict is Verdict.NOT_SEEN and "--write" in result.cause
    }
