"""Studies of one server with many clients: load, greedy clients, restarts, and more clients than places."""

from __future__ import annotations

import asyncio
import math
from typing import NamedTuple

from scale_world import DEFAULT, INLINE, TAKE_S, WORKER, World

from rpcrdma.errors import RpcRdmaError
from rpcrdma.limits import RPC_CONNECTIONS_MAX
from rpcrdma.testing.virtual import now_s

__all__ = ["GREEDY_CALLS", "Crowd", "Results", "Row", "Storm", "crowd", "load", "storm"]

GREEDY_CALLS = 256


class Row(NamedTuple):
    """The outcome of one load."""

    version: str
    clients: int
    greedy: int
    """Clients with 256 calls at once; the others have one each."""
    credits_granted: int
    handler_ms: float
    """How long a handler takes, in one of 8 worker threads; 0: no time, in the event loop."""
    calls: int
    calls_s: float
    """Calls answered in a second."""
    p50_ms: float
    p99_ms: float
    worst_ms: float
    """These three of the clients with one call each."""
    share: float
    """The fewest calls that one of these clients had answered in the time, divided by their mean."""
    promised_mib: float
    """Memory of the receive buffers that the credits of all clients stand for."""
    used_kib: float
    """Memory of the receive buffers that were in use at once, at most."""


async def load(
    version: str, clients: int, *, calls: int, greedy: int = 0, credits_granted: int = 128, handler_s: float = 0.0
) -> Row:
    """`clients` have one call each in flight all the time, `greedy` others 256, until `calls` of the former are done.

    With `handler_s` the handlers take so long, in worker threads.
    """
    world = World(version, credits_granted=credits_granted, connections_max=1 << 20, handler_s=handler_s)
    await world.begin()
    await world.connect_all(clients + greedy)
    called = WORKER if handler_s else INLINE
    latencies: list[float] = []
    answered = [0] * clients
    everything = 0

    async def one_by_one(number: int) -> None:
        nonlocal everything
        connection = world.clients[number]
        # Not all at once: they would go on in step.
        await asyncio.sleep(TAKE_S * clients * world.fabric.loop.random.random())
        while len(latencies) < calls:
            began_s = now_s()
            await connection.call(called, number)
            latencies.append(now_s() - began_s)
            answered[number] += 1
            everything += 1

    async def at_once(number: int) -> None:
        nonlocal everything
        while len(latencies) < calls:
            await world.clients[number].call(called, number)
            everything += 1

    began_s = now_s()
    await asyncio.gather(
        *(one_by_one(number) for number in range(clients)),
        *(at_once(number) for number in range(clients, clients + greedy) for _ in range(GREEDY_CALLS)),
    )
    took_s = now_s() - began_s
    promised = sum(each._endpoint._session.window.receives_wanted for each in world.server.connections)
    octets = world.pool.octets
    await world.close()
    latencies.sort()
    return Row(
        version, clients, greedy, credits_granted, 1e3 * handler_s, everything, everything / took_s,
        1e3 * latencies[len(latencies) // 2], 1e3 * latencies[len(latencies) * 99 // 100], 1e3 * latencies[-1],
        min(answered) * clients / sum(answered), promised * octets / (1 << 20), world.pool.used_max * octets / 1024,
    )  # fmt: skip


class Storm(NamedTuple):
    """The outcome of a restart of the server."""

    version: str
    clients: int
    calling: int
    """Clients with a call that waits for the server."""
    variant: str
    outage_s: float
    attempts: int
    """Connections that the server's processor took until all callers had their answers."""
    half_s: float
    most_s: float
    all_s: float
    """After the restart: when half of the clients, 99 % and all of them had a call answered; infinite: never."""
    downgraded: int
    """Clients that came back in version 1, though they know version 2."""
    course: list[tuple[float, int]]
    """How many clients had been answered, over the time."""


async def storm(
    version: str, clients: int, *, outage_s: float, variant: str = DEFAULT, calling: float = 1.0, watch_s: float = 60.0
) -> Storm:
    """The server ends all connections and comes back after `outage_s`.

    The part `calling` of the clients has a call that waits for it; the others have none for `watch_s`.
    """
    world = World(version, connections_max=max(RPC_CONNECTIONS_MAX, 2 * clients), variant=variant)
    await world.begin()
    await world.connect_all(clients)
    answered: list[float] = []

    for number in world.clients:
        await world.clients[number].call(INLINE, number)
    await world.end()
    back_s = now_s() + outage_s

    async def called(number: int) -> None:
        # Callers come at any time while the server is away.
        await asyncio.sleep(outage_s * world.fabric.loop.random.random())
        try:
            await world.clients[number].call(INLINE, number, timeout_s=outage_s + watch_s)
        except RpcRdmaError:
            return
        answered.append(now_s() - back_s)

    tasks = [asyncio.ensure_future(called(number)) for number in range(math.ceil(clients * calling))]
    await asyncio.sleep(outage_s)
    world.node.accepted.clear()
    await world.begin()
    await asyncio.wait(tasks)
    attempts = world.node.accepted
    downgraded = 0
    if version == "auto":
        downgraded = sum(
            each.negotiated is not None and each.negotiated.version == 1 for each in world.clients.values()
        )
    await world.close()
    answered.sort()

    def part_s(part: float) -> float:
        index = math.ceil(part * len(tasks)) - 1
        return answered[index] if index < len(answered) else math.inf

    return Storm(
        version, clients, len(tasks), variant, outage_s, len(attempts),
        part_s(0.5), part_s(0.99), part_s(1.0), downgraded,
        [(at_s, index + 1) for index, at_s in enumerate(answered)][:: max(1, len(answered) // 200)],
    )  # fmt: skip


class Crowd(NamedTuple):
    """The outcome of a minute in which clients call now and then, more of them than the server has places for."""

    version: str
    clients: int
    places: int
    variant: str
    calls: int
    failed: int
    attempts_s: float
    """Connections that the server's processor took, in a second."""
    p50_ms: float
    p99_ms: float
    worst_ms: float


async def crowd(
    version: str, clients: int, *, places: int, variant: str = DEFAULT, every_s: float = 10.0, watch_s: float = 60.0
) -> Crowd:
    """Each client makes a call every `every_s` on average, at random times."""
    world = World(version, connections_max=places, variant=variant)
    await world.begin()
    await world.connect_all(clients)
    draw = world.fabric.loop.random
    ends_s = now_s() + watch_s
    latencies: list[float] = []
    failed = 0

    async def call_now_and_then(number: int) -> None:
        nonlocal failed
        while (wait_s := draw.expovariate(1 / every_s)) + now_s() < ends_s:
            await asyncio.sleep(wait_s)
            began_s = now_s()
            try:
                await world.clients[number].call(INLINE, number)
            except RpcRdmaError:
                failed += 1
            else:
                latencies.append(now_s() - began_s)

    world.node.accepted.clear()
    await asyncio.gather(*(call_now_and_then(number) for number in range(clients)))
    attempts = len(world.node.accepted)
    await world.close()
    latencies.sort()
    p50_s, p99_s = (latencies[len(latencies) * part // 100] for part in (50, 99))
    return Crowd(
        version, clients, places, variant, len(latencies), failed, attempts / watch_s, 1e3 * p50_s, 1e3 * p99_s,
        1e3 * latencies[-1],
    )  # fmt: skip


class Results(NamedTuple):
    """All numbers of one study, and the seconds of processor time that it took."""

    loads: list[Row]
    credits: list[Row]
    storms: list[Storm]
    crowds: list[Crowd]
    took_s: float
