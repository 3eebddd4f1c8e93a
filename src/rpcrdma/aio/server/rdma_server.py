"""Serves RPC programs over RPC-over-RDMA on the software RNIC."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import asdict, dataclass, field

from rpcrdma import limits
from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.drivers.limited_log import CONNECTION_LINES_MAX, LimitedLog
from rpcrdma.aio.drivers.listener import Listener
from rpcrdma.aio.drivers.sockets import address_of, authority
from rpcrdma.aio.server.admission import Admission
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.transport import Role, TransportConfig, TransportStatistics, add_up
from rpcrdma.verbs import ReceivePool

__all__ = ["RdmaServer", "RdmaServerConfig"]

_LOGGER = logging.getLogger("rpcrdma.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaServerConfig:
    """Bounds on what clients may use, and what connections are offered."""

    connections_max: int = limits.RPC_CONNECTIONS_MAX
    """When there are so many, a newcomer displaces the connection that has been idle longest, of the client that has
    most or of its own, or is refused."""
    starting_max: int = limits.RDMA_STARTING_MAX
    """So many connections may be half-open; then the oldest of the client that has most of them is ended."""
    idle_s: float | None = limits.RDMA_IDLE_S
    """A connection without running calls ends when nothing came for so long, or up to a quarter longer; None: never.

    Not one whose client has said that it takes calls (RFC 8167 section 5.4).
    """
    transport: TransportConfig = field(default_factory=TransportConfig)
    iwarp: IwarpConfig = field(default_factory=IwarpConfig)
    capture: PacketCapture | None = None


class RdmaServer:
    """Answers the calls of any number of RDMA connections."""

    def __init__(
        self, answering: Answering, results: BufferPool, arguments: BufferPool, config: RdmaServerConfig
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._answering = answering
        self._results = results
        self._arguments = arguments
        self._config = config
        self._admission: Admission[RdmaConnection] = Admission(
            config.connections_max, config.starting_max, lambda connection: connection.idle_since
        )
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._receive_pool = ReceivePool(config.transport.inline_receive_octets)
        self._log = LimitedLog(_LOGGER)
        self._listener = Listener(self._connected, self._log)
        self.connections: set[RdmaConnection] = set()
        self.connections_made = 0
        self.connections_refused = 0
        self._ended_statistics = TransportStatistics()

    async def listen(self, host: str, port: int) -> list[tuple[str, int]]:
        """See `Listener.listen`."""
        self._sweep_later()
        return await self._listener.listen(host, port)

    def stop_accepting(self) -> None:
        """Takes no more connections, and no more calls on those there are."""
        self._listener.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connection in self.connections:
            connection.drain()

    async def stop(self) -> None:
        """Ends every connection; what has been posted for sending goes out first."""
        self.stop_accepting()
        if self.connections:
            await asyncio.wait([asyncio.ensure_future(connection.close()) for connection in self.connections])
        self._log.flush()

    @property
    def statistics(self) -> TransportStatistics:
        """The counters of all connections that there are and were."""
        return add_up([self._ended_statistics, *(connection.statistics for connection in self.connections)])

    def _connected(self, sock: socket.socket) -> None:
        address = address_of(sock.getpeername())
        displaced = self._admission.displaced_by(address[0])
        if displaced is not None:
            # Its end is told in `_ended`, at once.
            displaced.abort("its place was needed: too many connections")
        elif self._admission.full:
            name = authority(*address)
            self._log.log(logging.WARNING, "full", "%s turned away: %d connections", name, len(self.connections))
            self.connections_refused += 1
            sock.close()
            return
        connection = RdmaConnection(
            sock,
            Role.SERVER,
            transport=self._config.transport,
            iwarp=self._config.iwarp,
            results=self._results,
            arguments=self._arguments,
            answering=self._answering,
            capture=self._config.capture,
            receive_pool=self._receive_pool,
            on_established=self._established,
            on_ended=self._ended,
        )
        self.connections_made += 1
        self.connections.add(connection)
        self._admission.add(connection, address[0], starting=True)

    def _sweep_later(self) -> None:
        if self._config.idle_s is not None and self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(self._config.idle_s / 4, self._sweep)

    def _sweep(self) -> None:
        """Ends what has been idle for too long. Looking now and then costs nothing per message."""
        self._sweep_timer = None
        self._sweep_later()
        now, idle_s = self._loop.time(), self._config.idle_s
        assert idle_s is not None
        for connection in list(self.connections):
            since = connection.idle_since
            if since is not None and now - since >= idle_s:
                connection.abort(f"idle for {idle_s:g} s")

    def _established(self, connection: RdmaConnection) -> None:
        self._admission.established(connection)
        name = authority(*connection.peer)
        agreed = connection.negotiated
        self._log.log(
            logging.INFO,
            f"connected {connection.peer[0]}",
            "rdma connection from %s: version %d, inline %d/%d octets, credits %d, %s, remote invalidation %s, "
            "reads %d/%d",
            name,
            agreed.version,
            agreed.inline_receive_octets,
            agreed.inline_send_octets,
            agreed.credits_granted,
            "CRC" if agreed.crc else "no CRC",
            "on" if agreed.remote_invalidation else "off",
            agreed.inbound_reads,
            agreed.outbound_reads,
            extra={"event": {"event": "connected", "transport": "rdma", "peer": name, **asdict(agreed)}},
            most=CONNECTION_LINES_MAX,
        )

    def _ended(self, connection: RdmaConnection) -> None:
        self.connections.discard(connection)
        self._admission.remove(connection)
        self._ended_statistics = add_up([self._ended_statistics, connection.statistics])
        name = authority(*connection.peer)
        reason = connection.end_reason
        if reason is None:
            return
        event = {
            "event": "disconnected",
            "transport": "rdma",
            "peer": name,
            "reason": reason.reason,
            "protocol_error": reason.protocol_error,
            "statistics": asdict(connection.statistics),
        }
        said = ("rdma connection from %s ended: %s", name, reason.reason)
        if reason.protocol_error:
            self._log.log(logging.WARNING, "protocol", *said, extra={"event": event})
        else:
            kind = f"disconnected {connection.peer[0]}"
            self._log.log(logging.INFO, kind, *said, extra={"event": event}, most=CONNECTION_LINES_MAX)
