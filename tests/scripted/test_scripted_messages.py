"""Messages and frames of scripted conversations: octets by the specifications, and mistakes by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.errors import LocalProtocolError
from rpcrdma.scripted.frames import make_fpdu, make_segments, make_startup, read_segment, read_startup
from rpcrdma.scripted.layouts import LAYOUTS
from rpcrdma.scripted.matching import difference
from rpcrdma.scripted.messages import make_message, message_words, read_message
from rpcrdma.scripted.values import Names, number, octets
from support import raw_calls, raw_iwarp, raw_messages, raw_messages_07

NAMES = Names({"xid": raw_calls.XID, "private_data": b"", "startup_flags": 0x50, "sink.handle": 7, "size": 5})
SEGMENT = {"handle": 7, "length": 5000, "offset": 1 << 40}
PLAIN = (7, 5000, 1 << 40)


def made(message: dict[str, Any], version: str = "1") -> bytes:
    # As from a file: everything that a message says is JSON.
    return make_message(version, json.loads(json.dumps(message)), NAMES)


def test_a_header_of_version_1_is_that_of_rfc_8166() -> None:
    chunks = {"reads": [{"position": 4, **SEGMENT}], "writes": [[SEGMENT, SEGMENT], []], "reply": [SEGMENT]}
    plain = raw_calls.segment(*PLAIN)
    writes = raw_calls.chunk(plain, plain) + raw_calls.chunk()
    header = raw_calls.header(raw_calls.read_segment(4, *PLAIN), writes, raw_calls.chunk(plain))
    assert made({"header": chunks, "rpc": {}}) == header + raw_calls.rpc(0)
    assert made({"header": {"type": 4, "error": 1, "numbers": [1, 2]}})[12:] == bytes.fromhex(
        "00000004 00000001 00000001 00000002"
    )


def test_headers_of_both_drafts_are_those_of_the_drafts() -> None:
    chunks = {"reads": [{"position": 4, **SEGMENT}], "writes": [[SEGMENT]], "reply": [SEGMENT], "invalidate": 7}
    lists = {
        "reads": raw_messages.read_segment(4, PLAIN),
        "writes": raw_messages.chunk(PLAIN),
        "reply": raw_messages.chunk(PLAIN),
        "ends": 7,
    }
    assert made({"header": {**chunks, "give": 1}, "body": "00"}, "2") == raw_messages.message(
        raw_calls.XID, b"\0", give=1, **lists
    )
    assert made({"header": {**chunks, "credit": 1}, "body": "00"}, "2-07") == raw_messages_07.message(
        raw_calls.XID, b"\0", **lists
    )
    told = {"type": 5, "properties": [[2, {"words": [8192]}], [6, {"text": "a"}]], "give": 1}
    pairs = ((2, raw_messages.word(8192)), (6, b"a"))
    assert made({"header": told}, "2") == raw_messages.properties(*pairs, xid=raw_calls.XID)


def test_frames_are_those_of_rfc_5044_to_5041() -> None:
    (segment,) = make_segments(b"hello", {}, {}, NAMES)
    assert segment == raw_iwarp.untagged(3, 0, 1, b"hello")
    assert make_fpdu(segment, {}, NAMES, crc=True) == raw_iwarp.fpdu(segment)
    assert make_fpdu(segment, {"crc": 1}, NAMES, crc=True) == raw_iwarp.fpdu(segment, flaw=1)
    (segment,) = make_segments(b"data", {"opcode": "write", "handle": 7, "offset": 9}, {}, NAMES)
    assert segment == raw_iwarp.tagged(0, 7, 9, b"data")
    assert make_startup({"data": "aabb", "ird": 1, "ord": 2}, NAMES, "") == raw_iwarp.startup_frame(
        "Req", 0x50, 2, bytes.fromhex("00010002aabb")
    )


def test_long_sends_have_several_segments_and_one_number() -> None:
    numbers: dict[int, int] = {}
    list(make_segments(b"", {}, numbers, NAMES))
    segments = [read_segment(each) for each in make_segments(bytes(4096), {}, numbers, NAMES)]
    assert [each and (each["number"], each["last"], each["offset"]) for each in segments] == [
        (2, 0, 0),
        (2, 0, 1424),
        (2, 1, 2848),
    ]


@pytest.mark.parametrize(
    ("mistake", "where"),
    [
        ({"header": {"reads": [{**SEGMENT, "present": 2}]}}, 16),
        ({"header": {"reads_end": 2}}, 16),
        ({"header": {"writes": [{"segments": [SEGMENT], "count": 2}]}}, 24),
        ({"header": {"version": 2}}, 4),
        ({"put": {"12": {"words": [9]}}}, 12),
    ],
)
def test_a_mistake_changes_the_octets_of_its_field(mistake: dict[str, Any], where: int) -> None:
    right = dict(mistake)
    right.pop("put", None)
    header = dict(right.get("header", {}))
    header.pop("reads_end", None)
    header.pop("version", None)
    header["reads"] = [{k: v for k, v in each.items() if k != "present"} for each in header.get("reads", [])]
    header["writes"] = [each["segments"] for each in header.get("writes", [])]
    wrong, whole = made(mistake), made({"header": header})
    assert [at for at in range(0, len(whole), 4) if wrong[at : at + 4] != whole[at : at + 4]] == [where]


def test_a_message_is_cut_and_lengthened_by_name() -> None:
    whole = made({"rpc": {}})
    assert made({"rpc": {}, "cut": 20}) == whole[:20]
    assert made({"rpc": {}, "append": "0102"}) == whole + b"\1\2"


@pytest.mark.parametrize("version", LAYOUTS)
def test_what_was_made_is_read_again_and_cut_messages_say_where(version: str) -> None:
    chunks = {"reads": [{"position": 4, **SEGMENT}], "writes": [[SEGMENT], []], "reply": [SEGMENT]}
    whole = made({"header": chunks, "rpc": {"procedure": 3}}, version)
    found = read_message(version, whole)
    assert {name: found["header"][name] for name in chunks} == chunks
    assert found["rpc"]["procedure"] == 3
    for cut in range(found["header_octets"]):
        short = read_message(version, whole[:cut])
        assert f"octet {cut}" in short["broken"], cut
        assert message_words(version, short)
    assert read_message(version, whole + b"more")["body"].endswith(b"more")


@given(st.sampled_from(sorted(LAYOUTS)), st.binary(max_size=200))
def test_no_octets_of_a_peer_raise(version: str, data: bytes) -> None:
    assert message_words(version, read_message(version, data))
    read_segment(data)


def test_a_start_up_frame_is_read_with_its_depths() -> None:
    found = read_startup(make_startup({"ird": 5, "ord": 0x4007, "data": "aa"}, NAMES, ""))
    assert (found["ird"], found["ord"], found["depth_flags"], found["data"]) == (5, 7, 1, b"\xaa")


@pytest.mark.parametrize(
    ("pattern", "found", "same"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": None}, {}, True),
        ({"a": []}, {"a": []}, True),
        ({"a": []}, {"a": [1]}, False),
        ({"a": {"any": [1, 2]}}, {"a": 2}, True),
        ({"a": {"any": [1, 2]}}, {"a": 3}, False),
        ({"a": {"min": 1}}, {"a": 0}, False),
        ({"a": {"min": 1, "max": 3}}, {"a": 3}, True),
        ({"a": {"not": 3}}, {"a": 3}, False),
        ({"a": {"not": None}}, {"a": [1]}, True),
        ({"a": {"given": "size", "plus": 1}}, {"a": 6}, True),
        ({"a": "0x10"}, {"a": 16}, True),
        ({"a": "ff"}, {"a": b"\xff"}, True),
        ({"a": {"words": [1]}}, {"a": b"\0\0\0\1"}, True),
        ({"a": {"ends": "01"}}, {"a": b"\0\1"}, True),
        ({"a": {"ends": "02"}}, {"a": b"\0\1"}, False),
    ],
)
def test_patterns(pattern: dict[str, Any], found: dict[str, Any], *, same: bool) -> None:
    assert (difference(pattern, found, NAMES) is None) is same


def test_values_of_all_forms() -> None:
    assert number({"given": "sink.handle", "plus": "0x10"}, NAMES, "") == 23
    forms: list[tuple[Any, bytes]] = [
        ("0a 0b", b"\x0a\x0b"),
        ([{"text": "a"}, {"zeros": 2}], b"a\0\0"),
        ({"longs": [1]}, bytes(7) + b"\1"),
        ({"opaque": {"text": "a"}}, b"\0\0\0\1a\0\0\0"),
    ]
    assert [octets(form, NAMES, "") for form, _ in forms] == [expected for _, expected in forms]
    assert len(octets({"pattern": 600}, NAMES, "")) == 600


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"header": {"colour": 1}}, "'colour'"),
        ({"header": {"xid": "seven"}}, "message.header.xid"),
        ({"header": {"reads": [{"handle": {"given": "none"}}]}}, r"reads\[0\]"),
        ({"rpc": {"args": "0"}}, "message.rpc.args"),
        ({"colour": 1}, "'colour'"),
    ],
)
def test_an_author_is_told_the_field_that_is_wrong(message: dict[str, Any], path: str) -> None:
    with pytest.raises(LocalProtocolError, match=path):
        made(message)
