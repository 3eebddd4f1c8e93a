"""A scripted peer inserts the same markers as the software RNIC, and takes the markers of others out again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.iwarp.framing import build_marked_fpdu
from rpcrdma.wire.checksum import crc32c
from rpcrdma_lab.scripted.frames import make_fpdu
from rpcrdma_lab.scripted.marked_frames import MarkedFrames, Markers
from rpcrdma_lab.scripted.values import Names

ULPDUS = st.lists(st.integers(14, 1500).map(lambda octets: bytes(index & 0xFF for index in range(octets))), max_size=8)


def marked(ulpdus: Sequence[bytes], added: int = 0) -> bytes:
    markers = Markers()
    return b"".join(make_fpdu(each, {"marker": added}, Names(), crc=True, markers=markers) for each in ulpdus)


@given(ULPDUS)
def test_markers_and_the_crc_over_them_are_those_of_the_software_rnic(ulpdus: list[bytes]) -> None:
    right, position = b"", 0
    for each in ulpdus:
        ulpdu = len(each).to_bytes(2) + each
        gather, position = build_marked_fpdu([ulpdu], len(ulpdu), position, crc=True)
        right += b"".join(gather)
    assert marked(ulpdus) == right


async def taken(stream: bytes) -> list[tuple[bytes, str | None]]:
    reader = asyncio.StreamReader()
    reader.feed_data(stream)
    reader.feed_eof()
    frames = MarkedFrames(reader)
    found = []
    while not reader.at_eof():
        frame = await frames.next()
        assert crc32c(frame.covered) == int.from_bytes(frame.octets[-4:], "little")
        found.append((frame.octets[2 : 2 + int.from_bytes(frame.octets[:2])], frame.fault))
    return found


@given(ULPDUS)
def test_frames_come_out_as_they_went_in(ulpdus: list[bytes]) -> None:
    assert asyncio.run(taken(marked(ulpdus))) == [(each, None) for each in ulpdus]


@given(st.integers(14, 1500), st.sampled_from([4, 0x10000]))
def test_a_wrong_marker_is_told_with_its_frame(octets: int, added: int) -> None:
    ((_, fault),) = asyncio.run(taken(marked([bytes(octets)], added)))
    assert fault == f"the marker at octet 0 is {added:08x} instead of 00000000"
