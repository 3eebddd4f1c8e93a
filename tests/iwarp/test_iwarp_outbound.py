"""Octets that are built and not sent yet: every place at which TCP may stop, and memory that changes meanwhile."""

from __future__ import annotations

import pytest

from rpcrdma.iwarp.outbound import Outbound, ReadResponse
from rpcrdma.iwarp.segments import ReadHeader
from rpcrdma.iwarp.work import ReadWork, Work
from rpcrdma.verbs import Access, MemoryRegion, SoftwareProtectionDomain, Status, Verb
from rpcrdma.wire.checksum import crc32c
from support.cases import each_case

pytestmark = pytest.mark.in_python

HANDLE, STEP = 7, 8
FRAME_OCTETS = 4 + STEP + 4


class Scene:
    """Frames of 16 octets: a header, 8 octets of payload and the CRC. Those in `shown` show memory, others copies."""

    def __init__(self, shown: str, *, run: bool = False) -> None:
        self.pd = SoftwareProtectionDomain(lambda bits: 0)
        self.memory = bytearray(b"0123456789abcdefABCDEFGHIJKLMNOP")
        self.region = MemoryRegion(HANDLE, 0, memoryview(self.memory), Access.REMOTE_READ)
        self.pd.regions[HANDLE] = self.region
        self.response = ReadResponse(ReadHeader(1, 2, 32, HANDLE, 0), (46, 0x41, 0x41, 0, 1, 1, 0))
        self.out = Outbound(self.pd)
        self.frames = len(shown)
        self.stream = b""
        if run:
            pieces: list[bytes | memoryview] = []
            for n in range(self.frames):
                pieces += self.frame(n, shows=True)
            self.out.append_run(pieces, [FRAME_OCTETS] * self.frames, (self.region, self.response, 0), STEP)
        else:
            for n, kind in enumerate(shown):
                source = (self.region, self.response, STEP * n) if kind == "m" else None
                self.out.append(self.frame(n, shows=kind == "m"), FRAME_OCTETS, source)
        self.stream = b"".join(self.out.pieces)

    def frame(self, n: int, *, shows: bool) -> list[bytes | memoryview]:
        head = b"HEAD"
        view = memoryview(self.memory)[STEP * n : STEP * n + STEP]
        return [head, view if shows else bytes(view), crc32c(bytes(view), crc32c(head)).to_bytes(4, "little")]

    @property
    def rest(self) -> bytes:
        return b"".join(self.out.pieces)

    def change(self) -> None:
        self.memory[:] = bytes(octet ^ 0x55 for octet in self.memory)


def assert_frames(stream: bytes) -> None:
    """Every frame of 16 octets ends with its CRC."""
    for at in range(0, len(stream), FRAME_OCTETS):
        frame = stream[at : at + FRAME_OCTETS]
        assert crc32c(frame[:12]).to_bytes(4, "little") == frame[12:]


SHOWN = ["m", "mm", "cm", "mc", "cmc", "mcm", "mmm"]


@each_case("shown", ["c", "ccc", *SHOWN])
def test_wherever_sending_stops_the_rest_is_what_was_not_sent(shown: str) -> None:
    octets = FRAME_OCTETS * len(shown)
    for first in range(1, octets + 1):
        scene = Scene(shown)
        out = scene.out
        assert (out.built, out.sent) == (octets, 0)
        out.bytes_sent(first)
        assert (out.built, out.sent) == (octets, first)
        assert scene.rest == scene.stream[first:]
        assert all(out.pieces)
        if "m" in shown:
            assert len(out.frames) == len(shown) - first // FRAME_OCTETS
        second = min(3, octets - first)
        if second:
            out.bytes_sent(second)
            assert scene.rest == scene.stream[first + second :]
            assert out.sent == first + second
        left = octets - first - second
        if left:
            out.bytes_sent(left)
        assert (out.pieces, out.sent, out.start, out.frames) == ([], octets, octets, [])
        assert (out.has_sources, out._digest) == (False, 0)


@each_case("run", [False, True])
@each_case("shown", SHOWN)
def test_memory_that_changes_is_sent_with_the_right_crc_wherever_sending_stops(shown: str, run: bool) -> None:
    octets = FRAME_OCTETS * len(shown)
    for first in range(1, octets):
        for second in (1, 4, 11):
            scene = Scene(shown, run=run)
            out = scene.out
            sent = scene.stream[:first]
            out.bytes_sent(first)
            scene.change()
            assert out.renew(crc=True) is None
            assert out.renew(crc=True) is None
            assert len(scene.rest) == octets - first
            assert_frames(sent + scene.rest)
            further = min(second, octets - first)
            sent += scene.rest[:further]
            out.bytes_sent(further)
            scene.change()
            assert out.renew(crc=True) is None
            assert_frames(sent + scene.rest)


def test_a_cut_lets_further_frames_follow() -> None:
    scene = Scene("mmm")
    scene.out.bytes_sent(20)
    assert scene.out.cut() == FRAME_OCTETS
    scene.out.append([b"last", b"word"], 8)
    assert scene.rest == scene.stream[20:32] + b"lastword"
    assert (scene.out.built, scene.out.sent) == (40, 20)
    scene.out.bytes_sent(20)
    assert (scene.out.pieces, scene.out.sent) == ([], 40)


@each_case("shown", SHOWN)
def test_a_clear_drops_all_and_begins_behind_it(shown: str) -> None:
    scene = Scene(shown)
    out = scene.out
    before = out.pieces
    out.bytes_sent(5)
    out.clear()
    assert (out.pieces, out.frames, out.has_sources, out._digest) == ([], [], False, 0)
    assert out.start == out.built == FRAME_OCTETS * len(shown)
    assert before, "a driver may still hold the list"


@each_case("sent", [0, 1, 5])
def test_frames_before_the_one_that_is_told_are_renewed(sent: int) -> None:
    scene = Scene("m")
    out = scene.out
    other = MemoryRegion(HANDLE + 1, 0, memoryview(bytearray(STEP)), Access.REMOTE_READ)
    out.append([b"HEAD", other.view, b"CRC!"], FRAME_OCTETS, (other, scene.response, 99))
    if sent:
        out.bytes_sent(sent)
    first = scene.stream[:sent]
    scene.change()
    assert out.renew(crc=True) == (other, scene.response, 99)
    assert_frames((first + scene.rest)[:FRAME_OCTETS])
    assert scene.rest[FRAME_OCTETS - sent :] == b"HEAD" + bytes(STEP) + b"CRC!"


def test_a_crc_of_which_nothing_is_sent_is_that_of_the_octets_that_were_sent() -> None:
    scene = Scene("m")
    scene.change()
    sent = scene.rest[:12]
    scene.out.bytes_sent(12)
    assert scene.out.renew(crc=True) is None
    assert_frames(sent + scene.rest)


def test_work_has_what_it_was_made_of() -> None:
    work = Work("wr", Verb.SEND, 0x43, (b"abc",), 3, 4, 5, signaled=False)
    assert (work.wr, work.verb, work.control, work.gather, work.length) == ("wr", Verb.SEND, 0x43, (b"abc",), 3)
    assert (work.handle, work.offset, work.signaled, work.end, work.internal) == (4, 5, False, 0, False)
    assert work.status is Status.FLUSHED
    usual = Work(None, None, 0, (), 0)
    assert (usual.handle, usual.offset, usual.signaled) == (0, 0, True)
    read = ReadWork("read", 0x41, 30, 7, 70, 8, 80)
    assert (read.wr, read.verb, read.control, read.length) == ("read", Verb.RDMA_READ, 0x41, 30)
    assert (read.handle, read.offset, read.sink_handle, read.sink_offset) == (7, 70, 8, 80)
    assert (read.received, read.done, read.end, read.signaled) == (0, False, 0, True)
