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


def test_a_new_one_is_empty() -> None:
    out = Scene("").out
    assert (out.pieces, out.built, out.sent, out.start, out._digest, out.has_sources) == ([], 0, 0, 0, 0, False)
    assert out.renew(crc=True) is None
    assert out.cut() == 0


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


def test_no_more_is_sent_than_there_is() -> None:
    for octets in (0, -1, FRAME_OCTETS + 1):
        with pytest.raises(AssertionError, match="more octets were sent"):
            Scene("c").out.bytes_sent(octets)


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


@each_case("shown", SHOWN)
def test_without_crcs_nothing_is_renewed(shown: str) -> None:
    scene = Scene(shown)
    scene.change()
    assert scene.out.renew(crc=False) is None
    pieces = scene.out.pieces
    assert [bytes(piece) for piece in pieces[2::3]] == [
        scene.stream[at + 12 : at + 16] for at in range(0, len(scene.stream), FRAME_OCTETS)
    ]


def test_frames_of_copies_keep_their_crcs() -> None:
    scene = Scene("cm")
    before = list(scene.out.pieces)
    scene.change()
    scene.out.renew(crc=True)
    assert all(piece is kept for piece, kept in zip(scene.out.pieces[:3], before[:3], strict=True))
    assert scene.out.pieces[5] != before[5]


@each_case("run", [False, True])
@each_case("shown", SHOWN)
def test_of_withdrawn_memory_the_first_frame_with_unsent_octets_is_told(shown: str, run: bool) -> None:
    shows = "m" * len(shown) if run else shown
    octets = FRAME_OCTETS * len(shown)
    for sent in range(octets):
        scene = Scene(shown, run=run)
        if sent:
            scene.out.bytes_sent(sent)
        scene.pd.invalidate(scene.region)
        source = scene.out.renew(crc=True)
        left = [n for n, kind in enumerate(shows) if kind == "m" and FRAME_OCTETS * (n + 1) > sent]
        if left:
            assert source == (scene.region, scene.response, STEP * left[0])
        else:
            assert source is None


def test_abandoned_memory_is_withdrawn() -> None:
    scene = Scene("m")
    scene.pd.abandon(scene.region)
    assert scene.out.renew(crc=True) is not None


def test_other_memory_under_the_same_handle_does_not_count() -> None:
    scene = Scene("m")
    scene.pd.regions[HANDLE] = MemoryRegion(HANDLE, 0, memoryview(bytearray(32)), Access.REMOTE_READ)
    assert scene.out.renew(crc=True) is not None


@each_case("withdrawn", [False, True])
@each_case("shown", ["c", "cc", *SHOWN])
def test_a_cut_keeps_the_frame_that_is_partly_sent(shown: str, withdrawn: bool) -> None:
    octets = FRAME_OCTETS * len(shown)
    for sent in range(octets + 1):
        scene = Scene(shown)
        out = scene.out
        if sent:
            out.bytes_sent(sent)
        if withdrawn:
            scene.pd.invalidate(scene.region)
        end = -(-sent // FRAME_OCTETS) * FRAME_OCTETS
        inside = sent % FRAME_OCTETS != 0
        lost = withdrawn and inside and shown[sent // FRAME_OCTETS] == "m"
        assert out.cut() == (None if lost else octets - end)
        rest = b"" if lost else scene.stream[sent:end]
        assert scene.rest == rest
        assert (out.sent, out.built) == (sent, sent + len(rest))
        # It is a copy.
        scene.change()
        assert scene.rest == rest
        assert out.renew(crc=True) is None


def test_a_cut_lets_further_frames_follow() -> None:
    scene = Scene("mmm")
    scene.out.bytes_sent(20)
    assert scene.out.cut() == FRAME_OCTETS
    scene.out.append([b"last", b"word"], 8)
    assert scene.rest == scene.stream[20:32] + b"lastword"
    assert (scene.out.built, scene.out.sent) == (40, 20)
    scene.out.bytes_sent(20)
    assert (scene.out.pieces, scene.out.sent) == ([], 40)


@each_case("shown", ["c", "m"])
def test_all_pieces_go_with_the_last_octet(shown: str) -> None:
    out = Scene(shown).out
    for octets in (5, 4, 7):
        # A piece that no count includes, behind all the other ones.
        out.pieces.append(b"uncounted")
        out.bytes_sent(octets)
    assert out.pieces == []


def test_octets_are_counted_from_the_start_up_frame_on() -> None:
    out = Scene("").out
    out.put(b"start-up")
    assert (out.pieces, out.built) == ([b"start-up"], 8)
    out.bytes_sent(3)
    assert b"".join(out.pieces) == b"rt-up"
    out.bytes_sent(5)
    assert (out.built, out.sent, out.start) == (8, 8, 8)
    out.append([b"one", b"two"], 6)
    out.append_run([b"a", b"bc", b"d"], [1, 3])
    assert (out.built, out.sent) == (18, 8)
    assert out.frames == [(14, None), (15, None), (18, None)]
    assert not out.has_sources
    out.bytes_sent(4)
    assert b"".join(out.pieces) == b"woabcd"


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


def test_a_run_shows_one_step_further_with_each_frame() -> None:
    scene = Scene("mmm", run=True)
    out = scene.out
    assert [(end, source[2]) for end, source in out.frames if source] == [(16, 0), (32, 8), (48, 16)]
    assert out.has_sources
    assert out.built == 48


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
