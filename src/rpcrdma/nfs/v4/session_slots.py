"""The slots of an NFSv4.1 session: each request runs at most once (RFC 8881 section 2.10.6).

A client numbers the requests of a slot one after another. The slot remembers the number of its newest request and the
reply to it, if the client has asked for that. `ANSWERS` decides what a request gets from the state of its slot and from
its number alone. The caller refuses a request that breaks a rule of its session before it looks at the slot, so that
the slot stays as it was.

The caller of `take` holds the lock of the state. `finish` needs none: nothing else changes a busy slot, and the state,
which frees it, is set last.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

__all__ = ["ANSWERS", "SEQUENCES", "Answer", "Number", "Slot", "SlotState"]

R = TypeVar("R")

SEQUENCES: Final = 1 << 32
"""The number of sequence numbers of a slot, which wrap to 0 (RFC 8881 section 2.10.6.1)."""


class SlotState(enum.Enum):
    """The state of the newest request of a slot."""

    # In C, since each SEQUENCE looks into tables by these.
    __hash__ = object.__hash__

    FRESH = "fresh"
    """No request has arrived."""
    BUSY = "busy"
    """The request runs."""
    KEPT = "kept"
    """The request was answered, and the slot keeps the reply."""
    NOT_KEPT = "not kept"
    """The request was answered, and the reply is not kept."""


class Number(enum.Enum):
    """The sequence number of a request, compared with that of the newest request of its slot."""

    # In C, since each SEQUENCE looks into tables by these.
    __hash__ = object.__hash__

    NEXT = "+1"
    SAME = "same"
    OTHER = "other"


class Answer(enum.Enum):
    """The treatment of a request, from the state of its slot and its sequence number (RFC 8881 section 2.10.6.1)."""

    RUN = "run"
    """The request is new: it runs."""
    REPEAT = "repeat"
    """The kept reply is sent again."""
    UNCACHED = "uncached"
    """The request has run, its reply is lost: NFS4ERR_RETRY_UNCACHED_REP at the second operation."""
    DELAY = "delay"
    """The request still runs: NFS4ERR_DELAY."""
    FALSE_RETRY = "false retry"
    """Another request has this number: NFS4ERR_SEQ_FALSE_RETRY."""
    MISORDERED = "misordered"
    """The number is neither the newest nor the next; or the next while the newest request runs; or 0 in a fresh slot:
    NFS4ERR_SEQ_MISORDERED."""


ANSWERS: Final[dict[tuple[SlotState, Number], Answer]] = {
    (SlotState.FRESH, Number.NEXT): Answer.RUN,
    # As if a request with the number 0 had been refused with this error.
    (SlotState.FRESH, Number.SAME): Answer.MISORDERED,
    (SlotState.FRESH, Number.OTHER): Answer.MISORDERED,
    (SlotState.BUSY, Number.NEXT): Answer.MISORDERED,
    (SlotState.BUSY, Number.SAME): Answer.DELAY,
    (SlotState.BUSY, Number.OTHER): Answer.MISORDERED,
    (SlotState.KEPT, Number.NEXT): Answer.RUN,
    (SlotState.KEPT, Number.SAME): Answer.REPEAT,
    (SlotState.KEPT, Number.OTHER): Answer.MISORDERED,
    (SlotState.NOT_KEPT, Number.NEXT): Answer.RUN,
    (SlotState.NOT_KEPT, Number.SAME): Answer.UNCACHED,
    (SlotState.NOT_KEPT, Number.OTHER): Answer.MISORDERED,
}
"""The answer by the state of the slot and the number of the request."""


# A name of a module costs a third of an attribute of an enumeration.
_NEXT, _SAME, _OTHER, _RUN = Number.NEXT, Number.SAME, Number.OTHER, Answer.RUN
_BUSY, _KEPT, _NOT_KEPT = SlotState.BUSY, SlotState.KEPT, SlotState.NOT_KEPT


class Slot(Generic[R]):
    """A slot of a session: the state of its newest request, and the reply to it, an `R`, if that is kept."""

    __slots__ = ("call", "reply", "sequence", "state")

    def __init__(self) -> None:
        self.state = SlotState.FRESH
        self.sequence = 0
        """The sequence number of the newest request; 0 before the first."""
        self.call: Hashable = None
        """The caller and the content of the newest request, by which a false retry is noticed."""
        self.reply: R | None = None
        """The reply to the newest request in the state KEPT; else None."""

    def take(self, sequence: int, call: Hashable) -> Answer:
        """Decides whether a request runs, gets the kept reply, or is refused; RUN makes the slot busy until `finish`.

        Any other answer leaves the slot as it is. For REPEAT the kept reply is in the attribute `reply`.

        Args:
            sequence: the sequence number of the request, 0 to 2**32 - 1.
            call: a value that identifies the caller and the content of the request. If it differs from the value of
                the request with the kept reply, the answer is FALSE_RETRY in place of REPEAT. None saves the
                computation for a request whose reply the client does not ask to keep. If the slot keeps a reply all the
                same, the answer is REPEAT without a comparison: the caller then computes the value, and compares it
                with the attribute `call` before it sends the kept reply.
        """
        newest = self.sequence
        if sequence == newest + 1 or (not sequence and newest == SEQUENCES - 1):
            number = _NEXT
        else:
            number = _SAME if sequence == newest else _OTHER
        answer = ANSWERS[self.state, number]
        if answer is _RUN:
            self.state, self.sequence, self.call, self.reply = _BUSY, sequence, call, None
        elif answer is Answer.REPEAT and call is not None and call != self.call:
            return Answer.FALSE_RETRY
        return answer

    def finish(self, reply: R | None, call: Hashable = None) -> None:
        """Ends the running request; keeps `reply` for a repeat, unless None. AssertionError unless the slot is BUSY.

        `call` identifies the request as in `take`: given if `take` got None and the reply is kept after all, as that
        of a call whose connection ended before it had run. None leaves the attribute `call` as it is.
        """
        assert self.state is _BUSY
        if call is not None:
            self.call = call
        self.reply = reply
        self.state = _NOT_KEPT if reply is None else _KEPT
