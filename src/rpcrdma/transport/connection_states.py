"""The states of a connection from its establishment by the provider to its end, as data."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from rpcrdma.transport.message import Kind

__all__ = ["MAY_LEAVE", "TRANSITIONS", "Input", "State"]


class State(enum.IntEnum):
    """The state of a connection, from its establishment by the provider to its end.

    It is a number, because tables are indexed by it.
    """

    CONNECTING = 0
    """The provider connects."""
    SETTLING = 1
    """The provider has connected; the client waits before its first message."""
    AWAITING = 2
    """Server: the client's first message chooses the version."""
    INTRODUCING = 3
    """The version is known, or tried (client); the properties of the peer are awaited."""
    AUTHENTICATING = 4
    """The hosts authenticate each other."""
    OPEN = 5
    """The agreement is complete: every kind of message may leave."""
    BROKEN = 6
    """After `Input.BREAK`, such as a violation of the protocol: the connection ends, further messages are ignored."""
    CLOSED = 7
    """The provider's connection has ended."""


class Input(enum.IntEnum):
    """An event that changes the `State` of a connection."""

    SETTLE = 0
    """The provider has connected, and the client has to wait."""
    AWAIT = 1
    """Server: the provider has connected, and the client may choose one of several versions."""
    INTRODUCE = 2
    """Client: it sends the first message. Server: the first message has arrived, more are to follow."""
    AUTHENTICATE = 3
    """Properties are known, and both hosts take part in authentication."""
    AGREE = 4
    """The agreement is complete."""
    BREAK = 5
    """A violation of the protocol, or another fault that no message can answer, or host authentication failed."""
    END = 6
    """The provider's connection has ended, and all arrived messages are handled."""


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
"""The next state of a connection for each state and input; other pairs cannot occur."""

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
"""The kinds of message that may be sent in each state of the connection; others wait."""
