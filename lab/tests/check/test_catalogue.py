"""The catalogue as data: statements of the ledger, conversations of JSON, and a taxonomy without gaps."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ledger_guard import read_rows
from rpcrdma_lab.check import CATALOGUE as SERVERS
from rpcrdma_lab.check import CLIENT_CATALOGUE, READINGS, STATEMENTS, Statement, answers
from rpcrdma_lab.check.catalogue import frame_mistakes, round_trips_headers, start_up, version_2_headers
from rpcrdma_lab.check.catalogue.headers import CUTS, MISTAKES, OUTCOMES
from rpcrdma_lab.check.catalogue.version_2 import CODES
from rpcrdma_lab.scripted import peer, segmented
from rpcrdma_lab.scripted.frames import OPCODES, SEGMENT_MOST, STARTUP_MOST
from rpcrdma_lab.scripted.layouts import LAYOUTS

CATALOGUE = SERVERS + CLIENT_CATALOGUE
SPECS = Path(__file__).parents[3] / "specs"
ROWS = read_rows(SPECS / "requirements")


def test_ids_are_unique_and_sorted_into_families() -> None:
    ids = [check.id for check in CATALOGUE]
    assert len(set(ids)) == len(ids)
    assert [name for name in ids if not re.fullmatch(r"(mpa|ddp|rdmap|rpc|v1|v2|client)(\.[a-z0-9-]+)+", name)] == []


def test_statements_are_those_of_the_ledger() -> None:
    columns = ("source", "section", "level", "statement")
    ledger = {row["id"]: Statement(*(row[name] for name in columns)) for _, row in ROWS}
    used = {statement for check in CATALOGUE for statement in check.statements}
    assert {name: ledger.get(name) for name in used} == dict(STATEMENTS), "write these rows into statements.tsv"


def test_a_statement_is_tried_or_has_the_reason_why_not() -> None:
    groups = tomllib.loads((SPECS / "untried.toml").read_text())["untried"]
    untried = [name for group in groups for name in group["statements"].split()]
    tried = {statement for check in CATALOGUE for statement in check.statements}
    ledger = {row["id"] for _, row in ROWS}
    assert (set(untried) & tried, ledger - tried - set(untried)) == (set(), set()), "mend specs/untried.toml"
    assert len(untried) == len(set(untried) & ledger)


def test_a_title_is_a_sentence() -> None:
    titles = [check.title for check in CATALOGUE]
    assert [title for title in titles if not title[0].isupper() or title.endswith(".") or len(title) > 110] == []
    for catalogue in (SERVERS, CLIENT_CATALOGUE):
        assert len({check.title for check in catalogue}) == len(catalogue)


def test_a_conversation_is_json() -> None:
    for check in CATALOGUE:
        assert json.loads(json.dumps(check.conversation)) == check.conversation, check.id


def readings_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("reading"), str):
            yield value["reading"]
        for inner in value.values():
            yield from readings_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from readings_in(inner)


def test_each_reading_has_its_place_in_the_catalogue() -> None:
    assert {name for check in CATALOGUE for name in readings_in(check.conversation)} == set(READINGS)


def fields(version: str, kinds: Iterable[int]) -> set[str]:
    layout = LAYOUTS[version]
    return {name for body in (layout.prefix, *(layout.bodies[kind] for kind in kinds)) for name, _ in body}


def test_each_field_of_a_header_of_version_1_has_its_mistakes() -> None:
    assert {row.field for row in MISTAKES} == fields("1", [0])
    assert {row.outcome for row in MISTAKES if isinstance(row.outcome, str)} | {row.outcome for row in CUTS} == set(
        OUTCOMES
    )


def test_each_field_of_a_header_of_version_2_has_its_mistakes() -> None:
    kinds = LAYOUTS["2"].bodies.keys()
    for rows, of_extension in ((version_2_headers.mistakes(), False), (round_trips_headers.mistakes(), True)):
        own = {kind for kind in kinds if (kind > 0x100) == of_extension}
        prefix = fields("2", []) if of_extension else set()
        # The prefix of the extension is that of version 2.
        assert {row.field for row in rows} | prefix == fields("2", own)
        named = {row.outcome for row in rows if isinstance(row.outcome, str)}
        assert named <= CODES.keys()
        checks = {check.id for check in SERVERS}
        family = "v2.rtr" if of_extension else "v2"
        assert {f"{family}.{row.id}" for row in rows} <= checks


FRAME_FIELDS = {
    "startup": {"key", "data", *STARTUP_MOST},
    "fpdu": {"length", "pad", "crc", "marker"},
    "untagged": SEGMENT_MOST.keys() - {"handle", "segment_octets"},
    "tagged": SEGMENT_MOST.keys() - {"invalidate", "queue", "number", "segment_octets", "tagged"},
    "read_request": {"sink", "length", "handle", "queue", "number", "last", "payload"},
}
FRAME_MISTAKES = (*start_up.MISTAKES, *frame_mistakes.MISTAKES)
RIGHT = {
    ("untagged", "queue"): 0,
    ("untagged", "offset"): 0,
    ("tagged", "offset"): 0,
    ("tagged", "opcode"): OPCODES["write"],
}
RIGHT |= {(header, f"{layer}reserved"): 0 for header in ("untagged", "tagged") for layer in ("", "rdmap_")}


def test_each_field_of_a_frame_has_its_mistakes() -> None:
    found: dict[str, set[str]] = {header: set() for header in FRAME_FIELDS}
    for row in FRAME_MISTAKES:
        header, field = row.field.split(".")
        found[header].add(field)
    assert found == FRAME_FIELDS


def said_by(header: str, field: str) -> Iterator[int]:
    for row in FRAME_MISTAKES:
        for message in row.said:
            fields = message.get("startup", message.get("ddp", {}))
            value = fields.get(field, {})
            if row.field.startswith(f"{header}.") and not isinstance(value, dict):
                yield OPCODES[value] if isinstance(value, str) else value


def test_each_number_of_a_frame_is_tried_at_its_bounds() -> None:
    untagged = {**SEGMENT_MOST, "offset": 0xFFFFFFFF}
    for header, bounds in (("startup", STARTUP_MOST), ("untagged", untagged), ("tagged", SEGMENT_MOST)):
        for field in sorted(FRAME_FIELDS[header] & bounds.keys()):
            wanted = {0, bounds[field]} - {RIGHT.get((header, field))}
            assert wanted <= set(said_by(header, field)), (header, field)


def test_mistakes_in_frames_name_statements_that_are_known() -> None:
    sources = (Path(module.__file__ or "").read_text() for module in (peer, segmented, answers))
    named = {name for source in sources for name in re.findall(r'"((?:MPA|DDP|RD)-[0-9]+)"', source)}
    assert named
    assert named <= set(STATEMENTS)
