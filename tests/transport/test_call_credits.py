"""Credits that count calls, in either direction."""

from __future__ import annotations

from rpcrdma.limits import SPARE_RECEIVES
from rpcrdma.transport.call_credits import CallWindow
from rpcrdma.transport.chunks import NO_CHUNKS
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing, OutgoingError, Refusal
from window_space import admitted


class Call(Outgoing):
    kind = Kind.CALL


class Reply(Outgoing):
    kind = Kind.REPLY


CALL = Call(1, answers_call=False)
REPLY = Reply(1, answers_call=True)


def received(kind: Kind, credit_word: int = 0) -> Inbound:
    return Inbound(kind, 1, credit_word, 1, NO_CHUNKS)


def requester(requested: int, granted: int) -> CallWindow:
    """One that has been granted so many calls, and has none in flight."""
    window = CallWindow(requested, 0, promised=False)
    assert window.admit(CALL) == requested
    assert window.on_received(received(Kind.REPLY, granted))
    return window


def usable(window: CallWindow) -> int:
    """Calls that may be sent now."""
    count = 0
    while admitted(window, CALL) is not None:
        count += 1
    return count


def test_illegal_grant_of_zero_counts_as_one() -> None:
    window = requester(32, 8)
    assert admitted(window, CALL) is not None
    assert window.on_received(received(Kind.REPLY, 0))
    assert usable(window) == 1


def test_responder_counts_what_is_not_answered() -> None:
    window = CallWindow(1, 2, promised=False)
    call = received(Kind.CALL)
    assert window.on_received(call)
    assert window.on_received(call)
    assert not window.on_received(call)
    assert window.admit(REPLY) == 2
    assert window.admit(OutgoingError(1, 1, Refusal(Cause.HEADER), answers_call=True)) == 2
    assert window.on_received(call)
    assert not window.on_received(call)


def test_receives_are_wanted_for_what_was_granted_and_for_each_reply() -> None:
    window = CallWindow(4, 10, promised=False)
    assert window.receives_wanted == 1 + SPARE_RECEIVES, "the peer does not know its grant yet"
    assert window.admit(CALL) == 4
    assert window.receives_wanted == 2 + SPARE_RECEIVES
    assert window.admit(REPLY) == 10
    assert window.receives_wanted == 11 + SPARE_RECEIVES
    assert window.on_received(received(Kind.REPLY, 4))
    assert window.receives_wanted == 10 + SPARE_RECEIVES
    assert CallWindow(4, 10, promised=True).receives_wanted == 10 + SPARE_RECEIVES
