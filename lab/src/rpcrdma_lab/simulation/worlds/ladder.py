"""Draws a trace as a ladder: a line for each node, an arrow for each message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rpcrdma.testing.virtual import NO_CAUSE, EventKind, Trace, TraceEvent
from rpcrdma_lab.dissect.ladder import LadderShape, Rung, ladder_head, ladder_line

__all__ = ["ladder"]

_MARGIN, _FIRST, _STEP = 14, 16, 34
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
"""Kinds of events that are shown beside arrivals; posts, interrupts and completions follow from these."""


def ladder(trace: Trace, *, until_s: float | None = None, lines_max: int = 80) -> list[str]:
    """Returns the last events of a trace as the lines of an ASCII ladder, in the order of time.

    Only arrivals of messages and events of the kinds in `_AT_NODES` are counted and shown. Nodes are columns. The first
    line has their names; the second one states the number of earlier events if some are left out.

    Args:
        trace: the trace.
        until_s: the virtual time in seconds of the last event that may be shown, inclusive; None: no limit.
        lines_max: the largest number of events shown, one on each line.
    """
    events = [event for event in trace.events if event.kind is EventKind.ARRIVE or event.kind in _AT_NODES]
    if until_s is not None:
        events = [event for event in events if event.at_s <= until_s]
    events.sort(key=lambda event: (event.at_s, event.number))
    shown = events[max(len(events) - lines_max, 0) :]
    nodes = sorted({event.node for event in events} | {_sender(trace, event) or event.node for event in shown})
    shape = LadderShape(len(nodes), _MARGIN, _FIRST, _STEP)
    left_out = [f"({len(events) - len(shown)} earlier events)"] if len(events) > len(shown) else []
    rungs = (_rung(trace, event, nodes) for event in shown)
    return [ladder_head(shape, nodes), *left_out, *(ladder_line(shape, rung) for rung in rungs)]


def _rung(trace: Trace, event: TraceEvent, nodes: Sequence[str]) -> Rung:
    at = f"{event.at_s:13.9f} "
    sender = _sender(trace, event) if event.kind is EventKind.ARRIVE else None
    if sender is None or sender == event.node:
        return Rung(at, f"{event.kind.value} {event.text}".strip(), nodes.index(event.node))
    return Rung(at, f"{event.text}, {event.octets} octets", nodes.index(sender), nodes.index(event.node))


def _sender(trace: Trace, event: TraceEvent) -> str | None:
    """Returns the name of the node that sent the message whose arrival is `event`; None if the trace has no sender."""
    return next((cause.node for cause in _causes(trace, event) if cause.kind is EventKind.LEAVE), None)


def _causes(trace: Trace, event: TraceEvent) -> Iterator[TraceEvent]:
    while event.cause != NO_CAUSE:
        event = trace.events[event.cause]
        yield event
