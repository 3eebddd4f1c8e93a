"""A provider in memory: client and server in one event loop, with no socket between them.

For tests of programs, and for tests that nothing above providers depends on the software RNIC. Addresses are names: a
client finds a listener of the same `LoopbackProvider` by the very host and port at which it listens, such as
("127.0.0.1", 20049).
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import secrets
from collections.abc import Callable, Collection
from typing import TypeAlias

from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.memory_driver import MemoryDriver
from rpcrdma.aio.drivers.provider import Link, LinkListener, Listening
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.errors import ConnectFailed
from rpcrdma.verbs import SoftwareProtectionDomain
from rpcrdma.verbs.loopback import LoopbackQueuePair

__all__ = ["LoopbackProvider"]

Address: TypeAlias = tuple[str, int]

_NAME = "loopback"
_STEPS = 64
"""Work requests of each end that are carried out before both ends, and other connections, get their turn."""
_FREE_PORTS = range(49152, 65536)
_RESERVED_PORTS = range(1023, 511, -1)


class _Wire:
    """Carries out the posted work of two joined queue pairs in the event loop; `initiator` is one of them.

    `drivers` are those of both ends as far as they are open.
    """

    def __init__(self, initiator: LoopbackQueuePair) -> None:
        self._loop = asyncio.get_running_loop()
        self._initiator = initiator
        self._scheduled = False
        self.drivers: list[_LoopbackDriver] = []

    def go_on(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        if self._initiator.progress(_STEPS):
            self.go_on()
        for driver in tuple(self.drivers):
            driver.turn()


class _LoopbackDriver(MemoryDriver[LoopbackQueuePair]):
    """The `Driver` of one end of an in-memory connection; `wire`, common to both ends, carries out posted work."""

    __slots__ = ("_wire",)

    def __init__(
        self,
        queue_pair: LoopbackQueuePair,
        wire: _Wire,
        timer: DeadlineTimer,
        on_turn: Callable[[], None],
        on_closed: Callable[[], None],
    ) -> None:
        super().__init__(queue_pair, queue_pair.pd, timer, on_turn, on_closed)
        self._wire = wire
        wire.drivers.append(self)

    def _move(self) -> None:
        self._wire.go_on()

    def _part(self) -> None:
        self._wire.drivers.remove(self)
        # The other end may have to hear of it.
        self._wire.go_on()


class _LoopbackLink:
    """The `Link` of one end of a future in-memory connection.

    The client's link makes the queue pairs of both ends when it is opened. `made` has the queue pair and the wire for
    the server's link; None for a client. `listener` is the server's listener.
    """

    provider = _NAME
    device = None
    settle_s = 0.0
    remote_invalidation = True

    def __init__(
        self,
        local: Address,
        peer: Address,
        listener: _LoopbackListener,
        made: tuple[LoopbackQueuePair, _Wire] | None = None,
    ) -> None:
        self.local = local
        self.peer = peer
        self.active = made is None
        self._listener = listener
        self._made = made

    def open(
        self, private_data: bytes, timer: DeadlineTimer, on_turn: Callable[[], None], on_closed: Callable[[], None]
    ) -> _LoopbackDriver:
        if self._made is not None:
            return _LoopbackDriver(*self._made, timer, on_turn, on_closed)
        near_domain, far_domain = (SoftwareProtectionDomain(secrets.randbits) for _ in range(2))
        near, far = LoopbackQueuePair.pair(near_domain, far_domain, private_data=private_data)
        wire = _Wire(near)
        accepted = _LoopbackLink(self.peer, self.local, self._listener, (far, wire))
        asyncio.get_running_loop().call_soon(self._listener.arrived, accepted)
        return _LoopbackDriver(near, wire, timer, on_turn, on_closed)

    def refuse(self) -> None:
        if self._made is not None:
            queue_pair, wire = self._made
            queue_pair.abort("turned away")
            wire.go_on()


class _LoopbackListener:
    def __init__(self, provider: LoopbackProvider, on_link: Callable[[Link], None]) -> None:
        self._provider = provider
        self._on_link = on_link
        self._closed = False
        self.loop = asyncio.get_running_loop()

    async def listen(self, host: str, port: int) -> list[Listening]:
        return [Listening(*self._provider.add(host, port, self))]

    def arrived(self, link: _LoopbackLink) -> None:
        if self._closed:
            link.refuse()
        else:
            self._on_link(link)

    def stop(self, places: Collection[Address]) -> None:
        self._provider.remove(self, places)

    def close(self) -> None:
        self._closed = True
        self._provider.remove(self)


class LoopbackProvider:
    """Joins clients and servers in one event loop, without sockets; implements `rpcrdma.provider.Provider`.

    Give the same object to `ConnectOptions(provider=...)` and `RdmaServerConfig(provider=...)`. A server sees its
    clients at the address that they connected to, as over the loopback interface.
    """

    name = _NAME

    def __init__(self) -> None:
        self._listeners: dict[Address, _LoopbackListener] = {}
        self._ports = itertools.chain.from_iterable(itertools.repeat(_FREE_PORTS))
        self._reserved_ports = itertools.cycle(_RESERVED_PORTS)

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> Link:
        listener = self._listeners.get((host, port))
        if listener is None:
            raise ConnectFailed(
                f"cannot connect to {authority(host, port)}: connection refused; check that the server runs and "
                "listens there",
                refused=True,
            )
        if listener.loop is not asyncio.get_running_loop():
            raise ConnectFailed(
                f"cannot connect to {authority(host, port)}: the server runs in another event loop; run both in "
                "one, or leave out provider= to connect by TCP"
            )
        local = (host, next(self._reserved_ports if reserved_port else self._ports))
        return _LoopbackLink(local, (host, port), listener)

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> LinkListener:
        del log  # nothing can fail
        return _LoopbackListener(self, on_link)

    def explain_unmade(self, where: str, cause: str) -> str:
        return f"{where} sets up no RDMA connection ({cause}); check the limits and the log of the server"

    def add(self, host: str, port: int, listener: _LoopbackListener) -> Address:
        """Registers an address of a listener, so that clients can connect to it.

        Args:
            host: the host of the address: any text, which clients have to give.
            port: the port of the address; 0 takes a free one.
            listener: the listener, which gets the links of clients.

        Returns:
            The address: host and port.

        Raises:
            OSError: EADDRINUSE: another listener has the address.
        """
        address = (host, port or next(each for each in self._ports if (host, each) not in self._listeners))
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._listeners[address] = listener
        return address

    def remove(self, listener: _LoopbackListener, places: Collection[Address] | None = None) -> None:
        """Ends the registration of addresses of a listener.

        Args:
            listener: the listener.
            places: pairs of host and port; None: all addresses of the listener. Addresses that are not registered for
                the listener have no effect.
        """
        self._listeners = {
            address: each
            for address, each in self._listeners.items()
            if each is not listener or (places is not None and address not in places)
        }
