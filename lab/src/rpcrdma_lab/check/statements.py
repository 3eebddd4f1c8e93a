"""Source, section, level and text of the statements that the catalogue refers to, from the conformance ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["STATEMENTS", "Statement"]


class Statement(NamedTuple):
    """A statement of the conformance ledger: source, section, requirement level (as "MUST"), and text in a sentence."""

    source: str
    section: str
    level: str
    text: str


def _read() -> dict[str, Statement]:
    lines = Path(__file__).with_name("statements.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return {name: Statement(*columns) for name, *columns in rows}


STATEMENTS: Mapping[str, Statement] = MappingProxyType(_read())
"""Statements by identifier; a test compares them with specs/requirements."""
