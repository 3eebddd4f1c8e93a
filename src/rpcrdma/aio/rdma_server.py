"""Serves RPC programs over RPC-over-RDMA on the software RNIC."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import asdict, dataclass, field

from rpcrdma import limits
from rpcrdma.aio.buffer_pool import BufferPool
from rpcrdma.aio.capture import PacketCapture
from rpcrdma.aio.limited_log import LimitedLog
from rpcrdma.aio.listener import Listener
from rpcrdma.aio.rdma_connection import RdmaConnection, Responding
from rpcrdma.aio.sockets import address_of, authority
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.transport import Role, TransportConfig

__all__ = ["RdmaServer", "RdmaServerConfig"]

_LOGGER = logging.getLogger("rpcrdma.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaServerConfig:
    """Bounds on what clients may use, and what connections are offered."""

    connections_max: int = limits.RPC_CONNECTIONS_MAX
    transport: TransportConfig = field(default_factory=TransportConfig)
    iwarp: IwarpConfig = field(default_factory=IwarpConfig)
    capture: PacketCapture | None = None


class RdmaServer:
    """Answers the calls of any number of RDMA connections."""

    def __init__(self, responding: Responding, pool: BufferPool, config: RdmaServerConfig) -> None:
        self._responding = responding
        self._pool = pool
        self._config = config
        self._log = LimitedLog(_LOGGER)
        self._listener = Listener(self._connected, self._log)
        self.connections: set[RdmaConnection] = set()

    async def listen(self, host: str, port: int) -> list[tuple[str, int]]:
        """See `Listener.listen`."""
        return await self._listener.listen(host, port)

    def stop_accepting(self) -> None:
        """Takes no more connections, and no more calls on those there are."""
        self._listener.close()
        for connection in self.connections:
            connection.drain()

    async def stop(self) -> None:
        """Ends every connection; what has been posted for sending goes out first."""
        self.stop_accepting()
        if self.connections:
            await asyncio.wait([asyncio.ensure_future(connection.close()) for connection in self.connections])

    def _connected(self, sock: socket.socket) -> None:
        name = authority(*address_of(sock.getpeername()))
        if len(self.connections) >= self._config.connections_max:
            self._log.log(logging.WARNING, "full", "%s turned away: %d connections", name, len(self.connections))
            sock.close()
            return
        connection = RdmaConnection(
            sock,
            Role.SERVER,
            transport=self._config.transport,
            iwarp=self._config.iwarp,
            pool=self._pool,
            responding=self._responding,
            capture=self._config.capture,
            on_established=self._established,
            on_ended=self._ended,
        )
        self.connections.add(connection)

    def _established(self, connection: RdmaConnection) -> None:
        name = authority(*connection.peer)
        agreed = connection.negotiated
        _LOGGER.info(
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
        )

    def _ended(self, connection: RdmaConnection) -> None:
        self.connections.discard(connection)
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
            _LOGGER.info(*said, extra={"event": event})
