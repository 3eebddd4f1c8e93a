"""Transport headers against the golden vectors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import header_v1
from rpcrdma.transport.dialects.fixed_words import VersionRefusal, encode_version_refused
from rpcrdma.transport.dialects.header_v1 import (
    RDMA_MSG,
    RDMA_NOMSG,
    SHORT_HEADER_OCTETS,
    Header,
    RdmaError,
    RdmaMsg,
    RdmaMsgp,
    RdmaNoMsg,
    decode_header,
    encode_chunk_refused,
    encode_header,
    encode_message,
)
from rpcrdma.transport.dialects.v1 import GEOMETRY

VECTORS = tomllib.loads((Path(__file__).parents[2] / "vectors/transport/headers.toml").read_text())
HEADERS = VECTORS["header"]
headers = pytest.mark.parametrize("vector", HEADERS, ids=[vector["name"] for vector in HEADERS])
malformed = pytest.mark.parametrize(
    "vector", VECTORS["malformed"], ids=[vector["name"] for vector in VECTORS["malformed"]]
)


def octets(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["hex"])


def segments(listed: list[list[int]]) -> tuple[Segment, ...]:
    return tuple(Segment(*segment) for segment in listed)


def header_of(vector: dict[str, Any]) -> Header:
    fields = {key: vector[key] for key in vector.keys() & {"xid", "credits", "align", "threshold", "code", "low"}}
    if "high" in vector:
        fields["high"] = vector["high"]
        fields["version"] = vector["version"]
    if vector["type"] in {"RdmaMsg", "RdmaNoMsg", "RdmaMsgp"}:
        fields["chunks"] = ChunkLists(
            tuple(ReadChunk(position, segments(listed)) for position, listed in vector.get("reads", ())),
            tuple(WriteChunk(segments(listed)) for listed in vector.get("writes", ())),
            WriteChunk(segments(vector["reply"])) if "reply" in vector else None,
        )
    if vector["type"] == "RdmaMsg":
        fields["size"] = len(octets(vector))
    header: Header = getattr(header_v1, vector["type"])(**fields)
    return header


@pytest.mark.req("V1-36", "V1-40", "V1-76")
@headers
def test_header_decodes(vector: dict[str, Any]) -> None:
    assert decode_header(octets(vector)) == header_of(vector)


@pytest.mark.req("V1-36", "V1-40", "V1-76")
@headers
def test_header_encodes(vector: dict[str, Any]) -> None:
    assert encode_header(header_of(vector)) == octets(vector)


@headers
def test_truncated_header_does_not_decode(vector: dict[str, Any]) -> None:
    whole = octets(vector)
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_header(whole[:length])
        with pytest.raises(DecodeError):
            decode_header(whole + bytes(64), length)


@headers
def test_only_a_payload_may_follow(vector: dict[str, Any]) -> None:
    header = header_of(vector)
    if isinstance(header, RdmaMsg | RdmaMsgp):
        assert decode_header(octets(vector) + b"payload!") == header
    else:
        with pytest.raises(DecodeError, match="end of data"):
            decode_header(octets(vector) + bytes(4))


@pytest.mark.req("V1-21")
@malformed
def test_malformed_header_does_not_decode(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_header(octets(vector))
    assert caught.value.field == vector["field"]


@headers
def test_messages_are_encoded_without_a_header_object_as_well(vector: dict[str, Any]) -> None:
    header = header_of(vector)
    if isinstance(header, RdmaMsg | RdmaNoMsg):
        procedure = RDMA_MSG if isinstance(header, RdmaMsg) else RDMA_NOMSG
        assert encode_message(procedure, header.xid, header.credits, header.chunks) == octets(vector)
        assert SHORT_HEADER_OCTETS + GEOMETRY.size_chunks(header.chunks) == len(octets(vector))


def test_header_without_chunks_has_one_encoding() -> None:
    assert encode_message(RDMA_MSG, 1, 2, NO_CHUNKS) == encode_message(RDMA_MSG, 1, 2, ChunkLists())
    assert decode_header(encode_message(RDMA_MSG, 1, 2, NO_CHUNKS)).chunks is NO_CHUNKS  # type: ignore[union-attr]


@pytest.mark.req("V1-57", "V1-59", "V1-60")
def test_errors_copy_xid_and_version_of_the_request() -> None:
    assert decode_header(encode_version_refused(VersionRefusal(77, 9, 32, 1, 1))) == RdmaError(
        77, 32, 1, 1, 1, version=9
    )
    assert decode_header(encode_chunk_refused(77, 1, 32)) == RdmaError(77, 32, 2, version=1)


def test_segments_of_one_position_are_one_chunk_wherever_they_stand() -> None:
    a, b, c = Segment(1, 4, 0), Segment(2, 8, 0), Segment(3, 12, 0)
    flat = ChunkLists((ReadChunk(400, (a,)), ReadChunk(40, (b,)), ReadChunk(400, (c,))))
    header = decode_header(encode_message(RDMA_MSG, 1, 1, flat))
    assert isinstance(header, RdmaMsg)
    assert header.chunks.reads == (ReadChunk(400, (a, c)), ReadChunk(40, (b,)))


def test_as_many_chunks_and_segments_as_limits_allow() -> None:
    segment = Segment(1, 1, 1)
    most = ChunkLists(
        tuple(ReadChunk(4 * n, (segment,)) for n in range(limits.READ_CHUNKS_MAX)),
        (WriteChunk((segment,)),) * limits.WRITE_CHUNKS_MAX,
        WriteChunk((segment,) * limits.CHUNK_SEGMENTS_MAX),
    )
    assert decode_header(encode_message(RDMA_MSG, 1, 1, most)).chunks == most  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "chunks",
    [
        ChunkLists(tuple(ReadChunk(4 * n, (Segment(1, 1, 1),)) for n in range(limits.READ_CHUNKS_MAX + 1))),
        ChunkLists((ReadChunk(4, (Segment(1, 1, 1),) * (limits.CHUNK_SEGMENTS_MAX + 1)),)),
        ChunkLists((), (WriteChunk(()),) * (limits.WRITE_CHUNKS_MAX + 1)),
        ChunkLists((), (WriteChunk((Segment(1, 1, 1),) * (limits.CHUNK_SEGMENTS_MAX + 1)),)),
        ChunkLists((), (), WriteChunk((Segment(1, 1, 1),) * (limits.CHUNK_SEGMENTS_MAX + 1))),
    ],
    ids=["Read chunks", "Read segments", "Write chunks", "Write segments", "Reply segments"],
)
def test_more_chunks_or_segments_do_not_decode(chunks: ChunkLists) -> None:
    with pytest.raises(DecodeError, match="at most"):
        decode_header(encode_message(RDMA_MSG, 1, 1, chunks))
