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
    """A planned call to the bank, a service of the simulated servers, or a planned operation on a file.

    `number` distinguishes a client's calls, `work` is the kind (one of `WORK`), and `octets` the length of the data.
    """

    number: int
    work: str
    octets: int
    pause_s: float
    """Virtual seconds that the client waits before the call."""
    into: bool
    """Whether the caller passes memory for the result."""
    stable: bool
    """Whether the caller continues only when a written file is on stable storage."""
    name: int
    """The number of the file, or of the client whose account a transfer credits."""


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """The plan of one client.

    It has the numbers of the client and of its server, the choices of protocol version and extension, the credits that
    the client requests, and its calls, of which at most `at_once` run at the same time.
    """

    number: int
    server: int
    version: str
    extension: str
    credits: int
    at_once: int
    calls: tuple[PlannedCall, ...]


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """The plan of one server: its number, the credits that it grants, and the octets of memory for calls."""

    number: int
    credits: int
    memory_octets: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one simulated world, as drawn from a scenario by a seed; `profile` names the fabric's delays."""

    seed: int
    profile: str
    servers: tuple[ServerPlan, ...]
    clients: tuple[ClientPlan, ...]
    faults: tuple[Fault, ...]


class Kept(NamedTuple):
    """The parts of a plan that are kept, by number; None keeps all faults, clients or calls.

    The number of a fault is its index in the plan, those of others are `ClientPlan.number` and `PlannedCall.number`.
    """

    faults: frozenset[int] | None = None
    clients: frozenset[int] | None = None
    calls: frozenset[tuple[int, int]] | None = None
    """Pairs of client number and call number."""

    def of(self, plan: Plan) -> Plan:
        """Returns a copy of `plan` with only those faults, clients and calls whose numbers this object has."""
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
    """Draws the plan of a world: servers, clients, calls and faults, which `scenario` and `seed` alone determine."""
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
    """Returns a random integer from `limits`, (least, most), both included and rounded; each is equally likely."""
    return choose.randint(round(limits[0]), round(limits[1]))


def _weighted(choose: random.Random, weights: Mapping[str, float]) -> str:
    return choose.choices(list(weights), list(weights.values()))[0]
