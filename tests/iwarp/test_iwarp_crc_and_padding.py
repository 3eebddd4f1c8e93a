"""The agreement of the two sides about CRCs holds for every FPDU of a connection; padding never matters."""

from __future__ import annotations

import random

import pytest

from rpcrdma.iwarp import IwarpConfig, MpaRole
from rpcrdma.testing.joined_pair import Chunking, byte_by_byte, sizes, whole
from rpcrdma.verbs import Access, Disconnected, SoftwareProtectionDomain, Status
from rpcrdma.wire import crc32c
from support.cases import each_case
from support.draws import draws
from support.raw_iwarp import (
    RawPeer,
    completions_of,
    events_of,
    fpdu,
    read_request,
    startup_frame,
    tagged,
    terminate,
    untagged,
)

WORDS = bytes.fromhex("00200020")
cuts = each_case("chunking", [whole, byte_by_byte, sizes(random.Random(7).randint)])
roles = each_case("role", list(MpaRole))


def agreed(role: MpaRole, *, mine: bool, peers: bool, chunking: Chunking = whole) -> RawPeer:
    """Connected; a responder has not had an FPDU yet."""
    raw = RawPeer(role, SoftwareProtectionDomain(draws()), IwarpConfig(crc=mine), chunking=chunking)
    raw.connect(crc=peers)
    events_of(raw.qp)
    raw.sent = b""
    return raw


@pytest.mark.req("MPA-22", "MPA-25", "MPA-34")
@roles
@each_case(("mine", "peers"), [(False, True), (True, False), (True, True)])
def test_a_crc_that_one_side_demands_is_made_and_checked_to_the_end(role: MpaRole, mine: bool, peers: bool) -> None:
    raw = agreed(role, mine=mine, peers=peers)
    region = raw.pd.register(bytearray(range(100)), Access.REMOTE_READ | Access.REMOTE_WRITE)
    for msn in range(1, 31):
        raw.qp.post_receive(msn, memoryview(bytearray(8)))
        raw.qp.post_send(msn, [b"mine"])
        raw.take()
        raw.give(fpdu(untagged(3, 0, msn, b"theirs")))
        raw.take()
    raw.give(fpdu(read_request(1, 5, 0, 100, region.handle, region.offset)))
    raw.qp.post_write("w", [bytes(3000)], 7, 0)
    raw.take()
    stream, frames = raw.sent, 0
    while stream:
        end = (int.from_bytes(stream[:2], "big") + 5 & ~3) + 4
        assert stream[end - 4 : end] == crc32c(stream[: end - 4]).to_bytes(4, "little")
        stream = stream[end:]
        frames += 1
    assert frames == 30 + 1 + 3
    completions_of(raw.qp)
    raw.qp.post_receive("last", memoryview(bytearray(8)))
    raw.give(fpdu(untagged(3, 0, 31, b"x"), flaw=1))
    assert raw.take() == terminate(0x2002)
    assert [completion.status for completion in completions_of(raw.qp)] == [Status.FLUSHED]


@pytest.mark.req("MPA-9", "MPA-23", "MPA-34")
@roles
@cuts
@each_case("octets", [1, 5, 1400, 5001, 60_000])
def test_a_crc_that_nobody_demands_is_not_looked_at_from_the_first_fpdu_on(
    role: MpaRole, chunking: Chunking, octets: int
) -> None:
    if chunking is byte_by_byte:
        octets = min(octets, 5001)
    raw = agreed(role, mine=False, peers=False, chunking=chunking)
    memory = bytearray(octets)
    region = raw.pd.register(memory, Access.REMOTE_WRITE)
    # The responder's first FPDU may come only after one of the initiator's.
    raw.qp.post_send(None, [b"hello"])
    hello = fpdu(untagged(3, 0, 1, b"hello"), crc=False)
    assert raw.take() == (hello if role is MpaRole.INITIATOR else b"")
    for data in (b"a" * octets, b"b" * octets):
        raw.give(fpdu(tagged(0, region.handle, region.offset, data))[:-4] + b"junk")
        assert memory == data
    assert [event for event in events_of(raw.qp) if isinstance(event, Disconnected)] == []
    assert raw.take() == (b"" if role is MpaRole.INITIATOR else hello)


@pytest.mark.req("MPA-8")
@cuts
@each_case("octets", [1, 2, 3, 1399, 5001, 5002, 5003])
def test_padding_of_any_content_is_taken_for_padding(chunking: Chunking, octets: int) -> None:
    for crc in (True, False):
        raw = agreed(MpaRole.RESPONDER, mine=crc, peers=crc, chunking=chunking)
        memory, buffer = bytearray(octets + 8), bytearray(octets + 8)
        region = raw.pd.register(memory, Access.REMOTE_WRITE)
        raw.qp.post_receive("in", memoryview(buffer))
        data = random.Random(octets).randbytes(octets)
        for segment in (tagged(0, region.handle, region.offset, data), untagged(3, 0, 1, data)):
            body = len(segment).to_bytes(2, "big") + segment
            body += b"\xff\xa5\x5a"[: -len(body) % 4]
            raw.give(body + (crc32c(body) if crc else 0).to_bytes(4, "little"))
        assert memory == buffer == data + bytes(8)
        (completion,) = completions_of(raw.qp)
        assert (completion.wr, completion.status, completion.length) == ("in", Status.SUCCESS, octets)


@pytest.mark.req("MPA-5")
@roles
@each_case("revision", [1, 2])
def test_each_revision_that_is_spoken_brings_version_1_of_ddp(role: MpaRole, revision: int) -> None:
    config = IwarpConfig(enhanced=revision == 2)
    raw = RawPeer(role, SoftwareProtectionDomain(draws()), config)
    flags, data = (0x50, WORDS) if revision == 2 else (0x40, b"")
    if role is MpaRole.INITIATOR:
        raw.take()
        raw.give(startup_frame("Rep", flags, revision, data))
    else:
        raw.give(startup_frame("Req", flags, revision, data))
        raw.qp.accept(b"")
        raw.take()
    raw.qp.post_receive("in", memoryview(bytearray(8)))
    raw.give(b"" if role is MpaRole.INITIATOR else fpdu(tagged(0, 0, 0)))
    raw.qp.post_send(None, [b"hello"])
    assert raw.take() == fpdu(untagged(3, 0, 1, b"hello", ddp_version=1))
    foreign = untagged(3, 0, 1, ddp_version=0)
    raw.give(fpdu(foreign))
    assert raw.take() == terminate(0x1206, foreign)
