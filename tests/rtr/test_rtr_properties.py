"""The extension's transport properties, against the golden vectors."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.errors import DecodeError
from rpcrdma.rtr import RoundTrip, messages, properties
from rpcrdma.rtr.properties import (
    REQUEST_RECEIVE_LIMIT_DEFAULT,
    RESPONSE_SEND_LIMIT_DEFAULT,
    SUPPORT_DEFAULT,
    SegmentKind,
    Support,
    decode_buffer_structure,
    decode_support,
    decode_transmission_limit,
    encode_buffer_structure,
    encode_support,
    encode_transmission_limit,
)
from rtr_vectors import VECTORS, octets_of, structure_of
from support.cases import each_case


@each_case("vector", VECTORS["structure"])
def test_golden_structures_both_ways(vector: dict[str, Any]) -> None:
    octets, structure = octets_of(vector), structure_of(vector)
    assert encode_buffer_structure(structure) == octets
    for data in (octets, bytearray(octets), memoryview(octets)):
        assert decode_buffer_structure(data) == structure
    for length in range(len(octets)):
        with pytest.raises(DecodeError):
            decode_buffer_structure(octets[:length])
    with pytest.raises(DecodeError, match="end of data"):
        decode_buffer_structure(octets + bytes(1))


@pytest.mark.req("RT-4")
@each_case("vector", VECTORS["support"])
def test_golden_support_of_ends_with_and_without_calls(vector: dict[str, Any]) -> None:
    extension = RoundTrip().extension
    if not vector["takes_calls"]:
        assert extension.without_calls is not None
        extension = extension.without_calls
    values = {row.number: row.value for row in extension.properties}
    assert values[properties.RTR_SUPPORT] == octets_of(vector)


@each_case("vector", VECTORS["malformed_structure"])
def test_nonsense_is_named_with_its_offset(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_buffer_structure(octets_of(vector))
    assert (caught.value.field, caught.value.offset) == (vector["field"], vector["offset"])


def test_flags_that_mean_nothing_are_passed_over() -> None:
    for flags, placeable in ((0xFFFFFFFE, False), (0xFFFFFFFF, True), (2, False), (3, True)):
        octets = b"".join(word.to_bytes(4) for word in (64, 1, 1, 64, 0, flags))
        assert decode_buffer_structure(octets).groups == ((1, SegmentKind(64, 0, placeable)),)


def test_each_alignment_is_none_or_a_power_of_two() -> None:
    taken = []
    for align in (*range(10), 4096, 4097, 1 << 31, (1 << 32) - 1):
        try:
            decode_buffer_structure(b"".join(word.to_bytes(4) for word in (64, 1, 1, 64, align, 1)))
        except DecodeError:
            continue
        taken.append(align)
    assert taken == [0, 1, 2, 4, 8, 4096, 1 << 31]


def test_support_and_limits_are_single_words() -> None:
    assert encode_support(Support.REQUEST | Support.CONTINUE) == b"\0\0\0\5"
    assert decode_support(b"\0\0\0\5") == Support.REQUEST | Support.CONTINUE
    assert decode_support(b"\xff\xff\xff\xfa") is Support.RESPONSE
    assert decode_support(memoryview(bytes(4))) == SUPPORT_DEFAULT == 0
    assert REQUEST_RECEIVE_LIMIT_DEFAULT == RESPONSE_SEND_LIMIT_DEFAULT == 1
    assert encode_transmission_limit(300) == b"\0\0\1\x2c"
    assert decode_transmission_limit(b"\0\0\1\x2c") == 300


def test_code_points_are_beyond_those_of_the_protocol() -> None:
    """They cannot change: peers of another release have the same."""
    types = (messages.XMTREQ, messages.XMTRESP, messages.XMTCONT, messages.REPTERR)
    numbers = (properties.RTR_SUPPORT, properties.RECEIVE_STRUCTURE)
    numbers += (properties.REQUEST_RECEIVE_LIMIT, properties.RESPONSE_SEND_LIMIT)
    assert types == numbers == (0x101, 0x102, 0x103, 0x104)
    assert {bit.name: int(bit) for bit in Support} == {"REQUEST": 1, "RESPONSE": 2, "CONTINUE": 4}
