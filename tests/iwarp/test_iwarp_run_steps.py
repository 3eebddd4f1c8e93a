"""Runs of FPDUs step by step: which FPDU a run takes, where it stops, and the record that it leaves."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.iwarp.tagged import DISCARD, DirectRun, take_buffered_run, take_direct_run
from rpcrdma.verbs import Access, MemoryRegion
from rpcrdma.wire.checksum import crc32c

pytestmark = pytest.mark.in_python

HANDLE, BASE, MEMORY_OCTETS = 7, 1 << 20, 20_000
WRITE, RESPONSE = 0x40, 0x42
USUAL_OCTETS = 8192
BETWEEN_OCTETS = 20


def header(
    octets: int, offset: int, *, last: bool = False, control: int = 0x81, rdmap: int = WRITE, handle: int = HANDLE
) -> bytes:
    """The octets before the payload of a tagged FPDU."""
    return struct.pack(">HBBIQ", 14 + octets, control | 0x40 * last, rdmap, handle, offset)


def pattern(octets: int, start: int = 0) -> bytes:
    return bytes((start + n) * 7 + n // 256 & 0xFF for n in range(octets))


class Scene:
    """An FPDU of 3000 octets of payload at octet 100 of the memory, of which `arrived` octets are in place."""

    def __init__(
        self, octets: int = 3000, *, last: bool = False, arrived: int = 10, exact: bool = False, rdmap: int = WRITE
    ) -> None:
        self.memory = bytearray(MEMORY_OCTETS)
        self.region = MemoryRegion(HANDLE, BASE, memoryview(self.memory), Access.REMOTE_WRITE)
        self.behind = memoryview(bytearray(USUAL_OCTETS + 100))
        self.octets = octets
        self.first = header(octets, BASE + 100, last=last, rdmap=rdmap)
        self.payload = pattern(octets)
        self.run = run = DirectRun()
        run.header = struct.unpack(">HBBIQ", self.first)
        run.placed = arrived
        run.left = octets - arrived
        run.digest = crc32c(self.first + self.payload[:arrived])
        run.trailer = 4 + -octets % 4
        run.region = self.region
        run.bound = BASE + MEMORY_OCTETS
        run.exact = exact
        run.target = self.region.view[100 + arrived : 100 + octets]
        self.memory[100 : 100 + octets] = self.payload

    @property
    def crc(self) -> bytes:
        return struct.pack("<I", crc32c(self.first + self.payload))

    def take(self, octets: int, *, crc: bool = True) -> int:
        return take_direct_run(self.run, octets, self.behind, USUAL_OCTETS, None, crc=crc)

    def next_is(self, following: bytes, crc: bytes | None = None) -> None:
        """Behind the payload are its CRC and a header."""
        self.behind[:20] = (self.crc if crc is None else crc) + following


def test_a_new_record_is_of_no_fpdu() -> None:
    run = DirectRun()
    assert (run.header, run.fault, run.region, run.exact) == ((), None, None, False)
    assert (run.placed, run.left, run.digest, run.trailer, run.bound, run.ended, run.most) == (0,) * 7
    assert len(run.target) == 0
    assert len(DISCARD) == 1 << 16


@pytest.mark.parametrize("octets", [1, 500, 2989])
def test_a_part_of_the_payload_is_counted_and_digested(octets: int) -> None:
    scene = Scene()
    scene.run.ended = 5
    assert scene.take(octets) < 0
    run = scene.run
    assert (run.placed, run.left, run.ended, run.trailer) == (10 + octets, 2990 - octets, 0, 4)
    assert run.digest == crc32c(scene.first + scene.payload[: 10 + octets])


def test_without_crcs_no_digest_is_made() -> None:
    scene = Scene()
    before = scene.run.digest
    assert scene.take(100, crc=False) < 0
    assert scene.run.digest == before
    assert (scene.run.placed, scene.run.left) == (110, 2890)


@pytest.mark.parametrize("behind", [0, 1, 4, 16, 19, 21, 200])
def test_a_payload_with_more_or_less_behind_it_than_a_header_ends_the_run(behind: int) -> None:
    scene = Scene()
    scene.next_is(header(2500, BASE + 3100))
    assert scene.take(2990 + behind) == behind
    run = scene.run
    assert (run.placed, run.left, run.ended) == (3000, 0, 0)
    assert run.header == struct.unpack(">HBBIQ", scene.first)
    assert run.digest == crc32c(scene.first + scene.payload)


NEXT = {
    "usual": (header(2500, BASE + 3100), 2500),
    "smallest": (header(2048, BASE + 3100), 2048),
    "one that needs a pad": (header(2501, BASE + 3100), 2501),
    "the last": (header(2500, BASE + 3100, last=True), 2500),
    "up to the bound": (header(MEMORY_OCTETS - 3100, BASE + 3100), MEMORY_OCTETS - 3100),
}


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("name", NEXT)
def test_the_next_fpdu_of_the_message_is_begun(name: str, crc: bool) -> None:
    following, octets = NEXT[name]
    scene = Scene()
    scene.next_is(following, None if crc else b"junk")
    assert scene.take(3010, crc=crc) < 0
    run = scene.run
    assert run.ended == 3000
    assert run.header == struct.unpack(">HBBIQ", following)
    assert (run.placed, run.left, run.trailer) == (0, octets, 4 + -octets % 4)
    assert run.digest == crc32c(following) or not crc


@pytest.mark.parametrize(
    "following",
    [
        header(2047, BASE + 3100),
        header(2500, BASE + 3099),
        header(2500, BASE + 3101),
        header(2500, BASE + 3100, handle=HANDLE + 1),
        header(2500, BASE + 3100, rdmap=RESPONSE),
        header(2500, BASE + 3100, control=0x82),
        header(2500, BASE + 3100, control=0x01),
        header(2500, BASE + 3100, control=0x91),
        header(MEMORY_OCTETS - 3099, BASE + 3100),
        header(MEMORY_OCTETS, BASE + 3100, last=True),
    ],
    ids=[
        "short",
        "offset below",
        "offset above",
        "handle",
        "opcode",
        "version",
        "untagged",
        "reserved bit",
        "bound",
        "far beyond the bound",
    ],
)
def test_an_unusual_fpdu_is_not_begun(following: bytes) -> None:
    scene = Scene()
    scene.next_is(following)
    assert scene.take(3010) == 20
    run = scene.run
    assert (run.ended, run.placed, run.left) == (0, 3000, 0)
    assert run.header == struct.unpack(">HBBIQ", scene.first)


@pytest.mark.parametrize("flaw", [b"\0\0\0\0", b"\xff\xff\xff\xff"])
def test_after_a_wrong_crc_nothing_is_begun(flaw: bytes) -> None:
    scene = Scene()
    scene.next_is(header(2500, BASE + 3100), flaw)
    assert scene.take(3010) == 20
    assert scene.run.ended == 0


def test_the_last_fpdu_of_a_message_has_none_after_it() -> None:
    scene = Scene(last=True)
    scene.next_is(header(2500, BASE + 3100))
    assert scene.take(3010) == 20
    assert scene.run.ended == 0


def test_a_payload_without_a_region_has_none_after_it() -> None:
    scene = Scene()
    scene.run.region = None
    scene.next_is(header(2500, BASE + 3100))
    assert scene.take(3010) == 20
    assert scene.run.ended == 0


@pytest.mark.parametrize("octets", [3001, 3002, 3003])
def test_a_payload_with_a_pad_has_none_after_it(octets: int) -> None:
    scene = Scene(octets)
    scene.next_is(header(2500, BASE + 100 + octets))
    assert scene.take(octets - 10 + 20) == 20
    assert scene.run.ended == 0


@pytest.mark.parametrize(
    ("octets", "last", "begun"),
    [(2500, False, True), (2500, True, False), (4000, True, True), (4000, False, True), (4001, True, False)],
)
def test_a_response_ends_where_the_read_ends(octets: int, last: bool, begun: bool) -> None:
    scene = Scene(exact=True, rdmap=RESPONSE)
    scene.run.bound = BASE + 7100
    scene.next_is(header(octets, BASE + 3100, last=last, rdmap=RESPONSE))
    assert (scene.take(3010) < 0) is begun
    assert scene.run.ended == (3000 if begun else 0)


class Socket:
    """Gives a stream in pieces of the sizes in `gives`; None is a stream that has nothing now. Records the offers."""

    def __init__(self, stream: bytes, gives: list[int | None]) -> None:
        self.stream = stream
        self.gives = gives
        self.offers: list[list[int]] = []

    def receive(self, buffers: list[memoryview]) -> tuple[int, object, int, object]:
        self.offers.append(list(map(len, buffers)))
        assert self.gives, "no further receive is expected"
        octets = self.gives.pop(0)
        if octets is None:
            raise BlockingIOError
        assert octets <= sum(map(len, buffers))
        part, self.stream = self.stream[:octets], self.stream[octets:]
        for buffer in buffers:
            buffer[: len(part[: len(buffer)])] = part[: len(buffer)]
            part = part[len(buffer) :]
        return octets, [], 0, None


SECOND, THIRD, FOURTH = pattern(2500, 1), pattern(2048, 2), pattern(2301, 3)
"""Payloads that follow the first one; the last of them needs a pad."""


def following_stream() -> bytes:
    """The octets from the payload of the second FPDU on, up to the CRC of the fourth and last one."""
    stream = b""
    at = BASE + 3100
    headers = []
    for data, last in ((SECOND, False), (THIRD, False), (FOURTH, True)):
        headers.append(header(len(data), at, last=last))
        at += len(data)
    for n, data in enumerate((SECOND, THIRD, FOURTH)):
        body = headers[n] + data + bytes(-(16 + len(data)) % 4)
        stream += body[16:] + struct.pack("<I", crc32c(body))
        if n < 2:
            stream += headers[n + 1]
    return stream


def begun(gives: list[int | None], most: int) -> tuple[Scene, Socket, int]:
    """A run that begins with the second FPDU's header on hand."""
    scene = Scene()
    scene.next_is(header(2500, BASE + 3100))
    scene.run.most = most
    socket = Socket(following_stream(), gives)
    result = take_direct_run(scene.run, 3010, scene.behind, USUAL_OCTETS, socket.receive, crc=True)
    return scene, socket, result


def test_a_run_receives_up_to_the_end_of_its_message() -> None:
    scene, socket, result = begun([2520, 2068, 2301 + 7], 1 << 20)
    # Behind each payload: CRC and header, behind the last one the usual room.
    assert socket.offers == [[2500, 20], [2048, 20], [2301, USUAL_OCTETS]]
    assert result == 7
    run = scene.run
    assert (run.placed, run.left, run.ended, run.trailer) == (2301, 0, 3000 + 2500 + 2048, 7)
    assert run.header == struct.unpack(">HBBIQ", header(2301, BASE + 7648, last=True))
    assert scene.memory[100:9949] == scene.payload + SECOND + THIRD + FOURTH
    assert scene.memory[9949:] == bytes(MEMORY_OCTETS - 9949)
    # The last receive gave less than it could: the stream has no more.
    assert run.most == 0


def test_a_receive_that_fills_all_is_counted() -> None:
    scene, socket, result = begun([2520, 2068, None], 10_000)
    assert len(socket.offers) == 3
    assert result < 0
    assert (scene.run.ended, scene.run.left, scene.run.most) == (5500 + 2048, 2301, 0)


@pytest.mark.parametrize(
    ("most", "gives", "left"),
    [
        (0, [], 0),
        (-1, [], -1),
        (1, [2520], 1 - 2520),
        (2520, [2520], 0),
        (2521, [2520, 2068], 1 - 2068),
    ],
)
def test_a_run_receives_no_more_than_it_may(most: int, gives: list[int | None], left: int) -> None:
    frames = len(gives)
    scene, socket, result = begun(gives, most)
    assert result < 0
    assert len(socket.offers) == frames
    assert scene.run.most == left
    assert scene.run.ended == [3000, 5500, 7548][frames]
    assert scene.run.left == [2500, 2048, 2301][frames]


@pytest.mark.parametrize(
    ("octets", "result", "most"),
    [
        # Nothing: the stream has ended, or the next receive tells.
        (0, -1, 50_000),
        (1, -1, 0),
        (2499, -1, 0),
        (2500, 0, 0),
        (2519, 19, 0),
    ],
)
def test_a_receive_that_gives_less_is_the_last_one(octets: int, result: int, most: int) -> None:
    scene, socket, found = begun([octets], 50_000)
    assert (found if found >= 0 else -1) == result
    assert len(socket.offers) == 1
    run = scene.run
    assert run.most == most
    assert (run.ended, run.placed, run.left) == (3000, min(octets, 2500), max(2500 - octets, 0))
    assert run.digest == crc32c(header(2500, BASE + 3100) + SECOND[: min(octets, 2500)])


def test_a_stream_without_octets_leaves_the_fpdu_begun() -> None:
    scene, _, result = begun([None], 50_000)
    assert result < 0
    run = scene.run
    assert (run.ended, run.placed, run.left, run.most) == (3000, 0, 2500, 0)
    assert len(run.target) == 2500


# FPDUs that are whole in the receive buffer.


def buffered(
    octets: int,
    offset: int,
    *,
    last: bool = False,
    flaw: int = 0,
    control: int = 0x81,
    rdmap: int = WRITE,
    handle: int = HANDLE,
) -> bytes:
    body = header(octets, offset, last=last, control=control, rdmap=rdmap, handle=handle) + pattern(octets, offset)
    body += bytes(-len(body) % 4)
    return body + struct.pack("<I", crc32c(body) + flaw & 0xFFFFFFFF)


def take(
    stream: bytes, room: int = 1000, *, exact: bool = False, crc: bool = True
) -> tuple[tuple[int, int, bool], bytes]:
    target = bytearray(room)
    taken = take_buffered_run(memoryview(stream), WRITE, HANDLE, 5000, memoryview(target), exact=exact, crc=crc)
    return taken, bytes(target)


FIRST = buffered(100, 5000)
"""120 octets."""


@pytest.mark.parametrize("octets", range(1, 9))
def test_a_whole_fpdu_is_placed(octets: int) -> None:
    frame = buffered(octets, 5000)
    taken, memory = take(frame, octets)
    assert taken == (16 + octets + -octets % 4 + 4, octets, False)
    assert memory == pattern(octets, 5000)
    for end in range(len(frame)):
        assert take(frame[:end], octets) == ((0, 0, False), bytes(octets))


def test_fpdus_are_placed_one_behind_another_up_to_the_last() -> None:
    stream = FIRST + buffered(7, 5100) + buffered(50, 5107, last=True) + buffered(10, 5157)
    taken, memory = take(stream)
    assert taken == (120 + 28 + 72, 157, True)
    assert memory == pattern(100, 5000) + pattern(7, 5100) + pattern(50, 5107) + bytes(843)


SECOND_ONES = {
    "crc": buffered(7, 5100, flaw=1),
    "offset below": buffered(7, 5099),
    "offset above": buffered(7, 5101),
    "opcode": buffered(7, 5100, rdmap=RESPONSE),
    "handle": buffered(7, 5100, handle=HANDLE + 1),
    "empty": buffered(0, 5100),
    "version": buffered(7, 5100, control=0x82),
    "reserved bit": buffered(7, 5100, control=0x91),
    "untagged": buffered(7, 5100, control=0x01),
    "too long": buffered(901, 5100),
}


@pytest.mark.parametrize("name", SECOND_ONES)
def test_an_unusual_fpdu_ends_the_run_before_it(name: str) -> None:
    taken, memory = take(FIRST + SECOND_ONES[name] + buffered(9, 5107))
    assert taken == (120, 100, False)
    assert memory == pattern(100, 5000) + bytes(900)
    # A first one that is unusual leaves all as it was.
    assert take(SECOND_ONES[name])[0] == (0, 0, False)


def test_the_memory_is_filled_to_the_last_octet() -> None:
    taken, memory = take(FIRST + buffered(900, 5100))
    assert taken == (120 + 920, 1000, False)
    assert memory == pattern(100, 5000) + pattern(900, 5100)


def test_without_crcs_the_field_is_not_looked_at() -> None:
    stream = FIRST + buffered(7, 5100, flaw=1)
    assert take(stream, crc=False)[0] == (148, 107, False)


@pytest.mark.parametrize(
    ("octets", "last", "taken"), [(899, True, 0), (900, True, 1), (899, False, 1), (900, False, 1)]
)
def test_a_response_ends_with_the_memory_that_was_asked_for(octets: int, last: bool, taken: int) -> None:
    frame = buffered(octets, 5100, last=last)
    expected = (120 + len(frame), 100 + octets, last) if taken else (120, 100, False)
    assert take(FIRST + frame, exact=True)[0] == expected
    # A Write may end anywhere.
    assert take(FIRST + frame)[0] == (120 + len(frame), 100 + octets, last)
