"""Segments of tagged messages: which one may come, which rule another one breaks, and which follow in one step."""

from __future__ import annotations

import struct
from collections import deque

import pytest

from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.iwarp.segments import READ_REQUEST
from rpcrdma.iwarp.sender import ReadWork, Sender
from rpcrdma.iwarp.tagged import TaggedMessages
from rpcrdma.verbs import Access, Completion, MemoryRegion, SoftwareProtectionDomain, Status, Verb
from rpcrdma.wire.checksum import crc32c

HANDLE, BASE, REGION_OCTETS = 7, 10_000, 1000
SINK_OFFSET, READ_OCTETS = BASE + 100, 500
WRITE, RESPONSE = 0x40, 0x42
GOES_ON, LAST = 0x81, 0xC1


class Scene:
    """Memory of 1000 octets; with `reading`, two RDMA Reads of 500 octets of it, the first to octet 100."""

    def __init__(self, *, reading: bool = False, access: Access = Access.REMOTE_WRITE) -> None:
        self.pd = SoftwareProtectionDomain(lambda bits: 0)
        self.completions: deque[Completion] = deque()
        self.sender = Sender(self.pd, self.completions, flush_each_message=False)
        self.memory = bytearray(REGION_OCTETS)
        self.region = MemoryRegion(HANDLE, BASE, memoryview(self.memory), access)
        self.pd.regions[HANDLE] = self.region
        self.tagged = TaggedMessages(self.pd, self.sender)
        for number in range(2 * reading):
            read = ReadWork(number, READ_REQUEST, READ_OCTETS, 99, 0, HANDLE, SINK_OFFSET + READ_OCTETS * number)
            self.sender.reads.append(read)
            self.sender.in_flight.append(read)

    def code(
        self,
        control: int = LAST,
        rdmap: int = WRITE,
        handle: int = HANDLE,
        offset: int = BASE,
        octets: int = 10,
        ready: ReadyFrame | None = None,
    ) -> int | None:
        """The code of the rule that such a segment breaks."""
        violation = self.tagged.check((14 + octets, control, rdmap, handle, offset), octets, ready)
        return None if violation is None else int(violation[1])


@pytest.mark.parametrize("version", range(4))
def test_versions_are_one(version: int) -> None:
    scene = Scene()
    assert scene.code(control=0xC0 | version) == (None if version == 1 else 0x1104)
    assert scene.code(rdmap=version << 6) == (None if version == 1 else 0x0205)
    # Reserved bits are not looked at.
    assert scene.code(control=0xFC | version) == (None if version == 1 else 0x1104)
    assert scene.code(rdmap=version << 6 | 0x30) == (None if version == 1 else 0x0205)


@pytest.mark.parametrize("opcode", range(16))
def test_opcodes_are_those_of_writes_and_expected_responses(opcode: int) -> None:
    assert Scene().code(rdmap=0x40 | opcode) == (None if opcode == 0 else 0x0206)
    expected = {0: None, 2: None}
    assert Scene(reading=True).code(rdmap=0x40 | opcode, offset=SINK_OFFSET, control=GOES_ON) == expected.get(
        opcode, 0x0206
    )


@pytest.mark.parametrize("ready", [None, *ReadyFrame])
def test_a_ready_frame_is_an_empty_write_if_it_is_a_write(ready: ReadyFrame | None) -> None:
    fits = ready in {None, ReadyFrame.WRITE}
    assert Scene().code(octets=0, ready=ready) == (None if fits else 0x2007)
    assert Scene().code(octets=1, ready=ready) == (None if ready is None else 0x2007)
    assert Scene().code(octets=0, control=GOES_ON, ready=ready) == (None if ready is None else 0x2007)
    response = Scene(reading=True).code(octets=0, control=GOES_ON, rdmap=RESPONSE, ready=ready)
    assert response == (None if ready is None else 0x2007)


@pytest.mark.parametrize("opened", [WRITE, RESPONSE])
@pytest.mark.parametrize("rdmap", [WRITE, RESPONSE])
@pytest.mark.parametrize("handle", [HANDLE - 1, HANDLE, HANDLE + 1])
def test_a_message_goes_on_with_its_opcode_and_its_handle(opened: int, rdmap: int, handle: int) -> None:
    scene = Scene(reading=True)
    scene.tagged.opened = (opened | 0x30, HANDLE)
    code = scene.code(rdmap=rdmap, handle=handle, offset=SINK_OFFSET, control=GOES_ON)
    assert code == (0x0206 if rdmap != opened else 0x1100 if handle != HANDLE else None)


@pytest.mark.parametrize("received", [0, 200])
@pytest.mark.parametrize(
    ("control", "handle", "shift", "octets", "code"),
    [
        (GOES_ON, HANDLE, 0, 10, None),
        (GOES_ON, HANDLE + 1, 0, 10, 0x1100),
        (GOES_ON, HANDLE, 1, 10, 0x1101),
        (GOES_ON, HANDLE, -1, 10, 0x1101),
        # Neither is looked at in an empty segment.
        (GOES_ON, HANDLE + 1, 1, 0, None),
        (GOES_ON, HANDLE, 0, READ_OCTETS, None),
        (GOES_ON, HANDLE, 0, READ_OCTETS + 1, 0x1101),
        (LAST, HANDLE, 0, READ_OCTETS, None),
        (LAST, HANDLE, 0, READ_OCTETS - 1, 0x1101),
        (LAST, HANDLE, 0, READ_OCTETS + 1, 0x1101),
        (LAST, HANDLE, 0, 0, 0x1101),
        (LAST, HANDLE, 0, 1, 0x1101),
    ],
)
def test_a_response_goes_on_where_it_is_and_ends_where_the_read_does(
    received: int, control: int, handle: int, shift: int, octets: int, code: int | None
) -> None:
    scene = Scene(reading=True)
    scene.sender.reads[0].received = received
    if octets >= READ_OCTETS - 1:
        octets -= received
    offset = SINK_OFFSET + received + shift
    assert scene.code(control, RESPONSE, handle, offset, octets) == code


@pytest.mark.parametrize("rdmap", [WRITE, RESPONSE, WRITE | 0x30, RESPONSE | 0x30])
def test_a_message_is_bounded_by_its_region_or_by_its_read(rdmap: int) -> None:
    scene = Scene(reading=True)
    expected = BASE + REGION_OCTETS if rdmap & 15 == 0 else SINK_OFFSET + READ_OCTETS
    assert scene.tagged.bound(scene.region, rdmap) == expected


def test_segments_open_and_close_a_message() -> None:
    scene = Scene()
    assert scene.tagged.opened is None
    scene.tagged.end(GOES_ON, WRITE, HANDLE, 10)
    assert scene.tagged.opened == (WRITE, HANDLE)
    scene.tagged.end(0, WRITE, HANDLE, 10)
    assert scene.tagged.opened == (WRITE, HANDLE)
    scene.tagged.end(LAST, WRITE, HANDLE, 10)
    assert scene.tagged.opened is None
    assert not scene.completions


def test_segments_of_a_response_are_counted_and_the_last_answers_the_read() -> None:
    scene = Scene(reading=True)
    first, second = scene.sender.reads
    scene.tagged.end(GOES_ON, RESPONSE, HANDLE, 200)
    scene.tagged.end(0, RESPONSE, HANDLE, 150)
    assert (first.received, first.done, second.received) == (350, False, 0)
    assert scene.tagged.opened == (RESPONSE, HANDLE)
    assert not scene.completions
    # A Write counts for no Read.
    scene.tagged.end(LAST, WRITE, HANDLE, 77)
    assert (first.received, first.done) == (350, False)
    scene.tagged.end(LAST, RESPONSE, HANDLE, 150)
    assert (first.received, first.done, second.done) == (500, True, False)
    assert scene.sender.reads == [second]
    assert list(scene.completions) == [Completion(0, Verb.RDMA_READ, Status.SUCCESS, READ_OCTETS)]
    assert scene.tagged.opened is None


def frame(octets: int, offset: int, *, last: bool = False, rdmap: int = WRITE, flaw: int = 0) -> bytes:
    body = struct.pack(">HBBIQ", 14 + octets, LAST if last else GOES_ON, rdmap, HANDLE, offset)
    body += bytes([offset % 251]) * octets
    body += bytes(-len(body) % 4)
    return body + struct.pack("<I", crc32c(body) ^ flaw)


def run(scene: Scene, stream: bytes, *, at: int, octets: int = 20, rdmap: int = WRITE, crc: bool = True) -> int:
    """Octets taken after a segment of `octets` at `at`."""
    header = (14 + octets, GOES_ON, rdmap, HANDLE, at)
    scene.tagged.opened = (rdmap, HANDLE)
    return scene.tagged.take_run(header, memoryview(stream), crc=crc)


def test_a_run_goes_on_behind_the_segment_before() -> None:
    scene = Scene()
    stream = frame(30, BASE + 120) + frame(50, BASE + 150)
    assert run(scene, stream + frame(5, BASE), at=BASE + 100) == len(stream)
    assert scene.memory == (
        bytes(120) + bytes([(BASE + 120) % 251]) * 30 + bytes([(BASE + 150) % 251]) * 50 + bytes(800)
    )
    assert scene.tagged.opened == (WRITE, HANDLE)


def test_a_run_ends_with_its_message() -> None:
    scene = Scene()
    stream = frame(30, BASE + 120, last=True)
    assert run(scene, stream + frame(50, BASE + 150), at=BASE + 100) == len(stream)
    assert scene.tagged.opened is None


def test_a_run_of_nothing_changes_nothing() -> None:
    scene = Scene()
    assert run(scene, frame(30, BASE + 121), at=BASE + 100) == 0
    assert scene.tagged.opened == (WRITE, HANDLE)
    assert scene.memory == bytes(REGION_OCTETS)


@pytest.mark.parametrize("crc", [True, False])
def test_a_run_checks_crcs_if_they_were_agreed_on(crc: bool) -> None:
    scene = Scene()
    stream = frame(30, BASE + 120, flaw=1)
    assert run(scene, stream, at=BASE + 100, crc=crc) == (0 if crc else len(stream))


@pytest.mark.parametrize(
    ("end", "taken"), [(-1, False), (0, True), (1, True), (999, True), (1000, False), (1001, False)]
)
def test_a_run_begins_within_its_region(end: int, taken: bool) -> None:
    scene = Scene()
    stream = frame(1, BASE + end)
    assert run(scene, stream, at=BASE + end - 20) == (len(stream) if taken else 0)
    assert sum(octet != 0 for octet in scene.memory) == taken


@pytest.mark.parametrize("octets", [879, 880, 881])
def test_a_run_ends_within_its_region(octets: int) -> None:
    scene = Scene()
    stream = frame(octets, BASE + 120)
    assert run(scene, stream, at=BASE + 100) == (len(stream) if octets <= 880 else 0)


@pytest.mark.parametrize("gone", ["region", "right", "abandoned"])
def test_there_is_no_run_without_memory_that_may_be_written(gone: str) -> None:
    scene = Scene(access=Access.REMOTE_READ if gone == "right" else Access.REMOTE_WRITE)
    if gone == "region":
        del scene.pd.regions[HANDLE]
    elif gone == "abandoned":
        scene.pd.abandon(scene.region)
    assert run(scene, frame(30, BASE + 120), at=BASE + 100) == 0
    assert scene.memory == bytes(REGION_OCTETS)


@pytest.mark.parametrize("shift", [-1, 0, 1])
@pytest.mark.parametrize("handle", [HANDLE, HANDLE + 1])
def test_a_run_of_a_response_goes_on_where_the_read_is(shift: int, handle: int) -> None:
    scene = Scene(reading=True)
    read = scene.sender.reads[0]
    read.received, read.sink_handle = 20, handle
    at = SINK_OFFSET + shift
    stream = frame(30, at + 20, rdmap=RESPONSE)
    fits = shift == 0 and handle == HANDLE
    assert run(scene, stream, at=at, rdmap=RESPONSE) == (len(stream) if fits else 0)
    assert read.received == (50 if fits else 20)


@pytest.mark.parametrize(
    ("octets", "last", "taken"), [(480, True, True), (480, False, True), (479, True, False), (481, False, False)]
)
def test_a_run_of_a_response_ends_where_the_read_does(octets: int, last: bool, taken: bool) -> None:
    scene = Scene(reading=True)
    scene.sender.reads[0].received = 20
    stream = frame(octets, SINK_OFFSET + 20, last=last, rdmap=RESPONSE)
    assert run(scene, stream, at=SINK_OFFSET, rdmap=RESPONSE) == (len(stream) if taken else 0)
    assert len(scene.completions) == (taken and last)
    # A Write is not bounded by a Read.
    write = frame(octets, SINK_OFFSET + 20, last=last)
    assert run(scene, write, at=SINK_OFFSET) == len(write)
