"""From the connection of the provider to one on which calls are made, and to its end: states as data."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from rpcrdma.transport.message import Kind

__all__ = ["MAY_LEAVE", "TRANSITIONS", "Input", "State"]


class State(enum.IntEnum):
    """How far a connection has come. As a number, since tables are looked up by it."""

    CONNECTING = 0
    SETTLING = 1
    """The provider's connection stands; the client lets some time pass before its first message."""
    AWAITING = 2
    """Server: the client's first message chooses the version."""
    INTRODUCING = 3
    """The version is known, or tried (client); the peer's transport properties are still to come."""
    AUTHENTICATING = 4
    """The hosts prove to each other who they are."""
    OPEN = 5
    BROKEN = 6
    """The peer broke the protocol: nothing is taken any more."""
    CLOSED = 7


class Input(enum.IntEnum):
    """What moves it on."""

    SETTLE = 0
    """The provider's connection stands, and has to be left alone for a while."""
    AWAIT = 1
    """Server: it stands, and the client may speak one of several versions."""
    INTRODUCE = 2
    """Client: it sends the first message. Server: the first message has come, more of it is to follow."""
    AUTHENTICATE = 3
    """Properties are known, and both hosts take part in authentication."""
    AGREE = 4
    """All is said that there is to agree on."""
    BREAK = 5
    END = 6
    """The provider's connection has ended, and all that had arrived was taken."""


_NEXT: Mapping[State, Mapping[Input, State]] = {
    State.CONNECTING: {
        Input.SETTLE: State.SETTLING,
        Input.AWAIT: State.AWAITING,
        Input.INTRODUCE: State.INTRODUCING,
        Input.AGREE: State.OPEN,
    },
    State.SETTLING: {Input.INTRODUCE: State.INTRODUCING, Input.AGREE: State.OPEN},
    State.AWAITING: {
        Input.INTRODUCE: State.INTRODUCING,
        Input.AUTHENTICATE: State.AUTHENTICATING,
        Input.AGREE: State.OPEN,
    },
    State.INTRODUCING: {Input.AUTHENTICATE: State.AUTHENTICATING, Input.AGREE: State.OPEN},
    State.AUTHENTICATING: {Input.AGREE: State.OPEN},
    State.OPEN: {},
    State.BROKEN: {},
}

TRANSITIONS: Mapping[tuple[State, Input], State] = {
    (state, moved): following
    for state, own in _NEXT.items()
    for moved, following in {**own, Input.BREAK: State.BROKEN, Input.END: State.CLOSED}.items()
}
"""A pair that is missing cannot come about."""

_BEFORE_CALLS = frozenset({Kind.PROPERTIES, Kind.GRANT, Kind.ERROR})

MAY_LEAVE: Mapping[State, frozenset[Kind]] = {
    State.CONNECTING: frozenset(),
    State.SETTLING: frozenset(),
    State.AWAITING: frozenset({Kind.ERROR}),
    State.INTRODUCING: _BEFORE_CALLS,
    State.AUTHENTICATING: _BEFORE_CALLS,
    State.OPEN: frozenset(Kind),
    State.BROKEN: frozenset(),
    State.CLOSED: frozenset(),
}
"""What may be sent in which state; other messages wait."""
