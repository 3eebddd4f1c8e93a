"""The simulated fabric: nodes that reach each other by name, each of them a provider of RDMA connections.

    async def main():
        fabric = Fabric(PROFILES["campus"])
        client, server = fabric.node("client"), fabric.node("server")
        serve([...], ["rdma://server"], options=ServeOptions(rdma=RdmaServerConfig(provider=server)))
        connect("rdma://server", options=ConnectOptions(provider=client))

    run(main, seed=1)

Everything runs in one `VirtualLoop`. The same program and seed make the same trace.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.memory_driver import MemoryDriver
from rpcrdma.aio.drivers.provider import Link, LinkListener, Listening
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.errors import ConnectFailed, LocalProtocolError
from rpcrdma.testing.virtual.faults import Faults
from rpcrdma.testing.virtual.host import Host, running_host
from rpcrdma.testing.virtual.loop import VirtualLoop
from rpcrdma.testing.virtual.memory import SimulatedProtectionDomain
from rpcrdma.testing.virtual.model import FabricModel
from rpcrdma.testing.virtual.queue_pair import SimulatedQueuePair
from rpcrdma.testing.virtual.trace import Trace
from rpcrdma.testing.virtual.workers import SimulatedWorkerPool, before_handler

__all__ = ["Fabric", "Node"]

_NAME = "simulated"
_FREE_PORTS = range(49152, 65536)
_RESERVED_PORTS = range(1023, 511, -1)


def _nothing() -> None:
    """Does nothing: `on_news` of a queue pair that was offered to a listener, and has no driver yet."""


class _Driver(MemoryDriver[SimulatedQueuePair]):
    """The driver of one end of a simulated connection; callbacks that the loop has scheduled move the data."""

    __slots__ = ()

    def __init__(
        self,
        queue_pair: SimulatedQueuePair,
        timer: DeadlineTimer,
        on_turn: Callable[[], None],
        on_closed: Callable[[], None],
    ) -> None:
        super().__init__(queue_pair, queue_pair.pd, timer, on_turn, on_closed)
        queue_pair.on_news = self.turn
        if queue_pair.has_news:
            queue_pair.host.loop.call_soon(self.turn)

    @property
    def round_trip_s(self) -> float:
        model = self.queue_pair.host.model
        return 2 * (model.one_way_s + model.message_s + model.wire_s(0))

    def _move(self) -> None:
        self.queue_pair.transmit()

    def _part(self) -> None:
        self.queue_pair.abort("closed")


class _Link:
    """One end of a future connection, at the connecting node (`queue_pair` None) or at the listening node.

    `open` makes the driver; at the connecting node it also makes both queue pairs and sends the request.
    """

    provider = _NAME
    device = None
    settle_s = 0.0
    remote_invalidation = True

    def __init__(
        self, node: Node, local: tuple[str, int], peer: tuple[str, int], queue_pair: SimulatedQueuePair | None = None
    ) -> None:
        self.local = local
        self.peer = peer
        self.active = queue_pair is None
        self._node = node
        self._queue_pair = queue_pair

    def open(
        self, private_data: bytes, timer: DeadlineTimer, on_turn: Callable[[], None], on_closed: Callable[[], None]
    ) -> _Driver:
        queue_pair = self._queue_pair
        if queue_pair is None:
            near, far = self._node.fabric.pair(self._node, self._node.fabric.reach(self.peer[0]), private_data)
            far.on_news = lambda: self._offer(far)
            near.connect()
            queue_pair = near
        return _Driver(queue_pair, timer, on_turn, on_closed)

    def _offer(self, far: SimulatedQueuePair) -> None:
        """Offers `far`, the listening end, to the listener at its address; refuses the connection if there is none.

        Runs at the listening node when the request for the connection has arrived there. No effect if `far` has ended.
        """
        if far.ended:
            return
        node = self._node.fabric.reach(self.peer[0])
        listener = node.listeners.get(self.peer)
        if listener is None:
            far.refuse("connection refused")
            return
        far.on_news = _nothing
        listener.on_link(_Link(node, self.peer, self.local, far))

    def refuse(self) -> None:
        if self._queue_pair is not None:
            self._queue_pair.abort("turned away")


class _Listener:
    def __init__(self, node: Node, on_link: Callable[[Link], None]) -> None:
        self._node = node
        self.on_link = on_link

    async def listen(self, host: str, port: int) -> list[Listening]:
        return [Listening(*self._node.listen(host, port, self))]

    def stop(self, places: Collection[tuple[str, int]]) -> None:
        listeners = self._node.listeners
        self._node.listeners = {at: each for at, each in listeners.items() if each is not self or at not in places}

    def close(self) -> None:
        self.stop(self._node.listeners)


class Node(Host):
    """A host of the fabric, and the provider of its programs; implements `rpcrdma.provider.Provider`.

    Give it to `ConnectOptions(provider=...)` and `RdmaServerConfig(provider=...)`. `Fabric.node` makes it.

    Args:
        fabric: the fabric.
        host: the node's name, which is its address.

    Shared by the methods:
        ConnectFailed: no node has the name to connect to, or that node has no listener at the port. If either host is
            down, `connect` never returns.
    """

    name = _NAME

    def __init__(self, fabric: Fabric, host: str) -> None:
        super().__init__(host, fabric.loop, fabric.model, fabric.trace, fabric.faults)
        self.fabric = fabric
        self.listeners: dict[tuple[str, int], _Listener] = {}
        self._ports = itertools.chain.from_iterable(itertools.repeat(_FREE_PORTS))
        self._reserved_ports = itertools.cycle(_RESERVED_PORTS)

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> Link:
        where = authority(host, port)
        peer = self.fabric.find(host)
        if peer is None:
            raise ConnectFailed(
                f"cannot connect to {where}: no node of the fabric has this name; add it by Fabric.node"
            )
        if not (peer.up and self.up):
            await self.loop.create_future()
        if (host, port) not in peer.listeners:
            await asyncio.sleep(2 * self.model.one_way_s)
            raise ConnectFailed(
                f"cannot connect to {where}: connection refused; check that the server runs and listens there",
                refused=True,
            )
        return _Link(self, (self.host, next(self._reserved_ports if reserved_port else self._ports)), (host, port))

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> LinkListener:
        del log  # nothing can fail
        return _Listener(self, on_link)

    def explain_unmade(self, where: str, cause: str) -> str:
        return f"{where} sets up no RDMA connection ({cause}); check the limits and the log of the server"

    def listen(self, host: str, port: int, listener: _Listener) -> tuple[str, int]:
        """Registers a listener, to which the node offers requests for connections.

        Args:
            host: the name of this node.
            port: the port; 0 takes a free one.
            listener: its `on_link` is called with the listening end of each requested connection.

        Returns:
            Host and port of the listener.

        Raises:
            OSError: EADDRNOTAVAIL: `host` is not this node's name in the fabric; EADDRINUSE: another listener has the
                address.
        """
        if self.fabric.find(host) is not self:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        address = (host, port or next(each for each in self._ports if (host, each) not in self.listeners))
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.listeners[address] = listener
        return address

    def crash(self) -> None:
        if self.up:
            self.listeners.clear()
        super().crash()


class Fabric:
    """Nodes with their distance and costs, and the trace of their events; to be made in a `VirtualLoop`.

    The loop's servers then run their handlers in virtual time instead of threads, and the crash of a host cancels each
    task that its programs have started.

    Args:
        model: distance and costs; None: a machine room.
        trace: records the events; None: a new trace.
        faults: decides about faults; None: no faults.
        domain: makes the protection domain of each end, from its host and the connection's number.
        loop: the loop; None: the running one.

    Raises:
        LocalProtocolError: the loop is no `VirtualLoop`.
        RuntimeError: `loop` is None and no loop runs.
    """

    def __init__(
        self,
        model: FabricModel | None = None,
        *,
        trace: Trace | None = None,
        faults: Faults | None = None,
        domain: Callable[[Host, int], SimulatedProtectionDomain] = SimulatedProtectionDomain,
        loop: VirtualLoop | None = None,
    ) -> None:
        running = loop or asyncio.get_running_loop()
        if not isinstance(running, VirtualLoop):
            raise LocalProtocolError(
                "a fabric is simulated in virtual time: run the program by rpcrdma.testing.virtual.run"
            )
        self.loop = running
        self.model = model or FabricModel()
        self.trace = trace or Trace()
        self.faults = faults
        self._domain = domain
        self._nodes: dict[str, Node] = {}
        self._connections = itertools.count()
        running.on_task = _adopt
        running.effects = replace(running.effects, worker_pool=SimulatedWorkerPool, before_handler=before_handler)

    def node(self, host: str) -> Node:
        """Returns the node with a name; makes it if there is none.

        Args:
            host: the name.
        """
        found = self._nodes.get(host)
        if found is None:
            found = self._nodes[host] = Node(self, host)
        return found

    def add(self, node: Node) -> None:
        """Adds a node of a class of the caller's own; it replaces a node of the same name.

        Args:
            node: the node.
        """
        self._nodes[node.host] = node

    def find(self, host: str) -> Node | None:
        """Returns the node with a name; None if there is none.

        Args:
            host: the name.
        """
        return self._nodes.get(host)

    def reach(self, host: str) -> Node:
        """Returns the node with a name, which must exist; raises KeyError if there is none.

        Args:
            host: the name.
        """
        return self._nodes[host]

    def pair(
        self,
        near: Host,
        far: Host,
        private_data: bytes = b"",
        inbound_reads: tuple[int | None, int | None] = (None, None),
        outbound_reads: tuple[int | None, int | None] = (None, None),
    ) -> tuple[SimulatedQueuePair, SimulatedQueuePair]:
        """Makes two joined queue pairs under a new connection number, not connected; the near one may `connect`.

        Args:
            near: the host of the first.
            far: the host of the second.
            private_data: the near end's octets for the far end.
            inbound_reads: limits of inbound RDMA Reads of (near, far); None: that of the model.
            outbound_reads: limits of outbound RDMA Reads of (near, far); None: that of the model.

        Returns:
            The near and the far queue pair.
        """
        number = next(self._connections)
        one, other = (
            SimulatedQueuePair(host, number, self._domain(host, number), data, inbound, outbound)
            for host, data, inbound, outbound in zip(
                (near, far), (private_data, b""), inbound_reads, outbound_reads, strict=True
            )
        )
        one.join(other)
        return one, other


def _adopt(task: asyncio.Task[Any]) -> None:
    host = running_host()
    if host is not None:
        host.adopt(task)
