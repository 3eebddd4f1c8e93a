"""Bulk whose FPDUs are built several in one step arrives as it is, however much of it is handed out at a time."""

from __future__ import annotations

import itertools
import random

from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.testing.joined_pair import JoinedPair
from rpcrdma.verbs import Access, SoftwareProtectionDomain
from support.cases import each_case

EMSS = 1030
PAYLOAD_OCTETS = 1008
"""Of one full FPDU: 14 octets are its header, two would be padding."""


def domain(seed: int) -> SoftwareProtectionDomain:
    numbers = itertools.count(seed)
    return SoftwareProtectionDomain(lambda bits: next(numbers) << 4 & (1 << bits) - 1)


@each_case("read", [False, True])
def test_bulk_whose_last_frame_is_small(read: bool) -> None:
    for gather_octets in (1, 3000, 1 << 18):
        for last in (0, 1, 4, 511, 512, 513, 1000):
            config = IwarpConfig()
            near = IwarpQueuePair(MpaRole.INITIATOR, domain(2), config, EMSS)
            far = IwarpQueuePair(MpaRole.RESPONDER, domain(99), config, EMSS)
            joined = JoinedPair(near, far, gather_octets=gather_octets, recording=True)
            joined.progress()
            far.accept(b"")
            joined.progress()
            joined.log_a.clear()
            joined.log_b.clear()
            data = random.Random(last).randbytes(4 * PAYLOAD_OCTETS + last)
            target = bytearray(len(data))
            if read:
                source = far.pd.register(data, Access.REMOTE_READ)
                sink = near.pd.register(target, Access.REMOTE_WRITE)
                near.post_read("read", sink, 0, len(data), source.handle, source.offset)
            else:
                region = far.pd.register(target, Access.REMOTE_WRITE)
                near.post_write("write", [data], region.handle, region.offset)
            joined.progress()
            assert target == data
            # It went in as many full frames as it takes.
            sent = joined.log_b if read else joined.log_a
            assert int.from_bytes(sent[:2]) == 14 + PAYLOAD_OCTETS
