"""Queue pairs that share the memory in which octets without a known place are received."""

from __future__ import annotations

import itertools
import random

import pytest

from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole, Scratch
from rpcrdma.testing.joined_pair import Chunking, byte_by_byte, feed, sizes, whole
from rpcrdma.verbs import Access, MemoryRegion, SoftwareProtectionDomain
from support.cases import each_case
from support.raw_iwarp import RawPeer, completions_of, events_of, fpdu, tagged, untagged

pytestmark = pytest.mark.in_python

PEERS = 3
SENDS = 12
WRITTEN_OCTETS = 30_000
SCRATCH_OCTETS = 8192


class Sharing(RawPeer):
    """A responder with a shared `scratch`; `stream` is the output of its initiator."""

    def __init__(self, number: int, scratch: Scratch) -> None:
        draws = itertools.count(1 + 1000 * number)
        super().__init__(MpaRole.RESPONDER, SoftwareProtectionDomain(lambda bits: next(draws) % (1 << bits)))
        self.qp = IwarpQueuePair(MpaRole.RESPONDER, self.pd, IwarpConfig(), 1460, scratch=scratch)
        self.connect()
        self.give(fpdu(tagged(0, 0, 0)))
        events_of(self.qp)
        self.region: MemoryRegion = self.pd.register(bytearray(WRITTEN_OCTETS), Access.REMOTE_WRITE)
        self.messages = [bytes([16 * number + n]) * (1 + 97 * n) for n in range(SENDS)]
        self.received = [memoryview(bytearray(2048)) for _ in self.messages]
        for wr, buffer in enumerate(self.received):
            self.qp.post_receive(wr, buffer)
        # Small frames, which are taken out of the scratch, before and behind a large one, which goes past it.
        self.data = random.Random(number).randbytes(WRITTEN_OCTETS)
        sends = [fpdu(untagged(3, 0, 1 + n, message)) for n, message in enumerate(self.messages)]
        write = fpdu(tagged(0, self.region.handle, self.region.offset, self.data))
        self.stream = memoryview(b"".join([*sends[:6], write, *sends[6:]]))


@pytest.mark.req("MPA-29", "MPA-51")
@pytest.mark.thorough
@each_case("chunking", [byte_by_byte, whole, sizes(random.Random(3).randint)])
def test_each_gets_its_own_octets_whatever_comes_between_them(chunking: Chunking) -> None:
    scratch = Scratch()
    peers = [Sharing(number, scratch) for number in range(PEERS)]
    left = {peer: peer.stream for peer in peers}
    while any(left.values()):
        for peer, stream in left.items():
            if stream:
                left[peer] = stream[feed(peer.qp, stream[: chunking(len(stream))]) :]
                # As far as another one may have used it.
                scratch.view[:] = b"\xff" * SCRATCH_OCTETS
    for peer in peers:
        assert events_of(peer.qp) == []
        assert [completion.length for completion in completions_of(peer.qp)] == list(map(len, peer.messages))
        assert [
            bytes(got[: len(sent)]) for got, sent in zip(peer.received, peer.messages, strict=True)
        ] == peer.messages
        assert bytes(peer.region.view) == peer.data


def test_one_without_a_part_of_a_frame_has_no_memory_of_its_own() -> None:
    scratch = Scratch()
    first, second = (Sharing(number, scratch) for number in range(2))

    def shares(peer: Sharing) -> bool:
        (offered,) = peer.qp.next_buffers()
        assert len(offered) <= SCRATCH_OCTETS
        return offered.obj is scratch.octets

    assert shares(first)
    assert shares(second)
    frame = fpdu(untagged(3, 0, 1, first.messages[0]))
    first.give(frame[:5])
    assert not shares(first)
    assert shares(second)
    first.give(frame[5:])
    second.give(fpdu(untagged(3, 0, 1, second.messages[0])))
    assert shares(second)
