"""The body of a message of several RPC messages, and its property, against the golden vectors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.batches import batches_extension, code_points
from rpcrdma.batches.messages import (
    batch_octets,
    decode_batch,
    decode_batch_limit,
    encode_batch,
    encode_batch_limit,
)
from rpcrdma.errors import DecodeError
from rpcrdma.limits import BATCH_MESSAGES_MAX

VECTORS: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parents[2] / "vectors" / "batches" / "messages.toml").read_text()
)


@pytest.mark.parametrize("vector", VECTORS["batch"], ids=lambda vector: vector["name"])
def test_golden_bodies_both_ways(vector: dict[str, Any]) -> None:
    octets, messages = bytes.fromhex(vector["hex"]), [bytes.fromhex(one) for one in vector["messages"]]
    assert encode_batch(messages) == encode_batch([memoryview(one) for one in messages]) == octets
    for data in (octets, bytearray(octets), memoryview(octets)):
        assert decode_batch(data) == messages
    assert batch_octets(sum((len(one) + 3) & ~3 for one in messages), len(messages)) == len(octets)
    for length in range(len(octets)):
        with pytest.raises(DecodeError):
            decode_batch(octets[:length])
    with pytest.raises(DecodeError, match="end of data"):
        decode_batch(octets + bytes(1))


@pytest.mark.parametrize("vector", VECTORS["malformed"], ids=lambda vector: vector["name"])
def test_nonsense_is_named_with_its_offset(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_batch(bytes.fromhex(vector["hex"]))
    assert (caught.value.field, caught.value.offset) == (vector["field"], vector["offset"])


def test_padding_is_not_looked_at_and_messages_do_not_keep_the_others() -> None:
    data = bytearray.fromhex("00000001 00000009 00000007 00000001 aa010203")
    (message,) = decode_batch(data)
    data[:] = bytes(len(data))
    assert message == bytes.fromhex("0000000700000001aa")


def test_as_many_are_taken_as_the_limit_says() -> None:
    messages = [xid.to_bytes(4) + bytes(4) for xid in range(BATCH_MESSAGES_MAX)]
    assert decode_batch(encode_batch(messages)) == messages
    with pytest.raises(DecodeError, match=f"from 1 to {BATCH_MESSAGES_MAX}"):
        decode_batch(encode_batch([*messages, bytes(8)]))
    assert batches_extension().properties[0].value == BATCH_MESSAGES_MAX.to_bytes(4)
    for count in (0, BATCH_MESSAGES_MAX + 1):
        with pytest.raises(ValueError, match=f"from 1 to {BATCH_MESSAGES_MAX}"):
            batches_extension(count)


def test_the_property_is_a_single_word() -> None:
    assert encode_batch_limit(300) == b"\0\0\1\x2c"
    assert decode_batch_limit(memoryview(b"\0\0\1\x2c")) == 300
    for length in (0, 1, 3, 5, 8):
        with pytest.raises(DecodeError):
            decode_batch_limit(bytes(length))


def test_code_points_are_beyond_those_of_the_protocol_and_of_the_other_extension() -> None:
    """They cannot change: peers of another release have the same."""
    numbers = {name: value for name, value in vars(code_points).items() if name.isupper()}
    assert numbers == {"BATCH": 0x105, "BATCH_LIMIT": 0x105}
