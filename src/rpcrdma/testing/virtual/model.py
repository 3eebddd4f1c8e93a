"""The parameters of a simulated fabric: distance, wire, RNIC, host and server, with the defaults' sources.

"The seed" is draft-dnoveck-nfsv4-rpcrdma-rtissues-02. It gives the distance, the bandwidth and the order of magnitude
of interrupts. The other defaults are round numbers of the size that RDMA adapters and hosts have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["PROFILES", "FabricModel"]

_MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricModel:
    """Times are in seconds, lengths in octets."""

    miles: float = 0.02
    """The distance between nodes; the default is a hundred feet of cable within a machine room."""
    round_trip_s_per_mile: float = 16 * _MICROSECOND
    """Seed, section 1.2: sixteen microseconds of round trip for each mile."""
    bandwidth_bits_s: float = 40e9
    """Seed, section 3.2: 40 Gb/s. A message of 1 KiB takes 200 ns."""
    header_octets: int = 58
    """Of each message on the wire, beside its data: Ethernet, IP, UDP and InfiniBand headers of RoCE version 2."""
    message_s: float = 0.3 * _MICROSECOND
    """The RNIC's work on each message that it sends, before the first octet leaves."""
    rdma_operation_s: float = 0.3 * _MICROSECOND
    """Further work of the RNIC on each message of an RDMA Read or RDMA Write, before it leaves."""
    interrupt_s: float = 4 * _MICROSECOND
    """From a completion to the software that takes it. Seed, section 3.2: much more than 200 ns."""
    coalescing: bool = True
    """Whether completions that arrive during an interrupt are taken along with it (seed, section 3.2)."""
    registration_s: float = 1 * _MICROSECOND
    """Of a memory region, before its handle can be sent."""
    registration_page_s: float = 0.01 * _MICROSECOND
    """Of each page of 4 KiB of the region, in addition."""
    local_invalidation_s: float = 1 * _MICROSECOND
    """Of a handle, by the host that owns it, which waits for it."""
    remote_invalidation_s: float = 0.1 * _MICROSECOND
    """Of a handle by an arriving Send with Invalidate: the work of the RNIC before it reports the message."""
    read_depth: int = 16
    """RDMA Reads that either end may have outstanding."""
    acknowledged: bool = True
    """Whether the service is the connected one: a Send or RDMA Write completes when the other end has acknowledged it.
    On an unreliable one (seed, section 4) there are no acknowledgements; work completes when it has left."""
    acknowledgement_octets: int = 62
    """Of an acknowledgement on the wire."""
    lost_after_s: float = 2.0
    """The time without acknowledgement after which an RNIC ends a connection: the sum of its retries."""
    copy_octets_s: float = 10e9
    """Octets that a host copies in a second out of receive buffers: all octets of a message that is not divided into
    parts to be used where they are."""
    server_s: float = 10 * _MICROSECOND
    """The run of a handler."""
    workers_s: float = 2 * _MICROSECOND
    """Handing a call to a worker thread and its result back, for handlers that may block; `server_s` comes on top."""

    @property
    def one_way_s(self) -> float:
        """From the time at which an octet leaves until it arrives."""
        return self.miles * self.round_trip_s_per_mile / 2

    def wire_s(self, octets: int) -> float:
        """How long a message with so many octets of data takes to leave, from its first octet to its last one."""
        return (octets + self.header_octets) * 8 / self.bandwidth_bits_s

    @property
    def acknowledgement_s(self) -> float:
        """How long an acknowledgement occupies the wire."""
        return self.acknowledgement_octets * 8 / self.bandwidth_bits_s

    def register_s(self, octets: int) -> float:
        """The registration of a region of so many octets."""
        return self.registration_s + -(-octets // 4096) * self.registration_page_s


_MACHINE_ROOM = FabricModel()
PROFILES: dict[str, FabricModel] = {
    "machine-room": _MACHINE_ROOM,
    "campus": replace(_MACHINE_ROOM, miles=2.0),
    "metropolitan": replace(_MACHINE_ROOM, miles=30.0),
}
"""The environments that the seed names in section 1.2. Its only number is that of the time for a mile."""
