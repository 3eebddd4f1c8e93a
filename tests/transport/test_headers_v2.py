"""Headers of version 2 against the golden vectors."""

from __future__ import annotations

from typing import Any

import pytest

from header_vectors import header_of, load_headers, octets_of
from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import header_v2, v2
from rpcrdma.transport.dialects.chunk_lists import TooMany
from rpcrdma.transport.dialects.header_parts import decode_property_set, encode_property_set
from rpcrdma.transport.dialects.header_v2 import RDMA2_MSG, encode_message
from rpcrdma.transport.message import Cause
from support.cases import each_case

VECTORS = load_headers("headers_v2.toml")


def each(table: str) -> pytest.MarkDecorator:
    return each_case("vector", VECTORS[table])


@pytest.mark.req("V2-35")
@each("header")
def test_header_decodes(vector: dict[str, Any]) -> None:
    assert header_v2.decode_header(octets_of(vector)) == header_of(vector, header_v2)


@pytest.mark.req("V2-35", "V2-58")
@each("header")
def test_header_encodes(vector: dict[str, Any]) -> None:
    assert header_v2.encode_header(header_of(vector, header_v2)) == octets_of(vector)


@each("header")
def test_truncated_header_does_not_decode(vector: dict[str, Any]) -> None:
    whole = octets_of(vector)
    # Property sets have a decoder of their own: to the header's they are octets.
    fixed = len(whole) - len(bytes.fromhex(vector.get("payload", "")))
    for length in range(fixed):
        with pytest.raises(DecodeError):
            header_v2.decode_header(whole[:length])


@each("header")
def test_only_a_payload_may_follow(vector: dict[str, Any]) -> None:
    header = header_of(vector, header_v2)
    if isinstance(header, header_v2.Rdma2Msg):
        assert header_v2.decode_header(octets_of(vector) + b"payload!") == header
    elif isinstance(header, header_v2.Rdma2ConnProp):
        assert header_v2.decode_header(octets_of(vector) + b"more").octets == header.octets + b"more"
    else:
        with pytest.raises(DecodeError, match="end of data"):
            header_v2.decode_header(octets_of(vector) + bytes(4))


@pytest.mark.req("V2-52", "V2-68")
@each("malformed")
def test_malformed_header_does_not_decode(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        header_v2.decode_header(octets_of(vector))
    assert caught.value.field == vector["field"]


@each("header")
def test_headers_have_the_size_that_the_geometry_says(vector: dict[str, Any]) -> None:
    header = header_of(vector, header_v2)
    if not isinstance(header, header_v2.Rdma2Msg | header_v2.Rdma2NoMsg) or header.flags & 2:
        return
    assert v2.GEOMETRY.call_header + v2.GEOMETRY.size_chunks(header.chunks) == len(octets_of(vector))


@each("set")
def test_truncated_properties_do_not_decode(vector: dict[str, Any]) -> None:
    whole = octets_of(vector)
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_property_set(whole[:length])


@each("malformed_set")
def test_malformed_properties_do_not_decode(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_property_set(octets_of(vector))
    assert caught.value.field == vector["field"]
    assert caught.value.offset == vector.get("offset", caught.value.offset)


def test_as_many_properties_as_limits_allow() -> None:
    most = tuple((number, b"") for number in range(limits.PROPERTIES_MAX))
    octets = encode_property_set(most)
    assert decode_property_set(octets) == most
    with pytest.raises(DecodeError, match="at most"):
        decode_property_set(encode_property_set((*most, (0, b""))))


SEGMENT = Segment(1, 1, 1)
SEGMENTS = (SEGMENT,) * (limits.CHUNK_SEGMENTS_MAX + 1)


@pytest.mark.req("V2-57")
@each_case(
    ("chunks", "cause", "limit"),
    [
        (
            ChunkLists(tuple(ReadChunk(4 * n, (SEGMENT,)) for n in range(1, limits.READ_CHUNKS_MAX + 2))),
            Cause.READ_CHUNKS,
            limits.READ_CHUNKS_MAX,
        ),
        (ChunkLists((ReadChunk(4, SEGMENTS),)), Cause.SEGMENTS, limits.CHUNK_SEGMENTS_MAX),
        (
            ChunkLists((), (WriteChunk(()),) * (limits.WRITE_CHUNKS_MAX + 1)),
            Cause.WRITE_CHUNKS,
            limits.WRITE_CHUNKS_MAX,
        ),
        (ChunkLists((), (WriteChunk(SEGMENTS),)), Cause.SEGMENTS, limits.CHUNK_SEGMENTS_MAX),
        (ChunkLists((), (), WriteChunk(SEGMENTS)), Cause.SEGMENTS, limits.CHUNK_SEGMENTS_MAX),
    ],
)
def test_what_is_too_many_is_said(chunks: ChunkLists, cause: Cause, limit: int) -> None:
    with pytest.raises(TooMany, match="at most") as caught:
        header_v2.decode_header(encode_message(RDMA2_MSG, 1, 1, 0, 0, chunks))
    assert (caught.value.cause, caught.value.limit) == (cause, limit)


def test_a_chunk_may_have_as_many_segments_as_limits_allow() -> None:
    most = SEGMENTS[1:]
    for chunks in (
        ChunkLists((ReadChunk(4, most),)),
        ChunkLists((), (WriteChunk(most),)),
        ChunkLists((), (), WriteChunk(most)),
    ):
        decoded = header_v2.decode_header(encode_message(RDMA2_MSG, 1, 1, 0, 0, chunks))
        assert decoded.chunks == chunks  # type: ignore[union-attr]
