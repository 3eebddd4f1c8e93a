"""One TCP connection that carries RPC records: calls go out, replies and calls come in, at a client and at a server."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Self

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.call_memory import CallMemory
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.connections.calls_made import CallFuture, CallObserver, CallsMade
from rpcrdma.aio.drivers.deadline_timer import Alarm
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.aio.drivers.sockets import address_of, authority, connected_socket, unanswered
from rpcrdma.errors import LocalProtocolError, MessageTooLong, TransportClosed
from rpcrdma.limits import (
    RPC_IDLE_S,
    RPC_OUTSTANDING_CALLS_MAX,
    RPC_RECORD_OCTETS_MAX,
    RPC_STALLED_S,
    RPC_UNANSWERED_CALL_OCTETS_MAX,
    RPC_UNSENT_REPLY_OCTETS_MAX,
)
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.calling import CallEncoder, ResultDecoder, decode_result
from rpcrdma.rpc.dispatch import refusal
from rpcrdma.rpc.errors import GarbageArguments
from rpcrdma.rpc.message import CALL_HEADER_OCTETS, AcceptStat, peek_is_call, peek_xid
from rpcrdma.rpc.record import TooLong
from rpcrdma.transport import Call, TransportStatistics
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["TcpBounds", "TcpConnection"]

_CONNECT_TIMEOUT_S = 10.0
_CLIENT_SETTING = "ConnectOptions(record_octets_max=...)"
_SERVER_SETTING = "TcpServerConfig(record_octets_max=...)"
_HELD_OCTETS = 128
"""The memory that a held message takes beside its octets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpBounds:
    """Bounds on the peer's use of one connection; see `rpcrdma.limits` for the reasons of the defaults."""

    outstanding_calls_max: int = RPC_OUTSTANDING_CALLS_MAX
    """Unanswered calls of the peer: beyond them a server reads nothing more from the connection."""
    unanswered_call_octets_max: int = RPC_UNANSWERED_CALL_OCTETS_MAX
    """Octets of unanswered calls: beyond them a server reads nothing more from the connection."""
    unsent_reply_octets_max: int = RPC_UNSENT_REPLY_OCTETS_MAX
    """Octets of replies that the peer has not read: beyond them a server reads nothing more from the connection."""
    record_octets_max: int = RPC_RECORD_OCTETS_MAX
    """Octets of a call that is taken, or of a reply that is sent. A longer call is answered with GARBAGE_ARGS, a longer
    reply becomes SYSTEM_ERR; the log says so, and the connection goes on. See `ConnectOptions.record_octets_max`."""
    idle_s: float | None = RPC_IDLE_S
    """A connection without running calls ends when it has neither sent a whole call nor read a reply for so long; None:
    never.

    A connection whose client has said that it takes calls stays (RFC 8167 section 5.4).
    """
    stalled_s: float = RPC_STALLED_S
    """While calls wait for memory: how long a client may leave its replies unread, or take to send one call."""


class TcpConnection(CallsMade):
    """A connection over a socket; implements `rpcrdma.aio.answering.server_call.CallSource`, on either side.

    The `active` end is the one that connects: the client. Its peer's calls beyond the bounds are refused: it reads on,
    because the replies to its own calls come after them. A server reads nothing more instead. While calls of its own
    are unanswered it reads on, too, and holds calls beyond the bounds.

    `answering` answers the peer's calls; a client without it drops and counts them. `results` and `arguments` are the
    memory that calls of the peer are counted against. Of more than `in_flight_max` calls of this side the later ones
    wait to be sent; `observer` gets the calls that are made with `call`. `on_answered` is called when a call of the
    peer has been answered, `on_ended` once, with the reason, when the connection has ended.
    """

    __slots__ = (
        "_active", "_active_at", "_answering", "_bounds", "_called", "_draining", "_encoder", "_end", "_end_error",
        "_expected_at", "_finishing", "_held", "_held_octets", "_idle", "_in_flight", "_in_flight_max", "_memory",
        "_on_answered", "_on_ended", "_outstanding", "_pending", "_queue", "_ready", "_running", "_sent_at", "_setting",
        "_stream", "calls_dropped", "calls_taken", "host", "name", "octets_taken", "results", "timer",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        *,
        active: bool,
        bounds: TcpBounds,
        results: BufferPool,
        arguments: BufferPool,
        credential: Credential | None = None,
        answering: Answering | None = None,
        observer: CallObserver | None = None,
        in_flight_max: int | None = None,
        on_answered: Callable[[], None] | None = None,
        on_ended: Callable[[TcpConnection, str], None] | None = None,
    ) -> None:
        peer = address_of(sock.getpeername())
        self._loop = asyncio.get_running_loop()
        self.host = peer[0]
        self.name = authority(*peer)
        self._active = active
        self._bounds = bounds
        self._setting = _CLIENT_SETTING if active else _SERVER_SETTING
        self._answering = answering
        self.results = results.share(self.host)
        self._memory = CallMemory(arguments.share(self.host), self._on_room)
        self._encoder = CallEncoder(credential)
        self._observer = observer
        self._xid = secrets.randbits(32)
        self._on_answered = on_answered
        self._on_ended = on_ended
        self._expected_at = 0.0
        self._outstanding = 0
        self._running = 0
        self._draining = False
        self._finishing = False
        self._ready = active
        self._called = active
        """Whether messages of the peer may be replies."""
        self._pending: dict[int, Call] = {}
        self._queue: list[Call] = []
        """Calls of this side that wait to be sent."""
        self._in_flight = 0
        self._in_flight_max = in_flight_max
        self._end_error: TransportClosed | None = None
        self._held: deque[Buffer] = deque()
        self._held_octets = 0
        self._end: asyncio.Future[None] | None = None
        self._active_at = self._sent_at = self._loop.time()
        self.calls_dropped = 0
        """Calls of the peer that arrived at a client without services."""
        self.calls_taken = 0
        """Calls that arrived and were to be answered."""
        self.octets_taken = 0
        """Octets of these calls, without record headers."""
        self._stream = RecordStream(
            sock,
            peer=self.name,
            record_octets_max=bounds.record_octets_max,
            setting=self._setting,
            on_too_long=self._on_too_long,
            on_record=self._on_record,
            on_lost=self._lost,
            on_sent=self._on_sent,
            on_expected=None if active else self._on_expected,
        )
        self.timer = self._stream.timer
        """The connection's one timer."""
        self._idle = Alarm(self._check_idle)
        if bounds.idle_s is not None:
            self._idle.due_s = self._active_at + bounds.idle_s
            self.timer.watch(self._idle)
            self.timer.look()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        credential: Credential | None = None,
        *,
        timeout_s: float = _CONNECT_TIMEOUT_S,
        reserved_port: bool = False,
        record_octets_max: int = RPC_RECORD_OCTETS_MAX,
        answering: Answering | None = None,
        observer: CallObserver | None = None,
    ) -> Self:
        """Connects to the first address of `host` that answers; calls are made with `credential` (None: AUTH_NONE).

        With `reserved_port` the connection comes from a port below 1024. `record_octets_max` bounds each call and each
        reply.

        Raises:
            NotPermitted: this process may not take a reserved port.
            ConnectFailed: no address of the host takes the connection within `timeout_s` seconds.
        """
        try:
            async with asyncio.timeout(timeout_s):
                sock = await connected_socket(host, port, reserved_port=reserved_port)
        except TimeoutError:
            raise unanswered(host, port, timeout_s) from None
        return cls(
            sock,
            active=True,
            bounds=TcpBounds(record_octets_max=record_octets_max, idle_s=None),
            results=BufferPool(),
            arguments=BufferPool(),
            credential=credential,
            answering=answering,
            observer=observer,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def ready(self, credential: Credential | None = None) -> None:
        """See `ReverseCaller.ready`; no effect on the side that connected."""
        if not self._active:
            if credential is not None:
                self._encoder = CallEncoder(credential)
            self._ready = True

    @property
    def closed(self) -> bool:
        """Whether the connection has ended: calls fail at once."""
        return self._stream.closed

    @property
    def negotiated(self) -> None:
        """None: no terms are negotiated over TCP."""
        return

    @property
    def statistics(self) -> TransportStatistics:
        """Counters of RPC-over-RDMA, all of them 0."""
        return TransportStatistics()

    def extension(self, _name: str) -> None:
        """None: there are no extensions over TCP."""
        return

    @property
    def host_identity(self) -> None:
        """See `ReverseCaller.host_identity`."""
        return

    @property
    def arguments_octets_max(self) -> int:
        """See `ReverseCaller.arguments_octets_max`."""
        return self._bounds.record_octets_max - CALL_HEADER_OCTETS - self._encoder.credential_octets

    async def wait_closed(self) -> None:
        """Waits until the connection has ended, for any reason."""
        if not self._stream.closed:
            if self._end is None:
                self._end = self._loop.create_future()
            await asyncio.shield(self._end)

    def start(self, call: Call) -> CallFuture:
        """See `CallsMade.start`. TCP cannot place: a bulk result is received elsewhere and copied into `into` once.

        The memory of bulk arguments must not change until the call has ended, however it ends.

        Raises:
            MessageTooLong: the call is longer than this side allows; the connection goes on.
        """
        if self._end_error is not None:
            raise _again(self._end_error)
        if not self._ready:
            raise LocalProtocolError("the client has not said that it is ready for calls (RFC 8167 section 6)")
        if call.xid in self._pending:
            raise LocalProtocolError(f"a call with XID {call.xid:#010x} is outstanding")
        call.payload = self._encoder.encode(call.xid, call.procedure, call.args)
        call.over_tcp = self._called = True
        call.peer = self.name
        future = self._future(call)
        self._pending[call.xid] = call
        if self._in_flight == self._in_flight_max:
            self._queue.append(call)
        else:
            self._in_flight += 1
            try:
                self._transmit(call)
            except MessageTooLong:
                future.over()
                self._leave(call)
                raise
        if not self._active and (self._draining or self._may_hold()):
            self._stream.resume()
        return future

    def _next_xid(self) -> int:
        xid = super()._next_xid()
        while xid in self._pending:
            xid = super()._next_xid()
        return xid

    def _transmit(self, call: Call) -> None:
        payload = call.payload
        assert payload is not None
        sent_ns = perf_counter_ns() if call.began_ns else 0
        self._stream.send(payload, call)
        call.transmissions += 1
        if sent_ns:
            call.sent_ns = sent_ns
            call.octets_sent += payload.length

    def give_up(self, call: Call) -> None:
        """See `CallsMade.give_up`: nothing of the arguments is sent from here on."""
        self._stream.withdraw(call)
        self._leave(call)

    def _leave(self, call: Call) -> None:
        """A call has ended: another one may be sent."""
        del self._pending[call.xid]
        call.payload = None
        if call in self._queue:
            self._queue.remove(call)
        else:
            self._in_flight -= 1
        while self._queue and self._in_flight != self._in_flight_max:
            following = self._queue.pop(0)
            self._in_flight += 1
            try:
                self._transmit(following)
            except MessageTooLong as error:
                following.future.fail(error)
                self._leave(following)
        if not self._active:
            self._go_on()

    def _on_reply(self, message: Buffer) -> None:
        """Ends the call that a message answers, unless it has timed out or was cancelled."""
        xid = peek_xid(message)
        call = None if xid is None else self._pending.get(xid)
        if call is None or call.payload is None:
            return
        octets = call.payload.length
        if call.began_ns:
            call.ended_ns = perf_counter_ns()
            call.octets_received = len(message)
        decoder = ResultDecoder(message, 0, None, call.into) if call.into else Decoder(message)
        future: CallFuture = call.future
        try:
            value = decode_result(decoder, call.xid, call.procedure)
        except Exception as error:  # noqa: BLE001 - the caller's, whose procedure decodes the result
            future.fail(_too_long_perhaps(octets) if _may_be_too_long(error, octets) else error)
        else:
            future.over()
            future.set_result(value)
        self._leave(call)

    @property
    def busy(self) -> bool:
        """Whether calls run or replies wait; once `finish` was called, until the peer has closed, too."""
        return bool(self._outstanding or self._stream.unsent_octets or self._finishing)

    @property
    def idle_since(self) -> float | None:
        """Since when it has been idle; None: it is in use, or the client takes calls (RFC 8167 section 5.4)."""
        return None if self.busy or self._ready else self._active_at

    @property
    def stalled(self) -> bool:
        """Whether replies wait and none has left for `stalled_s`."""
        blocked_at = self._stream.blocked_at
        if blocked_at is None:
            return False
        return self._loop.time() - max(blocked_at, self._sent_at) > self._bounds.stalled_s

    @property
    def dawdles(self) -> bool:
        """Whether the client has taken more than `stalled_s` to send a call, while this side was ready to read it.

        While the call waits for memory, the client is late only if it has sent no more octets. The time starts anew
        when the memory is there.
        """
        stream = self._stream
        if not self._memory.expected or (stream.paused and not (self._memory.short and not stream.unread_octets)):
            return False
        return self._loop.time() - self._expected_at > self._bounds.stalled_s

    def stop_reading(self) -> None:
        """Takes no more calls."""
        self._draining = True
        if not self._pending:
            self._stream.pause()

    def finish(self) -> None:
        """Tells the peer that no more replies come."""
        self._finishing = True
        self._stream.finish()

    async def close(self) -> None:
        """Closes the connection; calls in progress raise `TransportClosed`."""
        self.abort("the connection was closed on this side")

    def abort(self, reason: str, *, protocol_error: bool = False) -> None:
        """Ends the connection at once; no effect on one that has ended."""
        if not self._stream.closed:
            self._stream.close()
            self._lost(TransportClosed(reason, protocol_error=protocol_error))

    def _on_record(self, message: Buffer) -> None:
        self._active_at = self._loop.time()
        if self._called and not peek_is_call(message):
            self._on_reply(message)
        elif self._active:
            self._take_or_refuse(message)
        elif not self._draining:
            full = self._full()
            self._memory.add(len(message))
            if full:
                self._held.append(message)
                self._held_octets += len(message) + _HELD_OCTETS
            else:
                self._take(message)
            self._pause_if_full()

    def _take_or_refuse(self, message: Buffer) -> None:
        """A client's reaction to a call: it must not stop reading, as the replies to its own calls would wait."""
        if self._answering is None:
            self.calls_dropped += 1
        elif self._outstanding < self._bounds.outstanding_calls_max:
            self._memory.add(len(message))
            self._take(message)
        else:
            self._send(refusal(int.from_bytes(message[:4], "big"), AcceptStat.SYSTEM_ERR))

    def _take(self, message: Buffer) -> None:
        assert self._answering is not None
        self.calls_taken += 1
        self.octets_taken += len(message)
        self._outstanding += 1
        self._running += 1
        call = ServerCall(int.from_bytes(message[:4], "big"), Decoder(message))
        call.message_octets = len(message)
        self._answering.take(call, self)

    def _on_expected(self, octets: int) -> None:
        if not self._memory.expected:
            self._expected_at = self._loop.time()
        self._memory.expect(octets)
        self._pause_if_full()

    def _on_too_long(self, message: TooLong) -> None:
        error = MessageTooLong(message.octets, self._bounds.record_octets_max, self._setting, received=True)
        if not message.is_call:
            call = self._pending.get(message.xid)
            if call is not None:
                call.future.fail(error)
                self._leave(call)
        elif self._answering is not None and not self._draining:
            self._answering.runner.log_long_call(self.name, str(error))
            self._send(refusal(message.xid, AcceptStat.GARBAGE_ARGS))
            self._pause_if_full()

    def _pause_if_full(self) -> None:
        if not self._active and self._full() and not self._may_hold():
            self._stream.pause()

    def _full(self) -> bool:
        bounds = self._bounds
        return (
            self._outstanding >= bounds.outstanding_calls_max
            or self._memory.short
            or self._memory.octets - self._held_octets > bounds.unanswered_call_octets_max
            or self._stream.unsent_octets > bounds.unsent_reply_octets_max
        )

    def _may_hold(self) -> bool:
        """Whether calls beyond the bounds are held, not left unread."""
        return bool(self._pending) and self._held_octets < self._bounds.unsent_reply_octets_max

    def _go_on(self) -> None:
        """Takes held calls and reads on, as far as the bounds allow."""
        if self._draining:
            if self._on_answered is not None:
                self._on_answered()
            return
        while self._held and not self._full():
            message = self._held.popleft()
            self._held_octets -= len(message) + _HELD_OCTETS
            self._take(message)
        if not self._full():
            self._stream.resume()

    def _on_room(self) -> None:
        """Memory for the announced length of the incoming call has become free."""
        self._expected_at = self._loop.time()
        self._go_on()

    def reply(self, call: ServerCall, reply: Payload) -> None:
        """See `CallSource.reply`."""
        self._running -= 1
        if self._stream.closed:
            self._answered(call)
            return
        call.octets_sent = reply.length
        try:
            self._send(reply, call)
        except MessageTooLong as error:
            assert self._answering is not None
            self._answering.runner.log_unfit_reply(call, str(error))
            failure = call.failure(error)
            call.octets_sent = failure.length
            self._send(failure, call)

    def refuse(self, _call: ServerCall) -> bool:
        """See `CallSource.refuse`."""
        return False

    def drop(self, call: ServerCall) -> None:
        """See `CallSource.drop`."""
        assert self._answering is not None
        self._running -= 1
        self._answered(call)
        if call.procedure is None:
            self._answering.runner.log_no_call(self.name)
        else:
            self._go_on()

    def _send(self, reply: Payload, call: ServerCall | None = None) -> None:
        self._stream.send(reply, call)
        if self._active:
            bounds = self._bounds
            # A single reply may be longer than the bound on unsent replies.
            if self._stream.unsent_octets > max(bounds.unsent_reply_octets_max, bounds.record_octets_max + 4):
                self.abort("the server does not read the answers to its calls", protocol_error=True)

    def _on_sent(self, ticket: Any) -> None:
        self._active_at = self._sent_at = self._loop.time()
        if isinstance(ticket, ServerCall):
            self._answered(ticket)
        self._go_on()

    def _answered(self, call: ServerCall) -> None:
        call.release()
        self._outstanding -= 1
        self._memory.remove(call.message_octets)

    def _lost(self, error: TransportClosed) -> None:
        """The stream is closed: calls of both sides end."""
        while self._held:
            self._memory.remove(len(self._held.popleft()))
        self._idle.disarm()
        self.results.close()
        self._memory.close()
        if self._answering is not None:
            self._answering.runner.connection_ended(self)
        for ticket in self._stream.unsent_tickets():
            if isinstance(ticket, ServerCall):
                self._answered(ticket)
        self._end_error = error
        pending = list(self._pending.values())
        self._pending.clear()
        self._queue.clear()
        for call in pending:
            call.payload = None
            call.future.fail(_again(error))
        if self._end is not None and not self._end.done():
            self._end.set_result(None)
        if self._on_ended is not None:
            self._on_ended(self, str(error))

    def _check_idle(self) -> None:
        idle_s = self._bounds.idle_s
        assert idle_s is not None
        left_s = self._active_at + idle_s - self._loop.time()
        if self._running or self._ready:
            left_s = idle_s
        if left_s > 0:
            self._idle.due_s = self._loop.time() + left_s
        else:
            self.abort(f"idle for {idle_s:g} s")


def _again(error: TransportClosed) -> TransportClosed:
    """The same error as an object of its own: each call that raises it adds its own traceback."""
    return TransportClosed(*error.args, protocol_error=error.protocol_error)


def _may_be_too_long(error: Exception, octets: int) -> bool:
    return isinstance(error, GarbageArguments) and octets > RPC_RECORD_OCTETS_MAX


def _too_long_perhaps(octets: int) -> GarbageArguments:
    """The error of a refused call of so many octets, with its probable cause."""
    return GarbageArguments(
        f": they may be too long, the call has {octets} octets; a server of this library takes "
        f"{RPC_RECORD_OCTETS_MAX}, or what TcpServerConfig(record_octets_max=...) says there"
    )
