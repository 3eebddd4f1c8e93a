"""One world: servers and clients with the real transport, RPC and NFS code on a simulated fabric, faults and checkers.

First the clients make their calls while faults happen. When the faults are over, every client must be able to make its
last calls; then all memory must have been released.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import Any

from rpcrdma import RdmaServerConfig, ServeOptions, Server, TransportConfig, serve
from rpcrdma.nfs.v3 import nfs_fh3
from rpcrdma.testing import MemoryFiles
from rpcrdma.testing.virtual import PROFILES, Fabric, Stalled, Trace, VirtualLoop, run
from rpcrdma_lab.simulation.worlds.bank_branch import BankBranch, Books
from rpcrdma_lab.simulation.worlds.checkers.calls import check_calls, check_notices
from rpcrdma_lab.simulation.worlds.checkers.credits import CreditWatcher
from rpcrdma_lab.simulation.worlds.checkers.exposure import ExposureWatcher
from rpcrdma_lab.simulation.worlds.checkers.files import check_files
from rpcrdma_lab.simulation.worlds.checkers.memory import check_server
from rpcrdma_lab.simulation.worlds.checkers.rules import RuleWatcher
from rpcrdma_lab.simulation.worlds.fault_maker import FaultMaker
from rpcrdma_lab.simulation.worlds.history import History, Violation
from rpcrdma_lab.simulation.worlds.plan import Plan, ServerPlan
from rpcrdma_lab.simulation.worlds.watched_provider import WatchedEnd, WatchedProvider, Watcher
from rpcrdma_lab.simulation.worlds.world_client import WorldClient

__all__ = ["Result", "run_world"]

_WORLD_S = 1800.0
"""Virtual seconds after which a world counts as stuck: many times the sum of its calls' deadlines."""
_TRANSFER_OCTETS = 8192
"""Octets of one READ or WRITE: few, so that files of some ten thousand octets take several."""
_IDLE_S = 20.0
"""Virtual seconds without a message after which servers end a connection, or up to a quarter longer."""
_UNDISTURBED_S = 1e-3
"""Virtual seconds from the end of the disturbances, which concern a call that begins just then, to the last calls."""
_SETTLED_S = 60.0
"""Virtual seconds in which servers notice that clients have gone."""
_RECEIVES_BESIDE_MAX = 64
"""Receives of one end beyond twice its credits: for the reverse direction and grants, and some posted ahead."""
_REGIONS_MAX = 4096
_OCTETS_MAX = 1 << 26
"""The most octets, and `_REGIONS_MAX` the most regions, that one connection exposes at a time."""


@dataclass(slots=True)
class Result:
    """The result of a world that has run: its plan, the violations found, and the trace of events.

    `calls` is the number of calls that clients and servers have made.
    """

    plan: Plan
    violations: list[Violation]
    trace: Trace
    calls: int = 0
    faults: int = 0
    """The number of faults that have happened."""
    seconds: float = 0.0
    """The virtual seconds that the world lasted."""


class _WorldServer:
    """A simulated server of files and accounts (the bank), whose disk and account `Books` persist when it crashes."""

    def __init__(self, world: _World, plan: ServerPlan) -> None:
        self._world = world
        self._plan = plan
        self.number = plan.number
        self.node = f"server-{plan.number}"
        self.disk = MemoryFiles(world.loop.time, transfer_octets=_TRANSFER_OCTETS)
        self.books = Books()
        self.boot = 0
        self.server: Server | None = None
        self.branch: BankBranch | None = None
        self._kept = random.Random(f"{world.plan.seed} {self.node}")  # noqa: S311 - to be repeated

    def start(self) -> None:
        """Starts the server's program as a task on its node, with the files and account `Books` that it had before."""
        self.boot += 1
        self._world.fabric.node(self.node).start(self._run())

    async def _run(self) -> None:
        world, plan = self._world, self._plan
        self.branch = BankBranch(
            plan.number, self.boot, world.history, self.books, world.faults.application_stalled_until_s
        )
        options = ServeOptions(
            rdma=RdmaServerConfig(
                provider=world.provider(self.node),
                idle_s=_IDLE_S,
                transport=TransportConfig(
                    credits_granted=plan.credits,
                    # The messages of Linux, so that version 1 moves data by RDMA.
                    inline_send_octets=4096,
                    inline_receive_octets=4096,
                ),
            ),
            memory_octets_max=plan.memory_octets,
        )
        services = [self.branch, self.disk.service()]
        self.server = await serve(services, [f"rdma://{self.node}"], options=options)
        await asyncio.Event().wait()

    def crash(self, kept: float) -> None:
        """Crashes the server's node; each unstable write persists with the probability `kept` (0 to 1)."""
        self._world.fabric.node(self.node).crash()
        self._world.exposure.crashed(self.node)
        self.disk.crash(lambda: self._kept.random() < kept)
        self.server = self.branch = None

    def restart(self) -> None:
        """Starts the crashed node and its program again; no effect if they run already."""
        host = self._world.fabric.node(self.node)
        if not host.up:
            host.restart()
            self.start()


class _World:
    """A running world, which `run_world` creates, with its fabric, servers, clients, faults and watchers.

    `rules` adds the checker of protocol rules. A `VirtualLoop` must be running.
    """

    def __init__(self, plan: Plan, *, rules: bool) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.plan = plan
        self.history = History()
        found = self.history.violations.append
        self.exposure = ExposureWatcher(loop.time, found, regions_max=_REGIONS_MAX, octets_max=_OCTETS_MAX)
        credits_max = max([each.credits for each in plan.clients] + [each.credits for each in plan.servers])
        credit_watcher = CreditWatcher(loop.time, found, receives_max=2 * credits_max + _RECEIVES_BESIDE_MAX)
        self.watchers: list[Watcher] = [credit_watcher, self.exposure]
        if rules:
            self.watchers.append(RuleWatcher(loop.time, found))
        self.faults = FaultMaker(plan.faults, {each.number: each.server for each in plan.clients}, self.history)
        self.fabric = Fabric(PROFILES[plan.profile], faults=self.faults, trace=Trace(), domain=self.exposure.domain)
        self._providers: dict[str, WatchedProvider] = {}
        self._ends: dict[tuple[object, object], WatchedEnd] = {}
        self.servers = {each.number: _WorldServer(self, each) for each in plan.servers}
        self.clients: list[WorldClient] = []

    def provider(self, node: str) -> WatchedProvider:
        """Returns the watched provider of the node named `node`, such as "client-0"; creates it at the first call."""
        if node not in self._providers:
            inner = self.fabric.node(node)
            self._providers[node] = WatchedProvider(inner, node, self.watchers, self._ends)
        return self._providers[node]

    async def main(self) -> None:
        loop = self.loop
        loop.set_exception_handler(self._unexpected)
        for server in self.servers.values():
            server.start()
        over_s = self.faults.start(
            loop,
            self.fabric.node,
            self.provider,
            lambda number, kept: self.servers[number].crash(kept),
            lambda number: self.servers[number].restart(),
        )
        for plan in self.plan.clients:
            node = f"client-{plan.number}"
            root = nfs_fh3(self.servers[plan.server].disk.root)
            client = WorldClient(plan, self.provider(node), root, self.history, self.exposure)
            self.clients.append(client)
        await self._all(client.run() for client in self.clients)
        await asyncio.sleep(max(over_s - loop.time(), 0.0))
        self.faults.stop()
        if self.history.disturbances:
            end_s = max(each.end_s for each in self.history.disturbances)
            await asyncio.sleep(end_s + _UNDISTURBED_S - loop.time())
        await self._all(client.finish() for client in self.clients)
        await self._settle()
        self._check()

    async def _all(self, programs: Any) -> None:
        """Runs `programs`, one coroutine for each client in order, on the clients' nodes, and waits for all.

        Raises:
            TimeoutError: they take more than 1800 virtual seconds.
        """
        tasks = [
            self.fabric.node(client.node).start(program) for client, program in zip(self.clients, programs, strict=True)
        ]
        async with asyncio.timeout(_WORLD_S):
            await asyncio.gather(*tasks)

    async def _settle(self) -> None:
        """Waits until the servers' calls to clients have ended, forgets the clients, and waits for 60 virtual seconds.

        In this time, servers notice that their clients have gone.
        """
        for server in self.servers.values():
            assert server.server is not None
            assert server.branch is not None
            await server.branch.settle()
            server.branch.close()
        await asyncio.sleep(_SETTLED_S)

    def _check(self) -> None:
        now_s, violations = self.loop.time(), self.history.violations
        self.exposure.finish()
        violations += check_calls(self.history)
        violations += check_notices(self.history)
        for server in self.servers.values():
            assert server.server is not None
            half_open = self.faults.silent_cuts[server.number]
            violations += check_server(server.server, server.node, now_s, half_open_max=half_open)
        for client in self.clients:
            violations += check_files(self.servers[client.server].disk, client.files, client.node, now_s)

    def _unexpected(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Records a violation for an exception that nothing handles; it is the exception handler of the event loop."""
        error = context.get("exception")
        self.history.violations.append(Violation("errors", self.loop.time(), f"{context['message']}: {error!r}"))


class _ErrorLog(logging.Handler):
    """A log handler that records errors in the package's log as violations."""

    def __init__(self, loop: VirtualLoop, history: History) -> None:
        super().__init__(logging.ERROR)
        self._loop = loop
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        cause = "" if record.exc_info is None else f": {record.exc_info[1]!r}"
        self._history.violations.append(Violation("errors", self._loop.time(), record.getMessage() + cause))


def run_world(plan: Plan, *, rules: bool = True) -> Result:
    """Runs one world (simulated servers, clients, faults) to its end; returns its plan, violations and trace.

    The world runs in virtual time, in an event loop of its own; no other event loop may be running. Clients make their
    planned calls while faults happen, and some last calls afterwards. A world that cannot go on, or whose clients take
    more than 1800 virtual seconds for the planned or for the last calls, has a violation of "progress" in its result.

    Args:
        plan: the plan of the world.
        rules: whether each message is checked against its version's rules, which takes a fifth of the time.
    """
    result = Result(plan, [], Trace(enabled=False))
    logger = logging.getLogger("rpcrdma")

    async def main() -> None:
        world = _World(plan, rules=rules)
        result.violations = world.history.violations
        result.trace = world.fabric.trace
        log = _ErrorLog(world.loop, world.history)
        logger.addHandler(log)
        try:
            await world.main()
        except TimeoutError:
            text = f"the world has not ended after {_WORLD_S:g} s of its time"
            result.violations.append(Violation("progress", world.loop.time(), text))
            result.violations += check_calls(world.history)
        finally:
            logger.removeHandler(log)
            result.calls = len(world.history.calls) + len(world.history.notices)
            result.faults = world.faults.applied
            result.seconds = world.loop.time()

    try:
        run(main, seed=plan.seed)
    except Stalled as stalled:
        result.violations.append(Violation("progress", result.seconds, str(stalled)))
    return result
