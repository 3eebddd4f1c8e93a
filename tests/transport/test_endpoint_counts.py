"""Counts of discarded, refused and short messages: each message by its outcome."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, message
from rpcrdma.transport import CallArrived, ReplyBound, Role, TransportConfig
from rpcrdma.verbs import Access
from support.cases import each_case
from support.raw_calls import chunk, header, read_segment, segment

CALL, REPLY = 0, 1


def start(xid: int, direction: int) -> bytes:
    return struct.pack(">II", xid, direction)


def test_calls_of_every_form_are_taken_and_what_is_answered_with_an_error_is_not_discarded() -> None:
    peer = BarePeer(Role.SERVER)
    region = peer.pd.register(bytearray(start(3, CALL)), Access.REMOTE_READ | Access.REMOTE_WRITE)
    calls = [
        header(xid=1) + start(1, CALL),
        header(writes=chunk(segment(region.handle, 8, region.offset)), xid=2) + start(2, CALL),
        header(reads=read_segment(0, region.handle, 8, region.offset), kind=1, xid=3),
    ]
    for xid, octets in enumerate(calls, 1):
        assert peer.send(octets) == []
        (event,) = peer.endpoint_events()
        assert isinstance(event, CallArrived)
        assert event.incoming.xid == xid
        peer.endpoint.drop(event.incoming)
    refused = [
        header(kind=9),
        header(kind=2) + bytes(20),
        header(),
        header(xid=5) + start(6, CALL),
        header(xid=5) + start(5, 2),
        header(kind=1),
        struct.pack(">IIIIIII", 5, 2, 1, 0, 0, 0, 0),
    ]
    for octets in refused:
        (answer,) = peer.send(octets)
        assert answer[12:16] == (4).to_bytes(4)
    assert peer.endpoint.statistics.discarded == 0
    assert peer.events == []
    silent = [b"", header()[:27], header(kind=3)[:16], header(xid=5) + start(5, REPLY), header(xid=5) + start(6, REPLY)]
    for count, octets in enumerate(silent, 1):
        assert peer.send(octets) == []
        assert peer.endpoint.statistics.discarded == count


@each_case("plain", [0, 4000, 5000])
@each_case("item", [None, 100])
def test_a_reply_without_chunks_is_counted_as_short_however_it_is_sent(plain: int, item: int | None) -> None:
    large = TransportConfig(inline_send_octets=16384, inline_receive_octets=16384)
    pair = EndpointPair(large, large).connect()
    pair.client.call(1, message(1, CALL), ReplyBound(10_000))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(1, REPLY, (bytes(plain), None if item is None else bytes(item))))
    pair.run()
    statistics = pair.server.statistics
    assert (statistics.calls, statistics.calls_short, statistics.replies_long) == (1, 1, 0)
    assert (statistics.calls_read_chunk, statistics.calls_write_chunk, statistics.rdma_writes) == (0, 0, 0)


@each_case(("octets", "written"), [(4000, 0), (4100, 4108)])
def test_a_reply_with_a_reply_chunk_at_hand_is_short_or_long_but_never_both(octets: int, written: int) -> None:
    pair = EndpointPair().connect()
    pair.client.call(1, message(1, CALL), ReplyBound(10_000))
    (incoming,) = pair.arrived()
    pair.server.reply(incoming, message(1, REPLY, (bytes(octets), None)))
    pair.run()
    statistics = pair.server.statistics
    assert (statistics.calls_short, statistics.replies_long) == (int(not written), int(bool(written)))
    assert statistics.octets_written == written


LAST = (1 << 64) - 10
"""Ten octets from here end where offsets do."""


@each_case("where", ["Read", "Position-Zero", "Write", "second Write", "Reply"])
def test_segments_beyond_the_last_offset_are_refused_before_anything_is_read(where: str) -> None:
    peer = BarePeer(Role.SERVER)
    region = peer.pd.register(bytearray(100), Access.REMOTE_READ | Access.REMOTE_WRITE)
    inside = segment(region.handle, 10, region.offset)

    def call(length: int) -> bytes:
        reads = writes = reply = b""
        outside = segment(region.handle, length, LAST)
        if where in {"Read", "Position-Zero"}:
            reads = read_segment(0 if where == "Position-Zero" else 8, region.handle, length, LAST)
        elif where == "Reply":
            reply = chunk(inside, outside)
        else:
            writes = chunk(inside, outside) if where == "Write" else chunk(inside) + chunk(outside)
        lists = header(reads, writes, reply, kind=int(where == "Position-Zero"))
        return lists if where == "Position-Zero" else lists + start(0x0BADCAFE, CALL)

    (answer,) = peer.send(call(11))
    assert answer[12:20] == struct.pack(">II", 4, 2)
    assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.rdma_reads == 0
    assert peer.events == []
    if "Write" in where or where == "Reply":
        # Up to the last octet, a segment may be named.
        assert peer.send(call(10)) == []
        assert [type(event) for event in peer.endpoint_events()] == [CallArrived]


@pytest.mark.req("V1-60")
@each_case("length", range(1, 8))
def test_a_long_call_too_short_for_xid_and_direction_is_refused(length: int) -> None:
    peer = BarePeer(Role.SERVER)
    region = peer.pd.register(bytearray(start(0x0BADCAFE, CALL)[:length]), Access.REMOTE_READ | Access.REMOTE_WRITE)
    (answer,) = peer.send(header(reads=read_segment(0, region.handle, length, region.offset), kind=1))
    assert answer[12:20] == struct.pack(">II", 4, 2)
    assert peer.endpoint_events() == []


@pytest.mark.req("V1-21", "V1-60")
@each_case("position", [position for position in range(1, 16) if position % 4] + [0xFFFFFFFF])
def test_a_position_that_is_no_multiple_of_four_is_refused_before_anything_is_read(position: int) -> None:
    peer = BarePeer(Role.SERVER)
    region = peer.pd.register(bytearray(20), Access.REMOTE_READ | Access.REMOTE_WRITE)
    reads = read_segment(position, region.handle, 4, region.offset)
    (answer,) = peer.send(header(reads=reads) + start(0x0BADCAFE, CALL) + bytes(20))
    assert answer[12:20] == struct.pack(">II", 4, 2)
    assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.rdma_reads == 0
