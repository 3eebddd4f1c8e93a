"""RDMA messages of a connected queue pair: octets out, placement and delivery in."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.testing.joined_pair import Chunking, JoinedPair, byte_by_byte, feed, sizes, whole
from rpcrdma.verbs import Access, Completion, Disconnected, MemoryRegion, SoftwareProtectionDomain, Status, Verb
from rpcrdma.wire.buffers import Buffer, gather_length
from support.cases import each_case
from support.draws import draws
from support.raw_iwarp import (
    RawPeer,
    completions_of,
    events_of,
    fpdu,
    read_request,
    tagged,
    terminate,
    untagged,
)

VECTORS = {
    vector["name"]: bytes.fromhex(vector["hex"])
    for vector in tomllib.loads((Path(__file__).parents[1] / "vectors/iwarp/frames.toml").read_text())["fpdu"]
}
REMOTE = Access.REMOTE_READ | Access.REMOTE_WRITE
cuts = each_case("chunking", [whole, byte_by_byte, sizes(random.Random(7).randint)])


def connected(role: MpaRole = MpaRole.INITIATOR, config: IwarpConfig | None = None, **options: object) -> RawPeer:
    """A raw peer behind start-up; a responder has had an empty RDMA Write, so that it may speak."""
    emss = options.pop("emss", 1460)
    chunking = options.pop("chunking", whole)
    raw = RawPeer(role, SoftwareProtectionDomain(draws()), config, emss=emss, chunking=chunking)  # type: ignore[arg-type]
    raw.connect(**options)  # type: ignore[arg-type]
    if role is MpaRole.RESPONDER:
        raw.give(fpdu(tagged(0, 0, 0)))
    events_of(raw.qp)
    raw.sent = b""
    return raw


def joined(
    a: IwarpConfig | None = None,
    b: IwarpConfig | None = None,
    *,
    emss: int = 1460,
    chunking: Chunking = whole,
    gather_octets: int = 1 << 18,
) -> tuple[IwarpQueuePair, IwarpQueuePair, JoinedPair]:
    pair = (
        IwarpQueuePair(MpaRole.INITIATOR, SoftwareProtectionDomain(draws(1)), a or IwarpConfig(), emss),
        IwarpQueuePair(MpaRole.RESPONDER, SoftwareProtectionDomain(draws(99)), b or IwarpConfig(), emss),
    )
    both = JoinedPair(*pair, chunking=chunking, gather_octets=gather_octets, recording=True)
    both.progress()
    pair[1].accept(b"")
    both.progress()
    # The responder may speak from here on.
    pair[0].post_write(None, [], 1, 0, signaled=False)
    both.progress()
    for qp in pair:
        events_of(qp)
    both.log_a.clear()
    both.log_b.clear()
    return *pair, both


def pattern(octets: int, seed: int = 3) -> bytes:
    return random.Random(seed).randbytes(octets)


def register(
    pd: SoftwareProtectionDomain, buffer: bytearray, handle: int, offset: int, access: Access = REMOTE
) -> MemoryRegion:
    """Memory under a handle of the test's choice."""
    region = MemoryRegion(handle, offset, memoryview(buffer), access)
    pd.regions[handle] = region
    return region


# Out


@pytest.mark.req("MPA-1", "MPA-7", "DDP-4", "DDP-6", "RD-1", "RD-2", "RD-9", "RD-10")
def test_sends_are_the_golden_octets() -> None:
    raw = connected()
    raw.qp.post_send(1, [b"hel", b"", b"lo"])
    raw.qp.post_send(2, [], invalidate=0x12345678)
    assert (
        raw.take()
        == VECTORS["Send of hello, the first message"] + VECTORS["empty Send with Invalidate, the second message"]
    )
    assert completions_of(raw.qp) == [
        Completion(1, Verb.SEND, Status.SUCCESS, 5),
        Completion(2, Verb.SEND, Status.SUCCESS, 0),
    ]


@pytest.mark.req("RD-1", "RD-2", "RD-5", "DDP-5")
def test_writes_are_the_golden_octets() -> None:
    raw = connected()
    raw.qp.post_write(1, [b"abcd"], 0xDEADBEEF, 0x1122334455667788)
    assert raw.take() == VECTORS["RDMA Write of abcd"]
    assert completions_of(raw.qp) == [Completion(1, Verb.RDMA_WRITE, Status.SUCCESS, 4)]


@pytest.mark.req("RD-2", "RD-3", "RD-6", "RD-12")
def test_reads_are_the_golden_octets_and_end_with_the_response() -> None:
    raw = connected()
    sink = bytearray(4096)
    region = register(raw.pd, sink, 0x11111111, 0x1000)
    raw.qp.post_read(1, region, 0, 4096, 0x22222222, 0x2000)
    assert raw.take() == VECTORS["RDMA Read Request of 4096 octets"]
    assert completions_of(raw.qp) == []
    data = pattern(4096)
    raw.give(fpdu(tagged(2, 0x11111111, 0x1000, data[:3000], last=False)))
    assert completions_of(raw.qp) == []
    raw.give(fpdu(tagged(2, 0x11111111, 0x1000 + 3000, data[3000:])))
    assert completions_of(raw.qp) == [Completion(1, Verb.RDMA_READ, Status.SUCCESS, 4096)]
    assert sink == data


@pytest.mark.req("RD-3", "RD-7", "RD-8", "DDP-9")
def test_reads_of_nothing_are_answered_with_nothing_and_not_validated() -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.give(fpdu(read_request(1, 0, 0, 0, 0xBAD, 0xBAD)))
    assert raw.take() == VECTORS["RDMA Read Response of nothing"]
    raw.give(fpdu(read_request(2, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0, 0, 0)))
    assert raw.take() == fpdu(tagged(2, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF))


@pytest.mark.req("RD-7", "RD-8", "RD-6", "RD-3")
def test_reads_are_answered_in_order_into_the_sink_that_they_name() -> None:
    raw = connected(MpaRole.RESPONDER)
    data = pattern(100)
    region = raw.pd.register(bytearray(data), Access.REMOTE_READ)
    asked = [read_request(n, n, 1000 * n, 10 * n, region.handle, region.offset + n) for n in (1, 2, 3)]
    raw.give(b"".join(map(fpdu, asked)))
    assert raw.take() == b"".join(fpdu(tagged(2, n, 1000 * n, data[n : n + 10 * n])) for n in (1, 2, 3))
    # The layer above does not learn of it.
    assert completions_of(raw.qp) == []


@pytest.mark.req("DDP-2", "DDP-6", "DDP-7", "DDP-8", "DDP-10", "MPA-3")
def test_long_sends_are_cut_to_the_segment_size() -> None:
    raw = connected(emss=128 + 6)
    data = pattern(250)
    for msn in (1, 2):
        raw.qp.post_send(None, [data[:100], data[100:105], data[105:]], signaled=False)
        assert raw.take() == (
            fpdu(untagged(3, 0, msn, data[:108], last=False))
            + fpdu(untagged(3, 0, msn, data[108:216], offset=108, last=False))
            + fpdu(untagged(3, 0, msn, data[216:], offset=216))
        )


@pytest.mark.req("DDP-2", "DDP-5", "DDP-7", "DDP-8", "DDP-10", "RD-5")
def test_long_writes_are_cut_to_the_segment_size() -> None:
    raw = connected(emss=128 + 6)
    data = pattern(230)
    raw.qp.post_write(None, [data[:1], data[1:113], data[113:]], 7, 1000, signaled=False)
    assert raw.take() == (
        fpdu(tagged(0, 7, 1000, data[:112], last=False))
        + fpdu(tagged(0, 7, 1112, data[112:224], last=False))
        + fpdu(tagged(0, 7, 1224, data[224:]))
    )
    assert completions_of(raw.qp) == []


@pytest.mark.req("DDP-9")
def test_empty_messages_are_one_segment() -> None:
    raw = connected()
    raw.qp.post_write(1, [b""], 0, 0)
    raw.qp.post_send(2, [b"", b""])
    assert raw.take() == fpdu(tagged(0, 0, 0)) + fpdu(untagged(3, 0, 1))


@pytest.mark.req("MPA-28", "MPA-3")
@each_case(("emss", "frame"), [(1460, 1460), (1448, 1448), (65483, 64772)])
def test_full_frames_fill_a_tcp_segment(emss: int, frame: int) -> None:
    raw = connected(emss=emss)
    raw.qp.post_write(None, [bytes(200_000)], 7, 0)
    first = int.from_bytes(raw.qp.next_gather(1)[0][:2], "big")
    assert gather_length(raw.qp.next_gather(1)) == frame
    assert first <= 64768
    assert frame == first + 6


@pytest.mark.req("MPA-9", "MPA-23")
def test_without_crcs_the_field_is_zero_and_not_looked_at() -> None:
    raw = connected(config=IwarpConfig(crc=False), crc=False)
    raw.qp.post_send(1, [b"hello"])
    raw.qp.post_write(2, [bytes(1000)], 7, 0)
    assert raw.take() == fpdu(untagged(3, 0, 1, b"hello"), crc=False) + fpdu(tagged(0, 7, 0, bytes(1000)), crc=False)
    buffer = bytearray(8)
    raw.qp.post_receive(1, memoryview(buffer))
    raw.give(fpdu(untagged(3, 0, 1, b"hello"))[:-4] + b"junk")
    assert bytes(buffer[:5]) == b"hello"


@pytest.mark.req("MPA-22", "MPA-25", "MPA-34")
def test_the_peers_demand_turns_crcs_on() -> None:
    raw = connected(config=IwarpConfig(crc=False), crc=True)
    raw.qp.post_send(1, [b"hello"])
    assert raw.take() == fpdu(untagged(3, 0, 1, b"hello"))
    raw.give(fpdu(untagged(3, 0, 1), flaw=1))
    assert raw.take() == terminate(0x2002)


def unmarked(stream: bytes) -> bytes:
    return b"".join(stream[at + 4 : at + 512] for at in range(0, len(stream), 512))


@pytest.mark.req("MPA-11", "MPA-12", "MPA-13", "MPA-15", "MPA-16", "MPA-17", "MPA-33", "MPA-26")
@each_case("role", list(MpaRole))
def test_markers_are_inserted_for_a_peer_that_wants_them(role: MpaRole) -> None:
    raw = connected(role, markers=True)
    region = raw.pd.register(bytearray(pattern(5000)), Access.REMOTE_READ)
    raw.give(b"" if role is MpaRole.INITIATOR else fpdu(read_request(1, 5, 0, 5000, region.handle, region.offset)))
    raw.qp.post_send(None, [b"hello"])
    raw.qp.post_write(None, [pattern(3000)], 7, 0)
    raw.qp.post_send(None, [b"bye"])
    stream = raw.take()
    ulpdus = []
    position = 0
    while position < len(stream):
        begin = position + 4 if position % 512 == 0 else position
        length = int.from_bytes(stream[begin : begin + 2], "big")
        # The frame's octets with its markers, until those without make up the frame.
        at, kept = begin, b""
        while len(kept) < (length + 5 & ~3):
            if at % 512 == 0:
                assert stream[at : at + 4] == (at - begin).to_bytes(4, "big")
            else:
                kept += stream[at : at + 4]
            at += 4
        if at % 512 == 0:
            assert stream[at : at + 4] == (at - begin).to_bytes(4, "big")
            at += 4
        assert begin == position or stream[position : position + 4] == bytes(4)
        assert stream[at : at + 4] == checksum(stream[position:at])
        ulpdus.append(kept[2 : 2 + length])
        position = at + 4
        # 1460 octets of TCP segment, less framing and four markers or fewer.
        assert length <= 1442
    sends = [ulpdu[18:] for ulpdu in ulpdus if not ulpdu[0] & 0x80]
    assert sends == [b"hello", b"bye"]
    written = b"".join(ulpdu[14:] for ulpdu in ulpdus if ulpdu[:2] in {b"\x81\x40", b"\xc1\x40"})
    assert written == pattern(3000)


def checksum(data: bytes) -> bytes:
    from rpcrdma.wire.checksum import crc32c

    return crc32c(data).to_bytes(4, "little")


@pytest.mark.req("DDP-10")
def test_responses_and_work_take_turns_message_by_message() -> None:
    raw = connected(MpaRole.RESPONDER, emss=134)
    data = pattern(300)
    region = raw.pd.register(bytearray(data), Access.REMOTE_READ)
    for n in (1, 2):
        raw.qp.post_write(None, [data], n, 0, signaled=False)
        raw.give(fpdu(read_request(n, 10 * n, 0, 300, region.handle, region.offset)))

    def message(opcode: int, handle: int) -> bytes:
        parts = [(0, data[:112]), (112, data[112:224]), (224, data[224:])]
        return b"".join(fpdu(tagged(opcode, handle, at, part, last=at == 224)) for at, part in parts)

    assert raw.take() in {
        message(2, 10) + message(0, 1) + message(2, 20) + message(0, 2),
        message(0, 1) + message(2, 10) + message(0, 2) + message(2, 20),
    }


def test_each_message_can_be_handed_out_by_itself() -> None:
    raw = connected(config=IwarpConfig(flush_each_message=True), emss=134)
    raw.qp.post_write(None, [bytes(300)], 7, 0)
    raw.qp.post_send(None, [b"x"])
    raw.qp.post_send(None, [b"y"])
    handed = []
    while gather := raw.qp.next_gather(1 << 18):
        handed.append(gather_length(gather))
        raw.qp.bytes_sent(handed[-1])
    assert handed == [2 * 132 + 96, 28, 28]


@pytest.mark.req("RD-12")
def test_what_is_handed_out_stays_until_it_is_sent_and_completes_when_all_of_it_is() -> None:
    raw = connected()
    big = pattern(1200)
    raw.qp.post_write("w", [big], 7, 0)
    raw.qp.post_send("s", [b"hello"])
    expected = fpdu(tagged(0, 7, 0, big)) + fpdu(untagged(3, 0, 1, b"hello"))
    stream = b""
    while gather := raw.qp.next_gather(1 << 18):
        assert b"".join(raw.qp.next_gather(1)) == b"".join(gather)
        stream += b"".join(gather)[:1]
        raw.qp.bytes_sent(1)
        done = [completion.wr for completion in completions_of(raw.qp)]
        whole_at = {len(fpdu(tagged(0, 7, 0, big))): ["w"], len(expected): ["s"]}
        assert done == whole_at.get(len(stream), [])
    assert stream == expected


def test_a_gather_keeps_below_the_limits_asked_for() -> None:
    raw = connected()
    for _ in range(1000):
        raw.qp.post_send(None, [b"x" * 600, b"y"])
    while gather := raw.qp.next_gather(10_000):
        assert gather_length(gather) <= 10_000
        raw.qp.bytes_sent(gather_length(gather))
    raw.qp.post_write(None, [bytes([n % 256]) for n in range(5000)], 7, 0)
    raw.qp.post_write(None, [bytes([n % 256]) for n in range(400)], 7, 0)
    while gather := raw.qp.next_gather(1 << 18):
        assert len(gather) <= 512
        raw.qp.bytes_sent(gather_length(gather))


def test_bulk_is_handed_out_without_a_copy() -> None:
    raw = connected(MpaRole.RESPONDER, emss=65483)
    memory = bytearray(pattern(100_000))
    region = raw.pd.register(memory, Access.REMOTE_READ)
    raw.give(fpdu(read_request(1, 5, 0, 100_000, region.handle, region.offset)))
    raw.qp.post_write(None, [memory], 7, 0)
    gather = raw.qp.next_gather(1 << 20)
    views = [piece for piece in gather if len(piece) > 1000]
    assert len(views) == 4
    assert all(isinstance(view, memoryview) and view.obj is memory for view in views)


@pytest.mark.req("RD-13", "RD-8", "EM-8", "V1-89")
def test_reads_wait_for_the_agreed_depth_and_hold_back_what_follows() -> None:
    raw = connected(depth=2)
    sink = raw.pd.register(bytearray(40), Access.REMOTE_WRITE)
    for n in range(4):
        raw.qp.post_read(n, sink, 10 * n, 10, 7, n)
    raw.qp.post_send("after", [b"x"])

    def asked(n: int) -> bytes:
        return fpdu(read_request(n + 1, sink.handle, sink.offset + 10 * n, 10, 7, n))

    def answer(n: int) -> bytes:
        return fpdu(tagged(2, sink.handle, sink.offset + 10 * n, bytes([n]) * 10))

    assert raw.take() == asked(0) + asked(1)
    raw.give(answer(0))
    assert raw.take() == asked(2)
    raw.give(answer(1) + answer(2))
    assert raw.take() == asked(3) + fpdu(untagged(3, 0, 1, b"x"))
    assert [completion.wr for completion in completions_of(raw.qp)] == [0, 1, 2]
    # The Send is out, and yet completes behind the Read that was posted first.
    raw.give(answer(3))
    assert [completion.wr for completion in completions_of(raw.qp)] == [3, "after"]
    assert bytes(sink.view) == b"".join(bytes([n]) * 10 for n in range(4))


def test_a_read_of_a_peer_that_takes_none_ends_the_connection() -> None:
    raw = connected(depth=0)
    sink = raw.pd.register(bytearray(8), Access.REMOTE_WRITE)
    raw.qp.post_read(1, sink, 0, 8, 7, 0)
    assert raw.take() == terminate(0x0000)
    assert completions_of(raw.qp) == [Completion(1, Verb.RDMA_READ, Status.FLUSHED)]
    (event,) = events_of(raw.qp)
    assert isinstance(event, Disconnected)
    assert not event.by_peer


@pytest.mark.req("DDP-7")
def test_work_that_no_peer_could_do_is_refused() -> None:
    raw = connected()
    sink = raw.pd.register(bytearray(8), Access.REMOTE_WRITE)
    with pytest.raises(LocalProtocolError):
        raw.qp.post_write(1, [b"ab"], 7, (1 << 64) - 1)
    with pytest.raises(LocalProtocolError):
        raw.qp.post_write(1, [b"ab"], 1 << 32, 0)
    with pytest.raises(LocalProtocolError):
        raw.qp.post_read(1, sink, 1, 8, 7, 0)
    with pytest.raises(LocalProtocolError):
        raw.qp.post_read(1, raw.pd.register(bytearray(8), Access.LOCAL_WRITE), 0, 8, 7, 0)
    with pytest.raises(LocalProtocolError):
        raw.qp.post_read(1, sink, 0, -1, 7, 0)
    # A message is shorter than 2^32 octets.
    gather = [bytes(1 << 16)] * (1 << 16)
    with pytest.raises(LocalProtocolError, match="2\\^32"):
        raw.qp.post_send(1, gather)
    with pytest.raises(LocalProtocolError, match="2\\^32"):
        raw.qp.post_write(1, gather, 7, 0)
    assert raw.take() == b""


# In


@pytest.mark.req("MPA-4", "MPA-18", "MPA-29", "MPA-30", "MPA-51", "DDP-3", "DDP-11", "DDP-12", "RD-9", "DDP-1")
@cuts
def test_sends_are_delivered_whole_and_in_order_however_the_stream_is_cut(chunking: Chunking) -> None:
    raw = connected(MpaRole.RESPONDER, chunking=chunking)
    buffers = [bytearray(9000) for _ in range(4)]
    for n, buffer in enumerate(buffers):
        raw.qp.post_receive(n, memoryview(buffer))
    data = pattern(9000)
    raw.give(
        fpdu(untagged(3, 0, 1, data[:5]))
        + fpdu(untagged(3, 0, 2, data[:4000], last=False))
        + fpdu(untagged(3, 0, 2, data[4000:8999], offset=4000, last=False))
        + fpdu(untagged(3, 0, 2, data[8999:], offset=8999))
        + fpdu(untagged(5, 0, 3))
        + fpdu(untagged(3, 0, 4, data[:7]))
    )
    assert completions_of(raw.qp) == [
        Completion(n, Verb.RECEIVE, Status.SUCCESS, octets) for n, octets in enumerate([5, 9000, 0, 7])
    ]
    assert buffers[1] == data
    assert [bytes(buffers[0][:5]), bytes(buffers[3][:7])] == [data[:5], data[:7]]


@pytest.mark.thorough
@pytest.mark.req("DDP-7", "DDP-16", "RD-5", "MPA-29")
@cuts
@each_case("crc", [True, False])
@each_case("segment", [1, 5, 1428, 2100, 5000, 64754])
def test_writes_are_placed_however_they_are_segmented(chunking: Chunking, crc: bool, segment: int) -> None:
    raw = connected(MpaRole.RESPONDER, IwarpConfig(crc=crc), chunking=chunking, crc=crc)
    octets = min(segment * 40, 140_000 if chunking is not byte_by_byte else 20_000) + 3
    data = pattern(octets)
    memory = bytearray(octets + 20)
    region = raw.pd.register(memory, Access.REMOTE_WRITE)
    buffer = bytearray(4)
    raw.qp.post_receive("done", memoryview(buffer))
    stream = b"".join(
        fpdu(
            tagged(0, region.handle, region.offset + 10 + at, data[at : at + segment], last=at + segment >= octets),
            crc=crc,
        )
        for at in range(0, octets, segment)
    )
    raw.give(stream + fpdu(untagged(3, 0, 1, b"done"), crc=crc))
    assert completions_of(raw.qp) == [Completion("done", Verb.RECEIVE, Status.SUCCESS, 4)]
    assert memory == bytes(10) + data + bytes(10)
    assert events_of(raw.qp) == []


@pytest.mark.in_python
@pytest.mark.req("DDP-8")
def test_the_payload_goes_straight_into_the_memory() -> None:
    raw = connected(MpaRole.RESPONDER)
    memory = bytearray(60_000)
    region = raw.pd.register(memory, Access.REMOTE_WRITE)
    frame = fpdu(tagged(0, region.handle, region.offset, bytes(60_000), last=False))
    feed(raw.qp, frame[:100])
    place, rest = raw.qp.next_buffers()
    assert place.obj is memory
    assert len(place) == 60_000 - 84
    # Behind it, nothing but the trailer and the next header: more would have to be copied.
    assert len(rest) == 4 + 16


@pytest.mark.req("RD-10", "DDP-12", "DDP-5")
@each_case("opcode", [4, 6])
@cuts
def test_a_send_with_invalidate_ends_the_handle_at_delivery(opcode: int, chunking: Chunking) -> None:
    raw = connected(MpaRole.RESPONDER, chunking=chunking)
    region = raw.pd.register(bytearray(8), REMOTE)
    raw.qp.post_receive("in", memoryview(bytearray(9000)))
    raw.give(fpdu(untagged(opcode, 0, 1, bytes(5000), invalidate=region.handle, last=False)))
    assert region.handle in raw.pd.regions
    raw.give(fpdu(untagged(opcode, 0, 1, b"x", invalidate=region.handle, offset=5000)))
    assert region.handle not in raw.pd.regions
    assert completions_of(raw.qp) == [Completion("in", Verb.RECEIVE, Status.SUCCESS, 5001, region.handle)]


@pytest.mark.req("RD-2")
@each_case("opcode", [3, 5])
def test_other_sends_leave_the_invalidation_word_alone(opcode: int) -> None:
    raw = connected(MpaRole.RESPONDER)
    region = raw.pd.register(bytearray(8), REMOTE)
    raw.qp.post_receive("in", memoryview(bytearray(8)))
    raw.give(fpdu(untagged(opcode, 0, 1, invalidate=region.handle)))
    assert completions_of(raw.qp) == [Completion("in", Verb.RECEIVE, Status.SUCCESS, 0)]
    assert region.handle in raw.pd.regions


@pytest.mark.req("RD-1", "DDP-4", "MPA-8")
def test_reserved_bits_and_padding_are_not_looked_at() -> None:
    raw = connected(MpaRole.RESPONDER)
    buffer = bytearray(8)
    raw.qp.post_receive("in", memoryview(buffer))
    segment = bytearray(untagged(3, 0, 1, b"hello"))
    segment[0] |= 0x3C
    segment[1] |= 0x30
    body = len(segment).to_bytes(2, "big") + bytes(segment) + b"pad"
    raw.give(body + checksum(body))
    assert bytes(buffer[:5]) == b"hello"
    assert completions_of(raw.qp) != []


@pytest.mark.req("DDP-9")
def test_the_handle_of_an_empty_write_is_not_checked() -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.give(fpdu(tagged(0, 0xDEAD, 0xFFFFFFFFFFFFFFFF)))
    assert events_of(raw.qp) == []


@pytest.mark.req("DDP-11", "RD-12")
def test_untagged_segments_may_stand_within_a_tagged_message() -> None:
    raw = connected(MpaRole.RESPONDER)
    memory = bytearray(6000)
    region = raw.pd.register(memory, REMOTE)
    raw.qp.post_receive("in", memoryview(bytearray(8)))
    raw.give(fpdu(tagged(0, region.handle, region.offset, b"a" * 5000, last=False)))
    raw.give(fpdu(untagged(3, 0, 1, b"mid")))
    raw.give(fpdu(tagged(0, region.handle, region.offset + 5000, b"b" * 1000)))
    assert memory == b"a" * 5000 + b"b" * 1000
    assert completions_of(raw.qp) == [Completion("in", Verb.RECEIVE, Status.SUCCESS, 3)]


@pytest.mark.req("RD-12", "RD-6")
def test_a_read_sees_what_was_written_before_it() -> None:
    a, b, both = joined(chunking=sizes(random.Random(5).randint))
    memory = bytearray(50_000)
    region = b.pd.register(memory, REMOTE)
    sink = a.pd.register(bytearray(50_000), Access.REMOTE_WRITE)
    data = pattern(50_000)
    a.post_write("w", [data], region.handle, region.offset)
    a.post_read("r", sink, 0, 50_000, region.handle, region.offset)
    both.progress()
    assert [completion.wr for completion in completions_of(a)] == ["w", "r"]
    assert sink.view == data


@pytest.mark.in_python
@pytest.mark.req("DDP-6")
def test_the_sequence_numbers_wrap() -> None:
    raw = connected(MpaRole.RESPONDER)
    raw.qp._receiver.untagged.numbers[0] = raw.qp._sender._msn[0] = 0xFFFFFFFF
    for msn in (0xFFFFFFFF, 0, 1):
        raw.qp.post_receive(msn, memoryview(bytearray(8)))
        raw.give(fpdu(untagged(3, 0, msn)))
        raw.qp.post_send(msn, [])
        assert raw.take() == fpdu(untagged(3, 0, msn))
    assert len(completions_of(raw.qp)) == 6


def test_late_writes_to_abandoned_memory_vanish() -> None:
    raw = connected(MpaRole.RESPONDER)
    memory = bytearray(10_000)
    region = raw.pd.register(memory, Access.REMOTE_WRITE)
    frame = fpdu(tagged(0, region.handle, region.offset, b"x" * 10_000))
    raw.give(frame[:5000])
    raw.pd.abandon(region)
    raw.give(frame[5000:] + frame)
    assert bytes(memory) == b"x" * (5000 - 16) + bytes(10_000 - 5000 + 16)
    assert events_of(raw.qp) == []


@pytest.mark.in_python
def test_the_scratch_stays_small_for_those_who_send_little() -> None:
    raw = connected(MpaRole.RESPONDER)
    (scratch,) = raw.qp.next_buffers()
    assert len(scratch) == 8192
    # Small frames without end are received many at a time.
    region = raw.pd.register(bytearray(1 << 16), Access.REMOTE_WRITE)
    stream = b"".join(fpdu(tagged(0, region.handle, region.offset + 1000 * n, bytes(1000))) for n in range(60))
    taken = feed(raw.qp, stream)
    assert taken == 8192
    assert len(raw.qp.next_buffers()[0]) > 60_000
    raw.give(stream[taken:])
    assert len(raw.qp.next_buffers()[0]) == 8192


BUFFERS: list[Buffer] = [b"ab", bytearray(b"cd"), memoryview(b"ef")]


def test_any_kind_of_buffer_can_be_sent() -> None:
    raw = connected()
    raw.qp.post_send(None, BUFFERS)
    raw.qp.post_send(None, [*BUFFERS, bytes(1000)])
    assert raw.take() == fpdu(untagged(3, 0, 1, b"abcdef")) + fpdu(untagged(3, 0, 2, b"abcdef" + bytes(1000)))
