"""The XDR runtime: every item whole, truncated at each offset, out of bounds; bulk items marked and placed."""

from __future__ import annotations

import array
import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.xdr import codec
from rpcrdma.xdr.codec import (
    BulkItem,
    Decoder,
    Encoder,
    Layout,
    Payload,
    PlacedByPosition,
    PlacedInOrder,
    padded_octets,
    padding,
)
from support.cases import each_case

RUN = Layout.of(">IQ3s1x", "run.number", "run.size", "run.mark")


def write_run(encoder: Encoder, values: tuple[Any, ...]) -> None:
    encoder.put(RUN, *values)


def write_word(encoder: Encoder, value: int) -> None:
    encoder.u32(value, "word")


def read_word(decoder: Decoder) -> int:
    return decoder.u32("word")


def pair(method: str, *details: Any, read: str = "") -> tuple[Callable[[Encoder, Any], None], Callable[[Decoder], Any]]:
    """How an item is written and read by methods of one name, or of two."""

    def write(encoder: Encoder, value: Any) -> None:
        getattr(encoder, method)(value, *details, "item")

    return write, lambda decoder: getattr(decoder, read or method)(*details, "item")


def a_list(most: int | None, **filled: bool) -> tuple[Callable[[Encoder, Any], None], Callable[[Decoder], Any]]:
    def write(encoder: Encoder, value: Any) -> None:
        encoder.linked_list(value, write_word, most, "l", **filled)

    return write, lambda decoder: decoder.linked_list(read_word, most, "l", **filled)


def numbers(code: str, count: int) -> tuple[Callable[[Encoder, Any], None], Callable[[Decoder], Any]]:
    def write(encoder: Encoder, value: Any) -> None:
        encoder.numbers(code, value, "n")

    return write, lambda decoder: decoder.numbers(code, count, "n")


@each_case(
    ("way", "value", "octets"),
    [
        ((write_word, read_word), 0xDEADBEEF, "deadbeef"),
        (pair("u32", read="boolean"), True, "00000001"),
        (pair("u32", read="boolean"), False, "00000000"),
        ((write_run, lambda d: d.take(RUN, "run")), (1, 2, b"abc"), "00000001 0000000000000002 61626300"),
        (pair("fixed", 3), b"abc", "61626300"),
        (pair("fixed", 4), b"abcd", "61626364"),
        (pair("fixed", 5), b"abcde", "61626364 65000000"),
        (pair("opaque", 9), b"", "00000000"),
        (pair("opaque", 9), b"a", "00000001 61000000"),
        (pair("opaque", 9), b"ab", "00000002 61620000"),
        (pair("opaque", 9), b"abc", "00000003 61626300"),
        (pair("opaque", 4), b"abcd", "00000004 61626364"),
        (pair("string", 9), "né", "00000003 6ec3a900"),
        # No UTF-8.
        (pair("string", 9), "\udcff", "00000001 ff000000"),
        (pair("bulk", 9), b"abcde", "00000005 61626364 65000000"),
        (pair("bulk_string", 9), "ab", "00000002 61620000"),
        (numbers("i", 2), [-2, 3], "fffffffe 00000003"),
        (numbers("I", 2), [2, 0xFFFFFFFF], "00000002 ffffffff"),
        (numbers("q", 2), [-2, 3], "fffffffffffffffe 0000000000000003"),
        (numbers("Q", 2), [1, (1 << 64) - 1], "0000000000000001 ffffffffffffffff"),
        (numbers("f", 2), [1.5, -2.0], "3fc00000 c0000000"),
        (numbers("d", 2), [1.5, -2.0], "3ff8000000000000 c000000000000000"),
        (a_list(2), [7, 8], "00000001 00000007 00000001 00000008 00000000"),
        (a_list(None, filled=True), [7, 8], "00000007 00000001 00000008 00000000"),
        (a_list(None), [], "00000000"),
    ],
)
def test_items_have_their_octets_wherever_they_stand_and_end_where_they_end(way: Any, value: Any, octets: str) -> None:
    write, read = way
    data = bytes.fromhex(octets)
    encoder = Encoder()
    write(encoder, value)
    assert b"".join(encoder.gather()) == data
    assert encoder.length == len(data)
    for decoder, start in (
        (Decoder(data), 0),
        (Decoder(memoryview(b"\xff" * 8 + data + b"\xff" * 8), 8, 8 + len(data)), 8),
    ):
        assert (decoder.start, decoder.pos, decoder.end, decoder.position) == (start, start, start + len(data), 0)
        assert read(decoder) == value
        decoder.done("item")
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            read(Decoder(data[:length]))
        # The octets beyond the bound are there, and must not be read.
        with pytest.raises(DecodeError):
            read(Decoder(data, 0, length))
    decoder = Decoder(data + b"\0")
    read(decoder)
    with pytest.raises(DecodeError, match="1 more octets"):
        decoder.done("item")


def test_padding_completes_units_of_four() -> None:
    assert [padding(length) for length in range(9)] == [0, 3, 2, 1, 0, 3, 2, 1, 0]
    assert [padded_octets([length]) for length in range(9)] == [0, 4, 4, 4, 4, 8, 8, 8, 8]
    assert [padded_octets(lengths) for lengths in ([], [1, 1], [5, 4, 3])] == [0, 8, 16]


def test_padding_of_any_value_is_taken() -> None:
    assert Decoder(bytes.fromhex("00000001 61ffffff")).opaque(1, "o") == b"a"


def test_the_length_word_of_an_item_is_the_one_before_it() -> None:
    # Four octets from one further on would be a length, too.
    decoder = Decoder(bytes.fromhex("00000000 03616263"))
    assert (decoder.opaque(9, "o"), decoder.pos) == (b"", 4)


@each_case(
    "read",
    [
        lambda d: d.opaque(4, "o"),
        lambda d: d.string(4, "o"),
        lambda d: d.bulk(4, "o"),
        lambda d: d.bulk_string(4, "o"),
        lambda d: d.count(4, "o"),
    ],
)
def test_lengths_over_the_limit_are_refused_before_anything_is_read(read: Callable[[Decoder], Any]) -> None:
    with pytest.raises(DecodeError, match="o at offset 0: need at most 4, have 5"):
        read(Decoder(bytes.fromhex("00000005 6162636465000000")))


def test_a_length_of_four_gigabytes_allocates_nothing() -> None:
    with pytest.raises(DecodeError, match="o at offset 4: need 4294967295 octets, have 4"):
        Decoder(b"\xff" * 4 + b"abcd").opaque(0xFFFFFFFF, "o")
    sizes = {"i": 4, "I": 4, "q": 8, "Q": 8, "f": 4, "d": 8}
    assert sizes == codec._OCTETS
    for code, octets in sizes.items():
        with pytest.raises(DecodeError, match=f"need {octets * 0xFFFFFFFF} octets, have 0"):
            Decoder(b"").numbers(code, 0xFFFFFFFF, "n")


def test_a_bool_is_0_or_1() -> None:
    with pytest.raises(DecodeError, match="b at offset 0: need 0 or 1, have 2"):
        Decoder(b"\0\0\0\2").boolean("b")


def test_a_list_over_its_limit_is_refused() -> None:
    data = bytes.fromhex("00000001 00000007 00000001 00000008 00000000")
    with pytest.raises(DecodeError, match="l at offset 12: need at most 1 entries, have more"):
        Decoder(data).linked_list(read_word, 1, "l")


@each_case(
    ("write", "message"),
    [
        (lambda e: e.u32(-1, "T.x"), "T.x: -1 is not an unsigned 32-bit integer"),
        (lambda e: e.u32(1 << 32, "T.x"), "T.x: 4294967296 is not an unsigned 32-bit integer"),
        (lambda e: e.u32("1", "T.x"), "T.x: '1' is not an unsigned 32-bit integer"),
        (lambda e: e.fixed(b"abc", 4, "T.x"), "T.x: 3 octets given, the type has 4"),
        (lambda e: e.opaque(b"abc", 2, "T.x"), "T.x: 3 octets, the limit is 2"),
        (lambda e: e.bulk(b"abc", 2, "T.x"), "T.x: 3 octets, the limit is 2"),
        (lambda e: e.string("né", 2, "T.x"), "T.x: 3 octets, the limit is 2"),
        (lambda e: e.string(5, 9, "T.x"), "T.x: 5 is no str"),
        (lambda e: e.string("\ud800", 9, "T.x"), "T.x: '\\ud800' has characters that have no octets"),
        (lambda e: e.count(3, 2, "T.x"), "T.x: 3 elements, the limit is 2"),
        (lambda e: e.numbers("i", [1 << 31], "T.x"), "T.x: an element does not fit its XDR type"),
        (lambda e: e.numbers("f", [1e39], "T.x"), "T.x: an element does not fit its XDR type"),
        (lambda e: e.linked_list([1, 2], write_word, 1, "T.x"), "T.x: 2 entries, the limit is 1"),
        (lambda e: e.linked_list([], write_word, 1, "T.x", filled=True), "T.x: no entries, the type has at least one"),
        (lambda e: e.put(RUN, 1, -2, b"abc"), "run.size: -2 does not fit its XDR type"),
        (lambda e: e.put(RUN, None, 2, b"abc"), "run.number: None does not fit its XDR type"),
        (lambda e: e.put(RUN, 1, 2, "abc"), "run.mark: 'abc' does not fit its XDR type"),
        (lambda e: e.put(RUN, 1, 2), "2 values for 3 fields"),
        (lambda e: e.put(Layout.of(">f", "T.f"), 1e39), "T.f: 1e+39 does not fit its XDR type"),
    ],
)
def test_values_that_do_not_fit_are_the_callers_error(write: Callable[[Encoder], None], message: str) -> None:
    with pytest.raises(LocalProtocolError) as raised:
        write(Encoder())
    assert str(raised.value) == message


def test_a_layout_without_names_refuses_what_does_not_fit_as_well() -> None:
    encoder = Encoder()
    with pytest.raises(LocalProtocolError, match="does not fit its XDR type"):
        encoder.put(struct.Struct(">II"), 1, 1 << 32)
    assert bytes(encoder.reduced) == b""


def test_floats_keep_their_special_values() -> None:
    encoder = Encoder()
    encoder.numbers("d", [math.inf, -0.0, math.nan], "n")
    inf, zero, nan = Decoder(encoder.reduced).numbers("d", 3, "n")
    assert inf == math.inf
    assert math.copysign(1, zero) == -1
    assert math.isnan(nan)


def bulk_message() -> tuple[Payload, bytes, bytearray]:
    """Two bulk items with padding, and an inline item between and after them."""
    first, second = b"first", bytearray(b"second!")
    encoder = Encoder()
    encoder.u32(1, "before")
    encoder.bulk(first, 100, "first")
    encoder.opaque(b"mid", 100, "between")
    encoder.bulk(second, 100, "second")
    encoder.u32(2, "after")
    return encoder, first, second


UNREDUCED = bytes.fromhex("00000001 00000005 6669727374000000 00000003 6d696400 00000007 7365636f6e642100 00000002")


@pytest.mark.req("V1-15", "V1-16", "V1-19", "V1-20", "V1-21", "V2-16", "V2-17", "V2-20", "V2-21")
def test_lengths_and_presence_words_stay_in_the_stream_and_padding_leaves_it() -> None:
    payload, first, second = bulk_message()
    assert bytes(payload.reduced) == bytes.fromhex("00000001 00000005 00000003 6d696400 00000007 00000002")
    assert b"".join(payload.gather(leave_out=payload.items)) == payload.reduced
    assert b"".join(payload.gather()) == UNREDUCED
    assert payload.length == len(UNREDUCED) == len(payload.reduced) + 8 + 8
    one = payload.items[0]
    assert b"".join(payload.gather(item for item in [one])) == UNREDUCED[:8] + UNREDUCED[16:]
    assert b"".join(payload.gather(payload.items[1:])) == UNREDUCED[:28] + UNREDUCED[36:]
    assert payload.item_octets() == (5, 7)
    # Positions count octets of the unreduced stream.
    assert [(item.position, item.at) for item in payload.items] == [(8, 8), (28, 20)]
    for item, data in zip(payload.items, (first, second), strict=True):
        assert UNREDUCED[item.position : item.position + len(data)] == bytes(data)


def test_positions_count_the_padding_of_items_of_any_length() -> None:
    for length in range(9):
        encoder = Encoder()
        encoder.bulk(bytes(length), 9, "first")
        encoder.bulk(b"second", 9, "second")
        assert [(item.position, item.at) for item in encoder.items] == [(4, 4), (8 + length + padding(length), 8)]


def test_bulk_items_are_never_copied() -> None:
    payload, first, second = bulk_message()
    assert payload.items[0].data is first
    assert isinstance(payload.items[1].data, memoryview)
    assert payload.items[1].data.obj is second
    assert any(isinstance(part, memoryview) and part.obj is second for part in payload.gather())
    assert repr(payload.items[0]) == "BulkItem(at=8, position=8, length=5)"


def test_empty_bulk_items_add_nothing_to_a_gather_list() -> None:
    payload = Payload(b"\0\0\0\0", [BulkItem(4, 4, b"")])
    assert b"".join(payload.gather()) == b"\0\0\0\0"


def read_bulk_message(decoder: Decoder) -> list[Any]:
    return [
        decoder.u32("before"),
        bytes(decoder.bulk(100, "first")),
        decoder.opaque(100, "between"),
        bytes(decoder.bulk(100, "second")),
        decoder.u32("after"),
    ]


VALUES = [1, b"first", b"mid", b"second!", 2]


def by_position(chunks: dict[int, bytes]) -> PlacedByPosition:
    return PlacedByPosition({position: memoryview(data) for position, data in chunks.items()})


def in_order(*chunks: bytes | None) -> PlacedInOrder:
    return PlacedInOrder([None if data is None else memoryview(data) for data in chunks])


@each_case(
    ("inline", "placed"),
    [
        ((), lambda: by_position({8: b"first", 28: b"second!"})),
        ((), lambda: by_position({8: b"first\0\0\0", 28: b"second!\0"})),
        # One item is inline.
        ((1,), lambda: by_position({8: b"first"})),
        ((0,), lambda: by_position({28: b"second!"})),
        ((), lambda: in_order(b"first", b"second!")),
        # An empty chunk, and too few of them.
        ((0,), lambda: in_order(None, b"second!")),
        ((1,), lambda: in_order(b"first")),
    ],
)
def test_placed_items_are_found_by_position_or_in_order(inline: tuple[int, ...], placed: Any) -> None:
    payload, _, _ = bulk_message()
    stream = b"".join(payload.gather(item for number, item in enumerate(payload.items) if number not in inline))
    decoder = Decoder(stream, placed=placed())
    assert read_bulk_message(decoder) == VALUES
    assert decoder.position == len(UNREDUCED)
    decoder.done("message")


@pytest.mark.req("V1-29", "V2-25")
@each_case(
    ("placed", "message"),
    [
        (lambda: by_position({8: b"firs", 28: b"second!"}), "need a Read chunk of 5 octets, have 4"),
        (lambda: in_order(b"firs", b"second!"), "need a Write chunk with 5 octets, have 4"),
        (lambda: in_order(b"first!!!!", b"second!"), "need a Write chunk with 5 octets, have 9"),
    ],
)
def test_a_chunk_of_another_length_is_refused(placed: Any, message: str) -> None:
    payload, _, _ = bulk_message()
    with pytest.raises(DecodeError, match=f"first at offset 8: {message}"):
        read_bulk_message(Decoder(payload.reduced, placed=placed()))


def test_a_chunk_without_an_item_is_refused() -> None:
    decoder = Decoder(UNREDUCED, placed=by_position({20: b"mid"}))
    assert read_bulk_message(decoder) == VALUES
    with pytest.raises(DecodeError, match="Read chunk at offset 20"):
        decoder.done("message")
    decoder = Decoder(b"", placed=in_order(None, b"", b"x"))
    with pytest.raises(DecodeError, match="Write chunk at offset 0"):
        decoder.done("message")


def test_only_padding_in_a_write_chunk_is_told() -> None:
    for placed, padded in (
        (by_position({8: b"first\0\0\0", 28: b"second!\0"}), False),
        (in_order(b"first", b"second!"), False),
        (in_order(b"first", b"second!\0"), True),
        (in_order(b"first\0\0\0", b"second!"), True),
    ):
        payload, _, _ = bulk_message()
        assert read_bulk_message(Decoder(payload.reduced, placed=placed)) == VALUES
        assert placed.padded is padded


def test_behind_the_last_write_chunk_results_are_inline() -> None:
    class Chunks(list[memoryview | None]):
        def __getitem__(self, index: Any) -> Any:
            assert index < len(self)
            return super().__getitem__(index)

    placed = PlacedInOrder(Chunks([memoryview(b"first")]))
    assert placed.take(8, 5, "first") == b"first"
    assert placed.take(28, 7, "second") is None


def test_placed_items_are_views_of_the_memory_they_landed_in() -> None:
    memory = bytearray(b"data")
    decoder = Decoder(bytes.fromhex("00000004"), placed=PlacedInOrder([memoryview(memory)]))
    item = decoder.bulk(4, "data")
    assert decoder.position == 8
    memory[0:1] = b"D"
    assert bytes(item) == b"Data"


@each_case(
    "doubles", [array.array("d", [1.0, 2.0]), memoryview(array.array("d", [1.0, 2.0])), (ctypes.c_double * 2)(1.0, 2.0)]
)
def test_opaque_data_of_any_format_is_its_octets(doubles: Any) -> None:
    octets = bytes(memoryview(doubles).tobytes())
    for method in ("opaque", "bulk"):
        encoder = Encoder()
        getattr(encoder, method)(doubles, 16, "x")
        assert b"".join(encoder.gather()) == b"\0\0\0\x10" + octets
    encoder = Encoder()
    encoder.fixed(doubles, 16, "x")
    assert encoder.reduced == octets


@each_case("method", ["opaque", "bulk", "fixed"])
def test_the_length_of_opaque_data_is_that_of_its_octets(method: str) -> None:
    with pytest.raises(LocalProtocolError, match="x: 16 octets"):
        getattr(Encoder(), method)(array.array("d", [1.0, 2.0]), 15, "x")


@each_case("method", ["opaque", "bulk", "fixed"])
def test_data_that_shows_no_octets_is_refused_by_the_name_of_its_field(method: str) -> None:
    for value in (memoryview(bytes(4))[::2], "text", None, 4):
        with pytest.raises(TypeError, match=r"args\.x: "):
            getattr(Encoder(), method)(value, 4, "args.x")
