"""Credits: how many calls may be unanswered at once (RFC 8166 section 3.3.1)."""

from __future__ import annotations

__all__ = ["GrantedCredits", "RequestedCredits"]


class RequestedCredits:
    """A requester's account: `granted` never exceeds what it requests and starts at one (RFC 8166 section 3.3.3)."""

    __slots__ = ("granted", "in_flight", "requested")

    def __init__(self, requested: int) -> None:
        self.requested = requested
        self.granted = 1
        self.in_flight = 0

    @property
    def available(self) -> int:
        """Calls that may be sent now; negative where the responder has lowered its grant below what is in flight."""
        return self.granted - self.in_flight

    def on_grant(self, value: int) -> None:
        """Takes the value of a valid reply; zero is illegal and counts as one, lest the connection stand still."""
        self.granted = min(value, self.requested) or 1


class GrantedCredits:
    """A responder's account."""

    __slots__ = ("granted", "outstanding")

    def __init__(self, granted: int) -> None:
        self.granted = granted
        self.outstanding = 0

    def on_call(self) -> bool:
        """Counts an arriving call; False where the peer was not allowed to send it."""
        self.outstanding += 1
        return self.outstanding <= self.granted

    def on_answer(self) -> None:
        """Counts a reply or an error that is about to be sent."""
        self.outstanding -= 1
