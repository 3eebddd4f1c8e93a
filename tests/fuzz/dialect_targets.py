"""Fuzz targets: the headers of later versions, and the events that their dialects make of sequences of messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from decoder_targets import FuzzTarget, golden, vectors
from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.dialects import header_v2
from rpcrdma.transport.dialects.header_parts import (
    decode_property_set,
    decode_version_refused,
    encode_property_set,
    encode_version_refused,
)
from rpcrdma.transport.dialects.v2 import Version2
from rpcrdma.transport.message import Cause, Inbound, Kind
from rpcrdma.transport.properties import (
    PROPERTIES,
    decode_host_authentication,
    decode_properties,
    encode_host_authentication,
    encode_properties,
)

__all__ = ["DIALECTS"]


def headers(data: bytes) -> None:
    """A decoded message survives the way back; only one with a payload may be longer than its header."""
    try:
        header = header_v2.decode_header(data)
    except DecodeError:
        return
    encoded = header_v2.encode_header(header)
    assert header_v2.encode_header(header_v2.decode_header(encoded)) == encoded
    if isinstance(header, header_v2.Rdma2Msg):
        assert len(encoded) <= len(data)
    else:
        assert len(encoded) == len(data)


def connections(data: bytes) -> None:
    """A connection: messages, each after two octets of its length, to one dialect object."""
    dialect = Version2()
    for number, octets in enumerate(_split(data)):
        alone = Version2().decode(octets)
        assert Version2()._decode_other(octets) == alone
        found = dialect.decode(octets) if number else dialect.decode_answer(octets)
        if found is not None:
            _check(found)


def _split(data: bytes) -> Iterator[bytes]:
    start = 0
    while start + 2 <= len(data):
        length = int.from_bytes(data[start : start + 2], "big")
        yield data[start + 2 : start + 2 + length]
        start += 2 + length


def _check(found: Inbound) -> None:
    """The properties on which the machines above rely."""
    assert 0 <= found.start <= len(found.data)
    assert len(found.data) <= limits.CONTINUED_OCTETS_MAX
    assert (found.refusal is not None) == (found.kind in {Kind.UNREADABLE, Kind.ERROR})
    assert not (found.properties and found.kind is not Kind.PROPERTIES)
    if found.kind in {Kind.CALL, Kind.REPLY}:
        assert found.version == 2
        if not found.long:
            assert struct.unpack_from(">II", found.data, found.start) == (found.xid, found.kind)
    if found.kind is Kind.CALL:
        assert found.long == any(chunk.position == 0 for chunk in found.chunks.reads)
        assert found.ends is None or found.chunks.names(found.ends)
        assert sum(len(chunk.segments) for chunk in found.chunks.chunks) <= limits.CHUNK_SEGMENTS_MAX
    elif found.kind is Kind.GRANT:
        assert found.xid == 0
    elif found.kind is Kind.ERROR:
        assert found.refusal is not None
        assert found.refusal.cause is not Cause.VERSION or found.refusal.low <= 0xFFFFFFFF


def property_sets(data: bytes) -> None:
    try:
        properties = decode_property_set(data)
    except DecodeError:
        return
    assert len(properties) <= limits.PROPERTIES_MAX
    assert encode_property_set(properties) == data
    try:
        told = decode_properties(properties, PROPERTIES)
    except DecodeError:
        return
    assert min(told.send_octets, told.receive_octets, told.segment_octets_max) >= 1024
    assert decode_properties(encode_properties(told, PROPERTIES), PROPERTIES) == told
    try:
        proof = decode_host_authentication(properties, PROPERTIES)
    except DecodeError:
        return
    assert decode_host_authentication(encode_host_authentication(proof), PROPERTIES) == proof


def version_refusal(data: bytes) -> None:
    refusal = decode_version_refused(data)
    if refusal is not None:
        assert 1 <= refusal.low <= refusal.high
        assert encode_version_refused(refusal) == data


def _connections(path: str) -> list[bytes]:
    """Each golden message by itself, then many on one connection, each with the start of an RPC message after it."""
    messages = [octets + octets[:4] + bytes(8) for octets in golden(path, "header", "malformed")]
    framed = [len(octets).to_bytes(2, "big") + octets for octets in messages]
    return [*framed, b"".join(framed[: len(framed) // 2]), b"".join(framed[len(framed) // 2 :])]


def _property_seeds(path: str) -> list[bytes]:
    return [bytes.fromhex(case["hex"]) for table in ("set", "malformed_set") for case in vectors(path)[table]]


DIALECTS = [
    FuzzTarget(
        "transport_version_refused", version_refusal, [bytes.fromhex("00000007 00000002 00000009 00000004") * 2]
    ),
    FuzzTarget("transport_properties", property_sets, _property_seeds("transport/headers_v2.toml")),
    FuzzTarget(
        "transport_header_v2",
        headers,
        golden("transport/headers_v2.toml", "header", "malformed"),
    ),
    FuzzTarget("transport_dialect_v2", connections, _connections("transport/headers_v2.toml")),
]
"""The targets, named after what they decode."""
