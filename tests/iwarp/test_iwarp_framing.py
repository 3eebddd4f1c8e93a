"""FPDUs: size, padding, CRC, markers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.iwarp import framing
from rpcrdma.iwarp.framing import MARKER_SPACING_OCTETS, build_fpdu, build_marked_fpdu, size_fpdu, size_mulpdu
from rpcrdma.iwarp.outbound import build_tagged_run
from rpcrdma.iwarp.segments import WRITE
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.checksum import crc32c
from support.cases import each_case

pytestmark = pytest.mark.in_python

VECTORS = tomllib.loads((Path(__file__).parents[1] / "vectors/iwarp/frames.toml").read_text())


@pytest.mark.req("MPA-1", "MPA-7", "MPA-8", "MPA-24", "MPA-19")
@each_case("vector", VECTORS["fpdu"])
def test_frames_are_the_golden_octets(vector: dict[str, Any]) -> None:
    octets = bytes.fromhex(vector["hex"])
    length = 2 + int.from_bytes(octets[:2], "big")
    assert size_fpdu(length - 2) == len(octets)
    assert b"".join(build_fpdu([octets[:length]], length, crc=True)) == octets
    pieces = [octets[start : start + 1] for start in range(length)]
    assert b"".join(build_fpdu(pieces, length, crc=True)) == octets


@pytest.mark.req("MPA-10", "MPA-11", "MPA-12", "MPA-13", "MPA-15", "MPA-16", "MPA-24")
@each_case("vector", VECTORS["marked"])
def test_markers_are_the_golden_octets(vector: dict[str, Any]) -> None:
    ulpdu = bytes.fromhex(vector["ulpdu"])
    body = [len(ulpdu).to_bytes(2, "big"), ulpdu[:18], ulpdu[18:]]
    gather, position = build_marked_fpdu(body, 2 + len(ulpdu), vector["position"], crc=True)
    expected = bytes.fromhex(vector["hex"])
    assert b"".join(gather) == expected
    assert position == vector["position"] + len(expected)


def unmarked(stream: bytes, start: int = 0) -> tuple[bytes, dict[int, int]]:
    """The stream without the markers at every 512th octet, and the markers by position."""
    kept = bytearray()
    markers = {}
    position = start
    while position < start + len(stream):
        here = position - start
        if position % MARKER_SPACING_OCTETS == 0:
            assert stream[here : here + 2] == bytes(2)
            markers[position] = int.from_bytes(stream[here + 2 : here + 4], "big")
            position += 4
        else:
            kept += stream[here : here + 4]
            position += 4
    return bytes(kept), markers


@pytest.mark.req("MPA-12", "MPA-13", "MPA-15", "MPA-17")
@each_case("octets", [0, 1, 2, 3, 484, 488, 492, 496, 500, 504, 508, 1500, 64768])
def test_markers_stand_at_every_512th_octet_and_point_at_their_frame(octets: int) -> None:
    for start in (0, 4, 492, 504, 508, 512, 1 << 32):
        body = octets.to_bytes(2, "big") + bytes(range(256)) * (octets // 256 + 1)
        body = body[: 2 + octets]
        gather, position = build_marked_fpdu([body], len(body), start, crc=True)
        stream = b"".join(gather)
        assert position == start + len(stream)
        kept, markers = unmarked(stream, start)
        pad = bytes(-len(body) % 4)
        assert kept[:-4] == body + pad
        # The marker in front is this frame's, too.
        begin = start if start % 512 else start + 4
        assert markers == {at: max(at - begin, 0) for at in range(start, position) if at % 512 == 0}
        assert stream[-4:] == crc32c(stream[:-4]).to_bytes(4, "little")
        assert all(pointer % 4 == 0 and pointer < 1 << 16 for pointer in markers.values())


@pytest.mark.req("MPA-14")
def test_only_the_place_among_512_octets_matters() -> None:
    body = b"\x03\xe8" + bytes(1000)
    near = build_marked_fpdu([body], len(body), 100, crc=True)
    far = build_marked_fpdu([body], len(body), (1 << 32) + 100, crc=True)
    assert b"".join(near[0]) == b"".join(far[0])


@pytest.mark.req("MPA-9")
def test_without_crcs_the_field_is_there_and_zero() -> None:
    assert build_fpdu([b"\0\1x"], 3, crc=False)[-1] == bytes(5)
    assert build_marked_fpdu([b"\0\1x"], 3, 4, crc=False)[0][-1] == bytes(4)


@each_case("position", [0, 4, 508])
def test_every_octet_of_a_marked_frame_is_digested_once(monkeypatch: pytest.MonkeyPatch, position: int) -> None:
    digested: list[bytes] = []

    def counted(piece: Buffer, digest: int = 0) -> int:
        assert len(piece) > 0
        digested.append(bytes(piece))
        return crc32c(piece, digest)

    monkeypatch.setattr(framing, "crc32c", counted)
    gather, _ = build_marked_fpdu([b"\x02\x58", bytes(range(200)) * 3], 602, position, crc=True)
    assert digested == [bytes(piece) for piece in gather[:-1]]


@pytest.mark.req("MPA-2", "MPA-3", "MPA-26", "MPA-27", "MPA-28", "DDP-1")
@each_case(
    ("emss", "plain", "marked"),
    [
        (1460, 1454, 1442),
        (1448, 1442, 1430),
        (1461, 1454, 1442),
        (8948, 8942, 8870),
        (32741, 32734, 32478),
        (65483, 64768, 64768),
        (128, 128, 128),
        (0, 128, 128),
        (134, 128, 128),
        (141, 134, 130),
    ],
)
def test_the_largest_ulpdu_follows_from_the_tcp_segment(emss: int, plain: int, marked: int) -> None:
    assert size_mulpdu(emss, markers=False) == plain
    assert size_mulpdu(emss, markers=True) == marked


@each_case(
    ("room", "frames"),
    [((-1, 9), 1), ((0, 0), 1), ((1019, 9), 1), ((1020, 9), 2), ((1 << 20, 9), 3), ((1 << 20, 7), 3)],
)
def test_a_run_begins_fpdus_while_there_is_room(room: tuple[int, int], frames: int) -> None:
    _, sizes = build_tagged_run(WRITE, 77, 0, memoryview(bytes(10_000)), 1000, room, crc=True)
    assert sizes == [1020] * frames
