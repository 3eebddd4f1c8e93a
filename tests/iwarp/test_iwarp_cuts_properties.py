"""FPDUs that TCP joins and cuts come to the same as FPDUs that come one by one, right or wrong."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.iwarp import IwarpConfig, MpaRole
from rpcrdma.verbs import Access, Completion, MemoryRegion, QueuePairEvent, SoftwareProtectionDomain
from support.draws import draws
from support.raw_iwarp import RawPeer, completions_of, events_of, fpdu, tagged, untagged

pytestmark = pytest.mark.in_python

MEMORY_OCTETS = 90_000

Script = list[tuple[str, int, int, int, int]]
"""Messages: their kind, the size of full segments and how many there are, the size of the last one, and its place."""

_small = st.one_of(st.sampled_from([0, 1, 3, 100, 1424, 2028, 2048, 2049]), st.integers(0, 4000))
_bulk = st.one_of(st.sampled_from([4080, 4096, 9000, 10_400, 10_402]), st.integers(4000, 12_000))
scripts = st.lists(
    st.tuples(
        st.sampled_from(["write", "read", "write", "read", "send"]),
        _small | _bulk,
        st.integers(0, 8),
        _small | _bulk,
        st.integers(0, MEMORY_OCTETS),
    ),
    min_size=1,
    max_size=4,
)
FAULTS = ["none", "crc", "offset", "bounds", "handle", "opcode", "last", "version", "short", "cut"]


class Receiving:
    """A responder with memory that may be written, and another region that may be read only."""

    def __init__(self, *, crc: bool) -> None:
        self.crc = crc
        self.raw = RawPeer(MpaRole.RESPONDER, SoftwareProtectionDomain(draws()), IwarpConfig(crc=crc))
        self.raw.connect(crc=crc)
        self.memory = bytearray(MEMORY_OCTETS)
        self.region = self.raw.pd.register(self.memory, Access.REMOTE_WRITE)
        self.sink_memory = bytearray(MEMORY_OCTETS)
        self.sink = self.raw.pd.register(self.sink_memory, Access.REMOTE_WRITE)
        self.buffers = [bytearray(9000) for _ in range(4)]
        for n, buffer in enumerate(self.buffers):
            self.raw.qp.post_receive(n, memoryview(buffer))

    def outcome(self) -> tuple[bytes, list[Completion], list[QueuePairEvent], object, list[bytearray]]:
        qp = self.raw.qp
        return self.raw.take(), completions_of(qp), events_of(qp), qp.state, self.buffers


@dataclass
class Segment:
    message: str
    opcode: int
    region: MemoryRegion
    start: int
    payload: bytes
    last: bool
    msn: int = 0

    def frame(self, *, crc: bool, fault: str = "none") -> bytes:
        if self.message == "send":
            segment = untagged(3, 0, self.msn, self.payload, offset=self.start, last=self.last)
        else:
            opcode = 2 - self.opcode if fault == "opcode" else self.opcode
            handle = self.region.handle ^ (fault == "handle")
            offset = self.region.offset + self.start + (fault == "offset") + MEMORY_OCTETS * (fault == "bounds")
            last = self.last != (fault == "last")
            payload = self.payload[:-1] if fault == "short" else self.payload
            segment = tagged(opcode, handle, offset, payload, last=last, ddp_version=1 + (fault == "version"))
        if fault == "cut":
            segment = segment[:13]
        return fpdu(segment, crc=crc, flaw=int(fault == "crc"))


@functools.lru_cache(256)
def payload_of(seed: int, octets: int) -> bytes:
    """Random octets, the same ones whenever they are asked for."""
    return random.Random(seed).randbytes(octets)


def segments_of(
    script: Script, region: MemoryRegion, sink: MemoryRegion
) -> tuple[list[Segment], list[tuple[int, int]]]:
    """The segments of all messages, and start and length of the RDMA Reads that are answered."""
    segments: list[Segment] = []
    reads: list[tuple[int, int]] = []
    sends = 0
    for n, (message, full, count, last, at) in enumerate(script):
        sizes = [full] * count + [last]
        if message == "send":
            # It has to fit into its receive.
            sizes = [size for size, end in zip(sizes, itertools.accumulate(sizes), strict=True) if end <= 9000] or [9]
            sends += 1
        total = sum(sizes)
        # A Write may exceed its region, and a response the requested length.
        start = 0 if message == "send" else at
        if message == "read":
            start = min(at, max(MEMORY_OCTETS - total, 0))
            total = min(total, MEMORY_OCTETS - start)
            reads.append((start, total))
        opcode = 2 if message == "read" else 0
        for index, size in enumerate(sizes):
            payload = payload_of(100 * n + index, size)
            end = index == len(sizes) - 1
            target = sink if message == "read" else region
            segments.append(Segment(message, opcode, target, start, payload, end, sends))
            start += size
    return segments, reads


def compare(script: Script, fault: str, faulty: int, arriving: Callable[[], int], *, crc: bool) -> None:
    """Has the same frames taken one by one and in pieces of `arriving` octets; `fault` is that of frame `faulty`."""
    single, cut = (Receiving(crc=crc) for _ in range(2))
    segments, reads = segments_of(script, single.region, single.sink)
    faulty %= len(segments)
    frames = [segment.frame(crc=crc, fault=fault if n == faulty else "none") for n, segment in enumerate(segments)]
    for end in (single, cut):
        # A responder sends nothing, not even a Terminate, before the first frame has come.
        end.raw.give(fpdu(tagged(0, 0, 0), crc=crc))
        for n, (start, length) in enumerate(reads):
            end.raw.qp.post_read(n, end.sink, start, length, 1, 0)
        end.raw.take()
    for frame in frames:
        single.raw.give(frame)
    cut.raw.chunking = lambda _: arriving()
    cut.raw.give(b"".join(frames))
    if fault == "crc" and crc:
        # The octets may be in the memory that their header named.
        wrong = segments[faulty]
        for end in (single, cut):
            if wrong.message == "send":
                end.buffers.clear()
            else:
                memory = end.sink_memory if wrong.message == "read" else end.memory
                octets = max(min(len(wrong.payload), MEMORY_OCTETS - wrong.start), 0)
                memory[wrong.start : wrong.start + octets] = bytes(octets)
    assert cut.outcome() == single.outcome()
    assert cut.memory == single.memory
    assert cut.sink_memory == single.sink_memory


@pytest.mark.req("MPA-49", "DDP-7", "DDP-16", "RD-8")
@given(
    script=scripts,
    crc=st.booleans(),
    fault=st.sampled_from(FAULTS),
    faulty=st.integers(0, 30),
    seed=st.integers(0, 2**32),
    largest=st.sampled_from([1, 30, 3000, 20_000, 200_000]),
)
def test_frames_that_are_cut_do_what_whole_ones_do(
    script: Script, crc: bool, fault: str, faulty: int, seed: int, largest: int
) -> None:
    octets = sum(full * count + last + 20 for _, full, count, last, _ in script)
    numbers = random.Random(seed)
    compare(script, fault, faulty, lambda: numbers.randint(1, max(largest, octets // 200)), crc=crc)
