"""Sending step by step: which FPDUs one gather has, in which pieces, and the record that it leaves."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence

import pytest

from rpcrdma.iwarp.outbound import ReadResponse
from rpcrdma.iwarp.segments import ReadHeader
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.work import ReadWork, Work
from rpcrdma.verbs import Access, Completion, MemoryRegion, SoftwareProtectionDomain, Status, Verb
from rpcrdma.wire.buffers import Buffer
from support.cases import each_case
from support.raw_iwarp import bound_gather, fpdu, read_request, tagged, untagged

pytestmark = pytest.mark.in_python

READ, SEND, INVALIDATE, WRITE = 0x41, 0x43, 0x44, 0x40
HANDLE, BASE = 7, 1000
TAGGED_MAX, UNTAGGED_MAX, FRAME_MAX = 112, 108, 136
"""Payload of a segment, and octets of an FPDU, where ULPDUs have up to 128 octets."""


def pattern(octets: int, start: int = 0) -> bytes:
    return bytes((start + n) * 3 + n // 256 & 0xFF for n in range(octets))


class Scene:
    """A sender that may speak, with memory of 2000 octets that the peer may read."""

    def __init__(
        self, limit: int = 128, *, reads: int = 2, crc: bool = True, markers: bool = False, one_message: bool = False
    ) -> None:
        self.pd = SoftwareProtectionDomain(lambda bits: 0)
        self.completions: deque[Completion] = deque()
        self.sender = Sender(self.pd, self.completions, flush_each_message=one_message)
        assert (self.sender.under_way, self.sender.open, self.sender.drained) == (False, False, False)
        self.sender.start(limit, reads, crc=crc, markers=markers)
        self.sender.open = True
        self.memory = bytearray(pattern(2000))
        self.region = MemoryRegion(HANDLE, BASE, memoryview(self.memory), Access.REMOTE_READ)
        self.pd.regions[HANDLE] = self.region

    def post(self, work: Work) -> Work:
        self.sender.send_queue.append(work)
        return work

    def send(self, wr: object, gather: Sequence[Buffer], *, invalidate: int | None = None) -> Work:
        control = SEND if invalidate is None else INVALIDATE
        return self.post(Work(wr, Verb.SEND, control, gather, sum(map(len, gather)), invalidate or 0))

    def write(self, wr: object, gather: Sequence[Buffer], handle: int = 9, offset: int = 5000) -> Work:
        return self.post(Work(wr, Verb.RDMA_WRITE, WRITE, gather, sum(map(len, gather)), handle, offset))

    def read(self, wr: object, octets: int = 40) -> ReadWork:
        work = ReadWork(wr, READ, octets, 9, 5000, 11, 6000)
        self.post(work)
        return work

    def asked(
        self, octets: int, *, start: int = 0, sink: int = 4, sink_offset: int = 300, msn: int = 1
    ) -> ReadResponse:
        """The peer has asked for memory."""
        request = (46, 0x41, READ, 0, 1, msn, 0)
        header = ReadHeader(sink, sink_offset, octets, HANDLE, BASE + start)
        response = ReadResponse(header, request)
        self.sender.responses.append(response)
        return response

    def gather(self, octets: int = 1 << 16) -> list[Buffer]:
        bound_gather(self.sender)
        return self.sender.next_gather(octets)

    def once(self, octets: int = 1 << 16) -> bytes:
        """The octets of one gather, all of which are sent."""
        data = b"".join(self.gather(octets))
        if data:
            self.sender.report(len(data))
        return data

    @property
    def done(self) -> list[object]:
        found = [completion.wr for completion in self.completions]
        self.completions.clear()
        return found


def sends(data: bytes, msn: int = 1, *, opcode: int = 3, invalidate: int = 0, most: int = UNTAGGED_MAX) -> bytes:
    """The FPDUs of a Send."""
    stream = b""
    for at in range(0, max(len(data), 1), most):
        last = at + most >= len(data)
        part = data[at : at + most]
        stream += fpdu(untagged(opcode, 0, msn, part, offset=at, last=last, invalidate=invalidate))
    return stream


def writes(
    data: bytes, *, opcode: int = 0, handle: int = 9, offset: int = 5000, most: int = TAGGED_MAX, crc: bool = True
) -> bytes:
    """The FPDUs of an RDMA Write, or of a response."""
    stream = b""
    for at in range(0, max(len(data), 1), most):
        part = data[at : at + most]
        segment = tagged(opcode, handle, offset + at & (1 << 64) - 1, part, last=at + most >= len(data))
        stream += fpdu(segment, crc=crc)
    return stream


LENGTHS = [0, 1, 2, 3, 4, 107, 108, 109, 215, 216, 217, 324, 325]


@pytest.mark.req("DDP-2", "DDP-6", "DDP-7", "DDP-8", "DDP-9", "DDP-10", "MPA-3")
def test_a_send_is_one_message_with_the_next_number() -> None:
    for length, cut in itertools.product(LENGTHS, (0, 1, 50, 108, 200)):
        scene = Scene()
        data = pattern(length)
        first = scene.send("first", [data[:cut], data[cut:]])
        second = scene.send("second", [data], invalidate=77)
        assert b"".join(scene.gather()) == sends(data) + sends(data, 2, opcode=4, invalidate=77)
        assert scene.sender._msn == [3, 1]
        assert (first.end, second.end) == (len(sends(data)), 2 * len(sends(data)))
        assert scene.sender.current is None
        assert not scene.sender.under_way
        assert list(scene.sender.in_flight) == [first, second]
        assert scene.done == []
        scene.once()
        assert scene.done == ["first", "second"]
        assert scene.once() == b""


@pytest.mark.req("DDP-2", "DDP-5", "DDP-7", "DDP-8", "DDP-9", "DDP-10", "RD-5", "MPA-3")
@each_case("length", [0, 1, 111, 112, 113, 224, 225, 512, 513, 600, 672])
@each_case("pieces", [1, 2])
def test_a_write_is_cut_to_the_segment_size(length: int, pieces: int) -> None:
    scene = Scene()
    data = pattern(length)
    gather = [data] if pieces == 1 else [data[:13], data[13:]]
    first = scene.write("first", gather)
    scene.send("second", [b"x"])
    assert b"".join(scene.gather()) == writes(data) + sends(b"x")
    assert first.end == len(writes(data))
    assert scene.sender.current is None
    scene.once()
    assert scene.done == ["first", "second"]


@each_case("length", [100, 300, 600])
def test_one_frame_at_a_time_is_the_same_message(length: int) -> None:
    data = pattern(length)
    ways: list[tuple[Callable[[Scene], object], bytes]] = [
        (lambda scene: scene.send("w", [data]), sends(data)),
        (lambda scene: scene.write("w", [data]), writes(data)),
        (lambda scene: scene.write("w", [data[:40], data[40:]]), writes(data)),
        (lambda scene: scene.asked(length, sink=9, sink_offset=5000), writes(data, opcode=2)),
    ]
    for post, whole in ways:
        scene = Scene()
        post(scene)
        stream = b""
        for _ in range(20):
            assert scene.done == []
            frame = scene.once(1)
            size = (int.from_bytes(frame[:2], "big") + 5 & ~3) + 4
            assert len(frame) == size
            stream += frame
            assert whole.startswith(stream)
            if stream == whole:
                break
            assert scene.sender.under_way
        assert stream == whole
        assert not scene.sender.under_way
        assert scene.once(1) == b""


@each_case(
    ("gather", "lengths"),
    [
        # Short payload is one piece with its headers.
        ([512], [20 + 512 + 4]),
        ([256, 256], [20 + 512 + 4]),
        ([513], [20, 513, 3 + 4]),
        ([300, 300], [20, 300, 300, 4]),
        # So is payload in very many pieces, which leaves it one piece.
        ([10] * 60, [20, *[10] * 60, 4]),
        ([10] * 61, [20, 610, 2 + 4]),
    ],
)
def test_the_pieces_of_a_gather_are_few(gather: list[int], lengths: list[int]) -> None:
    scene = Scene(1454)
    data = [pattern(length, n) for n, length in enumerate(gather)]
    scene.send(1, data)
    pieces = scene.gather()
    assert list(map(len, pieces)) == lengths
    assert b"".join(pieces) == sends(b"".join(data), most=1436)
    assert scene.sender.out.built == sum(lengths)


@each_case(("length", "pieces"), [(512, 1), (513, 3)])
def test_a_long_write_of_one_buffer_is_not_copied(length: int, pieces: int) -> None:
    scene = Scene(1454)
    data = pattern(length)
    scene.write(1, [data])
    gather = scene.gather()
    assert len(gather) == pieces
    assert b"".join(gather) == writes(data, most=1440)
    assert pieces == 1 or (isinstance(gather[1], memoryview) and gather[1].obj is data)


def test_a_response_is_not_copied() -> None:
    scene = Scene(1454)
    scene.asked(1000)
    gather = scene.gather()
    assert isinstance(gather[1], memoryview)
    assert gather[1].obj is scene.memory


@each_case("crc", [True, False])
@each_case("length", [5, 600])
def test_crcs_are_made_if_they_were_agreed_on(crc: bool, length: int) -> None:
    scene = Scene(1454, crc=crc)
    data = pattern(length)
    scene.send(1, [data])
    scene.write(2, [data])
    scene.read(3)
    scene.asked(length)
    assert b"".join(scene.gather()) == (
        fpdu(tagged(2, 4, 300, data), crc=crc)
        + fpdu(untagged(3, 0, 1, data), crc=crc)
        + fpdu(tagged(0, 9, 5000, data), crc=crc)
        + fpdu(read_request(1, 11, 6000, 40, 9, 5000), crc=crc)
    )


# How much one gather has.


@each_case(("octets", "frames"), [(1, 1), (136, 1), (267, 1), (268, 2), (399, 2), (400, 3)])
def test_so_does_a_gather_of_bulk(octets: int, frames: int) -> None:
    # Frames of 132 octets.
    posts: list[Callable[[Scene], object]] = [
        lambda scene: scene.write(1, [bytes(1120)]),
        lambda scene: scene.write(1, [bytes(1000), bytes(120)]),
        lambda scene: scene.asked(1120),
    ]
    for post in posts:
        scene = Scene()
        post(scene)
        assert len(scene.once(octets)) == 132 * frames
        assert scene.sender._position == 112 * frames
        assert len(scene.once(octets)) == 132 * frames


def test_a_gather_has_so_many_pieces_and_no_more() -> None:
    scene = Scene()
    for n in range(500):
        scene.send(n, [b"x"])
    assert len(scene.gather()) == 448
    assert len(scene.once()) == 448 * 28
    assert len(scene.gather()) == 52
    bulk = Scene()
    bulk.write(1, [bytes(112 * 200)])
    # A frame is three pieces, and the last one that is begun is the 150th.
    assert len(bulk.gather()) == 450
    bulk.once()
    assert len(bulk.gather()) == 150
    scattered = Scene(64768)
    scattered.write(1, [bytes([n % 256]) for n in range(5000)])
    assert len(scattered.gather()) <= 512


def test_messages_can_be_handed_out_one_by_one() -> None:
    scene = Scene(one_message=True)
    data = pattern(300)
    scene.send(1, [data])
    scene.send(2, [b"x"])
    scene.read(3)
    scene.write(4, [data])
    scene.write(5, [bytes(600)])
    scene.asked(300)
    scene.asked(0)
    assert [scene.once() for _ in range(8)] == [
        writes(data, opcode=2, handle=4, offset=300),
        sends(data),
        fpdu(tagged(2, 4, 300)),
        sends(b"x", 2),
        fpdu(read_request(1, 11, 6000, 40, 9, 5000)),
        writes(data),
        writes(bytes(600)),
        b"",
    ]


# Turns.


@pytest.mark.req("DDP-10")
def test_responses_and_work_take_turns_until_one_of_them_is_used_up() -> None:
    scene = Scene()
    data = pattern(150)
    for n in range(3):
        scene.asked(150, sink=n)
    scene.write(1, [data])
    assert b"".join(scene.gather()) == (
        writes(data, opcode=2, handle=0, offset=300)
        + writes(data)
        + writes(data, opcode=2, handle=1, offset=300)
        + writes(data, opcode=2, handle=2, offset=300)
    )
    assert scene.sender.responses == []
    scene.once()
    # After responses it is the turn of work.
    scene.asked(0)
    for n in range(2):
        scene.send(n, [b"x"])
    assert scene.once() == sends(b"x", 1) + fpdu(tagged(2, 4, 300)) + sends(b"x", 2)


@pytest.mark.req("RD-13", "RD-8", "EM-8", "V1-89")
def test_reads_beyond_the_depth_wait_and_hold_back_work_but_not_responses() -> None:
    scene = Scene(reads=1)
    first, second = scene.read("first"), scene.read("second")
    scene.send("send", [b"x"])
    assert scene.once() == fpdu(read_request(1, 11, 6000, 40, 9, 5000))
    assert scene.sender.reads == [first]
    assert (scene.sender.under_way, list(scene.sender.in_flight)) == (False, [first])
    assert scene.once() == b""
    scene.asked(0)
    scene.asked(0, sink=5)
    assert scene.once() == fpdu(tagged(2, 4, 300)) + fpdu(tagged(2, 5, 300))
    assert scene.sender.reads == [first]
    assert scene.done == []
    scene.sender.read_answered()
    assert (first.done, second.done, scene.sender.reads) == (True, False, [])
    assert scene.done == ["first"]
    assert scene.once() == fpdu(read_request(2, 11, 6000, 40, 9, 5000)) + sends(b"x")
    assert scene.sender._msn == [2, 3]
    # The Send completes behind the Read before it.
    assert scene.done == []
    scene.sender.read_answered()
    assert scene.done == ["second", "send"]
    assert not scene.sender.in_flight


# Responses.


@pytest.mark.req("RD-3")
@each_case("markers", [False, True])
@each_case("length", [0, 1, 111, 112, 113, 224, 300])
def test_a_response_shows_the_memory_and_is_then_over(length: int, markers: bool) -> None:
    scene = Scene(markers=markers)
    scene.asked(length, start=20, sink_offset=(1 << 64) - 50)
    stream = b"".join(scene.gather())
    if markers:
        assert stream[:4] == bytes(4)
        position = len(stream)
        assert scene.sender._stream == position
        stream = b"".join(stream[at + 4 : at + 512] for at in range(0, position, 512))
    expected = writes(bytes(scene.memory[20 : 20 + length]), opcode=2, handle=4, offset=(1 << 64) - 50)
    if markers:
        # The CRCs count the markers as well.
        size = (int.from_bytes(expected[:2], "big") + 5 & ~3) + 4
        assert stream[: size - 4] == expected[: size - 4]
        assert len(stream) == len(expected)
    else:
        assert stream == expected
    assert scene.sender.responses == []
    assert not scene.sender.under_way


# The end.


def test_a_flush_ends_all_work_in_order() -> None:
    scene = Scene()
    scene.send("begun", [bytes(300)])
    scene.read("read")
    scene.read("other read").status = Status.REMOTE_ACCESS
    scene.send("internal", [b"x"]).internal = True
    scene.asked(300)
    scene.once(1)
    assert scene.sender.under_way
    scene.post(Work(None, None, 0, (), 0))
    scene.sender.flush()
    assert [(each.wr, each.verb, each.status) for each in scene.completions] == [
        ("begun", Verb.SEND, Status.FLUSHED),
        ("read", Verb.RDMA_READ, Status.FLUSHED),
        ("other read", Verb.RDMA_READ, Status.REMOTE_ACCESS),
    ]
    sender = scene.sender
    assert not any((sender.send_queue, sender.in_flight, sender.reads, sender.responses))
    assert (sender.current, sender.under_way, sender.open) == (None, False, False)
