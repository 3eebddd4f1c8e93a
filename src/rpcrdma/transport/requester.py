"""The requester: sends calls, exposes their memory and takes replies, in the forward or the reverse direction.

When a call has a credit, it is planned (`plan_call`), its memory is registered (`exposure`), and it is sent. Its memory
is invalidated before a reply or refusal is reported. An abandoned call is fenced at once, and holds its credit.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from rpcrdma.errors import LocalProtocolError, OutOfMemory, RemoteProtocolError, RpcRdmaError, TransportClosed
from rpcrdma.rpc.calling import ReplyDecoder, ResultDecoder
from rpcrdma.transport.call import Call
from rpcrdma.transport.call_states import TRANSITIONS, CallInput, CallState
from rpcrdma.transport.carriers import CallToCarry, CarriedCall, CarriedResults, Carrier
from rpcrdma.transport.chunks import NO_CHUNKS
from rpcrdma.transport.config import ReverseSupport
from rpcrdma.transport.connection_states import State
from rpcrdma.transport.events import CallFailed, ReplyArrived
from rpcrdma.transport.exposure import Exposure, check_echo, result_sizes
from rpcrdma.transport.message import CallDirection, Inbound, Kind
from rpcrdma.transport.outbox import Outbox
from rpcrdma.transport.plan_call import PLAIN, check_one_message, plan_call, plan_far_call
from rpcrdma.transport.reactions import RESENT, CallForm, form_after, has_fewest
from rpcrdma.transport.refusals import error_of
from rpcrdma.transport.session import Session
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.bulk_memory import ResultMemory
from rpcrdma.xdr.codec import Payload

__all__ = ["Requester"]

_SEND, _END, _QUEUED, _ABANDONED = CallInput.SEND, CallInput.END, CallState.QUEUED, CallState.ABANDONED
_CLOSED = State.CLOSED
_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


class Requester:
    """The calls of this side in one direction: sends them, exposes their memory, adds replies to the session's events.

    A message that ends a call takes effect once no Send may read the call's arguments any more. `carrier` decides which
    calls an extension carries; None: no extension does.
    """

    __slots__ = ("_allowed", "_direction", "_memory", "_outbox", "_session", "calls", "carrier", "early", "untimed")

    def __init__(self, session: Session, outbox: Outbox, direction: CallDirection) -> None:
        self._session = session
        self._outbox = outbox
        self._direction = direction
        self._memory = ResultMemory(registers=session.pd.counts is not None)
        self._allowed = direction is CallDirection.FORWARD
        self.carrier: Carrier | None = None
        self.calls: dict[int, Call] = {}
        """Calls that wait, or were sent and not answered, by XID; abandoned ones included."""
        self.untimed: OrderedDict[Call, None] = OrderedDict()
        """Timed calls that wait or are sent again; the owner sets `sent_ns` of each that is sent, and removes it."""
        self.early: dict[Call, Callable[[], object]] = {}
        """Calls that a message has ended while a Send may read their arguments: the endpoint ends them after it."""

    @property
    def in_flight(self) -> int:
        """The number of calls that are sent and not answered, abandoned calls included."""
        return len(self.calls) - self._outbox.waiting(Kind.CALL)

    def start(self, call: Call) -> None:
        """Sends a call as soon as credits allow; `ReplyArrived` or `CallFailed` follows unless the call is abandoned.

        Buffers in the call's attributes `payload` and `into` must not change until that event or the end of `abandon`.

        Raises:
            LocalProtocolError: the XID is in use; or calls of this server are not permitted (see `allow`); or there is
                a credit for the call, but its memory cannot be registered, its header cannot hold the chunks, or it
                needs chunks where none are permitted. If the call waits for credit, `CallFailed` reports these later.
            OutOfMemory: there is a credit for the call, but no memory for the results; reported later as well.
            TransportClosed: the connection has ended.
        """
        session = self._session
        if not self._allowed or session.state is _CLOSED:
            self._refuse()
        if call.xid in self.calls:
            raise LocalProtocolError(f"a call with XID {call.xid:#010x} is outstanding")
        call.reset()
        if not self._outbox.send(call, self) and call.began_ns:
            self.untimed[call] = None
        self.calls[call.xid] = call

    def rest(self) -> None:
        """Frees the memory for results that is kept for reuse; no effect while any call waits or is unanswered."""
        if not self.calls:
            self._memory.clear()

    @property
    def has_handles_of_ended_memory(self) -> bool:
        """Whether the peer may still use a handle of an abandoned call that the provider could not keep valid.

        See `ProtectionDomain.abandon`. Such a use ends the connection as a protocol error without a fault of the peer.
        """
        given_up = (call.exposure for call in self.calls.values() if call.state is _ABANDONED)
        return any(not region.abandoned for exposure in given_up if exposure for region in exposure.regions)

    def allow(self) -> None:
        """Permits a server to call its client, whose upper layer is ready for calls (RFC 8167 section 6).

        No effect at a client, without reverse calls, or if the client's transport properties state that it takes none.
        """
        self._allowed |= self._session.reverse_support is not ReverseSupport.NONE

    def _refuse(self) -> NoReturn:
        session = self._session
        if self._allowed:
            raise TransportClosed(session.failure or "the connection has ended")
        if session.reverse_support is ReverseSupport.NONE:
            raise LocalProtocolError("the client takes no calls, as its transport properties say")
        raise LocalProtocolError("the client has not said that it is ready for calls (RFC 8167 section 6)")

    def abandon(self, call: Call) -> None:
        """Gives up a call and fences its memory: when this returns, no peer can touch the memory. No event follows.

        No effect after the call has ended. The connection ends if a Send may still read the call's arguments, if the
        memory cannot be fenced, once the peer reads it by RDMA, or above ABANDONED_CALLS_MAX. A call that was sent
        holds its credit until a reply, if the peer drops none; `Endpoint.progress` sends others that have room now.
        """
        before = call.state
        call.state = TRANSITIONS[before, CallInput.ABANDON]
        if before is _QUEUED:
            del self.calls[call.xid]
            self._outbox.withdraw(call)
            self.untimed.pop(call, None)
        elif before is CallState.SENT:
            if call.exposure is not None:
                self._fence(call.exposure.abandon)
            self._session.statistics.calls_abandoned += 1
            if call.carried is not None:
                call.carried.end()
            self._outbox.due = True
            if self._session.window.on_abandoned(1):
                self._session.qp.abort("too many calls were given up that the peer never answered")
        else:
            return
        if call.sending:
            self._session.qp.abort("a call was given up whose argument was still being sent")
        call.payload = None
        call.into = ()

    def prepare(self, message: Call) -> Sequence[Buffer] | bytes | bytearray | None:
        """Plans a call, registers its memory and marks it as sent; the outbox calls it when there is a credit.

        Returns the payload: a gather list, or octets that the outbox is to join with a header without chunks; never
        None, unlike other `Preparer`s. Raises LocalProtocolError: memory cannot be registered, the header cannot hold
        the chunks, or the call needs chunks in a direction without them; OutOfMemory: there is no memory.
        """
        payload = message.payload
        assert payload is not None
        session = self._session
        bound = message.form.bound
        octets, most = len(payload.reduced), session.call_octets
        if payload.items:
            octets, most = payload.length, session.items_inline_octets
            if self.carrier is not None and (self.carrier.eager or message.placement):
                most = 0
        short = not bound.items and octets <= most and bound.results <= session.results_octets
        inline: Sequence[Buffer] | None = None
        try:
            if not short:
                if self._direction is CallDirection.FORWARD or session.reverse_support is ReverseSupport.GENERAL:
                    inline = self._expose(message, payload)
                else:
                    check_one_message(payload.length, bound, session.plan_limits)
                    inline = [payload.joined()]
            # The message may be sent after the call was abandoned, when its caller may have changed the items' memory.
            whole = payload.joined() if inline is None and payload.items else payload.reduced
        except RpcRdmaError:
            session.statistics.calls_unsendable += 1
            if message.exposure is not None:
                message.exposure.end()
            raise
        message.state = TRANSITIONS[message.state, _SEND]
        message.transmissions += 1
        message.octets_sent += octets
        if inline is not None:
            return inline
        return whole if octets <= session.joined_octets else (whole,)

    def on_unsendable(self, message: Call, error: LocalProtocolError | OutOfMemory) -> None:
        """Ends a call that had waited and cannot be sent, and reports it by `CallFailed`."""
        message.state = TRANSITIONS[message.state, _END]
        message.payload = None
        del self.calls[message.xid]
        self._session.events.append(CallFailed(message, error))

    def _expose(self, call: Call, payload: Payload) -> Sequence[Buffer] | None:
        """Plans a call, offers it to the extension that may carry it (`carrier`), and registers its memory.

        Returns the gather list of the call's message, empty if the carrier has taken the call; None if neither chunk
        nor carrier is needed: the caller then sends the whole encoded call. Raises LocalProtocolError: memory cannot be
        registered, or the header cannot hold the chunks; OutOfMemory: there is none for the results.
        """
        session = self._session
        limits = session.plan_limits
        form = call.form
        bound = form.bound
        if form.attempts > 1:
            limits = form.narrow(limits)
        sizes, given = result_sizes(bound.items, call.into) if call.into else (bound.items, 0)
        reduced = len(payload.reduced)
        items = payload.item_octets() if payload.items else ()
        plan = plan_call(reduced, items, bound.results, sizes, limits)
        carrier, carried = self.carrier, None
        if carrier is not None and (carrier.eager or call.placement or plan is not PLAIN) and not form.plain:
            room = session.window.balance
            offered = _tuple(CallToCarry, (payload, bound.results, sizes, given, limits, room, call.placement))
            carried = carrier.take(offered)
        if carried is not None:
            plan = carried.plan
        elif payload.length > session.call_octets and form.attempts == 1 and session.far_limits is not None:
            balance = session.window.balance
            plan = plan_far_call(plan, reduced, items, bound.results, sizes, session.far_limits, balance)
        elif plan is PLAIN and not items:
            return None
        exposure = Exposure(session.pd, payload, plan, call.into, limits, self._memory, carried=carried is not None)
        chunks = exposure.chunks
        if carried is None and (exposure.segments > 1 or not limits.segments_max):
            exposure.check_headers(session.plan_limits, continued=session.splits)
        if chunks is not NO_CHUNKS:
            call.exposure = exposure
            if session.names_ended and carried is None:
                call.ends = chunks.first_handle
        call.chunks = chunks
        call.long = plan.long
        statistics = session.statistics
        statistics.registrations += len(exposure.regions)
        statistics.calls_long += plan.long
        statistics.calls_read_chunk += bool(plan.read_items)
        statistics.calls_write_chunk += bool(plan.write_chunks)
        for read in chunks.reads:
            statistics.segments_read += len(read.segments)
        for write in chunks.writes:
            statistics.segments_write += len(write.segments)
        if chunks.reply is not None:
            statistics.segments_reply += len(chunks.reply.segments)
        statistics.octets_offered += sum(plan.write_chunks) + plan.reply_chunk
        if carried is None:
            return exposure.inline
        call.carried = carried
        call.group = carried.transmissions(chunks)
        call.sending = len(payload.items) > len(plan.read_items)
        return ()

    def carried(self, xid: int) -> CarriedCall | None:
        """Returns the carrying extension's state of the sent, unanswered call `xid`; None if there is no such state."""
        call = self.calls.get(xid)
        return None if call is None or call.state is CallState.QUEUED else call.carried

    def on_reply(self, message: Inbound, invalidated: int | None, results: CarriedResults | None = None) -> bool:
        """Ends the call that a reply answers: fences its memory and, unless it was abandoned, reports reply or failure.

        `message`: the reply. `invalidated`: the handle that the reply's Send invalidated, or None. `results`: the bulk
        items of a reply that an extension carried, unused for an abandoned call; None for other replies. Returns False
        if no call waits for the reply. True also if the reply breaks the protocol: a wrong `invalidated`, or memory
        that cannot be fenced, ends the connection; wrong chunks or items fail the call.
        """
        call, session = self.calls.get(message.xid), self._session
        if call is None or call.state is _QUEUED:
            session.statistics.bad_xids += 1
            return False
        if call.sending:
            return self._put_off(call, partial(self.on_reply, message, invalidated, results))
        if invalidated is not None and not self._accept_invalidation(call, invalidated):
            return True
        if results is not None and call.carried is None:
            error = RemoteProtocolError("a reply in messages of an extension to a call that went in none")
            return self.fail(message.xid, error)
        exposure = call.exposure
        abandoned = call.state is _ABANDONED
        reply_view = None
        if exposure is not None:
            reply_view = exposure.reply_view
            if not self._fence(exposure.end):
                return True
        # As `_end`, in one step.
        del self.calls[call.xid]
        call.state = TRANSITIONS[call.state, _END]
        call.payload = None
        if call.carried is not None:
            call.carried.end()
        session.window.on_received(message)
        session.statistics.calls += 1
        if abandoned:
            session.window.on_abandoned(-1)
        elif exposure is None and message.chunks is NO_CHUNKS and not message.long and call.carried is None:
            session.statistics.calls_short += 1
            decoder: ReplyDecoder = (
                ResultDecoder(message.data, message.start, None, call.into)
                if call.into
                else ReplyDecoder(message.data, message.start)
            )
            session.events.append(_tuple(ReplyArrived, (call, decoder)))
        else:
            self._open(call, exposure, message, reply_view, results)
        if self._outbox.queued:
            self._outbox.drain()
        return True

    def on_refused(self, message: Inbound, invalidated: int | None) -> bool:
        """Handles a refusal: sends the call again in other chunks or sizes if that can help, otherwise fails it.

        `message`: the peer's error; if it refuses all calls of one Send, each is handled like this. An abandoned call
        ends without an event. `invalidated`: the handle that the error's Send invalidated, or None. Returns False if no
        sent call has the error's XID; True also if the error breaks the protocol and so ends the connection.
        """
        call, session = self.calls.get(message.xid), self._session
        if call is None or call.state is _QUEUED:
            session.statistics.bad_xids += 1
            return False
        if call.sending:
            return self._put_off(call, partial(self.on_refused, message, invalidated))
        if invalidated is not None and not self._accept_invalidation(call, invalidated):
            return True
        assert message.refusal is not None
        if call.exposure is not None and not self._fence(call.exposure.end):
            return True
        form = None
        most, possible = session.config.reply_octets_max, session.segment_octets_possible
        if call.state is not _ABANDONED and not has_fewest(message.refusal, call.chunks, possible):
            form = form_after(message.refusal, call.form, call.into, most, possible)
            if call.carried is not None:
                form = call.carried.form_after(message.refusal, call.form, form)
            if form is not None and call.protection is not None:
                # The responder may have taken the sequence number.
                call.payload = call.protection.encode_again(call.xid, call.procedure, call.args)
                form, call.next_form = (None, form) if call.payload is None else (form, None)
        if form is not None:
            plain = form.plain and not call.form.plain
            counter = "resent_plain" if plain else RESENT.get(message.refusal.cause, "resent_larger")
            setattr(session.statistics, counter, getattr(session.statistics, counter) + 1)
            session.window.on_received(message)
            self._send_again(call, form)
        else:
            abandoned = self._end(call, message)
            session.statistics.calls_failed += 1
            if not abandoned:
                session.events.append(CallFailed(call, error_of(message.refusal)))
        others = () if session.batcher is None else session.batcher.refused_with(message)
        for xid in others:
            if xid in self.calls:
                self.on_refused(replace(message, xid=xid), None)
        if self._outbox.queued:
            self._outbox.drain()
        return True

    def fail(self, xid: int, error: RpcRdmaError) -> bool:
        """Ends the sent, unanswered call with this XID: fences its memory, and reports `CallFailed` with `error`.

        An abandoned call ends without an event. Returns False if there is no such call; True also if its memory cannot
        be fenced, which aborts the connection.
        """
        call = self.calls.get(xid)
        if call is None or call.state is _QUEUED:
            return False
        if call.sending:
            return self._put_off(call, partial(self.fail, xid, error))
        if call.exposure is not None and not self._fence(call.exposure.end):
            return True
        session = self._session
        abandoned = self._end(call, Inbound(Kind.REPLY, xid, 0, session.dialect.version))
        session.statistics.calls_failed += 1
        session.statistics.bad_replies += isinstance(error, RemoteProtocolError)
        if not abandoned:
            session.events.append(CallFailed(call, error))
        if self._outbox.queued:
            self._outbox.drain()
        return True

    def _put_off(self, call: Call, end: Callable[[], object]) -> bool:
        """Has `end`, which ends `call`, called after the call's Send; returns False if another such function waits."""
        entered = self.early.setdefault(call, end) is end
        self._session.statistics.bad_xids += not entered
        return entered

    def _send_again(self, call: Call, form: CallForm) -> None:
        """Sends a refused call again with its XID, in another `form`; reports `CallFailed` if it cannot be sent."""
        call.form = form
        if call.carried is not None:
            call.carried.end()
            call.carried = call.group = None
        call.exposure = None
        call.chunks = NO_CHUNKS
        call.ends = None
        call.long = False
        call.state = TRANSITIONS[call.state, CallInput.REFUSE]
        try:
            self._outbox.send(call, self)
        except (LocalProtocolError, OutOfMemory) as error:
            self.on_unsendable(call, error)
        else:
            if call.began_ns:
                self.untimed[call] = None

    def on_closed(self, reason: str, *, protocol_error: bool) -> None:
        """Ends every call after the connection's end: invalidates its memory, and fails it unless it was abandoned.

        `CallFailed` has a `TransportClosed` with the text `reason`. `protocol_error`: one side broke the protocol.
        """
        calls = list(self.calls.values())
        self.calls.clear()
        self.early.clear()
        session = self._session
        for call in calls:
            if call.exposure is not None:
                for region in call.exposure.regions:
                    # Invalidation may fail, and may have ended the connection; the call is reported anyway.
                    with contextlib.suppress(RpcRdmaError):
                        session.pd.invalidate(region)
            if call.state is not _ABANDONED:
                session.events.append(CallFailed(call, TransportClosed(reason, protocol_error=protocol_error)))
            call.state = TRANSITIONS[call.state, _END]
            call.payload = None

    def _accept_invalidation(self, call: Call, invalidated: int) -> bool:
        session = self._session
        # The peer need not have announced the ability itself: Linux servers use it where the client allows it.
        if not session.config.remote_invalidation:
            session.violation("the peer used Send with Invalidate, which was not agreed on")
            return False
        if invalidated != call.ends and not session.dialect.may_end(call, invalidated):
            session.violation(f"the peer invalidated handle {invalidated:#010x}, which the call did not expose")
            return False
        session.statistics.remote_invalidations += 1
        return True

    def _fence(self, end: Callable[[], None]) -> bool:
        """Calls `end`: `Exposure.end` or `.abandon` of a call; returns False, and aborts the connection, on failure."""
        try:
            end()
        except RpcRdmaError as error:
            # RFC 8166 section 4.5.4: the connection goes before the call completes.
            self._session.violation(f"memory cannot be invalidated: {error}")
            return False
        return True

    def _end(self, call: Call, message: Inbound) -> bool:
        """Removes a call that `message`, a reply or an error, has ended; returns whether the call was abandoned."""
        session, abandoned = self._session, call.state is _ABANDONED
        del self.calls[call.xid]
        call.state = TRANSITIONS[call.state, _END]
        call.payload = None
        if call.carried is not None:
            call.carried.end()
        session.window.on_received(message)
        if abandoned:
            session.window.on_abandoned(-1)
        session.statistics.calls += 1
        return abandoned

    def _open(
        self,
        call: Call,
        exposure: Exposure | None,
        message: Inbound,
        reply_view: memoryview | None,
        results: CarriedResults | None,
    ) -> None:
        """Takes a reply's stream and bulk items from chunks or an extension; reports the reply, or its call as failed.

        `message`: the reply. `exposure`: the call's memory. `reply_view`: that of its Reply chunk. `results`: the bulk
        items that came in an extension's messages. Each of these three is None if there is no such memory or item.
        """
        session = self._session
        statistics = session.statistics
        if call.carried is None and not message.long and not call.chunks.writes and not call.chunks.reads:
            statistics.calls_short += 1
        targets: Sequence[memoryview | None] = () if exposure is None else exposure.targets
        try:
            returned = None
            if call.carried is not None:
                returned = call.carried.open(results, message.data, call.chunks, targets)
            if returned is None:
                returned = check_echo(message, call.chunks, targets, reply_view, may_be_inline=session.splits)
        except RemoteProtocolError as error:
            statistics.calls_failed += 1
            statistics.bad_replies += 1
            session.events.append(CallFailed(call, error))
            return
        statistics.octets_returned += returned.octets
        statistics.calls_by_rdma += returned.octets > 0 or bool(call.chunks.reads)
        statistics.replies_long += message.long
        call.long_reply = message.long
        decoder: ReplyDecoder = (
            ResultDecoder(returned.data, returned.start, returned.placed, call.into)
            if call.into
            else ReplyDecoder(returned.data, returned.start, placed=returned.placed)
        )
        session.events.append(_tuple(ReplyArrived, (call, decoder)))
