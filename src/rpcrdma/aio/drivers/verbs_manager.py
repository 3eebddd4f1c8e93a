"""The connection manager of RDMA devices in an event loop: one event channel, and a handler for each identifier."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable

from rpcrdma.aio.drivers.kept_identity import keep_identity
from rpcrdma.aio.drivers.verbs_devices import Announcements, WatchedDevices, tell
from rpcrdma.verbs.binding import Binding, ConnectionIdentifier, ManagerEvent, ManagerEventKind
from rpcrdma.verbs.device_registrations import KeptRegistrations

__all__ = ["ConnectionManager"]

_LOGGER = logging.getLogger("rpcrdma")
_RESOLVE_MS = 2000
"""How long the kernel looks for an address or a path, as in Linux's NFS/RDMA client, before it reports a failure."""
_PORTS_TRIED = 8
"""Ports tried: few ports of the connection manager are TCP's; this many in a row mean that TCP has nearly all."""


class ConnectionManager:
    """The RDMA connection manager (librdmacm) in one event loop: passes each identifier's events to its handler.

    It is made in that loop, whose thread must keep its user identity from then on (`keep_identity`). The event channel
    is watched while there is a handler. The attribute `devices` has the devices in use, `registrations` the memory
    registrations kept for reuse.

    Args:
        binding: the extension module that calls librdmacm.
        announcements: opens the kernel's announcements of devices; may raise OSError, which is logged.

    Raises:
        OSError: this machine has no connection manager, or this user may not use it.
    """

    def __init__(self, binding: Binding, announcements: Callable[[], Announcements]) -> None:
        self._channel = binding.EventChannel()
        keep_identity()
        self.registrations = KeptRegistrations()
        self._handlers: dict[ConnectionIdentifier, Callable[[ManagerEvent], None]] = {}
        self.devices = WatchedDevices(self.identifier, self.end, announcements)

    def identifier(self, handler: Callable[[ManagerEvent], None]) -> ConnectionIdentifier:
        """Returns a new identifier (rdma_cm_id), whose events are passed to `handler`; raises OSError if refused."""
        identifier = self._channel.identifier()
        self.watch(identifier, handler)
        return identifier

    def watch(self, identifier: ConnectionIdentifier, handler: Callable[[ManagerEvent], None]) -> None:
        """Passes the events of an rdma_cm_id to `handler` from now on, in place of an earlier handler."""
        if not self._handlers:
            asyncio.get_running_loop().add_reader(self._channel.fileno(), self._readable)
        self._handlers[identifier] = handler

    def forget(self, identifier: ConnectionIdentifier) -> None:
        """Discards further events of an rdma_cm_id, which stays open; no effect if it has no handler."""
        if self._handlers.pop(identifier, None) is not None and not self._handlers:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())

    def end(self, identifier: ConnectionIdentifier) -> None:
        """Closes an rdma_cm_id and discards its further events."""
        self.forget(identifier)
        identifier.close()

    def _readable(self) -> None:
        try:
            events = self._channel.events()
        except OSError as error:
            # The descriptor may stay readable, and each turn of the event loop would try again.
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            _LOGGER.error("the connection manager of RDMA devices tells no more events: %s", error)  # noqa: TRY400
            return
        for fields in events:
            event = ManagerEvent(*fields)
            # A new identifier without a listener ends here, which rejects it.
            handler = self._handlers.get(event.listener or event.identifier)
            if handler is not None:
                tell(handler, event)

    async def resolved(
        self, host: str, port: int, scope: int, bind: Callable[[ConnectionIdentifier], None]
    ) -> ConnectionIdentifier:
        """Returns an identifier (rdma_cm_id) with a resolved address and route to a peer; waits up to 2 s for each.

        The caller passes the later events to a handler by `watch`, and closes the identifier by `end`. The device is
        watched until its loss (`WatchedDevices.find`). iWARP devices share the local ports of TCP, but the connection
        manager may choose one that TCP uses, from which no connection can be made: such an identifier is closed, and
        the next is tried, up to 8. InfiniBand and RoCE have ports of their own.

        Args:
            host: the peer's IP address.
            port: the peer's port.
            scope: the index of the network interface of an IPv6 link-local address, else 0.
            bind: called first with each new identifier; may bind it to a local port. Its errors are raised.

        Raises:
            OSError: no device reaches the peer, the device is being removed, there is no route, address or route was
                not resolved within 2 s, or TCP uses all 8 local ports (EADDRINUSE).
        """
        for _ in range(_PORTS_TRIED):
            identifier = await self._resolved(host, port, scope, bind)
            if not _is_of_tcp(identifier.local) or not _shares_ports_with_tcp(identifier):
                return identifier
            self.end(identifier)
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    async def _resolved(
        self, host: str, port: int, scope: int, bind: Callable[[ConnectionIdentifier], None]
    ) -> ConnectionIdentifier:
        happened: asyncio.Queue[ManagerEvent] = asyncio.Queue()
        identifier = self.identifier(happened.put_nowait)
        try:
            bind(identifier)
            identifier.resolve_address(host, port, scope, _RESOLVE_MS)
            _check(await happened.get(), ManagerEventKind.ADDRESS_RESOLVED)
            # From now on this process holds the device.
            self.devices.find(identifier, scope)
            identifier.resolve_route(_RESOLVE_MS)
            _check(await happened.get(), ManagerEventKind.ROUTE_RESOLVED)
        except BaseException:
            self.end(identifier)
            raise
        return identifier


def _is_of_tcp(local: tuple[str, int]) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in local[0] else socket.AF_INET) as probe:
        # As Linux's siw does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(local)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _shares_ports_with_tcp(identifier: ConnectionIdentifier) -> bool:
    try:
        return bool(identifier.domain().device["iwarp"])
    except OSError:
        # Whoever opens the connection meets this again, and reports it.
        return False


def _check(event: ManagerEvent, wanted: ManagerEventKind) -> None:
    if event.kind != wanted:
        number = abs(event.status) or errno.ENODEV
        raise OSError(number, os.strerror(number), ManagerEventKind(event.kind).name.lower().replace("_", " "))
