"""Credits of version 2, which count messages: every Send takes one, in either direction, and headers grant new ones.

An endpoint derives the number of messages that its peer may have `outstanding` from the calls of both sides: one
message for each call that the peer may still make, one for the reply to each call of this side, and one spare message.
A call thus grants the credit for its reply, and a reply returns the credit of its call. While every message fits one
Send, all credits travel in the headers of calls and replies. Further pieces of long messages, errors and discarded
messages also take credits. The next header returns those, or an asynchronous grant if no header is due.

No field says how many calls the peer takes, but a sum does: the balance of credits plus the calls in flight, less the
replies owed and the spare message. The highest sum seen bounds the calls in flight. Calls therefore never use up the
credits for replies, and if a message waits because no credit is left, the peer knows it and has one to grant.
"""

from __future__ import annotations

from rpcrdma.limits import ABANDONED_CALLS_MAX, GRANTED_OCTETS_MAX, SPARE_RECEIVES, UNREAD_SENDS_MAX
from rpcrdma.transport.config import Role, TransportConfig
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing

__all__ = ["CREDITS_MAX", "MessageWindow", "calls_counted"]

CREDITS_MAX = 0xFFFF
"""The largest value of a 16-bit credit field."""

_SPARE = 1
"""Messages that a peer may send beyond its calls and replies: pieces, and messages that belong to no call."""

_KNOWN_SURPLUS = 1 + _SPARE
"""After a call or a reply of one message, the credit balance plus the calls in flight, less the replies owed, exceeds
the number of calls that the peer is known to take by at most this: `MessageWindow._count` would learn nothing new."""

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
    """Computes the two limits of unanswered calls with which the `MessageWindow` of a connection begins.

    `config`: has the numbers of calls to request and to grant. `role`: the role of this end. `reverse`: whether the
    server makes calls as well. Returns (the most calls that this side wants to have unanswered, the most that it takes
    from the peer), each 0 in a direction without calls. A server takes fewer than configured, but at least one, if
    messages of so many calls could have more than GRANTED_OCTETS_MAX octets.
    """
    if role is Role.CLIENT:
        return config.credits_requested, config.reverse_credits_granted if reverse else 0
    # Each call may come in a message of the largest size, which stays in memory until the call is answered.
    granted = max(1, min(config.credits_granted, GRANTED_OCTETS_MAX // config.offered_receive_octets))
    return config.reverse_credits_requested if reverse else 0, granted


class MessageWindow:
    """Counts the credits of version 2, where each message takes a credit.

    The upper half of a credit word is the most credits that the peer can have at once, the lower half the number newly
    granted. A message that only grants credits takes none: each side keeps a spare receive for one such message. The
    next such message therefore waits until the peer has used a credit of the previous one, which has then arrived.
    `_unproven` is the number of messages that the peer must still send until this arrival is certain; 0: it is certain.

    Of this side's calls `in_flight` are unanswered; at most `requested` should be, to which `on_abandoned` adds the
    number of those given up, and `allowed` is the number that the peer was seen to take, at least one. Of the peer's
    calls `unanswered` are unanswered, and `granted` may be. This side may send `balance` messages. The peer may send
    `outstanding` messages as far as this side knows; some of them may be on their way. `reservable` is the most
    messages for which `reserve` may add credits to those of calls and replies at any time. `low`: the peer may have at
    most half of its credits left, so `refresh_due` may be True.

    `admit` and `on_arrival` run for every message, so they avoid calls of other functions.
    """

    __slots__ = (
        "_abandoned",
        "_arriving",
        "_balance_max",
        "_base",
        "_heard",
        "_learns",
        "_pool",
        "_unproven",
        "_upper_half",
        "allowed",
        "balance",
        "granted",
        "in_flight",
        "low",
        "outstanding",
        "receives_wanted",
        "requested",
        "unanswered",
    )

    counts_arrivals = True

    def __init__(self, requested: int, granted: int, reservable: int = 0) -> None:
        self.requested = requested
        self.granted = granted
        self.allowed = 1
        self.in_flight = 0
        self.unanswered = 0
        self.balance = 1
        self.outstanding = 1
        self._abandoned = 0
        self._heard = False
        self._arriving = False
        self._balance_max = 1
        # Messages that the peer should be able to send while no calls are in flight.
        self._base = granted + _SPARE
        self._pool = min(requested + granted + _SPARE + reservable, CREDITS_MAX)
        self.receives_wanted = 2 + SPARE_RECEIVES
        self.low = True
        self._learns = True
        self._unproven = 0
        self._upper_half = self._pool << 16

    def reserve(self, messages: int) -> None:
        """Changes the number of messages that the peer may send beyond calls and replies by `messages`.

        A positive number adds credits, which the next headers grant. A negative number ends a reservation but takes no
        credits back: later headers grant fewer. The caller keeps the sum of all `messages` from 0 to `reservable`; this
        is unchecked. Credits beyond the most that the peer can have at once are never granted.
        """
        self._base += messages
        self.low = True

    def stop_learning(self) -> None:
        """Fixes `allowed`, the most unanswered calls of this side, at its present value.

        For connections on which later credits of the peer are not only for calls.
        """
        self._learns = False

    def admit(self, message: Outgoing) -> int:
        """Spends a credit for a message, counts a call or reply, and grants the credits that the peer should have.

        The credit word of an error grants none: `low` becomes True, so that a grant may follow. Returns the credit word
        for the message's header.
        """
        kind = message.kind
        if kind is _CALL:
            self.in_flight += 1
        elif message.answers_call:
            self.unanswered -= 1
        self.balance -= 1
        if kind is _ERROR:
            self.low = True
            return self._upper_half
        # The usual case of `_give`, without the call: some credits are owed.
        wanted = self._base + self.in_flight - self.unanswered
        given = wanted - self.outstanding
        if given <= 0 or wanted > self._pool:
            return self._upper_half | self._give()
        self.outstanding = wanted
        self.receives_wanted = wanted + 1 + SPARE_RECEIVES
        return self._upper_half | given

    def admit_several(self, first: Outgoing, count: int) -> int:
        """Spends one credit for a message with several calls, or several replies, and counts all of them.

        This side keeps the credits that separate messages would have taken, until the peer grants fewer. As `allowed`
        is learnt from the number of credits, which is now too large, it stays at its present value. `first`: one of the
        calls or replies. `count`: their number. Returns the credit word for the message's header.
        """
        self._learns = False
        if first.kind is _CALL:
            self.in_flight += count - 1
        else:
            self.unanswered -= count - 1
        return self.admit(first)

    def admit_piece(self, _message: Outgoing) -> int:
        """Spends a credit, which `balance` must have, for a further piece of a message; grants all `owed` credits.

        Between the pieces the caller must send no other message, except one that only grants credits. Returns the
        credit word for the piece's header.
        """
        self.balance -= 1
        return self._upper_half | self._give()

    def on_arrival(self, message: Inbound | None) -> bool:
        """Takes a credit from the peer for a received message, and adds the credits in its header to `balance`.

        A message that only grants credits takes none. The headers of errors, of messages in other versions, and of
        discarded messages add no credits. `message`: the message; None for one that is silently discarded. Returns
        False, with no credits counted, if the peer had no credit for the message.
        """
        self._heard = True
        kind = None if message is None else message.kind
        if kind is not _GRANT:
            if not self.outstanding:
                return False
            self.outstanding = outstanding = self.outstanding - 1
            self.low = 2 * outstanding <= self._base + self.in_flight - self.unanswered
            if self._unproven:
                self._unproven -= 1
        if message is not None and kind is not _ERROR and (kind is not _UNREADABLE or _gives(message)):
            self.balance = balance = self.balance + (message.credit_word & CREDITS_MAX)
            if (
                (kind is not _REPLY and kind is not _CALL)
                or self._arriving
                or balance > self._balance_max
                or self.in_flight + balance - self.unanswered > self.allowed + _KNOWN_SURPLUS
            ):
                self.balance = min(balance, CREDITS_MAX)
                self._count(message.kind)
        return True

    def on_received(self, message: Inbound) -> bool:
        """Counts a call of the peer, or the end of a call of this side by a reply or an error.

        Returns False if the peer has more unanswered calls than the most credits that it can have at once; a peer that
        keeps to its credits never has.
        """
        if message.kind is _CALL:
            self.unanswered += 1
            return self.unanswered <= self._pool
        self.in_flight -= 1
        self.low = 2 * self.outstanding <= self._base + self.in_flight - self.unanswered
        return True

    def on_dropped(self) -> None:
        """Counts a call of the peer that gets no reply as ended.

        The credit of the call is granted again along with others, since a single owed credit waits for further ones.
        """
        self.unanswered -= 1
        self.low = True

    def on_abandoned(self, calls: int) -> bool:
        """Counts `calls` of this side, sent and unanswered, as given up; a negative number: as ended after all.

        Others take their place if the peer grants credits for them, which shows that it has dropped calls. Returns
        whether more than ABANDONED_CALLS_MAX calls that were given up are unanswered.
        """
        self._abandoned += calls
        self.requested += calls
        self.allowed = min(self.allowed, self.requested)
        self._count(_GRANT)
        return self._abandoned > ABANDONED_CALLS_MAX

    def may_owe(self, sends: int) -> bool:
        """Returns whether a correct peer may have left `sends` Sends of this side without a known completion.

        The bound is twice the most credits that this side had at any time, or twice UNREAD_SENDS_MAX if that is less,
        with a margin, since completions may be late.
        """
        return sends <= 2 * (min(self._balance_max, UNREAD_SENDS_MAX) + SPARE_RECEIVES)

    @property
    def owed(self) -> int:
        """The number of credits that the peer should have and that were not granted yet; at least 0."""
        return max(0, min(self._base + self.in_flight - self.unanswered, self._pool) - self.outstanding)

    @property
    def refresh_due(self) -> bool:
        """Whether a message that only grants credits should be sent now: the peer has no credits, or soon has none.

        False until the peer has used a credit of the previous such message, as it has a receive for one at a time.
        False while the attribute `low` is False.
        """
        return not self._unproven and self._refreshable

    @property
    def _refreshable(self) -> bool:
        """Whether the peer may wait for credits, or soon will; False until a message has arrived.

        True if credits are owed and the peer has none left, or if at least two are owed and the peer has at most as
        many left as are owed.
        """
        owed = self.owed
        return self._heard and owed > 0 and (not self.outstanding or (owed > 1 and owed >= self.outstanding))

    def grant_word(self) -> int:
        """Returns the credit word of a message that only grants credits, and counts the owed credits as granted.

        `refresh_due` is False from then on until the peer has used one of these credits.
        """
        self._unproven = self.outstanding + 1
        return self._upper_half | self._give()

    def _count(self, kind: Kind) -> None:
        """Raises `allowed`, the number of calls that the peer takes, if this side has credits for more calls than that.

        The credits are those left (`balance`) after a received message and those of calls in flight, less those that
        replies will take; `allowed` rises at most to `requested`. `kind`: the kind of the received message. This
        method allows for the message's call or reply, since `on_received` runs later, after the last piece: until then
        `unanswered` lacks a received call, and `in_flight` has the call of a received reply.
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
        taken = self.in_flight + balance - self.unanswered - uncounted - _SPARE
        if taken > self.allowed:
            self.allowed = min(taken, self.requested)

    def _give(self) -> int:
        """Counts the owed credits as granted, updates `receives_wanted`, and returns the number of these credits."""
        given = self.owed
        self.outstanding += given
        self.receives_wanted = self.outstanding + 1 + SPARE_RECEIVES
        return given


def _gives(unreadable: Inbound) -> bool:
    """Returns whether the credit word of an unreadable message counts: its version is that of the connection."""
    refusal = unreadable.refusal
    return refusal is not None and refusal.cause is not Cause.VERSION
