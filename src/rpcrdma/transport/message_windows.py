"""Credits that count messages (version 2): every Send takes one, in either direction, and headers give new ones.

What an endpoint lets its peer send, the messages `outstanding`, follows from calls: one message for each call that the
peer may still make, one for the answer to each of this side's own calls, and one over and above. A call thus brings the
credit for its answer along, an answer gives back the credit of its call, and while messages are single ones no credits
travel but in their headers. The further pieces of long messages, errors and what is discarded use up credits that come
back with the next header or, where there is none to come, with an asynchronous grant.

No word says how many calls the peer takes, but the sum does: credits at hand and calls in flight, less the answers owed
and the one over and above. The highest sum seen bounds the calls in flight; so the credits for answers are not used up
by calls, and whenever a message waits because no credit is left, the peer knows that, and has one to give.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from rpcrdma.limits import GRANTED_OCTETS_MAX, SPARE_RECEIVES, UNREAD_SENDS_MAX
from rpcrdma.transport.config import Role, TransportConfig
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing

__all__ = ["CREDITS_MAX", "CumulativeWindow", "IncrementalWindow", "calls_counted"]

CREDITS_MAX = 0xFFFF
"""The most that a 16-bit field can say."""

_OVER_AND_ABOVE = 1
"""Messages that a peer may send beyond its calls and its answers: pieces, and what belongs to no call."""

_UNTAUGHT = 1 + _OVER_AND_ABOVE
"""Credits at hand and calls in flight, less answers owed, are at most so many more than the calls that the peer is
known to take: after a call or a reply of one message, `_MessageWindow._count` then finds nothing new."""

_COUNTER_MASK = 0xFFFFFFFF
_COUNTER_HALF = 1 << 31

_CALL, _REPLY, _ERROR, _UNREADABLE, _PROPERTIES, _GRANT, _PIECE, _EXTENSION = (
    Kind.CALL,
    Kind.REPLY,
    Kind.ERROR,
    Kind.UNREADABLE,
    Kind.PROPERTIES,
    Kind.GRANT,
    Kind.PIECE,
    Kind.EXTENSION,
)


def calls_counted(config: TransportConfig, role: Role, *, reverse: bool) -> tuple[int, int]:
    """How many calls this side wants to have unanswered, and how many of the peer's it takes."""
    if role is Role.CLIENT:
        return config.credits_requested, config.reverse_credits_granted if reverse else 0
    # Each may come in a message of the largest size, and is held until it is answered.
    granted = max(1, min(config.credits_granted, GRANTED_OCTETS_MAX // config.offered_receive_octets))
    return config.reverse_credits_requested if reverse else 0, granted


class _MessageWindow(ABC):
    """What both ways of counting have in common; see the module.

    Of this side's calls `requested` is the most that it wants to have unanswered; `allowed` are as many as the peer was
    seen to take, and never less than one. Of the peer's, `granted` may be. `balance` messages may be sent; the peer may
    send `outstanding` ones as far as this side knows: some of them may be on their way. `errors_give`: the peer looks
    at the credits that come with an error.

    What every message passes, `admit`, `on_arrival` and `refresh_due`, calls nothing that it need not.
    """

    __slots__ = (
        "_arriving",
        "_balance_max",
        "_base",
        "_heard",
        "_last_given",
        "_learns",
        "_most_promised",
        "_pool",
        "_promises",
        "allowed",
        "balance",
        "granted",
        "in_flight",
        "outstanding",
        "receives_wanted",
        "requested",
        "unanswered",
    )

    counts_arrivals = True
    errors_give: ClassVar[bool]

    def __init__(self, requested: int, granted: int) -> None:
        self.requested = requested
        self.granted = granted
        self.allowed = 1
        self.in_flight = 0
        self.unanswered = 0
        self.balance = 1
        self.outstanding = 1
        self._heard = False
        self._arriving = False
        self._balance_max = 1
        self._last_given = 0
        # What the peer should be able to send while no calls are in flight.
        self._base = granted + _OVER_AND_ABOVE
        self._pool = min(requested + granted + _OVER_AND_ABOVE, CREDITS_MAX)
        self.receives_wanted = 2 + SPARE_RECEIVES
        self._promises = 0
        self._most_promised = 0
        self._learns = True

    def widen(self, promises: int) -> None:
        """Before the first message: so many credits beyond those for calls may be given at once for promises."""
        self._promises = promises
        self._pool = min(self._pool + promises, CREDITS_MAX)

    @property
    def promises_left(self) -> int:
        """How many messages of one reply beyond its first can be promised."""
        left, most = self._promises, self._most_promised
        return left if left <= most else (left + most) // 2

    def promise(self, messages: int) -> None:
        """The credits go with the next headers; those that are not used go back by giving fewer later.

        The reply goes out when its sender has all of them at once, and other messages of its sender may take some. They
        are replaced when half of all are gone, so that twice as many are given: what the longest reply needs is then
        always left, or on its way.
        """
        more = messages - self._most_promised
        if more > 0:
            self._most_promised = messages
            self._base += more
            self._promises -= more
        self._base += messages
        self._promises -= messages

    def on_promised(self) -> None:
        """Credits that are promised for one reply look like those for calls."""
        self._learns = False

    def admit(self, message: Outgoing) -> int | None:
        """Any message needs a credit, and a call may not be one too many for the peer."""
        if self.balance <= 0:
            return None
        kind = message.kind
        if kind is _CALL:
            if self.in_flight >= self.allowed:
                return None
            self.in_flight += 1
        elif message.answers_call:
            self.unanswered -= 1
        if kind is _ERROR and not self.errors_give:
            self._last_given = 0
            return self._word(0)
        # As a rule something is owed: what `_give` would give.
        wanted = self._base + self.in_flight - self.unanswered
        if not self.outstanding < wanted <= self._pool:
            return self._word(self._give())
        given = self._last_given = wanted - self.outstanding
        self.outstanding = wanted
        self.receives_wanted = wanted + 1 + SPARE_RECEIVES
        return self._word(given)

    def admit_several(self, first: Outgoing, count: int) -> int | None:
        """One credit for all: the peer keeps those that the others would have taken, and gives fewer later.

        Until then they look like those for calls.
        """
        if self.balance <= 0:
            return None
        self._learns = False
        if first.kind is _CALL:
            self.in_flight += count - 1
        else:
            self.unanswered -= count - 1
        return self.admit(first)

    def admit_piece(self, _message: Outgoing) -> int | None:
        """Nothing can go out before the rest of what has begun, so that any credit will do."""
        return self._word(self._give()) if self.balance > 0 else None

    def take_back(self, message: Outgoing) -> None:
        """Neither the credit nor those that the header would have given are gone."""
        if message.kind is _CALL:
            self.in_flight -= 1
        elif message.answers_call:
            self.unanswered += 1
        self.outstanding -= self._last_given
        self._last_given = 0
        self.receives_wanted = self.outstanding + 1 + SPARE_RECEIVES
        self._unspend()

    def on_received(self, message: Inbound) -> bool:
        """A peer that uses all of its credits for calls has this many unanswered, and cannot have more."""
        if message.kind is _CALL:
            self.unanswered += 1
            return self.unanswered <= self.granted + self.requested + _OVER_AND_ABOVE
        self.in_flight -= 1
        return True

    def on_dropped(self) -> None:
        """The credit of a call that is never answered goes back with others; the only one that there is has to wait."""
        self.unanswered -= 1

    def may_owe(self, sends: int) -> bool:
        """Twice what the peer ever let this side send at once, for not every Send's end is known at once."""
        return sends <= 2 * (min(self._balance_max, UNREAD_SENDS_MAX) + SPARE_RECEIVES)

    @property
    def owed(self) -> int:
        """Credits that the peer should have and was not given; never less than none, as they are not taken back."""
        return max(0, min(self._base + self.in_flight - self.unanswered, self._pool) - self.outstanding)

    @property
    def refresh_due(self) -> bool:
        """Whether an asynchronous grant should go out and finds a receive."""
        # As a rule the peer has more than half of what it should have: what `_refreshable` would find.
        if 2 * self.outstanding > self._base + self.in_flight - self.unanswered:
            return False
        return self._grant_passes and self._refreshable

    @property
    def _refreshable(self) -> bool:
        """Whether the peer may be waiting for credits, or soon will be; a connection does not begin with a grant.

        It has none left, or half of what it should have is owed: two at least, as nothing waits for a single one.
        """
        owed = self.owed
        return self._heard and owed > 0 and (self.outstanding <= 0 or (owed > 1 and owed >= self.outstanding))

    def _count(self, kind: Kind) -> None:
        """Learns how many calls the peer takes from the credits at hand after a message of a kind.

        That message ends a call or begins to wait for an answer, but that is not counted yet, and of a message in
        pieces it will not be before the last one.
        """
        if kind is _GRANT:
            uncounted = self._arriving
        else:
            self._arriving = kind is _PIECE
            uncounted = kind is not _PROPERTIES
        balance = self.balance
        self._balance_max = max(self._balance_max, balance)
        if kind is _EXTENSION or not self._learns:
            return
        taken = self.in_flight + balance - self.unanswered - uncounted - _OVER_AND_ABOVE
        if taken > self.allowed:
            self.allowed = min(taken, self.requested)

    def _give(self) -> int:
        """Gives what is owed."""
        given = self._last_given = self.owed
        self.outstanding += given
        self.receives_wanted = self.outstanding + 1 + SPARE_RECEIVES
        return given

    @property
    @abstractmethod
    def _grant_passes(self) -> bool:
        """Whether there is a receive for an asynchronous grant."""

    @abstractmethod
    def _word(self, given: int, /) -> int:
        """Takes one credit and makes the credit word of a header, in which so many are new."""

    @abstractmethod
    def _unspend(self) -> None:
        """Undoes the taking of one credit."""


def _gives(unreadable: Inbound) -> bool:
    """Whether a message that is refused has a credit word nevertheless: its sender has counted what it gave there."""
    refusal = unreadable.refusal
    return refusal is not None and refusal.cause not in {Cause.VERSION, Cause.VERSION_MISMATCH}


class IncrementalWindow(_MessageWindow):
    """Credit words of two halves: the most credits that can be outstanding, and those newly given.

    Grants take no credit: each side has a receive over and above for one. So the next one waits until the peer has used
    a credit that it cannot have had without the one before. `_unproven` messages prove that; 0 if it is proved.
    """

    __slots__ = ("_unproven", "_upper_half")
    errors_give = False

    def __init__(self, requested: int, granted: int) -> None:
        super().__init__(requested, granted)
        self._unproven = 0
        self._upper_half = self._pool << 16

    def widen(self, promises: int) -> None:
        super().widen(promises)
        self._upper_half = self._pool << 16

    def on_arrival(self, message: Inbound | None) -> bool:
        """The credit words of errors are ignored, and those of other versions mean something else."""
        self._heard = True
        kind = None if message is None else message.kind
        if kind is not _GRANT:
            if not self.outstanding:
                return False
            self.outstanding -= 1
            if self._unproven:
                self._unproven -= 1
        if message is not None and kind is not _ERROR and (kind is not _UNREADABLE or _gives(message)):
            self.balance = balance = self.balance + (message.credit_word & CREDITS_MAX)
            if (
                (kind is not _REPLY and kind is not _CALL)
                or self._arriving
                or balance > self._balance_max
                or self.in_flight + balance - self.unanswered > self.allowed + _UNTAUGHT
            ):
                self.balance = min(balance, CREDITS_MAX)
                self._count(message.kind)
        return True

    @property
    def _grant_passes(self) -> bool:
        return not self._unproven

    def grant_word(self) -> int:
        """The credit word of an asynchronous grant, whose credits then count as given."""
        self._unproven = self.outstanding + 1
        return self._upper_half | self._give()

    def _word(self, given: int, /) -> int:
        self.balance -= 1
        return self._upper_half | given

    def _unspend(self) -> None:
        self.balance += 1


class CumulativeWindow(_MessageWindow):
    """Credit words that say how many messages may have been sent since the connection began, modulo 2^32.

    Grants count as every Send, but one may go out when there is no credit left.
    """

    __slots__ = ("_received", "_sent")
    errors_give = True

    def __init__(self, requested: int, granted: int) -> None:
        super().__init__(requested, granted)
        self._sent = 0
        self._received = 0

    def on_arrival(self, message: Inbound | None) -> bool:
        """Each word replaces the one before, so that it may also take credits back."""
        self._heard = True
        kind = None if message is None else message.kind
        self._received += 1
        self.outstanding -= 1
        if self.outstanding < (-1 if kind is _GRANT else 0):
            return False
        if message is not None and (kind is not _UNREADABLE or _gives(message)):
            balance = (message.credit_word - self._sent) & _COUNTER_MASK
            if balance >= _COUNTER_HALF:
                balance -= _COUNTER_MASK + 1
            self.balance = balance
            if (
                (kind is not _REPLY and kind is not _CALL)
                or self._arriving
                or balance > self._balance_max
                or self.in_flight + balance - self.unanswered > self.allowed + _UNTAUGHT
            ):
                self._count(message.kind)
        return True

    @property
    def _grant_passes(self) -> bool:
        return self.balance >= 0

    def grant_word(self) -> int:
        """The credit word of an asynchronous grant, whose credits then count as given."""
        return self._word(self._give())

    def _word(self, _given: int, /) -> int:
        self.balance -= 1
        self._sent += 1
        return (self._received + self.outstanding) & _COUNTER_MASK

    def _unspend(self) -> None:
        self.balance += 1
        self._sent -= 1
