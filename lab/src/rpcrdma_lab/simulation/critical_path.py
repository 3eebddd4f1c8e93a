"""The account of calls: the events of a trace that make up their latency, and the events beside them.

The critical path is the chain of causes from a call's return back to the call. Each event of a trace names the one
event that it waited for last, so the times between the events of the path add up to the latency of the call. Events
that are caused by the call, and are not on the path, happened beside it.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rpcrdma.testing.virtual import EventKind, TraceEvent

__all__ = ["CallAccount", "EndCounts", "account", "critical_path", "part_of", "path_in_words"]

_INTERRUPTS = "interrupts"
_OTHER = "other"
_PARTS: Mapping[EventKind, str] = {
    EventKind.POST: "sending",
    EventKind.LEAVE: "sending",
    EventKind.ARRIVE: "distance",
    EventKind.ACKNOWLEDGE: "distance",
    EventKind.INTERRUPT: _INTERRUPTS,
    EventKind.COMPLETE: "waiting",
    EventKind.REGISTER: "registration",
    EventKind.INVALIDATE_LOCAL: "invalidation",
    EventKind.INVALIDATE_REMOTE: "invalidation",
    EventKind.COPY: "copying",
    EventKind.HANDLE: "server",
}
"""The part of a latency that the time before an event of this kind belongs to; "other" for kinds not listed.

A completion that is delivered by an interrupt in progress waits for that interrupt, then for busy software.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCounts:
    """Event counts of one end in a call: names with `_beside` count events beside the critical path, others on it."""

    interrupts: int
    interrupts_beside: int
    registrations: int
    registrations_beside: int
    local_invalidations: int
    local_invalidations_beside: int
    remote_invalidations: int
    """Handles of this end that Sends with Invalidate of the other end have invalidated."""
    remote_invalidations_beside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAccount:
    """Event counts and times of one call or of simultaneous calls, as `account` derives them from a trace.

    `latency_s` is in seconds, and `parts_s` divides it into the parts that `part_of` names. The counts from `sends` on
    include the events of both ends, on and beside the critical path, except `acknowledgements_on_path`.
    """

    one_way_trips: int
    """Steps of the critical path from one node to another."""
    requester: EndCounts
    responder: EndCounts
    sends: int
    reads: int
    writes: int
    acknowledgements: int
    acknowledgements_on_path: int
    messages: int
    """Messages that left a node: Sends, RDMA Writes, RDMA Reads and their responses, without acknowledgements."""
    octets: int
    """Octets of these messages on the wire, with the network's headers."""
    acknowledgement_octets: int
    latency_s: float
    parts_s: Mapping[str, float]
    path: Sequence[TraceEvent]
    """The events of the critical path, from the call to the return."""
    followed: Sequence[TraceEvent]
    """All events caused by the calls, on the path and beside it, in the order of the trace."""

    @property
    def registrations(self) -> int:
        """The number of memory registrations of both ends, on and beside the critical path."""
        return sum(end.registrations + end.registrations_beside for end in (self.requester, self.responder))

    @property
    def round_trips(self) -> float:
        """The number of round trips on the critical path; a one-way trip counts as a half."""
        return self.one_way_trips / 2


def critical_path(events: Sequence[TraceEvent], called: Collection[int], returned: int) -> list[TraceEvent]:
    """Returns the chain of causes from a call to the event `returned`, both included, in the order of time.

    The call is the last one of `called` in the chain of causes of `returned`.

    Args:
        events: the whole trace, in which each event is at the index of its number.
        called: the numbers of the CALL events.
        returned: the number of the RETURN event.

    Raises:
        ValueError: the return is not caused by any of the calls.
    """
    path = [events[returned]]
    while path[-1].number not in called:
        cause = path[-1].cause
        if cause < 0:
            raise ValueError(
                f"event {returned} does not follow from a call: its first cause is event {path[-1].number}"
            )
        path.append(events[cause])
    path.reverse()
    return path


def account(events: Sequence[TraceEvent], called: Collection[int], returned: Collection[int]) -> CallAccount:
    """Derives event counts and times of one or more calls of the same requester from a trace.

    The latency is the time from the first call to the last return, and the critical path ends at the last return.
    Events caused by a return belong to the caller's program and are left out.

    Args:
        events: the whole trace, in which each event is at the index of its number.
        called: the numbers of the CALL events.
        returned: the numbers of the RETURN events.

    Raises:
        ValueError: the last return is not caused by any of the calls, or `called` or `returned` is empty.
    """
    if not called or not returned:
        raise ValueError("an account takes at least one call and one return")
    first = min(called)
    last = max(returned, key=lambda number: events[number].at_s)
    path = critical_path(events, called, last)
    requester = events[first].node
    followed: dict[int, TraceEvent] = {}
    for event in events[first:]:
        if event.number in called or (event.cause in followed and event.number not in returned):
            followed[event.number] = event
    on_path = {event.number for event in path}
    counts = Counter(_counted_as(event) for event in followed.values())
    parts: defaultdict[str, float] = defaultdict(float)
    for before, event in itertools.pairwise(path):
        begin_s = before.at_s
        if event.kind is EventKind.COMPLETE and before.kind is not EventKind.INTERRUPT:
            interrupt = _shared_interrupt(events, before, event)
            if interrupt is not None:
                on_path.add(interrupt.number)
                parts[_INTERRUPTS] += interrupt.at_s - begin_s
                begin_s = interrupt.at_s
        parts[part_of(event)] += event.at_s - begin_s
    if path[0].number != first:
        # The path of the last return begins at a later call of those made at once.
        parts[_OTHER] += path[0].at_s - events[first].at_s
    ends: tuple[list[TraceEvent], list[TraceEvent]] = ([], [])
    for event in followed.values():
        ends[event.node != requester].append(event)
    return CallAccount(
        one_way_trips=sum(before.node != event.node for before, event in itertools.pairwise(path)),
        requester=_end_counts(ends[0], on_path),
        responder=_end_counts(ends[1], on_path),
        sends=counts["post send"],
        reads=counts["post rdma-read"],
        writes=counts["post rdma-write"],
        acknowledgements=counts["acknowledge"],
        acknowledgements_on_path=sum(event.kind is EventKind.ACKNOWLEDGE for event in path),
        messages=counts["leave"],
        octets=sum(event.octets for event in followed.values() if event.kind is EventKind.LEAVE),
        acknowledgement_octets=sum(event.octets for event in followed.values() if event.kind is EventKind.ACKNOWLEDGE),
        latency_s=events[last].at_s - events[first].at_s,
        parts_s=dict(parts),
        path=path,
        followed=list(followed.values()),
    )


def part_of(event: TraceEvent) -> str:
    """Returns the name of the part of a latency to which the time before `event` belongs.

    That is the time since the preceding event of the critical path. Names are "sending", "distance", "interrupts",
    "waiting", "registration", "invalidation", "copying", "server" and "other".
    """
    return _PARTS.get(event.kind, _OTHER)


def path_in_words(path: Sequence[TraceEvent]) -> str:
    """Returns a critical path as one line of text: its events, each with its microseconds since the first event."""
    node, words = "", []
    for event in path:
        place, node = ("" if event.node == node else f"{event.node} "), event.node
        words.append(f"{place}{event.kind.value} {round((event.at_s - path[0].at_s) * 1e6, 2):g}")
    return ", ".join(words)


def _shared_interrupt(events: Sequence[TraceEvent], arrival: TraceEvent, completion: TraceEvent) -> TraceEvent | None:
    """Returns the interrupt in progress that delivered a completion which has no interrupt of its own.

    The interrupt is the last one of the node before the completion. Returns None if there was none after the arrival:
    the completion waited for busy software. `events` is the whole trace, and `arrival` the event that caused
    `completion`.
    """
    for event in reversed(events[: completion.number]):
        if event.kind is EventKind.INTERRUPT and event.node == completion.node:
            return event if event.at_s > arrival.at_s else None
    return None


def _end_counts(events: Iterable[TraceEvent], on_path: Collection[int]) -> EndCounts:
    counts = Counter((event.kind, event.number in on_path) for event in events)
    return EndCounts(
        interrupts=counts[EventKind.INTERRUPT, True],
        interrupts_beside=counts[EventKind.INTERRUPT, False],
        registrations=counts[EventKind.REGISTER, True],
        registrations_beside=counts[EventKind.REGISTER, False],
        local_invalidations=counts[EventKind.INVALIDATE_LOCAL, True],
        local_invalidations_beside=counts[EventKind.INVALIDATE_LOCAL, False],
        remote_invalidations=counts[EventKind.INVALIDATE_REMOTE, True],
        remote_invalidations_beside=counts[EventKind.INVALIDATE_REMOTE, False],
    )


def _counted_as(event: TraceEvent) -> str:
    """Returns the name under which an event is counted: its kind, such as "leave"; for a post "post VERB"."""
    kind: str = event.kind.value
    return f"{kind} {event.text.partition(' ')[0]}" if event.kind is EventKind.POST else kind
