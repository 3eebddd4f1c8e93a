"""MPA streams that are watched: start-up frames, FPDUs with CRCs and markers, and streams that begin anywhere."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import pytest

from rpcrdma.iwarp.startup import FrameKind
from rpcrdma.transport.private_data import decode_private_data
from rpcrdma_lab.dissect.mpa_stream import Fpdu, MpaHalf, MpaTerms, StartupSeen, Unit
from rpcrdma_lab.dissect.private_data_fields import private_data_fields
from rpcrdma_lab.scripted.frames import make_fpdu
from rpcrdma_lab.scripted.values import Names
from support.cases import each_case
from support.functions_entered import instructions_run
from support.raw_iwarp import fpdu, marked, startup_frame, untagged

VECTORS = tomllib.loads((Path(__file__).parents[3] / "tests/vectors/iwarp/frames.toml").read_text())
SEGMENTS = [untagged(3, 0, number, random.Random(number).randbytes(number * 37)) for number in range(1, 40)]


def feed(half: MpaHalf, data: bytes, step: int = 1 << 20) -> list[Unit]:
    return [unit for at in range(0, len(data), step) for unit in half.feed(data[at : at + step])]


def running(terms: MpaTerms | None = None) -> MpaHalf:
    half = MpaHalf(terms or MpaTerms())
    half.expect_fpdus_unless_startup(b"")
    return half


@each_case("vector", VECTORS["startup"])
@each_case("step", [1, 1000])
def test_start_up_frames_in_any_pieces(vector, step: int) -> None:
    octets = bytes.fromhex(vector["hex"])
    (seen,) = feed(MpaHalf(MpaTerms()), octets, step)
    assert isinstance(seen, StartupSeen)
    assert seen.faults == []
    assert seen.kind.value == octets[:16]
    assert seen.group.size == len(octets)
    assert seen.group.number("PD_Length") == len(octets) - 20


def test_the_fields_of_an_enhanced_frame_with_private_data() -> None:
    octets = bytes.fromhex("4d504120494420526571204672616d65 50 02 000c c010c010 f6ab0e1801010303")
    (seen,) = feed(MpaHalf(MpaTerms()), octets)
    assert isinstance(seen, StartupSeen)
    numbers = {name: seen.group.number(name) for name in ("M", "C", "R", "S", "Rev", "A", "B", "IRD", "D", "ORD")}
    assert numbers == {"M": 0, "C": 1, "R": 0, "S": 1, "Rev": 2, "A": 1, "B": 1, "IRD": 16, "D": 1, "ORD": 16}
    private = seen.group.member("private data")
    assert private is not None
    assert private.offset == 24
    assert [(one.name, one.offset, one.shown) for one in private.fields][-3:] == [
        ("R", 29, "1"),
        ("send size", 30, "4096 octets"),
        ("receive size", 31, "4096 octets"),
    ]


@each_case(
    ("data", "start"),
    [
        ("f6ab0e18 01 01 03 07", 0),
        ("0a0b f6ab0e18 01 01 03 07 0c", 2),
        ("f6ab0e18 02 01 00 00 f6ab0e18 01 01 03 07", 8),
        ("f6ab0e18 01 01 03", None),
        ("f6ab0e18 02 01 03 07", None),
    ],
)
def test_the_message_in_private_data_is_found_where_the_transport_finds_it(data: str, start: int | None) -> None:
    octets = bytes.fromhex(data)
    fields = private_data_fields(octets, 20, "RFC 5044 7.1.1").fields
    assert (decode_private_data(octets) is None) == (start is None)
    assert [(one.offset, one.shown) for one in fields[-2:]] == (
        [] if start is None else [(26 + start, "4096 octets"), (27 + start, "8192 octets")]
    )


@each_case(
    ("octets", "field", "section"),
    [
        (startup_frame("Req", 0, 3), "Rev", "RFC 5044 7.1.1"),
        (startup_frame("Rep", 0, 1, length=513), "PD_Length", "RFC 5044 7.1.1"),
        (startup_frame("Req", 0x10, 2, b"\0\0"), "C", "RFC 6581 9.2"),
    ],
)
def test_a_broken_start_up_frame_ends_its_direction(octets: bytes, field: str, section: str) -> None:
    half = MpaHalf(MpaTerms())
    seen, *rest = feed(half, octets + b"abc")
    assert isinstance(seen, StartupSeen)
    assert rest == []
    assert [(fault.field, fault.section) for fault in seen.faults] == [(field, section)]
    assert half.lost


def test_reserved_bits_of_a_start_up_frame_are_told_and_the_stream_goes_on() -> None:
    seen, unit = feed(MpaHalf(MpaTerms()), startup_frame("Req", 0x41, 1) + fpdu(SEGMENTS[0]))
    assert [(fault.field, fault.requirement) for fault in seen.faults] == [("Res", "MPA-35")]
    assert unit.faults == []


def test_padding_that_is_not_zero_is_told() -> None:
    frame = make_fpdu(SEGMENTS[0], {"pad": "000007"}, Names(), crc=True)
    (unit,) = feed(running(), frame)
    assert isinstance(unit, Fpdu)
    assert unit.ulpdu[2:] == SEGMENTS[0]
    assert [(fault.offset, fault.requirement) for fault in unit.faults] == [(len(frame) - 7, "MPA-8")]
    assert (unit.trailer[0].name, unit.trailer[0].value) == ("PAD", b"\0\0\7")


@each_case("step", [1, 7, 100_000])
def test_fpdus_in_any_pieces(step: int) -> None:
    units = feed(running(), b"".join(map(fpdu, SEGMENTS)), step)
    assert [unit.ulpdu[2:] for unit in units if isinstance(unit, Fpdu)] == SEGMENTS
    assert all("(good)" in unit.trailer[-1].shown and not unit.faults for unit in units if isinstance(unit, Fpdu))


def started(request_flags: int, reply_flags: int) -> tuple[MpaHalf, MpaHalf]:
    terms = MpaTerms()
    halves = MpaHalf(terms), MpaHalf(terms)
    feed(halves[0], startup_frame("Req", request_flags, 1))
    feed(halves[1], startup_frame("Rep", reply_flags, 1))
    return halves


@pytest.mark.thorough
@each_case("step", [1, 3, 100_000])
@each_case("end", [0, 1])
def test_markers_are_taken_out_where_the_other_side_asked_for_them(end: int, step: int) -> None:
    halves = started(0x40 | 0x80 * end, 0x40 | 0x80 * (1 - end))
    units = feed(halves[end], marked(SEGMENTS), step)
    assert [unit.ulpdu[2:] for unit in units if isinstance(unit, Fpdu)] == SEGMENTS
    assert [unit.faults for unit in units if isinstance(unit, Fpdu) and unit.faults] == []
    plain = feed(halves[1 - end], b"".join(map(fpdu, SEGMENTS)))
    assert [unit.ulpdu[2:] for unit in plain if isinstance(unit, Fpdu)] == SEGMENTS


def test_an_unfinished_fpdu_with_markers_is_not_read_again_with_each_segment() -> None:
    def work_behind(octets: int) -> int:
        half = started(0xC0, 0xC0)[0]
        stream = marked([untagged(3, 0, 1, bytes(60_000))])
        assert feed(half, stream[:octets]) == []
        return instructions_run(lambda: feed(half, stream[octets : octets + 1]))

    assert work_behind(50_000) == work_behind(500)


@each_case(("place", "bit", "requirement"), [(515, 4, "MPA-13"), (515, 1, "MPA-10"), (513, 1, "MPA-10")])
def test_a_marker_with_other_bits_is_told(place: int, bit: int, requirement: str) -> None:
    stream = bytearray(marked(SEGMENTS))
    stream[place] ^= bit
    units = feed(started(0xC0, 0xC0)[0], bytes(stream))
    told = [[fault.requirement for fault in unit.faults] for unit in units if isinstance(unit, Fpdu) and unit.faults]
    assert told == [[requirement, "MPA-24"]]


def test_a_wrong_crc_is_told_and_the_stream_goes_on() -> None:
    units = feed(running(), fpdu(SEGMENTS[0], flaw=1) + fpdu(SEGMENTS[1]))
    first, second = (unit for unit in units if isinstance(unit, Fpdu))
    assert [(fault.field, fault.section) for fault in first.faults] == [("CRC", "RFC 5044 4.4")]
    assert second.faults == []


def test_crcs_count_only_where_one_side_wants_them() -> None:
    (unit,) = feed(started(0, 0)[0], fpdu(SEGMENTS[0], crc=False))
    assert isinstance(unit, Fpdu)
    assert unit.faults == []
    assert "off" in unit.trailer[-1].shown
    (unit,) = feed(started(0, 0x40)[0], fpdu(SEGMENTS[0], crc=False))
    assert isinstance(unit, Fpdu)
    assert [fault.field for fault in unit.faults] == ["CRC"]


def test_an_fpdu_too_short_for_a_header_is_told() -> None:
    (unit,) = feed(running(), fpdu(b"\x41"))
    assert isinstance(unit, Fpdu)
    assert [str(fault) for fault in unit.faults] == [
        "ULPDU_Length at offset 0: 1 octets hold no DDP header [RFC 5041 4]"
    ]


def test_a_stream_without_its_beginning_is_known_by_a_good_crc() -> None:
    half = MpaHalf(MpaTerms())
    assert len(feed(half, fpdu(SEGMENTS[0]))) == 1
    assert not half.lost
    for first in (fpdu(SEGMENTS[0], flaw=1), fpdu(SEGMENTS[0])[9:], b"GET / HTTP/1.1\r\n\r\n" * 10):
        half = MpaHalf(MpaTerms())
        assert feed(half, first) == []
        assert (half.lost, half.unread) == (True, 0)
        assert len(feed(half, fpdu(SEGMENTS[1]))) == 1


def test_after_a_gap_it_goes_on_at_a_segment_that_begins_with_an_fpdu() -> None:
    half = running()
    assert len(feed(half, fpdu(SEGMENTS[0]) + fpdu(SEGMENTS[1])[:20])) == 1
    half.lose()
    assert half.lost
    assert feed(half, fpdu(SEGMENTS[1])[30:]) == []
    assert half.lost
    assert len(feed(half, fpdu(SEGMENTS[2]) + fpdu(SEGMENTS[3]))) == 2
    assert not half.lost


def test_each_kind_of_frame_is_known_by_its_key() -> None:
    for kind in FrameKind:
        half = MpaHalf(MpaTerms())
        half.expect_fpdus_unless_startup(kind.value)
        (seen,) = feed(half, kind.value + bytes.fromhex("40 01 0000"))
        assert isinstance(seen, StartupSeen)
        assert seen.kind.value == kind.value
