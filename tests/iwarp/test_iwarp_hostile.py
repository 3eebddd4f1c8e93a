"""A queue pair against a peer that breaks the rules of DDP and RDMAP: each time the exact Terminate, and no damage."""

from __future__ import annotations

import random

import pytest

from rpcrdma.iwarp import IwarpConfig, MpaRole
from rpcrdma.testing.joined_pair import Chunking, byte_by_byte, sizes, whole
from rpcrdma.verbs import Access, SoftwareProtectionDomain, Status
from support.cases import each_case
from support.draws import draws
from support.raw_iwarp import (
    RawPeer,
    completions_of,
    end_of,
    events_of,
    fpdu,
    read_request,
    tagged,
    terminate,
    untagged,
)

READABLE, WRITABLE, GONE, OTHERS = 0x1001, 0x1002, 0x1003, 0x1004
START = 0x10000
LENGTH = 12_000
ROOM = 8192
END = (1 << 64) - 1


class Victim(RawPeer):
    """A connected responder with memory that may be read, memory that may be written, and one receive."""

    def __init__(self, chunking: Chunking = whole, *, crc: bool = True, depth: int = 2) -> None:
        super().__init__(MpaRole.RESPONDER, SoftwareProtectionDomain(draws()), IwarpConfig(crc=crc), chunking=chunking)
        self.connect(crc=crc, depth=depth)
        self.give(fpdu(tagged(0, 0, 0), crc=crc))
        events_of(self.qp)
        self.memory = bytearray(LENGTH)
        self.readable = self._register(READABLE, Access.REMOTE_READ)
        self.writable = self._register(WRITABLE, Access.REMOTE_WRITE)
        self.buffer = bytearray(ROOM)
        self.qp.post_receive("receive", memoryview(self.buffer))

    def _register(self, handle: int, access: Access) -> bytearray:
        memory = bytearray(LENGTH)
        region = self.pd.register(memory, access)
        del self.pd.regions[region.handle]
        region.handle, region.offset = handle, START
        self.pd.regions[handle] = region
        return memory

    def reading(self, at: int = 50, octets: int = 100) -> int:
        """Posts an RDMA Read; answers the sink's offset. Its handle is WRITABLE."""
        self.qp.post_read("read", self.pd.regions[WRITABLE], at, octets, 7, 0)
        self.take()
        return START + at


BIG = bytes(9000)

# name: (code, segment), the segment being the one that the Terminate is about.
UNTAGGED = {
    "DDP version 0": (0x1206, untagged(3, 0, 1, b"x", ddp_version=0)),
    "DDP version 2": (0x1206, untagged(3, 0, 1, b"x", ddp_version=2)),
    "RDMAP version 0": (0x0205, untagged(3, 0, 1, b"x", rdmap_version=0)),
    "RDMAP version 2": (0x0205, untagged(3, 0, 1, b"x", rdmap_version=2)),
    "Write that is untagged": (0x0206, untagged(0, 0, 1)),
    "Read Response that is untagged": (0x0206, untagged(2, 0, 1)),
    "Immediate Data": (0x0206, untagged(8, 0, 1, bytes(8))),
    "Immediate Data with Solicited Event": (0x0206, untagged(9, 0, 1, bytes(8))),
    "Atomic Request": (0x0206, untagged(10, 1, 1, bytes(52))),
    "Atomic Response": (0x0206, untagged(11, 3, 1, bytes(12))),
    "opcode f": (0x0206, untagged(15, 0, 1)),
    "Send on queue 1": (0x1201, untagged(3, 1, 1)),
    "Send on queue 3": (0x1201, untagged(3, 3, 1)),
    "Send on the last queue": (0x1201, untagged(3, 0xFFFFFFFF, 1)),
    "Read Request on queue 0": (0x1201, untagged(1, 0, 1, bytes(28))),
    "Terminate on queue 0": (0x1201, untagged(7, 0, 1, bytes(4))),
    "message 0": (0x1203, untagged(3, 0, 0)),
    "message 2 first": (0x1203, untagged(3, 0, 2)),
    "Read Request 2 first": (0x1203, read_request(2, 1, 0, 10, READABLE, START)),
    "Terminate 2": (0x1203, untagged(7, 2, 2, bytes(4))),
    "message offset": (0x1204, untagged(3, 0, 1, b"x", offset=1)),
    "large message offset": (0x1204, untagged(3, 0, 1, BIG, offset=0xFFFFFFFF)),
    "Read Request with an offset": (0x1204, untagged(1, 1, 1, bytes(28), offset=28)),
    "Terminate with an offset": (0x1204, untagged(7, 2, 1, bytes(4), offset=4)),
    "Send larger than the receive": (0x1205, untagged(3, 0, 1, bytes(ROOM + 1))),
    "Read Request too long": (0x1205, untagged(1, 1, 1, bytes(29))),
    "very long Read Request": (0x1205, untagged(1, 1, 1, bytes(9000))),
    "Read Request too short": (0x02FF, untagged(1, 1, 1, bytes(27))),
    "Read Request that goes on": (0x02FF, untagged(1, 1, 1, bytes(28), last=False)),
    "invalidation of an unknown handle": (0x0109, untagged(4, 0, 1, b"x", invalidate=GONE)),
    "invalidation with event of an unknown handle": (0x0109, untagged(6, 0, 1, invalidate=0)),
}
TAGGED = {
    "DDP version 0": (0x1104, tagged(0, WRITABLE, START, b"x", ddp_version=0)),
    "DDP version 3": (0x1104, tagged(0, WRITABLE, START, BIG, ddp_version=3)),
    "RDMAP version 3": (0x0205, tagged(0, WRITABLE, START, b"x", rdmap_version=3)),
    "Send that is tagged": (0x0206, tagged(3, WRITABLE, START, b"x")),
    "Read Request that is tagged": (0x0206, tagged(1, WRITABLE, START, bytes(28))),
    "Terminate that is tagged": (0x0206, tagged(7, WRITABLE, START, bytes(4))),
    "Read Response that nobody asked for": (0x0206, tagged(2, WRITABLE, START, b"x")),
    "unknown handle": (0x1100, tagged(0, GONE, START, b"x")),
    "unknown handle, much data": (0x1100, tagged(0, GONE, START, BIG)),
    "handle that is for reading": (0x1100, tagged(0, READABLE, START, b"x")),
    "in front of the memory": (0x1101, tagged(0, WRITABLE, START - 1, b"xy")),
    "behind the memory": (0x1101, tagged(0, WRITABLE, START + LENGTH, b"x")),
    "past the end": (0x1101, tagged(0, WRITABLE, START + LENGTH - 1, b"xy")),
    "past the end, much data": (0x1101, tagged(0, WRITABLE, START + LENGTH - 8999, BIG)),
    "past the end, more data than comes at once": (0x1101, tagged(0, WRITABLE, START, b"x" * 30_000)),
    "past the end of all offsets": (0x1103, tagged(0, WRITABLE, END, b"xy")),
}
SEGMENTS = {"untagged": UNTAGGED, "tagged": TAGGED}


def assert_terminated(victim: Victim, expected: bytes) -> None:
    event = end_of(victim.qp)
    assert (event.by_peer, event.protocol_error) == (True, True)
    # The upper layer is told what the Terminate tells: layer, type and code.
    assert f"({expected[20] >> 4}/{expected[20] & 15}/{expected[21]:02x})" in event.reason
    assert "; " not in event.reason, "which would stand before a remedy"
    assert (victim.take(), victim.qp.wants_close) == (expected, True)
    assert {completion.status for completion in completions_of(victim.qp)} <= {Status.FLUSHED}
    assert victim.writable == bytes(LENGTH)
    assert victim.buffer == bytes(ROOM)
    # The following octets are dropped.
    victim.give(fpdu(tagged(0, WRITABLE, START, b"later")) + fpdu(untagged(3, 0, 1, b"later")))
    assert victim.writable == bytes(LENGTH)
    assert (victim.take(), events_of(victim.qp)) == (b"", [])


in_random_sizes = sizes(random.Random(3).randint)
cuts = each_case("chunking", [whole, byte_by_byte, in_random_sizes])


@pytest.mark.req(
    "DDP-15",
    "DDP-16",
    "DDP-17",
    "DDP-18",
    "DDP-19",
    "MPA-49",
    "RD-4",
    "RD-10",
    "RD-11",
    "RD-14",
    "RD-15",
    "RD-16",
    "V1-78",
    "DDP-4",
    "DDP-6",
    "DDP-11",
    "RD-1",
    "RD-2",
    "DDP-3",
)
@each_case(("kind", "name"), [(kind, name) for kind in SEGMENTS for name in SEGMENTS[kind]])
@cuts
def test_segments_against_the_rules(kind: str, name: str, chunking: Chunking) -> None:
    victim = Victim(chunking)
    code, segment = SEGMENTS[kind][name]
    victim.give(fpdu(segment))
    if code == 0x0109:
        # Found at delivery, when the message is in its buffer, which the upper layer never gets to see as received.
        victim.buffer[:] = bytes(ROOM)
    assert_terminated(victim, terminate(code, segment))


READS = {
    "unknown handle": (0x0100, (GONE, START, 10)),
    "handle that is for writing": (0x0102, (WRITABLE, START, 10)),
    "in front of the memory": (0x0101, (READABLE, START - 1, 10)),
    "past the end": (0x0101, (READABLE, START, LENGTH + 1)),
    "very long": (0x0101, (READABLE, START, 0xFFFFFFFF)),
    "past the end of all offsets": (0x0104, (READABLE, END, 2)),
}


@pytest.mark.req("RD-7", "RD-16", "RD-4", "RD-15", "DDP-20", "V1-78", "V1-77")
@each_case("name", READS)
@cuts
def test_reads_of_what_may_not_be_read(name: str, chunking: Chunking) -> None:
    victim = Victim(chunking)
    code, (handle, offset, length) = READS[name]
    request = read_request(1, 5, 6, length, handle, offset)
    victim.give(fpdu(request))
    assert_terminated(victim, terminate(code, request, read_header=True))


@pytest.mark.req("RD-13", "RD-8", "DDP-18", "V1-89", "RD-6")
@each_case("agreed", [0, 2])
@cuts
def test_more_reads_than_agreed(agreed: int, chunking: Chunking) -> None:
    victim = Victim(chunking, depth=agreed)
    requests = [read_request(n, 5, 6, 10, READABLE, START) for n in range(1, agreed + 2)]
    victim.give(b"".join(map(fpdu, requests)))
    assert_terminated(victim, terminate(0x0207, requests[agreed]))


@pytest.mark.req("DDP-16", "RD-9", "DDP-18")
def test_a_send_without_a_receive() -> None:
    victim = Victim()
    victim.give(fpdu(untagged(3, 0, 1)))
    events_of(victim.qp)
    completions_of(victim.qp)
    segment = untagged(3, 0, 2, BIG)
    victim.give(fpdu(segment))
    assert_terminated(victim, terminate(0x1202, segment))


FIRST_SEND = untagged(3, 0, 1, bytes(5000), last=False)
SEQUELS = {
    "gap": (0x1204, untagged(3, 0, 1, b"x", offset=5001)),
    "overlap": (0x1204, untagged(3, 0, 1, b"x", offset=4999)),
    "start again": (0x1204, untagged(3, 0, 1, b"x")),
    "next message": (0x1203, untagged(3, 0, 2, b"x")),
    "other opcode": (0x02FF, untagged(5, 0, 1, b"x", offset=5000)),
    "other handle to invalidate": (0x02FF, untagged(3, 0, 1, b"x", offset=5000, invalidate=1)),
    "too long": (0x1205, untagged(3, 0, 1, bytes(ROOM - 4999), offset=5000)),
}
RESPONSES = {
    "other handle": (0x1100, tagged(2, READABLE, START + 50, bytes(100))),
    "in front": (0x1101, tagged(2, WRITABLE, START + 49, bytes(100))),
    "behind": (0x1101, tagged(2, WRITABLE, START + 51, bytes(100))),
    "too long": (0x1101, tagged(2, WRITABLE, START + 50, bytes(101))),
    "much too long": (0x1101, tagged(2, WRITABLE, START + 50, BIG)),
    "too short": (0x1101, tagged(2, WRITABLE, START + 50, bytes(99))),
    "empty": (0x1101, tagged(2, 0, 0)),
}
LONG_RESPONSES = {
    "too long": (0x1101, tagged(2, WRITABLE, START + 5000, bytes(5001), last=False)),
    "too long at its end": (0x1101, tagged(2, WRITABLE, START + 5000, bytes(5001))),
    "too short": (0x1101, tagged(2, WRITABLE, START + 5000, bytes(4999))),
    "gap": (0x1101, tagged(2, WRITABLE, START + 5001, bytes(5000))),
    "overlap": (0x1101, tagged(2, WRITABLE, START + 4999, bytes(5000))),
    "other handle": (0x1100, tagged(2, READABLE, START + 5000, bytes(5000))),
    "a Write": (0x0206, tagged(0, WRITABLE, START + 5000, bytes(5000))),
    "DDP version": (0x1104, tagged(2, WRITABLE, START + 5000, bytes(5000), ddp_version=2)),
}


@pytest.mark.req("DDP-5", "DDP-6", "DDP-8", "DDP-16", "DDP-18", "RD-8", "RD-16", "DDP-11")
@each_case(
    ("read", "first", "sequels"),
    [
        (None, fpdu(FIRST_SEND), SEQUELS),
        ((50, 100), b"", RESPONSES),
        ((0, 10_000), fpdu(tagged(2, WRITABLE, START, bytes(5000), last=False)), LONG_RESPONSES),
    ],
)
@cuts
def test_later_segments_of_a_send_and_responses_to_a_read_against_the_rules(
    read: tuple[int, int] | None, first: bytes, sequels: dict[str, tuple[int, bytes]], chunking: Chunking
) -> None:
    for code, segment in sequels.values():
        victim = Victim(chunking)
        if read:
            victim.reading(*read)
        victim.give(first + fpdu(segment))
        assert_terminated(victim, terminate(code, segment))


TAGGED_SEQUELS = {
    "other handle": (0x1100, tagged(0, READABLE, START, b"x")),
    "another that may be written": (0x1100, tagged(0, OTHERS, START, b"x")),
    "another that may be written, much data": (0x1100, tagged(0, OTHERS, START + 5000, bytes(5000))),
    "other opcode": (0x0206, tagged(2, WRITABLE, START, b"x")),
}


@pytest.mark.req("DDP-5", "DDP-16", "RD-5")
@each_case("name", TAGGED_SEQUELS)
@each_case("octets", [10, 5000])
@cuts
def test_later_segments_of_a_write_against_the_rules(name: str, octets: int, chunking: Chunking) -> None:
    victim = Victim(chunking)
    code, segment = TAGGED_SEQUELS[name]
    other = victim._register(OTHERS, Access.REMOTE_WRITE)
    victim.reading()
    victim.give(fpdu(tagged(0, WRITABLE, START, bytes(octets), last=False)) + fpdu(segment))
    assert_terminated(victim, terminate(code, segment))
    assert other == bytes(LENGTH)


@pytest.mark.req("RD-8", "RD-16", "DDP-16", "DDP-9")
@each_case(("code", "other", "ahead"), [(0x1100, True, 0), (0x1101, False, 1)])
@cuts
def test_an_empty_segment_leads_a_read_response_nowhere_else(
    code: int, other: bool, ahead: int, chunking: Chunking
) -> None:
    victim = Victim(chunking)
    memory = bytearray(300)
    region = victim.pd.register(memory, Access.REMOTE_WRITE)
    region.offset = victim.reading()
    # Handle and offset of an empty segment are not looked at, but those of the next one are.
    handle, offset = region.handle if other else WRITABLE, region.offset + ahead
    segment = tagged(2, handle, offset, b"x" * (100 - ahead))
    victim.give(fpdu(tagged(2, handle, offset, last=False)) + fpdu(segment))
    assert_terminated(victim, terminate(code, segment))
    assert memory == bytes(300)


@pytest.mark.req("DDP-20", "RD-17", "RD-8")
def test_a_read_response_for_memory_that_was_withdrawn() -> None:
    victim = Victim()
    offset = victim.reading()
    victim.pd.invalidate(victim.pd.regions[WRITABLE])
    segment = tagged(2, WRITABLE, offset, bytes(100))
    victim.give(fpdu(segment))
    assert_terminated(victim, terminate(0x1100, segment))


@pytest.mark.req("DDP-20", "RD-17", "DDP-17")
@each_case("at", [16, 100, 5000, 9015])
def test_memory_withdrawn_while_a_segment_arrives_is_not_touched_any_more(at: int) -> None:
    victim = Victim()
    segment = tagged(0, WRITABLE, START, b"x" * 9000)
    frame = fpdu(segment)
    victim.give(frame[: 2 + at])
    region = victim.pd.regions[WRITABLE]
    victim.pd.invalidate(region)
    placed = bytes(victim.writable)
    victim.give(frame[2 + at :])
    assert victim.writable == placed
    victim.writable[:] = bytes(LENGTH)
    assert_terminated(victim, terminate(0x1100, segment))


@pytest.mark.req("MPA-25", "MPA-30", "MPA-47", "MPA-49", "MPA-50", "MPA-4", "DDP-1")
@each_case(
    "segment",
    [
        untagged(3, 0, 1, b"x"),
        untagged(3, 0, 1, bytes(8000)),
        tagged(0, WRITABLE, START, b"x"),
        tagged(0, WRITABLE, START, BIG),
        tagged(0, GONE, START, BIG),
        read_request(1, 1, 1, 1, READABLE, START),
        untagged(7, 2, 1, bytes(4)),
    ],
)
@cuts
def test_a_corrupt_frame_is_never_delivered(segment: bytes, chunking: Chunking) -> None:
    victim = Victim(chunking)
    victim.give(fpdu(segment, flaw=1))
    victim.writable[:] = bytes(LENGTH)
    victim.buffer[:] = bytes(ROOM)
    assert_terminated(victim, terminate(0x2002))


@pytest.mark.req("MPA-25", "MPA-30")
def test_a_flaw_in_any_octet_is_found() -> None:
    for segment in (untagged(3, 0, 1, b"hello"), tagged(0, WRITABLE, START, bytes(3000))):
        frame = bytearray(fpdu(segment))
        # Behind the length, which says where the CRC is.
        for at in (*range(2, 40), *range(40, len(frame), 97)):
            if at >= len(frame):
                break
            victim = Victim()
            frame[at] ^= 0x10
            victim.give(frame)
            frame[at] ^= 0x10
            assert victim.take() == terminate(0x2002)


@each_case(
    ("segment", "length"), [*((tagged(0, 0, 0), n) for n in (0, 1, 13)), *((untagged(3, 0, 1), n) for n in (14, 17))]
)
@cuts
def test_frames_without_room_for_their_header(segment: bytes, length: int, chunking: Chunking) -> None:
    victim = Victim(chunking)
    victim.give(fpdu(segment[:length]) + bytes(40))
    assert_terminated(victim, terminate(0x1000))


def test_the_largest_frame_that_a_length_can_name_is_taken() -> None:
    victim = Victim()
    memory = bytearray(1 << 17)
    region = victim.pd.register(memory, Access.REMOTE_WRITE)
    data = random.Random(1).randbytes(65535 - 14)
    victim.give(fpdu(tagged(0, region.handle, region.offset, data)))
    assert memory == data + bytes((1 << 17) - len(data))
    assert events_of(victim.qp) == []


@pytest.mark.req("RD-15", "RD-11")
def test_only_the_first_error_is_told() -> None:
    victim = Victim()
    victim.give(fpdu(untagged(3, 0, 2)) + fpdu(tagged(0, GONE, 0, b"x")) + fpdu(untagged(3, 0, 1), flaw=1))
    assert_terminated(victim, terminate(0x1203, untagged(3, 0, 2)))


@pytest.mark.req("RD-11", "DDP-17", "DDP-11")
def test_a_good_frame_in_front_of_a_bad_one_is_delivered() -> None:
    victim = Victim()
    victim.give(fpdu(untagged(3, 0, 1, b"good")) + fpdu(untagged(3, 0, 1, b"bad")))
    assert bytes(victim.buffer[:5]) == b"good\0"
    assert [completion.status for completion in completions_of(victim.qp)] == [Status.SUCCESS]
    assert victim.take() == terminate(0x1203, untagged(3, 0, 1, b"bad"))
