"""Counters of one connection."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TransportStatistics"]


@dataclass(slots=True)
class TransportStatistics:
    """Counts from this side's point of view, since the connection was made.

    The same names count on both sides: a server counts the calls that it answers. A call of a combined form counts
    under each form it used.
    """

    calls: int = 0
    """Calls answered."""
    calls_short: int = 0
    """Calls and replies without any chunk."""
    calls_read_chunk: int = 0
    """Calls with an argument in a Read chunk."""
    calls_write_chunk: int = 0
    """Calls with a Write chunk for a result."""
    calls_long: int = 0
    """Long Calls: the call in a Position-Zero Read chunk."""
    replies_long: int = 0
    """Long Replies: the reply in the Reply chunk."""
    calls_failed: int = 0
    """Calls that ended with an RDMA_ERROR."""
    calls_abandoned: int = 0
    sends: int = 0
    receives: int = 0
    rdma_reads: int = 0
    """RDMA Reads made (server)."""
    rdma_writes: int = 0
    """RDMA Writes made (server)."""
    octets_read: int = 0
    octets_written: int = 0
    registrations: int = 0
    remote_invalidations: int = 0
    """Handles that the peer ended along with its reply (client), or that this side ended so (server)."""
    discarded: int = 0
    """Messages silently dropped, as the protocol says."""
    errors_sent: int = 0
    """RDMA_ERROR messages sent."""
