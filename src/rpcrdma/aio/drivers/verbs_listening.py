"""An address at which RDMA devices accept connections, also after its device was removed and returned."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.aio.drivers.verbs_devices import WatchedDevice
from rpcrdma.aio.drivers.verbs_manager import ConnectionManager
from rpcrdma.verbs.binding import ConnectionIdentifier, ManagerEvent, ManagerEventKind, removal_of

__all__ = ["ListeningAddress"]

_BACKLOG = 128
_ANY = ("0.0.0.0", "::")  # noqa: S104 - they are recognized
_RETRY_FIRST_S = 0.5
"""Seconds before the first attempt to listen again: a device that was announced gets its addresses a moment later."""
_RETRY_MAX_S = 30.0
"""The longest pause between attempts in seconds, after which a device without announcements is found again."""


class ListeningAddress:
    """One address at which RDMA devices accept connections, from `open` on.

    After the loss of its device it tries to listen again until a device has the address. Implements `DeviceUser`.

    Args:
        manager: the connection manager of the event loop.
        on_request: called with the event CONNECT_REQUEST of each peer.
        log: gets losses and returns of the device, and failed attempts to listen again.
        local: IP address and port; port 0 takes a free port.
        scope: the index of the network interface of an IPv6 link-local address, else 0.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        on_request: Callable[[ManagerEvent], None],
        log: LimitedLog,
        local: tuple[str, int],
        scope: int,
    ) -> None:
        self._manager = manager
        self._on_request = on_request
        self._log = log
        self.local = local
        """The address, with the port that was taken."""
        self._scope = scope
        self._identifier: ConnectionIdentifier | None = None
        self._device: WatchedDevice | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._delay_s = _RETRY_FIRST_S

    def open(self) -> None:
        """Begins to listen, and sets `local` to the address with the port that was taken.

        Raises:
            OSError: the address is in use, or no RDMA device has it, or the device is being removed.
        """
        identifier = self._manager.identifier(self._on_event)
        try:
            identifier.bind(*self.local, self._scope)
            _check_device(identifier)
            device = self._manager.devices.find(identifier, self._scope)
            identifier.listen(_BACKLOG)
            self.local = identifier.local
        except OSError:
            self._manager.end(identifier)
            raise
        self._identifier = identifier
        self._device = device
        if device is not None:
            device.add(self)

    @property
    def device(self) -> str | None:
        """The name of the device; None at a wildcard address, which is of all devices, and while nothing listens."""
        return None if self._identifier is None else self._identifier.device

    def close(self) -> None:
        """Stops listening, or waiting for a device to return; connections stay, and `open` may be called again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._manager.devices.await_no_more(self._on_added)
        if self._device is not None:
            self._device.remove(self)
            self._device = None
        if self._identifier is not None:
            self._manager.end(self._identifier)
            self._identifier = None

    def _on_event(self, event: ManagerEvent) -> None:
        if event.kind == ManagerEventKind.CONNECT_REQUEST:
            self._on_request(event)
        elif event.kind == ManagerEventKind.DEVICE_REMOVED:
            self.on_device_lost(removal_of(self.device))
        elif event.kind == ManagerEventKind.ADDRESS_CHANGED:
            self.on_device_lost("its address moved to another device")

    def on_device_lost(self, reason: str) -> None:
        """Stops listening, and tries to listen again until a device has the address; `reason` is for the log.

        The first attempt is 0.5 s later; after each failure there is a pause, first of 0.5 s, then twice as long as the
        last one, up to 30 s. An added device ends a pause, and makes the next one 0.5 s. No effect while nothing
        listens.
        """
        if self._identifier is None:
            return
        self.close()
        where = authority(*self.local)
        self._log.log(logging.ERROR, f"lost {where}", "nothing listens at %s any more: %s", where, reason)
        self._manager.devices.await_device(self._on_added)
        self._delay_s = _RETRY_FIRST_S
        self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._retry)

    def on_port_down(self, reason: str) -> None:
        """Does nothing: the port may become active again."""

    def _on_added(self) -> None:
        """Tries to listen again at once; called when the kernel has announced a device."""
        assert self._timer is not None
        self._timer.cancel()
        self._delay_s = _RETRY_FIRST_S
        self._retry()

    def _retry(self) -> None:
        where = authority(*self.local)
        try:
            self.open()
        except OSError as error:
            self._log.log(
                logging.INFO,
                f"awaited {where}",
                "still nothing listens at %s: %s; the next attempt is in %g s",
                where,
                os.strerror(error.errno or 0).lower(),
                self._delay_s,
            )
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._retry)
            self._delay_s = min(2 * self._delay_s, _RETRY_MAX_S)
            return
        self._timer = None
        self._manager.devices.await_no_more(self._on_added)
        devices = "all RDMA devices" if self.device is None else f"the RDMA device {self.device}"
        self._log.log(logging.WARNING, f"again {where}", "listening at %s again, on %s", where, devices)


def _check_device(identifier: ConnectionIdentifier) -> None:
    """Checks that a bound identifier (rdma_cm_id) has a device or a wildcard address.

    Raises:
        OSError: it has neither. A loopback address is refused so, since Linux would listen on all devices instead, open
            to the network.
    """
    if identifier.device is None and identifier.local[0] not in _ANY:
        raise OSError(errno.ENODEV, "no RDMA device has the address")
