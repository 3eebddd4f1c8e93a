"""RDMA devices as a provider: InfiniBand, RoCE and iWARP by libibverbs and librdmacm."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable, Collection
from weakref import WeakKeyDictionary

from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.provider import Link, LinkListener, Listening
from rpcrdma.aio.drivers.sockets import address_of, addresses_of, addresses_to_listen_at, authority, take_reserved_port
from rpcrdma.aio.drivers.verbs_devices import Announcements, KernelAnnouncements
from rpcrdma.aio.drivers.verbs_driver import VerbsDriver
from rpcrdma.aio.drivers.verbs_listening import ListeningAddress
from rpcrdma.aio.drivers.verbs_manager import ConnectionManager
from rpcrdma.errors import ConnectFailed
from rpcrdma.verbs.binding import Binding, ConnectionIdentifier, Domain, ManagerEvent, find
from rpcrdma.verbs.device_config import VerbsConfig
from rpcrdma.verbs.device_ends import remedy_of
from rpcrdma.verbs.device_memory import has_scatter_lists, has_windows
from rpcrdma.verbs.device_queue_pair import DeviceQueuePair

__all__ = ["VerbsProvider"]

_LOGGER = logging.getLogger("rpcrdma.provider")
_NAME = "verbs"
_MANAGERS: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[tuple[Binding, Callable[[], Announcements]], ConnectionManager]
] = WeakKeyDictionary()
"""The connection manager of each event loop, since each connection that is made anew has a provider of its own."""
# The kernel's modules are loaded by the first device; rdma_ucm is not.
_MISSING = (
    "there is no RDMA device (see rdma link), no driver of libibverbs for it (install ibverbs-providers), or no "
    "connection manager (modprobe rdma_ucm)"
)
_NO_MANAGER = {
    errno.ENODEV: _MISSING,
    errno.ENOENT: _MISSING,
    errno.EACCES: "this user has to be allowed to read and write /dev/infiniband/rdma_cm and uverbs*",
}
_ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}  # noqa: S104 - only a port is taken


class _VerbsLink:
    """The `Link` of an RDMA device: a resolved path to a server, or the connection request of a client.

    `request` is the event CONNECT_REQUEST of a client; None at the end that connects.
    """

    provider = _NAME
    settle_s = 0.0

    def __init__(
        self,
        binding: Binding,
        manager: ConnectionManager,
        identifier: ConnectionIdentifier,
        request: ManagerEvent | None,
        config: VerbsConfig,
    ) -> None:
        self.local = address_of(identifier.local)
        self.peer = address_of(identifier.peer)
        self.device = identifier.device
        self.active = request is None
        self._binding = binding
        self._manager = manager
        self._identifier = identifier
        self._request = request
        self._config = config
        self._domain: Domain | None = None

    @property
    def remote_invalidation(self) -> bool:
        """Whether the device has memory windows, which Send with Invalidate needs.

        False, too, if the device has no room for a protection domain, by which its attributes are read.
        """
        try:
            if self._domain is None:
                self._domain = self._identifier.domain()
        except OSError:
            return False
        return has_windows(self._domain.device)

    def open(
        self, private_data: bytes, timer: DeadlineTimer, on_turn: Callable[[], None], on_closed: Callable[[], None]
    ) -> VerbsDriver:
        identifier, kept = self._identifier, self._manager.registrations
        try:
            device = self._manager.devices.find(identifier)
            domain = self._domain or identifier.domain()

            def made() -> DeviceQueuePair:
                return DeviceQueuePair(self._binding, identifier, domain, kept, private_data, self._request)

            try:
                queue_pair = made()
            except OSError:
                # Queue pairs may take locked memory, too.
                kept.clear()
                queue_pair = made()
        except OSError as error:
            self.refuse()
            raise ConnectFailed(
                f"the RDMA device makes no connection with {authority(*self.peer)}: {_cause(error)}; {remedy_of(error)}"
            ) from error
        if not has_scatter_lists(domain.device):
            _LOGGER.info(
                "%s has no scatter lists: data of the round-trip extension is copied once more", domain.device["name"]
            )
        return VerbsDriver(self._manager, identifier, device, queue_pair, timer, on_turn, on_closed, self._config)

    def refuse(self) -> None:
        if not self.active:
            # The peer may have gone meanwhile.
            with contextlib.suppress(OSError):
                self._identifier.reject(b"")
        self._domain = None
        self._manager.end(self._identifier)


class _VerbsListener:
    def __init__(self, provider: VerbsProvider, on_link: Callable[[Link], None], log: LimitedLog) -> None:
        self._provider = provider
        self._on_link = on_link
        self._log = log
        self._manager = provider.manager()
        self._addresses: list[ListeningAddress] = []

    async def listen(self, host: str, port: int) -> list[Listening]:
        addresses = await addresses_to_listen_at(host, port)
        added: list[ListeningAddress] = []
        try:
            for _, _, _, _, address in addresses:
                scope = int(address[3]) if len(address) > 3 else 0
                place = ListeningAddress(self._manager, self._on_request, self._log, (str(address[0]), port), scope)
                added.append(place)
                place.open()
                port = place.local[1]
        except OSError:
            for place in added:
                place.close()
            raise
        self._addresses += added
        return [Listening(*place.local, place.device) for place in added]

    def _on_request(self, event: ManagerEvent) -> None:
        # Where all devices are listened at, this process holds the device from now on.
        try:
            self._manager.devices.find(event.identifier)
            provider = self._provider
            self._on_link(_VerbsLink(provider.binding(), self._manager, event.identifier, event, provider.config))
        except (ConnectFailed, OSError) as error:
            self._log.log(logging.ERROR, "accept", "cannot accept a connection: %s", error)

    def stop(self, places: Collection[tuple[str, int]]) -> None:
        for place in [each for each in self._addresses if each.local in places]:
            self._addresses.remove(place)
            place.close()

    def close(self) -> None:
        for place in self._addresses:
            place.close()
        self._addresses.clear()


class VerbsProvider:
    """The provider "verbs", a `Provider`: RDMA devices of this machine, by libibverbs and librdmacm.

    `config` None takes the defaults, `binding` None the installed extension module. `announcements` opens the kernel's
    announcements of devices added and removed; tests without a device give their own, and a `binding`.
    """

    name = _NAME

    def __init__(
        self,
        binding: Binding | None = None,
        config: VerbsConfig | None = None,
        announcements: Callable[[], Announcements] = KernelAnnouncements,
    ) -> None:
        self.config = config or VerbsConfig()
        self._binding = binding
        self._announcements = announcements

    def binding(self) -> Binding:
        """Returns the extension module that calls libibverbs and librdmacm.

        Raises:
            OSError: the module is not installed; the message names the remedy.
        """
        if self._binding is None:
            self._binding, missing = find()
            if self._binding is None:
                raise OSError(errno.ENOSYS, missing)
        return self._binding

    def manager(self) -> ConnectionManager:
        """Returns the connection manager of the running event loop; the first call in an event loop makes it.

        Raises:
            OSError: the extension module is not installed, this machine has no connection manager, or this user may not
                use it; the message of an ENOSYS names the remedy.
        """
        managers = _MANAGERS.setdefault(asyncio.get_running_loop(), {})
        key = (self.binding(), self._announcements)
        if key not in managers:
            try:
                managers[key] = ConnectionManager(*key)
            except OSError as error:
                # The absence of a library has no number, and names its remedy itself.
                words = _NO_MANAGER.get(error.errno) if error.errno else str(error)
                if words is None:
                    raise
                raise OSError(errno.ENOSYS, words) from error
        return managers[key]

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> Link:
        where = authority(host, port)
        failure: OSError | None = None
        for family, _, _, _, address in await addresses_of(host, port):

            def bind(identifier: ConnectionIdentifier, any_address: str = _ANY[family]) -> None:
                if reserved_port:
                    take_reserved_port(lambda number: identifier.bind(any_address, number), where)

            scope = int(address[3]) if len(address) > 3 else 0
            try:
                manager = self.manager()
                identifier = await manager.resolved(str(address[0]), port, scope, bind)
            except OSError as error:
                failure = error
            else:
                return _VerbsLink(self.binding(), manager, identifier, None, self.config)
        assert failure is not None, "a host has at least one address"
        remedy = "check with `rdma link` that one is active in its network and that the module rdma_ucm is loaded"
        remedy = "otherwise" if failure.errno == errno.ENOSYS else f"{remedy}, or"
        raise ConnectFailed(
            f"cannot connect to {where}: no RDMA device reaches it ({_cause(failure)}); {remedy} take provider iwarp"
        ) from failure

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> LinkListener:
        return _VerbsListener(self, on_link, log)

    def explain_unmade(self, where: str, cause: str) -> str:
        return f"cannot connect to {where}: {cause}; check that the server runs there and listens on an RDMA device"


def _cause(error: OSError) -> str:
    words = error.strerror or (os.strerror(error.errno) if error.errno else str(error))
    return f"{error.filename}: {words.lower()}" if error.filename else words
