"""RDMA messages of a connected queue pair: octets out, placement and delivery in."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import pytest

from rpcrdma.iwarp import IwarpConfig, MpaRole
from rpcrdma.testing.joined_pair import Chunking, byte_by_byte, sizes, whole
from rpcrdma.verbs import Access, Completion, MemoryRegion, Status, Verb
from rpcrdma.wire.buffers import gather_length
from rpcrdma.wire.checksum import crc32c
from support.cases import each_case
from support.raw_iwarp import (
    bound_gather,
    completions_of,
    connected,
    end_of,
    events_of,
    fpdu,
    marked,
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


def pattern(octets: int, seed: int = 3) -> bytes:
    return random.Random(seed).randbytes(octets)


# Out


@pytest.mark.req("MPA-1", "MPA-7", "DDP-4", "DDP-6", "RD-1", "RD-2", "RD-9", "RD-10", "MPA-19")
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


@pytest.mark.req("RD-1", "RD-2", "RD-5", "DDP-5", "DDP-4")
def test_writes_are_the_golden_octets() -> None:
    raw = connected()
    raw.qp.post_write(1, [b"abcd"], 0xDEADBEEF, 0x1122334455667788)
    # Into the same place, and so after it.
    raw.qp.post_write(2, [b"xyz"], 0xDEADBEEF, 0x1122334455667788)
    assert raw.take() == VECTORS["RDMA Write of abcd"] + fpdu(tagged(0, 0xDEADBEEF, 0x1122334455667788, b"xyz"))
    assert completions_of(raw.qp) == [
        Completion(1, Verb.RDMA_WRITE, Status.SUCCESS, 4),
        Completion(2, Verb.RDMA_WRITE, Status.SUCCESS, 3),
    ]


@pytest.mark.req("RD-2", "RD-3", "RD-6", "RD-12")
def test_reads_are_the_golden_octets_and_end_with_the_response() -> None:
    raw = connected()
    sink = bytearray(4096)
    region = raw.pd.regions[0x11111111] = MemoryRegion(0x11111111, 0x1000, memoryview(sink), REMOTE)
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
    # The first sink has a tag and an offset of zero, the last one ends behind all offsets.
    sinks = [(0, 0), (7, 2000), (0xFFFFFFFF, (1 << 64) - 1)]
    asked = [read_request(n, *sink, 10 * n, region.handle, region.offset + n) for n, sink in enumerate(sinks, start=1)]
    raw.give(b"".join(map(fpdu, asked)))
    answers = [tagged(2, *sink, data[n : n + 10 * n]) for n, sink in enumerate(sinks, start=1)]
    assert raw.take() == b"".join(map(fpdu, answers))
    # The layer above does not learn of it.
    assert completions_of(raw.qp) == []


@pytest.mark.req("MPA-11", "MPA-12", "MPA-13", "MPA-15", "MPA-16", "MPA-17", "MPA-33", "MPA-26", "MPA-2")
@each_case("role", list(MpaRole))
def test_markers_are_inserted_for_a_peer_that_wants_them(role: MpaRole) -> None:
    raw = connected(role, markers=True)
    data = pattern(5000)
    region = raw.pd.register(bytearray(data), Access.REMOTE_READ)
    raw.qp.post_send(None, [b"hello"])
    raw.qp.post_write(None, [data[:3000]], 7, 0)
    raw.qp.post_send(None, [b"bye"])
    segments = [untagged(3, 0, 1, b"hello"), *cut_to_markers(0, 7, data[:3000]), untagged(3, 0, 2, b"bye")]
    if role is MpaRole.RESPONDER:
        raw.give(fpdu(read_request(1, 5, 0, 5000, region.handle, region.offset)))
        segments = [*cut_to_markers(2, 5, data), *segments]
    assert raw.take() == marked(segments)


def cut_to_markers(opcode: int, handle: int, data: bytes) -> list[bytes]:
    """Segments whose FPDUs fill a TCP segment of 1460 octets, of which 12 are left for markers."""
    step = 1460 - 12 - 20
    starts = range(0, len(data), step)
    return [tagged(opcode, handle, at, data[at : at + step], last=at == starts[-1]) for at in starts]


def test_each_message_can_be_handed_out_by_itself() -> None:
    raw = connected(config=IwarpConfig(flush_each_message=True), emss=134)
    raw.qp.post_write(None, [bytes(300)], 7, 0)
    raw.qp.post_send(None, [b"x"])
    raw.qp.post_send(None, [b"y"])
    handed = []
    bound_gather(raw.qp._sender)
    while gather := raw.qp.next_gather(1 << 18):
        handed.append(gather_length(gather))
        raw.qp.bytes_sent(handed[-1])
        bound_gather(raw.qp._sender)
    assert handed == [2 * 132 + 96, 28, 28]


def test_a_read_of_a_peer_that_takes_none_ends_the_connection() -> None:
    raw = connected(depth=0)
    sink = raw.pd.register(bytearray(8), Access.REMOTE_WRITE)
    raw.qp.post_read(1, sink, 0, 8, 7, 0)
    assert raw.take() == terminate(0x0000)
    assert completions_of(raw.qp) == [Completion(1, Verb.RDMA_READ, Status.FLUSHED)]
    assert not end_of(raw.qp).by_peer


# In


@pytest.mark.req("MPA-4", "MPA-18", "MPA-29", "MPA-30", "MPA-51", "DDP-3", "DDP-11", "DDP-12", "RD-9", "DDP-1", "DDP-2")
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


@pytest.mark.req("RD-10", "DDP-12", "DDP-5", "RD-2")
@each_case("opcode", [3, 4, 5, 6])
@cuts
def test_a_send_with_invalidate_and_no_other_ends_the_handle_at_delivery(opcode: int, chunking: Chunking) -> None:
    ends = opcode in {4, 6}
    raw = connected(MpaRole.RESPONDER, chunking=chunking)
    region = raw.pd.register(bytearray(8), REMOTE)
    raw.qp.post_receive("in", memoryview(bytearray(9000)))
    raw.give(fpdu(untagged(opcode, 0, 1, bytes(5000), invalidate=region.handle, last=False)))
    assert region.handle in raw.pd.regions
    raw.give(fpdu(untagged(opcode, 0, 1, b"x", invalidate=region.handle, offset=5000)))
    assert (region.handle not in raw.pd.regions) == ends
    told = region.handle if ends else None
    assert completions_of(raw.qp) == [Completion("in", Verb.RECEIVE, Status.SUCCESS, 5001, told)]


@pytest.mark.req("RD-1", "MPA-8")
def test_reserved_bits_and_padding_are_not_looked_at() -> None:
    raw = connected(MpaRole.RESPONDER)
    buffer = bytearray(8)
    raw.qp.post_receive("in", memoryview(buffer))
    segment = bytearray(untagged(3, 0, 1, b"hello"))
    segment[0] |= 0x3C
    segment[1] |= 0x30
    body = len(segment).to_bytes(2, "big") + bytes(segment) + b"pad"
    raw.give(body + crc32c(body).to_bytes(4, "little"))
    assert bytes(buffer[:5]) == b"hello"
    assert completions_of(raw.qp) != []


@pytest.mark.req("RD-12")
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
