"""Annotated messages of the round-trip extension and its codecs, which share nothing, come to the same values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.errors import DecodeError
from rpcrdma.rtr.messages import DirectionSet, Explicit, InSegments, Item, NotPlaced, Report, ResultDirection, Way
from rpcrdma_lab.dissect.headers import header_versions, walk_header
from rtr_vectors import DECODERS, HEADER_TYPES, MESSAGES, VECTORS, octets_of
from support.cases import each_case

VERSION = header_versions()["2"]
PREFIX_OCTETS = 20
CASES = [
    (kind, octets_of(vector))
    for table in (*MESSAGES, "malformed")
    for vector in VECTORS[table]
    for kind in [vector.get("type", table)]
]


def numbers_of(value: Any) -> list[int]:
    """All numbers of a value as they stand in its octets, without the counts of arrays."""
    match value:
        case int():
            return [int(value)]
        case NotPlaced():
            return [value.value]
        case Explicit():
            return [1, *listed(value)]
        case InSegments():
            return [2, *listed(value)]
        case ResultDirection(least, way, segments, explicit_from):
            bound = [explicit_from] * (way is Way.BY_SIZE)
            return [least, int(way), *bound, *listed(segments)]
        case Report(bad, lead, code, words):
            return [*bad, *(lead or ()), int(code), *words]
        case DirectionSet() | Item() | tuple():
            return listed(value)
    raise AssertionError(value)


def listed(values: Any) -> list[int]:
    return [number for value in values for number in numbers_of(value)]


def compare(kind: str, body: bytes) -> None:
    """Fails unless both understand the octets alike."""
    octets = b"".join(word.to_bytes(4) for word in (7, 2, 0x00200001, HEADER_TYPES[kind], 0)) + body
    found = walk_header(VERSION, octets)
    try:
        value, end = DECODERS[kind](octets, PREFIX_OCTETS)
    except DecodeError as error:
        bound_of_ours = error.need.startswith("at most")
        assert found.faults or bound_of_ours, body.hex()
        return
    assert not found.faults, value
    assert found.size == end
    fields = [one for field in found.group.fields if field.offset >= PREFIX_OCTETS for one in field.walk()]
    assert [one.value for one in fields if isinstance(one.value, int)] == numbers_of(value)
    for one in fields:
        if isinstance(one.value, int):
            assert int.from_bytes(octets[one.offset : one.offset + one.size]) == one.value


@each_case(("kind", "body"), CASES)
def test_vectors_whole_cut_off_and_with_more_behind(kind: str, body: bytes) -> None:
    for length in range(len(body) + 1):
        compare(kind, body[:length])
    compare(kind, body + b"payload.")


@pytest.mark.thorough
@each_case(("kind", "body"), CASES)
def test_vectors_with_each_word_changed(kind: str, body: bytes) -> None:
    for at in range(0, len(body), 4):
        for word in (*range(8), 77, 0x7FFFFFFF, 0xFFFFFFFF):
            compare(kind, body[:at] + word.to_bytes(4) + body[at + 4 :])


@given(
    st.sampled_from(MESSAGES),
    st.lists(st.integers(0, 6) | st.integers(0, 0xFFFFFFFF), max_size=30),
    st.binary(max_size=3),
)
def test_any_words_are_read_alike(kind: str, words: list[int], rest: bytes) -> None:
    compare(kind, b"".join(word.to_bytes(4) for word in words) + rest)
