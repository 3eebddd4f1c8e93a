"""Headers of version 2, in the two drafts that differ, against the golden vectors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from header_vectors import header_of, load_headers, octets_of, property_set
from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import header_v2_00, header_v2_07, v2_00, v2_07
from rpcrdma.transport.dialects.chunk_lists import TooMany
from rpcrdma.transport.dialects.header_parts import decode_property_set, encode_property_set
from rpcrdma.transport.dialects.header_v2_00 import RDMA2_MSG, RDMA2_NOMSG, Rdma2NoMsg, encode_message
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.wire.buffers import Reader
from support.cases import each_case

FIRST, LAST = load_headers("headers_v2_00.toml"), load_headers("headers_v2_07.toml")


def each(table: str) -> pytest.MarkDecorator:
    """(module of the draft, vector) of both drafts."""
    cases = [(header_v2_00, vector) for vector in FIRST[table]] + [(header_v2_07, vector) for vector in LAST[table]]
    return each_case(("module", "vector"), cases)


def each_set(table: str) -> pytest.MarkDecorator:
    return each_case("vector", FIRST[table])


def has_payload(header: Any) -> bool:
    """Whether an RPC message, or a part of it, follows the header."""
    return hasattr(header, "size") and not getattr(header, "external", False)


@pytest.mark.req("V2-35")
@each("header")
def test_header_decodes(module: ModuleType, vector: dict[str, Any]) -> None:
    assert module.decode_header(octets_of(vector)) == header_of(vector, module)


@pytest.mark.req("V2-35", "V2-58")
@each("header")
def test_header_encodes(module: ModuleType, vector: dict[str, Any]) -> None:
    assert module.encode_header(header_of(vector, module)) == octets_of(vector)


@each("header")
def test_truncated_header_does_not_decode(module: ModuleType, vector: dict[str, Any]) -> None:
    whole = octets_of(vector)
    # Property sets have a decoder of their own: to the header's they are octets.
    fixed = len(whole) - len(bytes.fromhex(vector.get("payload", "")))
    for length in range(fixed):
        with pytest.raises(DecodeError):
            module.decode_header(whole[:length])


@each("header")
def test_only_a_payload_may_follow(module: ModuleType, vector: dict[str, Any]) -> None:
    header = header_of(vector, module)
    if has_payload(header):
        assert module.decode_header(octets_of(vector) + b"payload!") == header
    elif isinstance(header, module.Rdma2ConnProp):
        assert module.decode_header(octets_of(vector) + b"more").octets == header.octets + b"more"
    else:
        with pytest.raises(DecodeError, match="end of data"):
            module.decode_header(octets_of(vector) + bytes(4))


@pytest.mark.req("V2-A10", "V2-A12", "V2-A13", "V2-52", "V2-68")
@each("malformed")
def test_malformed_header_does_not_decode(module: ModuleType, vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        module.decode_header(octets_of(vector))
    assert caught.value.field == vector["field"]


@each("header")
def test_headers_have_the_size_that_the_geometry_says(module: ModuleType, vector: dict[str, Any]) -> None:
    """Or less, where a chunk takes different room in different headers; never more."""
    header = header_of(vector, module)
    if not hasattr(header, "chunks") or getattr(header, "flags", 0) & 2:
        return
    geometry = v2_00.GEOMETRY if module is header_v2_00 else v2_07.GEOMETRY
    fixed = geometry.reply_header if isinstance(header, header_v2_07.Rdma2Reply) else geometry.call_header
    over = fixed + geometry.size_chunks(header.chunks) - len(octets_of(vector))
    in_call = isinstance(header, header_v2_07.Rdma2Call) and header.chunks.reply is not None
    assert over == (4 if in_call else 0)


@each("header")
def test_messages_are_encoded_without_a_header_object_as_well(module: ModuleType, vector: dict[str, Any]) -> None:
    header = header_of(vector, module)
    if isinstance(header, header_v2_00.Rdma2Msg | header_v2_00.Rdma2NoMsg):
        kind = RDMA2_NOMSG if isinstance(header, Rdma2NoMsg) else RDMA2_MSG
        octets = encode_message(kind, header.xid, header.credits, header.flags, header.inv_handle, header.chunks)
        assert octets == octets_of(vector)


@each_case("module", [header_v2_00, header_v2_07])
def test_headers_without_chunks_share_one_object(module: ModuleType) -> None:
    table = FIRST if module is header_v2_00 else LAST
    decoded = [module.decode_header(octets_of(vector)) for vector in table["header"]]
    without = [header for header in decoded if getattr(header, "chunks", None) == NO_CHUNKS]
    assert without
    assert all(header.chunks is NO_CHUNKS for header in without)


def test_lists_that_are_equal_have_one_encoding() -> None:
    assert encode_message(RDMA2_MSG, 1, 2, 0, 0, ChunkLists()) == encode_message(RDMA2_MSG, 1, 2, 0, 0, NO_CHUNKS)


@each_set("set")
def test_properties_decode_and_encode(vector: dict[str, Any]) -> None:
    assert decode_property_set(octets_of(vector)) == property_set(vector)
    assert encode_property_set(property_set(vector)) == octets_of(vector)


@each_set("set")
def test_truncated_properties_do_not_decode(vector: dict[str, Any]) -> None:
    whole = octets_of(vector)
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_property_set(whole[:length])


@each_set("malformed_set")
def test_malformed_properties_do_not_decode(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_property_set(octets_of(vector))
    assert caught.value.field == vector["field"]


def test_several_sets_are_one_if_that_is_asked_for() -> None:
    sets = [octets_of(vector) for vector in FIRST["set"]]
    joined = tuple(entry for vector in FIRST["set"] for entry in property_set(vector))
    assert decode_property_set(b"".join(sets), several=True) == joined
    with pytest.raises(DecodeError):
        decode_property_set(b"".join(sets))
    with pytest.raises(DecodeError):
        decode_property_set(b"".join(sets) + b"\0", several=True)


def test_as_many_properties_as_limits_allow() -> None:
    most = tuple((number, b"") for number in range(limits.PROPERTIES_MAX))
    octets = encode_property_set(most)
    assert decode_property_set(octets) == most
    with pytest.raises(DecodeError, match="at most"):
        decode_property_set(encode_property_set((*most, (0, b""))))
    with pytest.raises(DecodeError, match="at most"):
        decode_property_set(octets + encode_property_set(((0, b""),)), several=True)


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
    for module, octets in (
        (header_v2_00, encode_message(RDMA2_MSG, 1, 1, 0, 0, chunks)),
        (header_v2_07, header_v2_07.encode_header(header_v2_07.Rdma2Call(1, 1, 0, chunks))),
    ):
        with pytest.raises(TooMany, match="at most") as caught:
            module.decode_header(octets)
        assert (caught.value.cause, caught.value.limit) == (cause, limit)


AS_OTHERS = {
    Cause.INELIGIBLE: Cause.SYSTEM,
    Cause.TOO_LARGE: Cause.SYSTEM,
    Cause.CHUNKS: Cause.SYSTEM,
}


@each_case("cause", sorted(set(Cause) - {Cause.EXTENSION}, key=lambda cause: cause.value))
@each_case(
    ("module", "as_others"),
    [
        (header_v2_00, {**AS_OTHERS, Cause.PROPERTY: Cause.HEADER, Cause.VERSION_MISMATCH: Cause.SYSTEM}),
        (header_v2_07, AS_OTHERS),
    ],
)
def test_every_cause_has_a_code(module: ModuleType, as_others: dict[Cause, Cause], cause: Cause) -> None:
    """One of its own, or that of a cause which says the same to a requester."""
    octets = module.ERRORS.encode(Refusal(cause, 1, 2, 1, 3, 4))
    refusal = module.ERRORS.decode(Reader(octets))
    assert refusal.cause is as_others.get(cause, cause)
    assert module.ERRORS.encode(refusal) == octets


def test_a_chunk_may_have_as_many_segments_as_limits_allow() -> None:
    most = SEGMENTS[1:]
    for chunks in (
        ChunkLists((ReadChunk(4, most),)),
        ChunkLists((), (WriteChunk(most),)),
        ChunkLists((), (), WriteChunk(most)),
    ):
        decoded = header_v2_00.decode_header(encode_message(RDMA2_MSG, 1, 1, 0, 0, chunks))
        assert decoded.chunks == chunks  # type: ignore[union-attr]
