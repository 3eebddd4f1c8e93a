"""From the connection of the provider to one on which calls are made, and to its end: states as data."""

from __future__ import annotations

import enum
from collections.abc import Mapping

__all__ = ["TRANSITIONS", "Input", "State"]


class State(enum.IntEnum):
    """How far a connection has come. As a number, since tables are looked up by it."""

    CONNECTING = 0
    OPEN = 1
    BROKEN = 2
    """The peer broke the protocol: nothing is taken any more."""
    CLOSED = 3


class Input(enum.IntEnum):
    """What moves it on."""

    ESTABLISHED = 0
    """The provider's connection stands, and what was said meanwhile is all there is to agree on."""
    BREAK = 1
    END = 2
    """The provider's connection has ended, and all that had arrived was taken."""


TRANSITIONS: Mapping[tuple[State, Input], State] = {
    (State.CONNECTING, Input.ESTABLISHED): State.OPEN,
    (State.CONNECTING, Input.BREAK): State.BROKEN,
    (State.CONNECTING, Input.END): State.CLOSED,
    (State.OPEN, Input.BREAK): State.BROKEN,
    (State.OPEN, Input.END): State.CLOSED,
    (State.BROKEN, Input.BREAK): State.BROKEN,
    (State.BROKEN, Input.END): State.CLOSED,
}
"""A pair that is missing cannot come about."""
