"""The order of outgoing messages; no other module posts Sends.

A message goes out when credits allow it and no message with precedence waits: errors precede transport properties, then
follow replies, messages of extensions, and calls. `Outbox.send` is given what prepares the message at that moment and
not before: the requester of a call or the responder of a reply decides how the message travels, registers memory and
posts RDMA Writes. Then the outbox takes the credits and posts the Sends. A message that needs more credits than there
are keeps waiting, and nothing has to be undone.

Where the version allows it, a message that is too long for one Send goes out in several pieces. If credits run out
between two pieces, all other messages except grants of credits wait for the rest.

With a `Batcher`, short calls and replies wait for the end of the turn, and so do the messages that wait for credits.
Neighbours of one kind then share a Send.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Protocol, TypeAlias, TypeGuard

from rpcrdma.errors import InternalError, LocalProtocolError, OutOfMemory
from rpcrdma.limits import UNSENT_REFUSALS_MAX
from rpcrdma.transport.call import Call, IncomingCall
from rpcrdma.transport.carriers import Batcher, Transmission
from rpcrdma.transport.connection_states import MAY_LEAVE, State
from rpcrdma.transport.dialects.dialect import LAST_PIECE_OCTETS_MIN
from rpcrdma.transport.message import Kind, Outgoing, OutgoingError, OutgoingExtension, OutgoingGrant
from rpcrdma.transport.receive_buffers import ReceiveBuffers
from rpcrdma.transport.session import JOIN_OCTETS_MAX, Session
from rpcrdma.wire.buffers import Buffer

__all__ = ["UNFINISHED_SELDOM", "Outbox", "Preparer", "SendMark"]

_SIGNAL_EVERY = 16
"""Every sixteenth Send reports its completion, which implies the completion of the Sends before it."""

UNFINISHED_SELDOM = 24
"""The Sends without a known completion above which the window says whether the peer reads. No window allows fewer."""

_OPEN = State.OPEN
_CALL = Kind.CALL

_ORDER = (Kind.ERROR, Kind.PROPERTIES, Kind.REPLY, Kind.EXTENSION, Kind.CALL)
"""The precedence of waiting messages, by kind. Calls go last: replies and errors let the peer continue."""


class Preparer(Protocol):
    """The part of an endpoint that prepares its messages when credits allow them: the requester, or the responder."""

    def prepare(self, message: Any, /) -> Sequence[Buffer] | bytes | bytearray | None:
        """Decides how a message travels; the outbox calls it just before the Send.

        `message`: a `Call`, or an `IncomingCall` for the reply to it. The method sets the attributes `chunks` and
        `long` of the message, or `group` (an extension's messages). The connection has at least one credit for the
        message. Returns the payload: a gather list; or octets that the outbox joins with a header without chunks
        (`Session.joined_octets`); or None if the message needs more credits than there are: then nothing was done, and
        the message waits.

        Raises:
            LocalProtocolError: the message cannot be sent at all.
            OutOfMemory: the system has no memory for it.
        """

    def on_unsendable(self, message: Any, error: LocalProtocolError | OutOfMemory, /) -> None:
        """Handles `error`, which `prepare` has raised for a message that had waited: the message is not sent."""


_Queue: TypeAlias = OrderedDict[Outgoing, Preparer | None]
"""Waiting messages in order, each with the object that prepares it; None if it is ready. Thousands of calls may be
cancelled at once, so each must be removed without a search."""

SendMark: TypeAlias = tuple[int, Any]
"""The work request of a signaled Send: its number on the connection, and the call or reply that waits for its end."""


class _Sequence:
    """A continued message of which some Sends are posted.

    `left` is the payload that is not sent yet, `octets` its length. `header_octets` is the length of the last Send's
    header.
    """

    __slots__ = ("header_octets", "left", "message", "octets")

    def __init__(self, message: Outgoing, payload: Sequence[Buffer], header_octets: int) -> None:
        self.message = message
        self.left = deque(memoryview(buffer) for buffer in payload)
        self.octets = sum(map(len, self.left))
        self.header_octets = header_octets

    def take(self, octets: int) -> list[Buffer]:
        """Removes the next `octets` octets of the payload, or all that are left; returns them as buffers in order."""
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
    """The outgoing messages of one connection: posts all of its Sends, in the order of precedence and as credits allow.

    `queued` counts the messages that wait or are sent in part. `posted` counts Sends, and `ended` those with a known
    completion. `due`: calls were given up, so that waiting ones may have room; `Endpoint.progress` then sends them.
    """

    __slots__ = ("_queues", "_receives", "_sequence", "_session", "due", "ended", "posted", "queued")

    def __init__(self, session: Session, receives: ReceiveBuffers) -> None:
        self._session = session
        self._receives = receives
        # Most connections are idle, so the first message that waits creates its queue.
        self._queues: dict[Kind, _Queue] = {}
        self._sequence: _Sequence | None = None
        self.queued = 0
        self.due = False
        self.posted = 0
        self.ended = 0

    def send(self, message: Outgoing, preparer: Preparer | None = None) -> bool:
        """Sends a message as soon as credits and precedence allow.

        Where a `Batcher` joins short messages, a short call or reply waits for `send_held` at the end of the event
        loop's iteration. A message also waits where the connection's state does not allow it (`MAY_LEAVE`), as before
        the opening; after the end it would wait for ever, so the caller checks for that. Returns True if the message is
        sent, at least in part; False if it waits.

        Args:
            message: the message.
            preparer: chooses chunks and payload when credits allow; None if the message's attribute `ready` has the
                payload.

        Raises:
            LocalProtocolError: nothing delays the message, but it cannot be sent at all.
            OutOfMemory: nothing delays the message, but the system has no memory for it.
            InternalError: the message was sent only in part, or not, but its credits are spent; the connection has to
                end.
        """
        session = self._session
        held = session.batcher is not None and self._batchable(message)
        if (
            not held
            and (session.state is _OPEN or message.kind in MAY_LEAVE[session.state])
            and not (self.queued and self._must_wait(message))
            and self._post(message, preparer)
        ):
            return True
        queue = self._queues.get(message.kind)
        if queue is None:
            queue = self._queues[message.kind] = OrderedDict()
        queue[message] = preparer
        self.queued += 1
        return False

    def refuse(self, error: OutgoingError) -> None:
        """Sends an error as soon as credits allow; ends the connection instead if the peer does not read its messages.

        The peer does not read if too many Sends lack a completion (`backlog`), or if UNSENT_REFUSALS_MAX errors wait.
        The second limit does not apply to the refusal of a call: the credits for calls bound these.
        """
        if self.may_report(None if error.answers_call else Kind.ERROR):
            self._session.statistics.errors_sent += 1
            self.send(error)

    def may_report(self, kind: Kind | None) -> bool:
        """Returns whether a further message about a fault may be sent or wait; if not, ends the connection.

        It may not if too many Sends lack a completion (`backlog`), or UNSENT_REFUSALS_MAX messages of `kind` wait.
        `kind`: the kind of the message; None for the refusal of a call: the credits for calls bound these.
        """
        if self.backlog or (kind is not None and self.waiting(kind) >= UNSENT_REFUSALS_MAX):
            self._session.violation("the peer does not read its errors")
            return False
        return True

    def send_grant(self) -> None:
        """Sends a message that only grants credits; no effect if the connection's state does not allow the message.

        It takes no credit and may be sent between the pieces of a continued message.
        """
        session = self._session
        if Kind.GRANT in MAY_LEAVE[session.state]:
            grant = OutgoingGrant()
            session.statistics.grants_sent += 1
            self._transmit(grant, [session.dialect.encode(grant, session.window.grant_word())])

    def _must_wait(self, message: Outgoing) -> bool:
        """Returns whether another message must be sent before `message`.

        Such a message is sent in part, or waits with the same or a higher precedence.
        """
        if self._sequence is not None:
            return True
        for kind in _ORDER:
            if self._queues.get(kind):
                return True
            if kind is message.kind:
                break
        return False

    def drain(self) -> None:
        """Sends waiting messages as far as credits allow; no effect with a `Batcher`: only `send_held` does."""
        self.due = False
        if self._session.batcher is None:
            self.send_held()

    def send_held(self) -> None:
        """Sends waiting messages as far as credits allow; the connection's `Batcher`, if any, joins short neighbours.

        With a batcher this is called at the end of the event loop's iteration. A message that cannot be sent is passed
        to `Preparer.on_unsendable`.

        Raises:
            InternalError: a message was sent only in part, or not, but its credits are spent; the connection has to
                end.
        """
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
                message, preparer = queue.popitem(last=False)
                self.queued -= 1
                try:
                    if not self._post(message, preparer):
                        queue[message] = preparer
                        queue.move_to_end(message, last=False)
                        self.queued += 1
                        return
                except (LocalProtocolError, OutOfMemory) as error:
                    if preparer is None:
                        raise
                    preparer.on_unsendable(message, error)

    def withdraw(self, message: Outgoing) -> None:
        """Removes from its queue a message that still waits since `send` has returned False for it.

        The caller knows that no part of the message is sent.

        Raises:
            KeyError: the message does not wait.
        """
        del self._queues[message.kind][message]
        self.queued -= 1

    def drop_rest(self) -> None:
        """Drops the rest of a message that was sent in part, if there is one: the peer has refused its version."""
        if self._sequence is not None:
            self._sequence = None
            self.queued -= 1

    def clear(self) -> list[Outgoing]:
        """Removes all messages that wait or were sent in part, and returns them, one that was sent in part last."""
        waited = [message for queue in self._queues.values() for message in queue]
        if self._sequence is not None:
            waited.append(self._sequence.message)
            self._sequence = None
        for queue in self._queues.values():
            queue.clear()
        self.queued = 0
        return waited

    def waiting(self, kind: Kind) -> int:
        """Returns the number of messages of this kind that wait, not including one that is sent in part."""
        return len(self._queues.get(kind, ()))

    @property
    def backlog(self) -> bool:
        """Whether more Sends lack a known completion than a peer that reads its messages leaves (`may_owe`)."""
        unfinished = self.posted - self.ended
        return unfinished > UNFINISHED_SELDOM and not self._session.window.may_owe(unfinished)

    def _post(self, message: Outgoing, preparer: Preparer | None) -> bool:
        """Prepares a message, takes its credits and sends it; a long message is sent in pieces as far as credits allow.

        `preparer` chooses chunks and payload; None: `message.ready` has the payload. Returns True, also if pieces are
        left; False, with nothing done, if there are too few credits.

        Raises:
            LocalProtocolError: the message cannot be sent at all.
            OutOfMemory: the system has no memory for it.
            InternalError: the message could be sent only in part, or not; the connection has to end.
        """
        session = self._session
        window, kind = session.window, message.kind
        if window.balance <= 0 or (kind is _CALL and window.in_flight >= window.allowed):
            return False
        payload = message.ready
        if payload is None:
            assert preparer is not None
            payload = preparer.prepare(message)
            if payload is None:
                return False
        credit_word = window.admit(message)
        try:
            if message.group is not None:
                self._post_group(message, message.group, credit_word)
                return True
            header = session.dialect.encode(message, credit_word)
            match payload:
                case bytearray() | bytes():
                    self._transmit(message, [header + payload])
                    return True
                case [body] if len(body) <= JOIN_OCTETS_MAX:
                    whole = header + body
                    if len(whole) <= session.send_octets:
                        self._transmit(message, [whole])
                        return True
            if session.splits and len(header) + sum(map(len, payload)) > session.send_octets:
                assert len(header) + LAST_PIECE_OCTETS_MIN <= session.send_octets, "no message would be the last one"
                self._sequence = sequence = _Sequence(message, payload, len(header))
                self.queued += 1
                session.statistics.messages_continued += 1
                self._send_piece(sequence, credit_word)
                self._go_on(sequence)
            else:
                self._transmit(message, [header, *payload])
        except Exception as error:
            # The credits are spent, and a part may have gone: only the end of the connection makes up for that.
            raise InternalError(f"a message could not be posted: {error!r}") from error
        return True

    def _post_group(self, message: Outgoing, group: Sequence[Transmission], credit_word: int) -> None:
        """Sends a call or reply in a group of an extension's messages; there are credits for all of them.

        `message`: the call or reply. `group`: the messages of the group. `credit_word`: the credit word of the first
        message.
        """
        session = self._session
        encode, window = session.dialect.encode, session.window
        last = len(group) - 1
        for index, (header_type, body, answers) in enumerate(group):
            word = window.admit_piece(message) if index else credit_word
            header = encode(OutgoingExtension(message.xid, header_type, 0, (), answer=answers), word)
            self._transmit(message if index == last else None, [header + body[0], *body[1:]])

    def _batchable(self, message: Outgoing) -> TypeGuard[Call | IncomingCall]:
        """Returns whether a message is a short call or reply that is inline in one Send, regardless of the credits."""
        session = self._session
        if isinstance(message, Call):
            payload, bound = message.payload, message.form.bound
            return (
                payload is not None
                and not (payload.items or bound.items)
                and len(payload.reduced) <= min(session.call_octets, JOIN_OCTETS_MAX)
                and bound.results <= session.results_octets
            )
        if not isinstance(message, IncomingCall) or message.plan is not None or message.payload is None:
            return False
        return message.invalidates is None and not message.payload.items

    def _post_batch(self, batcher: Batcher, queue: _Queue) -> bool:
        """Sends the first messages of a queue, all calls or all replies, in one Send.

        `batcher`: joins the messages. `queue`: waiting messages with their preparers; those sent are removed. Returns
        False, with nothing done, if fewer than two messages can share a Send, or there is no credit.
        """
        session, window = self._session, self._session.window
        first = next(iter(queue))
        most = batcher.messages_max
        if first.kind is Kind.CALL:
            most = min(most, window.allowed - window.in_flight)
        octets = 0
        payloads: list[Buffer] = []
        for message in islice(queue, max(0, most)):
            if not self._batchable(message) or message.payload is None:
                break
            reduced = message.payload.reduced
            octets += len(reduced)
            if batcher.body_octets(octets, len(payloads) + 1) > batcher.body_octets_max:
                break
            payloads.append(reduced)
        count = len(payloads)
        if count < 2 or window.balance <= 0:
            return False
        xids = []
        for _ in range(count):
            message, preparer = queue.popitem(last=False)
            xids.append(message.xid)
            if message.ready is None:
                assert preparer is not None
                # A batchable message goes inline, so its preparation cannot fail.
                preparer.prepare(message)
        credit_word = window.admit_several(first, count)
        self.queued -= count
        if first.kind is Kind.CALL:
            batcher.on_calls_sent(xids)
        header = OutgoingExtension(first.xid, batcher.header_type, 0, (), answer=first.kind is Kind.REPLY)
        self._transmit(None, [session.dialect.encode(header, credit_word) + batcher.encode(payloads)])
        return True

    def _go_on(self, sequence: _Sequence) -> None:
        """Sends the rest of a continued message as far as credits allow; after the last piece, `_sequence` is None."""
        session, message = self._session, sequence.message
        window = session.window
        while True:
            if window.balance <= 0:
                return
            credit_word = window.admit_piece(message)
            if sequence.header_octets + sequence.octets <= session.send_octets:
                break
            self._send_piece(sequence, credit_word)
        self._sequence = None
        self.queued -= 1
        self._transmit(message, [session.dialect.encode(message, credit_word), *sequence.left])

    def _send_piece(self, sequence: _Sequence, credit_word: int) -> None:
        """Sends one piece of a continued message, of the largest size; leaves at least 8 octets for the last piece.

        `credit_word`: the credit word of the piece's header.
        """
        session, message = self._session, sequence.message
        room = session.send_octets - session.dialect.geometry.piece_header
        part = sequence.take(min(room, sequence.octets - LAST_PIECE_OCTETS_MIN))
        header = session.dialect.encode_piece(message, credit_word)
        session.statistics.pieces_sent += 1
        self._transmit(None, [header, *part])

    def _transmit(self, message: Outgoing | None, gather: list[Buffer]) -> None:
        """Posts one Send, and before it the receives for the messages that the peer may then send.

        `message`: the message, if this Send ends it; None for an earlier piece, or for several messages in one Send.
        `gather`: the header and the payload. Every sixteenth Send is signaled, and each whose message has memory in use
        (`sending`).
        """
        session = self._session
        wanted = session.window.receives_wanted
        if wanted > self._receives.posted:
            self._receives.post(wanted)
        self.posted = count = self.posted + 1
        session.statistics.sends += 1
        awaited = False
        ends = None
        if message is not None:
            awaited = message.sending
            if message.invalidates is not None and session.remote_invalidation:
                ends = message.invalidates
                session.statistics.remote_invalidations += 1
        if awaited or not count % _SIGNAL_EVERY:
            session.qp.post_send((count, message if awaited else None), gather, invalidate=ends)
        else:
            session.qp.post_send(None, gather, invalidate=ends, signaled=False)
