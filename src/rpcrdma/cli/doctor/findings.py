"""The doctor's findings: the subject of a check, a mark, the result, and a remedy."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rpcrdma.cli import console

__all__ = ["Finding", "Mark", "as_json", "show"]


class Mark(enum.StrEnum):
    """The result's severity: a subject with a `NOTE` works with a limitation, one with a `PROBLEM` does not work."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check.

    `subject` is its name for programs, `title` for people; `text` is the result, `remedy` the advice if it
    needs one. `facts` are for programs only.
    """

    mark: Mark
    subject: str
    title: str
    text: str
    remedy: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The findings for `--json`: subject, mark, text, remedy (null if none), and facts as numbers and names."""
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
