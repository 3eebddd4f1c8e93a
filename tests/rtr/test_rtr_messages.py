"""The bodies of the extension's messages, against the golden vectors."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.errors import DecodeError
from rpcrdma.rtr.messages import (
    Report,
    ReportCode,
    TransmissionId,
    encode_report,
)
from rtr_vectors import DECODERS, ENCODERS, MESSAGES, VECTORS, octets_of, value_of
from support.cases import each_case

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


def test_a_start_beyond_the_data_is_no_message() -> None:
    for kind in MESSAGES:
        with pytest.raises(DecodeError):
            DECODERS[kind](b"short", 20)


@pytest.mark.req("RT-6", "RT-14")
@each_case("vector", VECTORS["malformed"])
def test_what_is_against_the_rules_is_named_with_its_offset(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        DECODERS[vector["type"]](bytes(20) + octets_of(vector), 20)
    assert (caught.value.field, caught.value.offset - 20) == (vector["field"], vector["offset"])


def test_the_draft_s_table_of_kinds_by_context() -> None:
    """Section 6.2: explicit and in segments go everywhere, too short and no item are for responses."""
    item = "00000001 00000020 00000004"
    rests = {1: "00000000", 2: "00000000 00000000", 3: "00000000", 4: "00000000 00000000", 5: "", 6: ""}
    taken: dict[str, list[int]] = {"request": [], "response": [], "direction": []}
    for kind in range(9):
        rest = f"{kind:08x} {rests.get(kind, '')}"
        for name, where in (
            ("request", f"{item} {rest} 00000000 00000001 00000000 00000000"),
            ("response", f"{item} {rest} 00000001 00000000"),
            ("direction", f"00000000 00000001 00000000 00000010 00000001 00000000 {rest} 00000001 00000000 00000000"),
        ):
            data = bytes.fromhex(where)
            if name == "direction" and kind == 2:
                data = data[:-20] + data[-12:]  # no segments are named for it
            try:
                DECODERS["request" if name == "direction" else name](data, 0)
            except DecodeError:
                continue
            taken[name].append(kind)
    assert taken == {"request": [1, 2], "response": [1, 2, 5, 6], "direction": [1, 2, 3, 4]}


@pytest.mark.req("RT-14")
def test_no_report_is_encoded_with_other_words_than_its_code_has() -> None:
    detail = {ReportCode.CONTINUATION: 0} | dict.fromkeys(
        (ReportCode.OFFSET, ReportCode.SEGMENT_NUMBER, ReportCode.PAYLOAD), 3
    )
    for code in ReportCode:
        for words in set(range(5)) - {detail.get(code, 2)}:
            with pytest.raises(AssertionError):
                encode_report(Report(TransmissionId(7, 0, 0), None, code, tuple(range(words))))
