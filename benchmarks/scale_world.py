"""A server with one processor and its clients on the simulated fabric, for the study of scale.

The server is a node with one processor, which works for a time on each completion (`TAKE_S`, `ACCEPT_S`), while the
others wait in line.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from dataclasses import replace
from typing import Any

from rpcrdma import ConnectOptions, ServeOptions, connect, serve
from rpcrdma.aio.client.connect import Connection
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import Server
from rpcrdma.limits import RDMA_STARTING_MAX, RPC_CONNECTIONS_MAX
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.service import CallContext, Service, in_worker
from rpcrdma.testing.virtual import End, Fabric, FabricModel, Node, Trace, now_s
from rpcrdma.transport import TransportConfig
from rpcrdma.verbs import Completion, ConnectRequested, QueuePairEvent, ReceivePool
from rpcrdma.verbs.receive_pool import ReceiveBuffer
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = ["DEFAULT", "EAGER", "INLINE", "IN_STEP", "OLDEST", "TAKE_S", "WORKER", "World"]

TAKE_S = 20e-6
"""The server's processor works so long on each completion: a small call costs it 10 µs, where many come together, to
35 µs (docs/performance.md)."""
ACCEPT_S = 500e-6
"""It works so long on a new connection: half of the processor time that both ends take without sockets."""


def _encode(enc: Encoder, value: int) -> None:
    enc.u32(value, "value")


def _decode(dec: Decoder) -> int:
    return dec.u32("value")


_CODING = (_encode, _decode, _encode, _decode)
INLINE = Procedure(0x20000051, 1, 1, "INLINE", "inline", *_CODING)
WORKER = Procedure(0x20000051, 1, 2, "WORKER", "worker", *_CODING)
PROGRAM = Program(0x20000051, 1, "SCALE", {1: INLINE, 2: WORKER})


class Echo(Service):
    """Returns its argument: from the event loop, or from a worker thread."""

    PROGRAM = PROGRAM
    IDEMPOTENT = frozenset({1, 2})

    def inline(self, args: int, _context: CallContext) -> int:
        return args

    @in_worker
    def worker(self, args: int, _context: CallContext) -> int:
        return args


class BusyNode(Node):
    """A node with one processor: completions and events wait until it has taken those before them."""

    def __init__(self, fabric: Fabric, host: str) -> None:
        super().__init__(fabric, host)
        self._free_s = 0.0
        self.accepted: list[float] = []
        """When the processor began to take each connection."""
        self._waiting: dict[End, deque[tuple[asyncio.TimerHandle, Completion | QueuePairEvent]]] = {}

    @property
    def backlog_s(self) -> float:
        """How long the work takes that is waiting now."""
        return max(0.0, self._free_s - now_s())

    def interrupt(self, end: End, news: Completion | QueuePairEvent, cause: int, ready_s: float = 0.0) -> None:
        begins_s = max(self._free_s, ready_s, self.loop.now_s)
        takes_s = TAKE_S
        if isinstance(news, ConnectRequested):
            takes_s = ACCEPT_S
            self.accepted.append(begins_s)
        self._free_s = begins_s + takes_s
        timer = self.loop.schedule(self._free_s, cause, self._take, end, cause, context=self.context)
        self._waiting.setdefault(end, deque()).append((timer, news))

    def _take(self, end: End, cause: int) -> None:
        waiting = self._waiting[end]
        _, news = waiting.popleft()
        if not waiting:
            del self._waiting[end]
        super().interrupt(end, news, cause)

    def withdraw(self, end: End) -> list[Completion | QueuePairEvent]:
        waiting = self._waiting.pop(end, ())
        for timer, _ in waiting:
            timer.cancel()
        return [*super().withdraw(end), *(news for _, news in waiting)]


class CountingPool(ReceivePool):
    """The server's receive buffers, and the most of them that were in use at once."""

    __slots__ = ("used", "used_max")

    def __init__(self, octets: int) -> None:
        super().__init__(octets)
        self.used = self.used_max = 0

    def take(self) -> memoryview:
        self.used += 1
        self.used_max = max(self.used_max, self.used)
        return super().take()

    draw = take

    def give_back(self, buffer: ReceiveBuffer) -> None:
        self.used -= 1
        super().give_back(buffer)


DEFAULT, OLDEST, EAGER, IN_STEP = "default", "oldest start-up ends", "idle clients return", "without jitter"
"""The rules as they are; the server ends the oldest of 256 start-ups for each newcomer; clients without calls connect
again as soon as those with calls; attempts come at the end of each delay, not at any time in it."""


class World:
    """A server and its clients. `version` is that of RPC-over-RDMA, `variant` one of the rules above.

    A handler runs for `handler_s`.
    """

    def __init__(
        self,
        version: str,
        *,
        credits_granted: int = TransportConfig().credits_granted,
        connections_max: int = RPC_CONNECTIONS_MAX,
        variant: str = DEFAULT,
        handler_s: float = FabricModel().server_s,
    ) -> None:
        self._version = version
        self.fabric = Fabric(FabricModel(server_s=handler_s), trace=Trace(enabled=False))
        self.node = BusyNode(self.fabric, "server")
        self.fabric.add(self.node)
        known: Any = self.fabric.loop.effects.known_servers
        known._servers_max = 1 << 20
        self._config = RdmaServerConfig(
            provider=self.node,
            transport=TransportConfig(credits_granted=credits_granted),
            connections_max=connections_max,
            rpcrdma_version=version,
            extension="off",
        )
        self._variant = variant
        self.server: Server
        self.pool: CountingPool
        self.clients: dict[int, Connection] = {}

    async def begin(self) -> None:
        """The server serves."""
        self.server = await serve([Echo()], ["rdma://server"], options=ServeOptions(rdma=self._config)).__aenter__()
        rdma = self.server._rdma
        rdma._receive_pool = self.pool = CountingPool(rdma._receive_pool.octets)
        admission: Any = rdma._admission
        # The clients stand for machines of many networks, though all addresses of the fabric are of one.
        admission._of_network_max = admission._starting_of_network_max = 1 << 20
        if self._variant == OLDEST:
            admission._starting_max = 1 << 20
            admission.displaced_by = functools.partial(_oldest, admission)

    async def end(self) -> None:
        """The server stops."""
        await self.server.close()

    async def connect(self, number: int) -> Connection:
        """One more client."""
        node = self.fabric.node(f"client-{number}")
        # Each client finds out by itself which version the server speaks.
        node.name = node.host
        options = ConnectOptions(
            provider=node,
            credential=AuthSys(machine="client", uid=0, gid=0, gids=()),
            rpcrdma_version=self._version,
            extension="off",
        )
        connection = await connect("rdma://server", PROGRAM, options=options)
        keeper = connection._keeper
        keeper._takes_calls = self._variant == EAGER
        if self._variant == IN_STEP:
            keeper.policy = replace(keeper.policy, random=lambda: 1.0)
        self.clients[number] = connection
        return connection

    async def connect_all(self, count: int) -> None:
        """Clients come one after another, as fast as the server takes them without a queue."""
        for number in range(count):
            await self.connect(number)

    async def close(self) -> None:
        await self.end()
        for connection in self.clients.values():
            await connection.close()


def _oldest(admission: Any, _client: str, _now_s: float, **_: bool) -> Any:
    """The oldest connection in its start-up, if 256 others are."""
    if admission.starting < RDMA_STARTING_MAX:
        return None
    first_network = next(iter(admission._starting.values()))
    return next(iter(next(iter(first_network.values()))))
