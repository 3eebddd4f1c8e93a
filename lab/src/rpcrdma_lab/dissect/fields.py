"""Annotated messages and their fields: offset, octets, meaning, the section that defines each, and its faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Field", "FieldFault", "Message", "octets_shown"]

_OCTETS_SHOWN = 16


class FieldFault(NamedTuple):
    """A violation of a rule: the field, the offset of its first octet, the reason, and the section with the rule.

    `requirement` is the id of the rule in the conformance ledger, empty where the ledger has no statement of it.
    """

    field: str
    offset: int
    reason: str
    section: str
    requirement: str = ""

    def __str__(self) -> str:
        where = f" [{', '.join(filter(None, (self.section, self.requirement)))}]" if self.section else ""
        return f"{self.field} at offset {self.offset}: {self.reason}{where}"

    def as_json(self) -> dict[str, Any]:
        """Returns the fault as a JSON object, for `--json`."""
        found = {"field": self.field, "offset": self.offset, "reason": self.reason, "section": self.section or None}
        return found | {"requirement": self.requirement or None}


@dataclass(slots=True)
class Field:
    """A field, or a group of `fields`. Offsets count from the start of the header that it belongs to.

    `value` is a number, text or octets, None for a group; `shown` is how people read it.
    """

    name: str
    offset: int
    size: int = 0
    value: int | str | bytes | None = None
    shown: str = ""
    meaning: str = ""
    section: str = ""
    fields: list[Field] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def member(self, *path: str) -> Field | None:
        """Returns the field below this one that `path` leads to, one name a level; None if there is none."""
        found: Field | None = self
        for name in path:
            found = next((one for one in found.fields if one.name == name), None) if found else None
        return found

    def number(self, *path: str) -> int | None:
        """Returns the value of the field that `path` leads to (see `member`); None if it is missing or no number."""
        found = self.member(*path)
        return found.value if found is not None and isinstance(found.value, int) else None

    def walk(self) -> Iterator[Field]:
        """Yields this field and all below it, in the order of the octets."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting += reversed(one.fields)

    def as_json(self) -> dict[str, Any]:
        """Returns the field and those below it as a JSON object, for `--json`; octets are in hex."""
        value = self.value.hex() if isinstance(self.value, bytes) else self.value
        found: dict[str, Any] = {"name": self.name, "offset": self.offset, "size": self.size, "value": value}
        found |= {"shown": self.shown, "meaning": self.meaning, "section": self.section or None}
        if self.faults:
            found["faults"] = self.faults
        if self.fields:
            found["fields"] = [one.as_json() for one in self.fields]
        return found


@dataclass(slots=True)
class Message:
    """One message of an input, numbered from 1 on.

    `protocol` is the uppermost one that was found in it: "mpa", "rdmap", "roce", "cm", "rpcrdma" or "tcp". `time_s`
    counts from the first packet. `connection` counts the connections of the input from 1 on. `notes` say how it belongs
    to other messages; `facts` say the same and more for programs. `octets` are those of a Send, or the first ones of a
    message to named memory.
    """

    protocol: str
    summary: str
    number: int = 0
    time_s: float | None = None
    source: str = ""
    destination: str = ""
    connection: int = 1
    groups: list[Field] = field(default_factory=list)
    faults: list[FieldFault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    octets: bytes = b""

    def as_json(self) -> dict[str, Any]:
        """Returns the message as a JSON object, whose keys are always the same."""
        return {
            "number": self.number,
            "time_s": None if self.time_s is None else round(self.time_s, 9),
            "source": self.source or None,
            "destination": self.destination or None,
            "connection": self.connection,
            "protocol": self.protocol,
            "summary": self.summary,
            "facts": self.facts,
            "notes": self.notes,
            "faults": [fault.as_json() for fault in self.faults],
            "headers": [group.as_json() for group in self.groups],
        }


def octets_shown(data: bytes) -> str:
    """Returns the first octets of `data` in hex."""
    more = f"... ({len(data)} octets)" if len(data) > _OCTETS_SHOWN else ""
    return (data[:_OCTETS_SHOWN].hex(" ", 4) or "empty") + more
