"""Headers of version 2, first draft, against the golden vectors."""

from __future__ import annotations

from typing import Any

import pytest

import header_vectors
from header_vectors import load_headers, octets_of, property_set
from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import header_v2_00
from rpcrdma.transport.dialects.chunk_lists import TooMany
from rpcrdma.transport.dialects.header_v2_00 import (
    ERRORS,
    RDMA2_MSG,
    RDMA2_NOMSG,
    SHORT_HEADER_OCTETS,
    Header,
    Rdma2ConnProp,
    Rdma2Msg,
    Rdma2NoMsg,
    decode_header,
    decode_property_set,
    encode_header,
    encode_message,
    encode_property_set,
)
from rpcrdma.transport.dialects.v2_00 import GEOMETRY
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.wire.cursor import Reader

VECTORS = load_headers("headers_v2_00.toml")


def each(table: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", VECTORS[table], ids=[vector["name"] for vector in VECTORS[table]])


def header_of(vector: dict[str, Any]) -> Header:
    header: Header = header_vectors.header_of(vector, header_v2_00)
    return header


@pytest.mark.req("V2-35")
@each("header")
def test_header_decodes(vector: dict[str, Any]) -> None:
    assert decode_header(octets_of(vector)) == header_of(vector)


@pytest.mark.req("V2-35")
@each("header")
def test_header_encodes(vector: dict[str, Any]) -> None:
    assert encode_header(header_of(vector)) == octets_of(vector)


@each("header")
def test_truncated_header_does_not_decode(vector: dict[str, Any]) -> None:
    whole = octets_of(vector)
    for length in range(20 if vector["type"] == "Rdma2ConnProp" else len(whole)):
        with pytest.raises(DecodeError):
            decode_header(whole[:length])


@each("header")
def test_only_a_payload_may_follow(vector: dict[str, Any]) -> None:
    header = header_of(vector)
    if isinstance(header, Rdma2Msg):
        assert decode_header(octets_of(vector) + b"payload!") == header
    elif isinstance(header, Rdma2ConnProp):
        assert decode_header(octets_of(vector) + b"more").octets == header.octets + b"more"  # type: ignore[union-attr]
    else:
        with pytest.raises(DecodeError, match="end of data"):
            decode_header(octets_of(vector) + bytes(4))


@each("malformed")
def test_malformed_header_does_not_decode(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_header(octets_of(vector))
    assert caught.value.field == vector["field"]


@each("header")
def test_messages_are_encoded_without_a_header_object_as_well(vector: dict[str, Any]) -> None:
    header = header_of(vector)
    if isinstance(header, Rdma2Msg | Rdma2NoMsg):
        kind = RDMA2_MSG if isinstance(header, Rdma2Msg) else RDMA2_NOMSG
        octets = encode_message(kind, header.xid, header.credits, header.flags, header.inv_handle, header.chunks)
        assert octets == octets_of(vector)
        assert SHORT_HEADER_OCTETS + GEOMETRY.size_chunks(header.chunks) == len(octets)


def test_header_without_chunks_has_one_encoding() -> None:
    octets = encode_message(RDMA2_MSG, 1, 2, 0, 0, NO_CHUNKS)
    assert encode_message(RDMA2_MSG, 1, 2, 0, 0, ChunkLists()) == octets
    assert decode_header(octets).chunks is NO_CHUNKS  # type: ignore[union-attr]


@each("set")
def test_properties_decode_and_encode(vector: dict[str, Any]) -> None:
    assert decode_property_set(octets_of(vector)) == property_set(vector)
    assert encode_property_set(property_set(vector)) == octets_of(vector)


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


def test_as_many_properties_as_limits_allow() -> None:
    most = tuple((number, b"") for number in range(limits.PROPERTIES_MAX))
    assert decode_property_set(encode_property_set(most)) == most
    with pytest.raises(DecodeError, match="at most"):
        decode_property_set(encode_property_set((*most, (0, b""))))


SEGMENT = Segment(1, 1, 1)


@pytest.mark.parametrize(
    ("chunks", "cause", "limit"),
    [
        (
            ChunkLists(tuple(ReadChunk(4 * n, (SEGMENT,)) for n in range(limits.READ_CHUNKS_MAX + 1))),
            Cause.READ_CHUNKS,
            limits.READ_CHUNKS_MAX,
        ),
        (
            ChunkLists((ReadChunk(4, (SEGMENT,) * (limits.CHUNK_SEGMENTS_MAX + 1)),)),
            Cause.SEGMENTS,
            limits.CHUNK_SEGMENTS_MAX,
        ),
        (
            ChunkLists((), (WriteChunk(()),) * (limits.WRITE_CHUNKS_MAX + 1)),
            Cause.WRITE_CHUNKS,
            limits.WRITE_CHUNKS_MAX,
        ),
        (
            ChunkLists((), (WriteChunk((SEGMENT,) * (limits.CHUNK_SEGMENTS_MAX + 1)),)),
            Cause.SEGMENTS,
            limits.CHUNK_SEGMENTS_MAX,
        ),
        (
            ChunkLists((), (), WriteChunk((SEGMENT,) * (limits.CHUNK_SEGMENTS_MAX + 1))),
            Cause.SEGMENTS,
            limits.CHUNK_SEGMENTS_MAX,
        ),
    ],
    ids=["Read chunks", "Read segments", "Write chunks", "Write segments", "Reply segments"],
)
def test_what_is_too_many_is_said(chunks: ChunkLists, cause: Cause, limit: int) -> None:
    with pytest.raises(TooMany, match="at most") as caught:
        decode_header(encode_message(RDMA2_MSG, 1, 1, 0, 0, chunks))
    assert (caught.value.cause, caught.value.limit) == (cause, limit)


@pytest.mark.parametrize("cause", sorted(Cause, key=lambda cause: cause.value))
def test_every_cause_has_a_code(cause: Cause) -> None:
    """One of its own, or that of a cause which says the same to a requester."""
    refusal = ERRORS.decode(Reader(ERRORS.encode(Refusal(cause, 1, 2, 1, 3, 4))))
    expected = {
        Cause.PROPERTY: Cause.HEADER,
        Cause.INELIGIBLE: Cause.SYSTEM,
        Cause.TOO_LARGE: Cause.SYSTEM,
        Cause.CHUNKS: Cause.SYSTEM,
        Cause.NO_CHUNKS: Cause.READ_CHUNKS,
    }
    assert refusal.cause is expected.get(cause, cause)


def test_a_number_that_fits_no_word_is_told_as_the_largest() -> None:
    octets = ERRORS.encode(Refusal(Cause.REPLY_RESOURCE, needed=1 << 40))
    assert ERRORS.decode(Reader(octets)).needed == 0xFFFFFFFF
