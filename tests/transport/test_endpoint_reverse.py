"""The reverse direction: a server calls its client on the connection that the client made (RFC 8167)."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, message
from rpcrdma.transport import (
    CallArrived,
    EndpointEvent,
    IncomingCall,
    ReplyArrived,
    ReplyBound,
    Role,
    TransportConfig,
)
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects.header_v1 import (
    ERR_CHUNK,
    RDMA_MSG,
    RDMA_NOMSG,
    RdmaError,
    decode_header,
    encode_message,
)
from support.cases import each_case

CALL, REPLY = 0, 1
NOTHING = ReplyBound(0)
XID = 0x11223344
SEGMENT = Segment(77, 64, 4096)

GOLDEN_CALL = bytes.fromhex(
    "11223344 00000001 00000010 00000000"  # XID, version 1, 16 credits wanted, RDMA_MSG
    "00000000 00000000 00000000"  # no chunks
    "11223344 00000000 63616c6c"  # the RPC message: the same XID, CALL
)
GOLDEN_REPLY = bytes.fromhex(
    "11223344 00000001 00000010 00000000"  # 16 credits granted
    "00000000 00000000 00000000"
    "11223344 00000001 646f6e65"  # the same XID, REPLY
)


class Both(EndpointPair):
    """Both directions are open."""

    def __init__(self, client: TransportConfig | None = None, server: TransportConfig | None = None) -> None:
        super().__init__(client, server, reverse=True)
        self.connect()
        self.server.allow_reverse()

    def called_back(self) -> list[IncomingCall]:
        """Runs; the calls that the client then reports, which must be all that it reports."""
        self.run()
        return calls_in(self.client_events())


def calls_in(events: list[EndpointEvent]) -> list[IncomingCall]:
    calls = []
    for event in events:
        assert isinstance(event, CallArrived), event
        calls.append(event.incoming)
    return calls


def xids(events: list[EndpointEvent]) -> list[int]:
    found = []
    for event in events:
        assert isinstance(event, ReplyArrived), event
        found.append(event.call.xid)
    return found


def client(config: TransportConfig | None = None) -> BarePeer:
    return BarePeer(Role.CLIENT, config, reverse=True)


def server(config: TransportConfig | None = None) -> BarePeer:
    peer = BarePeer(Role.SERVER, config, reverse=True)
    peer.endpoint.allow_reverse()
    return peer


def reverse_call(chunks: ChunkLists = NO_CHUNKS, *, xid: int = XID, long: bool = False) -> bytes:
    if long:
        return encode_message(RDMA_NOMSG, xid, 16, chunks)
    return encode_message(RDMA_MSG, xid, 16, chunks) + struct.pack(">II", xid, CALL)


@pytest.mark.req("BD-4", "BD-5", "BD-12", "V1-85")
def test_a_reverse_call_is_these_octets() -> None:
    peer = server()
    peer.endpoint.call(XID, message(XID, CALL, (b"call", None)), NOTHING)
    peer.run()
    assert peer.received == [GOLDEN_CALL]


@pytest.mark.req("BD-6", "BD-7", "BD-12")
def test_a_reverse_reply_is_these_octets() -> None:
    peer = client()
    assert peer.send(GOLDEN_CALL) == []
    (incoming,) = calls_in(peer.endpoint_events())
    assert incoming.decoder.octets(12, "call") == GOLDEN_CALL[28:]
    assert peer.endpoint.reverse_calls_in_flight == 1
    peer.endpoint.reply(incoming, message(XID, REPLY, (b"done", None)))
    peer.run()
    assert peer.received == [GOLDEN_REPLY]
    assert peer.endpoint.reverse_calls_in_flight == 0


@pytest.mark.req("BD-2")
def test_each_direction_has_its_own_credits() -> None:
    pair = Both(
        TransportConfig(credits_requested=20, reverse_credits_granted=3),
        TransportConfig(credits_granted=7, reverse_credits_requested=12),
    )
    for xid in range(10):
        pair.server.call(xid, message(xid, CALL), NOTHING)
    calls = pair.called_back()
    assert [call.xid for call in calls] == [0], "one call until the first reply, in this direction too"
    for xid in range(10):
        pair.client.call(xid, message(xid, CALL), NOTHING)
    (arrived,) = pair.arrived()
    pair.server.reply(arrived, message(0, REPLY))
    assert len(pair.arrived()) == 7
    assert pair.server.reverse_credits_granted == 1, "a forward reply grants nothing to reverse calls"
    assert xids(pair.client_events()) == [0]
    pair.client.reply(calls[0], message(0, REPLY))
    assert [call.xid for call in pair.called_back()] == [1, 2, 3]
    assert (pair.server.reverse_credits_granted, pair.server.reverse_calls_in_flight) == (3, 3)
    assert (pair.server.credits_granted, pair.server.calls_in_flight) == (7, 7)
    assert (pair.client.reverse_credits_granted, pair.client.reverse_calls_in_flight) == (3, 3)
    assert (pair.client.credits_granted, pair.client.calls_in_flight) == (7, 7)


@pytest.mark.req("BD-9")
@each_case(
    "octets",
    [
        reverse_call(ChunkLists((ReadChunk(8, (SEGMENT,)),))),
        reverse_call(ChunkLists((ReadChunk(0, (SEGMENT,)),)), long=True),
        reverse_call(ChunkLists(writes=(WriteChunk((SEGMENT,)),))),
        reverse_call(ChunkLists(writes=(WriteChunk(()),))),
        reverse_call(ChunkLists(reply=WriteChunk((SEGMENT,)))),
        reverse_call(ChunkLists(reply=WriteChunk(()))),
    ],
)
def test_a_reverse_call_with_a_chunk_is_refused_and_costs_no_credit(octets: bytes) -> None:
    peer = client(TransportConfig(reverse_credits_granted=2))
    for _ in range(5):
        (answer,) = peer.send(octets)
        assert decode_header(answer) == RdmaError(XID, 2, ERR_CHUNK)
    assert peer.endpoint_events() == []
    assert peer.endpoint.reverse_calls_in_flight == 0
    assert peer.endpoint.statistics.rdma_reads == 0
    peer.send(GOLDEN_CALL)
    assert len(calls_in(peer.endpoint_events())) == 1


@pytest.mark.req("BD-8")
@each_case(("argument", "result"), [(0, 0), (100, 100), (5000, 0), (0, 5000), (300_000, 300_001), (3, 1 << 20)])
def test_reverse_calls_use_chunks_where_both_sides_have_them(argument: int, result: int) -> None:
    both = TransportConfig(reverse_chunks=True)
    pair = Both(both, both)
    data = bytes(range(256)) * (argument // 256 + 1)
    into = bytearray(result)
    pair.server.call(5, message(5, CALL, (b"", data[:argument])), ReplyBound(64, (result,)), (into,))
    (incoming,) = pair.called_back()
    incoming.decoder.octets(8, "start")
    assert bytes(incoming.decoder.bulk(1 << 20, "argument")) == data[:argument]
    value = bytes(reversed(range(250))) * (result // 250 + 1)
    pair.client.reply(incoming, message(5, REPLY, (b"", value[:result])))
    pair.run()
    (event,) = pair.server_events()
    assert isinstance(event, ReplyArrived)
    event.decoder.octets(8, "start")
    assert bytes(event.decoder.bulk(1 << 20, "result")) == value[:result]
    assert into == value[:result]
    assert not pair.server_pd.regions
