"""Verdicts on checks, and the results that reports show."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from rpcrdma_lab.check.entry import Check, sections_of
from rpcrdma_lab.check.readings import READINGS
from rpcrdma_lab.limits import CHECK_PASSAGES_MAX, CHECK_SHOWN_OCTETS_MAX
from rpcrdma_lab.scripted import Outcome, Passage

__all__ = [
    "FAILURES",
    "FRAMES_NOT_SEEN",
    "PassageBudget",
    "Result",
    "Verdict",
    "judged",
    "result_of",
    "void_verdicts",
]


FRAMES_NOT_SEEN = "it judges the frames of iWARP, and the device makes them; leave out --provider verbs"
"""The cause why a check of frames has no verdict over an RDMA device."""


_ENDS = 8
"""First and last passages of a check in a report that has too many."""


class Verdict(enum.Enum):
    """The outcome of a check; `HARMS` blames no statement, as none of them speaks of other connections."""

    CONFORMS = "conforms"
    VIOLATES = "violates a MUST"
    HARMS = "harms other connections"
    IGNORES = "ignores a SHOULD"
    DIFFERS = "differs from our reading"
    NOT_SEEN = "not seen"
    INCONCLUSIVE = "inconclusive"


FAILURES = frozenset({Verdict.VIOLATES, Verdict.HARMS, Verdict.IGNORES})
"""Verdicts on answers that no reading permits."""


@dataclass(slots=True, kw_only=True)
class Result:
    """The verdict on one check; `cause` has the expected and the found answer, or why there is no verdict.

    `readings` are names of `READINGS`; `others_ended`: another connection did not go on after the check, or was
    answered wrong. `refused`: there was no connection for the check. `silent`: an answer did not come. `broken` is the
    statement that the octets show broken, if it is another one than the first of the check.
    """

    check: Check
    verdict: Verdict
    cause: str = ""
    readings: Sequence[str] = ()
    passages: Sequence[Passage] = field(default_factory=list)
    others_ended: bool = False
    refused: bool = False
    silent: bool = False
    broken: str = ""

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements that the verdict is about: one of a check's statements is broken, and not all of them."""
        if self.verdict is Verdict.HARMS:
            return ()
        if self.verdict in FAILURES:
            return (self.broken or self.check.statements[0],)
        return self.check.statements

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of these statements."""
        return sections_of(self.statements)


def result_of(check: Check, outcome: Outcome) -> Result:
    """Returns the result of a check from the outcome of its conversation.

    The verdict is VIOLATES or IGNORES after a failure, DIFFERS if the peer follows another reading of the standard
    (`READINGS`), else CONFORMS.
    """
    result = Result(check=check, verdict=Verdict.CONFORMS, readings=outcome.readings, passages=outcome.passages)
    failure = outcome.failure
    if failure is not None:
        result.cause = f"expected {failure.expected}; found {failure.found}"
        result.broken, result.silent = failure.statement, failure.silent
        recommended = failure.recommended if failure.statement else check.recommended
        result.verdict = Verdict.IGNORES if recommended else Verdict.VIOLATES
    elif outcome.readings:
        result.verdict = Verdict.DIFFERS
        result.cause = "; ".join(f"{READINGS[name].text} ({READINGS[name].citation})" for name in outcome.readings)
    return result


class PassageBudget:
    """The passages that a report may still have."""

    def __init__(self) -> None:
        self._left = CHECK_PASSAGES_MAX

    def shorten(self, result: Result) -> None:
        """Keeps the passages that a report shows: none of a check that conforms, and few where too many are kept."""
        passages = result.passages
        if result.verdict in {Verdict.CONFORMS, Verdict.NOT_SEEN}:
            passages = ()
        elif len(passages) > max(self._left, 2 * _ENDS):
            passages = [*passages[:_ENDS], *passages[-_ENDS:]]
        self._left -= len(passages)
        result.passages = [each.shortened(CHECK_SHOWN_OCTETS_MAX) for each in passages]


def void_verdicts(results: Sequence[Result]) -> None:
    """Voids the verdicts that rest on the data of a file which has changed during the run."""
    for result in results:
        if "file" in result.check.needs and result.verdict in {Verdict.VIOLATES, Verdict.IGNORES}:
            result.verdict = Verdict.INCONCLUSIVE
            result.cause = f"the file was changed or removed during the run; {result.cause}"


def judged(results: Sequence[Result]) -> dict[Verdict, int]:
    """Returns the number of checks with each verdict, 0 included."""
    return {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
