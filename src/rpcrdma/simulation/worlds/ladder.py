"""Draws a trace as a ladder in plain ASCII: a column for each node, an arrow for each message, one event a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rpcrdma.simulation.trace import NO_CAUSE, EventKind, Trace, TraceEvent

__all__ = ["ladder"]

_COLUMN = 34
_AT_NODES = frozenset(
    {
        EventKind.CALL,
        EventKind.RETURN,
        EventKind.CONNECT,
        EventKind.DISCONNECT,
        EventKind.HANDLE,
        EventKind.FAULT,
        EventKind.CRASH,
        EventKind.RESTART,
        EventKind.NOTE,
        EventKind.REGISTER,
        EventKind.INVALIDATE_LOCAL,
        EventKind.INVALIDATE_REMOTE,
    }
)
"""Events that are shown beside arrivals; posting, interrupts and completions follow from them."""


def ladder(trace: Trace, *, until_s: float | None = None, lines_max: int = 80) -> list[str]:
    """The last `lines_max` lines up to a time, in the order of time."""
    events = [event for event in trace.events if event.kind is EventKind.ARRIVE or event.kind in _AT_NODES]
    if until_s is not None:
        events = [event for event in events if event.at_s <= until_s]
    events.sort(key=lambda event: (event.at_s, event.number))
    shown = events[-lines_max:]
    nodes = sorted({event.node for event in events} | {_sender(trace, event) or event.node for event in shown})
    head = " " * 14 + "".join(node.center(_COLUMN) for node in nodes).rstrip()
    left_out = [f"({len(events) - len(shown)} earlier events)"] if len(events) > len(shown) else []
    return [head, *left_out, *(_line(trace, event, nodes) for event in shown)]


def _line(trace: Trace, event: TraceEvent, nodes: Sequence[str]) -> str:
    at = f"{event.at_s:13.9f} "
    sender = _sender(trace, event) if event.kind is EventKind.ARRIVE else None
    if sender is None or sender == event.node:
        before = nodes.index(event.node)
        word = f"{event.kind.value} {event.text}".strip()[: _COLUMN - 2]
        columns = ["|".center(_COLUMN)] * before + [word.center(_COLUMN)]
        columns += ["|".center(_COLUMN)] * (len(nodes) - before - 1)
        return at + "".join(columns).rstrip()
    first, last = sorted((nodes.index(sender), nodes.index(event.node)))
    width = (last - first) * _COLUMN - 1
    words = f" {event.text}, {event.octets} octets "[: width - 4]
    arrow = words.center(width, "-")
    arrow = f"{arrow[:-1]}>" if nodes.index(sender) == first else f"<{arrow[1:]}"
    left = "|".center(_COLUMN) * first + " " * (_COLUMN // 2 - 1)
    right = "|" + " " * (_COLUMN // 2) + "|".center(_COLUMN) * (len(nodes) - last - 1)
    return (at + left + "|" + arrow + right).rstrip()


def _sender(trace: Trace, event: TraceEvent) -> str | None:
    """The node at which a message that arrives has left."""
    return next((cause.node for cause in _causes(trace, event) if cause.kind is EventKind.LEAVE), None)


def _causes(trace: Trace, event: TraceEvent) -> Iterator[TraceEvent]:
    while event.cause != NO_CAUSE:
        event = trace.events[event.cause]
        yield event
