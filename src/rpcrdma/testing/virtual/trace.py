"""The trace of a simulation: its events in the order in which they were recorded, each with the event that caused it.

Times are virtual. An event is recorded when its end is known, which may be before the clock gets there: `at_s` need not
rise from one event to the next, but it never falls along a chain of causes.
"""

from __future__ import annotations

import enum
import hashlib
from typing import NamedTuple

__all__ = ["NO_CAUSE", "EventKind", "Trace", "TraceEvent"]

NO_CAUSE = -1
"""The cause of events that begin a chain."""


class EventKind(enum.Enum):
    """The kinds of events; `text` says more of each."""

    CALL = "call"
    """A program makes a call; recorded by the program, see `Node.record`."""
    RETURN = "return"
    """The program goes on with the result of its call; likewise."""
    CONNECT = "connect"
    DISCONNECT = "disconnect"
    REGISTER = "register"
    INVALIDATE_LOCAL = "invalidate-local"
    INVALIDATE_REMOTE = "invalidate-remote"
    """The node's RNIC ends a handle that an arriving Send names."""
    POST = "post"
    """Work is posted; `text` begins with the verb: send, rdma-write or rdma-read."""
    LEAVE = "leave"
    """The last octet of a message leaves the node; `octets` are those on the wire. `text` begins with the name of the
    message (`MessageKind`). If another message has held up the wire, "behind" and the number of its event follow."""
    ARRIVE = "arrive"
    """The last octet of a message is in place at the node; `text` is the name of the message."""
    ACKNOWLEDGE = "acknowledge"
    """The acknowledgement of a message has come back to the node that sent it; `octets` are those on the wire."""
    INTERRUPT = "interrupt"
    """The host is interrupted for the news in `text`. Completions that arrive before it has ended are taken along."""
    COMPLETE = "complete"
    """The transport takes a completion or an event of a connection. The cause is the interrupt that this news has
    brought about. If it was taken along with others, the cause is its arrival, and `cost_s` the time of waiting."""
    COPY = "copy"
    """The host copies octets out of a receive buffer."""
    HANDLE = "handle"
    """A handler runs at the server."""
    FAULT = "fault"
    """A fault that was injected."""
    CRASH = "crash"
    RESTART = "restart"
    NOTE = "note"
    """Anything else that a program records."""


class TraceEvent(NamedTuple):
    """One event.

    `at_s` is when it is over, `cost_s` how much of the time before that it took itself at its node. `cause` is the
    number of the event that it followed from, `NO_CAUSE` for none. `connection` is -1 where no connection is concerned.
    """

    number: int
    at_s: float
    node: str
    kind: EventKind
    cause: int
    connection: int
    octets: int
    cost_s: float
    text: str

    @property
    def line(self) -> str:
        """The event as one line of text, from which nothing is left out."""
        return (
            f"{self.number} {self.at_s!r} {self.node} {self.kind.value} <{self.cause} #{self.connection} "
            f"{self.octets} {self.cost_s!r} {self.text}"
        )


class Trace:
    """The events so far. With `enabled` False nothing is kept, and every number is `NO_CAUSE`."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self.events: list[TraceEvent] = []

    def add(
        self,
        kind: EventKind,
        node: str,
        *,
        at_s: float,
        cause: int = NO_CAUSE,
        connection: int = -1,
        octets: int = 0,
        cost_s: float = 0.0,
        text: str = "",
    ) -> int:
        """Records an event; returns its number."""
        if not self.enabled:
            return NO_CAUSE
        number = len(self.events)
        self.events.append(TraceEvent(number, at_s, node, kind, cause, connection, octets, cost_s, text))
        return number

    def chain(self, number: int) -> list[TraceEvent]:
        """The event `number` with all its causes, the first one first."""
        found = []
        while number != NO_CAUSE:
            event = self.events[number]
            found.append(event)
            number = event.cause
        return found[::-1]

    def octets(self) -> bytes:
        """The whole trace as text: equal for two runs exactly if their traces are."""
        return "".join(f"{event.line}\n" for event in self.events).encode()

    def digest(self) -> str:
        """A short text that stands for `octets`."""
        return hashlib.sha256(self.octets()).hexdigest()[:16]
