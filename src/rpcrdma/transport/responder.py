"""The responder: takes calls, reads their Read chunks, writes results into their Write and Reply chunks.

A call is reported after all of its data has arrived. The size of its Read chunks is bounded: a call over its own bound
is refused; one over the connection's bound waits, with its header alone in memory, until others have been answered.
Calls of the reverse direction may be limited to no chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpcrdma import limits
from rpcrdma.errors import LocalProtocolError, OutOfMemory, RpcRdmaError
from rpcrdma.limits import CONTINUED_OCTETS_MAX
from rpcrdma.transport.call import NO_MEMORY, IncomingCall
from rpcrdma.transport.carriers import IncomingItems
from rpcrdma.transport.chunks import NO_CHUNKS, addressable, well_placed
from rpcrdma.transport.config import ReverseSupport
from rpcrdma.transport.connection_states import State
from rpcrdma.transport.events import CallArrived, ReplySent
from rpcrdma.transport.message import CallDirection, Cause, Inbound, Outgoing, OutgoingError, Refusal
from rpcrdma.transport.message_memory import BufferSource, MessageMemory
from rpcrdma.transport.outbox import UNFINISHED_SELDOM, Outbox
from rpcrdma.transport.plan_reply import ReplyForm, ReplyPlan, plan_reply, reply_octets_max, write_chunk, write_results
from rpcrdma.transport.receive_buffers import MESSAGE_OCTETS_COPIED_MAX
from rpcrdma.transport.session import Session
from rpcrdma.verbs.protection_domain import Access
from rpcrdma.verbs.queue_pair import Status
from rpcrdma.wire.buffers import Buffer, as_view
from rpcrdma.xdr.codec import Decoder, Payload, PlacedByPosition

__all__ = ["Responder"]

_OPEN = State.OPEN
_CALL = 0
_CARRIED = ReplyPlan(ReplyForm.INLINE)
"""The plan of a reply that an extension plans when the reply is sent."""
_SINK = Access.LOCAL_WRITE | Access.REMOTE_WRITE
_tuple = tuple.__new__


class Responder:
    """The calls of the peer in one direction: reads their Read chunks, reports them as events and sends the replies.

    `unanswered` counts calls not answered, refused or dropped. Of the replies whose buffers are in use until their Send
    has completed, `replies_sent` have ended and `replies_unsent` have not. The events are in the session's `events`.
    """

    __slots__ = (
        "_buffers", "_direction", "_held_octets", "_incoming", "_memory", "_outbox", "_reading", "_resuming",
        "_session", "_waiting", "replies_sent", "replies_unsent", "unanswered", "wanted_octets",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        outbox: Outbox,
        buffers: BufferSource,
        memory: MessageMemory,
        direction: CallDirection,
        incoming: type[IncomingCall] = IncomingCall,
    ) -> None:
        self._session = session
        self._outbox = outbox
        self._buffers = buffers
        self._direction = direction
        self._incoming = incoming
        self.unanswered = 0
        self.replies_sent = 0
        self.replies_unsent = 0
        self._held_octets = 0
        self._memory = memory
        self.wanted_octets = 0
        """The octets of memory for which the first waiting call waits; 0 if none waits for memory."""
        # A list, as a deque that is empty takes 700 octets of each idle connection.
        self._waiting: list[IncomingCall] = []
        self._resuming = False
        # In the order of arrival, in which RDMA Reads are answered.
        self._reading: dict[IncomingCall, None] = {}

    @property
    def pulling(self) -> IncomingCall | None:
        """The call with the oldest outstanding RDMA Reads; None if no RDMA Read is outstanding."""
        return next(iter(self._reading), None)

    def on_call(self, message: Inbound, invalidated: int | None, carried: IncomingItems | None = None) -> bool:
        """Handles a received call: reports it by `CallArrived` once its Read chunks have arrived, or refuses it.

        `carried`: the bulk items that an extension received with the call; None for an ordinary call. Returns False if
        the call's Send invalidated a handle (`invalidated`, else None), for which the caller ends the connection. This
        method ends it if the peer exceeds its credits or does not read replies.
        """
        if invalidated is not None:
            return False
        session = self._session
        if not session.window.on_received(message):
            session.violation("more unanswered calls than credits allow")
            return True
        outbox = self._outbox
        if outbox.posted - outbox.ended > UNFINISHED_SELDOM and outbox.backlog:
            session.violation("the peer does not read its replies")
            return True
        self.unanswered += 1
        incoming = self._incoming.__new__(self._incoming)
        incoming.xid = message.xid
        incoming.decoder = Decoder(message.data, message.start)
        incoming.answers_call = True
        incoming.chunks = chunks = message.chunks
        incoming.long = message.long
        incoming.ends = incoming.group = None
        incoming.invalidates = message.ends
        incoming.carried = carried
        if self._direction is CallDirection.REVERSE:
            session.statistics.reverse_calls += 1
        octets = 0 if carried is None else carried.held_octets
        if incoming.decoder.end > MESSAGE_OCTETS_COPIED_MAX:
            octets += _held_by(message.data)
        if octets and not self._memory.hold(octets):
            self.fail_call(incoming, Cause.TOO_LARGE)
            return True
        incoming.message_octets = octets
        if carried is not None and not chunks.reads and addressable(chunks, session.segment_octets_taken):
            if carried.placed:
                incoming.decoder.placed = PlacedByPosition(carried.placed)
            session.events.append(CallArrived(incoming))
        elif chunks is NO_CHUNKS:
            session.events.append(_tuple(CallArrived, (incoming,)))
        elif self._direction is CallDirection.REVERSE and session.reverse_support is not ReverseSupport.GENERAL:
            # An empty Write chunk is an entry of the Write list as well (RFC 8167 section 5.3).
            self.fail_call(incoming, Cause.READ_CHUNKS if chunks.reads else Cause.REPLY_RESOURCE)
        elif not addressable(chunks, session.segment_octets_taken):
            self.fail_call(incoming, Cause.HEADER)
        elif chunks.reads:
            self._queue(incoming, None if message.long else len(message.data) - message.start)
        else:
            session.events.append(_tuple(CallArrived, (incoming,)))
        return True

    def _queue(self, incoming: IncomingCall, inline: int | None) -> None:
        """Queues a call until there is memory for its Read chunks; refuses it if they are too large or misplaced.

        `inline`: the octets of the call's reduced stream; None if a Position-Zero Read chunk has the stream.
        """
        reads = incoming.chunks.reads
        if incoming.carried is None and not well_placed(reads, inline):
            self.fail_call(incoming, Cause.HEADER)
            return
        held = 0
        for chunk in reads:
            held += (chunk.length + 3) & ~3
        if held > self._session.config.call_octets_pulled_max:
            self.fail_call(incoming, Cause.TOO_LARGE)
            return
        incoming.held_octets = held
        self._waiting.append(incoming)
        if len(self._waiting) == 1:
            self.resume()

    def on_unreadable(self, message: Inbound, invalidated: int | None) -> bool:
        """Refuses a message with an invalid header by an error with the reason `message.refusal`; returns True.

        If its Send invalidated a handle (`invalidated`), only returns False: the caller ends the connection.
        """
        if invalidated is not None:
            return False
        assert message.refusal is not None
        self._outbox.refuse(OutgoingError(message.xid, message.version, message.refusal, answers_call=False))
        return True

    def on_unreadable_call(self, message: Inbound, invalidated: int | None) -> bool:
        """Refuses an unreadable call at a client; returns False, with no effect, in version 1 or if `invalidated`."""
        if not self._session.splits:
            return False
        return self.on_unreadable(message, invalidated)

    def _pull(self, incoming: IncomingCall) -> bool:
        """Posts the RDMA Reads of a call's Read chunks into one buffer, each chunk at a multiple of four octets.

        Returns False if the call waits for free memory; True if not, also if it is refused as there will be no memory.
        """
        session = self._session
        held = incoming.held_octets
        if held:
            try:
                incoming.sink = self._buffers.acquire(held)
                if incoming.sink is None:
                    return False
                self._held_octets += held
                incoming.sink_region = region = session.pd.register(incoming.sink[:held], _SINK)
            except (RpcRdmaError, MemoryError):
                if incoming.sink is None:
                    incoming.held_octets = 0
                self.fail_call(incoming, Cause.TOO_LARGE)
                return True
            session.statistics.registrations += 1
            self._reading[incoming] = None
            session.owed += 1
            start = 0
            for _, segments in incoming.chunks.reads:
                for handle, length, offset in segments:
                    if length:
                        incoming.pending_reads += 1
                        session.qp.post_read(incoming, region, start, length, handle, offset)
                        start += length
                start = (start + 3) & ~3
            session.statistics.rdma_reads += incoming.pending_reads
            session.statistics.octets_read += held
        if not incoming.pending_reads:
            self._deliver(incoming)
        return True

    def on_read(self, incoming: IncomingCall, status: Status) -> None:
        """Counts a completed RDMA Read of a call; after the last one reports the call by `CallArrived`, or refuses it.

        It refuses a call whose Position-Zero Read chunk has no RPC call with its XID, and aborts the connection if the
        registration of its memory cannot be ended. No effect if `status` is not SUCCESS: the connection then ends.
        """
        # After a failed one the connection ends, and `on_closed` clears up.
        if status is Status.SUCCESS and incoming in self._reading:
            incoming.pending_reads -= 1
            if not incoming.pending_reads:
                self._deliver(incoming)

    def _deliver(self, incoming: IncomingCall) -> None:
        session = self._session
        if incoming.sink_region is not None:
            try:
                session.pd.invalidate(incoming.sink_region)
            except RpcRdmaError as error:
                # The provider may still write there: the memory is not given back for reuse.
                incoming.sink = None
                session.violation(f"memory cannot be invalidated: {error}")
                return
            incoming.sink_region = None
        if incoming in self._reading:
            del self._reading[incoming]
            session.owed -= 1
        sink = memoryview(b"") if incoming.sink is None else incoming.sink
        placed: dict[int, memoryview] = {}
        start = 0
        for chunk in incoming.chunks.reads:
            length = chunk.length
            placed[chunk.position] = sink[start : start + length]
            start += (length + 3) & ~3
        statistics = session.statistics
        if incoming.long:
            stream = placed.pop(0)
            if len(stream) < 8 or int.from_bytes(stream[:4]) != incoming.xid or int.from_bytes(stream[4:8]) != _CALL:
                self.fail_call(incoming, Cause.HEADER)
                return
            statistics.calls_long += 1
            incoming.long = False
            incoming.decoder = Decoder(stream, placed=PlacedByPosition(placed) if placed else None)
        elif incoming.carried is not None:
            incoming.decoder.placed = PlacedByPosition({**placed, **incoming.carried.placed})
        else:
            incoming.decoder.placed = PlacedByPosition(placed)
        if placed:
            statistics.calls_read_chunk += 1
        session.events.append(_tuple(CallArrived, (incoming,)))

    def reply_octets_max(self, incoming: IncomingCall, items: Sequence[int]) -> int:
        """Returns the most octets of an ordinary reply besides its bulk items, whose lengths are `items`; 0: none."""
        session = self._session
        continued = self._continued if session.splits else (0, 0)
        return reply_octets_max(items, incoming.chunks, session.send_octets, session.dialect.geometry, *continued)

    def reply(self, incoming: IncomingCall, payload: Payload) -> bool:
        """Answers a call: sends the reply, or an error if it fits neither message nor chunks, or there is no memory.

        After the connection's end it only frees the call's memory. Returns whether the payload's buffers are in use
        until `ReplySent`. Raises LocalProtocolError if it was answered before; other errors also abort the connection.
        """
        if incoming.answered:
            self._answer(incoming)
        incoming.answered = True
        self.unanswered -= 1
        session, outbox = self._session, self._outbox
        try:
            if session.state is not _OPEN:
                self._release(incoming)
                return False
            chunks = incoming.chunks
            reduced: Sequence[Buffer] | bytes | bytearray = payload.reduced
            items = payload.item_octets() if payload.items else ()
            plan = None
            if incoming.carried is not None and incoming.carried.reply is not None:
                plan = incoming.carried.reply.refusal(payload, incoming.decoder.begun) or _CARRIED
            elif (
                items
                and not chunks.writes
                and chunks.reply is None
                and (octets := payload.length) <= session.copied_reply_octets
                and (octets <= session.joined_octets or outbox.posted - outbox.ended <= UNFINISHED_SELDOM)
            ):
                try:
                    joined = payload.joined()
                except OutOfMemory:
                    incoming.refusal = NO_MEMORY
                    self._refuse_call(incoming, Refusal(Cause.SYSTEM))
                    return False
                reduced = joined if octets <= session.joined_octets else (joined,)
            elif items or chunks.writes or chunks.reply is not None or len(reduced) > session.joined_octets:
                plan = plan_reply(
                    len(reduced),
                    items,
                    chunks,
                    session.send_octets,
                    session.dialect.geometry,
                    *(self._continued if session.splits else ()),
                )
            if plan is not None and plan.refusal is not None:
                incoming.refusal = plan.reason
                self._refuse_call(incoming, plan.refusal)
                return False
            session.statistics.calls += 1
            incoming.payload = payload
            incoming.plan = plan
            if plan is not None:
                incoming.sending = True
            else:
                incoming.ready = reduced
                if chunks.reads:
                    incoming.chunks = NO_CHUNKS
                elif incoming.carried is None:
                    session.statistics.calls_short += 1
            outbox.send(incoming, self)
        except Exception:
            self._give_up(incoming)
            raise
        if plan is not None:
            self.replies_unsent += 1
            session.owed += 1
            return True
        if incoming.held_octets or self._waiting or incoming.message_octets:
            self._release(incoming)
        return False

    @property
    def _continued(self) -> tuple[int, int]:
        """The arguments `cheap_octets` and `continued_octets_max` of `plan_reply`; (0, 0): no reply is continued."""
        session = self._session
        if self._direction is CallDirection.REVERSE and session.reverse_support is ReverseSupport.INLINE:
            return 0, 0
        return session.in_messages_octets or 0, CONTINUED_OCTETS_MAX

    def prepare(self, message: Any) -> Sequence[Buffer] | None:
        """Posts the RDMA Writes of a planned reply, just before its Send; `message` is the `IncomingCall`.

        Returns the gather list of the reply's message, empty if a chunk or an extension's messages have the whole
        reply; None, with nothing done, if an extension carries the reply and needs more credits.
        """
        session, plan = self._session, message.plan
        if plan is _CARRIED:
            return _write_carried(session, message)
        gather, message.chunks = write_results(
            plan, message.payload, message.chunks, session.qp, session.statistics, carried=message.carried is not None
        )
        message.long = plan.form is ReplyForm.LONG
        return gather

    def on_unsendable(self, _message: Any, error: LocalProtocolError | OutOfMemory) -> None:
        """Raises `error`; never called, since a planned reply can always be sent."""
        raise error

    def on_sent(self, incoming: IncomingCall) -> None:
        """Releases the memory of a call after the Send of its reply has completed, and reports `ReplySent`."""
        self.replies_sent += 1
        self.replies_unsent -= 1
        self._session.owed -= 1
        if incoming.held_octets or self._waiting or incoming.message_octets:
            self._release(incoming)
        self._session.events.append(_tuple(ReplySent, (incoming,)))

    def fail_call(self, incoming: IncomingCall, cause: Cause) -> None:
        """Refuses a call with an error message of the protocol version for `cause`, and releases the call's memory.

        After the connection's end it only releases the memory. Raises LocalProtocolError if the call has been answered.
        """
        self._answer(incoming)
        try:
            self._refuse_call(incoming, Refusal(cause))
        except Exception:
            self._give_up(incoming)
            raise

    def _give_up(self, incoming: IncomingCall) -> None:
        """Aborts the connection because a call cannot be answered (RFC 8166 section 4.5.4), and releases its memory."""
        self._session.qp.abort("a call could not be answered")
        self._release(incoming)

    def drop(self, incoming: IncomingCall) -> None:
        """Leaves a call unanswered and releases its memory; raises LocalProtocolError if the call has been answered.

        Where credits count calls (version 1), the requester loses one; where they count messages, a grant returns it.
        """
        self._answer(incoming)
        session = self._session
        session.window.on_dropped()
        self._release(incoming)
        if session.state is State.OPEN and session.window.low and session.window.refresh_due:
            # A peer without credits sends nothing that a grant could go out behind.
            self._outbox.send_grant()

    def _refuse_call(self, incoming: IncomingCall, refusal: Refusal) -> None:
        session = self._session
        if session.state is State.OPEN:
            session.statistics.calls += 1
            session.statistics.calls_failed += 1
            self._outbox.refuse(OutgoingError(incoming.xid, session.dialect.version, refusal, answers_call=True))
        self._release(incoming)

    def _answer(self, incoming: IncomingCall) -> None:
        if incoming.answered:
            raise LocalProtocolError(f"the call with XID {incoming.xid:#010x} has been answered")
        incoming.answered = True
        self.unanswered -= 1

    def _release(self, incoming: IncomingCall) -> None:
        sink = incoming.sink
        if sink is not None:
            incoming.sink = None
            self._buffers.release(sink)
        if incoming.message_octets:
            self._memory.release(incoming.message_octets)
            incoming.message_octets = 0
        if incoming.held_octets:
            self._held_octets -= incoming.held_octets
            incoming.held_octets = 0
        if self._waiting:
            self.resume()

    def resume(self) -> None:
        """Starts the RDMA Reads of waiting calls, in order, as far as the connection's bound and the memory allow."""
        # A call that is refused when its turn comes is released from here: one loop sees to all that wait.
        if self._resuming:
            return
        self._resuming = True
        waiting, session = self._waiting, self._session
        most = max(limits.CONNECTION_OCTETS_PULLED_MAX, session.config.call_octets_pulled_max)
        self.wanted_octets = 0
        while waiting and session.state is State.OPEN:
            incoming = waiting[0]
            if self._held_octets + incoming.held_octets > most:
                break
            if not self._pull(incoming):
                self.wanted_octets = incoming.held_octets
                break
            waiting.pop(0)
        self._resuming = False

    def on_closed(self, waited: Sequence[Outgoing]) -> None:
        """Drops incomplete calls after the connection has ended; reported calls keep their memory until their answer.

        `waited`: the unsent messages; `ReplySent` frees the buffers of each reply for which `reply` has returned True.
        """
        for message in waited:
            if isinstance(message, IncomingCall) and message.plan is not None:
                self.on_sent(message)
        reading, waiting = list(self._reading), list(self._waiting)
        self._reading.clear()
        self._waiting.clear()
        self.wanted_octets = 0
        self._session.owed -= len(reading)
        self.unanswered -= len(reading) + len(waiting)
        for incoming in waiting:
            # Nothing was taken for its Read chunks.
            incoming.held_octets = 0
        for incoming in (*reading, *waiting):
            incoming.answered = True
            if incoming.sink_region is not None:
                try:
                    self._session.pd.invalidate(incoming.sink_region)
                except RpcRdmaError:
                    # The provider may still write there: the memory is not given back for reuse.
                    incoming.sink = None
            self._release(incoming)


def _held_by(data: Buffer) -> int:
    """Returns the octets of memory that `data`, a received message, keeps in use: those of its whole receive buffer."""
    return as_view(data.obj).nbytes if isinstance(data, memoryview) else len(data)


def _write_carried(session: Session, incoming: IncomingCall) -> Sequence[Buffer] | None:
    """Posts the RDMA Writes of a reply that an extension carries, and sets `incoming.group`, the messages for it.

    Returns an empty payload; None, with nothing done, if the reply waits for more credits.
    """
    payload = incoming.payload
    assert incoming.carried is not None
    assert incoming.carried.reply is not None
    found = incoming.carried.reply.plan(payload, session.window.balance)
    if found is None:
        return None
    for index, chunk in found.written:
        write_chunk([payload.items[index].data], chunk, session.qp, session.statistics)
    incoming.group = found.transmissions
    return ()
