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
"""The least and the greatest value that may be drawn; see `between`."""


class Side(enum.StrEnum):
    """The end of a connection at which a fault happens."""

    CLIENT = "client"
    SERVER = "server"


class FaultKind(enum.StrEnum):
    """The kinds of faults in a simulated world."""

    DELAY = "delay"
    """All messages that one end sends take longer."""
    CUT = "cut"
    """A connection breaks."""
    CRASH = "crash"
    """A server ends and starts again later; some of its unstable writes are lost."""
    SLOW_REGISTRATION = "slow-registration"
    FAILING_REGISTRATION = "failing-registration"
    """Memory registration of one end fails."""
    EXHAUSTED_MEMORY = "exhausted-memory"
    """One end can register no more memory than it has registered at the time."""
    STALLED_APPLICATION = "stalled-application"
    """The handlers of a server do not run."""
    STALLED_READER = "stalled-reader"
    """One end processes nothing that arrives."""
    CLOCK_JUMP = "clock-jump"
    """The clock of the machine jumps forward, as after a suspension."""
    WITHHELD_GRANTS = "withheld-grants"
    """One end grants no further credits."""


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
"""The value fields of `Fault` that each kind uses."""

SIDES: dict[FaultKind, frozenset[Side]] = {
    FaultKind.CRASH: frozenset({Side.SERVER}),
    FaultKind.STALLED_APPLICATION: frozenset({Side.SERVER}),
}
"""The sides at which a kind can happen; kinds that are not listed can happen at both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a world, at the connection between the client and the server with these numbers.

    A fault of a whole node, such as a crash, affects all connections of the node at `side`. `FIELDS` has the fields
    that each kind uses.
    """

    kind: FaultKind
    side: Side
    client: int
    server: int
    at_s: float = 0.0
    """Seconds from the beginning of the world."""
    for_s: float = 0.0
    """The duration in seconds; of a crash, the time until the restart; of a clock, the jump."""
    delay_s: float = 0.0
    """Seconds of delay of each message or registration."""
    kept: float = 0.0
    """The share (0 to 1) of unstable writes that a crash does not lose."""
    after_octets: int | None = None
    """A cut happens when `side` has sent this number of octets on one connection; None: by another condition."""
    after_operations: int | None = None
    """A cut happens when `side` has sent this number of messages, RDMA operations included, on a connection."""
    silent: bool = False
    """Whether the ends of a cut connection get no report."""

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
        """The name of the node at which the fault happens, such as "client-1" or "server-0"."""
        return f"client-{self.client}" if self.side is Side.CLIENT else f"server-{self.server}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """A rule of a scenario by which faults of one kind are drawn.

    Attributes:
        kind: the kind of faults.
        weight: the likelihood relative to other rules.
        sides: the sides at which the faults happen, each equally likely.
        values: the range, (least, most), of each drawn field of `Fault`, by name.
        silent: whether cuts are not reported to the ends.
    """

    kind: FaultKind
    weight: float
    sides: tuple[Side, ...]
    values: dict[str, Range]
    silent: bool = False

    def draw(self, choose: random.Random, clients: int, servers: int) -> Fault:
        """Returns a fault drawn by `choose` for a world with these numbers of clients and servers, each 1 or more."""
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
    """Returns a random value from `limits`, (least, most), drawn by `choose`; orders of magnitude are equally likely.

    If `least` is 0, this holds for the value plus 1; if `most` is also below 1, all values are equally likely.
    """
    least, most = limits
    if least <= 0:
        return round((1 + most) ** choose.random() - 1, 9) if most >= 1 else round(most * choose.random(), 9)
    return float(least * (most / least) ** choose.random())
