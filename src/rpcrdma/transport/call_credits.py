"""Credits of version 1, which count calls (RFC 8166 section 3.3.1)."""

from __future__ import annotations

import sys

from rpcrdma.limits import SPARE_RECEIVES
from rpcrdma.transport.message import Inbound, Kind, Outgoing

__all__ = ["CallWindow"]

_CALL, _REPLY = Kind.CALL, Kind.REPLY

_UNREPORTED_SENDS_MAX = 16
"""Sends whose completion may be unknown, since only some Sends report it."""


class CallWindow:
    """Counts the credits of version 1: a call takes a credit, and its reply returns it; a reply needs none.

    This side asks for `requested` unanswered calls, and `in_flight` are unanswered. The peer permits `allowed` of them,
    which never exceeds `requested` and starts at one (RFC 8166 section 3.3.3). This side permits the peer `granted`
    calls, of which `unanswered` have arrived. `receives_wanted` receives must be posted. `promised`: the peer may make
    all granted calls before the first reply has stated their number, not only one.
    """

    __slots__ = ("allowed", "granted", "in_flight", "receives_wanted", "requested", "unanswered")

    counts_arrivals = False
    low = refresh_due = False
    balance = sys.maxsize

    def __init__(self, requested: int, granted: int, *, promised: bool) -> None:
        self.requested = requested
        self.granted = granted
        self.allowed = 1
        self.in_flight = 0
        self.unanswered = 0
        # A peer makes one call until a reply has brought it the grant.
        self.receives_wanted = (granted if promised else 1) + SPARE_RECEIVES

    def admit(self, message: Outgoing) -> int:
        """Counts a message that is about to be sent: a call as in flight, a reply or refusal as the end of the peer's.

        Returns the credit word of its header: the calls requested, in a call; the calls granted, in other messages.
        """
        if message.kind is _CALL:
            self.in_flight += 1
            self.receives_wanted += 1
            return self.requested
        if message.answers_call:
            self.unanswered -= 1
        self.receives_wanted = self.granted + self.in_flight + SPARE_RECEIVES
        return self.granted

    def admit_several(self, first: Outgoing, _count: int) -> int:
        """Raises AssertionError: no extension joins several calls or replies of version 1 in one message."""
        raise AssertionError(f"version 1 sends each {first.kind.name.lower()} in a message of its own")

    def admit_piece(self, message: Outgoing) -> int:
        """Raises AssertionError: no message of version 1 is continued in further pieces."""
        raise AssertionError(f"version 1 sends each {message.kind.name.lower()} in one message")

    def on_received(self, message: Inbound) -> bool:
        """Counts a call of the peer, or the end of a call of this side by a reply or an error.

        A reply sets `allowed` to its grant, at most `requested`; an illegal grant of zero counts as one, so that the
        connection does not stall. An error ends its call but grants nothing (RFC 8167 section 4.1). Returns False for a
        call with which the peer has more unanswered calls than were granted, else True.
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
        """Returns True, as for a peer that has a credit: version 1 counts calls, and no single messages."""
        return True

    def reserve(self, _messages: int) -> None:
        """Does nothing: version 1 has no extensions, so every reply is one message."""

    def stop_learning(self) -> None:
        """Does nothing: the limit on calls is not learned, since each reply states how many calls the peer permits."""

    def on_dropped(self) -> None:
        """Does nothing for a call left unanswered: only a reply returns the call's credit, so the peer has one less."""

    def on_abandoned(self, _calls: int) -> bool:
        """Returns False: calls that are given up keep their credits until a reply, so that the credits bound them."""
        return False

    def grant_word(self) -> int:
        """Returns the credit word of a header to the peer: the number of unanswered calls granted."""
        return self.granted

    def may_owe(self, sends: int) -> bool:
        """Returns whether `sends` Sends of this side may lack a known completion although the peer receives messages.

        Such Sends are replies to the calls granted to the peer, or this side's calls in flight. The bound is twice
        their number, because not every Send reports its completion, and a margin.
        """
        return sends <= 2 * (self.granted + self.in_flight) + _UNREPORTED_SENDS_MAX + SPARE_RECEIVES
