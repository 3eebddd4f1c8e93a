"""Memory registered with an RDMA device: regions for peers, and slots for small messages."""

from __future__ import annotations

from rpcrdma.errors import LocalProtocolError
from rpcrdma.verbs.binding import Domain, Entry, Region, Right
from rpcrdma.verbs.memory import Access, MemoryRegion
from rpcrdma.wire.buffers import Buffer, as_view

__all__ = ["DeviceProtectionDomain", "DeviceRegion", "MemorySlot", "MemorySlots"]

_SLAB_OCTETS = 1 << 16
"""Slots are registered together: a registration costs a system call, and pins whole pages."""


class DeviceRegion(MemoryRegion):
    """A region that the device guards. `registered` is the registration; None where it has ended."""

    __slots__ = ("registered",)

    def __init__(self, registered: Region, view: memoryview, access: Access) -> None:
        super().__init__(registered.handle, registered.address, view, access)
        self.registered: Region | None = registered


class DeviceProtectionDomain:
    """Registers memory for each exposure alone, and deregisters it when that ends.

    InfiniBand places the data of an RDMA Read in memory without remote rights. So a sink, which has LOCAL_WRITE along
    with REMOTE_WRITE, gets no remote right there; iWARP names the sink on the wire and needs the right.
    """

    __slots__ = ("_domain", "_iwarp", "device")

    def __init__(self, domain: Domain) -> None:
        self._domain: Domain | None = domain
        self.device = domain.device
        self._iwarp = self.device["iwarp"]

    def register(self, buffer: object, access: Access) -> DeviceRegion:
        view = as_view(buffer)
        rights = 0
        if access & Access.REMOTE_READ:
            rights |= Right.REMOTE_READ
        if access & (Access.LOCAL_WRITE | Access.REMOTE_WRITE):
            rights |= Right.LOCAL_WRITE
        if access & Access.REMOTE_WRITE and (self._iwarp or not access & Access.LOCAL_WRITE):
            rights |= Right.REMOTE_WRITE
        if rights & Right.LOCAL_WRITE and view.readonly:
            raise LocalProtocolError(
                "a read-only buffer was registered for writing: pass a bytearray or a writable view"
            )
        return DeviceRegion(self.pin(view, rights), view, access)

    def pin(self, data: Buffer, rights: int) -> Region:
        """Registers memory that work requests name, with rights from `Right`; none at all for data to be sent.

        Raises:
            LocalProtocolError: the device or the limit of locked memory has no room for it.
        """
        view = memoryview(data)
        if self._domain is None:
            raise LocalProtocolError("memory is to be registered for a connection that is closed")
        try:
            # A device registers no empty memory; no peer can reach the octet that stands for it.
            return self._domain.register(view, rights) if view else self._domain.register(bytearray(1), 0)
        except OSError as error:
            raise LocalProtocolError(
                f"{self.device['name']} registers no {len(view)} octets: {error.strerror}; raise the limit of locked "
                "memory (ulimit -l, or LimitMEMLOCK= of a systemd unit)"
            ) from error

    def invalidate(self, region: MemoryRegion) -> None:
        assert isinstance(region, DeviceRegion)
        registered = region.registered
        if registered is not None:
            region.registered = None
            try:
                registered.deregister()
            except OSError as error:
                raise LocalProtocolError(
                    f"{self.device['name']} does not let go of registered memory: {error.strerror}"
                ) from error

    abandon = invalidate

    def close(self) -> None:
        """Lets go of the domain, which ends with its last region."""
        self._domain = None


class MemorySlot:
    """Registered memory of one message: `view` is that of `region` from `start` on."""

    __slots__ = ("region", "start", "view")

    def __init__(self, region: Region, start: int, view: memoryview) -> None:
        self.region = region
        self.start = start
        self.view = view

    def entry(self, octets: int) -> Entry:
        """Its first octets, as an entry of a work request."""
        return self.region, self.start, octets


class MemorySlots:
    """Slots of `octets` each, registered a slab at a time and kept until the protection domain ends."""

    __slots__ = ("_free", "_pd", "_rights", "octets")

    def __init__(self, pd: DeviceProtectionDomain, octets: int, rights: int) -> None:
        self._pd = pd
        self._rights = rights
        self._free: list[MemorySlot] = []
        self.octets = octets

    def take(self) -> MemorySlot:
        """A slot with unspecified content.

        Raises:
            LocalProtocolError: no more memory can be registered.
        """
        if not self._free:
            octets = self.octets
            slab = memoryview(bytearray(octets * max(1, _SLAB_OCTETS // octets)))
            region = self._pd.pin(slab, self._rights)
            self._free.extend(
                MemorySlot(region, start, slab[start : start + octets]) for start in range(0, len(slab), octets)
            )
        return self._free.pop()

    def give_back(self, slot: MemorySlot) -> None:
        """Takes back a slot that no posted work names."""
        self._free.append(slot)
