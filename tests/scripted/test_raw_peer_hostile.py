"""A raw peer before servers that send anything: octets become events, and memory is written within its bounds."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.limits import RAW_MESSAGE_OCTETS_MAX
from rpcrdma.scripted.layouts import LAYOUTS
from rpcrdma.scripted.peer import Heard, RawMemory, RawPeer
from rpcrdma.scripted.values import Names
from rpcrdma.wire.checksum import crc32c
from support.raw_iwarp import fpdu, read_request, tagged, untagged

KINDS = {"startup", "message", "terminate", "read_response", "refused", "broken", "end"}
EVENTS_MAX = 1000


class Said:
    """The octets that the peer sends, in place of a connection."""

    def __init__(self) -> None:
        self.octets = b""

    def write(self, data: bytes) -> None:
        self.octets += data

    async def drain(self) -> None:
        pass


def heard(octets: bytes, version: str = "1", *, started: bool = True) -> tuple[list[Heard], RawMemory, bytes]:
    """The events of a stream of these octets, the offered memory, and the octets that the peer has sent."""

    async def main() -> tuple[list[Heard], RawMemory, bytes]:
        reader, said = asyncio.StreamReader(), Said()
        reader.feed_data(octets)
        reader.feed_eof()
        peer = RawPeer(reader, cast("Any", said), version, [], Names())
        peer.started = started
        memory = RawMemory(handle=7, offset=100, data=bytearray(16), may="write")
        peer.regions = {7: memory, 8: RawMemory(handle=8, offset=0, data=bytearray(b"abcd"), may="read")}
        events: list[Heard] = []
        while not events or events[-1].kind != "end":
            events.append(await peer.next())
            assert len(events) < EVENTS_MAX
        return events, memory, said.octets

    return asyncio.run(main())


@given(st.sampled_from(sorted(LAYOUTS)), st.binary(max_size=300), st.booleans())
def test_any_octets_become_events(version: str, octets: bytes, started: bool) -> None:
    events, _, _ = heard(octets, version, started=started)
    assert {event.kind for event in events} <= KINDS


@given(st.sampled_from(sorted(LAYOUTS)), st.lists(st.binary(min_size=1, max_size=80), max_size=5))
def test_any_segments_in_right_frames_become_events(version: str, segments: list[bytes]) -> None:
    # Versions of DDP and RDMAP as they should be, so that the rest is looked at.
    framed = b"".join(fpdu(bytes([each[0] & 0xFC | 1]) + b"\x43" + each[1:]) for each in segments)
    events, _, _ = heard(framed, version)
    assert {event.kind for event in events} <= KINDS


@pytest.mark.parametrize(
    ("handle", "offset", "octets"), [(9, 100, 4), (8, 0, 4), (7, 99, 4), (7, 113, 4), (7, (1 << 64) - 1, 4)]
)
def test_a_write_outside_of_the_memory_is_told_and_places_nothing(handle: int, offset: int, octets: int) -> None:
    events, memory, said = heard(fpdu(tagged(0, handle, offset, bytes(octets))))
    assert [event.kind for event in events] == ["refused", "end"]
    assert memory.written == []
    assert said[2:4] == b"\x41\x47", "a Terminate"


def test_a_write_within_the_memory_is_placed_and_counted_once() -> None:
    first, again = tagged(0, 7, 100, b"abcd"), tagged(0, 7, 102, b"xyzw")
    events, memory, _ = heard(fpdu(first) + fpdu(again))
    assert [event.kind for event in events] == ["end"]
    assert memory.data[:6] == b"abxyzw"
    assert memory.written_octets == 6


@pytest.mark.parametrize(("source", "length"), [(9, 4), (7, 4), (8, 5)])
def test_a_read_outside_of_the_memory_is_refused(source: int, length: int) -> None:
    events, _, said = heard(fpdu(read_request(1, 3, 5, length, source, 0 if source == 8 else 100)))
    assert events[0].kind == "refused"
    assert said[2:4] == b"\x41\x47", "a Terminate"


def test_a_read_within_the_memory_is_answered() -> None:
    events, _, said = heard(fpdu(read_request(1, 3, 5, 4, 8, 0)))
    assert [event.kind for event in events] == ["end"]
    assert said == fpdu(tagged(2, 3, 5, b"abcd"))


def test_a_message_without_end_is_given_up() -> None:
    piece = bytes(60_000)
    count = RAW_MESSAGE_OCTETS_MAX // len(piece) + 2
    frames = (untagged(3, 0, 1, piece, offset=number * len(piece), last=False) for number in range(count))
    events, _, _ = heard(b"".join(map(fpdu, frames)))
    assert "longer than any buffer" in events[0].fields["cause"]


@pytest.mark.parametrize(
    "segment",
    [untagged(3, 0, 2, b""), untagged(3, 0, 1, b"", offset=4), untagged(3, 1, 1, b""), untagged(14, 0, 1, b"")],
)
def test_numbers_queues_and_opcodes_are_checked(segment: bytes) -> None:
    assert heard(fpdu(segment))[0][0].kind == "broken"


def test_a_wrong_crc_and_padding_are_told() -> None:
    frame = bytearray(fpdu(untagged(3, 0, 1, b"a")))
    assert heard(fpdu(untagged(3, 0, 1, b""), flaw=1))[0][0].fields["cause"] == "the CRC of an FPDU is wrong"
    frame[21] = 1
    body = bytes(frame[:-4])
    assert "padding" in heard(body + struct.pack("<I", crc32c(body)))[0][0].fields["cause"]
