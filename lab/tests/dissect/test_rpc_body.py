"""Arguments and results by the definitions of their programs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.rpc_body import Interfaces, Part, WholeItem
from rpcrdma_lab.dissect.shown_messages import body_words
from support.octets import words

DEFINITION = """
    enum colour { RED = 0, BLUE = -1 };
    struct nest { int depth; nest *below; colour paint; };
    struct everything {
        int small; hyper large; unsigned hyper size; bool yes; float real; double exact;
        opaque fixed[3]; unsigned int pair[2]; colour paint; string name<20>; opaque data<>;
        nest *inner;
    };
    union result switch (colour status) { case RED: everything all; default: void; };
    struct pair { opaque first<>; opaque second<>; };
    struct tree { tree *left; tree *right; };
    struct column { opaque data<>; };
    struct named { column key; };
    program P { version P_V1 { result TRY(everything) = 1; void NOTHING(void) = 2; tree GROW(tree) = 3;
        void JOIN(pair) = 4; column FIND(named) = 5; } = 1; } = 77;
"""
WHOLE = (
    struct.pack(">iqQIfd", -5, -6, 1 << 40, 1, 0.5, 0.25)
    + b"abc\0"
    + words(8, 9, 0xFFFFFFFF, 2)
    + b"hi\0\0"
    + words(5)
    + b"12345\0\0\0"
    + words(0)
)
REDUCED = WHOLE[:-12] + words(0)


@pytest.fixture
def known() -> Interfaces:
    interfaces = Interfaces()
    interfaces.add(DEFINITION, "p.x")
    return interfaces


def values(
    interfaces: Interfaces, data: bytes, *items: WholeItem, start: int = 0, whole: bool = True
) -> dict[str, str]:
    body = interfaces.body((77, 1, 1), Part.ARGUMENTS, data, start, items, whole=whole)
    assert body is not None
    assert body.remark == ""
    return {one.name: one.shown for one in body.group.fields}


def test_every_type_is_read(known: Interfaces) -> None:
    assert values(known, WHOLE) == {
        "small": "-5",
        "large": "-6",
        "size": str(1 << 40),
        "yes": "true",
        "real": "0.5",
        "exact": "0.25",
        "fixed": "616263",
        "pair": "",
        "paint": "-1 (BLUE)",
        "name": "hi",
        "data": "31 32333435",
        "inner": "none",
    }


def test_an_item_that_a_chunk_holds_is_not_in_the_octets(known: Interfaces) -> None:
    place = len(REDUCED) - 4
    for length in (5, 8):
        item = WholeItem("Read chunk at 72", length, place)
        assert values(known, REDUCED, item)["data"] == "5 octets, in Read chunk at 72", "with or without padding"
    assert values(known, REDUCED, WholeItem("Write chunk 1", 5))["data"] == "5 octets, in Write chunk 1"
    empty, other = WholeItem("Write chunk 1", 0), WholeItem("Write chunk 2", 5)
    assert values(known, REDUCED, empty, other)["data"] == "5 octets, in Write chunk 2"
    # One that belongs elsewhere is not the missing one, nor is one of another length.
    for item in (WholeItem("Read chunk", 5, place + 4), WholeItem("Write chunk 1", 9), WholeItem("Write chunk 1", 7)):
        body = known.body((77, 1, 1), Part.ARGUMENTS, REDUCED, 0, [item], whole=True)
        assert body is not None
        assert body.remark.startswith("the arguments do not follow p.x: data")


def test_positions_count_the_items_before_that_are_in_chunks(known: Interfaces) -> None:
    items = [WholeItem("first chunk", 5, 4), WholeItem("second chunk", 9, 4 + 8 + 4)]
    body = known.body((77, 1, 4), Part.ARGUMENTS, words(5, 9), 0, items, whole=True)
    assert body is not None
    assert [one.shown for one in body.group.fields] == ["5 octets, in first chunk", "9 octets, in second chunk"]
    assert body.remark == ""


def test_offsets_count_from_the_start_of_the_message(known: Interfaces) -> None:
    body = known.body((77, 1, 1), Part.ARGUMENTS, bytes(40) + WHOLE, 40, (), whole=True)
    assert body is not None
    assert [(one.name, one.offset) for one in body.group.fields][:3] == [("small", 40), ("large", 44), ("size", 52)]
    assert body.group.name == "P_V1 TRY arguments"


def test_octets_that_do_not_follow_the_definition_are_remarked_upon(known: Interfaces) -> None:
    for cut in range(0, len(WHOLE), 4):
        body = known.body((77, 1, 1), Part.ARGUMENTS, WHOLE[:cut], 0, (), whole=True)
        assert body is not None
        assert body.remark.startswith("the arguments do not follow p.x: "), cut
        beginning = known.body((77, 1, 1), Part.ARGUMENTS, WHOLE[:cut], 0, (), whole=False)
        assert beginning is not None
        assert beginning.remark == "", "of a beginning no more can be asked"
        assert [one.faults for one in beginning.group.walk() if one.faults] == []
    body = known.body((77, 1, 1), Part.ARGUMENTS, WHOLE + bytes(4), 0, (), whole=True)
    assert body is not None
    assert body.remark == "the arguments do not follow p.x: 4 more octets follow"


def test_results_begin_with_their_discriminant(known: Interfaces) -> None:
    body = known.body((77, 1, 1), Part.RESULTS, words(0xFFFFFFFF), 0, (), whole=True)
    assert body is not None
    assert [(one.name, one.shown) for one in body.group.fields] == [("status", "-1 (BLUE)")]


def test_a_member_data_that_is_alone_has_the_name_of_the_member_that_holds_it_or_its_own(known: Interfaces) -> None:
    for part, shown in ((Part.ARGUMENTS, "key 0x61626364"), (Part.RESULTS, "data 0x61626364")):
        body = known.body((77, 1, 5), part, words(4) + b"abcd", 0, (), whole=True)
        assert body is not None
        assert body_words(body.group) == [shown], part


def test_there_is_no_body_without_a_definition_or_a_type(known: Interfaces) -> None:
    for called in ((77, 1, 2), (77, 1, 9), (77, 2, 1), (78, 1, 1)):
        assert known.body(called, Part.ARGUMENTS, b"", 0, (), whole=True) is None
    assert known.name(77, 1, 1) == "P_V1 TRY"
    assert (known.name(77, 1, 9), known.name(78, 1, 1)) == ("P_V1 procedure 9", "program 78 version 1 procedure 1")


def test_nesting_is_bounded(known: Interfaces) -> None:
    body = known.body((77, 1, 3), Part.ARGUMENTS, words(*[1] * 5000), 0, (), whole=True)
    assert body is not None
    assert f"more than {lab_limits.DISSECTED_DEPTH_MAX} levels" in body.remark


@given(st.binary(max_size=200), st.lists(st.integers(0, 64), max_size=3), st.integers(1, 3))
def test_any_octets_make_fields_within_them(data: bytes, lengths: list[int], procedure: int) -> None:
    items = [WholeItem("chunk", length) for length in lengths]
    interfaces = Interfaces()
    interfaces.add(DEFINITION, "p.x")
    for part in Part:
        body = interfaces.body((77, 1, procedure), part, data, 0, items, whole=True)
        assert procedure == 2 or body is not None
        for one in body.group.walk() if body is not None else ():
            assert 0 <= one.offset <= one.offset + one.size <= len(data)
