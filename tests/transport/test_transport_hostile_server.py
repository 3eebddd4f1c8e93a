"""A client's endpoint against a server that may send anything."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import ChunkRefused, Closed, ReplyArrived, ReplyBound, Role, TransportConfig, VersionRefused
from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment, WriteChunk, fill
from rpcrdma.transport.dialects.header_v1 import (
    RDMA_MSG,
    RDMA_NOMSG,
    RdmaDone,
    RdmaError,
    RdmaMsgp,
    decode_header,
    encode_header,
    encode_message,
)
from support.cases import each_case
from support.one_call import OneCall

XID = 0x0DEFACED
REPLY = struct.pack(">II", XID, 1)
CALL = struct.pack(">II", XID, 0)
NOTHING = ReplyBound(0)


class Client(OneCall):
    """A client endpoint with one call outstanding."""

    def __init__(self, bound: ReplyBound = NOTHING, config: TransportConfig | None = None, argument: int = 0) -> None:
        super().__init__(Role.CLIENT, config)
        self.memory = bytearray(bound.items[0] if bound.items else 0)
        self.handle = self.endpoint.call(
            XID, message(XID, 0, (b"", bytes(argument))), bound, (self.memory,) if bound.items else ()
        )
        self.run()
        self.offered: ChunkLists = decode_header(self.received[0]).chunks  # type: ignore[union-attr]

    def reply(self, chunks: ChunkLists, payload: bytes = REPLY, *, long: bool = False, granted: int = 32) -> None:
        header = encode_message(RDMA_NOMSG if long else RDMA_MSG, XID, granted, chunks)
        self.send(header, b"" if long else payload)


def zeroed(*chunks: WriteChunk) -> tuple[WriteChunk, ...]:
    return tuple(fill(chunk, 0) for chunk in chunks)


@pytest.mark.req("V1-42", "V1-56", "V1-58", "V1-70", "V1-72", "V1-54", "V1-41", "BD-3", "BD-14", "V1-38", "V1-40")
@each_case(
    "octets",
    [
        b"",
        REPLY,
        *(encode_message(RDMA_MSG, XID, 9, ChunkLists())[:length] for length in range(1, 28)),
        # other versions
        struct.pack(">IIIIIII", XID, 0, 9, 0, 0, 0, 0) + REPLY,
        struct.pack(">IIIIIII", XID, 2, 9, 0, 0, 0, 0) + REPLY,
        # malformed headers
        struct.pack(">IIIIIII", XID, 1, 9, 5, 0, 0, 0) + REPLY,
        struct.pack(">IIIIIII", XID, 1, 9, 0, 2, 0, 0) + REPLY,
        struct.pack(">IIIIIII", XID, 1, 9, 0, 0, 1, 0xFFFFFFFF) + REPLY,
        encode_message(RDMA_NOMSG, XID, 9, ChunkLists()),
        # payload: too short, another XID, neither call nor reply
        encode_message(RDMA_MSG, XID, 9, ChunkLists()) + REPLY[:7],
        encode_message(RDMA_MSG, XID, 9, ChunkLists()) + struct.pack(">II", XID + 1, 1),
        encode_message(RDMA_MSG, XID, 9, ChunkLists()) + struct.pack(">II", XID, 2),
        # XIDs that no call has
        encode_message(RDMA_MSG, XID + 1, 9, ChunkLists()) + struct.pack(">II", XID + 1, 1),
        encode_header(RdmaError(XID + 1, 9, 2)),
        # a message that is not for a requester
        encode_header(RdmaMsgp(XID, 9, 0, 0)) + REPLY,
        encode_header(RdmaDone(XID, 9)),
        # a reverse call, which this client does not take, in both forms
        encode_message(RDMA_MSG, XID, 9, ChunkLists()) + CALL,
        encode_message(RDMA_NOMSG, XID, 9, ChunkLists((ReadChunk(0, (Segment(1, 8, 0),)),))),
        # errors that do not decode
        struct.pack(">IIIII", XID, 1, 9, 4, 0),
        struct.pack(">IIIII", XID, 1, 9, 4, 3),
        struct.pack(">IIII", XID, 1, 9, 4),
        struct.pack(">IIIIII", XID, 1, 9, 4, 1, 1),
        struct.pack(">IIIIII", XID, 1, 9, 4, 2, 0),
    ],
)
def test_message_that_answers_nothing_is_discarded_and_its_credits_ignored(octets: bytes) -> None:
    peer = Client()
    assert peer.send(octets) == []
    assert peer.endpoint_events() == []
    assert peer.endpoint.credits_granted == 1
    assert peer.endpoint.statistics.discarded == 1
    peer.reply(ChunkLists())
    assert isinstance(peer.event(), ReplyArrived)


@pytest.mark.req("V1-76")
@each_case("version", [1, 2, 77])
def test_err_vers_fails_the_call_whatever_version_it_is_in(version: int) -> None:
    peer = Client()
    peer.send(encode_header(RdmaError(XID, 32, 1, 2, 5, version=version)))
    error = peer.failure()
    assert isinstance(error, VersionRefused)
    assert (error.low, error.high) == (2, 5)


@pytest.mark.req("V1-49")
@each_case("given", [False, True])
@each_case("results", ["none", "empty", "the first"])
def test_what_was_written_into_an_unused_chunk_is_not_taken_for_a_result(results: str, given: bool) -> None:
    peer = BarePeer(Role.CLIENT)
    memories = [bytearray(2000), bytearray(3000)]
    peer.endpoint.call(XID, message(XID, 0), ReplyBound(20, (2000, 3000)), memories if given else ())
    peer.run()
    offered = decode_header(peer.received[0]).chunks.writes  # type: ignore[union-attr]
    for chunk in offered:
        # To the last octet, for any returned length of the chunk.
        (segment,) = chunk.segments
        peer.write(segment.handle, segment.offset, [b"\xee" * segment.length])
    used = 7 if results == "the first" else 0
    if used:
        peer.write(offered[0].segments[0].handle, offered[0].segments[0].offset, [b"payload"])
    stream = b"" if results == "none" else struct.pack(">I", used)
    chunks = ChunkLists((), (fill(offered[0], used), fill(offered[1], 0)))
    peer.send(encode_message(RDMA_MSG, XID, 32, chunks), REPLY + stream + b"end.")
    (event,) = peer.endpoint_events()
    assert isinstance(event, ReplyArrived)
    event.decoder.octets(8, "start")
    if results != "none":
        assert event.decoder.bulk(2000, "item") == b"payload"[:used]
    assert event.decoder.octets(4, "end") == b"end."
    event.decoder.done("reply")
    # Nor is it still within reach, or kept for the next call.
    assert not peer.endpoint_pd.regions
    peer.endpoint.call(1, message(1, 0), ReplyBound(20, (2000, 3000)))
    peer.run()
    header = decode_header(peer.received[-1])
    empty = encode_message(RDMA_MSG, 1, 32, ChunkLists((), zeroed(*header.chunks.writes)))  # type: ignore[union-attr]
    peer.send(empty, struct.pack(">III", 1, 1, 0))
    (event,) = peer.endpoint_events()
    assert isinstance(event, ReplyArrived)
    event.decoder.octets(8, "start")
    assert event.decoder.bulk(2000, "item") == b""
    event.decoder.done("reply")


@pytest.mark.req("PD-6", "PD-7")
def test_invalidation_of_another_calls_memory_ends_the_connection() -> None:
    peer = Client(ReplyBound(20, (5000,)))
    peer.endpoint.abandon(peer.handle)
    peer.reply(ChunkLists((), zeroed(*peer.offered.writes)))
    assert peer.endpoint.credits_granted == 32
    one = peer.endpoint.call(1, message(1, 0), ReplyBound(20, (5000,)))
    two = peer.endpoint.call(2, message(2, 0), ReplyBound(20, (5000,)))
    peer.run()
    (chunk,) = decode_header(peer.received[-1]).chunks.writes  # type: ignore[union-attr]
    (mine,) = decode_header(peer.received[-2]).chunks.writes  # type: ignore[union-attr]
    header = encode_message(RDMA_MSG, 1, 32, ChunkLists((), zeroed(mine)))
    peer.send(header, struct.pack(">II", 1, 1), invalidate=chunk.segments[0].handle)
    events = peer.endpoint_events()
    assert [getattr(event, "call", None) for event in events] == [one, two, None]
    assert isinstance(events[-1], Closed)
    assert "did not expose" in events[-1].reason
    assert not peer.endpoint_pd.regions


@pytest.mark.req("PD-7")
def test_invalidation_without_our_consent_ends_the_connection() -> None:
    peer = Client(ReplyBound(20, (5000,)), TransportConfig(remote_invalidation=False))
    (offered,) = peer.offered.writes
    header = encode_message(RDMA_MSG, XID, 32, ChunkLists((), zeroed(offered)))
    peer.send(header, REPLY, invalidate=offered.segments[0].handle)
    assert "not agreed on" in peer.closed()


def test_invalidation_by_a_server_that_did_not_announce_it_is_accepted() -> None:
    # Linux servers never set their own flag and look at the client's only.
    peer = BarePeer(Role.CLIENT, private_data=bytes.fromhex("f6ab0e18 01000303"))
    assert not peer.endpoint.remote_invalidation
    peer.endpoint.call(XID, message(XID, 0), ReplyBound(20, (5000,)))
    peer.run()
    (offered,) = decode_header(peer.received[0]).chunks.writes  # type: ignore[union-attr]
    peer.send(
        encode_message(RDMA_MSG, XID, 64, ChunkLists((), zeroed(offered))), REPLY, invalidate=offered.segments[0].handle
    )
    (event,) = peer.endpoint_events()
    assert isinstance(event, ReplyArrived)
    assert peer.endpoint.statistics.remote_invalidations == 1


def test_invalidation_by_an_error_message_counts_for_its_call() -> None:
    peer = Client(ReplyBound(20, (5000,)))
    peer.send(encode_header(RdmaError(XID, 1, 2)), invalidate=peer.offered.writes[0].segments[0].handle)
    assert isinstance(peer.failure(), ChunkRefused)
