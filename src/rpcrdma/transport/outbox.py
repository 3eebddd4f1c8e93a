"""The only gate for Sends: what may go out, in which order, and what becomes of it.

A message goes out when the window admits it and no message waits that goes first: errors, then replies, then calls.
What it consists of, memory registered and RDMA Writes posted, is prepared at that moment and not before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from rpcrdma.errors import LocalProtocolError
from rpcrdma.transport.calls import IncomingCall, OutgoingReply
from rpcrdma.transport.message import Kind, Outgoing
from rpcrdma.transport.negotiation import State
from rpcrdma.transport.receive_buffers import ReceiveBuffers
from rpcrdma.transport.session import Session
from rpcrdma.wire.buffers import Buffer

__all__ = ["JOIN_OCTETS_MAX", "UNFINISHED_SELDOM", "Outbox", "Preparer", "SendMark"]

JOIN_OCTETS_MAX = 4096
"""Up to here one copied buffer costs less than two entries of a gather list, each with its own checksum call."""

_SIGNAL_EVERY = 16
"""One Send in so many reports its completion, which stands for those before it."""

UNFINISHED_SELDOM = 24
"""Sends whose end is not known, above which the window is asked whether the peer reads: never fewer are too many."""

_ORDER = (Kind.ERROR, Kind.REPLY, Kind.CALL)
"""Calls go last: what answers the peer's calls lets it go on."""


class Preparer(Protocol):
    """Whose messages of one kind are."""

    def prepare(self, message: Outgoing) -> Sequence[Buffer]:
        """What follows the header; the message's `chunks` and `long` are then settled.

        Raises:
            LocalProtocolError: it cannot be sent at all.
        """

    def on_unsendable(self, message: Outgoing, error: LocalProtocolError, /) -> None:
        """The message had to wait, and then could not be sent."""


class SendMark:
    """The work request of a signaled Send: it is the `count`th one, and `incoming` waits for its end."""

    __slots__ = ("count", "incoming")

    def __init__(self, count: int, incoming: IncomingCall | None) -> None:
        self.count = count
        self.incoming = incoming


class Outbox:
    """Of one connection. `queued` messages wait.

    `posted` and `ended` count Sends, of which the end of some is known late.
    """

    __slots__ = ("_preparers", "_queues", "_receives", "_session", "ended", "posted", "queued")

    def __init__(self, session: Session, receives: ReceiveBuffers) -> None:
        self._session = session
        self._receives = receives
        self._preparers: list[Preparer | None] = [None] * len(Kind)
        self._queues: dict[Kind, deque[Outgoing]] = {kind: deque() for kind in _ORDER}
        self.queued = 0
        self.posted = 0
        self.ended = 0

    def serve(self, preparer: Preparer, *kinds: Kind) -> None:
        """Messages of these kinds are the preparer's."""
        for kind in kinds:
            self._preparers[kind] = preparer

    def send(self, message: Outgoing) -> bool:
        """Sends a message as soon as may be; False if it waits.

        Raises:
            LocalProtocolError: it could go out, but cannot be sent at all.
        """
        session = self._session
        if session.state is State.OPEN and not (self.queued and self._must_wait(message)):
            credit_word = session.window.admit(message)
            if credit_word is not None:
                self._post(message, credit_word)
                return True
        self._queues[message.kind].append(message)
        self.queued += 1
        return False

    def _must_wait(self, message: Outgoing) -> bool:
        """Whether another message goes first."""
        for kind in _ORDER:
            if self._queues[kind]:
                return True
            if kind is message.kind:
                break
        return False

    def drain(self) -> None:
        """Sends what waits, as far as the window admits."""
        session = self._session
        for kind in _ORDER:
            queue = self._queues[kind]
            while queue:
                if session.state is not State.OPEN:
                    return
                message = queue[0]
                credit_word = session.window.admit(message)
                if credit_word is None:
                    return
                queue.popleft()
                self.queued -= 1
                try:
                    self._post(message, credit_word)
                except LocalProtocolError as error:
                    preparer = self._preparers[kind]
                    assert preparer is not None
                    preparer.on_unsendable(message, error)

    def withdraw(self, message: Outgoing) -> None:
        """A message that waits is not sent."""
        # Of the messages that wait, the oldest come first, and time out first.
        self._queues[message.kind].remove(message)
        self.queued -= 1

    def clear(self) -> list[Outgoing]:
        """Nothing goes out any more; answers what waited."""
        waited = [message for queue in self._queues.values() for message in queue]
        for queue in self._queues.values():
            queue.clear()
        self.queued = 0
        return waited

    def waiting(self, kind: Kind) -> int:
        """Messages of a kind that wait."""
        return len(self._queues[kind])

    @property
    def backlog(self) -> bool:
        """Whether the peer leaves more unread than it may in good faith."""
        unfinished = self.posted - self.ended
        return unfinished > UNFINISHED_SELDOM and not self._session.window.may_owe(unfinished)

    def _post(self, message: Outgoing, credit_word: int) -> None:
        session = self._session
        window = session.window
        preparer = self._preparers[message.kind]
        assert preparer is not None
        try:
            payload = preparer.prepare(message)
        except Exception:
            window.take_back(message)
            raise
        if window.receives_wanted > self._receives.posted:
            self._receives.post(window.receives_wanted)
        header = session.dialect.encode(message, credit_word)
        if len(payload) == 1 and len(payload[0]) < JOIN_OCTETS_MAX:
            gather: list[Buffer] = [header + payload[0]]
        else:
            gather = [header, *payload]
        self.posted = count = self.posted + 1
        session.statistics.sends += 1
        incoming = ends = None
        if isinstance(message, OutgoingReply):
            if message.plan is not None:
                incoming = message.incoming
            if session.remote_invalidation:
                ends = message.incoming.ends
                if ends is not None:
                    session.statistics.remote_invalidations += 1
        if incoming is not None or not count % _SIGNAL_EVERY:
            session.qp.post_send(SendMark(count, incoming), gather, invalidate=ends)
        else:
            session.qp.post_send(None, gather, invalidate=ends, signaled=False)
