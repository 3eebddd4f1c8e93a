"""RFC 5042's rules for an RDMA provider: no connection reaches another's memory, no peer exceeds its rights."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable

import pytest

from rpcrdma.iwarp import MpaRole
from rpcrdma.testing.endpoint_pair import counted_bits
from rpcrdma.verbs import Access, Disconnected, MemoryRegion, SoftwareProtectionDomain
from support.cases import each_case
from support.raw_iwarp import RawPeer, events_of, fpdu, read_request, tagged, terminate, untagged

REMOTE = Access.REMOTE_READ | Access.REMOTE_WRITE
SECRET = b"of the one connection and no other.."


def responder(seed: int) -> RawPeer:
    """A connected responder with a protection domain of its own, as each connection has."""
    raw = RawPeer(MpaRole.RESPONDER, SoftwareProtectionDomain(counted_bits(seed)))
    raw.connect()
    raw.give(fpdu(tagged(0, 0, 0)))
    events_of(raw.qp)
    raw.qp.post_receive("in", memoryview(bytearray(100)))
    return raw


Attack = Callable[[MemoryRegion], tuple[int, bytes]]
ATTACKS: dict[str, Attack] = {
    "write": lambda region: (0x1100, tagged(0, region.handle, region.offset, b"\xff" * 10)),
    "read": lambda region: (0x0100, read_request(1, 1, 0, 10, region.handle, region.offset)),
    "invalidate": lambda region: (0x0109, untagged(4, 0, 1, b"x", invalidate=region.handle)),
}


@pytest.mark.req("V1-78", "DDP-19", "RD-17", "V1-77", "V2-94")
@each_case("name", ATTACKS)
def test_a_handle_is_worth_nothing_on_another_connection(name: str) -> None:
    owner, other = responder(1), responder(1 << 40)
    memory = bytearray(SECRET)
    region = owner.pd.register(memory, REMOTE)
    # The attacker knows handle and address to the bit.
    code, segment = ATTACKS[name](region)
    other.give(fpdu(segment))
    assert other.take() == terminate(code, segment, read_header=name == "read")
    assert SECRET[:10] not in other.sent
    (event,) = events_of(other.qp)
    assert isinstance(event, Disconnected)
    assert event.protocol_error
    assert memory == SECRET
    # The connection that the memory is of goes on, and there the handle is good.
    owner.give(fpdu(read_request(1, 5, 0, len(SECRET), region.handle, region.offset)))
    assert owner.take() == fpdu(tagged(2, 5, 0, SECRET))
    assert events_of(owner.qp) == []


@pytest.mark.req("V1-78", "RD-17", "V2-95")
def test_handles_and_addresses_follow_no_order() -> None:
    pd = SoftwareProtectionDomain(secrets.randbits)
    regions = [pd.register(bytearray(1), REMOTE) for _ in range(2000)]
    for values, width in (
        ([region.handle for region in regions], 32),
        ([region.offset >> 12 for region in regions], 36),
        ([a.handle ^ b.handle for a, b in itertools.pairwise(regions)], 32),
    ):
        # Each bit is set about half of the time: nine standard deviations are 200 of 2000.
        for bit in range(width):
            assert 800 <= sum(value >> bit & 1 for value in values) <= 1200
    steps = [b.handle - a.handle for a, b in itertools.pairwise(regions)]
    assert len(set(steps)) > 1990
