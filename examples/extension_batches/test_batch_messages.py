"""The body of a batch and the property, against golden vectors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from batches import (
    BATCH_MESSAGES_MAX,
    batches_extension,
    body_octets,
    decode_limit,
    encode_body,
    encode_limit,
    iterate_body,
)

from rpcrdma.errors import DecodeError
from rpcrdma.xdr import Buffer
from support.cases import each_case

VECTORS: dict[str, list[dict[str, Any]]] = tomllib.loads(Path(__file__).with_name("messages.toml").read_text())


def decoded(data: Buffer) -> list[bytes]:
    return list(iterate_body(data))


@each_case("vector", VECTORS["batch"])
def test_golden_bodies_both_ways(vector: dict[str, Any]) -> None:
    octets, messages = bytes.fromhex(vector["hex"]), [bytes.fromhex(one) for one in vector["messages"]]
    assert encode_body(messages) == encode_body([memoryview(one) for one in messages]) == octets
    for data in (octets, bytearray(octets), memoryview(octets)):
        assert decoded(data) == messages
    assert body_octets(sum((len(one) + 3) & ~3 for one in messages), len(messages)) == len(octets)
    for length in range(len(octets)):
        with pytest.raises(DecodeError):
            decoded(octets[:length])
    with pytest.raises(DecodeError, match="end of data"):
        decoded(octets + bytes(1))


@each_case("vector", VECTORS["malformed"])
def test_a_malformed_body_is_refused_with_field_and_offset(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        decoded(bytes.fromhex(vector["hex"]))
    assert (caught.value.field, caught.value.offset) == (vector["field"], vector["offset"])


def test_padding_is_not_checked_and_messages_are_copies() -> None:
    data = bytearray.fromhex("00000001 00000009 00000007 00000001 aa010203")
    (message,) = decoded(data)
    data[:] = bytes(len(data))
    assert message == bytes.fromhex("0000000700000001aa")


def test_as_many_are_taken_as_the_limit_says() -> None:
    messages = [xid.to_bytes(4) + bytes(4) for xid in range(BATCH_MESSAGES_MAX)]
    assert decoded(encode_body(messages)) == messages
    with pytest.raises(DecodeError, match=f"from 1 to {BATCH_MESSAGES_MAX}"):
        decoded(encode_body([*messages, bytes(8)]))
    assert batches_extension().properties[0].value == BATCH_MESSAGES_MAX.to_bytes(4)
    for count in (0, BATCH_MESSAGES_MAX + 1):
        with pytest.raises(ValueError, match=f"from 1 to {BATCH_MESSAGES_MAX}"):
            batches_extension(count)


def test_the_property_is_a_single_word() -> None:
    assert encode_limit(300) == b"\0\0\1\x2c"
    assert decode_limit(memoryview(b"\0\0\1\x2c")) == 300
    for length in (0, 1, 3, 5, 8):
        with pytest.raises(DecodeError):
            decode_limit(bytes(length))
