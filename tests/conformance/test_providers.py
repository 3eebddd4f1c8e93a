"""Every provider passes the same suite."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from rpcrdma.testing.endpoint_pair import counted_bits
from rpcrdma.testing.joined_sides import connected
from rpcrdma.testing.pair_under_test import Deviations
from rpcrdma.testing.provider_suite import CHECKS, Check, PairParts
from rpcrdma.testing.virtual import Fabric, FabricModel, VirtualLoop
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.verbs.protection_domain import SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Established
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.device_pairs import DEVICE_DEVIATIONS, IWARP_DEVIATIONS, DevicePairs


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
    return PairParts(a, pd_a, b, pd_b, a.progress)


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

    return PairParts(near, near.pd, far, far.pd, progress)


@pytest.mark.req("V2-3")
@each_case("check", CHECKS)
def test_loopback_provider(check: Check) -> None:
    check(loopback_pair)


@each_case("check", CHECKS)
def test_simulated_provider(check: Check) -> None:
    check(simulated_pair)


def test_simulated_provider_of_an_unreliable_service() -> None:
    model = FabricModel(acknowledged=False, coalescing=False, miles=30)
    for check in CHECKS:
        check(functools.partial(simulated_pair, model=model))


def device(deviations: Deviations, windows: int) -> DeviceInMemory:
    """A device that has these deviations."""
    made = DeviceInMemory(windows=windows)
    made.attributes["iwarp"] = deviations.tells_of_no_fault != ""
    return made


@each_case("deviations", [DEVICE_DEVIATIONS, IWARP_DEVIATIONS])
@each_case("check", CHECKS)
def test_provider_of_devices(check: Check, deviations: Deviations) -> None:
    for windows in (0,) if deviations.tells_of_no_fault else (1000, 0):
        pairs = DevicePairs(device(deviations, windows), "127.0.0.1", quiet_s=0.0, deviations=deviations)
        check(pairs.make)
        pairs.close()


@each_case(
    ("deviation", "of"),
    [
        *((name, DEVICE_DEVIATIONS) for name, reason in dataclasses.asdict(DEVICE_DEVIATIONS).items() if reason),
        *(
            (name, IWARP_DEVIATIONS)
            for name, reason in dataclasses.asdict(IWARP_DEVIATIONS).items()
            if reason and not getattr(DEVICE_DEVIATIONS, name)
        ),
    ],
)
def test_a_pair_that_does_not_declare_a_deviation_is_judged_by_the_rule(deviation: str, of: Deviations) -> None:
    declared = dataclasses.replace(of, **{deviation: ""})
    pairs = DevicePairs(device(of, 0), "127.0.0.1", quiet_s=0.0, deviations=declared)
    broken = 0
    for check in CHECKS:
        try:
            check(pairs.make)
        except AssertionError:
            broken += 1
    pairs.close()
    assert broken >= 1


def test_a_passive_side_that_reports_the_connection_twice_breaks_the_rules() -> None:
    def made(**options: Any) -> PairParts:
        parts = loopback_pair(**options)

        def progress() -> None:
            parts.progress()
            events = parts.responder.events
            events += [event for event in events if isinstance(event, Established)]

        return parts._replace(progress=progress)

    with pytest.raises(AssertionError, match="on the passive side after accept"):
        connected(made)
