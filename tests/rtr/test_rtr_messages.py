"""Messages against the golden vectors; those of every shape against the words that the XDR definitions make of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rpcrdma.errors import DecodeError
from rpcrdma.rtr.messages import (
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    Location,
    NotPlaced,
    ResultDirection,
    TransmitRequest,
    TransmitResponse,
    Way,
    decode_report,
    decode_transmit_continue,
    decode_transmit_request,
    decode_transmit_response,
    encode_transmit_request,
    encode_transmit_response,
)
from rpcrdma.transport import Segment
from rtr_link import tried
from rtr_vectors import DECODERS, ENCODERS, MESSAGES, VECTORS, octets_of, value_of
from support.cases import each_case
from support.octets import words


def cut_off(decode: Callable[..., Any], octets: bytes) -> None:
    for length in range(0, len(octets), 4):
        for more in (0, 3):
            data = bytes(20) + octets[: length + more]
            found = tried(decode, data, 20)
            assert isinstance(found, DecodeError), f"{length} of {len(octets)} octets"
            assert 20 <= found.offset <= len(data)


def locations() -> Iterator[tuple[Location, list[int]]]:
    for count in (0, 1, 2, 14, 15, 16, 17, 18):
        numbers = range(5, 5 + count)
        yield InSegments(9, tuple(numbers)), [2, 9, count, *numbers]
    for count in range(4):
        yield Explicit(segments(count)), [1, *segment_words(count)]


def results() -> Iterator[tuple[Location, list[int]]]:
    yield from locations()
    yield NotPlaced.TOO_SHORT, [5]
    yield NotPlaced.NO_ITEM, [6]


def segments(count: int) -> tuple[Segment, ...]:
    return tuple(Segment(0x10 + index, 0x20 + index, (0x30 << 32) + index) for index in range(count))


def segment_words(count: int) -> list[int]:
    return [count, *itertools.chain(*([0x10 + index, 0x20 + index, 0x30, index] for index in range(count)))]


def lists_of(entries: list[Any]) -> Iterator[list[Any]]:
    """None, each alone, and each beside each."""
    yield []
    yield from ([entry] for entry in entries)
    yield from (list(pair) for pair in itertools.product(entries, entries))


def directions() -> Iterator[tuple[ResultDirection, list[int]]]:
    for count in range(3):
        yield ResultDirection(7, Way.EXPLICIT, segments(count)), [7, 1, *segment_words(count)]
        yield ResultDirection(7, Way.CHOICE, segments(count)), [7, 3, *segment_words(count)]
        yield ResultDirection(7, Way.BY_SIZE, segments(count), 77), [7, 4, 77, *segment_words(count)]
    yield ResultDirection(7, Way.SEGMENTS), [7, 2]


def both_ways(encode: Callable[[Any], bytes], decode: Callable[..., Any], value: Any, octets: bytes) -> None:
    """A value is these octets, wherever these stand; cut off anywhere they are none."""
    assert tried(encode, value) == octets
    for before, after in ((0, 0), (20, 0), (3, 1), (16, 100)):
        data = b"\xee" * before + octets + b"\xff" * after
        assert tried(decode, data, before) == (value, before + len(octets))


def test_requests_with_directions_of_every_shape() -> None:
    item = Item(8, 9, InSegments(0, (1,)))
    for entries in lists_of(list(directions())):
        made = tuple(direction for direction, _ in entries)
        listed = [word for _, more in entries for word in more]
        for items, first in (((), [0]), ((item,), [1, 8, 9, 2, 0, 1, 1])):
            one_set = TransmitRequest(items, (DirectionSet(4, 5, made),), 3, 2, 1)
            octets = words(*first, 1, 4, 5, len(made), *listed, 3, 2, 1)
            both_ways(encode_transmit_request, decode_transmit_request, one_set, octets)
        two_sets = TransmitRequest((), (DirectionSet(4, 5, made), DirectionSet(6, 7, made)), 3, 2, 1)
        octets = words(0, 2, *(4, 5, len(made), *listed), *(6, 7, len(made), *listed), 3, 2, 1)
        both_ways(encode_transmit_request, decode_transmit_request, two_sets, octets)
        each_alone = TransmitRequest((), tuple(DirectionSet(4, 5, (each,)) for each in made), 3, 2, 1)
        listed = [word for _, more in entries for word in (4, 5, 1, *more)]
        octets = words(0, len(made), *listed, 3, 2, 1)
        both_ways(encode_transmit_request, decode_transmit_request, each_alone, octets)


def test_messages_that_are_cut_off_are_none() -> None:
    for where, _ in locations():
        items = (Item(4, 5, where),)
        cut_off(decode_transmit_request, encode_transmit_request(TransmitRequest(items, (), 3, 2, 1)))
    for where, _ in results():
        items = (Item(4, 5, where),)
        cut_off(decode_transmit_response, encode_transmit_response(TransmitResponse(items * 2, 3, 1)))
        cut_off(decode_transmit_response, encode_transmit_response(TransmitResponse(items, 3, 1)))
    for direction, _ in directions():
        one_set = DirectionSet(4, 5, (direction,))
        cut_off(decode_transmit_request, encode_transmit_request(TransmitRequest((), (one_set,), 3, 2, 1)))
        cut_off(decode_transmit_request, encode_transmit_request(TransmitRequest((), (one_set,) * 2, 3, 2, 1)))
    cut_off(decode_transmit_request, words(0, 0, 3, 2, 1))
    cut_off(decode_transmit_response, words(0, 3, 1))
    cut_off(decode_transmit_continue, words(3, 2, 1))


def shown(error: Any) -> tuple[str, int, str, str]:
    assert isinstance(error, DecodeError), error
    return error.field, error.offset, error.need, error.have


@each_case("start", [0, 20])
def test_a_message_that_is_too_short_says_how_much_is_there(start: int) -> None:
    for decode, name, need in (
        (decode_transmit_request, "Transmit Request", 20),
        (decode_transmit_response, "Transmit Response", 12),
        (decode_transmit_continue, "Transmit Continue", 12),
    ):
        for length in range(need):
            found = tried(decode, bytes(start + length), start)
            assert shown(found) == (name, start, f"{need} octets", str(length))
        beyond = tried(decode, bytes(5), 8)
        assert shown(beyond) == (name, 8, f"{need} octets", "0")
    item = words(1, 8, 9, 2, 0, 2, 1, 2)
    for length in range(12):
        data = bytes(start) + item + words(0) + bytes(length)
        found = tried(decode_transmit_request, data, start)
        assert shown(found) == ("optxrq_count", start + 36, "12 octets", str(length))
    for length in range(8):
        data = bytes(start) + item + bytes(length)
        found = tried(decode_transmit_response, data, start)
        assert shown(found) == ("optxrs_count", start + 32, "8 octets", str(length))


ITEM = [8, 9, 2, 0, 0]


@each_case(
    ("message", "field", "at", "need", "have"),
    [
        # The numbers are words; `at` counts them.
        ([17], "items", 0, "at most 16", "17"),
        ([2, *ITEM, 8, 9, 0], "xmdmi_where", 8, "1 or 2", "0"),
        ([2, *ITEM, 8, 9, 5], "xmdmi_where", 8, "1 or 2", "5"),
        ([1, 8, 9, 3], "xmdmi_where", 3, "1 or 2", "3"),
        ([1, 8, 9, 2, 0, 1025], "xmdl_bsnum", 5, "at most 1024", "1025"),
        ([1, 8, 9, 1, 273], "xmdl_ex", 4, "at most 272", "273"),
        ([0, 17], "sets of directions", 1, "at most 16", "17"),
        ([0, 1, 4, 5, 17], "directions", 4, "at most 16", "17"),
        ([0, 2, 4, 5, 2, 7, 2, 7, 2, 6, 7, 15], "directions", 11, "at most 14", "15"),
        ([0, 1, 4, 5, 1, 7, 0], "xmdrsdi_loc", 6, "1 to 4", "0"),
        ([0, 1, 4, 5, 1, 7, 5], "xmdrsdi_loc", 6, "1 to 4", "5"),
        ([0, 1, 4, 5, 1, 7, 5, 1], "xmdrsdi_loc", 6, "1 to 4", "5"),
        ([0, 1, 4, 5, 2, 7, 2, 7, 6], "xmdrsdi_loc", 8, "1 to 4", "6"),
        ([0, 1, 4, 5, 1, 7, 1, 273], "xmdrsdl_ex", 7, "at most 272", "273"),
        ([0, 1, 4, 5, 1, 7, 4, 77, 273], "xmdrsdl_ex", 8, "at most 272", "273"),
    ],
)
def test_a_request_against_the_rules_is_named(message: list[int], field: str, at: int, need: str, have: str) -> None:
    for start in (0, 20):
        data = bytes(start) + words(*message) + bytes(400)
        found = tried(decode_transmit_request, data, start)
        assert shown(found) == (field, start + 4 * at, need, have)


@each_case(
    ("message", "field", "at", "need", "have"),
    [
        ([9, 2, 0, 0, 3], "optre_bad", 1, "0 or 1 as xmsi_dir", "2"),
        ([9, 0, 0, 2, 3], "optre_lead", 3, "0 or 1", "2"),
        ([9, 0, 0, 1, 9, 2, 0, 3], "optre_lead", 5, "0 or 1 as xmsi_dir", "2"),
        ([9, 0, 0, 0, 0], "optre_which", 4, "1 to 8", "0"),
        ([9, 0, 0, 0, 9], "optre_which", 4, "1 to 8", "9"),
        ([9, 0, 0, 1, 9, 1, 0, 9], "optre_which", 7, "1 to 8", "9"),
    ],
)
def test_a_report_against_the_rules_is_named(message: list[int], field: str, at: int, need: str, have: str) -> None:
    for start in (0, 20):
        found = tried(decode_report, bytes(start) + words(*message), start)
        assert shown(found) == (field, start + 4 * at, need, have)


CASES = [(kind, vector) for kind in MESSAGES for vector in VECTORS[kind]]


@pytest.mark.req("RT-12")
@each_case(("kind", "vector"), CASES)
def test_golden_messages_both_ways_and_cut_off_anywhere(kind: str, vector: dict[str, Any]) -> None:
    octets, value = octets_of(vector), value_of(kind, vector)
    assert ENCODERS[kind](value) == octets
    decoded, end = DECODERS[kind](octets, 0)
    assert decoded == value
    assert end == len(octets)
    # Equal tuples of other classes would compare equal, too.
    assert repr(decoded) == repr(value)
    # The payload follows at once, wherever the message stands.
    for prefix in (b"", bytes(20), b"odd"):
        for payload in (b"",) if kind == "report" else (b"p", b"\xff" * 64):
            message = prefix + octets + payload
            for data in (message, bytearray(message), memoryview(message)):
                assert DECODERS[kind](data, len(prefix)) == (value, len(prefix) + len(octets))
    placed = bytes(20) + octets
    for length in range(20, len(placed)):
        with pytest.raises(DecodeError) as caught:
            DECODERS[kind](placed[:length], 20)
        assert 20 <= caught.value.offset <= length
        assert caught.value.need.endswith("octets")


@pytest.mark.req("RT-6", "RT-14")
@each_case("vector", VECTORS["malformed"])
def test_what_is_against_the_rules_is_named_with_its_offset(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        DECODERS[vector["type"]](bytes(20) + octets_of(vector), 20)
    assert (caught.value.field, caught.value.offset - 20) == (vector["field"], vector["offset"])
