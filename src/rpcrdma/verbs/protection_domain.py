"""Registered memory: regions, their rights and handles, and the protection domain that guards them.

A region is memory that a peer can reach by a 32-bit handle (steering tag) and a 64-bit offset, within its
bounds and rights, from `register` until `invalidate` and not an instant longer. `SoftwareProtectionDomain` is the
memory protection unit of every provider that has no hardware for it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rpcrdma.errors import LocalProtocolError, RemoteAccessError
from rpcrdma.wire.buffers import Buffer, as_view

__all__ = ["Access", "MemoryRegion", "ProtectionDomain", "RegistrationCounts", "SoftwareProtectionDomain"]

_DISCARD = memoryview(bytearray(1 << 16))
"""Data for abandoned regions is placed here and never read; no FPDU carries more (RFC 5044 section 3)."""


class Access(enum.IntFlag):
    """The operations that a memory region permits, on this side and by the peer; combined by `|`."""

    LOCAL_WRITE = 1
    REMOTE_READ = 2
    REMOTE_WRITE = 4


_WRITING = int(Access.LOCAL_WRITE | Access.REMOTE_WRITE)
_common = int.__and__
"""`&` of plain integers: the operators of an IntFlag cost a microsecond each, and rights are checked for every FPDU."""


class MemoryRegion:
    """Registered memory: peers address octet `i` of `view` as (`handle`, `offset` + i).

    Args:
        handle: the steering tag, 32 bits.
        offset: the peer's offset of the first octet, 64 bits.
        view: the memory.
        access: the operations permitted.

    `rights` are the operations that are permitted now, as an int: those of `access`; once the region is `abandoned`, at
    most REMOTE_WRITE, whose data are discarded.
    """

    __slots__ = ("abandoned", "access", "handle", "length", "offset", "rights", "view")

    def __init__(self, handle: int, offset: int, view: memoryview, access: Access) -> None:
        self.handle = handle
        self.offset = offset
        self.length = len(view)
        self.view = view
        self.access = access
        self.rights = int(access)
        self.abandoned = False

    def __repr__(self) -> str:
        return (
            f"MemoryRegion(handle={self.handle:#010x}, offset={self.offset:#x}, length={self.length}, {self.access!r})"
        )


@dataclass(slots=True)
class RegistrationCounts:
    """The numbers of registrations by an RDMA device for calls and Sends."""

    made: int = 0
    """Uses for which memory was registered."""
    reused: int = 0
    """Uses of an earlier registration."""


class ProtectionDomain(Protocol):
    """Registers the memory of one connection, so that no peer reaches another peer's memory (RFC 8166 section 8.1)."""

    @property
    def counts(self) -> RegistrationCounts | None:
        """The numbers of registrations that an RDMA device made and reused for this domain; None without a device."""

    def register(self, buffer: object, access: Access) -> MemoryRegion:
        """Exposes a buffer to the peer under a new handle.

        Args:
            buffer: any object with the buffer protocol; writable if `access` permits writing.
            access: the operations permitted, those of `Access` combined by `|`.

        Returns:
            The region, exposed until `invalidate`.

        Raises:
            LocalProtocolError: the buffer is read-only and `access` permits writing, or no more memory can be
                registered.
            TypeError: `buffer` has no buffer protocol, or there are gaps between its octets.
        """

    def invalidate(self, region: MemoryRegion) -> None:
        """Ends the exposure: when this returns, no peer can touch the memory. No effect if it has ended before.

        A peer's RDMA Read of the memory that is not answered yet ends the connection.

        Args:
            region: the region.

        Raises:
            LocalProtocolError: an RDMA device does not let go of the memory, which must not be reused.
        """

    def abandon(self, region: MemoryRegion) -> None:
        """Ends the exposure as `invalidate` does, but keeps the handle for late work of the peer.

        Late RDMA Writes to the handle are discarded, and a Send may still invalidate it, so that the connection
        survives. RDMA Reads that are late or not answered yet end it. A later `invalidate` frees the handle. A provider
        that cannot do this invalidates at once.

        Args:
            region: the region.

        Raises:
            LocalProtocolError: an RDMA device does not let go of the memory, which must not be reused.
        """


class SoftwareProtectionDomain:
    """Memory protection in software; implements `rpcrdma.provider.ProtectionDomain`.

    Args:
        random_bits: returns an unpredictable number of the given bits, for handles and offsets, so that no peer can
            guess them (RFC 5040 section 8.1.1).
        max_regions: regions at most.
    """

    __slots__ = ("_random_bits", "max_regions", "regions")
    counts = None
    """No RDMA device registers the memory."""

    def __init__(self, random_bits: Callable[[int], int], *, max_regions: int = 1 << 16) -> None:
        self._random_bits = random_bits
        self.max_regions = max_regions
        self.regions: dict[int, MemoryRegion] = {}

    def register(self, buffer: object, access: Access) -> MemoryRegion:
        view = as_view(buffer)
        if view.readonly and _common(access, _WRITING):
            raise LocalProtocolError(
                "a read-only buffer was registered for writing: pass a bytearray or a writable view"
            )
        if len(self.regions) >= self.max_regions:
            raise LocalProtocolError(f"{self.max_regions} regions are registered already")
        # 68 random bits in one draw: 32 for the handle, 36 for an offset below 2**48 at a page's begin.
        bits = self._random_bits(68)
        handle = bits & 0xFFFFFFFF
        while handle in self.regions or handle < 2:
            handle = self._random_bits(32)
        region = MemoryRegion(handle, (bits >> 32) << 12, view, access)
        self.regions[handle] = region
        return region

    def invalidate(self, region: MemoryRegion) -> None:
        if self.regions.get(region.handle) is region:
            del self.regions[region.handle]

    def abandon(self, region: MemoryRegion) -> None:
        region.abandoned = True
        region.rights = _common(region.access, Access.REMOTE_WRITE)
        region.view = _DISCARD[:0]

    def invalidate_handle(self, handle: int) -> MemoryRegion | None:
        """Ends a region, exposed or abandoned (with a handle for late work), for the peer's Send with Invalidate.

        Args:
            handle: the handle in the Send, which is free from then on.

        Returns:
            The region that ended; None if no region has the handle.
        """
        return self.regions.pop(handle, None)

    def place(self, handle: int, offset: int, length: int, gather: Sequence[Buffer]) -> None:
        """Writes octets of an RDMA Write into registered memory; discards those for an abandoned region.

        Args:
            handle: the handle in the RDMA Write.
            offset: the peer's offset of the first octet.
            length: octets of the whole RDMA Write, all of which must be accessible; no effect and no check if 0.
            gather: the first octets of the RDMA Write, all or some, as a list of buffers.

        Raises:
            RemoteAccessError: the region, its rights or its bounds do not permit the whole RDMA Write.
        """
        if not length:
            return
        self.find(handle, offset, length, Access.REMOTE_WRITE)
        for piece in gather:
            view = memoryview(piece)
            for start in range(0, len(view), len(_DISCARD)):
                part = view[start : start + len(_DISCARD)]
                self.find(handle, offset, len(part), Access.REMOTE_WRITE)[:] = part
                offset += len(part)

    def find(self, handle: int, offset: int, length: int, access: Access) -> memoryview:
        """Checks a peer's access to registered memory.

        Args:
            handle: the peer's handle.
            offset: the peer's offset of the first octet.
            length: octets.
            access: the right that is needed.

        Returns:
            A view of the `length` octets; for an abandoned region a view of scratch memory, cut off at 64 KiB.

        Raises:
            RemoteAccessError: with reason "invalid handle", "access rights", "wrap" (the end exceeds 64-bit offsets)
                or "bounds".
        """
        region = self.regions.get(handle)
        if region is None:
            raise RemoteAccessError("invalid handle", handle, offset, length)
        if not _common(region.rights, access):
            # An abandoned region without any right has ended for the peer.
            raise RemoteAccessError("access rights" if region.rights else "invalid handle", handle, offset, length)
        if offset + length > 1 << 64:
            raise RemoteAccessError("wrap", handle, offset, length)
        start = offset - region.offset
        if start < 0 or start + length > region.length:
            raise RemoteAccessError("bounds", handle, offset, length)
        if region.abandoned:
            return _DISCARD[:length]
        return region.view[start : start + length]
