"""The descriptions of headers: XDR definitions whose comments give the meaning and the section of each member.

The front end of the XDR compiler reads them unchanged. The text output and the Wireshark dissector are both made from
these descriptions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rpcrdma.xdr.language import check, model, parse

__all__ = ["Definition", "Note", "compiled_text", "definition"]

_DOCUMENTS = {
    "rpc": "RFC 5531",
    "rpcrdma1": "RFC 8166",
    "rpcrdma2": "version-two-00",
    "rpcrdma_rtr": "rtrext",
}
"""The document of each definition, to which its section numbers refer; drafts are named by the ends of their names."""

_MORE = "more_"
"""The prefix of enumerations and unions in an extension that add members to those of the extended definition."""

_OPENING = re.compile(r"(?:struct|enum|union) (\w+)")
_NOTED = re.compile(r"(\*?\w+)(?:<\d*>)?(?: = \w+)?[;,]?(?:\) \{)?\s*/\* \[([^]]+)\] (.+) \*/$")
_MESSAGE_IS_THE_BOUND = 0xFFFFFFFF


class Note(NamedTuple):
    """The comment on a member or a code in a definition: its meaning, and the section that defines it."""

    meaning: str
    section: str


_NO_NOTE = Note("", "")


@dataclass(frozen=True, slots=True)
class Definition:
    """The compiled XDR definition of one document's headers, with the notes from its comments."""

    document: str
    classes: Mapping[str, model.Class]
    """Structures and unions by name."""
    codes: Mapping[str, Mapping[int, str]]
    """Names of values, by enumeration and value."""
    notes: Mapping[tuple[str, str], Note]
    """Notes by owner (structure, union or enumeration) and member or code."""

    def note(self, owner: str, member: str) -> Note:
        """Returns the meaning and section of a member or code of `owner`, a structure, union or enumeration.

        Both are "" if the definition has no comment on `member`.
        """
        return self.notes.get((owner, member), _NO_NOTE)


@functools.cache
def definition(name: str, extension: str = "") -> Definition:
    """Returns the compiled XDR definition in NAME.x beside this module, with that in EXTENSION.x merged into it.

    The result is cached. `extension` is "" for none.
    """
    file, text = f"{extension or name}.x", compiled_text(name, extension)
    module, _ = check(parse(text, file), text, file, default_limit=_MESSAGE_IS_THE_BOUND)
    parts = _parts(name, extension)
    notes: dict[tuple[str, str], Note] = {}
    for part in parts:
        notes |= _notes_in(_source(part), _DOCUMENTS[part])
    codes = {item.name: {value: code for code, value in item.members} for item in module.enums}
    for added in [found for found in codes if found.startswith(_MORE)]:
        extended = added.removeprefix(_MORE)
        codes[extended] |= codes[added]
        notes |= {(extended, code): note for (owner, code), note in notes.items() if owner == added}
    for added in [found for found in module.classes if found.startswith(_MORE)]:
        extended = added.removeprefix(_MORE)
        whole, more = module.classes[extended], module.classes.pop(added)
        assert isinstance(whole, model.Union)
        assert isinstance(more, model.Union)
        whole.arms += more.arms
        notes |= {(extended, arm): note for (owner, arm), note in notes.items() if owner == added}
    return Definition(_DOCUMENTS[name], module.classes, codes, notes)


def compiled_text(name: str, extension: str = "") -> str:
    """Returns the text of NAME.x beside this module, followed by that of EXTENSION.x unless `extension` is ""."""
    return "".join(map(_source, _parts(name, extension)))


def _parts(name: str, extension: str) -> list[str]:
    return [name, extension] if extension else [name]


def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.x").read_text(encoding="utf-8")


def _notes_in(text: str, document: str) -> dict[tuple[str, str], Note]:
    notes = {}
    owner = ""
    for line in text.splitlines():
        if opened := _OPENING.match(line):
            owner = opened[1]
        if found := _NOTED.search(line):
            section = found[2] if " " in found[2] else f"{document} {found[2]}"
            notes[owner, found[1].lstrip("*")] = Note(found[3], section)
    return notes
