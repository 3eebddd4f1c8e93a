"""Transport properties: rows, their codecs, and their decode errors."""

from __future__ import annotations

import pytest

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.config import ReverseSupport, TransportConfig
from rpcrdma.transport.message import PropertySet
from rpcrdma.transport.properties import (
    HOST_AUTHENTICATION,
    PROPERTIES,
    Properties,
    decode_host_authentication,
    decode_properties,
    encode_host_authentication,
    encode_properties,
    properties_of,
)
from support.cases import each_case

DEFAULTS = Properties(4096, 4096, 1 << 20, 16, ReverseSupport.INLINE, None)
ALL = Properties(8192, 1024, 2048, 0, ReverseSupport.GENERAL, b"hello")
ENCODED: PropertySet = (
    (1, bytes.fromhex("00002000")),
    (2, bytes.fromhex("00000400")),
    (3, bytes.fromhex("00000800")),
    (4, bytes.fromhex("00000000")),
    (5, bytes.fromhex("00000002")),
    (6, bytes.fromhex("00000005 68656c6c 6f000000")),
)


def word(number: int) -> bytes:
    return number.to_bytes(4, "big")


@pytest.mark.req("V2-9")
def test_what_is_not_said_is_at_its_default() -> None:
    assert decode_properties((), PROPERTIES) == DEFAULTS
    assert decode_properties(tuple((number, b"") for number in PROPERTIES), PROPERTIES) == DEFAULTS


@pytest.mark.req("V2-69", "V2-70")
def test_each_property_has_its_number_and_form() -> None:
    assert encode_properties(ALL, PROPERTIES) == ENCODED
    assert decode_properties(ENCODED, PROPERTIES) == ALL
    assert decode_properties(ENCODED[::-1], PROPERTIES) == ALL


def test_without_host_authentication_it_is_left_out_and_the_rest_is_said() -> None:
    told = encode_properties(DEFAULTS, PROPERTIES)
    assert [number for number, _ in told] == [1, 2, 3, 4, 5]
    assert decode_properties(told, PROPERTIES) == DEFAULTS


@pytest.mark.req("V2-34")
@each_case("value", [b"", b"\0", word(1), bytes(100)])
def test_unknown_properties_are_passed_over(value: bytes) -> None:
    assert decode_properties(((0, value), *ENCODED, (7, value), (0xFFFFFFFF, value)), PROPERTIES) == ALL


@each_case("octets", ENCODED)
def test_a_value_may_be_longer_than_it_needs_to_be(octets: tuple[int, bytes]) -> None:
    number, value = octets
    assert decode_properties(((number, value + b"\1\2\3"),), PROPERTIES) == decode_properties((octets,), PROPERTIES)


@pytest.mark.req("V2-33")
@each_case("octets", [*ENCODED, (HOST_AUTHENTICATION, word(8) + bytes(8))])
def test_a_value_that_is_too_short_does_not_decode(octets: tuple[int, bytes]) -> None:
    number, value = octets
    for length in range(1, len(value)):
        with pytest.raises(DecodeError):
            decode_properties(((number, value[:length]),), PROPERTIES)


@pytest.mark.req("V2-32")
@each_case(
    ("number", "value", "field"),
    [
        (1, word(1023), "send_octets"),
        (2, word(1023), "receive_octets"),
        (2, word(0), "receive_octets"),
        (3, word(1023), "segment_octets_max"),
        (5, word(3), "reverse"),
        (5, word(0xFFFFFFFF), "reverse"),
        (6, word(0xFFFFFFFF), "host_authentication"),
    ],
)
def test_a_value_that_means_nothing_does_not_decode(number: int, value: bytes, field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_properties(((number, value),), PROPERTIES)
    assert caught.value.field == field


@each_case("number", [1, 6, 99])
def test_a_property_comes_once(number: int) -> None:
    with pytest.raises(DecodeError, match="twice"):
        decode_properties(((number, b""), (2, word(4096)), (number, b"")), PROPERTIES)


def test_a_side_tells_what_it_is_configured_for() -> None:
    config = TransportConfig(offered_receive_octets=8192, offered_send_octets=16384, segment_octets_max=300)
    own = properties_of(config, ReverseSupport.NONE, b"proof")
    assert own == Properties(16384, 8192, 1 << 20, limits.CHUNK_SEGMENTS_MAX, ReverseSupport.NONE, b"proof")
    assert decode_properties(encode_properties(own, PROPERTIES), PROPERTIES) == own


def test_the_smallest_introduction_is_longer_than_a_header_of_version_1() -> None:
    """A responder of that version discards shorter messages silently."""
    own = encode_properties(properties_of(TransportConfig(), ReverseSupport.NONE), PROPERTIES)
    assert 24 + sum(8 + len(value) for _, value in own) >= 28


@each_case("proof", [b"", b"1", b"four", bytes(300)])
def test_further_proofs_stand_alone(proof: bytes) -> None:
    further = encode_host_authentication(proof)
    assert [number for number, _ in further] == [HOST_AUTHENTICATION]
    assert decode_host_authentication(further, PROPERTIES) == proof
    assert decode_host_authentication((*further, (1000, b"unknown")), PROPERTIES) == proof
    with pytest.raises(DecodeError, match="nothing but host authentication"):
        decode_host_authentication((*further, (1, word(4096))), PROPERTIES)


@each_case("properties", [(), ((6, b""),), ((1000, b""),)])
def test_a_further_proof_has_to_be_there(properties: PropertySet) -> None:
    with pytest.raises(DecodeError, match="host authentication"):
        decode_host_authentication(properties, PROPERTIES)
