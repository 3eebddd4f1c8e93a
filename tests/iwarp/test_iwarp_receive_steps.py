"""Receiving step by step: which buffers are offered for the next octets, and which state the octets lead to."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.iwarp.receiver import _DISCARD as DISCARD
from rpcrdma.iwarp.segments import TAGGED
from rpcrdma.iwarp.states import State
from rpcrdma.testing.joined_pair import feed
from rpcrdma.verbs import Access, Completion, MemoryRegion, SoftwareProtectionDomain, Status, Verb
from rpcrdma.verbs.receive_pool import ReceivePool, ScatteredBuffer
from support.cases import each_case
from support.raw_iwarp import RawPeer, completions_of, events_of, fpdu, tagged, terminate, untagged

pytestmark = pytest.mark.in_python

IDLE, FULL = 8192, 73_728
"""Octets of the scratch buffer that are offered usually, and when many small FPDUs may come."""


def state_of(qp: IwarpQueuePair) -> State:
    """A call, so that no earlier check narrows the type."""
    return qp.state


class Scene:
    """A responder that may speak, with memory of 100000 octets at `handle` and `offset`."""

    def __init__(self, *, crc: bool = True) -> None:
        numbers = itertools.count(5)
        pd = SoftwareProtectionDomain(lambda bits: next(numbers) << 8 & (1 << bits) - 1)
        self.raw = RawPeer(MpaRole.RESPONDER, pd, IwarpConfig(crc=crc))
        self.qp = self.raw.qp
        self.raw.connect(crc=crc)
        assert self.offers == [IDLE]
        assert self.step(fpdu(tagged(0, 0, 0), crc=crc)) == [IDLE]
        assert state_of(self.qp) is State.OPEN
        events_of(self.qp)
        self.memory = bytearray(100_000)
        self.region: MemoryRegion = pd.register(self.memory, Access.REMOTE_WRITE)

    @property
    def offers(self) -> list[int]:
        return list(map(len, self.qp.next_buffers()))

    def step(self, octets: bytes) -> list[int]:
        """Receives all `octets` at once; the sizes of the buffers that are offered for the next ones."""
        assert feed(self.qp, octets) == len(octets)
        return self.offers

    def write(self, octets: int, at: int = 0, *, last: bool = True, fill: int = 0x55) -> bytes:
        return fpdu(tagged(0, self.region.handle, self.region.offset + at, bytes([fill]) * octets, last=last))

    @property
    def at_rest(self) -> bool:
        """Whether no FPDU has arrived in part."""
        return not self.qp._receiver.mid_frame


@pytest.mark.req("DDP-8")
@each_case(
    ("payload", "arrived", "offers"),
    [
        # 3020 octets in all: direct while 2048 or more are to come.
        (3000, 16, [3000, IDLE]),
        (3000, 17, [2999, IDLE]),
        (3000, 972, [2044, IDLE]),
        (3000, 973, [IDLE - 973]),
        (3000, 3019, [IDLE - 3019]),
        # Padding counts among the octets to come.
        (3001, 976, [2041, IDLE]),
        (3001, 977, [IDLE - 977]),
        # Of a frame that is longer than the buffer as much as fits is not yet the end.
        (60_000, 16, [60_000, IDLE]),
        (60_000, 8192, [60_000 - 8176, IDLE]),
        (8172, 8000, [IDLE - 8000]),
        (8173, 8000, [FULL - 8000]),
        (8183, 8000, [FULL - 8000]),
        (8200, 8192, [FULL - 8192]),
    ],
)
def test_the_payload_of_a_large_frame_is_received_into_its_place(payload: int, arrived: int, offers: list[int]) -> None:
    scene = Scene()
    frame = scene.write(payload)
    assert scene.step(frame[:arrived]) == offers
    assert not scene.at_rest
    if len(offers) == 2:
        assert scene.memory[: arrived - 15] == b"\x55" * (arrived - 16) + b"\0"
        place = scene.qp.next_buffers()[0]
        assert place.obj is scene.memory
        place[:1] = b"\x77"
        assert scene.memory[arrived - 16] == 0x77
    # A receive that fills the buffer makes room for many.
    assert scene.step(frame[arrived:]) == [FULL if payload == 8172 else IDLE]
    assert scene.at_rest
    assert scene.memory[: payload + 1] == b"\x55" * payload + b"\0"


@each_case(
    ("payload", "last", "offers"),
    [(4076, False, 16), (4072, False, IDLE), (4076, True, IDLE), (6000, False, 16), (6000, True, IDLE)],
)
def test_after_bulk_a_header_is_awaited(payload: int, last: bool, offers: int) -> None:
    scene = Scene()
    frame = scene.write(payload, last=last)
    # Once whole in the buffer, once straight into its place.
    assert scene.step(frame) == [offers]
    assert scene.at_rest
    other = Scene()
    other.step(frame[:100])
    assert other.step(frame[100:]) == [offers]
    assert other.at_rest


def test_the_header_of_the_next_bulk_frame_comes_alone_and_piece_by_piece() -> None:
    scene = Scene()
    assert scene.step(scene.write(6000, last=False)) == [16]
    following = scene.write(6000, 6000, last=False, fill=0x66)
    assert scene.step(following[:1]) == [15]
    assert scene.step(following[1:15]) == [1]
    assert scene.step(following[15:16]) == [6000, 20]
    assert scene.step(following[16:5000]) == [6000 - 4984, 20]
    assert scene.step(following[5000:6016]) == [20]
    assert scene.step(following[6016:6018]) == [18]
    assert not scene.at_rest
    assert scene.step(following[6018:]) == [16]
    assert scene.at_rest
    assert scene.memory[:12_001] == b"\x55" * 6000 + b"\x66" * 6000 + b"\0"


def test_a_small_frame_after_bulk_is_received_into_the_buffer() -> None:
    scene = Scene()
    assert scene.step(scene.write(6000, last=False)) == [16]
    small = scene.write(500, 6000, fill=0x66)
    assert scene.step(small[:16]) == [IDLE - 16]
    assert scene.step(small[16:]) == [IDLE]
    assert scene.memory[:6501] == b"\x55" * 6000 + b"\x66" * 500 + b"\0"


def test_a_buffer_that_has_grown_is_kept_while_its_frame_arrives() -> None:
    scene = Scene()
    scene.qp.post_receive("in", memoryview(bytearray(9000)))
    frame = fpdu(untagged(3, 0, 1, bytes(9000)))
    assert scene.step(scene.write(4076) + scene.write(4072) + frame[:4]) == [FULL - 4]
    grown = scene.qp._receiver.view
    assert scene.step(frame[4:16]) == [FULL - 16]
    assert scene.qp._receiver.view is grown


# Sends.


@each_case(
    ("payload", "arrived", "offers"),
    [
        (5000, 16, [IDLE - 16]),
        (5000, 19, [IDLE - 19]),
        (5000, 20, [5000, IDLE]),
        (5000, 21, [4999, IDLE]),
        (5000, 2976, [5000 - 2956, IDLE]),
        (5000, 2977, [IDLE - 2977]),
        (5001, 100, [4921, IDLE]),
    ],
)
def test_the_payload_of_a_large_send_is_received_into_its_place(payload: int, arrived: int, offers: list[int]) -> None:
    scene = Scene()
    buffer = bytearray(6000)
    scene.qp.post_receive("in", memoryview(buffer))
    frame = fpdu(untagged(3, 0, 1, b"\x55" * payload))
    assert scene.step(frame[:arrived]) == offers
    assert not scene.at_rest
    if len(offers) == 2:
        place = scene.qp.next_buffers()[0]
        assert place.obj is buffer
        place[:1] = b"\x77"
        assert buffer[arrived - 20] == 0x77
        assert buffer[: arrived - 20] == b"\x55" * (arrived - 20)
    assert scene.step(frame[arrived:]) == [IDLE]
    assert completions_of(scene.qp) == [Completion("in", Verb.RECEIVE, Status.SUCCESS, payload)]
    assert buffer == b"\x55" * payload + bytes(6000 - payload)
    assert scene.at_rest


def test_a_segment_of_a_send_goes_to_its_offset() -> None:
    scene = Scene()
    buffer = bytearray(9000)
    scene.qp.post_receive("in", memoryview(buffer))
    assert scene.step(fpdu(untagged(3, 0, 1, b"\x44" * 100, last=False))) == [IDLE]
    second = fpdu(untagged(3, 0, 1, b"\x55" * 5000, offset=100, last=False))
    assert scene.step(second[:30]) == [4990, IDLE]
    place = scene.qp.next_buffers()[0]
    place[:1] = b"\x77"
    assert buffer[:112] == b"\x44" * 100 + b"\x55" * 10 + b"\x77\0"
    assert scene.step(second[30:]) == [IDLE]
    assert completions_of(scene.qp) == []
    assert scene.step(fpdu(untagged(3, 0, 1, b"\x66" * 7, offset=5100))) == [IDLE]
    assert completions_of(scene.qp) == [Completion("in", Verb.RECEIVE, Status.SUCCESS, 5107)]
    assert buffer == b"\x44" * 100 + b"\x55" * 5000 + b"\x66" * 7 + bytes(9000 - 5107)
    # The next message begins at its own start, with the next number.
    other = bytearray(8)
    scene.qp.post_receive("other", memoryview(other))
    assert scene.step(fpdu(untagged(3, 0, 2, b"other"))) == [IDLE]
    assert completions_of(scene.qp) == [Completion("other", Verb.RECEIVE, Status.SUCCESS, 5)]
    assert other == b"other\0\0\0"


@each_case("arrived", [20, 21, 120, 121, 1020, 1021, 1500])
def test_a_scattered_send_is_received_piece_by_piece(arrived: int) -> None:
    scene = Scene()
    parts = [bytearray(octets) for octets in (100, 900, 2000, 5000)]
    scene.qp._receiver.untagged.receives.append(("in", ScatteredBuffer([memoryview(part) for part in parts])))
    data = bytes(n % 251 for n in range(5001))
    frame = fpdu(untagged(3, 0, 1, data))
    offers = scene.step(frame[:arrived])
    ends = [120, 1020, 3020, 5021]
    at = arrived
    for end in (end for end in ends if end > arrived):
        assert offers == ([end - at] if end < 5021 else [end - at, IDLE])
        if end < 5021:
            offers = scene.step(frame[at:end])
            at = end
    assert scene.step(frame[at:]) == [IDLE]
    assert b"".join(parts) == data + bytes(8000 - 5001)
    assert completions_of(scene.qp) == [Completion("in", Verb.RECEIVE, Status.SUCCESS, 5001)]


@each_case("octets", [1, 3, 4, 9])
def test_small_segments_of_a_send_fill_scattered_memory(octets: int) -> None:
    scene = Scene()
    parts = [bytearray(3), bytearray(4), bytearray(9)]
    scene.qp._receiver.untagged.receives.append(("in", ScatteredBuffer([memoryview(part) for part in parts])))
    data = b"piece by piece"
    for start in range(0, len(data), octets):
        part = data[start : start + octets]
        scene.step(fpdu(untagged(3, 0, 1, part, offset=start, last=start + octets >= len(data))))
    assert b"".join(parts) == data + bytes(2)
    assert completions_of(scene.qp) == [Completion("in", Verb.RECEIVE, Status.SUCCESS, len(data))]


# Memory that ends, and rules that are broken, while the payload comes.


@each_case(
    ("segment", "code"),
    [
        (untagged(3, 0, 2, bytes(5000)), 0x1203),
        (untagged(3, 0, 1, bytes(5000), offset=1), 0x1204),
        (untagged(3, 0, 1, bytes(6001)), 0x1205),
        (untagged(3, 0, 1, bytes(5000), ddp_version=2), 0x1206),
        (untagged(3, 1, 1, bytes(5000)), 0x1201),
        (tagged(0, 1, 0, bytes(5000)), 0x1100),
        (tagged(2, 1, 0, bytes(5000)), 0x0206),
        (tagged(0, 1, 0, bytes(5000), ddp_version=2), 0x1104),
    ],
)
def test_a_broken_rule_is_told_when_the_frame_is_complete(segment: bytes, code: int) -> None:
    scene = Scene()
    buffer = bytearray(6000)
    scene.qp.post_receive("in", memoryview(buffer))
    frame = fpdu(segment)
    header = 16 if segment[0] & 0x80 else 20
    payload = len(segment) + 2 - header
    offers = scene.step(frame[:100])
    assert offers[0] == payload + header - 100
    assert scene.qp.next_buffers()[0].obj is DISCARD.obj
    assert state_of(scene.qp) is State.OPEN
    assert scene.step(frame[100 : len(frame) - 4]) == [IDLE - (len(frame) - 4 - header - payload)] or header == 16
    assert state_of(scene.qp) is State.OPEN
    feed(scene.qp, frame[-4:])
    assert state_of(scene.qp) is State.LAST_WORDS
    assert scene.raw.take() == terminate(code, segment)
    assert buffer == bytes(6000)


@each_case("opcode", [0, 2])
@each_case("queue", [0, 1])
def test_an_untagged_segment_writes_no_memory(opcode: int, queue: int) -> None:
    scene = Scene()
    # Where the words for queue and number would be an offset.
    scene.region.offset = queue << 32
    wrong = untagged(opcode, queue, 1, b"written", invalidate=scene.region.handle)
    feed(scene.qp, fpdu(wrong))
    assert scene.raw.take() == terminate(0x0206, wrong)
    assert scene.memory == bytes(100_000)


def test_a_length_without_room_for_a_header_is_told_at_once() -> None:
    for length, arrived in itertools.product(range(14), (2, 3, 15)):
        scene = Scene()
        assert scene.step(b"\0") == [IDLE - 1]
        feed(scene.qp, (length.to_bytes(2, "big") + b"\xc1\x40" + bytes(20))[1:arrived])
        assert state_of(scene.qp) is State.LAST_WORDS
        assert scene.raw.take() == terminate(0x1000)


@each_case("length", [14, 15, 17, 18, 256, 13 << 8])
def test_a_length_with_room_for_a_header_is_waited_for(length: int) -> None:
    for first in (b"\xc1\x40", b"\x41\x43"):
        scene = Scene()
        scene.qp.post_receive("in", memoryview(bytearray(8)))
        for arrived in range(2, 16):
            frame = length.to_bytes(2, "big") + first + bytes(40)
            assert scene.step(frame[arrived - 2 : arrived] if arrived == 2 else frame[arrived - 1 : arrived]) == [
                IDLE - arrived
            ]
            assert state_of(scene.qp) is State.OPEN
        # The control octet tells which header it is.
        feed(scene.qp, bytes(1))
        told = first[0] < 0x80 and length < 18
        assert state_of(scene.qp) is (State.LAST_WORDS if told else State.OPEN)
        assert scene.raw.take() == (terminate(0x1000) if told else b"")


class CountedPool(ReceivePool):
    """Counts the buffers for messages that are known to be short, and those for other ones."""

    def __init__(self) -> None:
        super().__init__(64)
        self.short_octets = 32
        self.scattered = {(0x78787878, 0x78787878)}
        self.taken = self.drawn = 0

    def take(self) -> memoryview:
        self.taken += 1
        return super().take()

    def draw(self) -> memoryview:
        self.drawn += 1
        return super().take()


@each_case(
    ("segments", "plain", "drawn"),
    [
        ([untagged(3, 0, 1, b"x" * 32)], 1, 0),
        ([untagged(3, 0, 1)], 1, 0),
        ([untagged(3, 0, 1, b"x" * 33)], 0, 1),
        ([untagged(3, 0, 1, b"y" * 33)], 1, 0),
        ([untagged(5, 0, 1, b"x")], 1, 0),
        ([untagged(3, 0, 1, b"x", last=False), untagged(3, 0, 1, b"y", offset=1)], 0, 1),
        ([untagged(3, 0, 1, b"x"), untagged(3, 0, 2, b"x" * 20), untagged(3, 0, 3, b"x" * 64)], 2, 1),
    ],
)
def test_a_short_or_plain_message_of_one_segment_takes_no_buffer(segments: list[bytes], plain: int, drawn: int) -> None:
    scene = Scene()
    pool = CountedPool()
    scene.qp.post_receives(4, pool)
    assert scene.step(b"".join(map(fpdu, segments))) == [IDLE]
    assert (pool.taken, pool.drawn) == (0, drawn)
    assert scene.qp._receiver.untagged.shared == 4 - plain - drawn
    completions = completions_of(scene.qp)
    assert len(completions) == plain + drawn
    assert sum(type(completion.wr) is bytes for completion in completions) == plain
    assert scene.qp._receiver.untagged.numbers == [1 + plain + drawn, 1, 1]


# Lengths of 0x2336 and 0x2805 octets.
@each_case("payload", [9000, 10_231])
def test_a_long_frame_after_bulk_in_a_large_buffer_has_its_rest_there(payload: int) -> None:
    scene = Scene()
    first = scene.write(4076)
    assert scene.step(first + first) == [FULL]
    bulk = scene.write(4076, last=False)
    following = scene.write(payload, 4076, fill=0x66)
    assert scene.step(bulk + following[:8900]) == [FULL - 8900]
    assert scene.step(following[8900:]) == [IDLE]
    assert scene.memory[: 4077 + payload] == b"\x55" * 4076 + b"\x66" * payload + b"\0"


def test_memory_is_let_go_of_once_it_is_complete() -> None:
    scene = Scene()
    direct = scene.qp._receiver.direct
    frame = scene.write(5000)
    # Of whichever frame there was before.
    direct.header = TAGGED.unpack_from(scene.write(5000, 8))
    assert scene.step(frame[:100]) == [4916, IDLE]
    assert direct.target.obj is scene.memory
    assert (direct.left, direct.placed, direct.trailer, direct.fault) == (4916, 84, 4, None)
    assert direct.header == TAGGED.unpack_from(frame)
    assert scene.step(frame[100:]) == [IDLE]
    assert (len(direct.target), direct.trailer, direct.left) == (0, 0, 0)
    assert scene.step(frame[:100]) == [4916, IDLE]
    scene.qp.post_receive("left", memoryview(bytearray(8)))
    scene.qp.abort("enough")
    assert len(direct.target) == 0
    receiver = scene.qp._receiver
    assert (receiver.filled, len(receiver.view), receiver.untagged.shared) == (0, 0, 0)
    assert not receiver.untagged.receives
