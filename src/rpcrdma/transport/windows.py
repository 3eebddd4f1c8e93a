"""Credits: how much may be sent before the peer has answered."""

from __future__ import annotations

from rpcrdma.limits import SPARE_RECEIVES
from rpcrdma.transport.message import Inbound, Kind, Outgoing

__all__ = ["CallWindow"]

_CALL, _REPLY = Kind.CALL, Kind.REPLY

_UNREPORTED_SENDS_MAX = 16
"""Sends whose end need not be known yet, since not every one reports it."""


class CallWindow:
    """Credits that count calls (RFC 8166 section 3.3.1): a reply gives back what its call took, and needs none itself.

    Of this side's calls `requested` is the most that it wants to have unanswered; `allowed`, the peer's word, never
    exceeds that and starts at one (RFC 8166 section 3.3.3). The peer may have `granted` calls unanswered; `promised`
    says that it may know so before it is told with the first reply.
    """

    __slots__ = ("_calls_expected", "allowed", "granted", "in_flight", "receives_wanted", "requested", "unanswered")

    counts_arrivals = False
    refresh_due = False
    balance = 0
    promises_left = 0

    def __init__(self, requested: int, granted: int, *, promised: bool) -> None:
        self.requested = requested
        self.granted = granted
        self.allowed = 1
        self.in_flight = 0
        self.unanswered = 0
        self._calls_expected = granted if promised else 1
        self.receives_wanted = self._calls_expected + SPARE_RECEIVES

    def admit(self, message: Outgoing) -> int | None:
        """A call waits while as many as allowed are unanswered; replies and errors carry the grant."""
        if message.kind is _CALL:
            if self.in_flight >= self.allowed:
                return None
            self.in_flight += 1
            self.receives_wanted += 1
            return self.requested
        if message.answers_call:
            self.unanswered -= 1
        if self._calls_expected != self.granted:
            self._calls_expected = self.granted
            self.receives_wanted = self.granted + self.in_flight + SPARE_RECEIVES
        return self.granted

    def admit_several(self, _first: Outgoing, _count: int) -> int | None:
        """Each call and each reply has a message of its own."""
        return None

    def admit_piece(self, message: Outgoing) -> int:
        """Credits count calls, however many messages one takes."""
        return self.requested if message.kind is _CALL else self.granted

    def take_back(self, message: Outgoing) -> None:
        """Only calls are counted: their memory may turn out to be unfit."""
        if message.kind is _CALL:
            self.in_flight -= 1
            self.receives_wanted -= 1

    def on_received(self, message: Inbound) -> bool:
        """An error gives its credit back, but grants nothing (RFC 8167 section 4.1).

        A grant of zero is illegal and counts as one, lest the connection stand still.
        """
        if message.kind is _CALL:
            self.unanswered += 1
            return self.unanswered <= self.granted
        self.in_flight -= 1
        self.receives_wanted -= 1
        if message.kind is _REPLY:
            self.allowed = min(message.credit_word, self.requested) or 1
        return True

    def on_arrival(self, _message: Inbound | None) -> bool:
        """Messages are not counted."""
        return True

    def widen(self, _promises: int) -> None:
        """A reply is one message."""

    def promise(self, _messages: int) -> None:
        """A reply is one message."""

    def on_promised(self) -> None:
        """A reply is one message."""

    def on_dropped(self) -> None:
        """The credit is lost to the peer, which nothing but an answer would give it back to."""

    def grant_word(self) -> int:
        """The grant stands in every header, and is never told by itself."""
        return self.granted

    def may_owe(self, sends: int) -> bool:
        """Twice as many as the peer may have calls unanswered, and this side has.

        The peer cannot have had answers that are still here, so that more of them than it has credits were not asked
        for in good faith. Twice that leaves room for Sends whose end is not reported one by one. This side's own calls
        may be waiting to be sent as well.
        """
        return sends <= 2 * (self.granted + self.in_flight) + _UNREPORTED_SENDS_MAX + SPARE_RECEIVES
