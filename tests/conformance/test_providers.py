"""Every provider passes the same suite."""

from __future__ import annotations

import pytest

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


@pytest.mark.req("V2-3")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_loopback_provider(check: Check) -> None:
    check(loopback_pair)
