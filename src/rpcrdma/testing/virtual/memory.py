"""Registered memory whose registration and invalidation take the time of the host that does them."""

from __future__ import annotations

from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.virtual.host import Host
from rpcrdma.testing.virtual.trace import EventKind
from rpcrdma.verbs import Access, MemoryRegion, SoftwareProtectionDomain

__all__ = ["SimulatedProtectionDomain"]


class SimulatedProtectionDomain(SoftwareProtectionDomain):
    """The regions of one end of a connection, whose registration and invalidation take the host's time.

    Handles are drawn from `VirtualLoop.random`. The trace has an event for each registration and local invalidation.

    Args:
        host: the host.
        connection: the number of the connection.

    Shared by the methods:
        LocalProtocolError: also if the host's memory for regions is exhausted, or `Faults.on_register` raises it.
    """

    __slots__ = ("_connection", "_host")

    def __init__(self, host: Host, connection: int) -> None:
        super().__init__(host.loop.random.getrandbits)
        self._host = host
        self._connection = connection

    def register(self, buffer: object, access: Access) -> MemoryRegion:
        host = self._host
        octets = memoryview(buffer).nbytes  # type: ignore[arg-type]
        late_s = 0.0
        most = host.registered_octets_max
        if most is not None and host.registered_octets + octets > most:
            host.record(
                EventKind.FAULT, "registration failed: memory exhausted", octets=octets, connection=self._connection
            )
            raise LocalProtocolError(f"{octets} octets cannot be registered: {host.host} has no memory left for it")
        if host.faults is not None:
            late_s = host.faults.on_register(host.host, octets)
        region = super().register(buffer, access)
        host.registered_octets += region.length
        host.record(
            EventKind.REGISTER,
            f"handle {region.handle:#010x}",
            octets=region.length,
            cost_s=host.model.register_s(region.length) + late_s,
            connection=self._connection,
        )
        return region

    def invalidate(self, region: MemoryRegion) -> None:
        if self.regions.get(region.handle) is region:
            self._ended(region)
            super().invalidate(region)

    def abandon(self, region: MemoryRegion) -> None:
        if self.regions.get(region.handle) is region and not region.abandoned:
            self._ended(region)
            super().abandon(region)

    def _ended(self, region: MemoryRegion) -> None:
        """Subtracts a region's length from the host's registered octets; records its invalidation and spends the time.

        No effect on an abandoned region, for which this was done already.
        """
        if region.abandoned:
            return
        host = self._host
        host.registered_octets -= region.length
        text = f"handle {region.handle:#010x}"
        host.record(
            EventKind.INVALIDATE_LOCAL, text, cost_s=host.model.local_invalidation_s, octets=region.length,
            connection=self._connection,
        )  # fmt: skip

    def invalidate_handle(self, handle: int) -> MemoryRegion | None:
        region = super().invalidate_handle(handle)
        if region is not None and not region.abandoned:
            self._host.registered_octets -= region.length
        return region
