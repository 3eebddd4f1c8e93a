"""The record of a receiver between two receives: after each part of an FPDU it has noted just that part."""

from __future__ import annotations

import pytest

from rpcrdma.iwarp import IwarpConfig, MpaRole
from rpcrdma.iwarp.states import State
from rpcrdma.testing.joined_pair import feed
from rpcrdma.verbs import Access, Disconnected, Established, MemoryRegion, SoftwareProtectionDomain
from rpcrdma.verbs.receive_pool import ReceivePool, ScatteredBuffer
from rpcrdma.wire.checksum import crc32c
from support.cases import each_case
from support.raw_iwarp import RawPeer, events_of, fpdu, read_request, startup_frame, tagged, untagged

pytestmark = pytest.mark.in_python

HANDLE, OFFSET = 9, 1


def initiator() -> RawPeer:
    """Connected, and heard by the responder; memory of 20000 octets begins at octet 1 of the offset space."""
    raw = RawPeer(MpaRole.INITIATOR, SoftwareProtectionDomain(lambda bits: 0), IwarpConfig())
    raw.connect()
    raw.qp.post_write(None, [], 1, 0, signaled=False)
    assert raw.take() == fpdu(tagged(0, 1, 0))
    assert raw.qp.state is State.OPEN
    events_of(raw.qp)
    raw.pd.regions[HANDLE] = MemoryRegion(HANDLE, OFFSET, memoryview(bytearray(20_000)), Access.REMOTE_WRITE)
    return raw


def test_only_a_valid_fpdu_is_heard() -> None:
    raw = initiator()
    receiver = raw.qp._receiver
    frame = fpdu(tagged(0, HANDLE, OFFSET, b"data"))
    feed(raw.qp, frame[:-1])
    assert not receiver.heard
    feed(raw.qp, frame[-1:])
    assert receiver.heard
    other = initiator()
    feed(other.qp, fpdu(tagged(0, HANDLE, OFFSET, b"data"), flaw=1))
    assert not other.qp._receiver.heard


@each_case("payload", [3000, 5001])
def test_a_header_alone_is_noted_before_any_payload(payload: int) -> None:
    raw = initiator()
    frame = fpdu(tagged(0, HANDLE, OFFSET, bytes(payload)))
    feed(raw.qp, frame[:16])
    direct = raw.qp._receiver.direct
    assert direct.header == (14 + payload, 0xC1, 0x40, HANDLE, OFFSET)
    assert (direct.placed, direct.left, direct.trailer) == (0, payload, 4 + -payload % 4)
    assert direct.digest == crc32c(frame[:16])
    assert direct.fault is None
    assert raw.qp._receiver.filled == 0
    assert raw.qp._receiver.mid_frame
    assert not raw.qp._receiver.heard


def test_the_header_of_a_send_alone_is_noted_too() -> None:
    raw = initiator()
    raw.qp.post_receive("in", memoryview(bytearray(6000)))
    frame = fpdu(untagged(3, 0, 1, bytes(5000), invalidate=77))
    feed(raw.qp, frame[:20])
    direct = raw.qp._receiver.direct
    assert direct.header == (5018, 0x41, 0x43, 77, 0, 1, 0)
    assert (direct.placed, direct.left, direct.trailer, direct.fault) == (0, 5000, 4, None)
    assert direct.digest == crc32c(frame[:20])


@each_case("opcode", [0, 2])
@each_case("queue", [0, 1])
def test_an_untagged_segment_writes_no_memory(opcode: int, queue: int) -> None:
    raw = initiator()
    memory = bytearray(64)
    # Where the words for queue and number would be an offset.
    raw.pd.regions[HANDLE] = MemoryRegion(HANDLE, queue << 32, memoryview(memory), Access.REMOTE_WRITE)
    feed(raw.qp, fpdu(untagged(opcode, queue, 1, b"written", invalidate=HANDLE)))
    assert memory == bytes(64)
    assert raw.qp.state is State.LAST_WORDS
    (event,) = events_of(raw.qp)
    assert f"opcode {opcode:#x} in an untagged segment" in str(event)


def test_a_tagged_segment_is_no_send() -> None:
    raw = initiator()
    buffer = bytearray(64)
    raw.qp.post_receive("in", memoryview(buffer))
    memory = bytearray(8)
    raw.pd.regions[HANDLE] = MemoryRegion(HANDLE, 1, memoryview(memory), Access.REMOTE_WRITE)
    feed(raw.qp, fpdu(tagged(0, HANDLE, 1, b"written!")))
    assert memory == b"written!"
    assert not raw.qp.completions
    assert buffer == bytes(64)
    assert raw.qp.state is State.OPEN


def test_a_part_of_a_send_is_noted_with_its_header() -> None:
    raw = initiator()
    receiver = raw.qp._receiver
    raw.qp.post_receive("in", memoryview(bytearray(64)))
    feed(raw.qp, fpdu(untagged(4, 0, 1, b"abc", invalidate=HANDLE, last=False)))
    assert (receiver.untagged.send_octets, receiver.untagged.send_opened, receiver.untagged.numbers) == (
        3,
        (0x44, HANDLE),
        [1, 1, 1],
    )
    feed(raw.qp, fpdu(untagged(4, 0, 1, b"de", invalidate=HANDLE, offset=3, last=False)))
    assert (receiver.untagged.send_octets, receiver.untagged.send_opened) == (5, (0x44, HANDLE))
    feed(raw.qp, fpdu(untagged(4, 0, 1, b"f", invalidate=HANDLE, offset=5)))
    assert (receiver.untagged.send_octets, receiver.untagged.numbers) == (0, [2, 1, 1])
    assert HANDLE not in raw.pd.regions
    assert not receiver.untagged.receives


@each_case("count", [1, 2, 3])
def test_reads_of_the_peer_are_noted_in_order(count: int) -> None:
    raw = initiator()
    region = MemoryRegion(5, 100, memoryview(bytearray(64)), Access.REMOTE_READ)
    raw.pd.regions[5] = region
    for n in range(1, count + 1):
        feed(raw.qp, fpdu(read_request(n, 70 + n, 80 + n, n, 5, 100 + n)))
        responses = raw.qp._sender.responses
        assert len(responses) == n
        assert responses[-1].header == (70 + n, 80 + n, n, 5, 100 + n)
        assert responses[-1].request == (46, 0x41, 0x41, 0, 1, n, 0)
    assert raw.qp._receiver.untagged.numbers == [1, 1 + count, 1]


@each_case(
    ("change", "said"),
    [
        ({"payload": bytes(27)}, "an RDMA Read Request of 27 octets"),
        ({"payload": bytes(29)}, "an RDMA Read Request of 29 octets"),
        ({"payload": b""}, "an RDMA Read Request of 0 octets"),
        ({"payload": bytes(28), "last": False}, "an RDMA Read Request of 28 octets"),
        ({"payload": bytes(28), "offset": 1}, "message offset 1"),
        ({"payload": bytes(28), "msn": 2}, "message 2 of queue 1 instead of 1"),
    ],
)
def test_a_read_request_is_one_segment_of_28_octets(change: dict[str, object], said: str) -> None:
    raw = initiator()
    settings: dict[str, object] = {"msn": 1} | change
    feed(raw.qp, fpdu(untagged(1, 1, settings.pop("msn"), settings.pop("payload"), **settings)))  # type: ignore[arg-type]
    assert raw.qp.state is State.LAST_WORDS
    assert raw.qp._sender.responses == []
    (event,) = events_of(raw.qp)
    assert said in str(event)


def test_reads_beyond_the_agreed_depth_are_refused() -> None:
    raw = RawPeer(MpaRole.INITIATOR, SoftwareProtectionDomain(lambda bits: 0), IwarpConfig(inbound_reads=2))
    raw.connect(depth=2)
    raw.qp.post_write(None, [], 1, 0, signaled=False)
    raw.take()
    events_of(raw.qp)
    for n in (1, 2):
        feed(raw.qp, fpdu(read_request(n, 0, 0, 0, 0, 0)))
        assert raw.qp.state is State.OPEN
        assert len(raw.qp._sender.responses) == n
    feed(raw.qp, fpdu(read_request(3, 0, 0, 0, 0, 0)))
    assert raw.qp.state is State.LAST_WORDS
    (event,) = events_of(raw.qp)
    assert "more than 2 RDMA Reads outstanding" in str(event)


@each_case("position", [0, 1440])
def test_the_place_where_a_response_broke_off_is_named(position: int) -> None:
    raw = initiator()
    region = MemoryRegion(5, 1000, memoryview(bytearray(4000)), Access.REMOTE_READ)
    raw.pd.regions[5] = region
    feed(raw.qp, fpdu(read_request(1, 70, 80, 4000, 5, 1000)))
    raw.qp.next_gather(1 << 16)
    if position:
        raw.qp.bytes_sent(1460)
    raw.pd.invalidate(region)
    assert raw.qp.next_gather(1 << 16)
    assert raw.qp.state is State.LAST_WORDS
    (event,) = events_of(raw.qp)
    assert "memory was withdrawn during an RDMA Read" in str(event)
    assert f"handle 0x00000005, offset {1000 + position:#x}" in str(event)


class Noting:
    """A receive buffer, or a part of one from `start` on, that is written only in slices of the data's size."""

    def __init__(self, octets: bytearray, start: int, end: int) -> None:
        self.octets = octets
        self.start = start
        self.end = end

    def __len__(self) -> int:
        return self.end - self.start

    def within(self, part: slice) -> tuple[int, int]:
        start, end, _ = part.indices(len(self))
        return self.start + start, self.start + max(start, end)

    def __getitem__(self, part: slice) -> Noting:
        return Noting(self.octets, *self.within(part))

    def __setitem__(self, part: slice, data: memoryview) -> None:
        start, end = self.within(part)
        assert end - start == len(data)
        self.octets[start:end] = data


def noting(octets: int) -> tuple[memoryview, bytearray]:
    memory = bytearray(octets)
    return Noting(memory, 0, octets), memory  # type: ignore[return-value]


def test_segments_of_a_send_are_written_behind_one_another() -> None:
    raw = initiator()
    buffer, memory = noting(100)
    raw.qp.post_receive("in", buffer)
    written = 0
    for octets in (3, 40, 0, 30):
        last = octets == 30
        feed(raw.qp, fpdu(untagged(3, 0, 1, bytes([octets]) * octets, offset=written, last=last)))
        written += octets
        assert memory[written:] == bytes(100 - written)
        assert memory[written - octets : written] == bytes([octets]) * octets
    completion = raw.qp.completions.popleft()
    assert completion is not None
    assert (completion.wr, completion.length) == ("in", 73)


@each_case("arrived", [20, 21, 500, 2000])
def test_what_has_come_of_a_large_send_is_written_at_its_start(arrived: int) -> None:
    raw = initiator()
    buffer, memory = noting(6000)
    raw.qp.post_receive("in", buffer)
    feed(raw.qp, fpdu(untagged(3, 0, 1, b"ab", last=False)))
    data = bytes(1 + n % 250 for n in range(5000))
    frame = fpdu(untagged(3, 0, 1, data, offset=2))
    feed(raw.qp, frame[:arrived])
    come = arrived - 20
    assert memory == b"ab" + data[:come] + bytes(6000 - 2 - come)
    target = raw.qp.next_buffers()[0]
    assert (target.start, len(target)) == (2 + come, 5000 - come)  # type: ignore[attr-defined]


def test_what_has_come_of_a_scattered_send_is_written_and_no_more() -> None:
    raw = initiator()
    parts = [bytearray(octets) for octets in (100, 20_000)]
    raw.qp._receiver.untagged.receives.append(("in", ScatteredBuffer([memoryview(part) for part in parts])))
    raw.qp._receiver.view[:] = b"\xff" * 8192
    data = bytes(1 + n % 250 for n in range(5000))
    frame = fpdu(untagged(3, 0, 1, data))
    feed(raw.qp, frame[:300])
    assert b"".join(parts) == data[:280] + bytes(20_100 - 280)
    (target, _) = raw.qp.next_buffers()
    assert len(target) == 4720
    feed(raw.qp, frame[300:])
    assert b"".join(parts) == data + bytes(15_100)


def test_the_first_receive_and_its_buffer_are_used_and_nothing_behind_them() -> None:
    raw = initiator()
    receiver = raw.qp._receiver
    memory, spare = bytearray(6000), bytearray(7000)
    receiver.untagged.receives.append(("in", memoryview(memory), memoryview(spare)))  # type: ignore[arg-type]
    receiver.untagged.receives.append(("next", memoryview(spare), memoryview(spare)))  # type: ignore[arg-type]
    feed(raw.qp, fpdu(untagged(3, 0, 1, b"\x44" * 100, last=False)))
    assert memory == b"\x44" * 100 + bytes(5900)
    frame = fpdu(untagged(3, 0, 1, b"\x55" * 5000, offset=100, last=False))
    feed(raw.qp, frame[:120])
    assert memory == b"\x44" * 100 + b"\x55" * 100 + bytes(5800)
    assert raw.qp.next_buffers()[0].obj is memory
    feed(raw.qp, frame[120:])
    assert memory == b"\x44" * 100 + b"\x55" * 5000 + bytes(900)
    # A message is as long as the first buffer at most.
    for octets, fits in ((900, True), (901, False)):
        assert (receiver.untagged.check((18 + octets, 0x01, 0x43, 0, 0, 1, 5100), octets, None) is None) is fits
    assert spare == bytes(7000)


def test_the_rest_of_a_payload_belongs_behind_its_first_octets() -> None:
    raw = initiator()
    feed(raw.qp, fpdu(tagged(0, HANDLE, OFFSET + 500, bytes(5000)))[:100])
    target = raw.qp.next_buffers()[0]
    assert len(target) == 4916
    target[:1] = b"\x77"
    assert bytes(raw.pd.regions[HANDLE].view[583:586]) == b"\0\x77\0"


def test_the_rest_of_a_send_belongs_behind_its_first_octets() -> None:
    raw = initiator()
    memory = bytearray(6000)
    raw.qp.post_receive("in", memoryview(memory))
    feed(raw.qp, fpdu(untagged(3, 0, 1, bytes(500), last=False)))
    feed(raw.qp, fpdu(untagged(3, 0, 1, bytes(5000), offset=500))[:100])
    target = raw.qp.next_buffers()[0]
    assert len(target) == 4920
    target[:1] = b"\x77"
    assert memory[579:582] == b"\0\x77\0"


def test_numbers_are_those_of_their_queues() -> None:
    raw = initiator()
    raw.qp._receiver.untagged.numbers = [5, 9, 1, 77]
    raw.qp._sender._msn = [6, 8, 77]
    raw.qp.post_receive("in", memoryview(bytearray(8)))
    sink = raw.pd.regions[HANDLE]
    feed(raw.qp, fpdu(untagged(3, 0, 5)))
    feed(raw.qp, fpdu(read_request(9, 1, 2, 0, 3, 4)))
    assert raw.qp._receiver.untagged.numbers == [6, 10, 1, 77]
    raw.qp.post_send(1, [])
    raw.qp.post_read(2, sink, 0, 0, 3, 4)
    assert raw.take() == fpdu(tagged(2, 1, 2)) + fpdu(untagged(3, 0, 6)) + fpdu(
        read_request(8, HANDLE, OFFSET, 0, 3, 4)
    )
    assert raw.qp._sender._msn == [7, 9, 77]


def test_an_end_lets_go_of_an_incomplete_fpdu() -> None:
    raw = initiator()
    receiver = raw.qp._receiver
    feed(raw.qp, fpdu(tagged(0, HANDLE, OFFSET, b"data"))[:-1])
    assert receiver.mid_frame
    raw.qp.abort("enough")
    assert (receiver.mid_frame, receiver.filled, len(receiver.view)) == (False, 0, 0)


def test_an_end_lets_go_of_all_receives() -> None:
    raw = initiator()
    receiver = raw.qp._receiver
    for n in range(3):
        raw.qp.post_receive(n, memoryview(bytearray(8)))
    raw.qp.post_receives(2, ReceivePool(64))
    assert (len(receiver.untagged.receives), receiver.untagged.shared) == (3, 2)
    raw.qp.abort("enough")
    assert (len(receiver.untagged.receives), receiver.untagged.shared) == (0, 0)
    assert [completion.wr for completion in raw.qp.completions] == [0, 1, 2]


@each_case("payload", [0, 1, 3000, 5000])
@each_case("last", [False, True])
def test_a_write_that_is_no_ready_frame_connects_nobody(payload: int, last: bool) -> None:
    raw = RawPeer(MpaRole.RESPONDER, SoftwareProtectionDomain(lambda bits: 0), IwarpConfig())
    raw.give(startup_frame("Req", 0x50, 2, bytes.fromhex("80208020")))
    raw.qp.accept(b"")
    raw.take()
    raw.pd.regions[HANDLE] = MemoryRegion(HANDLE, OFFSET, memoryview(bytearray(6000)), Access.REMOTE_WRITE)
    events_of(raw.qp)
    frame = fpdu(tagged(0, HANDLE, OFFSET, bytes(payload), last=last))
    for part in (frame[:20], frame[20:]):
        raw.give(part)
    fits = last and not payload
    assert raw.qp.state is (State.OPEN if fits else State.LAST_WORDS)
    assert [type(event) for event in events_of(raw.qp)] == [Established if fits else Disconnected]


def test_the_first_fpdu_is_heard_before_the_next_one_is_begun() -> None:
    raw = initiator()
    receiver = raw.qp._receiver
    first = fpdu(tagged(0, HANDLE, OFFSET, bytes(6000), last=False))
    second = fpdu(tagged(0, HANDLE, OFFSET + 6000, bytes(6000)))
    feed(raw.qp, first[:16])
    assert not receiver.heard
    feed(raw.qp, first[16:] + second[:16])
    assert receiver.heard
    assert receiver.tagged.opened == (0x40, HANDLE)
    feed(raw.qp, second[16:])
    assert receiver.heard
    assert receiver.tagged.opened is None


@each_case("length", [13, 14, 256, 257, 269, 512, 13 << 8])
def test_the_length_of_an_fpdu_has_two_octets(length: int) -> None:
    raw = initiator()
    feed(raw.qp, length.to_bytes(2, "big"))
    assert raw.qp.state is (State.LAST_WORDS if length == 13 else State.OPEN)
    assert len(events_of(raw.qp)) == (length == 13)
