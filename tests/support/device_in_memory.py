"""An RDMA device in memory, with the interface of `rpcrdma_verbs` and the rules of InfiniBand's reliable connections.

Work is done when it is posted, so that a run is the same each time. The connection manager appends zeros to private
data. A fault stops the queue pair of either end; a message without a receive stops the sender's alone.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections import deque
from collections.abc import Sequence
from typing import Any

from rpcrdma.verbs.binding import DeviceAttributes, Entry, ManagerEventKind, Right, WorkStatus

__all__ = ["DeviceInMemory"]

_PRIVATE_OCTETS = 56
_LENGTH, _REMOTE_LENGTH, _NOT_READY, _NOT_LISTENED_TO = 1, 9, 13, 8
"""Local length error, remote invalid request, and receiver not ready, as statuses; invalid service as a reason."""
_WRITE, _SEND, _READ, _SEND_WITH_INVALIDATE = 0, 2, 4, 9


class _Descriptor:
    """Readable from `raise_` until `clear`."""

    def __init__(self) -> None:
        self._number = os.eventfd(0, os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._number

    def raise_(self) -> None:
        os.eventfd_write(self._number, 1)

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._number)

    def __del__(self) -> None:
        os.close(self._number)


class _Region:
    def __init__(self, domain: _Domain, buffer: object, access: int) -> None:
        self.view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if access & (Right.LOCAL_WRITE | Right.REMOTE_WRITE) and self.view.readonly:
            raise BufferError("Object is not writable.")
        self.access = access
        self.handle = domain.world.handle()
        self.address = self.handle << 12
        self._domain = domain
        domain.regions[self.handle] = self

    def deregister(self) -> None:
        self._domain.regions.pop(self.handle, None)


class _Domain:
    def __init__(self, world: DeviceInMemory) -> None:
        self.world = world
        self.device = world.attributes
        self.regions: dict[int, _Region] = {}

    def register(self, buffer: object, access: int) -> _Region:
        if len(self.regions) >= self.device["max_regions"]:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), "ibv_reg_mr")
        return _Region(self, buffer, access)

    def reach(self, handle: int, address: int, octets: int, right: Right) -> memoryview | None:
        """Memory that the peer names, or None where it may not have it."""
        region = self.regions.get(handle)
        if region is None or not region.access & right:
            return None
        start = address - region.address
        return region.view[start : start + octets] if 0 <= start <= len(region.view) - octets else None


def _view(entry: Entry) -> memoryview:
    region, start, octets = entry
    assert isinstance(region, _Region)
    assert region.handle in region._domain.regions, "work names memory that is not registered any more"
    assert start + octets <= len(region.view)
    return region.view[start : start + octets]


class _QueuePair(_Descriptor):
    def __init__(self, identifier: _Identifier, domain: _Domain, depths: tuple[int, int]) -> None:
        super().__init__()
        self.domain = domain
        self._identifier = identifier
        self._depths = depths
        self._stopped = False
        self._armed = True
        self.receives: deque[tuple[object, tuple[Entry, ...]]] = deque()
        self.done: deque[tuple[object, int, int]] = deque()
        self.posted = [0, 0]

    def _complete(self, queue: int, work: object, status: int, octets: int = 0) -> None:
        self.done.append((work, status, octets))
        self.posted[queue] += 1
        if self._armed:
            self._armed = False
            self.raise_()

    def post_receives(self, works: Sequence[tuple[object, tuple[Entry, ...]]]) -> None:
        self.receives.extend(works)
        assert len(self.receives) <= self._depths[1]
        if self._stopped:
            self.stop()

    def post_sends(self, works: Sequence[tuple[object, tuple[Entry, ...], int, int, int]]) -> None:
        assert len(works) <= self._depths[0]
        for work, entries, opcode, handle, address in works:
            peer = self._identifier.far_queue_pair()
            if self._stopped or peer is None or peer._stopped:
                self._complete(0, work, WorkStatus.FLUSHED)
                continue
            status = peer._take(opcode, [_view(entry) for entry in entries], handle, address)
            self._complete(0, work, status)
            if status:
                self.stop()

    def _take(self, opcode: int, pieces: list[memoryview], handle: int, address: int) -> int:
        """Does the peer's work; returns its status."""
        octets = sum(map(len, pieces))
        if opcode in (_SEND, _SEND_WITH_INVALIDATE):
            return self._take_send(b"".join(pieces), invalidate=opcode == _SEND_WITH_INVALIDATE)
        if not octets:
            return WorkStatus.SUCCESS
        right = Right.REMOTE_READ if opcode == _READ else Right.REMOTE_WRITE
        memory = self.domain.reach(handle, address, octets, right)
        if memory is None:
            self.stop()
            return WorkStatus.REMOTE_ACCESS
        for piece in pieces:
            if opcode == _READ:
                piece[:] = memory[: len(piece)]
            else:
                memory[: len(piece)] = piece
            memory = memory[len(piece) :]
        return WorkStatus.SUCCESS

    def _take_send(self, message: bytes, *, invalidate: bool) -> int:
        if not self.receives:
            return _NOT_READY
        if invalidate:
            # No region is a memory window.
            self.stop()
            return WorkStatus.REMOTE_ACCESS
        work, entries = self.receives.popleft()
        place = _view(entries[0]) if entries else memoryview(b"")
        if len(message) > len(place):
            self._complete(1, work, _LENGTH)
            self.stop()
            return _REMOTE_LENGTH
        place[: len(message)] = message
        self._complete(1, work, WorkStatus.SUCCESS, len(message))
        return WorkStatus.SUCCESS

    def stop(self) -> None:
        self._stopped = True
        while self.receives:
            self._complete(1, self.receives.popleft()[0], WorkStatus.FLUSHED)

    def completions(self, most: int, arm: bool) -> list[tuple[Any, int, int]]:
        self.clear()
        if arm and not self._armed:
            self._armed = True
            self.domain.world.armed += 1
        return [self.done.popleft() for _ in range(min(most, len(self.done)))]

    def broken(self) -> bool:
        return self._stopped

    def end(self) -> None:
        self._stopped = True
        self.receives.clear()
        self.done.clear()

    def close(self) -> None:
        self.end()


class _Identifier:
    def __init__(self, channel: _EventChannel) -> None:
        self._channel = channel
        self._world = channel.world
        self._on_device = False
        self.local: tuple[str, int] = ("", 0)
        self.peer: tuple[str, int] = ("", 0)
        self._far: _Identifier | None = None
        self._queue_pair: _QueuePair | None = None
        self._asked = b""
        self._depths = (0, 0)

    @property
    def device(self) -> str | None:
        return self._world.attributes["name"] if self._on_device else None

    def bind(self, host: str, port: int, scope: int = 0) -> None:
        del scope
        if host not in {"0.0.0.0", "::"}:
            # As in Linux, a loopback address without a device means all devices.
            self._on_device = host in self._world.reached
            if not self._on_device and not host.startswith("127."):
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), "rdma_bind_addr")
        self.local = (host, port or next(self._world.ports))

    def listen(self, backlog: int) -> None:
        assert backlog > 0
        if self.local in self._world.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), "rdma_listen")
        self._world.listeners[self.local] = self

    def resolve_address(self, host: str, port: int, scope: int, timeout_ms: int) -> None:
        del scope
        assert timeout_ms > 0
        if host not in self._world.reached:
            self._happens(ManagerEventKind.ADDRESS_ERROR, -errno.ENODEV)
            return
        self.local = (host, self.local[1] or next(self._world.ports))
        self.peer = (host, port)
        self._on_device = True
        self._happens(ManagerEventKind.ADDRESS_RESOLVED)

    def resolve_route(self, timeout_ms: int) -> None:
        assert timeout_ms > 0
        self._happens(ManagerEventKind.ROUTE_RESOLVED)

    def domain(self) -> _Domain:
        return _Domain(self._world)

    def queue_pair(self, domain: _Domain, sends: int, receives: int, entries: int) -> _QueuePair:
        assert entries <= domain.device["max_entries"]
        self._queue_pair = _QueuePair(self, domain, (sends, receives))
        return self._queue_pair

    def far_queue_pair(self) -> _QueuePair | None:
        return None if self._far is None else self._far._queue_pair

    def connect(self, private_data: bytes, inbound_reads: int, outbound_reads: int) -> None:
        listener = self._world.listeners.get(self.peer)
        if listener is None:
            self._happens(ManagerEventKind.REJECTED, _NOT_LISTENED_TO)
            return
        far = self._far = _Identifier(listener._channel)
        far.local, far.peer, far._far = self.peer, self.local, self
        far._on_device = True
        asked = private_data.ljust(_PRIVATE_OCTETS, b"\0")
        listener._channel.happen(
            (far, listener, ManagerEventKind.CONNECT_REQUEST, 0, asked, outbound_reads, inbound_reads)
        )

    def accept(self, private_data: bytes, inbound_reads: int, outbound_reads: int) -> None:
        far = self._far
        if far is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), "rdma_accept")
        answer = private_data.ljust(_PRIVATE_OCTETS, b"\0")
        far._happens(ManagerEventKind.ESTABLISHED, 0, answer, outbound_reads, inbound_reads)
        self._happens(ManagerEventKind.ESTABLISHED)

    def reject(self, private_data: bytes) -> None:
        del private_data
        if self._far is not None:
            self._far._happens(ManagerEventKind.REJECTED, 28)
        self._part()

    def disconnect(self) -> None:
        far = self._far
        if far is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), "rdma_disconnect")
        self._happens(ManagerEventKind.DISCONNECTED)
        far._happens(ManagerEventKind.DISCONNECTED)
        if self._queue_pair is not None:
            self._queue_pair.stop()
        self._part()

    def close(self) -> None:
        self._world.listeners = {where: each for where, each in self._world.listeners.items() if each is not self}
        if self._far is not None:
            self.disconnect()
        self._channel.waiting = deque(event for event in self._channel.waiting if event[0] is not self)

    def _part(self) -> None:
        if self._far is not None:
            self._far._far = None
            self._far = None

    def _happens(
        self, kind: int, status: int = 0, private_data: bytes = b"", reads: int = 0, own_reads: int = 0
    ) -> None:
        self._channel.happen((self, None, kind, status, private_data, reads, own_reads))


class _EventChannel(_Descriptor):
    def __init__(self, world: DeviceInMemory) -> None:
        super().__init__()
        self.world = world
        self.waiting: deque[tuple[Any, ...]] = deque()

    def identifier(self) -> _Identifier:
        return _Identifier(self)

    def happen(self, event: tuple[Any, ...]) -> None:
        self.waiting.append(event)
        self.raise_()

    def events(self) -> list[tuple[Any, ...]]:
        self.clear()
        found = list(self.waiting)
        self.waiting.clear()
        return found


class DeviceInMemory:
    """One device, which reaches 127.0.0.1; change `attributes` before the first connection."""

    INTERFACE = 2
    RDMA_WRITE, SEND, RDMA_READ, SEND_WITH_INVALIDATE = _WRITE, _SEND, _READ, _SEND_WITH_INVALIDATE

    def __init__(self) -> None:
        self.attributes = DeviceAttributes(
            name="memory0",
            iwarp=False,
            firmware="",
            max_queue_pair_work=1024,
            max_entries=4,
            max_completions=4096,
            max_regions=1000,
            max_windows=0,
            max_inbound_reads=16,
            max_outbound_reads=16,
            max_region_octets=1 << 40,
            ports=[{"number": 1, "active": True, "ethernet": True, "max_message_octets": 1 << 16}],
        )
        self.reached = {"127.0.0.1"}
        self.armed = 0
        """How often a completion queue was told to report the next completion."""
        self.listeners: dict[tuple[str, int], _Identifier] = {}
        self.ports = itertools.count(49152)
        self._handles = itertools.count(0x1234)

    def handle(self) -> int:
        # Neighbours in memory differ by more than a bit.
        return next(self._handles) * 0x9E3779B1 & 0xFFFFFFFF

    def EventChannel(self) -> _EventChannel:  # noqa: N802 - the module's name
        return _EventChannel(self)

    def devices(self) -> list[DeviceAttributes]:
        return [self.attributes]

    def status_text(self, status: int) -> str:
        return f"status {status}"
