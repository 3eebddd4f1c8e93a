"""The only gate for Sends: what may go out, in which order, and what becomes of it.

A message goes out when the window admits it and no message waits that goes first: errors, then transport properties,
replies, messages of extensions, calls. What it consists of, memory registered and RDMA Writes posted, is prepared at
that moment and not before.

Where the version allows it a message that is too long for one Send goes out as several; when credits run out in its
midst, all others wait until it is done, but for grants of credits.

With a `Batcher` short calls and replies wait for the end of the turn, and with them all that waits for credits: then
those of a kind that follow each other go together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Protocol, TypeGuard

from rpcrdma.errors import LocalProtocolError
from rpcrdma.limits import UNSENT_REFUSALS_MAX
from rpcrdma.transport.call import Call, IncomingCall, OutgoingReply
from rpcrdma.transport.carriers import Batcher, Transmission
from rpcrdma.transport.message import Kind, Outgoing, OutgoingError, OutgoingExtension, OutgoingGrant
from rpcrdma.transport.negotiation import MAY_LEAVE, State
from rpcrdma.transport.receive_buffers import ReceiveBuffers
from rpcrdma.transport.session import Session
from rpcrdma.wire.buffers import Buffer

__all__ = ["JOIN_OCTETS_MAX", "LAST_PIECE_OCTETS_MIN", "UNFINISHED_SELDOM", "Outbox", "Preparer", "SendMark"]

JOIN_OCTETS_MAX = 4096
"""Up to here one copied buffer costs less than two entries of a gather list, each with its own checksum call."""

LAST_PIECE_OCTETS_MIN = 8
"""What is kept of a long message for its last Send, which has the chunk lists and some payload."""

_SIGNAL_EVERY = 16
"""One Send in so many reports its completion, which stands for those before it."""

UNFINISHED_SELDOM = 24
"""Sends whose end is not known, above which the window is asked whether the peer reads: never fewer are too many."""

_OPEN = State.OPEN

_ORDER = (Kind.ERROR, Kind.PROPERTIES, Kind.REPLY, Kind.EXTENSION, Kind.CALL)
"""Calls go last: what answers the peer's calls lets it go on."""


class Preparer(Protocol):
    """Whose messages of one kind are."""

    def prepare(self, message: Outgoing) -> Sequence[Buffer] | None:
        """What follows the header; the message's `chunks` and `long` are then settled, or its `group`.

        None: as it is, it needs more credits than there are, and waits.

        Raises:
            LocalProtocolError: it cannot be sent at all.
        """

    def on_unsendable(self, message: Outgoing, error: LocalProtocolError, /) -> None:
        """The message had to wait, and then could not be sent."""


class SendMark:
    """The work request of a signaled Send: it is the `count`th one, and `owner`, a call, waits for its end."""

    __slots__ = ("count", "owner")

    def __init__(self, count: int, owner: IncomingCall | Call | None) -> None:
        self.count = count
        self.owner = owner


class _Sequence:
    """A message that goes out in several Sends: `left` is what has not gone yet, `octets` altogether.

    `header_octets` is the length of the header of its last Send.
    """

    __slots__ = ("header_octets", "left", "message", "octets")

    def __init__(self, message: Outgoing, payload: Sequence[Buffer], header_octets: int) -> None:
        self.message = message
        self.left = deque(memoryview(buffer) for buffer in payload)
        self.octets = sum(map(len, self.left))
        self.header_octets = header_octets

    def take(self, octets: int) -> list[Buffer]:
        """The next octets; at most so many."""
        taken: list[Buffer] = []
        while octets and self.left:
            view = self.left.popleft()
            if len(view) > octets:
                self.left.appendleft(view[octets:])
                view = view[:octets]
            taken.append(view)
            octets -= len(view)
            self.octets -= len(view)
        return taken


class Outbox:
    """Of one connection. `queued` messages wait, or are sent in part.

    `posted` and `ended` count Sends, of which the end of some is known late.
    """

    __slots__ = ("_preparers", "_queues", "_receives", "_sequence", "_session", "ended", "posted", "queued")

    def __init__(self, session: Session, receives: ReceiveBuffers) -> None:
        self._session = session
        self._receives = receives
        self._preparers: list[Preparer | None] = [None] * len(Kind)
        # A queue is made when something waits in it for the first time: most connections are idle, and each takes 600
        # octets.
        self._queues: dict[Kind, deque[Outgoing]] = {}
        self._sequence: _Sequence | None = None
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
        held = session.batcher is not None and self._batchable(message)
        if (
            not held
            and (session.state is _OPEN or message.kind in MAY_LEAVE[session.state])
            and not (self.queued and self._must_wait(message))
        ):
            credit_word = session.window.admit(message)
            if credit_word is not None and self._post(message, credit_word):
                return True
        queue = self._queues.get(message.kind)
        if queue is None:
            queue = self._queues[message.kind] = deque()
        queue.append(message)
        self.queued += 1
        return False

    def refuse(self, error: OutgoingError) -> None:
        """Sends an error, if the peer reads such answers at all, and lets them go out.

        Those to calls are no more than the calls, whose credits come back only with them; of others few may wait.
        """
        if self.may_report(None if error.answers_call else Kind.ERROR):
            self._session.statistics.errors_sent += 1
            self.send(error)

    def may_report(self, kind: Kind | None) -> bool:
        """Whether another message may go out, or wait, that tells what is wrong; else the connection ends.

        Few of its kind may wait; None for what is bounded otherwise.
        """
        if self.backlog or (kind is not None and self.waiting(kind) >= UNSENT_REFUSALS_MAX):
            self._session.violation("the peer does not read its errors")
            return False
        return True

    def send_grant(self) -> None:
        """Sends credits and nothing else, which needs none itself and may stand between the pieces of a message."""
        session = self._session
        if Kind.GRANT in MAY_LEAVE[session.state]:
            grant = OutgoingGrant()
            session.statistics.grants_sent += 1
            self._transmit(grant, [session.dialect.encode(grant, session.window.grant_word())])

    def _must_wait(self, message: Outgoing) -> bool:
        """Whether another message goes first."""
        if self._sequence is not None:
            return True
        for kind in _ORDER:
            if self._queues.get(kind):
                return True
            if kind is message.kind:
                break
        return False

    def drain(self) -> None:
        """Sends what waits, as far as the window admits; with a batcher only `send_held` does."""
        if self._session.batcher is None:
            self.send_held()

    def send_held(self) -> None:
        """The turn ends: sends what waits, as far as the window admits."""
        session = self._session
        if self._sequence is not None:
            self._go_on(self._sequence)
        for kind in _ORDER:
            queue = self._queues.get(kind)
            while queue:
                if self._sequence is not None:
                    return
                if session.state is not State.OPEN and kind not in MAY_LEAVE[session.state]:
                    break
                if session.batcher is not None and self._post_batch(session.batcher, queue):
                    continue
                message = queue[0]
                credit_word = session.window.admit(message)
                if credit_word is None:
                    return
                queue.popleft()
                self.queued -= 1
                try:
                    if not self._post(message, credit_word):
                        queue.appendleft(message)
                        self.queued += 1
                        return
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
        """Nothing goes out any more; answers what waited, or was sent in part."""
        waited = [message for queue in self._queues.values() for message in queue]
        if self._sequence is not None:
            waited.append(self._sequence.message)
            self._sequence = None
        for queue in self._queues.values():
            queue.clear()
        self.queued = 0
        return waited

    def waiting(self, kind: Kind) -> int:
        """Messages of a kind that wait."""
        return len(self._queues.get(kind, ()))

    @property
    def backlog(self) -> bool:
        """Whether the peer leaves more unread than it may in good faith."""
        unfinished = self.posted - self.ended
        return unfinished > UNFINISHED_SELDOM and not self._session.window.may_owe(unfinished)

    def _post(self, message: Outgoing, credit_word: int) -> bool:
        """Sends a message as far as the window admits; False, with nothing done, where it needs more credits."""
        session = self._session
        preparer = self._preparers[message.kind]
        assert preparer is not None
        try:
            payload = preparer.prepare(message)
        except Exception:
            session.window.take_back(message)
            raise
        if message.group is not None:
            self._post_group(message, message.group, credit_word)
            return True
        if payload is None:
            session.window.take_back(message)
            return False
        header = session.dialect.encode(message, credit_word)
        if len(payload) == 1 and len(payload[0]) < JOIN_OCTETS_MAX:
            whole = header + payload[0]
            if len(whole) <= session.send_octets:
                self._transmit(message, [whole])
                return True
        if session.splits and len(header) + sum(map(len, payload)) > session.send_octets:
            self._sequence = sequence = _Sequence(message, payload, len(header))
            self.queued += 1
            session.statistics.messages_continued += 1
            self._send_piece(sequence, credit_word)
            self._go_on(sequence)
        else:
            self._transmit(message, [header, *payload])
        return True

    def _post_group(self, message: Outgoing, group: Sequence[Transmission], credit_word: int) -> None:
        """Sends a message in those of an extension, for each of which there is a credit."""
        session = self._session
        encode, window = session.dialect.encode, session.window
        if isinstance(message, Call):
            # The header gives the credits for the reply, of which more may have been promised.
            window.take_back(message)
            admitted = window.admit(message)
            assert admitted is not None
            credit_word = admitted
        last = len(group) - 1
        for index, (header_type, body, answers) in enumerate(group):
            word = window.admit_piece(message) if index else credit_word
            assert word is not None
            header = encode(OutgoingExtension(message.xid, header_type, 0, (), answer=answers), word)
            self._transmit(message if index == last else None, [header + body[0], *body[1:]])

    def _batchable(self, message: Outgoing) -> TypeGuard[Call | OutgoingReply]:
        """Whether a message is one that goes inline in one Send, whatever credits there are, and is short."""
        session = self._session
        if isinstance(message, Call):
            payload, bound = message.payload, message.form.bound
            return (
                payload is not None
                and not (payload.items or bound.items)
                and len(payload.reduced) <= min(session.call_octets, JOIN_OCTETS_MAX)
                and bound.results <= session.results_octets
            )
        return isinstance(message, OutgoingReply) and message.plan is None and message.incoming.ends is None

    def _post_batch(self, batcher: Batcher, queue: deque[Outgoing]) -> bool:
        """Sends the first messages of a queue in one Send; False, with nothing done, where they cannot be several."""
        session, window = self._session, self._session.window
        first = queue[0]
        most = batcher.messages_max
        if first.kind is Kind.CALL:
            most = min(most, window.allowed - window.in_flight)
        octets = 0
        payloads: list[Buffer] = []
        for message in islice(queue, max(0, most)):
            if not self._batchable(message) or message.payload is None:
                break
            reduced = message.payload.reduced
            octets += (len(reduced) + 3) & ~3
            if batcher.body_octets(octets, len(payloads) + 1) > batcher.body_octets_max:
                break
            payloads.append(reduced)
        count = len(payloads)
        if count < 2:
            return False
        credit_word = window.admit_several(first, count)
        if credit_word is None:
            return False
        preparer = self._preparers[first.kind]
        assert preparer is not None
        xids = []
        for _ in range(count):
            message = queue.popleft()
            xids.append(message.xid)
            # It goes as it is: there is nothing that may fail.
            preparer.prepare(message)
        self.queued -= count
        if first.kind is Kind.CALL:
            batcher.on_calls_sent(xids)
        session.statistics.batches_sent += 1
        session.statistics.messages_in_batches_sent += count
        header = OutgoingExtension(first.xid, batcher.header_type, 0, (), answer=first.kind is Kind.REPLY)
        self._transmit(None, [session.dialect.encode(header, credit_word) + batcher.encode(payloads)])
        return True

    def _go_on(self, sequence: _Sequence) -> None:
        """Sends what is left of a message, as far as the window admits."""
        session, message = self._session, sequence.message
        while True:
            credit_word = session.window.admit_piece(message)
            if credit_word is None:
                return
            if sequence.header_octets + sequence.octets <= session.send_octets:
                break
            self._send_piece(sequence, credit_word)
        self._sequence = None
        self.queued -= 1
        self._transmit(message, [session.dialect.encode(message, credit_word), *sequence.left])

    def _send_piece(self, sequence: _Sequence, credit_word: int) -> None:
        """Sends as much as one message holds, and leaves what fits the last one with its header."""
        session, message = self._session, sequence.message
        room = session.send_octets - session.dialect.geometry.piece_header
        part = sequence.take(min(room, sequence.octets - LAST_PIECE_OCTETS_MIN))
        header = session.dialect.encode_piece(message, credit_word, sequence.octets)
        session.statistics.pieces_sent += 1
        self._transmit(None, [header, *part])

    def _transmit(self, message: Outgoing | None, gather: list[Buffer]) -> None:
        """Posts one Send: all of `message`, the end of it, or only a part (None)."""
        session = self._session
        wanted = session.window.receives_wanted
        if wanted > self._receives.posted:
            self._receives.post(wanted)
        self.posted = count = self.posted + 1
        session.statistics.sends += 1
        owner: IncomingCall | Call | None = None
        ends = None
        if isinstance(message, OutgoingReply):
            if message.plan is not None:
                owner = message.incoming
            if session.remote_invalidation:
                ends = message.incoming.ends
                if ends is not None:
                    session.statistics.remote_invalidations += 1
        elif isinstance(message, Call) and message.sending:
            owner = message
        if owner is not None or not count % _SIGNAL_EVERY:
            session.qp.post_send(SendMark(count, owner), gather, invalidate=ends)
        else:
            session.qp.post_send(None, gather, invalidate=ends, signaled=False)
