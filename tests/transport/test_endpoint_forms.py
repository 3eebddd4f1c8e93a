"""Every form that a call and its reply can travel in, between two endpoints."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from rpcrdma.errors import DecodeError
from rpcrdma.testing.endpoint_pair import SMALL_MESSAGES, EndpointPair, message
from rpcrdma.transport import (
    CallFailed,
    ChunkRefused,
    IncomingCall,
    ReplyArrived,
    ReplyBound,
    ReplySent,
    TransportConfig,
)
from rpcrdma.transport.call import Call
from rpcrdma.transport.dialects.header_v1 import Header, RdmaError, RdmaMsg, RdmaNoMsg, decode_header
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.xdr.codec import Decoder, Payload
from support.cases import each_case

XID = 0x12345678
CALL, REPLY = 0, 1


@pytest.fixture(params=[pytest.param("1", marks=pytest.mark.thorough), "2"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def connected(version: str, client: TransportConfig | None = None) -> EndpointPair:
    """Two endpoints whose messages have 4096 octets in every version, and that use RDMA wherever they can."""
    small = {"offered_send_octets": 4096, "offered_receive_octets": 4096, "in_messages_octets_max": 0}
    server = replace(SMALL_MESSAGES, **small)
    pair = EndpointPair(replace(client or server, **small), server, version=version)
    return pair.connect()


def pattern(length: int, seed: int = 0) -> bytes:
    return bytes((seed + n * 7) & 0xFF for n in range(length))


def answer(pair: EndpointPair, incoming: IncomingCall, payload: Payload) -> tuple[Call, Decoder]:
    """Replies, and returns the client's reports."""
    pair.server.reply(incoming, payload)
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, ReplyArrived)
    return event.call, event.decoder


def opened(decoder: Decoder, direction: int) -> Decoder:
    assert decoder.u32("xid") == XID
    assert decoder.u32("direction") == direction
    return decoder


def nothing_is_exposed(pair: EndpointPair) -> bool:
    return not pair.client_pd.regions and not pair.server_pd.regions


@pytest.mark.req(
    "V1-15",
    "V1-19",
    "V1-20",
    "V1-22",
    "V1-24",
    "V1-44",
    "V1-12",
    "V1-14",
    "V2-101",
    "V2-16",
    "V2-19",
    "V2-20",
    "V2-21",
    "V2-22",
    "V2-45",
    "V2-15",
)
@each_case("segment_octets_max", [1 << 20, 100_000])
def test_argument_in_a_read_chunk(version: str, segment_octets_max: int) -> None:
    for length in (4100, 4101, 4102, 4103, 1 << 20):
        pair = connected(version, TransportConfig(segment_octets_max=segment_octets_max))
        data = pattern(length)
        pair.client.call(XID, message(XID, CALL, (b"before..", data), (b"aft.", None)), ReplyBound(8))
        assert len(pair.client_pd.regions) == 1
        (incoming,) = pair.arrived()
        # Position, length and padding: the decoded values are the sent ones.
        (chunk,) = incoming.chunks.reads
        assert (chunk.position, chunk.length) == (8 + 8 + 4, length)
        decoder = opened(incoming.decoder, CALL)
        assert decoder.octets(8, "before") == b"before.."
        assert decoder.bulk(1 << 21, "data") == data
        assert decoder.octets(4, "after") == b"aft."
        decoder.done("call")
        answer(pair, incoming, message(XID, REPLY))
        assert nothing_is_exposed(pair)
        assert pair.server.statistics.rdma_reads == -(-length // segment_octets_max)
        assert pair.server.statistics.calls_read_chunk == pair.client.statistics.calls_read_chunk == 1


@each_case("octets", [1, 100, 1000])
def test_a_short_argument_is_copied_into_the_message_of_its_call(version: str, octets: int) -> None:
    pair = connected(version)
    data = bytearray(pattern(octets))
    handle = pair.client.call(XID, message(XID, CALL, (b"before..", data), (b"aft.", None)), ReplyBound(8))
    assert not handle.sending
    data[:] = bytes(octets)
    (incoming,) = pair.arrived()
    assert incoming.chunks.chunks == ()
    decoder = opened(incoming.decoder, CALL)
    assert decoder.octets(8, "before") == b"before.."
    assert decoder.bulk(octets, "data") == pattern(octets)
    assert decoder.octets(4, "after") == b"aft."
    decoder.done("call")


@pytest.mark.req(
    "V1-26", "V1-28", "V1-29", "V1-45", "V1-12", "V1-94", "NF-7", "V2-24", "V2-25", "V2-45", "V2-15", "V1-14"
)
@each_case("segment_octets_max", [1 << 20, 999])
def test_result_in_a_write_chunk(version: str, segment_octets_max: int) -> None:
    for length, given in itertools.product((0, 1, 3, 4, 4999, 5000), (False, True)):
        pair = connected(version, TransportConfig(segment_octets_max=segment_octets_max))
        memory = bytearray(b"\xee" * 5000)
        into = (memory,) if given else ()
        pair.client.call(XID, message(XID, CALL), ReplyBound(20, (5000,)), into)
        (incoming,) = pair.arrived()
        assert [chunk.length for chunk in incoming.chunks.writes] == [5000]
        data = pattern(length, 3)
        assert pair.server.reply(incoming, message(XID, REPLY, (b"before..", data), (b"aft.", None)))
        pair.run()
        (event,) = pair.client_events()
        assert isinstance(event, ReplyArrived)
        assert pair.server_events() == [ReplySent(incoming)]
        decoder = opened(event.decoder, REPLY)
        assert decoder.octets(8, "before") == b"before.."
        result = decoder.bulk(1 << 20, "data")
        assert result == data
        assert decoder.octets(4, "after") == b"aft."
        decoder.done("reply")
        if given:
            # Placed in the caller's memory, and no padding after it.
            assert memory[:length] == data
            assert memory[length:] == b"\xee" * (5000 - length)
            memory[:length] = bytes(length)
            assert result == bytes(length)
        assert nothing_is_exposed(pair)
        assert pair.server.statistics.rdma_writes == -(-length // segment_octets_max)


@pytest.mark.req("V1-32", "V1-33", "V1-35", "V1-30", "V2-29", "V2-31", "V2-45", "V1-18", "V1-20", "V2-19", "V2-21")
@each_case("tail", [1, 2, 3, 4])
def test_long_call_with_items_in_chunks_of_their_own_and_small_ones_in_the_stream(version: str, tail: int) -> None:
    pair = connected(version)
    large, small, other = pattern(8000 + tail), pattern(96 + tail), pattern(1023 + tail)
    plain = pattern(5000)
    pair.client.call(
        XID, message(XID, CALL, (plain, large), (b"mid.", small), (b"", other), (b"end.", None)), ReplyBound(8)
    )
    (incoming,) = pair.arrived()
    stream, *items = incoming.chunks.reads
    assert [chunk.length for chunk in items] == [len(large), len(other)]
    assert stream.position == 0
    assert len(stream.segments) == 2, "the stream has segments of its own for the plain octets and the small item"
    decoder = opened(incoming.decoder, CALL)
    assert decoder.octets(5000, "plain") == plain
    assert decoder.bulk(9000, "large") == large
    assert decoder.octets(4, "middle") == b"mid."
    assert decoder.bulk(200, "small") == small
    assert decoder.bulk(2000, "other") == other
    assert decoder.octets(4, "end") == b"end."
    decoder.done("call")
    answer(pair, incoming, message(XID, REPLY))
    assert nothing_is_exposed(pair)


@pytest.mark.req("V1-92")
def test_items_beyond_the_chunks_allowed_are_segments_of_the_stream_and_not_copied(version: str) -> None:
    pair = connected(version, TransportConfig(read_chunks_max=1))
    items = [bytearray(pattern(3000 + n, n)) for n in range(3)]
    pair.client.call(XID, message(XID, CALL, *((b"", item) for item in items)), ReplyBound(8))
    for item in items:
        item[0] ^= 0xFF
    (incoming,) = pair.arrived()
    assert len(incoming.chunks.reads) == 2
    decoder = opened(incoming.decoder, CALL)
    assert [decoder.bulk(4000, "item") for _ in items] == items
    decoder.done("call")


@pytest.mark.req("V1-25", "V1-47", "V2-23")
def test_write_chunk_is_no_larger_than_the_callers_buffer() -> None:
    pair = EndpointPair().connect()
    memory = bytearray(6000)
    pair.client.call(XID, message(XID, CALL), ReplyBound(20, (1 << 20,)), (memory,))
    (incoming,) = pair.arrived()
    assert [chunk.length for chunk in incoming.chunks.writes] == [6000]
    pair.server.reply(incoming, message(XID, REPLY, (b"", bytes(6001))))
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, CallFailed)
    assert isinstance(event.error, ChunkRefused)
    assert memory == bytes(6000)
    assert nothing_is_exposed(pair)


@pytest.mark.req("V1-64", "V1-63")
def test_result_that_was_not_placed_although_it_could_have_been_is_an_error(version: str) -> None:
    pair = connected(version)
    pair.client.call(XID, message(XID, CALL), ReplyBound(20, (5000,)))
    (incoming,) = pair.arrived()
    # The server's encoder puts the eligible item inline, as no item at all.
    _, decoder = answer(pair, incoming, message(XID, REPLY, (b"\0\0\0\4data", None)))
    opened(decoder, REPLY)
    with pytest.raises(DecodeError, match="Write chunk"):
        decoder.bulk(5000, "item")
    # And one is placed where the client decodes none.
    pair.server_events()
    pair.client.call(XID, message(XID, CALL), ReplyBound(20, (5000,)))
    (incoming,) = pair.arrived()
    _, decoder = answer(pair, incoming, message(XID, REPLY, (b"", b"data")))
    opened(decoder, REPLY).u32("length")
    with pytest.raises(DecodeError, match="Write chunk"):
        decoder.done("reply")


def test_decoded_views_outlive_their_receive_buffer() -> None:
    pair = EndpointPair(
        TransportConfig(inline_receive_octets=16384), TransportConfig(inline_send_octets=16384)
    ).connect()
    views = []
    for xid in range(20):
        pair.client.call(xid, message(xid, CALL, (b"", bytes([xid] * 50))), ReplyBound(20, (9000,)))
        (incoming,) = pair.arrived()
        incoming.decoder.octets(8, "start")
        views.append((bytes([xid] * 50), incoming.decoder.bulk(100, "item")))
        item = bytes([xid] * (9000 if xid % 2 else 90))
        _, decoder = answer(pair, incoming, message(xid, REPLY, (b"", item)))
        decoder.octets(8, "start")
        views.append((item, decoder.bulk(9000, "item")))
        pair.server_events()
    assert all(view == expected for expected, view in views)


@pytest.mark.req("V1-42", "V1-68", "V1-71", "V1-40")
def test_no_form_is_ever_sent_but_those_that_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[object, Header]] = []
    post_send = LoopbackQueuePair.post_send

    def recorded(self: LoopbackQueuePair, wr: object, gather: list[bytes], **options: bool) -> None:
        sent.append((self, decode_header(b"".join(gather))))
        post_send(self, wr, gather, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(LoopbackQueuePair, "post_send", recorded)
    pair = EndpointPair().connect()
    for argument, plain, result, body in itertools.product((0, 9000), repeat=4):
        pair.client.call(XID, message(XID, CALL, (bytes(plain), bytes(argument))), ReplyBound(body, (result,)))
        (incoming,) = pair.arrived()
        pair.server.reply(incoming, message(XID, REPLY, (bytes(body), bytes(result))))
        pair.run()
        pair.server_events()
        pair.client_events()
        pair.client.call(XID, message(XID, CALL), ReplyBound(0))
        pair.server.fail_call(pair.arrived()[0])
        pair.run()
    kinds = {(end, type(header)) for end, header in sent}
    assert kinds == {
        (pair.client_qp, RdmaMsg),
        (pair.client_qp, RdmaNoMsg),
        (pair.server_qp, RdmaMsg),
        (pair.server_qp, RdmaNoMsg),
        (pair.server_qp, RdmaError),
    }
    assert {header.version for _, header in sent} == {1}
