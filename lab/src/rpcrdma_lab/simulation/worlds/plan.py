"""The plan of one world: all that happens in it by intention, drawn from a scenario by a seed.

Each client and the faults are drawn by generators of their own, so that leaving one out changes nothing about the
others: that is how a failing world is made smaller.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from rpcrdma_lab.simulation.worlds.faults import Fault, Range, between
from rpcrdma_lab.simulation.worlds.scenario import Scenario

__all__ = ["ClientPlan", "Kept", "Plan", "PlannedCall", "ServerPlan", "draw_plan"]


class PlannedCall(NamedTuple):
    """One call of the bank, or one operation on a file. `number` tells the calls of a client apart."""

    number: int
    work: str
    octets: int
    pause_s: float
    """Before it."""
    into: bool
    """Whether the caller gives memory for the result."""
    stable: bool
    """Of a written file: whether the caller goes on only when the file is on the disk."""
    name: int
    """Of a file: which one."""


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """One client: its version and extension, and its calls, of which it makes `at_once` at the same time."""

    number: int
    server: int
    version: str
    extension: str
    credits: int
    at_once: int
    calls: tuple[PlannedCall, ...]


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """One server, which speaks every version."""

    number: int
    credits: int
    memory_octets: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One world."""

    seed: int
    profile: str
    servers: tuple[ServerPlan, ...]
    clients: tuple[ClientPlan, ...]
    faults: tuple[Fault, ...]


class Kept(NamedTuple):
    """The parts of a plan that stay: numbers of faults, of clients and of each client's calls; None: all of them."""

    faults: frozenset[int] | None = None
    clients: frozenset[int] | None = None
    calls: frozenset[tuple[int, int]] | None = None
    """(client, call)."""

    def of(self, plan: Plan) -> Plan:
        """Returns the plan with these parts alone."""
        faults = plan.faults
        if self.faults is not None:
            faults = tuple(fault for number, fault in enumerate(faults) if number in self.faults)
        clients = [client for client in plan.clients if self.clients is None or client.number in self.clients]
        if self.calls is not None:
            calls = self.calls
            clients = [
                replace(client, calls=tuple(call for call in client.calls if (client.number, call.number) in calls))
                for client in clients
            ]
        return replace(plan, faults=faults, clients=tuple(clients))


def draw_plan(scenario: Scenario, seed: int) -> Plan:
    """Draws the world of a seed: the same one each time."""
    choose = random.Random(f"{seed} world")  # noqa: S311 - to be repeated
    profile, clients = _weighted(choose, scenario.profiles), _whole(choose, scenario.clients)
    servers = tuple(_server(scenario, choose, number) for number in range(_whole(choose, scenario.servers)))
    choose = random.Random(f"{seed} faults")  # noqa: S311
    weights = [rule.weight for rule in scenario.rules]
    rules = choose.choices(scenario.rules, weights, k=_whole(choose, scenario.faults)) if scenario.rules else []
    return Plan(
        seed=seed,
        profile=profile,
        servers=servers,
        clients=tuple(_client(scenario, seed, number, servers) for number in range(clients)),
        faults=tuple(rule.draw(choose, clients, len(servers)) for rule in rules),
    )


def _server(scenario: Scenario, choose: random.Random, number: int) -> ServerPlan:
    return ServerPlan(
        number=number,
        credits=round(between(choose, scenario.credits)),
        memory_octets=round(between(choose, scenario.server_memory_octets)),
    )


def _client(scenario: Scenario, seed: int, number: int, servers: tuple[ServerPlan, ...]) -> ClientPlan:
    choose = random.Random(f"{seed} client {number}")  # noqa: S311
    server = choose.choice(servers)
    return ClientPlan(
        number=number,
        server=server.number,
        version=_weighted(choose, scenario.versions),
        extension=_weighted(choose, scenario.extension),
        credits=round(between(choose, scenario.credits)),
        at_once=_whole(choose, scenario.at_once),
        calls=tuple(_call(scenario, choose, each) for each in range(_whole(choose, scenario.calls))),
    )


def _call(scenario: Scenario, choose: random.Random, number: int) -> PlannedCall:
    return PlannedCall(
        number=number,
        work=_weighted(choose, scenario.work),
        octets=round(between(choose, scenario.octets)),
        pause_s=round(choose.random() * 0.01, 6) if choose.random() < 0.5 else 0.0,
        into=choose.random() < 0.5,
        stable=choose.random() < 0.7,
        name=choose.randrange(3),
    )


def _whole(choose: random.Random, limits: Range) -> int:
    """Every number of a range is as likely as another."""
    return choose.randint(round(limits[0]), round(limits[1]))


def _weighted(choose: random.Random, weights: Mapping[str, float]) -> str:
    return choose.choices(list(weights), list(weights.values()))[0]
