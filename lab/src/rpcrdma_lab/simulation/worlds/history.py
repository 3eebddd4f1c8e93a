"""The history of a world for its checkers: calls as their callers saw them, and runs of their handlers.

Clients and services of the world write it; nothing in it comes from counters of the code under test.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from rpcrdma.errors import CallTimeout

__all__ = ["CallMade", "Disturbance", "HandlerRun", "History", "Violation"]


class Violation(NamedTuple):
    """A rule that a world has broken, as `checker` found out."""

    checker: str
    at_s: float
    text: str

    def __str__(self) -> str:
        return f"{self.checker}: {self.text} (at {self.at_s:.6f} s)"


@dataclass(slots=True)
class CallMade:
    """One call of a client's plan, or one call that checks the end. `ended_s` None: it was lost."""

    client: int
    server: int
    number: int
    work: str
    began_s: float
    timeout_s: float
    ended_s: float | None = None
    error: Exception | None = None
    entry: int | None = None
    """The place in the bank's journal that the reply names."""


class HandlerRun(NamedTuple):
    """One run of a handler that must not run twice."""

    boot: int
    """How often the server had been started."""
    entry: int
    """The place in the bank's journal."""
    at_s: float


class Disturbance(NamedTuple):
    """A time in which a fault explains failures of calls. None stands for every client, or every server."""

    client: int | None
    server: int | None
    begin_s: float
    end_s: float
    cost_s: float
    """Time that a call loses by it at most."""
    errors: tuple[type[Exception], ...] = ()
    """Failures that it explains by itself."""

    def concerns(self, call: CallMade) -> bool:
        """Returns whether the disturbance is of the client or server of the call, and overlaps it in time."""
        return (
            self.client in (None, call.client)
            and self.server in (None, call.server)
            and self.begin_s <= (inf if call.ended_s is None else call.ended_s)
            and call.began_s <= self.end_s
        )


@dataclass(slots=True)
class History:
    """Everything, in the order in which it happened."""

    calls: list[CallMade] = field(default_factory=list)
    runs: dict[tuple[int, int, int], list[HandlerRun]] = field(default_factory=lambda: defaultdict(list))
    """By server, customer and number."""
    notices: list[CallMade] = field(default_factory=list)
    """Calls of servers to clients."""
    notice_runs: dict[tuple[int, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """By client, server and number: the notices that arrived there before, one for each run."""
    disturbances: list[Disturbance] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    """Of checkers that see them happen."""

    def explains(self, call: CallMade, error: Exception) -> bool:
        """Returns whether faults explain that a call failed with `error`; a timeout: by the time that they cost it."""
        concerned = [each for each in self.disturbances if each.concerns(call)]
        if isinstance(error, CallTimeout):
            return sum(each.cost_s for each in concerned) >= call.timeout_s
        return any(isinstance(error, each.errors) for each in concerned)
