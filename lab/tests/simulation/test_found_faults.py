"""Worlds in which the program once broke a rule, each reduced to the parts that it took."""

from __future__ import annotations

from rpcrdma_lab.simulation.worlds.faults import Fault, FaultKind, Side
from rpcrdma_lab.simulation.worlds.plan import ClientPlan, Plan, PlannedCall, ServerPlan
from rpcrdma_lab.simulation.worlds.world import run_world


def call(number: int, work: str, octets: int, *, pause_s: float = 0.0) -> PlannedCall:
    return PlannedCall(number, work, octets, pause_s, into=False, stable=True, name=0)


def test_a_notice_on_a_connection_that_ended_unnoticed_moves_to_the_next_one() -> None:
    """The customer's reply to the notice was lost with the connection. The bank, which has nothing to send on it, does
    not hear of the end; its customer joins again on another connection, and the call has to move there.
    """
    client = ClientPlan(
        number=0, server=0, version="2", extension="rtr", credits=4, at_once=1,
        calls=(call(0, "transfer", 131, pause_s=0.002), call(1, "statement", 38480)),
    )  # fmt: skip
    cut = Fault(kind=FaultKind.CUT, side=Side.CLIENT, client=0, server=0, after_operations=5, silent=True)
    plan = Plan(
        seed=1,
        profile="campus",
        servers=(ServerPlan(number=0, credits=4, memory_octets=1 << 24),),
        clients=(client,),
        faults=(cut,),
    )
    result = run_world(plan)
    assert not result.violations
    assert result.faults == 1
