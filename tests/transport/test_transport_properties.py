"""Headers and whole calls with any content, sizes, thresholds and segment lengths."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.endpoint_pair import EndpointPair, message
from rpcrdma.transport import ReplyArrived, ReplyBound, TransportConfig
from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects.header_v1 import (
    Header,
    RdmaDone,
    RdmaError,
    RdmaMsg,
    RdmaMsgp,
    RdmaNoMsg,
    decode_header,
    encode_header,
)
from rpcrdma.transport.dialects.v1 import GEOMETRY
from rpcrdma.transport.private_data import PrivateData, decode_private_data, encode_private_data

WORDS = st.integers(0, 0xFFFFFFFF)
SEGMENTS = st.builds(Segment, WORDS, WORDS, st.integers(0, (1 << 64) - 1))
WRITE_CHUNKS = st.builds(WriteChunk, st.lists(SEGMENTS, max_size=5).map(tuple))
READ_LISTS = st.lists(
    st.builds(
        ReadChunk,
        st.integers(0, 0x3FFFFFFF).map(lambda n: 4 * n),
        st.lists(SEGMENTS, min_size=1, max_size=4).map(tuple),
    ),
    max_size=6,
    unique_by=lambda chunk: chunk.position,
).map(tuple)
CHUNK_LISTS = st.builds(ChunkLists, READ_LISTS, st.lists(WRITE_CHUNKS, max_size=4).map(tuple), st.none() | WRITE_CHUNKS)
HEADERS: st.SearchStrategy[Header] = st.one_of(
    st.builds(
        lambda xid, credits_, chunks: RdmaMsg(xid, credits_, chunks, 28 + GEOMETRY.size_chunks(chunks)),
        WORDS,
        WORDS,
        CHUNK_LISTS,
    ),
    st.builds(RdmaNoMsg, WORDS, WORDS, CHUNK_LISTS),
    st.builds(RdmaMsgp, WORDS, WORDS, WORDS, WORDS, CHUNK_LISTS),
    st.builds(RdmaDone, WORDS, WORDS),
    st.builds(RdmaError, WORDS, WORDS, st.just(1), WORDS, WORDS, version=WORDS),
    st.builds(RdmaError, WORDS, WORDS, st.just(2), version=WORDS),
)


@given(HEADERS)
def test_headers_survive_the_round_trip(header: Header) -> None:
    assert decode_header(encode_header(header)) == header


SIZES = st.integers(1, 256).map(lambda n: 1024 * n)


@given(st.booleans(), SIZES, SIZES, st.binary(max_size=20), st.binary(max_size=20))
def test_private_data_survive_wherever_they_stand(
    invalidation: bool, send: int, receive: int, before: bytes, after: bytes
) -> None:
    data = PrivateData(invalidation, send, receive)
    assert decode_private_data(before + encode_private_data(data) + after) == data


LENGTHS = st.integers(0, 12) | st.integers(950, 1100) | st.integers(3900, 4200) | st.integers(0, 30_000)
CONFIGS = st.builds(
    TransportConfig,
    inline_send_octets=st.sampled_from([1024, 2048, 4096, 16384]),
    inline_receive_octets=st.sampled_from([1024, 2048, 4096, 16384]),
    segment_octets_max=st.sampled_from([1500, 4096, 1 << 20]),
    remote_invalidation=st.booleans(),
)
PARTS = st.lists(st.tuples(st.integers(0, 2000).map(lambda n: 4 * n), LENGTHS), max_size=3)


def parts(shape: list[tuple[int, int]], seed: int) -> list[tuple[bytes, bytes]]:
    pattern = bytes((seed + n * 31 + n // 256) & 0xFF for n in range(30_000))
    return [(pattern[-plain:] if plain else b"", pattern[:item]) for plain, item in shape]


@pytest.mark.req("V1-37")
@given(CONFIGS, CONFIGS, PARTS, PARTS, st.data())
def test_what_is_said_is_what_is_heard(
    client: TransportConfig,
    server: TransportConfig,
    call_shape: list[tuple[int, int]],
    reply_shape: list[tuple[int, int]],
    data: st.DataObject,
) -> None:
    pair = EndpointPair(client, server).connect()
    arguments, results = parts(call_shape, 1), parts(reply_shape, 100)
    slack = data.draw(st.sampled_from([0, 1, 5000]))
    bound = ReplyBound(
        sum(len(plain) + 4 for plain, _ in results) + slack, tuple(len(item) + slack for _, item in results)
    )
    into = [bytearray(len(item) + slack) if data.draw(st.booleans()) else None for _, item in results]
    try:
        pair.client.call(7, message(7, 0, *arguments), bound, into)
    except LocalProtocolError:
        # Small segments make headers that fit no message: refused before anything is exposed.
        assert not pair.client_pd.regions
        assume(False)
    (incoming,) = pair.arrived()
    decoder = incoming.decoder
    decoder.octets(8, "start")
    for plain, item in arguments:
        assert decoder.octets(len(plain), "plain") == plain
        assert decoder.bulk(1 << 20, "item") == item
    decoder.done("call")
    pair.server.reply(incoming, message(7, 1, *results))
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, ReplyArrived)
    decoder = event.decoder
    decoder.octets(8, "start")
    for (plain, item), memory in zip(results, into, strict=True):
        assert decoder.octets(len(plain), "plain") == plain
        assert decoder.bulk(1 << 20, "item") == item
        assert memory is None or memory[: len(item)] == item
    decoder.done("reply")
    assert not pair.client_pd.regions
    assert not pair.server_pd.regions
