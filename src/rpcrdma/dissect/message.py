"""One annotated message: its place, its fields, its faults, and its relation to other messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rpcrdma.dissect.fields import Field, FieldFault

__all__ = ["Message"]


@dataclass(slots=True)
class Message:
    """One message of an input, numbered from 1 on.

    `protocol` is the uppermost one that was found in it: "mpa", "rdmap", "rpcrdma" or "tcp". `time_s` counts from the
    first packet. `notes` say how it belongs to other messages; `facts` say the same and more for programs.
    """

    protocol: str
    summary: str
    number: int = 0
    time_s: float | None = None
    source: str = ""
    destination: str = ""
    groups: list[Field] = field(default_factory=list)
    faults: list[FieldFault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """One object, whose keys are always the same."""
        return {
            "number": self.number,
            "time_s": None if self.time_s is None else round(self.time_s, 9),
            "source": self.source or None,
            "destination": self.destination or None,
            "protocol": self.protocol,
            "summary": self.summary,
            "facts": self.facts,
            "notes": self.notes,
            "faults": [fault.as_json() for fault in self.faults],
            "headers": [group.as_json() for group in self.groups],
        }
