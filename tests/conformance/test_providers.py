"""Every provider passes the same suite."""

from __future__ import annotations

import functools

import pytest

from rpcrdma.simulation.fabric import Fabric
from rpcrdma.simulation.loop import VirtualLoop
from rpcrdma.simulation.model import FabricModel
from rpcrdma.testing.endpoint_pair import counted_bits
from rpcrdma.testing.provider_suite import CHECKS, Check, PairParts
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.verbs.memory import SoftwareProtectionDomain


def loopback_pair(
    *,
    private_data: bytes = b"",
    inbound_reads: tuple[int, int] = (32, 32),
    outbound_reads: tuple[int, int] = (32, 32),
) -> PairParts:
    pd_a = SoftwareProtectionDomain(counted_bits(1))
    pd_b = SoftwareProtectionDomain(counted_bits(1 << 20))
    a, b = LoopbackQueuePair.pair(
        pd_a, pd_b, private_data=private_data, inbound_reads=inbound_reads, outbound_reads=outbound_reads
    )
    return a, pd_a, b, pd_b, a.progress


def simulated_pair(
    *,
    private_data: bytes = b"",
    inbound_reads: tuple[int, int] = (32, 32),
    outbound_reads: tuple[int, int] = (32, 32),
    model: FabricModel | None = None,
) -> PairParts:
    loop = VirtualLoop()
    fabric = Fabric(model, loop=loop)
    near, far = fabric.pair(fabric.node("near"), fabric.node("far"), private_data, inbound_reads, outbound_reads)
    near.connect()

    def progress() -> None:
        near.transmit()
        far.transmit()
        loop.run_until_idle()

    return near, near.pd, far, far.pd, progress


@pytest.mark.req("V2-3")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_loopback_provider(check: Check) -> None:
    check(loopback_pair)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_simulated_provider(check: Check) -> None:
    check(simulated_pair)


def test_simulated_provider_of_an_unreliable_service() -> None:
    model = FabricModel(acknowledged=False, coalescing=False, miles=30)
    for check in CHECKS:
        check(functools.partial(simulated_pair, model=model))
