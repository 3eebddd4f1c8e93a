"""What the doctor finds: a mark, what was looked at, what is so, and what to do about it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rpcrdma.cli import console

__all__ = ["Finding", "Mark", "as_json", "show"]


class Mark(enum.StrEnum):
    """How good it is: `NOTE` works, but is worth knowing; `PROBLEM` does not work."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    `subject` is its name for programs, `title` for people; `text` says what is so, `remedy` what to do if anything is
    to be done. `facts` are for programs only.
    """

    mark: Mark
    subject: str
    title: str
    text: str
    remedy: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The findings for `--json`: subject, mark, text, remedy (null if none) and what is known in numbers and names."""
    return [
        {
            "subject": found.subject,
            "mark": found.mark,
            "text": found.text,
            "remedy": found.remedy or None,
            **found.facts,
        }
        for found in findings
    ]


def show(findings: Iterable[Finding]) -> None:
    """One line a finding; a remedy on the line below it."""
    findings = list(findings)
    width = max(len(found.title) for found in findings)
    for found in findings:
        console.data(console.printable(f"{found.mark:<7}  {found.title:<{width}}  {found.text}"))
        if found.remedy:
            console.data(console.printable(f"{'':7}  {'':{width}}  -> {found.remedy}"))
