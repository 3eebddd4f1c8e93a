"""The memory of an RDMA device in memory: protection domains, registered regions and memory windows.

Windows are those of type 2B: a window belongs to one protection domain and is bound for one queue pair. A handle is
good while it is bound, with the rights of the binding. A Send with Invalidate ends a binding of the receiving queue
pair, and breaks the connection with any other handle, that of a region included. A region to which a window is bound
cannot be deregistered.

With `iwarp`, a Send with Invalidate ends any region, and an RDMA Read needs no right, as in Linux's siw.
"""

from __future__ import annotations

import ctypes
import errno
import os
import weakref
from typing import Protocol

from rpcrdma.verbs.binding import DeviceAttributes, Entry, Right

__all__ = ["Domain", "Region", "Window", "World", "view_of"]


class World(Protocol):
    """The device."""

    attributes: DeviceAttributes
    registered: int
    """Counts the registrations."""
    node: str
    unplugged: set[str]
    """The nodes of devices that hardware has taken away."""

    def handle(self) -> int:
        """A handle that nothing had before."""


def _address(buffer: object) -> tuple[int, int]:
    """The address and the length of a buffer, whether writable or not."""

    class Fields(ctypes.Structure):
        _fields_ = (("address", ctypes.c_void_p), ("owner", ctypes.c_void_p), ("octets", ctypes.c_ssize_t))

    found = (ctypes.c_char * 128)()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(found), 0)
    fields = Fields.from_buffer_copy(found)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(found))
    return fields.address or 0, fields.octets


class Region:
    def __init__(self, domain: Domain, buffer: object, access: int, *, keep: bool) -> None:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if access & (Right.LOCAL_WRITE | Right.REMOTE_WRITE) and view.readonly:
            raise BufferError("Object is not writable.")
        self._view: memoryview | None = view if keep else None
        self._lent = None if keep else weakref.ref(buffer)  # type: ignore[call-overload]
        self._place, self.octets = _address(buffer)
        self.access = access
        self.handle = domain.world.handle()
        self.address = self.handle << 12
        self.windows = 0
        self.domain = domain
        domain.regions[self.handle] = self

    @property
    def view(self) -> memoryview:
        if self._view is not None:
            return self._view
        assert self._lent is not None
        memory = self._lent()
        assert memory is not None, "the memory of a region was freed before the region ended"
        return memoryview(memory)

    def start_of(self, buffer: object) -> int:
        place, octets = _address(buffer)
        if not self._place <= place <= place + octets <= self._place + self.octets:
            raise ValueError("the buffer is outside of the registered memory")
        return place - self._place

    def deregister(self) -> None:
        if self.windows and not self.domain.unplugged:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), "ibv_dereg_mr")
        self.domain.regions.pop(self.handle, None)
        self._view = None

    invalidate = deregister


class Window:
    """`bound` is a region, its first octet and its length for the peer, the rights, and the queue pair."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.handle = domain.world.handle() & ~0xFF
        self.bound: tuple[Region, int, int, int, object] | None = None

    def bind(self, entry: Entry, handle: int, rights: int, queue_pair: object) -> bool:
        region, start, octets = entry
        assert isinstance(region, Region)
        assert self.domain is region.domain
        assert region.access & Right.WINDOW
        assert not rights & Right.REMOTE_WRITE or region.access & Right.LOCAL_WRITE
        view_of(entry)
        if self.bound is not None or (handle ^ self.handle) & ~0xFF or handle == self.handle:
            return False
        self.handle = handle
        self.bound = region, region.address + start, octets, rights, queue_pair
        region.windows += 1
        self.domain.windows[handle] = self
        return True

    def unbind(self) -> None:
        if self.bound is not None:
            self.bound[0].windows -= 1
            self.bound = None
            del self.domain.windows[self.handle]

    invalidate = unbind

    def end(self) -> None:
        self.unbind()
        self.domain.made_windows.discard(self)


class Domain:
    def __init__(self, world: World) -> None:
        self.world = world
        self.device = world.attributes
        self._node = world.node
        self.regions: dict[int, Region] = {}
        self.windows: dict[int, Window] = {}
        self.made_windows: weakref.WeakSet[Window] = weakref.WeakSet()

    @property
    def unplugged(self) -> bool:
        """Whether the device is gone: ends succeed, as the module asks of rdma-core, and all else fails."""
        return self._node in self.world.unplugged

    def check(self, call: str) -> None:
        """Raises the error of a call on a device that is gone."""
        if self.unplugged:
            raise OSError(errno.EIO, os.strerror(errno.EIO), call)

    def register(self, buffer: object, access: int, keep: bool) -> Region:
        self.check("ibv_reg_mr")
        if len(self.regions) >= self.device["max_regions"]:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), "ibv_reg_mr")
        self.world.registered += 1
        return Region(self, buffer, access, keep=keep)

    def window(self) -> Window:
        self.check("ibv_alloc_mw")
        if len(self.made_windows) >= self.device["max_windows"]:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), "ibv_alloc_mw")
        window = Window(self)
        self.made_windows.add(window)
        return window

    def named(self, handle: int, queue_pair: object) -> Window | Region | None:
        """The memory that a Send with Invalidate ends, or None where it may end none."""
        window = self.windows.get(handle)
        if window is not None:
            assert window.bound is not None
            return window if window.bound[-1] is queue_pair else None
        return self.regions.get(handle) if self.device["iwarp"] else None

    def reach(self, handle: int, address: int, octets: int, right: Right, queue_pair: object) -> memoryview | None:
        """Memory that the peer names, or None where it may not have it."""
        window = self.windows.get(handle)
        if window is not None:
            assert window.bound is not None
            region, first, length, access, bound_to = window.bound
            if bound_to is not queue_pair:
                return None
        else:
            found = self.regions.get(handle)
            if found is None:
                return None
            region, first, length, access = found, found.address, found.octets, found.access
            if self.device["iwarp"]:
                access |= Right.REMOTE_READ
        if not access & right or not 0 <= address - first <= length - octets:
            return None
        start = address - region.address
        return region.view[start : start + octets]


def view_of(entry: Entry) -> memoryview:
    region, start, octets = entry
    assert isinstance(region, Region)
    assert region.handle in region.domain.regions, "work names memory that is not registered any more"
    assert start + octets <= region.octets
    return region.view[start : start + octets]
