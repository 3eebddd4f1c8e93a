"""The descriptions of headers: XDR definitions whose comments say what each member means, and in which section.

They are read as they are, by the front of the XDR compiler. The text output and the Wireshark dissector are both made
from what this module gives.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.checker import check
from rpcrdma.xdr.language.parser import parse

__all__ = ["Definition", "Note", "definition"]

_DOCUMENTS = {
    "rpc": "RFC 5531",
    "rpcrdma1": "RFC 8166",
    "rpcrdma2_00": "version-two-00",
    "rpcrdma2_07": "version-two-07",
}
"""What the sections of a definition are of; drafts by the end of their names."""

_OPENING = re.compile(r"(?:struct|enum|union) (\w+)")
_NOTED = re.compile(r"(\*?\w+)(?:<\d*>)?(?: = \d+)?[;,]?(?:\) \{)?\s*/\* \[([^]]+)\] (.+) \*/$")
_MESSAGE_IS_THE_BOUND = 0xFFFFFFFF


class Note(NamedTuple):
    """What is said of a member or a code: its meaning and the section of the document that defines it."""

    meaning: str
    section: str


_NO_NOTE = Note("", "")


@dataclass(frozen=True, slots=True)
class Definition:
    """One document's headers."""

    name: str
    document: str
    classes: Mapping[str, model.Class]
    codes: Mapping[str, Mapping[int, str]]
    """Names of the values of each enumeration."""
    notes: Mapping[tuple[str, str], Note]
    """By (structure, union or enumeration; member or code)."""

    def note(self, owner: str, member: str) -> Note:
        """What is said of a member; empty where nothing is."""
        return self.notes.get((owner, member), _NO_NOTE)

    def type_notes(self, enumeration: str) -> dict[int, Note]:
        """What is said of the codes of an enumeration."""
        return {value: self.note(enumeration, name) for value, name in self.codes[enumeration].items()}


@functools.cache
def definition(name: str) -> Definition:
    """The definition in NAME.x beside this module."""
    file = f"{name}.x"
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    module, _ = check(parse(text, file), text, file, default_limit=_MESSAGE_IS_THE_BOUND)
    return Definition(
        name,
        _DOCUMENTS[name],
        module.classes,
        {item.name: {value: code for code, value in item.members} for item in module.enums},
        _notes_in(text, _DOCUMENTS[name]),
    )


def _notes_in(text: str, document: str) -> dict[tuple[str, str], Note]:
    notes = {}
    owner = ""
    for line in text.splitlines():
        if opened := _OPENING.match(line):
            owner = opened[1]
        if found := _NOTED.search(line):
            section = found[2] if found[2].startswith("RFC") else f"{document} {found[2]}"
            notes[owner, found[1].lstrip("*")] = Note(found[3], section)
    return notes
