"""The life of an iWARP connection as a table.

A (state, input) pair that the table lacks cannot come from this side; from the peer it is a protocol error. CLOSED is
final.
"""

from __future__ import annotations

import enum

__all__ = ["STARTING", "TRANSITIONS", "Input", "State"]


class State(enum.Enum):
    """The state of an iWARP connection at one end."""

    AWAITING_REPLY = "awaiting the peer's Reply"
    """Initiator: the Request has been sent, or is being sent."""
    AWAITING_REQUEST = "awaiting the peer's Request"
    REQUESTED = "asked for a connection"
    """Responder: the upper layer decides."""
    REPLYING = "sending the Reply"
    AWAITING_READY = "awaiting the ready-to-receive frame"
    """Responder of the peer-to-peer model."""
    MUTE = "connected, awaiting the first FPDU"
    """Responder: may send only after the initiator did (RFC 5044 section 7.1.2)."""
    OPEN = "connected"
    DRAINING = "disconnecting"
    """Work posted before `disconnect` is being sent."""
    LAST_WORDS = "sending the last message"
    """`Disconnected` has been reported; a Terminate or a rejecting Reply is being sent."""
    CLOSED = "closed"


class Input(enum.Enum):
    """An event that changes the `State` of an iWARP connection at one end."""

    REPLY_ACCEPTED = "an accepting Reply"
    """Initiator: the peer's Reply has arrived, and accepts the connection."""
    REQUEST = "a Request"
    """Responder: the peer's Request has arrived."""
    ACCEPT = "accept"
    """Responder: the upper layer accepts the connection."""
    REJECT = "reject"
    """Responder: the upper layer rejects the connection."""
    REPLY_OUT = "Reply sent"
    """Responder: the accepting Reply is sent, and no ready-to-receive frame was agreed."""
    REPLY_OUT_PEER_TO_PEER = "Reply sent, an RTR frame is due"
    """Responder: the accepting Reply is sent, and the peer must send a ready-to-receive (RTR) frame."""
    FPDU = "first valid FPDU"
    """Responder: the first valid FPDU of the peer has arrived."""
    DISCONNECT = "disconnect"
    """The upper layer ends the connection after the work that it has posted."""
    FAULT = "an error to be told to the peer"
    """A fault of either side ends the connection, and a Terminate reports it to the peer."""
    LAST_WORDS_OUT = "last message sent"
    """The Terminate or the rejecting Reply is sent."""
    END = "end"
    """The end of the connection, for any reason, with nothing more to send; what is unsent is dropped."""


STARTING = {
    State.AWAITING_REPLY: "no MPA start-up frame from the peer",
    State.AWAITING_REQUEST: "no MPA start-up frame from the peer",
    State.REQUESTED: "this side sent no MPA Reply",
    State.REPLYING: "this side sent no MPA Reply",
    State.AWAITING_READY: "no ready-to-receive frame from the peer",
}
"""The states of the start-up, whose time is limited, and what has not happened in each when the time is over."""

_ENDABLE = [state for state in State if state is not State.CLOSED]

TRANSITIONS: dict[tuple[State, Input], State] = {
    (State.AWAITING_REPLY, Input.REPLY_ACCEPTED): State.OPEN,
    (State.AWAITING_REPLY, Input.FAULT): State.LAST_WORDS,
    (State.AWAITING_REQUEST, Input.REQUEST): State.REQUESTED,
    (State.REQUESTED, Input.ACCEPT): State.REPLYING,
    (State.REQUESTED, Input.REJECT): State.LAST_WORDS,
    (State.REPLYING, Input.REPLY_OUT): State.MUTE,
    (State.REPLYING, Input.REPLY_OUT_PEER_TO_PEER): State.AWAITING_READY,
    (State.AWAITING_READY, Input.FPDU): State.OPEN,
    (State.AWAITING_READY, Input.FAULT): State.LAST_WORDS,
    (State.MUTE, Input.FPDU): State.OPEN,
    (State.OPEN, Input.DISCONNECT): State.DRAINING,
    (State.OPEN, Input.FAULT): State.LAST_WORDS,
    (State.DRAINING, Input.FAULT): State.LAST_WORDS,
    (State.LAST_WORDS, Input.LAST_WORDS_OUT): State.CLOSED,
    **{(state, Input.END): State.CLOSED for state in _ENDABLE},
}
