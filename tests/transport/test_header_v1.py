"""Transport headers against the golden vectors."""

from __future__ import annotations

from typing import Any

import pytest

import header_vectors
from header_vectors import load_headers, octets_of
from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import header_v1
from rpcrdma.transport.dialects.header_parts import VersionRefusal, encode_version_refused
from rpcrdma.transport.dialects.header_v1 import (
    RDMA_MSG,
    Header,
    RdmaError,
    RdmaMsg,
    RdmaMsgp,
    decode_header,
    encode_chunk_refused,
    encode_header,
    encode_message,
)
from support.cases import each_case

VECTORS = load_headers("headers.toml")
HEADERS = VECTORS["header"]
headers = each_case("vector", HEADERS)
malformed = each_case("vector", VECTORS["malformed"])


def header_of(vector: dict[str, Any]) -> Header:
    header: Header = header_vectors.header_of(vector, header_v1)
    return header


@pytest.mark.req("V1-36", "V1-40", "V1-76")
@headers
def test_header_decodes(vector: dict[str, Any]) -> None:
    assert decode_header(octets_of(vector)) == header_of(vector)


@pytest.mark.req("V1-36", "V1-40", "V1-76")
@headers
def test_header_encodes(vector: dict[str, Any]) -> None:
    assert encode_header(header_of(vector)) == octets_of(vector)


@headers
def test_truncated_header_does_not_decode(vector: dict[str, Any]) -> None:
    whole = octets_of(vector)
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_header(whole[:length])


@headers
def test_only_a_payload_may_follow(vector: dict[str, Any]) -> None:
    header = header_of(vector)
    if isinstance(header, RdmaMsg | RdmaMsgp):
        assert decode_header(octets_of(vector) + b"payload!") == header
    else:
        with pytest.raises(DecodeError, match="end of data"):
            decode_header(octets_of(vector) + bytes(4))


@pytest.mark.req("V1-21", "V1-36")
@malformed
def test_malformed_header_does_not_decode(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_header(octets_of(vector))
    assert caught.value.field == vector["field"]


@pytest.mark.req("V1-57", "V1-59", "V1-60")
def test_errors_copy_xid_and_version_of_the_request() -> None:
    assert decode_header(encode_version_refused(VersionRefusal(77, 9, 32, 1, 1))) == RdmaError(
        77, 32, 1, 1, 1, version=9
    )
    assert decode_header(encode_chunk_refused(77, 1, 32)) == RdmaError(77, 32, 2, version=1)


def test_as_many_chunks_and_segments_as_limits_allow() -> None:
    segment = Segment(1, 1, 1)
    most = ChunkLists(
        tuple(ReadChunk(4 * n, (segment,)) for n in range(limits.READ_CHUNKS_MAX)),
        (WriteChunk((segment,)),) * limits.WRITE_CHUNKS_MAX,
        WriteChunk((segment,) * limits.CHUNK_SEGMENTS_MAX),
    )
    assert decode_header(encode_message(RDMA_MSG, 1, 1, most)).chunks == most  # type: ignore[union-attr]
