"""The ids that the decoder's rules name are statements of the conformance ledger, from the document of the rule."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from rpcrdma_lab.dissect.fields import FieldFault
from rpcrdma_lab.dissect.rule_table import RULES

ROOT = Path(__file__).parents[3]
LEDGER = {
    row["id"]: row
    for path in (ROOT / "specs" / "requirements").glob("*.toml")
    for row in tomllib.loads(path.read_text())["requirement"]
}


def test_every_id_in_the_decoder_is_in_the_ledger() -> None:
    named = {
        identifier
        for path in (ROOT / "lab" / "src" / "rpcrdma_lab" / "dissect").glob("*.py")
        for identifier in re.findall(r'"([A-Z][A-Z0-9]{1,2}-[A-Z]?[0-9]+)"', path.read_text())
    }
    assert len(named) > 15
    assert named - LEDGER.keys() == set()


def test_a_rule_and_its_statement_are_of_one_document() -> None:
    rules = [rule for rows in RULES.values() for rule in rows if rule.requirement]
    assert len(rules) > 10
    for rule in rules:
        document = rule.section.rpartition(" ")[0]
        assert LEDGER[rule.requirement]["source"].endswith(document), rule


def test_a_fault_says_its_section_and_its_id() -> None:
    fault = FieldFault("rdma_xid", 0, "it is another", "RFC 8166 4.2.1", "V1-38")
    assert str(fault) == "rdma_xid at offset 0: it is another [RFC 8166 4.2.1, V1-38]"
    assert fault.as_json()["requirement"] == "V1-38"
    assert str(FieldFault("a", 4, "b", "")) == "a at offset 4: b"
    assert FieldFault("a", 4, "b", "RFC 1 2").as_json()["requirement"] is None
