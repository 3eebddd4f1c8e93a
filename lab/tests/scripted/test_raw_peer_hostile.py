"""A raw peer before servers that send anything: octets become events, and memory is written within its bounds."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.wire.checksum import crc32c
from rpcrdma_lab.limits import RAW_MESSAGE_OCTETS_MAX, RAW_PASSAGE_OCTETS_MAX, RAW_PASSAGES_MAX
from rpcrdma_lab.scripted.layouts import LAYOUTS
from rpcrdma_lab.scripted.peer import Heard, RawMemory, RawPeer
from rpcrdma_lab.scripted.peer_interface import Passage, PassageLog, joined
from rpcrdma_lab.scripted.values import Names
from support.cases import each_case
from support.loops import in_virtual_time
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


def heard(
    octets: bytes, version: str = "1", *, started: bool = True, log: list[Passage] | None = None
) -> tuple[list[Heard], RawMemory, bytes]:
    """The events of a stream of these octets, the offered memory, and the octets that the peer has sent."""

    async def main() -> tuple[list[Heard], RawMemory, bytes]:
        reader, said = asyncio.StreamReader(), Said()
        reader.feed_data(octets)
        reader.feed_eof()
        peer = RawPeer(reader, cast("Any", said), version, [] if log is None else log, Names())
        peer.started = started
        memory = RawMemory(handle=7, offset=100, data=bytearray(16), may="write")
        peer.regions = {7: memory, 8: RawMemory(handle=8, offset=0, data=bytearray(b"abcd"), may="read")}
        events: list[Heard] = []
        while not events or events[-1].kind != "end":
            events.append(await peer.next())
            assert len(events) < EVENTS_MAX
        return events, memory, said.octets

    return asyncio.run(main())


class Unread(Said):
    """A connection of which the other end reads nothing more."""

    async def drain(self) -> None:
        await asyncio.Event().wait()


@in_virtual_time
async def test_a_peer_that_reads_nothing_more_is_heard_nevertheless() -> None:
    reader, unread = asyncio.StreamReader(), Unread()
    reader.feed_data(fpdu(untagged(7, 2, 1, bytes.fromhex("12050000"))))
    peer = RawPeer(reader, cast("Any", unread), "1", [], Names())
    peer.started = True
    await peer.send_stream(b"octets", "octets", pieces=4)
    assert (unread.octets, (await peer.next()).kind) == (b"octe", "terminate")


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


@each_case(("handle", "offset", "octets"), [(9, 100, 4), (8, 0, 4), (7, 99, 4), (7, 113, 4), (7, (1 << 64) - 1, 4)])
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


def test_of_endless_writes_the_first_and_the_last_are_kept_and_their_octets_counted() -> None:
    log: list[Passage] = []
    writes = b"".join(fpdu(tagged(0, 7, 100 + 2 * (number % 8), b"a")) for number in range(3 * RAW_PASSAGES_MAX))
    _, memory, _ = heard(writes, log=log)
    assert memory.written_octets == 8
    assert len(memory.written) <= 1024 + 8
    assert len(log) == RAW_PASSAGES_MAX
    kept = [each.text for each in log if "left out" not in each.text]
    assert [each.text for each in log][
        RAW_PASSAGES_MAX // 4
    ] == f"{len(writes) // 24 + 1 - len(kept)} passages are left out"
    assert (kept[0], kept[-1]) == ("write to 0x7, 1 octets", "the connection is closed")


@each_case(
    ("pieces", "runs"), [([(4, 2), (0, 4), (8, 1)], [(0, 6), (8, 1)]), ([(0, 8), (2, 1), (4, 6)], [(0, 10)]), ([], [])]
)
def test_pieces_that_adjoin_or_overlap_are_joined(pieces: list[tuple[int, int]], runs: list[tuple[int, int]]) -> None:
    assert joined(pieces) == runs


def test_the_octets_of_a_passage_are_bounded_and_those_left_out_counted() -> None:
    log: list[Passage] = []
    PassageLog(log).note("long", bytes(RAW_PASSAGE_OCTETS_MAX + 3), ours=False)
    assert (len(log[0].octets), log[0].left, log[0].shortened(8).left) == (
        RAW_PASSAGE_OCTETS_MAX,
        3,
        RAW_PASSAGE_OCTETS_MAX - 5,
    )


@each_case(("source", "length"), [(9, 4), (7, 4), (8, 5)])
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


def test_a_mistake_in_frames_names_the_statement_that_it_breaks() -> None:
    padded = b"\0\x13" + untagged(3, 0, 1, b"a") + b"\1\0\0"
    write = tagged(0, 7, 100, b"ab", last=False)
    part = untagged(3, 0, 1, b"ab", last=False)
    send = untagged(3, 0, 1, b"")
    for statement, stream in (
        ("MPA-24", fpdu(send, flaw=1)),
        ("MPA-8", padded + struct.pack("<I", crc32c(padded))),
        ("MPA-3", fpdu(untagged(3, 0, 1, bytes(64_751)))),
        ("MPA-1", fpdu(send[:17])),
        ("DDP-4", fpdu(b"\x42" + send[1:])),
        ("DDP-4", fpdu(b"\x45" + send[1:])),
        ("RD-1", fpdu(b"\x41\x83" + send[2:])),
        ("RD-1", fpdu(b"\x41\x53" + send[2:])),
        ("DDP-6", fpdu(untagged(3, 0, 2, b""))),
        ("DDP-6", fpdu(untagged(3, 0, 1, b"", offset=4))),
        ("RD-2", fpdu(untagged(3, 1, 1, b""))),
        ("RD-2", fpdu(untagged(14, 0, 1, b""))),
        ("RD-2", fpdu(tagged(2, 7, 100, b"ab"))),
        ("RD-3", fpdu(untagged(1, 1, 1, bytes(27)))),
        # L is missing: of a Send, and of an RDMA Write before a Send and before another RDMA Write.
        ("DDP-2", fpdu(part) + fpdu(untagged(3, 0, 2, b"c"))),
        ("DDP-2", fpdu(write) + fpdu(send)),
        ("DDP-2", fpdu(write) + fpdu(tagged(0, 8, 0, b""))),
        # L is set before the highest offset; the segments leave a gap; they overlap.
        ("DDP-2", fpdu(tagged(0, 7, 102, b"cd", last=False)) + fpdu(tagged(0, 7, 100, b"ab"))),
        ("DDP-8", fpdu(write) + fpdu(tagged(0, 7, 103, b"d"))),
        ("DDP-8", fpdu(write) + fpdu(tagged(0, 7, 101, b"d"))),
        ("DDP-8", fpdu(write) * 9),
        ("DDP-8", fpdu(part) + fpdu(untagged(3, 0, 1, b"d", offset=3))),
        ("DDP-5", fpdu(part) + fpdu(untagged(5, 0, 1, b"c", offset=2))),
        ("DDP-10", fpdu(part) + fpdu(tagged(0, 7, 100, b"ab"))),
    ):
        events, _, _ = heard(stream)
        assert (events[0].kind, events[0].fields.get("statement")) == ("broken", statement)
        assert not events[0].fields["recommended"]


def test_segments_in_another_order_break_a_recommendation() -> None:
    pieces = ((2, b"cd", False), (0, b"ab", False), (4, b"ef", True))
    writes = [tagged(0, 7, 100 + at, data, last=last) for at, data, last in pieces]
    sends = [untagged(3, 0, 1, data, offset=at, last=last) for at, data, last in pieces]
    for segments in (writes, sends):
        events, _, _ = heard(b"".join(map(fpdu, segments)))
        assert (events[0].fields["statement"], events[0].fields["recommended"]) == ("DDP-10", True)


def test_data_of_several_segments_is_placed() -> None:
    first, rest = tagged(0, 7, 100, b"ab", last=False), tagged(0, 7, 102, b"cd")
    send = fpdu(untagged(3, 0, 1, b"ab", last=False)) + fpdu(untagged(3, 0, 1, b"cd", offset=2))
    events, memory, _ = heard(fpdu(first) + fpdu(rest) + send)
    assert [event.kind for event in events] == ["message", "end"]
    assert memory.data[:4] == b"abcd"


def test_a_terminate_may_come_within_a_message() -> None:
    stream = fpdu(tagged(0, 7, 100, b"ab", last=False)) + fpdu(untagged(7, 2, 1, bytes(4)))
    assert [event.kind for event in heard(stream)[0]] == ["terminate", "end"]
