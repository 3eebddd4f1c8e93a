"""The RDMA devices that an event loop uses: ports that go down, and devices that are removed and come back.

The kernel removes a software device, as with `rdma link delete`, only when the last process has closed it, and says so
in its announcements alone (uevents). It takes a hardware device away at once, and reports that as an event of the
device. In both cases the users of the device end within one turn of the event loop, and the process lets go of the
device a moment later.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from rpcrdma.verbs.binding import (
    ConnectionIdentifier,
    Device,
    DeviceEventKind,
    ManagerEvent,
    ManagerEventKind,
    removal_of,
)

__all__ = ["Announcements", "DeviceUser", "KernelAnnouncements", "WatchedDevice", "WatchedDevices", "announced", "tell"]

_LOGGER = logging.getLogger("rpcrdma")
_LET_GO_S = 0.2
"""How long calls that have just failed may take to deregister their memory before the kernel does it for them, and how
often a device is tried that another event loop of the process still uses."""
_PORT_DOWN_S = 10.0
"""Seconds after which a port that is down ends connections: a cable that is plugged again, or a switch that fails over,
costs no connection."""
_CLASS = "infiniband_verbs"
_NODES = Path("/sys/class", _CLASS)
_LOST = "lost"
_DATAGRAM_OCTETS = 8192
"""The longest announcement (`UEVENT_BUFFER_SIZE` in Linux, twice)."""


class DeviceUser(Protocol):
    """The interface of a connection or listening address, to be called when its RDMA device, or a port of it, fails."""

    def on_device_lost(self, reason: str) -> None:
        """Ends everything of this user on the device, which was removed or failed; `reason`: a clause for messages."""

    def on_port_down(self, reason: str) -> None:
        """Ends a connection whose port has been down for 10 s; a listening address does nothing and stays.

        Called once for each time that a port of this user has gone down and has not come up within these 10 s.
        `reason`: a clause for messages, with its remedy.
        """


class Announcements(Protocol):
    """The interface to the kernel's announcements of RDMA devices (uevents): a descriptor, and a method that reads."""

    def fileno(self) -> int:
        """Returns a descriptor that becomes readable when there is an announcement."""

    def take(self) -> list[tuple[str, str]]:
        """Returns the announcements since the last call, each as (action, node), such as ("add", "uverbs0").

        Does not block: the list may be empty. The action is "add", "remove", or another one of the kernel's, which
        callers ignore. ("lost", "") stands for announcements that the kernel could not deliver. Raises OSError if
        reading fails.
        """


def announced(datagram: bytes) -> tuple[str, str] | None:
    """Parses an announcement (uevent) about an RDMA device: returns (action, node) such as ("remove", "uverbs0").

    Returns None if the announcement is about something else.
    """
    fields = dict(field.partition("=")[::2] for field in datagram.decode(errors="replace").split("\0")[1:])
    node = fields.get("DEVPATH", "").rpartition("/")[2]
    if fields.get("SUBSYSTEM") != _CLASS or not node:
        return None
    return fields.get("ACTION", ""), node


class KernelAnnouncements:
    """The announcements of the running kernel (NETLINK_KOBJECT_UEVENT); implements `Announcements`.

    Raises:
        OSError: this process may not receive them, as in containers with restrictions.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, _NETLINK_KOBJECT_UEVENT
        )
        self._socket.bind((0, _KERNELS_GROUP))

    def fileno(self) -> int:
        return self._socket.fileno()

    def take(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        while True:
            try:
                datagram, (sender, _) = self._socket.recvfrom(_DATAGRAM_OCTETS)
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                # Too many at once for the socket: some are lost, the next ones are not.
                found.append((_LOST, ""))
                continue
            # Programs can send as well; only the kernel is number 0.
            event = announced(datagram) if sender == 0 else None
            if event is not None:
                found.append(event)

    def __del__(self) -> None:
        # It is in use until the event loop is gone.
        with contextlib.suppress(AttributeError):
            self._socket.close()


def tell(handler: Callable[..., None], *news: object) -> None:
    """Calls `handler(*news)`; passes an `Exception` that it raises to the running event loop's exception handler.

    So a caller can go on to the next handler although one fails.
    """
    try:
        handler(*news)
    except Exception as error:  # noqa: BLE001 - it is reported
        context = {"message": f"a fault in {handler!r}", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


_NETLINK_KOBJECT_UEVENT = 15
_KERNELS_GROUP = 1


class WatchedDevice:
    """An RDMA device in use, which reports its loss, and ports that stay down, to its users.

    `WatchedDevices.find` makes it. The attribute `node` is the name of the character device ("uverbs0").

    Args:
        devices: the owner.
        name: the device's name ("mlx5_0").
        device: the opened device, whose asynchronous events are read from now on.
        guard: an rdma_cm_id that keeps the device open; it is closed after the device is lost.
    """

    def __init__(self, devices: WatchedDevices, name: str, device: Device, guard: ConnectionIdentifier) -> None:
        self._devices = devices
        self.name = name
        self.node = device.node
        self._device = device
        self._guard = guard
        self._users: dict[DeviceUser, int] = {}
        self._down: dict[int, asyncio.TimerHandle] = {}
        self.lost = False
        """Whether the device was removed or has failed, or is being removed."""
        asyncio.get_running_loop().add_reader(device.fileno(), self._readable)

    def trouble(self, port: int) -> str:
        """Reads the waiting events of the device, then returns a clause that names the ports down, "" if none is.

        `port` is the number of the only port to name; 0: every port. If the device has failed as a whole, its users
        are called in the next turn of the event loop (`lose`).
        """
        if not self.lost and self._fatal():
            asyncio.get_running_loop().call_soon(self.lose)
        return ", ".join(f"port {down} of {self.name} is down" for down in self._down if port in (0, down))

    def add(self, user: DeviceUser, port: int = 0) -> None:
        """Reports to `user` from now on the loss of the device, and each port as soon as it has been down for 10 s.

        `port` is the number of the only port to report; 0: every port. A port that was down for 10 s before is not
        reported until it goes down again: whatever connects meanwhile does not need it.
        """
        self._users[user] = port

    def remove(self, user: DeviceUser) -> None:
        """Ends the reports to `user`; no effect for an unknown user."""
        self._users.pop(user, None)

    def _readable(self) -> None:
        if self._fatal():
            self.lose()

    def _fatal(self) -> bool:
        """Reads the waiting asynchronous events of the device, and records and logs which ports go down and up.

        When a port goes down, starts the timer of 10 s after which users hear of it; stops that when the port is up.
        Returns whether the device has failed as a whole (DEVICE_FATAL); the caller then has `lose` called.
        """
        for kind, port in self._device.events():
            if kind == DeviceEventKind.DEVICE_FATAL:
                return True
            if kind == DeviceEventKind.PORT_ERROR and port not in self._down:
                self._down[port] = asyncio.get_running_loop().call_later(_PORT_DOWN_S, self._stays_down, port)
                _LOGGER.warning(
                    "port %d of the RDMA device %s is down: if it does not come up within %g s, its connections end; "
                    "check the cable, or bring its network interface up: ip link set INTERFACE up",
                    port, self.name, _PORT_DOWN_S,
                )  # fmt: skip
            elif kind == DeviceEventKind.PORT_ACTIVE and port in self._down:
                self._down.pop(port).cancel()
                _LOGGER.info("port %d of the RDMA device %s is up again", port, self.name)
        return False

    def _stays_down(self, port: int) -> None:
        trouble = self.trouble(port)
        for user in [user for user, own in self._users.items() if own in (0, port)] if trouble else ():
            remedy = "check the cable, or bring its network interface up (ip link set INTERFACE up)"
            tell(user.on_port_down, f"{trouble}: {remedy}")

    def on_manager_event(self, event: ManagerEvent) -> None:
        """Handles an event of the rdma_cm_id `guard`: DEVICE_REMOVED calls `lose`, others are ignored."""
        if event.kind == ManagerEventKind.DEVICE_REMOVED:
            self.lose()

    def lose(self) -> None:
        """Calls `on_device_lost` of all users, and closes the device 0.2 s later; no effect when repeated.

        While this process, in any event loop, still has queue pairs on the device, the closing is tried every 0.2 s.
        """
        if self.lost:
            return
        self.lost = True
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._device.fileno())
        loop.call_later(_LET_GO_S, self._let_go)
        for timer in self._down.values():
            timer.cancel()
        for user in list(self._users):
            tell(user.on_device_lost, removal_of(self.name))
        self._users.clear()

    def _let_go(self, *, again: bool = False) -> None:
        try:
            self._device.let_go()
        except OSError as error:
            if error.errno == errno.EBUSY:
                if not again:
                    _LOGGER.warning(
                        "the RDMA device %s is not removed yet: this process still has connections over it, perhaps of "
                        "another event loop",
                        self.name,
                    )
                asyncio.get_running_loop().call_later(_LET_GO_S, partial(self._let_go, again=True))
                return
            words = os.strerror(error.errno or 0).lower()
            _LOGGER.warning("the RDMA device %s is not removed while this process runs: %s", self.name, words)
        self._devices.forget(self)
        self._devices.close_guard(self._guard)


class WatchedDevices:
    """All RDMA devices that one event loop uses; made in that loop.

    For a connection or a listening address, `find` returns the `WatchedDevice`, whose `add` takes a user to be called
    when the device or a port of it fails. For each device there is a guard: an identifier of the connection manager
    (rdma_cm_id), bound to an address of the device. The guard keeps the device open until the users have ended, and its
    events report the removal of the device.

    Args:
        identifier: makes an rdma_cm_id for a guard; takes the function that is called with each event of it.
        close_guard: closes a guard.
        announcements: opens the kernel's announcements of devices added and removed, by which the removal of a software
            device is noticed, and `await_device` works. If it raises OSError, both are missing.
    """

    def __init__(
        self,
        identifier: Callable[[Callable[[ManagerEvent], None]], ConnectionIdentifier],
        close_guard: Callable[[ConnectionIdentifier], None],
        announcements: Callable[[], Announcements],
    ) -> None:
        self._identifier = identifier
        self.close_guard = close_guard
        self._devices: dict[str, WatchedDevice] = {}
        self._waiting: dict[Callable[[], None], None] = {}
        self._announcements: Announcements | None = None
        try:
            self._announcements = announcements()
        except OSError as error:
            _LOGGER.debug("no announcements of devices: %s", error)
        else:
            asyncio.get_running_loop().add_reader(self._announcements.fileno(), self._readable)

    def _readable(self) -> None:
        assert self._announcements is not None
        try:
            taken = self._announcements.take()
        except OSError as error:
            # The descriptor may stay readable, and each turn of the event loop would try again.
            asyncio.get_running_loop().remove_reader(self._announcements.fileno())
            _LOGGER.warning("no announcements of RDMA devices any more: %s", error)
            return
        for action, node in taken:
            if action in ("remove", _LOST):
                for device in list(self._devices.values()):
                    if device.node == node or (action == _LOST and not (_NODES / device.node).exists()):
                        device.lose()
            if action in ("add", _LOST):
                for on_added in list(self._waiting):
                    tell(on_added)

    def find(self, identifier: ConnectionIdentifier, scope: int = 0) -> WatchedDevice | None:
        """Returns the device of a bound or resolved identifier (rdma_cm_id), and watches the device until its loss.

        Until then further calls return the same object. Returns None if the identifier has no device, or the device
        cannot be watched: another device has its address, too, or the address is link-local and `scope` is 0. `scope`
        is the index of the network interface of an IPv6 link-local address; 0: unknown, or another kind of address.

        Raises:
            OSError: the device is being removed, or cannot be opened.
        """
        name = identifier.device
        if name is None:
            return None
        known = self._devices.get(name)
        if known is not None:
            if known.lost:
                raise OSError(errno.ENODEV, f"the RDMA device {name} is being removed")
            return known
        watched: list[WatchedDevice] = []

        def on_event(event: ManagerEvent) -> None:
            for device in watched:
                device.on_manager_event(event)

        # It keeps librdmacm from closing the device before we have let go of it.
        guard = self._identifier(on_event)
        try:
            guard.bind(identifier.local[0], 0, scope)
            if guard.device != name:
                _LOGGER.debug("the RDMA device %s cannot be watched: %s has its address, too", name, guard.device)
                self.close_guard(guard)
                return None
            watched.append(WatchedDevice(self, name, guard.open_device(), guard))
        except OSError as error:
            self.close_guard(guard)
            if error.errno == errno.EINVAL and not scope:
                # The kernel does not tell on which link a peer has asked for the connection.
                _LOGGER.debug("the RDMA device %s cannot be watched: %s has no scope", name, identifier.local[0])
                return None
            raise
        self._devices[name] = watched[0]
        return watched[0]

    def forget(self, device: WatchedDevice) -> None:
        """Removes a lost device, so that `find` makes a new object for a later device of its name."""
        if self._devices.get(device.name) is device:
            del self._devices[device.name]

    def await_device(self, on_added: Callable[[], None]) -> None:
        """Has `on_added` called, without arguments, whenever an RDMA device may have been added, until `await_no_more`.

        Returns at once. Without the kernel's announcements `on_added` is never called.
        """
        self._waiting[on_added] = None

    def await_no_more(self, on_added: Callable[[], None]) -> None:
        """Stops calling `on_added`; no effect for an unknown function."""
        self._waiting.pop(on_added, None)
