"""Serves RPC programs over TCP."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from rpcrdma.aio.buffer_pool import BufferPool
from rpcrdma.aio.call_context import ServerCallContext
from rpcrdma.aio.handler_runner import HandlerRunner
from rpcrdma.aio.limited_log import LimitedLog
from rpcrdma.aio.listener import Listener
from rpcrdma.aio.record_stream import RecordStream
from rpcrdma.aio.sockets import address_of, authority
from rpcrdma.errors import TransportClosed
from rpcrdma.limits import (
    RPC_CONNECTIONS_MAX,
    RPC_IDLE_S,
    RPC_OUTSTANDING_CALLS_MAX,
    RPC_RECORD_OCTETS_MAX,
    RPC_STALLED_S,
    RPC_UNSENT_REPLY_OCTETS_MAX,
)
from rpcrdma.rpc.dispatch import Dispatcher, Invocation
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["TcpServer", "TcpServerConfig"]

_LOGGER = logging.getLogger("rpcrdma.server")
_LINGER_S = 0.5
"""How long a peer may take to notice the end of a connection when the server stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpServerConfig:
    """Bounds on what clients may use; see `rpcrdma.limits` for the reasons of the defaults."""

    connections_max: int = RPC_CONNECTIONS_MAX
    outstanding_calls_max: int = RPC_OUTSTANDING_CALLS_MAX
    """For each connection: beyond it nothing more is read from that connection."""
    unsent_reply_octets_max: int = RPC_UNSENT_REPLY_OCTETS_MAX
    """For each connection: beyond it nothing more is read from that connection."""
    record_octets_max: int = RPC_RECORD_OCTETS_MAX
    idle_s: float = RPC_IDLE_S
    """A connection without running calls ends when it has neither sent a whole call nor read a reply for so long."""
    stalled_s: float = RPC_STALLED_S
    """So long a connection may read nothing of its replies while they and others hold half of the buffers there are."""


class TcpServer:
    """Answers the calls of any number of connections on any number of addresses.

    `runner` and `pool` may be shared with other servers; then whoever made the runner drains it.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        runner: HandlerRunner | None = None,
        pool: BufferPool | None = None,
        config: TcpServerConfig | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.dispatcher = dispatcher
        self.config = config or TcpServerConfig()
        self._own_runner = runner is None
        self.runner = runner or HandlerRunner()
        self.pool = pool or BufferPool()
        self.log = LimitedLog(_LOGGER)
        self._listener = Listener(self._connected, self.log)
        self.connections: set[_Connection] = set()
        self._quiet: asyncio.Event | None = None

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
        if self._own_runner:
            await self.runner.drain(0)

    def connection_changed(self) -> None:
        """A connection has answered a call, or has ended."""
        if self._quiet is not None:
            self._quiet.set()

    def relieve(self) -> None:
        """Ends the connection that leaves most of its replies unread, if it has stalled, before buffers run out.

        Otherwise a few such peers could hold all of them, and nobody else would get a result.
        """
        waiting = [connection for connection in self.connections if connection.stalled]
        if waiting:
            worst = max(waiting, key=lambda connection: connection.unsent_octets)
            self.log.log(logging.WARNING, "stalled", "%s is cut off: it does not read its replies", worst.name)
            worst.end("it does not read its replies while memory is short")

    async def _wait_quiet(self, deadline_s: float) -> None:
        """Until no connection is busy (after `finish`: until none is left)."""
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
        if len(self.connections) >= self.config.connections_max:
            self.log.log(logging.WARNING, "full", "%s turned away: %d connections", peer, len(self.connections))
            sock.close()
            return
        event = {"event": "connected", "transport": "tcp", "peer": peer}
        _LOGGER.info("tcp connection from %s", peer, extra={"event": event})
        self.connections.add(_Connection(self, sock, address[0], peer))


class _Connection:
    """One client."""

    __slots__ = (
        "_active_at",
        "_draining",
        "_idle_timer",
        "_loop",
        "_outstanding",
        "_peer",
        "_running",
        "_server",
        "_stream",
        "name",
    )

    def __init__(self, server: TcpServer, sock: socket.socket, peer: str, name: str) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._peer = peer
        self.name = name
        self._outstanding = 0
        self._running = 0
        self._draining = False
        self._active_at = self._loop.time()
        self._idle_timer = self._loop.call_later(server.config.idle_s, self._check_idle)
        self._stream = RecordStream(
            sock,
            record_octets_max=server.config.record_octets_max,
            on_record=self._on_record,
            on_lost=self._on_lost,
            on_sent=self._on_sent,
        )

    @property
    def busy(self) -> bool:
        """Calls run or replies wait; once `finish` was called, until the peer has closed too."""
        return bool(self._outstanding or self._stream.unsent_octets or (self._draining and not self._stream.paused))

    @property
    def unsent_octets(self) -> int:
        """Octets of replies that wait for the peer to read."""
        return self._stream.unsent_octets

    @property
    def stalled(self) -> bool:
        """Whether replies wait and none has left for `stalled_s`."""
        waiting_s = self._loop.time() - self._active_at
        return self._stream.unsent_octets > 0 and waiting_s > self._server.config.stalled_s

    def stop_reading(self) -> None:
        """Takes no more calls."""
        self._draining = True
        self._stream.pause()

    def finish(self) -> None:
        """Says to the peer that nothing more comes."""
        self._stream.finish()

    def end(self, reason: str) -> None:
        """Closes at once."""
        if not self._stream.closed:
            self._stream.close()
            self._ended(reason)

    def _on_record(self, message: Buffer) -> None:
        server = self._server
        self._active_at = self._loop.time()
        opened = server.dispatcher.open_call(Decoder(message))
        if isinstance(opened, Invocation):
            self._outstanding += 1
            self._running += 1
            if server.pool.lent_octets * 2 > server.pool.octets_max:
                server.relieve()
            context = ServerCallContext(opened, self._peer, server.pool)
            server.runner.run(opened, context, functools.partial(self._reply, context))
        elif opened is not None:
            self._stream.send(opened)
        else:
            server.log.log(logging.WARNING, "no call", "%s sent a message that is no call", self.name)
        if self._full():
            self._stream.pause()

    def _full(self) -> bool:
        config = self._server.config
        return (
            self._outstanding >= config.outstanding_calls_max
            or self._stream.unsent_octets > config.unsent_reply_octets_max
        )

    def _reply(self, context: ServerCallContext, reply: Payload) -> None:
        self._running -= 1
        if self._stream.closed:
            self._answered(context)
        else:
            self._stream.send(reply, context)

    def _on_sent(self, ticket: Any) -> None:
        self._active_at = self._loop.time()
        if ticket is not None:
            self._answered(ticket)
        if self._draining:
            self._server.connection_changed()
        elif self._stream.paused and not self._full():
            self._stream.resume()

    def _answered(self, context: ServerCallContext) -> None:
        context.release()
        self._outstanding -= 1

    def _on_lost(self, error: TransportClosed) -> None:
        self._ended(str(error))

    def _ended(self, reason: str) -> None:
        self._idle_timer.cancel()
        self._server.connections.discard(self)
        for ticket in self._stream.unsent_tickets():
            if ticket is not None:
                self._answered(ticket)
        self._server.connection_changed()
        event = {"event": "disconnected", "transport": "tcp", "peer": self.name, "reason": reason}
        _LOGGER.info("tcp connection from %s ended: %s", self.name, reason, extra={"event": event})

    def _check_idle(self) -> None:
        idle_s = self._server.config.idle_s
        left_s = self._active_at + idle_s - self._loop.time()
        if self._running:
            left_s = idle_s
        if left_s > 0:
            self._idle_timer = self._loop.call_later(left_s, self._check_idle)
        else:
            self.end(f"idle for {idle_s:g} s")
