"""The life of a call of this side, as data."""

from __future__ import annotations

import enum
from collections.abc import Mapping

__all__ = ["TRANSITIONS", "CallInput", "CallState"]


class CallState(enum.IntEnum):
    """How far a call has come. As a number, since the table is looked up twice for every call."""

    QUEUED = 0
    """It waits for a credit, or for the connection."""
    SENT = 1
    ABANDONED = 2
    """Sent, but its caller waits no more: its memory is fenced, its credit is held until the reply comes."""
    DONE = 3


class CallInput(enum.IntEnum):
    """What happens to a call."""

    SEND = 0
    ABANDON = 1
    REFUSE = 2
    """The peer did not run it; it may be sent again in another form."""
    END = 3
    """It was answered or refused for good, it cannot be sent, or the connection has ended."""


TRANSITIONS: Mapping[tuple[CallState, CallInput], CallState] = {
    (CallState.QUEUED, CallInput.SEND): CallState.SENT,
    (CallState.QUEUED, CallInput.ABANDON): CallState.DONE,
    (CallState.QUEUED, CallInput.END): CallState.DONE,
    (CallState.SENT, CallInput.ABANDON): CallState.ABANDONED,
    (CallState.SENT, CallInput.REFUSE): CallState.QUEUED,
    (CallState.SENT, CallInput.END): CallState.DONE,
    (CallState.ABANDONED, CallInput.ABANDON): CallState.ABANDONED,
    (CallState.ABANDONED, CallInput.END): CallState.DONE,
    (CallState.DONE, CallInput.ABANDON): CallState.DONE,
}
"""A pair that is missing cannot come about."""
