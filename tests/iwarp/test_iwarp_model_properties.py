"""Two queue pairs have the effect of plain memory and lists, for any posted work and any cuts of the stream."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.testing.joined_pair import JoinedPair
from rpcrdma.verbs import Access, Disconnected, MemoryRegion, SoftwareProtectionDomain, Status, Verb
from support.draws import draws
from support.raw_iwarp import completions_of, events_of

MEMORY = 30_000
ROOM = 9000


@dataclass
class End:
    """One end, its memory that the other one may read and write, and the expected outcome."""

    qp: IwarpQueuePair
    memory: bytearray = field(default_factory=lambda: bytearray(MEMORY))
    sink: bytearray = field(default_factory=lambda: bytearray(MEMORY))
    received: list[bytes] = field(default_factory=list)
    expected: list[bytes] = field(default_factory=list)
    posted: list[tuple[Verb, int]] = field(default_factory=list)
    region: MemoryRegion = field(init=False)
    sink_region: MemoryRegion = field(init=False)

    def __post_init__(self) -> None:
        self.region = self.qp.pd.register(self.memory, Access.REMOTE_READ | Access.REMOTE_WRITE)
        self.sink_region = self.qp.pd.register(self.sink, Access.REMOTE_WRITE)


lengths = st.one_of(st.integers(0, 40), st.integers(0, ROOM), st.sampled_from([112, 1424, 1428, 1429, 4096]))
operations = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(["send", "write", "read", "progress", "invalidate"]),
        lengths,
        st.integers(0, MEMORY - ROOM),
        st.integers(1, 4),
    ),
    max_size=25,
)


@pytest.mark.req("DDP-7", "DDP-11", "RD-8", "RD-9", "RD-12", "RD-13", "MPA-21", "MPA-29", "MPA-51")
@given(
    operations=operations,
    emss=st.sampled_from([134, 1448, 8948, 65483]),
    crc=st.booleans(),
    depth=st.integers(1, 3),
    cut=st.integers(0, 2**32),
    gather_octets=st.sampled_from([1, 3000, 1 << 18]),
)
def test_verbs_do_what_memory_and_lists_would(
    operations: list[tuple[bool, str, int, int, int]], emss: int, crc: bool, depth: int, cut: int, gather_octets: int
) -> None:
    config = IwarpConfig(crc=crc, inbound_reads=depth, outbound_reads=depth)
    a, b = (
        End(IwarpQueuePair(role, SoftwareProtectionDomain(draws(1 + n)), config, emss))
        for n, role in enumerate(MpaRole)
    )
    random_state = cut

    def chunking(available: int) -> int:
        nonlocal random_state
        random_state = (random_state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        # Mostly large pieces, and now and then a sliver.
        return 1 + (random_state >> 33) % (available if random_state >> 20 & 3 else min(available, 24))

    pair = JoinedPair(a.qp, b.qp, chunking=chunking, gather_octets=gather_octets)
    pair.progress()
    b.qp.accept(b"")
    pair.progress()
    a.qp.post_write("opening", [], 0, 0, signaled=False)
    pair.progress()

    for n, (from_a, verb, length, start, pieces) in enumerate(operations):
        near, far = (a, b) if from_a else (b, a)
        data = bytes((n * 31 + i * 7) % 251 for i in range(length))
        step = length // pieces + 1
        gather = [data[at : at + step] for at in range(0, length, step)]
        if verb == "progress":
            pair.progress()
        elif verb in {"send", "invalidate"}:
            buffer = bytearray(ROOM)
            far.qp.post_receive(buffer, memoryview(buffer))
            handle = None
            if verb == "invalidate":
                handle = far.qp.pd.register(bytearray(1), Access.REMOTE_READ).handle
            near.qp.post_send(n, gather, invalidate=handle)
            near.posted.append((Verb.SEND, n))
            far.expected.append(data)
        elif verb == "write":
            near.qp.post_write(n, gather, far.region.handle, far.region.offset + start)
            near.posted.append((Verb.RDMA_WRITE, n))
        else:
            near.qp.post_read(n, near.sink_region, start, length, far.region.handle, far.region.offset + start)
            near.posted.append((Verb.RDMA_READ, n))
    pair.progress()

    for near, far in ((a, b), (b, a)):
        done = []
        for completion in completions_of(near.qp):
            assert completion.status is Status.SUCCESS
            if completion.verb is Verb.RECEIVE:
                assert isinstance(completion.wr, bytearray)
                near.received.append(bytes(completion.wr[: completion.length]))
            else:
                done.append((completion.verb, completion.wr))
        assert done == near.posted
        assert near.received == near.expected
        # Writes are placed in order; nothing else changes the memory.
        model = bytearray(MEMORY)
        for n, (from_a, verb, length, start, _) in enumerate(operations):
            if verb == "write" and (far is a) == from_a:
                model[start : start + length] = bytes((n * 31 + i * 7) % 251 for i in range(length))
        assert near.memory == model
        assert not [event for event in events_of(near.qp) if isinstance(event, Disconnected)]


@given(written=st.integers(0, MEMORY), read=st.integers(0, MEMORY), emss=st.sampled_from([134, 1448, 65483]))
def test_a_read_behind_a_write_brings_what_was_written(written: int, read: int, emss: int) -> None:
    a, b = (End(IwarpQueuePair(role, SoftwareProtectionDomain(draws(5)), IwarpConfig(), emss)) for role in MpaRole)
    pair = JoinedPair(a.qp, b.qp)
    pair.progress()
    b.qp.accept(b"")
    data = bytes(i * 7 % 251 for i in range(written))
    a.qp.post_write(1, [data], b.region.handle, b.region.offset)
    a.qp.post_read(2, a.sink_region, 0, read, b.region.handle, b.region.offset)
    pair.progress()
    assert a.sink[:read] == (data + bytes(MEMORY))[:read]
