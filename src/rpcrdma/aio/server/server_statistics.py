"""A server's counters, and its connections and memory in use, at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.rpc.call_statistics import OperationStatistics, added_up
from rpcrdma.transport import TransportStatistics

__all__ = ["ConnectionStatistics", "HostStatistics", "ListenerStatistics", "ServerStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatistics:
    """One RDMA connection that exists at the moment of the statistics; `counters` is a copy of its counters."""

    peer: str
    """The client's HOST:PORT."""
    calls_in_progress: int
    """Calls received and not answered."""
    counters: TransportStatistics


@dataclass(slots=True, kw_only=True)
class HostStatistics:
    """The sums over the connections that one client address has at present; ended connections do not count."""

    address: str
    rdma_connections: int = 0
    tcp_connections: int = 0
    calls: int = 0
    """Calls received since the connections were made; the server's own calls to the client do not count."""
    octets_received: int = 0
    """TCP: octets of calls. RDMA: octets that this side has fetched by RDMA Read; messages are not counted."""
    octets_sent: int = 0
    """TCP: octets of messages. RDMA: octets that this side has placed by RDMA Write; messages are not counted."""

    def add(self, connection: RdmaConnection | TcpConnection) -> None:
        """Adds a connection and its counts."""
        self.calls += connection.calls_taken.taken
        if isinstance(connection, RdmaConnection):
            self.rdma_connections += 1
            self.octets_received += connection.statistics.octets_read
            self.octets_sent += connection.statistics.octets_written
        else:
            self.tcp_connections += 1
            self.octets_received += connection.calls_taken.octets_taken
            self.octets_sent += connection.octets_sent


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatistics:
    """The counts of all RDMA connections, or of all TCP connections, since the server was made."""

    connections: int
    """Present connections."""
    connections_made: int
    connections_refused: int
    """Connections refused by the limits on connections (of all, a host or a network), start-ups or locked memory."""
    calls: int
    """Calls received; the server's own calls to clients do not count."""
    procedures: dict[str, int]
    """Calls that decoded, by the name of the procedure, added up over programs and versions; procedures without any are
    left out. With `ServeOptions.count_calls` calls of COMPOUND count when they have ended, and by their operations
    instead: "OPEN+READ+CLOSE"."""
    operations: tuple[OperationStatistics, ...]
    """The calls that have ended, by procedure and status; empty without `ServeOptions.count_calls`."""
    calls_back: tuple[OperationStatistics, ...]
    """The server's own calls to clients, by procedure and status; empty without `ServeOptions.count_calls`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatistics:
    """The statistics of a server at one moment (`Server.statistics`): counts since its start, and resources in use."""

    rdma: ListenerStatistics
    tcp: ListenerStatistics
    counters: TransportStatistics
    """The sums over all RDMA connections, including those that have ended."""
    connections: tuple[ConnectionStatistics, ...]
    tcp_octets_received: int
    """Octets of calls over TCP."""
    buffer_octets_lent: int
    """Octets that the buffer pools have lent: results until sent, arguments from their RDMA Read to the answer; and the
    octets of TCP calls that count against them."""
    buffer_octets_max: int
    calls_running: int
    """Handlers that run in worker threads and tasks or wait for a thread, and computations such as encryption."""
    workers: int
    """Worker threads at most, for handlers that block."""

    @property
    def calls_back(self) -> tuple[OperationStatistics, ...]:
        """The server's own calls to clients by procedure and status, the sums over both transports."""
        return added_up(self.rdma.calls_back + self.tcp.calls_back)
