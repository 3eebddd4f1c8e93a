"""Verdicts on checks, and the results that reports show."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from rpcrdma.check.entry import Check, sections_of
from rpcrdma.scripted import Passage

__all__ = ["FRAMES_NOT_SEEN", "Result", "Verdict", "judged"]


FRAMES_NOT_SEEN = "it judges the frames of iWARP, and the device makes them; leave out --provider verbs"
"""The cause why a check of frames has no verdict over an RDMA device."""


class Verdict(enum.Enum):
    """The outcome of a check."""

    CONFORMS = "conforms"
    VIOLATES = "violates a MUST"
    IGNORES = "ignores a SHOULD"
    DIFFERS = "differs from our reading"
    NOT_SEEN = "not seen"
    INCONCLUSIVE = "inconclusive"


@dataclass(slots=True, kw_only=True)
class Result:
    """The verdict on one check; `cause` has the expected and the found answer, or why there is no verdict.

    `readings` are names of `READINGS`; `others_ended`: another connection did not go on after the check, or was
    answered wrong. `refused`: there was no connection for the check. `broken` is the statement that a mistake in the
    frames of an answer breaks, which the check may not have been about.
    """

    check: Check
    verdict: Verdict
    cause: str = ""
    readings: Sequence[str] = ()
    passages: Sequence[Passage] = field(default_factory=list)
    others_ended: bool = False
    refused: bool = False
    broken: str = ""

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements that the verdict is about."""
        return (self.broken,) if self.broken else self.check.statements

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of these statements."""
        return sections_of(self.statements)


def judged(results: Sequence[Result]) -> dict[Verdict, int]:
    """How many checks have each verdict."""
    return {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
