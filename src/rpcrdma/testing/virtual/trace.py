"""The trace of a simulation: its events in the order of recording, each with the event that caused it.

Times are virtual. An event is recorded when its end is known, which may be before the clock reaches it: `at_s` need not
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
    """The kinds of events in the trace of a simulation; `TraceEvent.text` has details of each."""

    CALL = "call"
    """A program makes a call; the program records it, see `Host.record`."""
    RETURN = "return"
    """The program continues with the result of its call; the program records it."""
    CONNECT = "connect"
    DISCONNECT = "disconnect"
    REGISTER = "register"
    INVALIDATE_LOCAL = "invalidate-local"
    INVALIDATE_REMOTE = "invalidate-remote"
    """The node's RNIC ends a handle that an arriving Send names."""
    POST = "post"
    """Work is posted; `text` begins with the verb: send, rdma-write or rdma-read, or is "disconnect"."""
    LEAVE = "leave"
    """The last octet of a message leaves the node; `octets` are those on the wire. `text` begins with the name of
    the message (`MessageKind`). If another message has delayed it, "behind" and the number of that event follow."""
    ARRIVE = "arrive"
    """The last octet of a message is in place at the node; `text` is the name of the message. "in part" follows if the
    message was cut off."""
    ACKNOWLEDGE = "acknowledge"
    """The acknowledgement of a message reaches the sender; `octets` are those on the wire."""
    INTERRUPT = "interrupt"
    """The host is interrupted for the news in `text`; with `FabricModel.coalescing` it takes along news that arrive
    before its end."""
    COMPLETE = "complete"
    """The transport takes a completion or an event of a connection. The cause is the interrupt for this news. For
    news that another interrupt took along, the cause is its arrival, and `cost_s` the time of waiting."""
    COPY = "copy"
    """The host copies octets out of a receive buffer."""
    HANDLE = "handle"
    """A handler runs at the server."""
    FAULT = "fault"
    """An injected fault."""
    CRASH = "crash"
    RESTART = "restart"
    NOTE = "note"
    """Anything else that a program records."""


class TraceEvent(NamedTuple):
    """An event of the trace.

    Args:
        number: its index in the trace.
        at_s: the time of its end.
        node: the name of the node.
        kind: its kind.
        cause: the number of the event that caused it; `NO_CAUSE`: none.
        connection: the number of the connection; -1: none.
        octets: octets concerned.
        cost_s: seconds that the event itself took at its node, the last ones before `at_s`.
        text: details.
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
        """All fields of the event as one line of text, without a line break."""
        return (
            f"{self.number} {self.at_s!r} {self.node} {self.kind.value} <{self.cause} #{self.connection} "
            f"{self.octets} {self.cost_s!r} {self.text}"
        )


class Trace:
    """The recorded events of a simulation so far, in the order of recording.

    Args:
        enabled: False keeps no events; every number is then `NO_CAUSE`.
    """

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
        """Records an event.

        Args:
            kind: its kind.
            node: the name of the node.
            at_s: the virtual time of its end, in seconds.
            cause: the number of the event that caused it; `NO_CAUSE`: none.
            connection: the number of the connection; -1: none.
            octets: octets concerned.
            cost_s: seconds that it took.
            text: details.

        Returns:
            The number of the event; `NO_CAUSE` if the trace is not enabled.
        """
        if not self.enabled:
            return NO_CAUSE
        number = len(self.events)
        self.events.append(TraceEvent(number, at_s, node, kind, cause, connection, octets, cost_s, text))
        return number

    def chain(self, number: int) -> list[TraceEvent]:
        """Follows the causes of an event.

        Args:
            number: the number of the event; `NO_CAUSE` has no events.

        Returns:
            The event and all its causes, the first cause first and the event last.
        """
        found = []
        while number != NO_CAUSE:
            event = self.events[number]
            found.append(event)
            number = event.cause
        return found[::-1]

    def octets(self) -> bytes:
        """Returns the whole trace as text in UTF-8; two runs have equal traces exactly if these octets are equal."""
        return "".join(f"{event.line}\n" for event in self.events).encode()

    def digest(self) -> str:
        """Returns the first 16 hexadecimal digits of the trace's SHA-256, to compare runs."""
        return hashlib.sha256(self.octets()).hexdigest()[:16]
