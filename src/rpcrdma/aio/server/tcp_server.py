"""Serves RPC programs over TCP."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.at_most_once import AtMostOnce
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.call_memory import CallMemory
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.connections.record_call import RecordCall
from rpcrdma.aio.connections.tcp_calls import TcpCalls
from rpcrdma.aio.drivers.deadline_timer import Alarm
from rpcrdma.aio.drivers.limited_log import CONNECTION_LINES_MAX, LimitedLog
from rpcrdma.aio.drivers.listener import Listener
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.aio.drivers.sockets import address_of, authority
from rpcrdma.aio.server.admission import Admission
from rpcrdma.errors import LocalProtocolError, MessageTooLong, TransportClosed
from rpcrdma.limits import (
    RPC_CONNECTIONS_MAX,
    RPC_IDLE_S,
    RPC_OUTSTANDING_CALLS_MAX,
    RPC_RECORD_OCTETS_MAX,
    RPC_REVERSE_CALLS_MAX,
    RPC_STALLED_S,
    RPC_UNANSWERED_CALL_OCTETS_MAX,
    RPC_UNSENT_REPLY_OCTETS_MAX,
)
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rpc.calls import CallEncoder
from rpcrdma.rpc.dispatch import Dispatcher, refusal
from rpcrdma.rpc.message import CALL_HEADER_OCTETS, AcceptStat, peek_is_call
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.record import TooLong
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["TcpServer", "TcpServerConfig"]

A = TypeVar("A")
R = TypeVar("R")

_LOGGER = logging.getLogger("rpcrdma.server")
_SETTING = "TcpServerConfig(record_octets_max=...)"
_HELD_OCTETS = 128
"""The memory that a held message takes beside its octets."""
_LINGER_S = 0.5
"""How long a peer may take to notice the end of a connection when the server stops."""

_RELIEF_S = 1.0
"""How often the server looks for stalled connections while others wait for memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpServerConfig:
    """Bounds on clients' use of the server; see `rpcrdma.limits` for the reasons of the defaults."""

    connections_max: int = RPC_CONNECTIONS_MAX
    """Connections at most; then a newcomer displaces the connection that has been idle longest, of the client that has
    most or of its own, or is refused."""
    outstanding_calls_max: int = RPC_OUTSTANDING_CALLS_MAX
    """For each connection: beyond it nothing more is read from that connection."""
    unanswered_call_octets_max: int = RPC_UNANSWERED_CALL_OCTETS_MAX
    """For each connection: beyond it nothing more is read from that connection."""
    unsent_reply_octets_max: int = RPC_UNSENT_REPLY_OCTETS_MAX
    """For each connection: beyond it nothing more is read from that connection."""
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


class TcpServer:
    """Answers the calls of any number of connections on any number of addresses.

    `pool` lends memory for results; calls count against `arguments`. Both, `runner` and `at_most_once` may be shared
    with other servers; a runner that is handed in is drained by its maker.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        runner: HandlerRunner | None = None,
        pool: BufferPool | None = None,
        arguments: BufferPool | None = None,
        at_most_once: AtMostOnce | None = None,
        config: TcpServerConfig | None = None,
        calls_back: CallStatistics | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.dispatcher = dispatcher
        self.config = config or TcpServerConfig()
        self._own_runner = runner is None
        self.runner = runner or HandlerRunner()
        self.answering = Answering(dispatcher, self.runner, at_most_once, count_calls=calls_back is not None)
        self.pool = pool or BufferPool()
        self.arguments = arguments or BufferPool()
        self.log = LimitedLog(_LOGGER)
        self._listener = Listener(self._connected, self.log)
        self.connections: set[_Connection] = set()
        self._admission: Admission[_Connection] = Admission(
            self.config.connections_max, self.config.connections_max, lambda connection: connection.idle_since
        )
        self.connections_made = 0
        self.connections_refused = 0
        self.calls = 0
        """Received messages other than replies."""
        self.octets_received = 0
        """Octets of these messages, without record headers."""
        self.calls_back = calls_back
        self._quiet: asyncio.Event | None = None
        self.pool.on_short = self.arguments.on_short = self._short_of_memory
        self._relief: asyncio.TimerHandle | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each listener."""
        return self._listener.addresses

    @property
    def port(self) -> int:
        """The first listener's port."""
        return self.addresses[0][1]

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> list[tuple[str, int]]:
        """See `Listener.listen`; may be called again for further addresses."""
        return await self._listener.listen(host, port)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self, deadline_s: float = 5.0) -> None:
        """Accepts and reads nothing more, lets running calls be answered for `deadline_s` seconds, then closes."""
        self._listener.close()
        for connection in list(self.connections):
            connection.stop_reading()
        self._quiet = asyncio.Event()
        await self._wait_quiet(deadline_s)
        for connection in list(self.connections):
            connection.finish()
        await self._wait_quiet(min(deadline_s, _LINGER_S))
        for connection in list(self.connections):
            connection.end("the server stops")
        if self._relief is not None:
            self._relief.cancel()
            self._relief = None
        self.log.flush()
        if self._own_runner:
            await self.runner.drain(0)

    def connection_ended(self, connection: _Connection) -> None:
        """Frees the connection's place."""
        self.connections.discard(connection)
        self._admission.remove(connection)

    def connection_changed(self) -> None:
        """A connection has answered a call, or has ended."""
        if self._quiet is not None:
            self._quiet.set()

    def log_connection(self, address: str, event: dict[str, str], message: str, *args: str) -> None:
        """Logs that one of the client's connections was made or has ended."""
        kind = f"{event['event']} {address}"
        self.log.log(logging.INFO, kind, message, *args, extra={"event": event}, most=CONNECTION_LINES_MAX)

    def relieve(self) -> None:
        """Ends connections whose client has left its replies unread for too long: other calls wait for memory."""
        for connection in [connection for connection in self.connections if connection.stalled]:
            self._cut_off(connection, "it does not read its replies")

    def relieve_arguments(self) -> None:
        """Ends the connections whose unfinished call takes too long; as `relieve`."""
        for connection in [connection for connection in self.connections if connection.dawdles]:
            self._cut_off(connection, "it does not finish its call")

    def _cut_off(self, connection: _Connection, why: str) -> None:
        self.log.log(logging.WARNING, why, f"%s is cut off: {why}", connection.name)
        connection.end(f"{why} while memory is short")

    def _short_of_memory(self) -> None:
        if self._relief is None:
            self._relief = self._loop.call_later(min(max(self.config.stalled_s, 0.0), _RELIEF_S), self._relieve_again)

    def _relieve_again(self) -> None:
        self._relief = None
        if self.pool.waited_for:
            self.relieve()
        if self.arguments.waited_for:
            self.relieve_arguments()
        if self.pool.waited_for or self.arguments.waited_for:
            self._short_of_memory()

    async def _wait_quiet(self, deadline_s: float) -> None:
        """Waits until no connection is busy (after `finish`: until none is left)."""
        assert self._quiet is not None
        try:
            async with asyncio.timeout(deadline_s):
                while any(connection.busy for connection in self.connections):
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            pass

    def _connected(self, sock: socket.socket) -> None:
        address = address_of(sock.getpeername())
        peer = authority(*address)
        displaced = self._admission.displaced_by(address[0])
        if displaced is not None:
            displaced.end("its place was needed: too many connections")
        elif self._admission.full:
            self.log.log(logging.WARNING, "full", "%s turned away: %d connections", peer, len(self.connections))
            self.connections_refused += 1
            sock.close()
            return
        event = {"event": "connected", "transport": "tcp", "peer": peer}
        self.log_connection(address[0], event, "tcp connection from %s", peer)
        self.connections_made += 1
        connection = _Connection(self, sock, address[0], peer)
        self.connections.add(connection)
        self._admission.add(connection, address[0], starting=False)


class _Connection:
    """One client's connection; implements `rpcrdma.aio.answering.answering.CallSource`.

    While calls to the client are unanswered reading goes on, as their replies come after the client's own calls. Calls
    of the client beyond the bounds are held meanwhile.
    """

    __slots__ = (
        "_active_at",
        "_calling",
        "_calls",
        "_draining",
        "_encoder",
        "_end",
        "_expected_at",
        "_finishing",
        "_held",
        "_held_octets",
        "_idle",
        "_loop",
        "_memory",
        "_outstanding",
        "_ready",
        "_running",
        "_sent_at",
        "_server",
        "_stream",
        "host",
        "name",
        "results",
    )

    def __init__(self, server: TcpServer, sock: socket.socket, peer: str, name: str) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self.host = peer
        self.results = server.pool.share(peer)
        self._memory = CallMemory(server.arguments.share(peer), self._on_room)
        self._expected_at = 0.0
        self.name = name
        self._outstanding = 0
        self._running = 0
        self._draining = False
        self._finishing = False
        self._ready = False
        self._encoder = CallEncoder()
        self._calls: TcpCalls | None = None
        self._calling = 0
        self._held: deque[Buffer] = deque()
        self._held_octets = 0
        self._end: asyncio.Future[None] | None = None
        self._active_at = self._sent_at = self._loop.time()
        self._stream = RecordStream(
            sock,
            peer=name,
            record_octets_max=server.config.record_octets_max,
            setting=_SETTING,
            on_too_long=self._on_too_long,
            on_record=self._on_record,
            on_lost=self._on_lost,
            on_sent=self._on_sent,
            on_expected=self._on_expected,
        )
        self._idle = Alarm(self._check_idle)
        if server.config.idle_s is not None:
            self._idle.due_s = self._active_at + server.config.idle_s
            self._stream.timer.watch(self._idle)
            self._stream.timer.look()

    def ready(self, credential: Credential | None = None) -> None:
        """See `ReverseCaller.ready`."""
        if credential is not None:
            self._encoder = CallEncoder(credential)
        self._ready = True

    @property
    def closed(self) -> bool:
        """See `ReverseCaller.closed`."""
        return self._stream.closed

    @property
    def host_identity(self) -> None:
        """See `ReverseCaller.host_identity`."""
        return

    @property
    def arguments_octets_max(self) -> int:
        """See `ReverseCaller.arguments_octets_max`."""
        return self._server.config.record_octets_max - CALL_HEADER_OCTETS - self._encoder.credential_octets

    async def wait_closed(self) -> None:
        """See `ReverseCaller.wait_closed`."""
        if not self._stream.closed:
            if self._end is None:
                self._end = self._loop.create_future()
            await asyncio.shield(self._end)

    async def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Buffer | None = None,
        timeout_s: float | None = None,
        xid: int | None = None,
    ) -> R:
        """See `ReverseCaller` and `TcpCalls.call`."""
        if self._stream.closed:
            raise TransportClosed("the connection has ended")
        if not self._ready:
            raise LocalProtocolError("the client has not said that it is ready for calls (RFC 8167 section 6)")
        if self._calls is None:
            calls_back = self._server.calls_back
            self._calls = TcpCalls(self._stream, in_flight_max=RPC_REVERSE_CALLS_MAX, calls_made=calls_back)
        self._calling += 1
        if self._draining or self._may_hold():
            self._stream.resume()
        try:
            self._calls.encoder = self._encoder
            return await self._calls.call(procedure, args, into=into, timeout_s=timeout_s, xid=xid)
        finally:
            self._calling -= 1
            self._go_on()

    @property
    def busy(self) -> bool:
        """Calls run or replies wait; once `finish` was called, until the peer has closed too."""
        return bool(self._outstanding or self._stream.unsent_octets or self._finishing)

    @property
    def idle_since(self) -> float | None:
        """The time since which it is idle; None: it is in use, or the client takes calls (RFC 8167 section 5.4)."""
        return None if self.busy or self._ready else self._active_at

    @property
    def stalled(self) -> bool:
        """Whether replies wait and none has left for `stalled_s`."""
        blocked_at = self._stream.blocked_at
        if blocked_at is None:
            return False
        return self._loop.time() - max(blocked_at, self._sent_at) > self._server.config.stalled_s

    @property
    def dawdles(self) -> bool:
        """Whether the client has taken more than `stalled_s` to send a call, while this side was ready to read it.

        While the call waits for memory, the client is late only if it has sent no more octets. The time starts anew
        when the memory is there.
        """
        stream = self._stream
        if not self._memory.expected or (stream.paused and not (self._memory.short and not stream.unread_octets)):
            return False
        return self._loop.time() - self._expected_at > self._server.config.stalled_s

    def stop_reading(self) -> None:
        """Takes no more calls."""
        self._draining = True
        if not self._calling:
            self._stream.pause()

    def finish(self) -> None:
        """Tells the peer that no more replies come."""
        self._finishing = True
        self._stream.finish()

    def end(self, reason: str) -> None:
        """Closes at once."""
        if not self._stream.closed:
            self._stream.close()
            self._ended(reason)

    def _on_record(self, message: Buffer) -> None:
        self._active_at = self._loop.time()
        if self._calls is not None and not peek_is_call(message):
            self._calls.on_reply(message)
            return
        if self._draining:
            return
        full = self._full()
        self._memory.add(len(message))
        if full:
            self._held.append(message)
            self._held_octets += len(message) + _HELD_OCTETS
        else:
            self._take(message)
        self._pause_if_full()

    def _on_expected(self, octets: int) -> None:
        if not self._memory.expected:
            self._expected_at = self._loop.time()
        self._memory.expect(octets)
        self._pause_if_full()

    def _on_too_long(self, message: TooLong) -> None:
        server = self._server
        error = MessageTooLong(message.octets, server.config.record_octets_max, _SETTING, received=True)
        if not message.is_call:
            if self._calls is not None:
                self._calls.on_too_long(message.xid, error)
        elif not self._draining:
            server.runner.log_long_call(self.name, str(error))
            self._stream.send(refusal(message.xid, AcceptStat.GARBAGE_ARGS))
            self._pause_if_full()

    def _pause_if_full(self) -> None:
        if self._full() and not self._may_hold():
            self._stream.pause()

    def _take(self, message: Buffer) -> None:
        server = self._server
        server.calls += 1
        server.octets_received += len(message)
        self._outstanding += 1
        self._running += 1
        server.answering.answer(Decoder(message), self, RecordCall(len(message)))

    def _full(self) -> bool:
        config = self._server.config
        return (
            self._outstanding >= config.outstanding_calls_max
            or self._memory.short
            or self._memory.octets - self._held_octets > config.unanswered_call_octets_max
            or self._stream.unsent_octets > config.unsent_reply_octets_max
        )

    def _may_hold(self) -> bool:
        """Whether calls beyond the bounds are held, not left unread."""
        return self._calling > 0 and self._held_octets < self._server.config.unsent_reply_octets_max

    def _go_on(self) -> None:
        """Takes held calls and reads on, as far as the bounds allow."""
        if self._draining:
            self._server.connection_changed()
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

    def reply(self, call: RecordCall, reply: Payload) -> bool:
        """See `CallSource.reply`."""
        if self._stream.closed:
            self._running -= 1
            self._answered(call)
            return True
        self._stream.send(reply, call)
        # A reply that is too long is followed by another one.
        self._running -= 1
        return True

    def refuse(self, _call: RecordCall) -> bool:
        """See `CallSource.refuse`."""
        return False

    def drop(self, call: RecordCall) -> None:
        """See `CallSource.drop`."""
        self._running -= 1
        self._answered(call)
        if call.context is None:
            self._server.log.log(logging.WARNING, "no call", "%s sent a message that is no call", self.name)
        else:
            self._go_on()

    def _on_sent(self, ticket: Any) -> None:
        self._active_at = self._sent_at = self._loop.time()
        if isinstance(ticket, RecordCall):
            self._answered(ticket)
        self._go_on()

    def _answered(self, call: RecordCall) -> None:
        call.release()
        self._outstanding -= 1
        self._memory.remove(call.octets)

    def _on_lost(self, error: TransportClosed) -> None:
        self._ended(str(error))

    def _ended(self, reason: str) -> None:
        while self._held:
            self._memory.remove(len(self._held.popleft()))
        self._idle.disarm()
        self.results.close()
        self._memory.close()
        self._server.answering.connection_ended(self)
        self._server.connection_ended(self)
        for ticket in self._stream.unsent_tickets():
            if isinstance(ticket, RecordCall):
                self._answered(ticket)
        if self._calls is not None:
            self._calls.fail(TransportClosed(reason))
        if self._end is not None:
            self._end.set_result(None)
        self._server.connection_changed()
        event = {"event": "disconnected", "transport": "tcp", "peer": self.name, "reason": reason}
        self._server.log_connection(self.host, event, "tcp connection from %s ended: %s", self.name, reason)

    def _check_idle(self) -> None:
        idle_s = self._server.config.idle_s
        assert idle_s is not None
        left_s = self._active_at + idle_s - self._loop.time()
        if self._running or self._ready:
            left_s = idle_s
        if left_s > 0:
            self._idle.due_s = self._loop.time() + left_s
        else:
            self.end(f"idle for {idle_s:g} s")
