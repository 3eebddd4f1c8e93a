"""Memory registered with an RDMA device: exposures to the peer, memory of work requests, slots for small messages."""

from __future__ import annotations

import errno
from typing import NamedTuple, Protocol

from rpcrdma.errors import LocalProtocolError
from rpcrdma.limits import MEMORY_WINDOWS_KEPT_MAX
from rpcrdma.verbs.binding import DeviceAttributes, Domain, Entry, MemoryWindow, Region, Right
from rpcrdma.verbs.device_ends import remedy_of
from rpcrdma.verbs.device_registrations import KeptRegistration, KeptRegistrations
from rpcrdma.verbs.protection_domain import Access, MemoryRegion, RegistrationCounts
from rpcrdma.wire.buffers import Buffer, as_view
from rpcrdma.wire.bulk_memory import PooledMemory, bulk

__all__ = [
    "SCATTER_ENTRIES",
    "DeviceProtectionDomain",
    "DeviceRegion",
    "MemorySlot",
    "MemorySlots",
    "Pinned",
    "WindowBinder",
    "has_scatter_lists",
    "has_windows",
]

SCATTER_ENTRIES = 2
"""The pieces of memory of a receive: the head of a message, and the slot for its placeable segments."""
_SLAB_OCTETS = 1 << 16
"""Slots are registered together: a registration costs a system call, and pins whole pages."""


def has_windows(device: DeviceAttributes) -> bool:
    """Returns whether memory on this device is exposed by memory windows of type 2, rather than by registrations.

    The peer's Send with Invalidate can end a window; with the handle of a registration it breaks the connection. False
    on iWARP: there the sink of an RDMA Read needs a registration with a remote right, which memory with windows lacks.
    """
    return device["type_2_windows"] and device["max_windows"] > 0 and not device["iwarp"]


def has_scatter_lists(device: DeviceAttributes) -> bool:
    """Returns whether a receive on this device can have two pieces of memory: a message's head, and its bulk data."""
    return device["max_entries"] >= SCATTER_ENTRIES


class Pinned(NamedTuple):
    """Registered memory that work requests can name, made by `DeviceProtectionDomain.pin`.

    The memory lies in `region` from octet `start` on. `kept` is the registration if it is shared and kept for reuse;
    None for a registration of this use alone.
    """

    region: Region
    start: int
    kept: KeptRegistration | None


class DeviceRegion(MemoryRegion):
    """A memory region that a device guards, made by `DeviceProtectionDomain.register`.

    `pinned` is its registered memory, None after its end; `window` is the bound memory window, or None. The parameter
    `handle` is the handle of the window's binding; None, without a window: the region has that of the registration.
    """

    __slots__ = ("pinned", "window")

    def __init__(
        self,
        pinned: Pinned,
        view: memoryview,
        access: Access,
        window: MemoryWindow | None = None,
        handle: int | None = None,
    ) -> None:
        region = pinned.region
        super().__init__(region.handle if handle is None else handle, region.address + pinned.start, view, access)
        self.pinned: Pinned | None = pinned
        self.window = window


class WindowBinder(Protocol):
    """The part of a queue pair that binds memory windows for the protection domain."""

    def bind(self, window: MemoryWindow, entry: Entry, handle: int, rights: int) -> None:
        """Queues or posts the binding of a window to memory.

        Args:
            window: the window.
            entry: the memory: (region, start in it, octets).
            handle: the new handle of the window.
            rights: the remote rights, from `Right`.
        """

    def unbind(self, window: MemoryWindow) -> None:
        """Withdraws the queued binding of a window; no effect if it was posted to the device already."""


def _rights(access: Access, *, iwarp: bool) -> tuple[int, int]:
    """Returns (local, remote) rights, combined from `Right`, of a registration that permits `access`.

    InfiniBand places the data of an RDMA Read in memory without remote rights. So the sink of a Read, whose `access` is
    LOCAL_WRITE with REMOTE_WRITE, gets no remote right there. iWARP (`iwarp`) names the sink on the wire and needs the
    right.
    """
    local = Right.LOCAL_WRITE if access & (Access.LOCAL_WRITE | Access.REMOTE_WRITE) else 0
    remote = Right.REMOTE_READ if access & Access.REMOTE_READ else 0
    if access & Access.REMOTE_WRITE and (iwarp or not access & Access.LOCAL_WRITE):
        remote |= Right.REMOTE_WRITE
    return int(local), int(remote)


_RIGHTS = [[_rights(Access(access), iwarp=iwarp) for access in range(8)] for iwarp in (False, True)]
"""The results of `_rights`, by `iwarp` and by `Access`: each operator of an IntFlag would enter four functions, for
each exposure."""


class DeviceProtectionDomain:
    """Registers the memory of one connection with an RDMA device; implements `ProtectionDomain`.

    Where the device has memory windows, an exposure is a window with only the rights that it needs. Its memory is
    registered without remote rights, so that no handle is usable before or after. Elsewhere, and for empty memory, each
    exposure has a registration of its own, which has only the rights that the exposure needs.

    `domain` is the device's own protection domain, `kept` has the registrations of pooled memory that are kept for
    reuse. `binder` binds the windows: the queue pair sets it, and sets it to None at its end. `counts` counts
    registrations; `device` has the device's attributes.
    """

    __slots__ = ("_bound", "_domain", "_free", "_kept", "_rights", "_windows", "binder", "counts", "device")

    def __init__(self, domain: Domain, kept: KeptRegistrations) -> None:
        self._domain: Domain | None = domain
        self._kept = kept
        self.device = domain.device
        self._rights = _RIGHTS[self.device["iwarp"]]
        self._windows = int(Right.WINDOW) if has_windows(self.device) else 0
        self._free: list[MemoryWindow] = []
        self._bound: dict[int, DeviceRegion] = {}
        self.counts = RegistrationCounts()
        self.binder: WindowBinder | None = None

    def register(self, buffer: object, access: Access) -> DeviceRegion:
        view = as_view(buffer)
        local, remote = self._rights[access]
        if local and view.readonly:
            raise LocalProtocolError(
                "a read-only buffer was registered for writing: pass a bytearray or a writable view"
            )
        if not remote:
            return DeviceRegion(self.pin(view, local), view, access)
        if not self._windows or not view:
            exposed = self._register(view, local | remote)
            self.counts.made += 1
            return DeviceRegion(Pinned(exposed, 0, None), view, access)
        window = self._window()
        try:
            pinned = self.pin(view, local)
        except LocalProtocolError:
            self._free.append(window)
            raise
        # The upper 24 bits name the window; the owner chooses the others, anew for each binding.
        handle = (window.handle & ~0xFF) | (window.handle + 1 & 0xFF)
        region = DeviceRegion(pinned, view, access, window, handle)
        self._bound[handle] = region
        if self.binder is not None:
            self.binder.bind(window, (pinned.region, pinned.start, len(view)), handle, remote)
        return region

    def _window(self) -> MemoryWindow:
        if self._free:
            return self._free.pop()
        if self._domain is None:
            raise _closed()
        try:
            return self._domain.window()
        except OSError as error:
            remedy = remedy_of(error)
            if error.errno == errno.ENOMEM:
                remedy = (
                    f"it has {self.device['max_windows']}: make fewer calls with bulk data at a time, or close other "
                    "connections"
                )
            raise LocalProtocolError(
                f"{self.device['name']} has no further memory window: {error.strerror}; {remedy}"
            ) from error

    def pin(self, data: Buffer | PooledMemory, rights: int) -> Pinned:
        """Registers memory for work requests of this end; returns its region and its start there. `unpin` ends the use.

        `data`: the memory; the registration of a `PooledMemory`, or of one that `data` is a view of, is kept for reuse.
        `rights`: the local rights, from `Right`; 0 for data to be sent. A kept registration always has LOCAL_WRITE.

        Raises:
            LocalProtocolError: the device or the limit of locked memory has no room for it, it is larger than the
                device takes at a time, the length of the `PooledMemory` has changed, or the domain is closed.
        """
        memory = data.obj if isinstance(data, memoryview) else data
        if type(memory) is not PooledMemory or not data:
            region = self._register(data, rights | self._windows)
            self.counts.made += 1
            return Pinned(region, 0, None)
        made = self.counts.made
        kept = self._kept.take(self, memory, self._register_pooled)
        self.counts.reused += made == self.counts.made
        return Pinned(kept.region, kept.region.start_of(data), kept)

    def unpin(self, pinned: Pinned) -> None:
        """Ends a use of memory that `pin` has begun; a failure of the device to deregister the memory is ignored.

        The caller makes sure that no posted work names the memory.
        """
        if pinned.kept is not None:
            self._kept.give_back(pinned.kept)
            return
        try:
            pinned.region.deregister()
        except OSError:
            # Memory that a failed device does not let go of: no work names it, and no peer can reach it.
            return

    def register_slab(self, slab: memoryview, rights: int) -> Region:
        """Registers memory for many messages or receives, with local rights from `Right`.

        The registration ends with the last reference to the returned region; the caller need not end it.

        Raises:
            LocalProtocolError: the device or the limit of locked memory has no room for it, it is larger than the
                device takes at a time, or the domain is closed.
        """
        return self._register(slab, rights)

    def _register_pooled(self, memory: PooledMemory) -> Region:
        region = self._register(memory, Right.LOCAL_WRITE | self._windows, keep=False)
        self.counts.made += 1
        return region

    def _register(self, data: Buffer | PooledMemory, rights: int, *, keep: bool = True) -> Region:
        if self._domain is None:
            raise _closed()
        if not data:
            # A device registers no empty memory; no peer can reach the octet that stands for it.
            data, rights = bytearray(1), 0
        most = self.device["max_region_octets"]
        if 0 < most < len(data):
            raise LocalProtocolError(
                f"{self.device['name']} registers no {len(data)} octets: it takes {most} at a time; use smaller buffers"
            )
        try:
            try:
                return self._domain.register(data, rights, keep)
            except OSError:
                self._kept.clear()
            return self._domain.register(data, rights, keep)
        except OSError as error:
            raise LocalProtocolError(
                f"{self.device['name']} registers no {len(data)} octets: {error.strerror}; {remedy_of(error)}"
            ) from error

    def invalidate(self, region: MemoryRegion) -> None:
        assert isinstance(region, DeviceRegion)
        pinned = region.pinned
        if pinned is not None:
            region.pinned = None
            try:
                self._end_window(region)
                if pinned.kept is None:
                    pinned.region.deregister()
                else:
                    self._kept.give_back(pinned.kept)
            except OSError as error:
                raise LocalProtocolError(
                    f"{self.device['name']} does not let go of registered memory: {error.strerror}"
                ) from error

    abandon = invalidate

    def _end_window(self, region: DeviceRegion) -> None:
        """Ends the binding of a region's memory window at once: deallocates the window; no effect if there is none.

        A Local Invalidate would complete after all earlier Sends, which the peer could delay.

        Raises:
            OSError: the device has failed.
        """
        window = region.window
        if window is None:
            return
        region.window = None
        del self._bound[region.handle]
        if self.binder is not None:
            self.binder.unbind(window)
        window.end()

    def invalidated(self, handle: int) -> bool:
        """Keeps for reuse the window with a handle that the peer has invalidated, or ends it if enough are kept.

        The region of the window stays registered until `invalidate`. Returns False if no bound window has the handle.
        """
        region = self._bound.pop(handle, None)
        if region is None:
            return False
        window, region.window = region.window, None
        assert window is not None
        # Beyond the bound the window ends with its last reference.
        if len(self._free) < MEMORY_WINDOWS_KEPT_MAX:
            self._free.append(window)
        return True

    def end_windows(self) -> None:
        """Ends all memory windows, and ignores failures of the device.

        A queue pair cannot be destroyed while a window is bound by it.
        """
        for region in list(self._bound.values()):
            try:
                self._end_window(region)
            except OSError:
                # The end of the queue pair ends its bindings.
                continue
        self._free.clear()

    def close(self) -> None:
        """Ends all windows and kept registrations of this domain; no memory can be registered from then on.

        libibverbs' domain ends with the last region and the queue pair.
        """
        self.end_windows()
        self._kept.end(self)
        self._domain = self.binder = None


def _closed() -> LocalProtocolError:
    return LocalProtocolError("memory is to be registered for a connection that is closed")


class MemorySlot:
    """Registered memory for one message: `view` shows it, and it begins at octet `start` of `region`."""

    __slots__ = ("region", "start", "view")

    def __init__(self, region: Region, start: int, view: memoryview) -> None:
        self.region = region
        self.start = start
        self.view = view

    def entry(self, octets: int) -> Entry:
        """Returns the slot's first `octets` octets as (region, start in it, octets), for the list of a work request."""
        return self.region, self.start, octets


class MemorySlots:
    """A pool of registered slots of `octets` each; registers 64 KiB of slots at a time, or one longer slot, for good.

    `pd` registers the memory, with the local rights `rights` (`Right`; 0: for data to be sent).
    """

    __slots__ = ("_free", "_pd", "_rights", "octets")

    def __init__(self, pd: DeviceProtectionDomain, octets: int, rights: int) -> None:
        self._pd = pd
        self._rights = rights
        self._free: list[MemorySlot] = []
        self.octets = octets

    def take(self) -> MemorySlot:
        """Returns a free slot with unspecified content; registers memory for more slots if none is free.

        Raises:
            LocalProtocolError: no more memory can be registered.
            MemoryError: the system gives no more memory.
        """
        if not self._free:
            octets = self.octets
            slab = bulk(octets * max(1, _SLAB_OCTETS // octets))
            region = self._pd.register_slab(slab, self._rights)
            self._free.extend(
                MemorySlot(region, start, slab[start : start + octets]) for start in range(0, len(slab), octets)
            )
        return self._free.pop()

    def give_back(self, slot: MemorySlot) -> None:
        """Takes back a slot that no posted work names any more, for reuse."""
        self._free.append(slot)
