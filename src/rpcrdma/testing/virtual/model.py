"""The parameters of a simulated fabric: distance, wire, RNIC, host and server, with the sources of the defaults.

"The seed" is draft-dnoveck-nfsv4-rpcrdma-rtissues-02. It states the distance, the bandwidth and the order of magnitude
of interrupts. The other defaults are round numbers typical of RDMA adapters and hosts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["PROFILES", "FabricModel"]

_MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricModel:
    """The parameters of a simulated fabric; times are in seconds, lengths in octets. `PROFILES` has some.

    "Seed" stands for draft-dnoveck-nfsv4-rpcrdma-rtissues-02.
    """

    miles: float = 0.02
    """The distance between nodes in miles; the default is a hundred feet of cable within a machine room."""
    round_trip_s_per_mile: float = 16 * _MICROSECOND
    """The round trip per mile: sixteen microseconds (seed, section 1.2)."""
    bandwidth_bits_s: float = 40e9
    """Bits per second: 40 Gb/s (seed, section 3.2), with which a message of 1 KiB takes 200 ns."""
    header_octets: int = 58
    """Headers of each message on the wire: Ethernet, IP, UDP and InfiniBand headers of RoCE version 2."""
    message_s: float = 0.3 * _MICROSECOND
    """The RNIC's work on each message that it sends, before the first octet leaves."""
    rdma_operation_s: float = 0.3 * _MICROSECOND
    """Further work of the RNIC on each message of an RDMA Read or RDMA Write, before it leaves."""
    interrupt_s: float = 4 * _MICROSECOND
    """The time from a completion to the software that takes it: much more than 200 ns (seed, section 3.2)."""
    coalescing: bool = True
    """Whether an interrupt takes completions along that arrive during it (seed, section 3.2)."""
    registration_s: float = 1 * _MICROSECOND
    """The registration of a memory region, before its handle can be sent."""
    registration_page_s: float = 0.01 * _MICROSECOND
    """Further time for each page of 4 KiB of the region."""
    local_invalidation_s: float = 1 * _MICROSECOND
    """The invalidation of a handle by its own host, which waits for it."""
    remote_invalidation_s: float = 0.1 * _MICROSECOND
    """The invalidation of a handle by an arriving Send with Invalidate: the RNIC's work before it reports the
    message."""
    read_depth: int = 16
    """RDMA Reads that either end may have outstanding."""
    acknowledged: bool = True
    """Whether the service is connected: a Send or RDMA Write completes when the other end has acknowledged it. An
    unreliable service (seed, section 4) has no acknowledgements; work completes when it has left."""
    acknowledgement_octets: int = 62
    """Octets of an acknowledgement on the wire."""
    lost_after_s: float = 2.0
    """The time without acknowledgement after which an RNIC ends a connection: the sum of its retries."""
    copy_octets_s: float = 10e9
    """Octets per second that a host copies out of receive buffers: all octets of a message that is not divided into
    parts for use in place."""
    server_s: float = 10 * _MICROSECOND
    """The time of a server's handler for one call."""
    workers_s: float = 2 * _MICROSECOND
    """The handover of a call to a worker thread and of its result back, for handlers that may block; in addition to
    `server_s`."""

    @property
    def one_way_s(self) -> float:
        """Seconds from an octet's departure to its arrival, from the distance alone."""
        return self.miles * self.round_trip_s_per_mile / 2

    def wire_s(self, octets: int) -> float:
        """Returns the seconds from a message's first to its last octet on the wire, headers included.

        Args:
            octets: its data in octets, without headers.
        """
        return (octets + self.header_octets) * 8 / self.bandwidth_bits_s

    @property
    def acknowledgement_s(self) -> float:
        """Seconds that an acknowledgement occupies the wire."""
        return self.acknowledgement_octets * 8 / self.bandwidth_bits_s

    def register_s(self, octets: int) -> float:
        """Returns the seconds that a host spends on registering a region.

        Args:
            octets: the size of the region.
        """
        return self.registration_s + -(-octets // 4096) * self.registration_page_s


_MACHINE_ROOM = FabricModel()
PROFILES: dict[str, FabricModel] = {
    "machine-room": _MACHINE_ROOM,
    "campus": replace(_MACHINE_ROOM, miles=2.0),
    "metropolitan": replace(_MACHINE_ROOM, miles=30.0),
}
"""The environments of the seed (section 1.2) by name: "machine-room", "campus" (2 miles) and "metropolitan" (30 miles).

The distances are this library's; the seed has only the time for a mile."""
