"""One world of NFS version 4.1: a server with the real transport, RPC and NFS code, clients, faults and oracles.

The clients work while faults happen. Then the faults are over: each client compares its files and leaves, or vanishes.
A day later the server must have no state any more. The oracles are methods that the clients call with what the server
has granted or answered; each looks at the beliefs of all clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Iterator
from typing import Any

from nfs4_world_client import FOUGHT, JOURNAL, POPULAR, RECORD_OCTETS, WorldClient

from rpcrdma import RdmaServerConfig, ServeOptions, Server, serve
from rpcrdma.nfs.export.claims import Claims
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.tree import Change, Create, CreateHow
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.nfs.v4.server.service import Nfs4Service
from rpcrdma.nfs.v4.server.state import State
from rpcrdma.nfs.v4.state_limits import NFS4_COURTESY_S
from rpcrdma.testing.virtual import PROFILES, Fabric, Stalled, Trace, VirtualLoop, run
from rpcrdma_lab.simulation.worlds.checkers.credits import CreditWatcher
from rpcrdma_lab.simulation.worlds.checkers.memory import check_server
from rpcrdma_lab.simulation.worlds.checkers.rules import RuleWatcher
from rpcrdma_lab.simulation.worlds.fault_maker import FaultMaker
from rpcrdma_lab.simulation.worlds.faults import Fault, FaultKind, FaultRule, Side
from rpcrdma_lab.simulation.worlds.history import History
from rpcrdma_lab.simulation.worlds.watched_provider import WatchedEnd, WatchedProvider
from state_rig import LEASE_S, Disk, counted_octets
from support.waiting import time_passes

__all__ = ["Outcome", "World", "run_nfs4_world"]

_SERVER = "server-0"
_WORLD_S = 20_000.0
"""Virtual time by which the clients have ended, many times what they need."""
_SWEEP_S = 5.0
_RECEIVES_MAX = 200
_BOTH = (Side.CLIENT, Side.SERVER)
_RULES = (
    FaultRule(kind=FaultKind.CUT, weight=4, sides=_BOTH, values={"after_operations": (2, 150)}),
    FaultRule(kind=FaultKind.CUT, weight=2, sides=_BOTH, values={"after_operations": (2, 150)}, silent=True),
    FaultRule(
        kind=FaultKind.CRASH, weight=4, sides=(Side.SERVER,),
        values={"at_s": (1, 200), "for_s": (0.1, 60), "kept": (0, 1)},
    ),
    FaultRule(
        kind=FaultKind.DELAY, weight=1, sides=_BOTH,
        values={"at_s": (1, 200), "for_s": (1, 60), "delay_s": (0.01, 5)},
    ),
    FaultRule(kind=FaultKind.STALLED_READER, weight=1, sides=_BOTH, values={"at_s": (1, 200), "for_s": (1, 200)}),
    FaultRule(kind=FaultKind.CLOCK_JUMP, weight=1, sides=_BOTH, values={"at_s": (1, 200), "for_s": (1, 200)}),
)  # fmt: skip
_HABITS = ("prompt", "prompt", "stubborn", "deaf")


class Outcome:
    """The end of a world."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.violations: list[str] = []
        self.faults: tuple[Fault, ...] = ()
        self.counts: dict[str, int] = {}
        """How often the server has granted or answered what an oracle judges, and how often it was started."""
        self.digest = ""
        """Of the trace: equal in each run of a seed."""


class World:
    """Everything of one world while it runs."""

    def __init__(self, seed: int, outcome: Outcome) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.seed, self.loop, self._outcome = seed, loop, outcome
        choose = random.Random(f"{seed} world")
        habits = [choose.choice(_HABITS) for _ in range(choose.randint(2, 4))]
        self._steps = choose.randint(4, 20)
        self._vanishing = {number for number in range(len(habits)) if choose.random() < 0.3}
        rules = choose.choices(_RULES, [rule.weight for rule in _RULES], k=choose.randint(0, 6))
        outcome.faults = tuple(rule.draw(choose, len(habits), 1) for rule in rules)
        self._kept = random.Random(f"{seed} disk")
        self._faults = FaultMaker(outcome.faults, dict.fromkeys(range(len(habits)), 0), History())
        self._fabric = Fabric(PROFILES["campus"], faults=self._faults, trace=Trace(enabled=True))
        self._watchers = [
            CreditWatcher(loop.time, self.violation, receives_max=_RECEIVES_MAX),
            RuleWatcher(loop.time, self.violation),
        ]
        self._providers: dict[str, WatchedProvider] = {}
        self._ends: dict[tuple[object, object], WatchedEnd] = {}
        self._tree = MemoryTree(loop.time)
        self._disk = Disk()
        self._random_bytes = counted_octets()
        self._server: Server | None = None
        self._service: Nfs4Service | None = None
        self.restarted_s = float("-inf")
        """When the server was started last."""
        self.handles: dict[bytes, bytes] = {}
        """Of the files that all clients use."""
        for name in (JOURNAL, FOUGHT, POPULAR):
            made = self._tree.root.create(self._tree.grant, name, Create(CreateHow.GUARDED), Change())
            made.mode = 0o666
            self.handles[name] = made.handle
        self._numbers = 0
        self._journal: dict[int, bytes] = {}
        """The records whose WRITE was answered, by their places."""
        self._changes: dict[bytes, list[list[float]]] = {name: [] for name in self.handles.values()}
        """[begin, end] of each attempt to change a file."""
        self.clients = [WorldClient(self, number, habit) for number, habit in enumerate(habits)]

    # Oracles

    def violation(self, found: object) -> None:
        self._outcome.violations.append(f"{found} (at {self.loop.time():.3f} s)")

    def _count(self, what: str) -> None:
        self._outcome.counts[what] = self._outcome.counts.get(what, 0) + 1

    def granted_open(self, client: WorldClient, handle: bytes) -> None:
        """No two clients have opens that deny each other."""
        self._count("opens")
        _, access, deny = client.opens[handle]
        for other in self._others(client):
            _, others_access, others_deny = other.opens.get(handle, (None, 0, 0))
            if access & others_deny or deny & others_access:
                self.violation(f"{client.name} and {other.name} have opens that deny each other")

    def granted_lock(self, client: WorldClient, handle: bytes) -> None:
        """No two clients have a lock of one range."""
        self._count("locks")
        for other in self._others(client):
            if handle in other.locks:
                self.violation(f"{client.name} and {other.name} have the same lock")

    def _others(self, client: WorldClient) -> list[WorldClient]:
        return [each for each in self.clients if each is not client and each.has_lease]

    def journalled(self, place: int, record: bytes) -> None:
        """A WRITE of a record was answered: nobody else had written there."""
        self._count("records")
        if place in self._journal:
            self.violation(f"record {place} was written twice: {self._journal[place]!r}, {record!r}")
        self._journal[place] = record

    def check_journal(self, content: bytes, where: str) -> None:
        """Each record that was answered is in the journal."""
        for place, record in self._journal.items():
            found = content[place * RECORD_OCTETS :][:RECORD_OCTETS]
            if found != record:
                self.violation(f"{where}: record {place} is {found!r}, not {record!r}")

    @contextlib.contextmanager
    def change_begins(self, handle: bytes) -> Iterator[None]:
        """A client tries to change a file, and waits for the delegations of others meanwhile."""
        attempt = [self.loop.time(), float("inf")]
        self._changes[handle].append(attempt)
        try:
            yield
        finally:
            attempt[1] = self.loop.time()

    def changed(self, client: WorldClient, handle: bytes) -> None:
        """Nobody else relies on a delegation, unless the client has waited for it for a lease."""
        self._count("changes")
        now_s = self.loop.time()
        for other in self._others(client):
            if handle not in other.delegations:
                continue
            given_s = other.delegations[handle][1]
            waited_s = max(now_s - max(begin, given_s) for begin, end in self._changes[handle] if end > given_s)
            self._count("revocations")
            if waited_s < LEASE_S:
                self.violation(f"{client.name} changed a file after {waited_s:.3f} s, {other.name} has a delegation")

    def new_number(self) -> int:
        """A number that no other record or content has."""
        self._numbers += 1
        return self._numbers

    # The server

    def provider(self, node: str) -> WatchedProvider:
        """The provider of a node."""
        if node not in self._providers:
            self._providers[node] = WatchedProvider(self._fabric.node(node), node, self._watchers, self._ends)
        return self._providers[node]

    def _start(self) -> None:
        self._count("starts")
        self.restarted_s = self.loop.time()
        self._fabric.node(_SERVER).start(self._serve())

    async def _serve(self) -> None:
        now_s = self.loop.time()
        disk: Any = self._disk
        state = State(Claims(), disk, self._random_bytes, now_s, identity=b"world", lease_s=LEASE_S)
        self._service = Nfs4Service(PseudoRoot(self._tree, 0), state, clock=self.loop.time)
        options = ServeOptions(rdma=RdmaServerConfig(provider=self.provider(_SERVER), idle_s=600.0))
        self._server = await serve([self._service], [f"rdma://{_SERVER}"], options=options)
        while True:
            await time_passes(_SWEEP_S)
            self._service.sweep()
            self._service.close_ended()

    def _crash(self, _number: int, kept: float) -> None:
        self._fabric.node(_SERVER).crash()
        self._tree.crash(lambda: self._kept.random() < kept)
        self._server = self._service = None

    def _restart(self, _number: int) -> None:
        host = self._fabric.node(_SERVER)
        if not host.up:
            host.restart()
            self._start()

    # The course of the world

    async def main(self) -> None:
        self.loop.set_exception_handler(self._unexpected)
        self._start()
        over_s = self._faults.start(self.loop, self._fabric.node, self.provider, self._crash, self._restart)
        keepers: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(_WORLD_S):
                await self._all([client.connect() for client in self.clients])
                keepers += [self._fabric.node(each.name).start(each.keep_lease()) for each in self.clients]
                await self._all([client.work(self._steps) for client in self.clients])
                await time_passes(max(over_s - self.loop.time(), 0.0))
                self._faults.stop()
                await self._all([each.finish(vanishes=each.number in self._vanishing) for each in self.clients])
        except TimeoutError as error:
            self.violation(f"the clients have not ended: {error}")
            return
        finally:
            for keeper in keepers:
                keeper.cancel()
        self.check_journal(bytes(self._tree.root.names[JOURNAL][1].data), "the disk")
        self.loop.jump(NFS4_COURTESY_S + 2 * LEASE_S)
        await time_passes(1000)
        self._check_nothing_is_left()

    async def _all(self, programs: list[Any]) -> None:
        pairs = zip(self.clients, programs, strict=True)
        tasks = [self._fabric.node(client.name).start(program) for client, program in pairs]
        await asyncio.gather(*tasks)

    def _check_nothing_is_left(self) -> None:
        assert self._service is not None
        assert self._server is not None
        state, claims = self._service.state, self._service.state.claims
        left = {
            "clients": len(state.clients.by_id),
            "sessions": len(state.sessions._by_id),
            "octets promised to slots": state.sessions.octets.used,
            "states": len(state._held),
            "delegations": len(state.delegations) + claims.delegations,
            "shares": sum(bool(claims.sharers(handle)) for handle in self.handles.values()),
            "rows of clients": len(self._disk.kept),
        }
        for what, count in left.items():
            if count:
                self.violation(f"{count} {what} are left")
        half_open = self._faults.silent_cuts[0]
        for found in check_server(self._server, _SERVER, self.loop.time(), half_open_max=half_open):
            self.violation(found)

    def _unexpected(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.violation(f"{context['message']}: {context.get('exception')!r}")

    def close(self) -> None:
        self._outcome.digest = self._fabric.trace.digest()


class _ErrorLog(logging.Handler):
    """Errors that the package reports to its log are violations."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.violation(f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}")


def run_nfs4_world(seed: int) -> Outcome:
    """Runs the world of a seed to its end."""
    outcome = Outcome(seed)
    logger = logging.getLogger("rpcrdma")

    async def main() -> None:
        world = World(seed, outcome)
        log = _ErrorLog(world)
        logger.addHandler(log)
        try:
            await world.main()
        finally:
            logger.removeHandler(log)
            world.close()

    try:
        run(main, seed=seed)
    except Stalled as stalled:
        outcome.violations.append(str(stalled))
    return outcome
