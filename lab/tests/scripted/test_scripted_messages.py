"""Messages and frames of scripted conversations: octets by the specifications, and mistakes by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.errors import LocalProtocolError
from rpcrdma_lab.scripted.frames import make_fpdu, make_segments, make_startup, read_segment, read_startup
from rpcrdma_lab.scripted.layouts import LAYOUTS
from rpcrdma_lab.scripted.matching import difference
from rpcrdma_lab.scripted.messages import make_message, message_words, read_message, read_rpc
from rpcrdma_lab.scripted.parts import parts_of
from rpcrdma_lab.scripted.placement_fields import buffer_segments
from rpcrdma_lab.scripted.values import UNRESOLVED, Names, number, octets
from support.cases import each_case

NAMES = Names({"xid": 0x0BADCAFE, "private_data": b"", "startup_flags": 0x50, "sink.handle": 7, "size": 5})
SEGMENT = {"handle": 7, "length": 5000, "offset": 1 << 40}
PLAIN = "00000007 00001388 0000010000000000"


def made(message: dict[str, Any], version: str = "1") -> bytes:
    # As from a file: everything that a message says is JSON.
    return make_message(version, json.loads(json.dumps(message)), NAMES)


def test_a_header_of_version_1_is_that_of_rfc_8166() -> None:
    # By hand from RFC 8166 section 4: XID, version, credits, RDMA_MSG; Read, Write and Reply lists.
    chunks = {"reads": [{"position": 4, **SEGMENT}], "writes": [[SEGMENT, SEGMENT], []], "reply": [SEGMENT]}
    header = bytes.fromhex(
        f"0badcafe 00000001 00000020 00000000  00000001 00000004 {PLAIN} 00000000"
        f"00000001 00000002 {PLAIN} {PLAIN} 00000001 00000000 00000000  00000001 00000001 {PLAIN}"
    )
    # RFC 5531 section 9: NULL of NFSv3 with AUTH_NONE.
    call = bytes.fromhex("0badcafe 00000000 00000002 000186a3 00000003 00000000") + bytes(16)
    assert made({"header": chunks, "rpc": {}}) == header + call
    assert made({"header": {"type": 4, "error": 1, "numbers": [1, 2]}})[12:] == bytes.fromhex(
        "00000004 00000001 00000001 00000002"
    )


def test_headers_of_version_2_are_those_of_the_draft() -> None:
    # By hand from sections 6.2 and 6.3.
    chunks = {"reads": [{"position": 4, **SEGMENT}], "writes": [[SEGMENT]], "reply": [SEGMENT], "invalidate": 7}
    lists = (
        f"00000007  00000001 00000004 {PLAIN} 00000000  00000001 00000001 {PLAIN} 00000000  00000001 00000001 {PLAIN}"
    )
    assert made({"header": {**chunks, "give": 1}, "body": "00"}, "2") == bytes.fromhex(
        f"0badcafe 00000002 0040 0001 00000000 00000000 {lists} 00"
    )
    told = {"type": 5, "properties": [[2, {"words": [8192]}], [6, {"text": "a"}]], "give": 1}
    assert made({"header": told}, "2") == bytes.fromhex(
        "0badcafe 00000002 0040 0001 00000005 00000000 00000002 00000002 00000004 00002000 00000006 00000001 61000000"
    )


def test_lists_of_chunks_may_be_any_octets() -> None:
    assert made({"header": {"reads": "0a", "writes": "0b", "reply": "0c"}})[16:] == bytes.fromhex(
        "0a 00000000 0b 00000000 0c"
    )


def test_frames_are_those_of_rfc_5044_to_5041() -> None:
    # By hand from RFC 5040 section 4, RFC 5041 section 4 and RFC 5044 section 4; the CRC32c by another program.
    (segment,) = make_segments(b"hello", {}, {}, NAMES)
    assert segment == bytes.fromhex("41 43 00000000 00000000 00000001 00000000") + b"hello"
    assert make_fpdu(segment, {}, NAMES, crc=True) == b"\0\x17" + segment + bytes.fromhex("000000 b990b10c")
    assert make_fpdu(segment, {"crc": 1}, NAMES, crc=True)[-4:] == bytes.fromhex("ba90b10c")
    (segment,) = make_segments(b"data", {"opcode": "write", "handle": 7, "offset": 9}, {}, NAMES)
    assert segment == bytes.fromhex("c1 40 00000007 0000000000000009") + b"data"
    assert make_startup({"data": "aabb", "ird": 1, "ord": 2}, NAMES, "") == b"MPA ID Req Frame" + bytes.fromhex(
        "50 02 0006 0001 0002 aabb"
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


@each_case(
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


@each_case("version", LAYOUTS)
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


@each_case("none", [0, False, "0x0", {"given": "size", "plus": -5}])
def test_enhanced_of_a_start_up_frame_is_a_number_in_any_form(none: Any) -> None:
    assert make_startup({"enhanced": none, "flags": 0, "data": "aa"}, NAMES, "")[18:] == b"\0\1\xaa"
    with pytest.raises(LocalProtocolError, match=r"^at\.enhanced: "):
        make_startup({"enhanced": {"given": "unknown"}}, NAMES, "at")


@each_case(
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
        ({"a": {"given": "size", "plus": 1, "most": 4}}, {"a": 4}, True),
        ({"a": {"given": "size", "most": 6}}, {"a": 5}, True),
        ({"a": "0x10"}, {"a": 16}, True),
        ({"a": "ff"}, {"a": b"\xff"}, True),
        ({"a": {"words": [1]}}, {"a": b"\0\0\0\1"}, True),
        ({"a": {"ends": "01"}}, {"a": b"\0\1"}, True),
        ({"a": {"ends": "02"}}, {"a": b"\0\1"}, False),
        ({"2": "01"}, {2: b"\1"}, True),
        ({"2": "01"}, {"2": b"\1"}, True),
        ({"\u00b2": "01"}, {2: b"\1"}, False),
    ],
)
def test_patterns(pattern: dict[str, Any], found: dict[str | int, Any], *, same: bool) -> None:
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


@each_case(
    ("message", "path"),
    [
        ({"header": {"colour": 1}}, r"message\.header\.colour: expected one of credit, .*, found \"colour\""),
        ({"header": {"xid": "seven"}}, "message.header.xid"),
        ({"put": {"-1": "00"}}, r"message\.put: expected a number from 0"),
        ({"put": {"9999": "00"}}, r"message\.put: expected a number from 0 to 28"),
        ({"header": {"reads": [{"handle": {"given": "none"}}]}}, r"reads\[0\]"),
        ({"rpc": {"args": "0"}}, "message.rpc.args"),
        ({"colour": 1}, r"message\.colour: expected one of"),
    ],
)
def test_an_author_is_told_the_field_that_is_wrong(message: dict[str, Any], path: str) -> None:
    with pytest.raises(LocalProtocolError, match=path):
        made(message)


@each_case("names", [NAMES, UNRESOLVED])
@each_case(
    ("part", "told"),
    [
        ({"plus": "few"}, r'step\.plus: "few" is not a number'),
        ({"most": "few"}, r'step\.most: "few" is not a number'),
        ({"add": 1}, r'step: expected one of given, heard, most, of, plus, found "add"'),
    ],
)
def test_a_malformed_part_of_a_reference_is_found_before_a_run_as_in_it(
    part: dict[str, Any], told: str, names: Names
) -> None:
    with pytest.raises(LocalProtocolError, match=told):
        number({"given": "size", **part}, names, "step")


def test_parts_have_a_length_or_a_count_of_octets_or_words_before_them() -> None:
    data = bytes.fromhex("00000001 00000003 61626300 00000002 0000000a 0000000b 0c0d")
    form = [["status", 4], ["tag", "opaque"], ["bitmap", "words"], ["rest", 2]]
    whole = {"status": data[:4], "tag": b"abc", "bitmap": data[16:24], "rest": b"\x0c\x0d"}
    assert parts_of(data, form) == whole
    ends = {"status": 4, "tag": 11, "bitmap": 24, "rest": 26}
    for length in range(len(data)):
        found = {name: part for name, part in whole.items() if ends[name] <= length}
        assert parts_of(data[:length], form) == found


@each_case(("word", "found"), [(1, 88), (0, 4)])
def test_attributes_that_a_server_leaves_out_are_no_octets_of_the_next_part(word: int, found: int) -> None:
    results = word.to_bytes(4) + bytes(84 * word) + b"next"
    parts = parts_of(results, [["attributes", "attributes"], ["next", 4]])
    assert (len(parts["attributes"]), parts["next"]) == (found, b"next")


def test_nothing_comes_after_a_part_that_is_not_whole() -> None:
    assert parts_of(bytes.fromhex("ffffffff 00000001"), [["tag", "opaque"], ["status", 0]]) == {}
    assert parts_of(b"", [["none", 0], ["count", "words"], ["status", 0]]) == {"none": b""}


def test_an_rpc_message_may_end_at_any_octet() -> None:
    call = make_message("1", {"header": None, "rpc": {}}, Names({"xid": 7}))
    assert ["broken" in read_rpc(call[:length]) for length in range(len(call) + 1)] == [True] * 40 + [False]


def test_a_field_of_a_named_message_is_a_value() -> None:
    names = Names()
    names.named["old"] = {"header": {"xid": 7, "properties": {2: b"\0\0\x20\0"}}, "parts": {"2": b"part"}}
    assert number({"heard": "header.xid", "of": "old", "plus": 1}, names, "step") == 8
    whole: dict[str, Any] = {"heard": "header.properties.2", "of": "old"}
    assert octets(whole, names, "step") == b"\0\0\x20\0"
    assert octets({**whole, "from": 2, "first": 1}, names, "step") == b"\x20"
    assert octets({"heard": "parts.2", "of": "old"}, names, "step") == b"part"
    for absent in ("header.properties.3", "header.properties.\u00b2"):
        with pytest.raises(LocalProtocolError, match=r"step: expected octets in .*, found null"):
            octets({"heard": absent, "of": "old"}, names, "step")
    with pytest.raises(LocalProtocolError, match="step: no message has the name 'new'"):
        number({"heard": "header.xid", "of": "new"}, names, "step")


def test_the_largest_send_that_properties_tell_is_read() -> None:
    def told(*properties: object) -> object:
        message = {"header": {"type": 5, "properties": list(properties)}}
        return read_message("2", make_message("2", message, Names({"xid": 7})))["send_octets"]

    assert (told([1, {"words": [64]}]), told([2, {"words": [64]}]), told([1, ""])) == (64, 4096, 4096)
    # A number of more than 64 bits could be in no later condition.
    assert told([1, {"words": [1, 0, 64]}]) == 4096


def test_all_segments_of_a_receive_buffer_count_in_its_octets_and_so_many_are_described() -> None:
    # A head of 1,024 octets, then 2,000 segments for bulk data, which flag 1 marks.
    groups = [(1, 1024, 0, 0), (2000, 4096, 0, 1)]
    structure = bytes(8) + b"".join(number.to_bytes(4) for group in groups for number in group)
    assert buffer_segments(structure) == {
        "receive_octets": 1024 + 2000 * 4096,
        "segment_at": 1024,
        "segment_octets": 4096,
        "segments": 1023,
    }
