"""An RDMA device in memory, with the interface of `rpcrdma_verbs` and the rules of InfiniBand's reliable connections.

Its memory is that of `memory_of_device`. Work is done when it is posted, so that a run is the same each time. The
connection manager appends zeros to private data. A fault stops the queue pair of either end; a message without a
receive stops the sender's alone.

With `iwarp`, private data keeps its length, a fault ends the connection without a word, and the completion of a Send
with Invalidate names no handle, as in Linux's siw.

Like a software device of Linux, a device that is removed announces that, and is gone when it has been let go of, for
which it must have no queue pair. Hardware that is removed is gone at once.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from rpcrdma.verbs.binding import (
    INTERFACE,
    DeviceAttributes,
    DeviceEventKind,
    Entry,
    ManagerEventKind,
    Right,
    SendWork,
    WorkStatus,
)
from support.memory_of_device import Domain, Window, view_of

__all__ = ["DeviceInMemory"]

_PRIVATE_OCTETS = 56
_LENGTH, _REMOTE_LENGTH, _NOT_READY, _NOT_LISTENED_TO = 1, 9, 13, 8
"""Local length error, remote invalid request, and receiver not ready, as statuses; invalid service as a reason."""
_WRITE, _SEND, _READ, _BIND, _SEND_WITH_INVALIDATE = 0, 2, 4, 8, 9
_BINDING_FAILED = 6
"""The status of a binding against the rules (`IBV_WC_MW_BIND_ERR`)."""


class _Descriptor:
    """Readable from `raise_` until `clear`."""

    def __init__(self) -> None:
        self._number = os.eventfd(0, os.EFD_NONBLOCK)
        self._raised = False

    def fileno(self) -> int:
        return self._number

    def raise_(self) -> None:
        self._raised = True
        os.eventfd_write(self._number, 1)

    def clear(self) -> None:
        if self._raised:
            self._raised = False
            # An iWARP connection is asked for in a thread: another `clear` may come between the two lines of `raise_`.
            try:  # noqa: SIM105 - its functions would be counted among those of a call
                os.eventfd_read(self._number)
            except BlockingIOError:
                pass

    def __del__(self) -> None:
        os.close(self._number)


class _QueuePair(_Descriptor):
    def __init__(self, identifier: _Identifier, domain: Domain, depths: tuple[int, int, int]) -> None:
        super().__init__()
        self.domain = domain
        self.node = identifier.node
        self._identifier = identifier
        self._depths = depths
        self._stopped = False
        self._armed = True
        self._sends_fail_with = 0
        self.receives: deque[tuple[object, tuple[Entry, ...]]] = deque()
        self.done: deque[tuple[int, tuple[object, int, int, int]]] = deque()
        self._sends_posted = 0

    def _complete(self, queue: int, work: object, status: int, octets: int = 0, invalidated: int = 0) -> None:
        self.done.append((queue, (work, status, octets, invalidated)))
        if self._armed:
            self._armed = False
            self.raise_()

    def post_receives(self, works: Sequence[tuple[object, tuple[Entry, ...]]]) -> None:
        self.domain.check("ibv_post_recv")
        self.receives.extend(works)
        assert all(len(entries) <= self._depths[2] for _, entries in works)
        assert len(self.receives) <= self._depths[1]
        if self._stopped:
            self.stop()

    def post_sends(self, works: Sequence[SendWork]) -> None:
        self.domain.check("ibv_post_send")
        self._sends_posted += len(works)
        assert self._sends_posted <= self._depths[0], "more work than the send queue holds"
        for work, entries, opcode, handle, address, *windows in works:
            if self._sends_fail_with and opcode != _BIND:
                self._complete(0, work, self._sends_fail_with)
                continue
            peer = self._identifier.far_queue_pair()
            if windows and not self._stopped:
                assert opcode == _BIND
                window = windows[0]
                assert isinstance(window, Window)
                assert window.domain is self.domain
                bound = window.bind(entries[0], handle, address, self)
                self._complete(0, work, WorkStatus.SUCCESS if bound else _BINDING_FAILED)
                if not bound:
                    self.stop()
                continue
            if self._stopped or peer is None or peer._stopped:
                self._complete(0, work, WorkStatus.FLUSHED)
                continue
            status = peer._take(opcode, [view_of(entry) for entry in entries], handle, address)
            if status and self.domain.device["iwarp"]:
                self._complete(0, work, WorkStatus.FLUSHED)
                peer.stop()
                self._identifier.disconnect()
                continue
            self._complete(0, work, status)
            if status:
                self.stop()

    def fail_sends(self, status: int) -> None:
        """All later work of the send queue ends with this status."""
        self._sends_fail_with = status

    def _take(self, opcode: int, pieces: list[memoryview], handle: int, address: int) -> int:
        """Does the peer's work; returns its status."""
        octets = sum(map(len, pieces))
        if opcode in (_SEND, _SEND_WITH_INVALIDATE):
            return self._take_send(b"".join(pieces), handle if opcode == _SEND_WITH_INVALIDATE else None)
        if not octets:
            return WorkStatus.SUCCESS
        right = Right.REMOTE_READ if opcode == _READ else Right.REMOTE_WRITE
        memory = self.domain.reach(handle, address, octets, right, self)
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

    def _take_send(self, message: bytes, invalidated: int | None) -> int:
        if not self.receives:
            return _NOT_READY
        ends = None if invalidated is None else self.domain.named(invalidated, self)
        if invalidated is not None and ends is None:
            self.stop()
            return WorkStatus.REMOTE_ACCESS
        work, entries = self.receives.popleft()
        rest = message
        for entry in entries:
            place = view_of(entry)
            place[: len(rest)] = rest[: len(place)]
            rest = rest[len(place) :]
        if rest:
            self._complete(1, work, _LENGTH)
            self.stop()
            return _REMOTE_LENGTH
        if ends is not None:
            ends.invalidate()
        told = 0 if self.domain.device["iwarp"] else invalidated or 0
        self._complete(1, work, WorkStatus.SUCCESS, len(message), told)
        return WorkStatus.SUCCESS

    def stop(self) -> None:
        self._stopped = True
        while self.receives:
            self._complete(1, self.receives.popleft()[0], WorkStatus.FLUSHED)

    def completions(self, most: int, arm: bool) -> list[tuple[Any, int, int, int]]:
        self.clear()
        if arm and not self._armed:
            self._armed = True
            self.domain.world.armed += 1
        found = [self.done.popleft() for _ in range(min(most, len(self.done)))]
        self._sends_posted -= sum(queue == 0 for queue, _ in found)
        return [completion for _, completion in found]

    def broken(self) -> bool:
        self.domain.check("ibv_query_qp")
        return self._stopped

    def end(self) -> None:
        self._stopped = True
        self.receives.clear()
        self.done.clear()

    def close(self) -> None:
        self.end()
        self.domain.world.in_use.discard(self)


class _Identifier:
    def __init__(self, channel: _EventChannel) -> None:
        self._channel = channel
        self._world = channel.world
        self.node = channel.world.node
        """The device's; a device that comes back has another."""
        self._on_device = False
        channel.identifiers.append(self)
        self.local: tuple[str, int] = ("", 0)
        self.peer: tuple[str, int] = ("", 0)
        self._far: _Identifier | None = None
        self._queue_pair: _QueuePair | None = None
        self._asked = b""

    @property
    def device(self) -> str | None:
        return self._world.attributes["name"] if self._on_device else None

    @property
    def port(self) -> int:
        return int(self._on_device)

    def open_device(self) -> _Device:
        assert self._on_device
        return _Device(self._world, self.node)

    def bind(self, host: str, port: int, scope: int = 0) -> None:
        if host.startswith("fe80:") and not scope:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), "rdma_bind_addr")
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

    def domain(self) -> Domain:
        return Domain(self._world)

    def queue_pair(
        self, domain: Domain, sends: int, receives: int, send_entries: int, receive_entries: int
    ) -> _QueuePair:
        assert max(send_entries, receive_entries) <= domain.device["max_entries"]
        self._queue_pair = _QueuePair(self, domain, (sends, receives, receive_entries))
        self._world.in_use.add(self._queue_pair)
        return self._queue_pair

    def far_queue_pair(self) -> _QueuePair | None:
        return None if self._far is None else self._far._queue_pair

    def connect(self, private_data: bytes, inbound_reads: int, outbound_reads: int) -> None:
        self._world.connecting += 1
        self._world.connect_waits()
        listener = self._world.listeners.get(self.peer)
        if listener is None:
            self._happens(ManagerEventKind.REJECTED, _NOT_LISTENED_TO)
            return
        far = self._far = _Identifier(listener._channel)
        far.local, far.peer, far._far = self.peer, self.local, self
        far._on_device = True
        asked = self._world.padded(private_data)
        listener._channel.happen(
            (far, listener, ManagerEventKind.CONNECT_REQUEST, 0, asked, outbound_reads, inbound_reads)
        )

    def accept(self, private_data: bytes, inbound_reads: int, outbound_reads: int) -> None:
        far = self._far
        if far is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), "rdma_accept")
        answer = self._world.padded(private_data)
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
        if self in self._channel.identifiers:
            self._channel.identifiers.remove(self)

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
        self.identifiers: list[_Identifier] = []
        world.channels.append(self)

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


class _Device(_Descriptor):
    """The device while its node exists."""

    def __init__(self, world: DeviceInMemory, node: str) -> None:
        super().__init__()
        self._world = world
        self.node = node
        self.happened: list[tuple[int, int]] = []
        world.watched.append(self)

    def events(self) -> list[tuple[int, int]]:
        self.clear()
        found, self.happened = self.happened, []
        return found

    def let_go(self) -> None:
        world = self._world
        if any(pair.node == self.node for pair in world.in_use):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), "let_go")
        world.let_go[self.node] = (len(world.in_use), len(world.listeners))
        self.close()

    def close(self) -> None:
        self._world.watched.remove(self)


class _Announcements(_Descriptor):
    def __init__(self, world: DeviceInMemory) -> None:
        super().__init__()
        self.waiting: list[tuple[str, str]] = []
        world.announcements.append(self)

    def take(self) -> list[tuple[str, str]]:
        self.clear()
        found, self.waiting = self.waiting, []
        return found


class DeviceInMemory:
    """One device, which reaches 127.0.0.1; change `attributes` before the first connection.

    `registered` counts the registrations.
    """

    INTERFACE = INTERFACE
    RDMA_WRITE, SEND, RDMA_READ, SEND_WITH_INVALIDATE = _WRITE, _SEND, _READ, _SEND_WITH_INVALIDATE
    BIND_WINDOW = _BIND

    def __init__(self, *, windows: int = 1000) -> None:
        self.attributes = DeviceAttributes(
            name="memory0",
            iwarp=False,
            firmware="",
            max_queue_pair_work=1024,
            max_entries=4,
            max_completions=4096,
            max_regions=1000,
            max_windows=windows,
            type_2_windows=windows > 0,
            max_inbound_reads=16,
            max_outbound_reads=16,
            max_region_octets=1 << 40,
            ports=[{"number": 1, "active": True, "ethernet": True, "max_message_octets": 1 << 16}],
        )
        self.reached = {"127.0.0.1"}
        self.armed = 0
        """How often a completion queue was told to report the next completion."""
        self.registered = 0
        self.node = "uverbs0"
        self.unplugged: set[str] = set()
        self.in_use: set[_QueuePair] = set()
        self.watched: list[_Device] = []
        self.announcements: list[_Announcements] = []
        self.channels: list[_EventChannel] = []
        self.let_go: dict[str, tuple[int, int]] = {}
        """The queue pairs and listeners that still were there when a removed device was let go of, by its node."""
        self.listeners: dict[tuple[str, int], _Identifier] = {}
        self.connecting = 0
        """How often a connection was asked for."""
        self.connect_waits: Callable[[], object] = bool
        """Is called in the midst of that."""
        # The kernel gives none of these to a socket: a port is TCP's only where a test says so.
        self.ports = itertools.count(61000)
        self._handles = itertools.count(0x1234)

    def handle(self) -> int:
        # Neighbours in memory differ by more than a bit.
        return next(self._handles) * 0x9E3779B1 & 0xFFFFFFFF

    def padded(self, private_data: bytes) -> bytes:
        """Private data as it arrives."""
        return private_data if self.attributes["iwarp"] else private_data.ljust(_PRIVATE_OCTETS, b"\0")

    def announce(self, action: str, node: str) -> None:
        """An announcement of the kernel."""
        for each in self.announcements:
            each.waiting.append((action, node))
            each.raise_()

    def happens(self, kind: int, port: int = 0) -> None:
        """An asynchronous event of the device."""
        for each in self.watched:
            each.happened.append((kind, port))
            each.raise_()

    def remove(self, *, hardware: bool = False) -> None:
        """The device is to be removed; only hardware has an event for that."""
        self.reached.clear()
        if hardware:
            self.unplugged.add(self.node)
            self.happens(DeviceEventKind.DEVICE_FATAL)
        else:
            self.announce("remove", self.node)

    def come_back(self, *, announced: bool = True) -> None:
        """A device of the same name and address is there."""
        self.node = f"uverbs{int(self.node[6:]) + 1}"
        self.reached.add("127.0.0.1")
        if announced:
            self.announce("add", self.node)

    def Announcements(self) -> _Announcements:  # noqa: N802 - it stands for a type
        return _Announcements(self)

    def EventChannel(self) -> _EventChannel:  # noqa: N802 - the module's name
        return _EventChannel(self)

    def devices(self) -> list[DeviceAttributes]:
        return [self.attributes]

    def status_text(self, status: int) -> str:
        return f"status {status}"
