"""Annotated headers and the codecs of the transport, which share nothing, come to the same verdict and values."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.errors import DecodeError, RpcError
from rpcrdma.rpc.message import decode_call, decode_reply
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import header_v1, header_v2
from rpcrdma.transport.dialects.header_parts import decode_property_set
from rpcrdma.xdr.codec import Decoder
from rpcrdma_lab.dissect.definitions import definition
from rpcrdma_lab.dissect.fields import Field, FieldFault
from rpcrdma_lab.dissect.headers import Header, MemorySegment, header_versions, walk_header
from rpcrdma_lab.dissect.rpc_body import Interfaces
from rpcrdma_lab.dissect.rpc_header import RpcHeader, walk_rpc_header
from rpcrdma_lab.dissect.xdr_walk import Walk
from support.cases import each_case

VECTORS = Path(__file__).parents[3] / "tests" / "vectors"
VERSIONS = header_versions()
MODULES = {"1": header_v1, "2": header_v2}
FILES = {"1": "headers.toml", "2": "headers_v2.toml"}


def vectors(file: str, *tables: str) -> list[bytes]:
    read = tomllib.loads((VECTORS / file).read_text())
    return [bytes.fromhex(case["hex"]) for table in tables for case in read[table]]


HEADERS = {version: vectors(f"transport/{file}", "header", "malformed") for version, file in FILES.items()}


def segments(chunk: ReadChunk | WriteChunk | None) -> list[MemorySegment]:
    return [MemorySegment(*segment) for segment in chunk.segments] if chunk is not None else []


def compare(version: str, octets: bytes) -> None:
    """Fails unless both understand the octets alike."""
    found = walk_header(VERSIONS[version], octets)
    module: ModuleType = MODULES[version]
    try:
        decoded = module.decode_header(octets)
    except DecodeError as error:
        bound_of_ours = error.need.startswith("at most")
        assert found.faults or bound_of_ours, octets.hex()
        return
    if isinstance(decoded, header_v2.Rdma2ConnProp):
        whole = not decoded.flags & header_v2.MORE
        compare_properties(found, decoded.octets if whole else None)
        return
    assert not found.faults, decoded
    compare_values(found, decoded)


def compare_properties(found: Header, octets: bytes | None) -> None:
    """`octets` are a whole property set; a part of one is not looked into."""
    if octets is None:
        assert not found.faults
        return
    try:
        properties = decode_property_set(octets)
    except DecodeError as error:
        bound_of_ours = error.need.startswith("at most")
        assert found.faults or bound_of_ours, octets.hex()
        return
    assert not found.faults
    listed = found.find("rdma_props")
    assert listed is not None
    told = [(entry.number("rdma_which"), entry.member("rdma_data").value) for entry in listed.fields]  # type: ignore[union-attr]
    assert told == list(properties)


def compare_values(found: Header, decoded: Any) -> None:
    assert found.xid == decoded.xid
    assert found.number("rdma_credit") == decoded.credits
    chunks = getattr(decoded, "chunks", NO_CHUNKS)
    positions = sorted({position for position, _ in found.reads})
    assert positions == sorted(chunk.position for chunk in chunks.reads)
    for chunk in chunks.reads:
        assert [segment for position, segment in found.reads if position == chunk.position] == segments(chunk)
    assert found.writes == [segments(chunk) for chunk in chunks.writes]
    assert (found.reply or []) == segments(chunks.reply)
    assert (found.reply is None) == (chunks.reply is None)
    if hasattr(decoded, "size"):
        assert found.size == decoded.size
    if hasattr(decoded, "flags"):
        assert found.number("rdma_flags") == decoded.flags
    if hasattr(decoded, "remaining"):
        assert found.number("rdma_remaining") == decoded.remaining
    if hasattr(decoded, "inv_handle"):
        assert found.number("rdma_inv_handle") == decoded.inv_handle


def check_layout(group: Field, octets: bytes) -> None:
    """Fields lie in the octets, in order and without overlap; numbers equal their octets."""
    end = group.offset
    for one in group.fields:
        assert one.offset >= end, one
        end = one.offset + one.size
        assert end <= len(octets)
        if isinstance(one.value, int) and one.size in {4, 8} and not one.fields:
            assert one.value == int.from_bytes(octets[one.offset : end])
        check_layout(one, octets)


@pytest.mark.parametrize("version", ["1", "2"])
def test_vectors_whole_cut_off_and_with_more_behind(version: str) -> None:
    for octets in HEADERS[version]:
        for length in range(len(octets) + 1):
            compare(version, octets[:length])
            check_layout(walk_header(VERSIONS[version], octets[:length]).group, octets[:length])
        compare(version, octets + bytes(4))


@pytest.mark.thorough
@each_case("version", HEADERS)
def test_vectors_with_each_word_changed(version: str) -> None:
    for octets in HEADERS[version]:
        for at in range(0, len(octets), 4):
            for word in (0, 1, 2, 3, 5, 77, 0x7FFFFFFF, 0xFFFFFFFF):
                compare(version, octets[:at] + word.to_bytes(4) + octets[at + 4 :])


WORDS = st.sampled_from([0, 1, 2, 4, 5, 28, 0xFFFFFFFF]) | st.integers(0, 0xFFFFFFFF)
SEGMENTS = st.builds(Segment, WORDS, WORDS, st.integers(0, (1 << 64) - 1))
CHUNKS = st.builds(
    ChunkLists,
    st.lists(
        st.builds(
            ReadChunk, st.integers(0, 99).map(lambda n: 4 * n), st.lists(SEGMENTS, min_size=1, max_size=3).map(tuple)
        ),
        max_size=3,
        unique_by=lambda chunk: chunk.position,
    ).map(tuple),
    st.lists(st.builds(WriteChunk, st.lists(SEGMENTS, max_size=3).map(tuple)), max_size=3).map(tuple),
    st.none() | st.builds(WriteChunk, st.lists(SEGMENTS, max_size=3).map(tuple)),
)
Encode = Callable[[int, int, ChunkLists], bytes]


ENCODERS: list[tuple[str, Encode]] = [
    ("1", lambda xid, credit, chunks: header_v1.encode_message(0, xid, credit, chunks)),
    ("1", lambda xid, credit, chunks: header_v1.encode_message(1, xid, credit, chunks)),
    ("2", lambda xid, credit, chunks: header_v2.encode_message(0, xid, credit, credit & 3, xid, chunks)),
    ("2", lambda xid, credit, chunks: header_v2.encode_message(1, xid, credit, credit & 3, xid, chunks)),
]


@given(st.sampled_from(ENCODERS), WORDS, WORDS, CHUNKS, st.lists(st.tuples(st.integers(0, 40), WORDS), max_size=3))
def test_headers_of_any_content_whole_and_changed(
    encoder: tuple[str, Encode], xid: int, credit: int, chunks: ChunkLists, changes: list[tuple[int, int]]
) -> None:
    version, encode = encoder
    octets = bytearray(encode(xid, credit, chunks))
    compare(version, bytes(octets))
    for place, word in changes:
        at = place * 4 % len(octets)
        octets[at : at + 4] = word.to_bytes(4)
    compare(version, bytes(octets))
    check_layout(walk_header(VERSIONS[version], bytes(octets)).group, bytes(octets))


@given(st.sampled_from(["1", "2"]), st.lists(st.integers(0, 13) | WORDS, max_size=30), st.binary(max_size=3))
def test_any_words_are_read_or_have_a_fault(version: str, words: list[int], rest: bytes) -> None:
    octets = b"".join(word.to_bytes(4) for word in words) + rest
    if version in MODULES:
        compare(version, octets)
    check_layout(walk_header(VERSIONS[version], octets).group, octets)


@each_case("octets", vectors("transport/headers_v2.toml", "set", "malformed_set"))
def test_property_sets(octets: bytes) -> None:
    for length in range(len(octets) + 1):
        compare("2", header_v2.PREFIX.pack(1, 2, 1, 5, 0) + octets[:length])


@each_case("octets", vectors("rpc/headers.toml", "call", "reply"))
def test_rpc_headers(octets: bytes) -> None:
    for length in range(len(octets) + 1):
        compare_rpc(octets[:length])
    for at in range(0, len(octets), 4):
        for word in (0, 1, 2, 7, 400, 401, 0xFFFFFFFF):
            compare_rpc(octets[:at] + word.to_bytes(4) + octets[at + 4 :])


def compare_rpc(octets: bytes) -> None:
    found = walk_rpc_header(octets, Interfaces())
    decoder = Decoder(octets)
    try:
        if octets[4:8] == bytes(4):
            decoded = decode_call(decoder)
            assert (found.is_call, found.xid) == (True, decoded.xid)
        else:
            decode_reply(decoder, int.from_bytes(octets[:4]))
            assert found.is_call is False
    except RpcError:
        assert unforgiven(found) == []
        return
    except DecodeError as error:
        # The octets behind a refusal are no part of its header.
        understood = not found.faults and error.need != "end of data"
        assert not understood, octets.hex()
        return
    assert unforgiven(found) == []
    check_layout(found.group, octets)
    if not found.faults:
        assert found.size == decoder.pos


def unforgiven(found: RpcHeader) -> list[FieldFault]:
    """Requesters do not look at the padding of a reply's verifier."""
    return [fault for fault in found.faults if fault.reason != "the padding is not zero"]


def test_a_message_of_too_many_fields_stops() -> None:
    walk = Walk(definition("rpcrdma1"), (99_999).to_bytes(4) + bytes(16 * 99_999))
    walk.structure("write_chunk")
    assert [fault.reason for fault in walk.faults] == ["more than 20000 fields"]
