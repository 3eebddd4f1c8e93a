"""The history of a world for its checkers: calls as their callers saw them, and runs of their handlers.

Clients and services of the world write it; nothing in it is from counters of the code under test.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from rpcrdma.errors import CallTimeout

__all__ = ["CallMade", "Disturbance", "HandlerRun", "History", "Violation"]


class Violation(NamedTuple):
    """A broken rule in a simulated world: the checker that found it, the virtual time in seconds, and a description."""

    checker: str
    at_s: float
    text: str

    def __str__(self) -> str:
        return f"{self.checker}: {self.text} (at {self.at_s:.6f} s)"


@dataclass(slots=True)
class CallMade:
    """A call as its caller saw it; `ended_s` is None while the call has not ended.

    `client` and `server` are numbers, `number` distinguishes the calls between these, and `work` names the kind of
    call. Times are virtual seconds. `error` is the exception of a call that failed; None otherwise.
    """

    client: int
    server: int
    number: int
    work: str
    began_s: float
    timeout_s: float
    ended_s: float | None = None
    error: Exception | None = None
    entry: int | None = None
    """The journal entry in the reply to a transfer, statement or extract, the count in a notice's reply, or None."""


class HandlerRun(NamedTuple):
    """One run of a bank handler, which must not run twice for one call."""

    boot: int
    """The number of starts of the server so far."""
    entry: int
    """The journal entry that the run made."""
    at_s: float


class Disturbance(NamedTuple):
    """A time in which a fault explains failures of calls, from `begin_s` to `end_s` in virtual seconds.

    `client` and `server` are the numbers of those affected; None: all.
    """

    client: int | None
    server: int | None
    begin_s: float
    end_s: float
    cost_s: float
    """The most seconds that a call loses by the fault."""
    errors: tuple[type[Exception], ...] = ()
    """The exceptions that the fault explains by itself."""

    def concerns(self, call: CallMade) -> bool:
        """Returns whether the fault affects client and server of the call, and overlaps the call in time.

        A call that has not ended lasts without end.
        """
        return (
            self.client in (None, call.client)
            and self.server in (None, call.server)
            and self.begin_s <= (inf if call.ended_s is None else call.ended_s)
            and call.began_s <= self.end_s
        )


@dataclass(slots=True)
class History:
    """The record of a simulated world for its checkers, each list in the order of events."""

    calls: list[CallMade] = field(default_factory=list)
    runs: dict[tuple[int, int, int], list[HandlerRun]] = field(default_factory=lambda: defaultdict(list))
    """Runs of handlers by server, customer and number of the call."""
    notices: list[CallMade] = field(default_factory=list)
    """Calls from servers to clients."""
    notice_runs: dict[tuple[int, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Runs of handlers by client, server and number of a call in `notices`.

    Each run is the count of such runs at this client for calls of this server so far, itself included.
    """
    disturbances: list[Disturbance] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    """Violations that watchers found while the world ran."""

    def explains(self, call: CallMade, error: Exception) -> bool:
        """Returns whether faults explain that a call failed with `error`.

        A `CallTimeout` is explained if the faults in `disturbances` that concern the call have a sum of `cost_s` of at
        least the call's `timeout_s`. Another error is explained if one of these faults has its class, or a base class
        of it, in `errors`.
        """
        concerned = [each for each in self.disturbances if each.concerns(call)]
        if isinstance(error, CallTimeout):
            return sum(each.cost_s for each in concerned) >= call.timeout_s
        return any(isinstance(error, each.errors) for each in concerned)
