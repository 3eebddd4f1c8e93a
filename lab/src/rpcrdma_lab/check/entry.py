"""A check: statements of the specifications, and the scripted conversation that tests whether a peer fulfils them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rpcrdma_lab.check.statements import STATEMENTS, Statement
from rpcrdma_lab.scripted.queue_pair_peer import is_invalidation

__all__ = ["Check", "Conversation", "Step", "check", "chosen", "sections_of"]

_PRIVATE_DATA = {"data"}
_FRAMES = ("stream", "startup", "mpa")
_ANSWERS = {"startup", "terminate", "read_request", "read_response"}
Step = Mapping[str, Any]
Conversation = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check: a scripted conversation, and the identifiers of the statements in the ledger that it tests.

    A wrong answer breaks the first statement, unless the pattern or the step names another. `needs` are conditions
    without which the check is not run: "file", "write", "nfs", "crc", "program" (a server program behind the scripted
    server), "risky" for a check that is known to stop a server or client, and abilities of the server, such as
    "markers" and "2.segments". The protocol version of the conversation is a further condition, not in `needs`.
    """

    id: str
    title: str
    statements: tuple[str, ...]
    conversation: Conversation
    needs: frozenset[str] = field(default_factory=frozenset)

    @property
    def recommended(self) -> bool:
        """Whether the first statement is a recommendation (SHOULD), so that a wrong answer violates no requirement."""
        words = set(STATEMENTS[self.statements[0]].level.replace(",", "").split())
        return bool(words & {"SHOULD", "should"}) and not words & {"MUST", "must", "REQUIRED"}

    @property
    def of_frames(self) -> bool:
        """Whether the conversation sends or expects handmade frames, which is impossible over an RDMA device."""
        start = self.conversation.get("startup", {})
        return start is None or not start.keys() <= _PRIVATE_DATA or any(map(_is_of_frames, self.conversation["steps"]))

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of the tested statements, such as "RFC 8166 4.5.2"."""
        return sections_of(self.statements)


def chosen(checks: Iterable[Check], only: Sequence[str], skip: Sequence[str]) -> list[Check]:
    """Returns, in order, the checks whose identifiers match a pattern of `only` (empty: all) and none of `skip`.

    Patterns are those of the module `fnmatch`, such as "v1.*".
    """

    def matches(check: Check, patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(check.id, pattern) for pattern in patterns)

    return [check for check in checks if (not only or matches(check, only)) and not matches(check, skip)]


def sections_of(statements: Iterable[str]) -> tuple[str, ...]:
    """Returns the sections, as "RFC 8166 4.5.2", of statements by identifier: each once, in the statements' order.

    Raises:
        KeyError: an identifier is not in the ledger's extract, `STATEMENTS`.
    """
    told: list[Statement] = [STATEMENTS[each] for each in statements]
    return tuple(dict.fromkeys(f"{each.source} {each.section}" for each in told))


def _is_of_frames(step: Step) -> bool:
    if "repeat" in step:
        return any(map(_is_of_frames, step["repeat"]["steps"]))
    said = step.get("say") or step.get("answer") or {}
    if "end" in step or any(name in said for name in _FRAMES) or ("ddp" in said and not is_invalidation(said["ddp"])):
        return True
    return any(_ANSWERS & each.keys() for each in step.get("hear", []))


def check(
    name: str,
    title: str,
    statements: str,
    *steps: Step,
    needs: str = "",
    **conversation: Any,
) -> Check:
    """Returns a check: a conversation, and the statements of specifications that it tests.

    Args:
        name: the check's identifier.
        title: the expected behaviour as text.
        statements: the identifiers of the tested statements, separated by spaces; a wrong answer breaks the first.
        steps: the steps of the conversation (docs/send.md).
        needs: the conditions without which the check is not run, such as "nfs" and "write", separated by spaces.
        conversation: further keys of the conversation (docs/send.md), such as "memory" and "startup".
    """
    return Check(
        id=name,
        title=title,
        statements=tuple(statements.split()),
        conversation={**conversation, "steps": _with_aside(steps)},
        needs=frozenset(needs.split()),
    )


def _with_aside(steps: Sequence[Step]) -> list[Step]:
    """Returns the steps; if the last one expects the reply to a final NULL call, a copy with "aside" replaces it.

    Such a call only shows that the connection continues after the tested answer: with the key "aside", a description of
    the call, its failure makes a check inconclusive (docs/send.md). The given steps are not changed.
    """
    made = list(steps)
    if len(made) > 3 and made[-3].keys() & {"hear", "memory"} and "hear" in made[-1]:
        said = made[-2].get("say", {})
        if said.get("rpc") == {} and said.keys() == {"header", "rpc"} and said["header"].keys() == {"xid"}:
            made[-1] = {**made[-1], "aside": "an empty call behind it"}
    return made
