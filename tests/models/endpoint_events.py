"""The events of a real endpoint as the models of credits observe them."""

from __future__ import annotations

from collections.abc import Iterable

from model_replay import Observation
from rpcrdma.transport import CallArrived, CallFailed, EndpointEvent, IncomingCall, ReplyArrived, ReplySent

__all__ = ["observed_events"]


def observed_events(events: Iterable[EndpointEvent], taken: dict[int, IncomingCall]) -> list[Observation]:
    """Ends of calls, and calls of the peer, which are put into `taken`; no model expects another event."""
    observed: list[Observation] = []
    for event in events:
        match event:
            case ReplyArrived(call, _):
                observed.append(("answered", call.xid))
            case CallFailed(call, _):
                observed.append(("failed", call.xid))
            case CallArrived(incoming):
                observed.append(("taken", incoming.xid))
                taken[incoming.xid] = incoming
            case ReplySent():
                pass
            case _:
                observed.append(repr(event))
    return observed
