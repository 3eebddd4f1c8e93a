"""One RPC-over-RDMA connection on the event loop: calls go out, replies and calls come in.

Joins a transport `Endpoint`, its queue pair and driver in the loop's thread, where only `_turn` takes completions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from time import perf_counter_ns

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.connections.calls_made import CallFuture, CallObserver, CallsMade, tell_of_padding, with_cause
from rpcrdma.aio.connections.negotiated import Negotiated, negotiated
from rpcrdma.aio.connections.rdma_calls_taken import RdmaCallsTaken
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.effects import random_bits
from rpcrdma.aio.drivers.provider import Link
from rpcrdma.aio.drivers.sockets import authority, fault_words
from rpcrdma.errors import InternalError, RpcRdmaError, TransportClosed
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.calling import CallEncoder, decode_result
from rpcrdma.rpc.host_identity import CallOrigin, HostIdentity, XprtSec
from rpcrdma.transport import (
    Call,
    CallArrived,
    CallFailed,
    Closed,
    Endpoint,
    Extension,
    ExtensionLink,
    ReplyArrived,
    ReplyBound,
    ReplySent,
    ReverseSupport,
    Role,
    TransportConfig,
    TransportStatistics,
    VersionRefused,
    offered,
)
from rpcrdma.transport.call_states import CallState
from rpcrdma.transport.host_authentication import AuthenticatorSource
from rpcrdma.verbs import ReceivePool

__all__ = ["RdmaConnection"]

_LOGGER = logging.getLogger("rpcrdma")
_QUEUED = CallState.QUEUED
_SERVER = Role.SERVER
_TOGETHER_MAX = 8
"""Calls of one turn that leave together, and calls of the peer whose replies do: the peer works on them meanwhile."""


class RdmaConnection(CallsMade):
    """One RPC-over-RDMA connection over a provider's link, on either side; the end that connects is the client.

    Args:
        link, transport: the path to the peer, which the constructor opens; the message sizes and other limits.
        results, arguments: `results` lends memory for results of handlers, `arguments` for the data of Read chunks.
        credential: the credential of this side's calls; None: AUTH_NONE.
        answering: answers the peer's calls; a client without it takes none.
        receive_pool: the memory of receives that several connections share; None: memory of its own.
        authenticators: makes the object by which both hosts authenticate each other; None: no host authentication.
        version, extensions: `version` is one of `transport.VERSION_CHOICES`; `extensions` are those this end offers.
        on_established: called when both sides are connected, and have authenticated each other where that is set.
        on_ended: called at the end in any case, when memory is released.
        on_version_refused: called if a call's version is refused; then the connection ends. None: the call alone fails.
        observer: called with each call of this side that was made with `call` and has ended.
    """

    __slots__ = (
        "_active_at", "_arguments", "_authenticator", "_broken", "_called_back", "_driver", "_encoder", "_ended",
        "_endpoint", "_established", "_holds", "_name", "_on_ended", "_on_established", "_on_version_refused",
        "_provider", "_queue_pair", "_requester", "_role", "_round_trip_s", "_small_results", "_starting", "_together",
        "_transport", "_turn_due", "_untimed", "_waits_for_memory", "calls_taken", "end_reason", "origin", "peer",
    )  # fmt: skip

    xprtsec: XprtSec = "none"
    """The protection by TLS, which RPC over RDMA does not have."""

    def __init__(
        self,
        link: Link,
        *,
        transport: TransportConfig,
        results: BufferPool,
        arguments: BufferPool,
        credential: Credential | None = None,
        answering: Answering | None = None,
        receive_pool: ReceivePool | None = None,
        authenticators: AuthenticatorSource | None = None,
        version: str = "auto",
        extensions: Sequence[Extension] = (),
        on_established: Callable[[RdmaConnection], None] | None = None,
        on_ended: Callable[[RdmaConnection], None] | None = None,
        on_version_refused: Callable[[], None] | None = None,
        observer: CallObserver | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.peer = link.peer
        self._role = role = Role.CLIENT if link.active else Role.SERVER
        host = self.peer[0]
        self.origin = CallOrigin(host, "rdma")
        """The peer's address, transport and proved host, for rules of access; replaced when the host is proved."""
        self._name = authority(*self.peer)
        self._active_at = self._loop.time()
        self._authenticator = authenticator = None if authenticators is None else authenticators()
        self._on_established = on_established
        self._on_ended = on_ended
        self._on_version_refused = on_version_refused
        self._waits_for_memory = self._called_back = self._holds = self._turn_due = self._broken = False
        # Calls made, or calls of the peer taken, since the last flush.
        self._together = 0
        self._starting = True
        self._observer = observer
        self._encoder = CallEncoder(credential)
        self._xid = random_bits(32)
        self._established: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.end_reason: Closed | None = None
        self._provider = link.provider
        if not link.remote_invalidation:
            transport = replace(transport, remote_invalidation=False)
        self._round_trip_s: float | None = None
        self._look_again_s = inf
        self.timer = timer = DeadlineTimer(self._loop, self._turn)
        self._driver = driver = link.open(transport.private_data(), timer, self._turn, self._closed)
        self._queue_pair = driver.queue_pair
        self._arguments = arguments.share(host)  # a connection that `open` refuses has no end, which closes the share
        self._endpoint = Endpoint(
            driver.queue_pair,
            driver.protection_domain,
            transport,
            role,
            self._arguments,
            reverse=not link.active or answering is not None,
            receive_pool=receive_pool,
            dialects=offered(version),
            extensions=extensions,
            incoming=ServerCall,
            settle_s=link.settle_s,
            authenticator=authenticator,
        )
        requester, responder = self._endpoint.requester, self._endpoint.responder
        assert requester is not None, "a client makes calls, and a server reverse calls"
        self._requester = requester
        self._pending, self._untimed = requester.calls, requester.untimed
        self.calls_taken = RdmaCallsTaken(
            self, responder, answering, results.share(host), on_answered=self._on_answered, on_fault=self._break
        )
        self._transport = transport
        # Up to here a call offers as much for its result as its procedure says.
        self._small_results = transport.reply_octets_max if link.active else -1
        for link_of_extension in self._endpoint.extensions.values():
            link_of_extension.wake = self._flush_posted
            link_of_extension.asked.new_future = self._loop.create_future
        timer.watch(self._endpoint)
        timer.watch(self)
        driver.flush()

    @property
    def statistics(self) -> TransportStatistics:
        """The counters of the connection; the object continues to count, registrations by a device at each access."""
        statistics = self._endpoint.statistics
        counts = self._driver.protection_domain.counts
        if counts is not None:
            statistics.device_registrations, statistics.registrations_reused = counts.made, counts.reused
        return statistics

    @property
    def calls_in_progress(self) -> int:
        """The number of unanswered calls of the client: at a client those sent, at a server those received."""
        return self._endpoint.calls_in_flight

    @property
    def idle_since(self) -> float | None:
        """The loop time in seconds since which no call is in progress; None while one is, and always after `ready`."""
        endpoint = self._endpoint
        busy = endpoint.calls_in_flight or endpoint.reverse_calls_in_flight or self._called_back
        return None if busy else self._active_at

    @property
    def locked_octets(self) -> int:
        """The octets of receive buffers that an RDMA device keeps locked from the start on; 0 without a device."""
        return 0 if self._driver.terms.device is None else self._endpoint.receives_octets

    @property
    def negotiated(self) -> Negotiated:
        """The version, message sizes, credits and other terms agreed by now, as a new object at each access."""
        return negotiated(self._endpoint, self._driver.terms, self._provider, self._round_trip_s, self.host_identity)

    @property
    def host_identity(self) -> HostIdentity | None:
        """The host identity that the peer has proved; None without host authentication or proof."""
        return None if self._authenticator is None else self._authenticator.peer

    @property
    def unanswered(self) -> bool:
        """Whether the server has not answered this client's first message, sent in a version that it may not know."""
        return self._endpoint.unanswered

    @property
    def version_refused(self) -> bool:
        """Whether this client's connection ended because the server speaks none of the offered versions."""
        return self._endpoint.version_refused

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, so that calls fail at once."""
        return self.end_reason is not None

    async def wait_established(self) -> None:
        """Waits until both sides are connected, and have authenticated each other where that is set.

        Raises HostAuthenticationFailed: either host refused the other; TransportClosed: another failure, named in it.
        """
        await asyncio.shield(self._established)

    async def wait_closed(self) -> None:
        """Waits until the connection has ended, for any reason, and has released its memory."""
        await asyncio.shield(self._ended)

    def ready(self, credential: Credential | None = None) -> None:
        """Permits a server to call the client (RFC 8167), unless the client has stated that it takes no calls.

        `credential` is for these calls; None: as before. From now on the connection does not end for being idle. No
        effect at a client. Raises LocalProtocolError if the credential cannot be encoded.
        """
        if self._role is _SERVER:
            if credential is not None:
                self._encoder = CallEncoder(credential)
            self._requester.allow()
            self._called_back = True

    def start(self, call: Call) -> CallFuture:
        """Sends a call, alone or together with others of this iteration of the loop; returns the future of its result.

        The result is decoded. Raises TransportClosed: the call was not taken, because the connection has ended or an
        internal error ends it; LocalProtocolError, TypeError, OutOfMemory, GssFailure: it cannot be encoded or sent.
        """
        if (end := self.end_reason) is not None:
            raise TransportClosed(end.reason, protocol_error=end.protocol_error)
        protection = call.protection
        encode = (call.encoder or self._encoder).encode if protection is None else protection.encode
        call.payload = encode(call.xid, call.procedure, call.args)
        bound = call.procedure.bound
        if type(bound) is not ReplyBound or bound.items or bound.results > self._small_results:
            bound = self._offered(call)
        call.bound = bound if protection is None else protection.bound(bound)
        try:
            self._requester.start(call)
        except InternalError as error:
            self._break(error)
            self._turn()
            raise TransportClosed(fault_words(error)) from error
        call.peer = self._name
        if call.began_ns and call.state is not _QUEUED:
            call.sent_ns = perf_counter_ns()
        future = self._future(call)
        if self._holds:
            self._turn_soon()
        elif len(self._requester.calls) > 1 and self._together < _TOGETHER_MAX:
            self._together += 1
            self._turn_soon()
        else:
            self._together = 0
            self._driver.flush()
        return future

    def _offered(self, call: Call) -> ReplyBound:
        """Returns the octets offered for the result of `call` and for each of its bulk items.

        They are those of the procedure's bound, each reduced to `TransportConfig.reply_octets_max`, except the item for
        `call.into`. A server whose calls can have no chunks offers their sum, reduced to what fits a reply inline.
        """
        bound = call.procedure.reply_bound(call.args)
        items = bound.items
        given = bool(call.into)
        if self._role is _SERVER and self._endpoint.reverse_support is not ReverseSupport.GENERAL:
            # All replies come inline. Few results are as large as they could be: nothing is refused before it is.
            return bound.inline(self._endpoint.inline_results_octets)
        most = self._transport.reply_octets_max
        if bound.results <= most and (not items or (len(items) == 1 and (given or items[0] <= most))):
            return bound
        return bound.capped(most, given=given)

    def on_time(self, now_s: float) -> None:
        super().on_time(now_s)
        self._requester.rest()

    def give_up(self, call: Call) -> None:
        """Abandons an unanswered call; fences its memory before it returns, if need be by ending the connection."""
        self._requester.abandon(call)
        self._driver.flush()
        # A turn reports the end of the connection, if this has ended it, or sends calls that waited for room.
        if not self._turn_due and (self._queue_pair.events or self._requester.in_flight < len(self._pending)):
            self._turn_due = True
            self._loop.call_soon(self._end_turn)

    def _note_sent(self) -> None:
        """Sets `sent_ns`, the time of sending, of calls that waited and were sent, unless they ended before."""
        untimed, now_ns = self._untimed, perf_counter_ns()
        while untimed and next(iter(untimed)).state is not _QUEUED:
            call, _ = untimed.popitem(last=False)
            if call.transmissions:
                call.sent_ns = now_ns

    def extension(self, name: str) -> ExtensionLink | None:
        """Returns the object for using the extension `name` on the connection; None if it was made without it."""
        return self._endpoint.extensions.get(name)

    def _flush_posted(self) -> None:
        """Sends the messages that a protocol extension has posted; no effect within `_turn`, which sends at its end."""
        if not self.calls_taken.in_turn:
            self._driver.flush()

    def _turn_soon(self) -> None:
        """Schedules `_turn`, which sends new messages together and answers waiting calls, unless one is due or runs."""
        if not self._turn_due and not self.calls_taken.in_turn:
            self._turn_due = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_due = False
        if self.end_reason is None:
            self._turn()

    async def close(self) -> None:
        """Disconnects, and waits until the connection has ended; calls that still wait fail with `TransportClosed`."""
        if not self._ended.done():
            self._endpoint.disconnect()
            self._driver.expect_end()
            self._turn()
        await self.wait_closed()

    def abort(self, reason: str) -> None:
        """Ends the connection at once, without waiting for the peer; its calls get `TransportClosed` with `reason`."""
        self._queue_pair.abort(reason)
        self._turn()
        self._driver.close()

    def _break(self, error: Exception) -> None:
        """Logs `error`, a fault of this side's code, and ends the connection; raises nothing."""
        self._broken = True
        _LOGGER.error("a fault in the connection with %s, which is ended", self._name, exc_info=error)
        self._queue_pair.abort(fault_words(error))

    def _turn(self) -> None:
        """Takes the queue pair's completions and events, answers calls of the peer, and sends what was posted.

        CONNECTION_TURN_S s after the first call, others are left for the next run. Own faults end only this connection.
        """
        driver, endpoint, events, calls_taken = self._driver, self._endpoint, self._endpoint.events, self.calls_taken
        calls_taken.in_turn = True
        calls_taken.turn_ends_s = None
        called = False
        # A reply that was made outside of a turn counts as an event: sending it frees buffers.
        busy = True
        try:
            while True:
                endpoint.progress()
                if self._untimed:
                    self._note_sent()
                while events:
                    busy = True
                    event = events.popleft()
                    if type(event) is ReplyArrived:
                        self._on_reply(event)
                    elif type(event) is CallArrived:
                        called = True
                        calls_taken.on_call(event.incoming)
                        self._together += 1
                        if self._together > _TOGETHER_MAX and not self._holds:
                            self._together = 0
                            driver.flush()
                    elif type(event) is ReplySent:
                        calls_taken.on_sent(event.incoming)
                    elif type(event) is CallFailed:
                        self._on_call_failed(event.call, event.error)
                    elif type(event) is Closed:
                        self._on_end(event)
                    else:
                        self._on_ready()
                if calls_taken.deferred:
                    busy = calls_taken.answer_deferred() or busy
                if self._holds:
                    endpoint.send_held()
                    if self._untimed:
                        self._note_sent()
                self._together = 0
                driver.flush()
                # Sending frees buffers, for which deferred calls wait, or has sent the Reply that ends a start-up.
                # An event here is of a call that had waited and cannot be sent, or an end that this side has asked for.
                news = events or self._queue_pair.events
                if not news and (driver.blocked or not (busy and (calls_taken.unsent_octets or self._starting))):
                    break
                busy = False
            calls_taken.in_turn = False
            if called:
                self._active_at = self._loop.time()
            if calls_taken.deferred and calls_taken.may_answer:
                self._turn_soon()
            if endpoint.unsettled():
                if endpoint.untimed:
                    self.timer.look()
                if endpoint.wanted_octets and not self._waits_for_memory and self.end_reason is None:
                    self._waits_for_memory = True
                    self._arguments.wait(endpoint.wanted_octets, self._pull_on)
        except Exception as error:
            if self._broken:
                raise
            self._break(error)
            self._turn()
        if self._broken:
            driver.close()

    def _pull_on(self) -> None:
        self._waits_for_memory = False
        if self.end_reason is None:
            self._endpoint.resume_pulls()
            self._turn()

    def _on_call_failed(self, call: Call, error: RpcRdmaError) -> None:
        if isinstance(error, VersionRefused) and self._on_version_refused is not None:
            reason = f"{error}, not version {self._endpoint.version}, which it was known by"
            self._on_version_refused()
            # Before the caller goes on, which may want to call on another connection at once.
            self._loop.call_soon(self.abort, reason)
            error = TransportClosed(reason)
        call.future.fail(with_cause(call, error))

    def _on_ready(self) -> None:
        self._starting = False
        self.origin = self.origin._replace(identity=self.host_identity)
        self._round_trip_s = self._driver.round_trip_s
        self._endpoint.round_trip_s = self._round_trip_s or 0.0
        self._holds = self._endpoint.holds
        if not self._established.done():
            self._established.set_result(None)
        if self._on_established is not None and self.end_reason is None:
            self._on_established(self)

    def _on_reply(self, event: ReplyArrived) -> None:
        call, decoder = event
        future: CallFuture = call.future
        if future.call is None:
            return
        future.call = None
        if call.began_ns:
            call.ended_ns = perf_counter_ns()
        try:
            if call.protection is None:
                value = decode_result(decoder, call.xid, call.procedure)
                if decoder.pos != decoder.end or (decoder.placed is not None and decoder.placed.padded):
                    tell_of_padding(call)
            else:
                value = call.protection.decode(decoder, call.xid, call.procedure, call.into)
        except Exception as error:  # noqa: BLE001 - the caller's, whose procedure decodes the result
            future.set_exception(error)
        else:
            future.set_result(value)
        if call.began_ns:
            # Nothing is decoded yet of a reply that a thread is to decrypt.
            call.octets_received = decoder.position or decoder.end - decoder.start

    def _on_answered(self) -> None:
        """Sends what was posted for a call that was answered, refused or dropped outside of `_turn`.

        At once, if no call of the peer is unanswered and short messages are not joined (`Endpoint.holds`); else with
        others, in the loop's next iteration.
        """
        self._active_at = self._loop.time()
        if self._holds or self._endpoint.calls_unanswered:
            self._turn_soon()
        else:
            self._turn()

    def _on_end(self, event: Closed) -> None:
        self.end_reason = event
        self._arguments.close()
        self.calls_taken.close()
        self._driver.expect_end()
        if not self._established.done():
            closed = TransportClosed(event.reason, protocol_error=event.protocol_error)
            self._established.set_exception(event.refusal or closed)
            # Retrieved, or asyncio logs it where no task waits for it.
            self._established.exception()

    def _closed(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
            if self._on_ended is not None:
                self._on_ended(self)
