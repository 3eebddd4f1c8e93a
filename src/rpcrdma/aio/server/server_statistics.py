"""What a server has done and holds, at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from rpcrdma.transport import TransportStatistics

__all__ = ["ConnectionStatistics", "ListenerStatistics", "ServerStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatistics:
    """One RDMA connection that there is; `counters` is a copy."""

    peer: str
    """HOST:PORT."""
    calls_in_progress: int
    """Received and not answered."""
    counters: TransportStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatistics:
    """All connections of one kind, since the server was made."""

    connections: int
    """That there are."""
    connections_made: int
    connections_refused: int
    """Turned away because there were too many."""
    calls: int
    """RDMA: answered. TCP: received."""
    procedures: dict[str, int]
    """Calls that decoded, by the name of the procedure; procedures without any are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatistics:
    """`Server.statistics`: counts since the server was made, and what is in use now."""

    rdma: ListenerStatistics
    tcp: ListenerStatistics
    counters: TransportStatistics
    """The sums over all RDMA connections that there are and were."""
    connections: tuple[ConnectionStatistics, ...]
    tcp_octets_received: int
    """Octets of calls over TCP."""
    buffer_octets_lent: int
    """Of the buffer pools: results being sent, and arguments from when they are pulled until their call is answered."""
    buffer_octets_max: int
    calls_running: int
    """In worker threads and tasks."""
    workers: int
    """Threads there can be for calls that block."""
