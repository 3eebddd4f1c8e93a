"""The bounded cursor: every field whole, cut short, and behind the end of its part."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.errors import DecodeError
from rpcrdma.wire import Reader
from support.cases import each_case

DATA = bytes(range(1, 17))
PAIR = struct.Struct(">HI")

Read = Callable[[Reader], Any]
FIELDS: list[tuple[str, Read, int, Any]] = [
    ("u32", lambda reader: reader.u32("field"), 4, 0x01020304),
    ("u64", lambda reader: reader.u64("field"), 8, 0x0102030405060708),
    ("take", lambda reader: reader.take(PAIR, "field"), 6, (0x0102, 0x03040506)),
    ("view", lambda reader: reader.view(5, "field"), 5, DATA[:5]),
    ("octets", lambda reader: reader.octets(7, "field"), 7, DATA[:7]),
    ("view of nothing", lambda reader: reader.view(0, "field"), 0, b""),
    ("octets of nothing", lambda reader: reader.octets(0, "field"), 0, b""),
]
fields = each_case(("read", "size", "value"), [row[1:] for row in FIELDS])
kinds = each_case("kind", [bytes, bytearray, memoryview])


@fields
@kinds
def test_a_field_is_read_and_passed(read: Read, size: int, value: Any, kind: Callable[[bytes], Any]) -> None:
    reader = Reader(kind(DATA))
    assert read(reader) == value
    assert (reader.pos, reader.remaining) == (size, 16 - size)


@fields
def test_a_field_cut_short_says_what_is_missing_and_stays(read: Read, size: int, value: Any) -> None:
    for have in range(size):
        reader = Reader(DATA, 3, 3 + have)
        with pytest.raises(DecodeError, match=rf"^field at offset 0: need {size} octets, have {have}$") as caught:
            read(reader)
        assert (caught.value.field, caught.value.offset) == ("field", 0)
        assert reader.pos == 3


@fields
def test_a_field_does_not_reach_behind_the_end_of_its_part(read: Read, size: int, value: Any) -> None:
    # There are octets behind, which are no part of it.
    reader = Reader(DATA, 0, size)
    assert read(reader) == value
    reader.done("part")
    if size:
        with pytest.raises(DecodeError):
            read(reader)


def test_offsets_in_errors_count_from_the_start_of_the_part() -> None:
    reader = Reader(DATA, 4, 14)
    assert reader.u32("first") == 0x05060708
    with pytest.raises(DecodeError, match="second at offset 4: need 8 octets, have 6"):
        reader.u64("second")


def test_views_are_not_copies_and_octets_are() -> None:
    memory = bytearray(DATA)
    reader = Reader(memory)
    view, octets = reader.view(4, "view"), reader.octets(4, "octets")
    memory[:] = bytes(16)
    assert view == bytes(4)
    assert view.obj is memory
    assert octets == DATA[4:8]


@each_case("left", [1, 2, 16])
def test_trailing_octets_are_an_error(left: int) -> None:
    reader = Reader(DATA)
    reader.view(16 - left, "field")
    with pytest.raises(DecodeError, match=f"message at offset {16 - left}: need end of data, have {left} more octets"):
        reader.done("message")


def test_an_error_can_be_made_for_what_is_not_there() -> None:
    reader = Reader(DATA, 2, 5)
    error = reader.short("list", 4000)
    assert str(error) == "list at offset 0: need 4000 octets, have 3"
