"""A server's endpoint against a client that may send anything."""

from __future__ import annotations

import struct

import pytest

from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import CallArrived, Closed, IncomingCall, Role, TransportConfig
from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects.header_v1 import (
    RDMA_MSG,
    RDMA_NOMSG,
    RdmaError,
    RdmaMsg,
    RdmaMsgp,
    RdmaNoMsg,
    decode_header,
    encode_header,
    encode_message,
)
from rpcrdma.verbs import Access, MemoryRegion
from support.cases import each_case

XID = 0x0BADCAFE
CALL = struct.pack(">II", XID, 0)
REPLY = struct.pack(">II", XID, 1)
ERR_CHUNK = RdmaError(XID, 128, 2)


def server(config: TransportConfig | None = None, **options) -> BarePeer:
    return BarePeer(Role.SERVER, config, **options)


def call(*reads: ReadChunk, writes: tuple[WriteChunk, ...] = (), reply: WriteChunk | None = None) -> bytes:
    return encode_message(RDMA_MSG, XID, 32, ChunkLists(reads, writes, reply))


def long_call(*reads: ReadChunk, writes: tuple[WriteChunk, ...] = (), reply: WriteChunk | None = None) -> bytes:
    return encode_message(RDMA_NOMSG, XID, 32, ChunkLists(reads, writes, reply))


def named(region: MemoryRegion, *bounds: tuple[int, int]) -> tuple[Segment, ...]:
    """Segments of (start, length) of a region."""
    return tuple(Segment(region.handle, length, region.offset + start) for start, length in bounds)


def arrived(peer: BarePeer) -> IncomingCall:
    (event,) = peer.endpoint_events()
    assert isinstance(event, CallArrived)
    return event.incoming


def assert_works(peer: BarePeer) -> None:
    """A proper call is still answered."""
    peer.send(call(), CALL)
    incoming = arrived(peer)
    peer.endpoint.reply(incoming, message(XID, 1))
    peer.run()
    assert decode_header(peer.received[-1]) == RdmaMsg(XID, 128)
    assert peer.received[-1][28:] == REPLY


def assert_ended(peer: BarePeer, reason: str) -> None:
    """The endpoint ended the connection and blames the peer."""
    closed = peer.endpoint_events()[-1]
    assert isinstance(closed, Closed)
    assert reason in closed.reason
    assert closed.by_peer
    assert closed.protocol_error


@pytest.mark.req("V1-54")
def test_message_of_fewer_than_28_octets_is_discarded() -> None:
    peer = server()
    whole = encode_header(RdmaMsg(XID, 1))
    other_version = encode_header(RdmaMsg(XID, 1, version=2))
    for length in range(28):
        assert peer.send(whole[:length]) == []
        assert peer.send(other_version[:length]) == []
    assert peer.endpoint.statistics.discarded == 56
    assert_works(peer)


@pytest.mark.req("V1-59", "V1-57", "V1-76", "V1-3")
@each_case("version", [0, 2, 3, 0xFFFFFFFF])
@each_case("procedure", [0, 1, 2, 3, 5, 77])
def test_other_version_is_answered_with_the_range_of_ours(version: int, procedure: int) -> None:
    peer = server()
    header = struct.pack(">IIII", XID, version, 1, procedure) + b"\xff" * 30
    (answer,) = peer.send(header)
    assert decode_header(answer) == RdmaError(XID, 128, 1, 1, 1, version=version)
    assert_works(peer)


@pytest.mark.req("V1-43", "V1-58")
@each_case("version", [1, 2])
@each_case("code", [0, 1, 2, 3])
def test_rdma_error_is_discarded(version: int, code: int) -> None:
    peer = server()
    header = struct.pack(">IIIIIII", XID, version, 1, 4, code, 1, 1)
    for length in range(16, 29):
        assert peer.send(header[:length]) == []
    assert_works(peer)


@pytest.mark.req("V1-69")
def test_rdma_msgp_is_refused() -> None:
    peer = server()
    (answer,) = peer.send(encode_header(RdmaMsgp(XID, 1, 0, 0)), CALL)
    assert decode_header(answer) == ERR_CHUNK
    assert_works(peer)


@pytest.mark.req("V1-55", "V1-57", "V1-60", "V1-3", "V1-38")
@each_case(
    "octets",
    [
        struct.pack(">IIIIIII", XID, 1, 1, 5, 0, 0, 0) + CALL,
        struct.pack(">IIIIIII", XID, 1, 1, 0xFFFFFFFF, 0, 0, 0) + CALL,
        struct.pack(">IIIIIII", XID, 1, 1, 0, 2, 0, 0) + CALL,
        struct.pack(">IIIIIII", XID, 1, 1, 0, 1, 0, 0) + CALL,
        struct.pack(">IIIIIII", XID, 1, 1, 0, 0, 0, 1) + b"\xff" * 4,
        encode_message(RDMA_NOMSG, XID, 1, ChunkLists()),
        encode_message(RDMA_NOMSG, XID, 1, ChunkLists((), (), WriteChunk((Segment(1, 2, 3),)))),
        encode_message(RDMA_NOMSG, XID, 1, ChunkLists((ReadChunk(4, (Segment(1, 2, 3),)),))),
        encode_message(RDMA_NOMSG, XID, 1, ChunkLists((ReadChunk(0, (Segment(1, 8, 3),)),))) + CALL,
        # the payload: missing, too short, another XID, no direction
        call(),
        call() + CALL[:7],
        call() + struct.pack(">II", XID + 1, 0),
        call() + struct.pack(">II", XID, 2),
        # Positions: none, not aligned, in RDMA_MSG the start, behind the end, one inside another chunk
        call(ReadChunk(6, (Segment(1, 4, 3),))) + CALL,
        call(ReadChunk(0, (Segment(1, 4, 3),))) + CALL,
        call(ReadChunk(12, (Segment(1, 4, 3),))) + CALL,
        call(ReadChunk(8, (Segment(1, 8, 3),)), ReadChunk(12, (Segment(1, 4, 3),))) + CALL,
        call(ReadChunk(8, (Segment(1, 5, 3),)), ReadChunk(12, (Segment(1, 4, 3),))) + CALL,
        call(ReadChunk(8, (Segment(1, 4, 3),)), ReadChunk(16, (Segment(1, 4, 3),))) + CALL,
        # too much
        call(ReadChunk(8, (Segment(1, 0xFFFFFFFF, 3),))) + CALL,
        call(ReadChunk(8, (Segment(1, 0xFFFFFFFF, 3),) * 40)) + CALL,
        call(ReadChunk(8, (Segment(1, limits.CALL_OCTETS_PULLED_MAX + 1, 3),))) + CALL,
        long_call(ReadChunk(0, (Segment(1, 0x80000000, 3), Segment(1, 0x80000000, 3)))),
        # segments that end past all offsets
        call(ReadChunk(8, (Segment(1, 5000, 2**64 - 4999),))) + CALL,
        call(writes=(WriteChunk((Segment(1, 5000, 2**64 - 4999),)),)) + CALL,
        call(writes=(WriteChunk((Segment(1, 4000, 0), Segment(1, 2, 2**64 - 1))),)) + CALL,
        call(reply=WriteChunk((Segment(1, 5000, 2**64 - 1),))) + CALL,
        # lists without end
        struct.pack(">IIIIIII", XID, 1, 1, 0, 0, 1, 0xFFFFFFFF) + CALL,
        struct.pack(">IIIII", XID, 1, 1, 0, 0) + struct.pack(">II", 1, 0) * 100,
        # a Position-Zero chunk that holds nothing
        long_call(ReadChunk(0, (Segment(1, 0, 3),))),
        long_call(ReadChunk(0, (Segment(1, 8, 3),)), ReadChunk(12, (Segment(1, 4, 3),))),
    ],
)
def test_malformed_call_is_answered_with_err_chunk(octets: bytes) -> None:
    peer = server()
    (answer,) = peer.send(octets)
    assert decode_header(answer) == ERR_CHUNK
    assert len(answer) == 20
    assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.rdma_reads == peer.endpoint.statistics.discarded == 0
    assert_works(peer)


@pytest.mark.req("V1-22", "V1-23", "V1-24")
@each_case("length", [1, 2, 3, 4, 5, 1001])
@each_case("style", ["no pad", "pad in the last segment", "pad in its own segment"])
def test_both_styles_of_padding_are_accepted(length: int, style: str) -> None:
    peer = server()
    memory = bytes(n & 0xFF for n in range(length)) + b"\xaa" * 3
    region = peer.pd.register(memory, Access.REMOTE_READ)
    pad = -length % 4
    segments = {
        "no pad": named(region, (0, length)),
        "pad in the last segment": named(region, (0, length + pad)),
        "pad in its own segment": named(region, (0, length), (length, pad)),
    }[style]
    peer.send(call(ReadChunk(12, segments)), CALL, struct.pack(">I", length), b"next")
    decoder = arrived(peer).decoder
    decoder.octets(8, "start")
    assert decoder.bulk(2000, "item") == memory[:length]
    assert decoder.octets(4, "next") == b"next"
    decoder.done("call")


@pytest.mark.req("V1-92")
def test_position_zero_chunk_in_many_segments_with_another_chunk_in_its_midst() -> None:
    peer = server()
    stream = CALL + struct.pack(">I", 5) + b"next"
    region = peer.pd.register(stream + b"hello", Access.REMOTE_READ)
    peer.send(
        long_call(
            ReadChunk(12, named(region, (16, 2), (18, 0), (18, 3))),
            ReadChunk(0, named(region, (0, 1), (1, 5), (6, 10))),
        )
    )
    decoder = arrived(peer).decoder
    decoder.octets(8, "start")
    assert decoder.bulk(10, "item") == b"hello"
    assert decoder.octets(4, "next") == b"next"
    decoder.done("call")


@pytest.mark.req("NF-11")
def test_chunks_of_16_segments_in_every_list_at_once_are_accepted() -> None:
    peer = server()
    stream = CALL + struct.pack(">I", 160) + b"next"
    source = peer.pd.register(
        bytearray(stream + bytes(range(160)) + bytes(320)), Access.REMOTE_READ | Access.REMOTE_WRITE
    )
    sixteen = tuple((16 + 10 * n, 10) for n in range(16))
    peer.send(
        long_call(
            ReadChunk(0, named(source, *((n, 1) for n in range(16)))),
            ReadChunk(12, named(source, *sixteen)),
            writes=(WriteChunk(named(source, *((176 + 10 * n, 10) for n in range(16)))),),
            reply=WriteChunk(named(source, *((336 + 10 * n, 10) for n in range(16)))),
        )
    )
    incoming = arrived(peer)
    incoming.decoder.octets(8, "start")
    assert incoming.decoder.bulk(160, "item") == bytes(range(160))
    assert incoming.decoder.octets(4, "next") == b"next"
    peer.endpoint.reply(incoming, message(XID, 1, (b"", bytes(reversed(range(160))))))
    peer.run()
    assert source.view[176:336] == bytes(reversed(range(160)))


@pytest.mark.req("V1-77")
@each_case("wrong", ["handle", "bounds", "rights"])
def test_chunk_that_names_no_readable_memory_ends_this_connection_only(wrong: str) -> None:
    peer = server()
    region = peer.pd.register(bytearray(100), Access.REMOTE_WRITE if wrong == "rights" else Access.REMOTE_READ)
    handle = region.handle ^ (1 if wrong == "handle" else 0)
    length = 101 if wrong == "bounds" else 100
    peer.send(call(ReadChunk(8, (Segment(handle, length, region.offset),))), CALL)
    (event,) = peer.endpoint_events()
    assert isinstance(event, Closed)
    assert not peer.endpoint_pd.regions


@pytest.mark.req("V1-26", "V1-48", "V1-50", "V1-53", "PD-1", "V1-35")
def test_echo_has_the_chunks_that_were_offered_with_other_lengths_only() -> None:
    peer = server(private_data=b"")
    memory = bytearray(2000)
    region = peer.pd.register(memory, Access.REMOTE_WRITE)
    offered = (
        WriteChunk(named(region, (0, 100), (100, 100), (200, 100))),
        WriteChunk(()),
        WriteChunk(named(region, (300, 100))),
        WriteChunk(named(region, (400, 100), (500, 100))),
    )
    reply_chunk = WriteChunk(named(region, (1000, 500), (1500, 500)))
    peer.send(call(writes=offered, reply=reply_chunk), CALL)
    peer.endpoint.reply(
        arrived(peer), message(XID, 1, (b"", b"a" * 150), (b"", b"b" * 5), (b"", b"c" * 100), (b"z" * 900, None))
    )
    peer.run()
    assert decode_header(peer.received[-1]) == RdmaNoMsg(
        XID,
        128,
        ChunkLists(
            (),
            (
                WriteChunk(named(region, (0, 100), (100, 50), (200, 0))),
                WriteChunk(()),
                WriteChunk(named(region, (300, 100))),
                WriteChunk(named(region, (400, 0), (500, 0))),
            ),
            WriteChunk(named(region, (1000, 500), (1500, 428))),
        ),
    )
    assert memory[:150] == b"a" * 150
    assert memory[150:300] == bytes(150)
    assert memory[300:400] == b"c" * 100
    assert memory[400:1000] == bytes(600)
    stream = (
        REPLY + struct.pack(">I", 150) + struct.pack(">I", 5) + b"bbbbb\0\0\0" + struct.pack(">I", 100) + b"z" * 900
    )
    assert memory[1000 : 1000 + len(stream)] == stream
    assert memory[1000 + len(stream) :] == bytes(1000 - len(stream))
    # Without private data there is no remote invalidation, and 1024 octets are the most that is sent.
    assert peer.invalidated == [None]
    assert max(map(len, peer.received)) <= 1024


@each_case("item", [99, 101])
def test_chunk_too_small_for_its_result_is_refused_before_anything_is_written(item: int) -> None:
    peer = server()
    memory = bytearray(200)
    region = peer.pd.register(memory, Access.REMOTE_WRITE)
    chunks = (WriteChunk(named(region, (0, 50), (50, 50))),)
    peer.send(call(writes=chunks, reply=WriteChunk(named(region, (100, 100)))), CALL)
    # Either the item does not fit its chunk, or the rest not the Reply chunk.
    peer.endpoint.reply(arrived(peer), message(XID, 1, (b"", b"\xff" * item), (bytes(5000 if item < 100 else 0), None)))
    peer.run()
    assert decode_header(peer.received[-1]) == ERR_CHUNK
    assert peer.invalidated[-1] is None
    assert memory == bytes(200)
    assert_works(peer)


@pytest.mark.req("PD-6", "PD-5")
def test_one_handle_of_the_call_is_invalidated_with_its_reply() -> None:
    peer = server()
    regions = [peer.pd.register(bytearray(8), Access.REMOTE_READ | Access.REMOTE_WRITE) for _ in range(4)]
    peer.send(
        call(
            ReadChunk(8, named(regions[0], (0, 8))),
            writes=(WriteChunk(named(regions[1], (0, 8))),),
            reply=WriteChunk(named(regions[2], (0, 8))),
        ),
        CALL,
    )
    peer.endpoint.reply(arrived(peer), message(XID, 1))
    peer.run()
    assert peer.invalidated[-1] in {region.handle for region in regions[:3]}
    assert len(peer.pd.regions) == 3


@pytest.mark.req("V1-2")
def test_more_calls_than_granted_end_the_connection() -> None:
    peer = server(TransportConfig(credits_granted=4))
    for _ in range(4):
        peer.send(call(), CALL)
    assert len(peer.endpoint_events()) == 4
    peer.send(call(), CALL)
    assert_ended(peer, "more unanswered calls than credits allow")
    assert peer.endpoint.statistics.discarded == 0


@pytest.mark.req("V1-67")
@each_case("octets", [call() + CALL, encode_header(RdmaMsgp(XID, 1, 0, 0)) + CALL])
def test_peer_that_never_reads_its_answers_is_cut_off(octets: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = server(TransportConfig(credits_granted=4))
    queue_pair = type(peer.qp)
    # The endpoint's sends go nowhere: posted work stays posted.
    endpoint_qp = peer.qp._peer
    work = queue_pair._work
    monkeypatch.setattr(queue_pair, "_work", lambda self, item: False if self is endpoint_qp else work(self, item))
    for count in range(200):
        peer.send(octets)
        events = peer.endpoint_events()
        for event in events:
            if isinstance(event, Closed):
                assert "does not read" in event.reason
                assert count < 50
                return
            assert isinstance(event, CallArrived)
            peer.endpoint.reply(event.incoming, message(XID, 1))
    pytest.fail("the endpoint went on answering")
