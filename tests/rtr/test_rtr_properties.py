"""The extension's transport properties, against golden vectors, each rule at its bound, each mistake by its place."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.limits import RTR_BUFFER_SEGMENTS_MAX
from rpcrdma.rtr import RoundTrip, messages, properties
from rpcrdma.rtr.properties import (
    BufferStructure,
    SegmentKind,
    Support,
    decode_buffer_structure,
    decode_support,
    decode_transmission_limit,
    encode_buffer_structure,
)
from rtr_link import tried
from rtr_vectors import VECTORS, octets_of, structure_of
from support.cases import each_case
from support.octets import words


def shown(error: Any) -> tuple[str, int, str, str]:
    assert isinstance(error, DecodeError), error
    return error.field, error.offset, error.need, error.have


MOST = RTR_BUFFER_SEGMENTS_MAX


@each_case(
    ("octets", "groups", "mistake"),
    [
        (64, [(0, 64, 0, 1)], ("xmrgrp_count", 8, "1 or more", "0")),
        (64, [(1, 64, 0, 1), (0, 64, 0, 1)], ("xmrgrp_count", 24, "1 or more", "0")),
        (64, [(1, 0, 0, 1)], ("xmrseg_length", 12, "1 octet or more", "0")),
        (64, [(1, 64, 0, 1), (1, 0, 0, 1)], ("xmrseg_length", 28, "1 octet or more", "0")),
        (64, [(1, 64, 3, 1)], ("xmrseg_align", 16, "0 or a power of two", "3")),
        (128, [(1, 64, 4, 1), (1, 64, 6, 1)], ("xmrseg_align", 32, "0 or a power of two", "6")),
        (64, [(1, 63, 0, 1)], ("xmrbuf_length", 0, "63, the sum of all segments", "64")),
        (64, [(2, 30, 0, 1), (1, 5, 0, 0)], ("xmrbuf_length", 0, "65, the sum of all segments", "64")),
        (1, [], ("xmrbuf_length", 0, "0, the sum of all segments", "1")),
        (0, [], ("xmrbuf_groups", 4, "1 or more", "0")),
        (MOST + 1, [(MOST + 1, 1, 0, 1)], ("xmrgrp_count", 8, f"at most {MOST} segments", f"{MOST + 1}")),
        (MOST + 1, [(MOST, 1, 0, 1), (1, 1, 0, 0)], ("xmrgrp_count", 24, f"at most {MOST} segments", f"{MOST + 1}")),
    ],
)
def test_a_mistake_in_a_structure_is_named(
    octets: int, groups: list[tuple[int, int, int, int]], mistake: tuple[str, int, str, str]
) -> None:
    listed = [word for group in groups for word in group]
    assert shown(tried(decode_buffer_structure, words(octets, len(groups), *listed))) == mistake
    made = tuple((count, SegmentKind(length, align, bool(flags & 1))) for count, length, align, flags in groups)
    error = tried(BufferStructure, octets, made)
    assert isinstance(error, LocalProtocolError), error
    field, _, need, have = mistake
    assert str(error) == f"receive buffer structure, {field}: need {need}, have {have}"


def test_as_many_groups_as_segments_are_read() -> None:
    data = words(MOST, MOST, *(1, 1, 0, 1) * MOST)
    assert len(tried(decode_buffer_structure, data).groups) == MOST
    for count in (MOST + 1, 0xFFFFFFFF):
        error = tried(decode_buffer_structure, words(MOST, count) + bytes(16 * (MOST + 1)))
        assert shown(error) == ("xmrbuf_groups", 4, f"at most {MOST}", str(count))


@pytest.mark.req("RT-5", "RT-10")
def test_segments_start_one_behind_another_and_those_for_data_are_numbered() -> None:
    groups = (
        (1, SegmentKind(100, 0, placeable=False)), (2, SegmentKind(1000, 8, placeable=True)),
        (2, SegmentKind(50, 0, placeable=False)), (1, SegmentKind(300, 0, placeable=True)),
    )  # fmt: skip
    structure = BufferStructure(2500, groups)
    assert structure.segments == (
        (0, 100, False), (100, 1000, True), (1100, 1000, True), (2100, 50, False), (2150, 50, False), (2200, 300, True)
    )  # fmt: skip
    assert structure.placeable == ((100, 1000), (1100, 1000), (2200, 300))
    assert structure.segments is structure.segments
    assert structure.placeable is structure.placeable
    assert len({structure, BufferStructure(2500, groups)}) == 1
    assert str(structure) == "1 of 100, 2 of 1000 for data, 2 of 50, 1 of 300 for data"
    plain = BufferStructure.plain(4096)
    assert plain == BufferStructure(4096, ((1, SegmentKind(4096, 0, placeable=False)),))
    assert (plain.segments, plain.placeable) == (((0, 4096, False),), ())


@each_case(("decode", "field"), [(decode_support, "rtr_support"), (decode_transmission_limit, "transmission limit")])
def test_a_property_of_one_word_has_four_octets(decode: Any, field: str) -> None:
    for length in range(4):
        assert shown(tried(decode, bytes(length)))[:2] == (field, 0)
    for length in range(5, 9):
        assert shown(tried(decode, bytes(length)))[:2] == (field, 4)
    assert tried(decode, b"\0\0\0\7") == 7
    assert tried(decode_transmission_limit, b"\xff\xff\xff\xff") == 0xFFFFFFFF
    assert tried(decode_support, b"\xff\xff\xff\xff") == 7


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


def test_code_points_are_beyond_those_of_the_protocol() -> None:
    """They cannot change: peers of another release have the same."""
    types = (messages.XMTREQ, messages.XMTRESP, messages.XMTCONT, messages.REPTERR)
    numbers = (properties.RTR_SUPPORT, properties.RECEIVE_STRUCTURE)
    numbers += (properties.REQUEST_RECEIVE_LIMIT, properties.RESPONSE_SEND_LIMIT)
    assert types == numbers == (0x101, 0x102, 0x103, 0x104)
    assert {bit.name: int(bit) for bit in Support} == {"REQUEST": 1, "RESPONSE": 2, "CONTINUE": 4}
