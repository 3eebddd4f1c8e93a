"""Annotated messages and their fields: offset, octets, meaning, the section that defines each, and its faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Field", "FieldFault", "Message", "octets_shown"]

_OCTETS_SHOWN = 16


class FieldFault(NamedTuple):
    """A broken rule in a message: the field, the octet of the header at which it begins, and the reason.

    `section` states the rule; "" for a bound of the dissector, which is no broken rule. `requirement` is the rule's
    identifier in the conformance ledger, "" if it has none.
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
        """Returns the fault as a JSON object with the keys "field", "offset", "reason", "section" and "requirement".

        An empty section or requirement is None.
        """
        found = {"field": self.field, "offset": self.offset, "reason": self.reason, "section": self.section or None}
        return found | {"requirement": self.requirement or None}


@dataclass(slots=True)
class Field:
    """A decoded field, or a group of `fields`, with the annotations that a reader sees.

    `offset` and `size` are in octets, `offset` from the start of the header. `value` is a number, text or octets, None
    for a group, and `shown` is the value as text. `meaning` explains the field, `section` defines it, and `faults` are
    the reasons of its faults.
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
        """Returns the field at `path` below this one, given as one name for each level; None if there is none."""
        found: Field | None = self
        for name in path:
            found = next((one for one in found.fields if one.name == name), None) if found else None
        return found

    def entries(self, *path: str) -> list[Field]:
        """Returns the fields of the list at `path`, one name for each level below this field; [] if there is none."""
        found = self.member(*path)
        return found.fields if found is not None else []

    def number(self, *path: str) -> int | None:
        """Returns the number in the field at `path`, one name for each level; None without such a field or a number."""
        found = self.member(*path)
        return found.value if found is not None and isinstance(found.value, int) else None

    def walk(self) -> Iterator[Field]:
        """Yields this field and all fields below it in the order of `fields`, each group before its members."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting += reversed(one.fields)

    def as_json(self) -> dict[str, Any]:
        """Returns "name", "offset", "size", "value" (octets in hex), "shown", "meaning" and "section" of the field.

        An empty section is None. Fields below this field are in "fields", and the reasons of its faults in "faults";
        both keys are left out if empty.
        """
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
    """A decoded message of a capture or of hex text.

    `protocol` is the uppermost protocol found: "mpa", "rdmap", "roce", "cm", "rpcrdma" or "tcp". `number` and
    `connection` count messages and connections of the input from 1 on, `time_s` is in seconds from the first packet
    (None: unknown), and `source` and `destination` are addresses. `groups` are the annotated headers, and `faults` the
    broken rules. `notes` are lines of text about the relation to other messages, and `facts` the same and more for
    programs. `octets` are those of a Send, or the first ones of another RDMA message.
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
        """Returns the message as a JSON object, whose keys are always the same; unknown values are None.

        The keys are the names of the attributes but `octets`, and with "headers" in place of `groups`: a list of JSON
        objects as `Field.as_json` returns them.
        """
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
    """Returns the first 16 octets of `data` in hex, in groups of four, with the length of `data` if there are more.

    Returns "empty" for no octets.
    """
    more = f"... ({len(data)} octets)" if len(data) > _OCTETS_SHOWN else ""
    return (data[:_OCTETS_SHOWN].hex(" ", 4) or "empty") + more
