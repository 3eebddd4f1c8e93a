"""A failing world is made smaller until nothing can be left out alone."""

from __future__ import annotations

from rpcrdma_lab.simulation.worlds.minimiser import minimise
from rpcrdma_lab.simulation.worlds.plan import Kept, draw_plan
from rpcrdma_lab.simulation.worlds.scenario import named_scenario

PLAN = draw_plan(named_scenario("mixed"), 5)
CLIENT = PLAN.clients[-1].number


def needs(kept: Kept) -> bool:
    """The failure takes the second fault, and two calls of one client."""
    plan = kept.of(PLAN)
    calls = {(client.number, call.number) for client in plan.clients for call in client.calls}
    return PLAN.faults[1] in plan.faults and {(CLIENT, 1), (CLIENT, 3)} <= calls


def test_only_what_the_failure_needs_is_left() -> None:
    wanted = Kept(frozenset({1}), frozenset({CLIENT}), frozenset({(CLIENT, 1), (CLIENT, 3)}))
    assert minimise(PLAN, needs) == wanted
    assert minimise(PLAN, needs, wanted) == wanted


def test_a_failure_that_takes_nothing_is_an_empty_world() -> None:
    assert minimise(PLAN, lambda _: True) == Kept(frozenset(), frozenset(), frozenset())


def test_the_number_of_tries_is_bounded_and_what_is_found_fails() -> None:
    tries: list[bool] = []

    def flaky(kept: Kept) -> bool:
        tries.append(needs(kept))
        return tries[-1]

    assert needs(minimise(PLAN, flaky))
    assert len(tries) <= 400
