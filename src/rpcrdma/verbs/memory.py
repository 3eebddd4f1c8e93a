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
    """The operations that a region permits."""

    LOCAL_WRITE = 1
    REMOTE_READ = 2
    REMOTE_WRITE = 4


_WRITING = int(Access.LOCAL_WRITE | Access.REMOTE_WRITE)
_common = int.__and__
"""`&` of plain integers: the operators of an IntFlag cost a microsecond each, and rights are checked for every FPDU."""


class MemoryRegion:
    """Registered memory: peers address octet `i` of `view` as (`handle`, `offset` + i)."""

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
    """Uses of memory by calls and Sends: with a registration `made` for it, or with one of an earlier use `reused`."""

    made: int = 0
    reused: int = 0


class ProtectionDomain(Protocol):
    """Registers memory; one for each connection, so that no peer reaches another's memory (RFC 8166 section 8.1)."""

    @property
    def counts(self) -> RegistrationCounts | None:
        """The work of the device; None without one."""

    def register(self, buffer: object, access: Access) -> MemoryRegion:
        """Exposes `buffer` (anything with the buffer protocol; writable if a peer may write) under a new handle.

        Raises:
            LocalProtocolError: the buffer is read-only and `access` asks for writing, or too many regions exist.
        """

    def invalidate(self, region: MemoryRegion) -> None:
        """Ends the exposure: when this returns, no peer can touch the memory. No effect if it has ended already."""

    def abandon(self, region: MemoryRegion) -> None:
        """Ends the exposure as `invalidate` does, but keeps the handle for late work of the peer.

        Late RDMA Writes to the handle are discarded, and a Send may invalidate it, so that the connection goes on. Late
        RDMA Reads are still refused. A later `invalidate` frees the handle. A provider that cannot do this invalidates
        at once.
        """


class SoftwareProtectionDomain:
    """Memory protection in software.

    `random_bits(n)` gives n unpredictable bits: handles and offsets are drawn from it, so that a peer
    cannot guess them (RFC 5040 section 8.1.1).
    """

    __slots__ = ("_random_bits", "max_regions", "regions")
    counts = None

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
        """Remote invalidation (Send with Invalidate): the region that ended, or None where the handle names none."""
        return self.regions.pop(handle, None)

    def place(self, handle: int, offset: int, length: int, gather: Sequence[Buffer]) -> None:
        """Writes the octets of `gather`, the beginning of `length` octets, all of which have to be accessible.

        Raises:
            RemoteAccessError: see `find`.
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
        """The memory that a peer names, if it may have `access` to all `length` octets of it.

        Raises:
            RemoteAccessError: with reason "invalid handle", "access rights", "wrap" or "bounds".
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
