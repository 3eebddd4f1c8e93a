"""The life of a call of this side, as data."""

from __future__ import annotations

import enum
from collections.abc import Mapping

__all__ = ["TRANSITIONS", "CallInput", "CallState"]


class CallState(enum.IntEnum):
    """The state of a call of this side; a number, which makes the two look-ups in `TRANSITIONS` per call faster."""

    QUEUED = 0
    """The call waits for a credit, or for the connection."""
    SENT = 1
    """The call has gone out, and its reply is awaited."""
    ABANDONED = 2
    """Sent and given up: its memory is fenced, its credit is held until the reply arrives."""
    DONE = 3
    """The call has ended, and nothing of it is awaited."""


class CallInput(enum.IntEnum):
    """An event that changes the `CallState` of a call: it is sent, given up, refused or ended."""

    SEND = 0
    """The call goes out."""
    ABANDON = 1
    """The caller gives up."""
    REFUSE = 2
    """The peer refused the call, or its reply found no room; the call is to be sent again in another form."""
    END = 3
    """The call was answered or finally refused, cannot be sent, or lost its connection."""


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
"""The next state of a call for each state and input; other pairs cannot occur."""
