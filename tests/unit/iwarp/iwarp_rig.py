"""Queue pairs behind start-up, and memory under chosen handles, for tests of messages."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.testing.joined_pair import Chunking, JoinedPair, whole
from rpcrdma.testing.raw_iwarp import RawPeer, events_of, fpdu, tagged
from rpcrdma.verbs import Access, MemoryRegion, SoftwareProtectionDomain

REMOTE = Access.REMOTE_READ | Access.REMOTE_WRITE


def draws(seed: int = 1) -> Callable[[int], int]:
    count = itertools.count(seed)
    return lambda bits: next(count) * 0x9E3779B97F4A7C15F39CC0605CEDC835 >> 7 & (1 << bits) - 1


def connected(role: MpaRole = MpaRole.INITIATOR, config: IwarpConfig | None = None, **options: object) -> RawPeer:
    """A raw peer behind start-up; a responder has had an empty RDMA Write, so that it may speak."""
    emss = options.pop("emss", 1460)
    chunking = options.pop("chunking", whole)
    raw = RawPeer(role, SoftwareProtectionDomain(draws()), config, emss=emss, chunking=chunking)  # type: ignore[arg-type]
    raw.connect(**options)  # type: ignore[arg-type]
    if role is MpaRole.RESPONDER:
        raw.give(fpdu(tagged(0, 0, 0)))
    events_of(raw.qp)
    raw.sent = b""
    return raw


def joined(
    a: IwarpConfig | None = None,
    b: IwarpConfig | None = None,
    *,
    emss: int = 1460,
    chunking: Chunking = whole,
    gather_octets: int = 1 << 18,
) -> tuple[IwarpQueuePair, IwarpQueuePair, JoinedPair]:
    pair = (
        IwarpQueuePair(MpaRole.INITIATOR, SoftwareProtectionDomain(draws(1)), a or IwarpConfig(), emss),
        IwarpQueuePair(MpaRole.RESPONDER, SoftwareProtectionDomain(draws(99)), b or IwarpConfig(), emss),
    )
    both = JoinedPair(*pair, chunking=chunking, gather_octets=gather_octets, recording=True)
    both.progress()
    pair[1].accept(b"")
    both.progress()
    # The responder may speak from here on.
    pair[0].post_write(None, [], 1, 0, signaled=False)
    both.progress()
    for qp in pair:
        events_of(qp)
    both.log_a.clear()
    both.log_b.clear()
    return *pair, both


def pattern(octets: int, seed: int = 3) -> bytes:
    return random.Random(seed).randbytes(octets)


def register(
    pd: SoftwareProtectionDomain, buffer: bytearray, handle: int, offset: int, access: Access = REMOTE
) -> MemoryRegion:
    """Memory under a handle of the test's choice."""
    region = MemoryRegion(handle, offset, memoryview(buffer), access)
    pd.regions[handle] = region
    return region
