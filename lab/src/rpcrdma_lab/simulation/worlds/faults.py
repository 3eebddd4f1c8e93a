"""Faults as data: the kind, the end of the connection, the time and the duration of each.

A `FaultRule` is the part of a scenario from which faults are drawn, a `Fault` one of them. This module imports
nothing else of the package, so that a proxy between real peers can follow the same rules as a simulated world.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

__all__ = ["FIELDS", "Fault", "FaultKind", "FaultRule", "Range", "Side"]

Range = tuple[float, float]
"""The least and the greatest value; a draw takes any order of magnitude between them as likely as another."""


class Side(enum.StrEnum):
    """The end at which a fault happens."""

    CLIENT = "client"
    SERVER = "server"


class FaultKind(enum.StrEnum):
    """The kinds of faults."""

    DELAY = "delay"
    """All messages of one end take longer."""
    CUT = "cut"
    """A connection breaks."""
    CRASH = "crash"
    """A server ends and is started again later; a part of its unstable writes is lost."""
    SLOW_REGISTRATION = "slow-registration"
    FAILING_REGISTRATION = "failing-registration"
    """Registering memory fails."""
    EXHAUSTED_MEMORY = "exhausted-memory"
    """One end can register no more memory than it has registered by then."""
    STALLED_APPLICATION = "stalled-application"
    """The handlers of one end do not run."""
    STALLED_READER = "stalled-reader"
    """One end takes nothing that arrives."""
    CLOCK_JUMP = "clock-jump"
    """The clock of the machine goes forward at once, as after a suspension."""
    WITHHELD_GRANTS = "withheld-grants"
    """A peer grants no further credits."""


FIELDS: dict[FaultKind, frozenset[str]] = {
    FaultKind.DELAY: frozenset({"at_s", "for_s", "delay_s"}),
    FaultKind.CUT: frozenset({"at_s", "after_octets", "after_operations"}),
    FaultKind.CRASH: frozenset({"at_s", "for_s", "kept"}),
    FaultKind.SLOW_REGISTRATION: frozenset({"at_s", "for_s", "delay_s"}),
    FaultKind.FAILING_REGISTRATION: frozenset({"at_s", "for_s"}),
    FaultKind.EXHAUSTED_MEMORY: frozenset({"at_s", "for_s"}),
    FaultKind.STALLED_APPLICATION: frozenset({"at_s", "for_s"}),
    FaultKind.STALLED_READER: frozenset({"at_s", "for_s"}),
    FaultKind.CLOCK_JUMP: frozenset({"at_s", "for_s"}),
    FaultKind.WITHHELD_GRANTS: frozenset({"at_s", "for_s"}),
}
"""The values that each kind has, beside the end at which it happens."""

SIDES: dict[FaultKind, frozenset[Side]] = {
    FaultKind.CRASH: frozenset({Side.SERVER}),
    FaultKind.STALLED_APPLICATION: frozenset({Side.SERVER}),
}
"""The ends at which a kind can happen; a kind that is not here can happen at both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one world. `client` and `server` are numbers: the connections between these two are meant.

    A fault of a whole node, such as a crash, concerns all connections of the server or client at whose side it happens.
    """

    kind: FaultKind
    side: Side
    client: int
    server: int
    at_s: float = 0.0
    """Since the beginning."""
    for_s: float = 0.0
    """How long; of a crash the time until the restart, of a clock the jump."""
    delay_s: float = 0.0
    """Of each message, or of each registration."""
    kept: float = 0.0
    """The share of the unstable writes that a crash does not lose."""
    after_octets: int | None = None
    """A cut happens when `side` has sent this number of octets of one connection."""
    after_operations: int | None = None
    """A cut happens when `side` has sent this number of messages of one connection, RDMA Reads and Writes included."""
    silent: bool = False
    """Whether the ends are not told of a cut."""

    def __str__(self) -> str:
        when = f"at {self.at_s:.6f} s" if self.at_s else "from the beginning"
        if self.after_octets is not None:
            when = f"after {self.after_octets} octets"
        if self.after_operations is not None:
            when = f"after {self.after_operations} operations"
        parts = [f"{self.kind} at the {self.side}, client {self.client}, server {self.server}, {when}"]
        parts += ["silently"] if self.silent else []
        parts += [f"for {self.for_s:.6f} s"] if self.for_s else []
        parts += [f"{self.delay_s:.6f} s each"] if self.delay_s else []
        parts += [f"{self.kept:.0%} of unstable writes kept"] if self.kind is FaultKind.CRASH else []
        return ", ".join(parts)

    @property
    def node(self) -> str:
        """The name of the node at which it happens: "client-1", "server-0"."""
        return f"client-{self.client}" if self.side is Side.CLIENT else f"server-{self.server}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """The rule by which faults of one kind are drawn: a weight among other rules, and a range for each value."""

    kind: FaultKind
    weight: float
    sides: tuple[Side, ...]
    values: dict[str, Range]
    silent: bool = False

    def draw(self, choose: random.Random, clients: int, servers: int) -> Fault:
        """Draws a fault in a world with this number of clients and of servers."""
        drawn = {name: between(choose, self.values[name]) for name in sorted(self.values)}
        octets, operations = drawn.pop("after_octets", None), drawn.pop("after_operations", None)
        return Fault(
            kind=self.kind,
            side=choose.choice(self.sides),
            client=choose.randrange(clients),
            server=choose.randrange(servers),
            after_octets=None if octets is None else round(octets),
            after_operations=None if operations is None else round(operations),
            silent=self.silent,
            **drawn,
        )


def between(choose: random.Random, limits: Range) -> float:
    """Draws a value of a range: each order of magnitude is as likely as another, and so is 0."""
    least, most = limits
    if least <= 0:
        return round((1 + most) ** choose.random() - 1, 9) if most >= 1 else round(most * choose.random(), 9)
    return float(least * (most / least) ** choose.random())
