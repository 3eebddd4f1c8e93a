"""The conformance ledger in specs/requirements: well-formed, and in step with the tests that prove its statements."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LEDGERS = sorted((ROOT / "specs" / "requirements").glob("*.toml"))

PREFIXES = {
    "v1.toml": "V1",
    "private-data.toml": "PD",
    "bidirection.toml": "BD",
    "v2.toml": "V2",
    "rtrext.toml": "RT",
    "mpa.toml": "MPA",
    "enhanced-mpa.toml": "EM",
    "ddp.toml": "DDP",
    "rdmap.toml": "RD",
    "rdmap-extensions.toml": "RX",
    "onc-rpc.toml": "OR",
    "nfs-ulb.toml": "NF",
}
# RFC 2119 words; in lower case where the source demands without them, "rule" where it only describes.
LEVELS = {"MUST", "MUST NOT", "REQUIRED", "SHOULD", "SHOULD NOT", "MAY", "OPTIONAL", "must", "should", "rule"}
STATUSES = {"open", "done", "not-applicable"}
FIELDS = {"id", "source", "section", "level", "statement", "status"}


def entries() -> list[tuple[str, dict[str, Any]]]:
    return [(path.name, entry) for path in LEDGERS for entry in tomllib.loads(path.read_text())["requirement"]]


ENTRIES = entries()
BY_ID = {entry["id"]: entry for _, entry in ENTRIES}


def marks_in(source: str) -> list[tuple[int, str]]:
    """(line, id) of each id in a `pytest.mark.req(...)`, on tests, in `pytestmark` and in parameters alike."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.req":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"line {node.lineno}: write the ids of req() as literals"
                found.append((node.lineno, argument.value))
    return found


MARKS = [
    (f"{path.relative_to(ROOT)}:{line}", identifier)
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    for line, identifier in marks_in(path.read_text())
]


def test_every_family_has_its_ledger() -> None:
    assert {path.name for path in LEDGERS} == set(PREFIXES)


def test_ids_are_unique() -> None:
    assert [identifier for identifier, times in Counter(entry["id"] for _, entry in ENTRIES).items() if times > 1] == []


@pytest.mark.parametrize("name", PREFIXES)
def test_entries_are_well_formed(name: str) -> None:
    for _, entry in [pair for pair in ENTRIES if pair[0] == name]:
        identifier = entry["id"]
        assert re.fullmatch(PREFIXES[name] + r"-A?[1-9][0-9]*", identifier), identifier
        assert set(entry) - {"reason"} == FIELDS, identifier
        assert all(isinstance(value, str) and value.strip() == value for value in entry.values()), identifier
        assert set(entry["level"].split(", ")) <= LEVELS, identifier
        assert entry["source"].startswith(("RFC ", "draft-")), identifier
        assert entry["statement"][0].isupper(), identifier
        assert entry["statement"].endswith("."), identifier
        assert entry["status"] in STATUSES, identifier


def test_what_does_not_apply_says_why() -> None:
    for _, entry in ENTRIES:
        assert (entry["status"] == "not-applicable") == ("reason" in entry), entry["id"]
        assert entry.get("reason", "because") != "", entry["id"]


def test_what_is_done_is_proved_by_a_test() -> None:
    proved = {identifier for _, identifier in MARKS}
    unproved = [entry["id"] for _, entry in ENTRIES if entry["status"] == "done" and entry["id"] not in proved]
    assert unproved == [], 'mark the test that proves it with @pytest.mark.req("ID"), or set the status to "open"'


def test_marks_name_statements_of_the_ledger() -> None:
    unknown = [f"{place}: {identifier}" for place, identifier in MARKS if identifier not in BY_ID]
    assert unknown == []


def test_tests_prove_nothing_that_does_not_apply() -> None:
    odd = [f"{place}: {i}" for place, i in MARKS if BY_ID.get(i, {}).get("status") == "not-applicable"]
    assert odd == []


def test_the_scan_finds_marks_wherever_they_stand() -> None:
    source = """
pytestmark = pytest.mark.req("V1-1")
@pytest.mark.req("V1-2", "V1-3")
def test_a(): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.req("V1-4"))])
def test_b(x): ...
"""
    assert [identifier for _, identifier in marks_in(source)] == ["V1-1", "V1-2", "V1-3", "V1-4"]
