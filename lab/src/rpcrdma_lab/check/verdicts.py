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
"""The cause why a check of frames is not run over an RDMA device."""


_ENDS = 8
"""The number of first, and of last, log entries of a check in a report that has too many."""


class Verdict(enum.Enum):
    """The verdict on a check; `HARMS` breaks no statement, as none speaks of other connections.

    `NOT_SEEN`: the check was not run, or the peer did not do what it needs. `INCONCLUSIVE`: its run shows nothing.
    """

    CONFORMS = "conforms"
    VIOLATES = "violates a MUST"
    HARMS = "harms other connections"
    IGNORES = "ignores a SHOULD"
    DIFFERS = "differs from our reading"
    NOT_SEEN = "not seen"
    INCONCLUSIVE = "inconclusive"


FAILURES = frozenset({Verdict.VIOLATES, Verdict.HARMS, Verdict.IGNORES})
"""Verdicts on answers that no reading of the specifications permits."""


@dataclass(slots=True, kw_only=True)
class Result:
    """The result of one check.

    `readings` are the keys in `READINGS` (other interpretations of unclear texts than ours) that answers followed, and
    `passages` is the log of the conversation. `cause` is the expected and the found answer, the text of the readings,
    or why there is no verdict; "" if the check conforms. `others_ended` says that another connection ended or got wrong
    answers after the check, `refused` that there was no connection for the check, and `silent` that an answer did not
    arrive. `broken` is the identifier of the broken statement, if not the check's first.
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
        """Identifiers of the statements that the verdict is about: the broken one after a failure, or else all.

        Empty if the verdict is HARMS (other connections suffered), since no statement is about that.
        """
        if self.verdict is Verdict.HARMS:
            return ()
        if self.verdict in FAILURES:
            return (self.broken or self.check.statements[0],)
        return self.check.statements

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of the specifications with the statements that the verdict is about, such as "RFC 8166 4.5.2".

        The property `statements` has the identifiers of these statements. Empty if the verdict is HARMS.
        """
        return sections_of(self.statements)


def result_of(check: Check, outcome: Outcome) -> Result:
    """Returns the verdict on a check, with cause and log, from the outcome of its conversation.

    The verdict is VIOLATES or IGNORES (of a recommendation) after a failure, DIFFERS if answers followed another
    reading of the specifications (`READINGS`), and CONFORMS otherwise. The caller replaces it by INCONCLUSIVE or
    NOT_SEEN if the failure is no mistake of the peer, such as an unmet precondition (`unmet` of the failure).
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
    """Bounds the log entries (passages) in all results of a report together, by `CHECK_PASSAGES_MAX` (16384).

    `shorten` is called with each result in turn. It empties the log of a check that conforms or was not run; other logs
    of up to 16 entries stay whole, even beyond the bound.
    """

    def __init__(self) -> None:
        self._left = CHECK_PASSAGES_MAX

    def shorten(self, result: Result) -> None:
        """Shortens the log of a result (`passages`), and takes the entries that stay from the budget.

        No entry stays if the verdict is CONFORMS or NOT_SEEN. Of more than 16 entries only the first 8 and the last 8
        stay if the budget does not suffice for all. Of each entry the first `CHECK_SHOWN_OCTETS_MAX` octets stay.
        """
        passages = result.passages
        if result.verdict in {Verdict.CONFORMS, Verdict.NOT_SEEN}:
            passages = ()
        elif len(passages) > max(self._left, 2 * _ENDS):
            passages = [*passages[:_ENDS], *passages[-_ENDS:]]
        self._left -= len(passages)
        result.passages = [each.shortened(CHECK_SHOWN_OCTETS_MAX) for each in passages]


def void_verdicts(results: Sequence[Result]) -> None:
    """Changes VIOLATES and IGNORES to INCONCLUSIVE in the `results` of checks that need "file".

    To be called if the file that the checks read was changed or removed during the run; the cause of each changed
    result then says so.
    """
    for result in results:
        if "file" in result.check.needs and result.verdict in {Verdict.VIOLATES, Verdict.IGNORES}:
            result.verdict = Verdict.INCONCLUSIVE
            result.cause = f"the file was changed or removed during the run; {result.cause}"


def judged(results: Sequence[Result]) -> dict[Verdict, int]:
    """Returns the number of results with each verdict; every verdict is a key."""
    return {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
