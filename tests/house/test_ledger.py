"""The conformance ledger in specs/requirements: complete and well-formed. `ledger_guard` holds it against the tests."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ledger_guard import JUDGES, read_rows
from support.cases import each_case

ROOT = Path(__file__).parents[2]
ROWS = read_rows(ROOT / "specs" / "requirements")
MAKEFILE = ROOT / "Makefile"


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(1, count + 1)]


# Every id that there is, by file and in order: a row that is lost is missed, and a new one is entered here.
IDS = {
    "v1.toml": numbered("V1-", 96),
    "private-data.toml": numbered("PD-", 10),
    "bidirection.toml": numbered("BD-", 23),
    "v2.toml": numbered("V2-", 105) + numbered("V2-A", 18),
    "rtrext.toml": numbered("RT-", 35),
    "mpa.toml": numbered("MPA-", 51),
    "enhanced-mpa.toml": numbered("EM-", 16),
    "ddp.toml": numbered("DDP-", 20),
    "rdmap.toml": numbered("RD-", 17),
    "rdmap-extensions.toml": numbered("RX-", 6),
    "onc-rpc.toml": numbered("OR-", 13),
    "rpc-tls.toml": numbered("TLS-", 41),
    "nfs-ulb.toml": numbered("NF-", 17),
    "nfs4.toml": numbered("NF4-", 53),
    "nfs4-state.toml": [f"NF4-{number}" for number in range(101, 165)],
}
# RFC 2119 words; in lower case where the source demands without them, "rule" where it only describes.
LEVELS = {"MUST", "MUST NOT", "REQUIRED", "SHOULD", "SHOULD NOT", "MAY", "OPTIONAL", "must", "should", "rule"}
STATUSES = {"open", "done", "deviation", "not-applicable"}
FIELDS = {"id", "source", "section", "level", "statement", "status"}


@each_case("name", IDS)
def test_each_ledger_has_all_its_rows_in_order(name: str) -> None:
    assert [row["id"] for file, row in ROWS if file == name] == IDS[name]


def test_every_family_has_its_ledger() -> None:
    assert {file for file, _ in ROWS} == set(IDS)


def test_ids_are_unique() -> None:
    assert [identifier for identifier, times in Counter(row["id"] for _, row in ROWS).items() if times > 1] == []


@each_case("name", IDS)
def test_entries_are_well_formed(name: str) -> None:
    for row in [row for file, row in ROWS if file == name]:
        identifier = row["id"]
        assert set(row) - {"reason", "judge"} == FIELDS, identifier
        assert all(isinstance(value, str) and value.strip() == value for value in row.values()), identifier
        assert set(row["level"].split(", ")) <= LEVELS, identifier
        assert row["source"].startswith(("RFC ", "draft-")), identifier
        assert row["statement"][0].isupper(), identifier
        assert row["statement"].endswith("."), identifier
        assert row["status"] in STATUSES, identifier


def test_what_does_not_apply_or_deviates_says_why() -> None:
    for _, row in ROWS:
        assert (row["status"] in {"not-applicable", "deviation"}) == ("reason" in row), row["id"]
        assert row.get("reason", "because") != "", row["id"]


def test_only_what_is_done_has_a_judge_and_a_known_one() -> None:
    named = [row for _, row in ROWS if "judge" in row]
    assert [row["id"] for row in named if row["status"] != "done" or row["judge"] not in JUDGES] == []


@pytest.mark.parametrize("judge", JUDGES)
def test_each_judge_is_called_by_its_target(judge: str) -> None:
    recipe = re.search(rf"^{judge.split()[1]}: .*\n((?:\t.*\n)+)", MAKEFILE.read_text(), re.MULTILINE)
    assert recipe is not None
    assert f"--ledger '{judge}'" in recipe[1]
