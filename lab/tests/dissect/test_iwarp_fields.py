"""The tables of MPA, DDP and RDMAP say where the fields are that the RNIC reads and writes."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.errors import DecodeError
from rpcrdma.iwarp import segments
from rpcrdma.iwarp.startup import HEADER_OCTETS
from rpcrdma.iwarp.terminate import Code, TerminateMessage, decode_terminate, encode_terminate
from rpcrdma_lab.dissect.connection import IwarpConnection, Settings, cut_off
from rpcrdma_lab.dissect.fields import Field, octets_shown
from rpcrdma_lab.dissect.header_table import Table
from rpcrdma_lab.dissect.iwarp_fields import OPCODES, READ_REQUEST_ROWS, STARTUP_ROWS, TAGGED_ROWS, UNTAGGED_ROWS
from rpcrdma_lab.dissect.terminate_fields import CAUSES, TERMINATE_ROWS, terminate_fields
from support.cases import each_case
from support.raw_iwarp import fpdu, tagged, terminate, untagged

TABLES = [STARTUP_ROWS, TAGGED_ROWS, UNTAGGED_ROWS, READ_REQUEST_ROWS, TERMINATE_ROWS]


def values(table: Table, octets: bytes) -> dict[str, object]:
    group, faults = table.read(octets)
    assert faults == []
    assert group.size == table.size == len(octets)
    return {field.name: field.value for field in group.fields}


@each_case("table", TABLES)
def test_every_bit_of_a_header_belongs_to_one_row(table: Table) -> None:
    covered = [0] * table.size
    for row in table.rows:
        mask = row.mask or (1 << 8 * row.size) - 1
        for place, bits in enumerate(mask.to_bytes(row.size)):
            assert not covered[row.offset + place] & bits, row.name
            covered[row.offset + place] |= bits
        assert row.meaning
        assert row.section.startswith("RFC ")
    assert [place for place, bits in enumerate(covered) if bits != 0xFF] == []


ALL_DDP = {"Rsvd": 0, "DV": 1, "RV": 1, "Rsv": 0}
HEADERS: list[tuple[Table, bytes, dict[str, object]]] = [
    (
        TAGGED_ROWS,
        segments.TAGGED.pack(77, segments.TAGGED_CONTROL | segments.LAST, segments.WRITE, 0x12345678, 1 << 40),
        ALL_DDP | {"ULPDU_Length": 77, "T": 1, "L": 1, "Opcode": 0, "STag": 0x12345678, "TO": 1 << 40},
    ),
    (
        UNTAGGED_ROWS,
        segments.UNTAGGED.pack(78, segments.UNTAGGED_CONTROL, segments.SEND_INVALIDATE, 9, 0, 5, 6),
        ALL_DDP | {"ULPDU_Length": 78, "T": 0, "L": 0, "Opcode": 4, "Invalidate STag": 9, "QN": 0, "MSN": 5, "MO": 6},
    ),
    (
        READ_REQUEST_ROWS,
        segments.encode_read_header(segments.ReadHeader(1, 2, 3, 4, 5)),
        {"SinkSTag": 1, "SinkTO": 2, "RDMARDSZ": 3, "SrcSTag": 4, "SrcTO": 5},
    ),
    (
        TERMINATE_ROWS,
        encode_terminate(TerminateMessage(code=0x1203, segment_octets=4))[: TERMINATE_ROWS.size],
        {"Layer": 1, "EType": 2, "Error Code": 3, "M": 1, "D": 0, "R": 0, "Reserved": 0},
    ),
    (
        STARTUP_ROWS,
        b"MPA ID Req Frame" + struct.pack(">BBH", 0x9F, 2, 3),
        {"Key": b"MPA ID Req Frame", "M": 1, "C": 0, "R": 0, "S": 1, "Res": 15, "Rev": 2, "PD_Length": 3},
    ),
]


@each_case(("table", "octets", "expected"), HEADERS)
def test_headers_are_those_of_the_rnic(table: Table, octets: bytes, expected: dict[str, object]) -> None:
    assert values(table, octets) == expected
    assert STARTUP_ROWS.size == HEADER_OCTETS


def test_opcodes_belong_to_the_queues_of_the_rnic() -> None:
    queues = {code: opcode.queue for code, opcode in OPCODES.items() if opcode.queue is not None}
    assert {code: queues[code] for code in segments.QUEUE_OF} == segments.QUEUE_OF
    assert OPCODES[segments.WRITE & 15].queue is OPCODES[segments.READ_RESPONSE & 15].queue is None


def test_terminates_mean_what_the_rnic_reads_in_them() -> None:
    """Every layer and type with every code in use, and all flags: those of Linux siw, quotes and cut-off ones."""
    assert set(CAUSES) == set(Code)
    codes = {code & 0xFF for code in Code}
    heads = {bytes([first, code, 0]) for first in range(256) for code in codes}
    heads |= {bytes([first, 2, flags]) for first in (0x12, 0x21) for flags in range(256)}
    for payload in (head + bytes(1) + rest for head in heads for rest in (b"", bytes(46), bytes(2) + b"\x80" * 48)):
        group, faults, words = terminate_fields(payload)
        if faults:
            with pytest.raises(DecodeError) as caught:
                decode_terminate(payload)
            assert [(fault.field, fault.offset) for fault in faults] == [(caught.value.field, caught.value.offset)]
            continue
        message = decode_terminate(payload)
        assert words.removesuffix(", layer and type swapped as Linux siw does") == message.words
        quoted = [field.value for field in group.fields[len(TERMINATE_ROWS.rows) :]]
        length = [] if message.segment_octets is None else [message.segment_octets.to_bytes(2)]
        assert quoted == length + [header for header in (message.ddp_header, message.read_header) if header]


@each_case("table", TABLES)
def test_a_header_that_is_cut_off_is_shown_up_to_there(table: Table) -> None:
    for length in range(table.size):
        group, faults = table.read(bytes(length))
        assert len(faults) == 1
        assert group.fields[-1].faults == [faults[0].reason]
        assert all(field.offset + field.size <= length for field in group.fields)


def test_each_message_is_named() -> None:
    connection = IwarpConnection(Settings())
    connection.halves[0].expect_fpdus_unless_startup(b"")
    stream = fpdu(tagged(0, 1, 0, bytes(9), last=False)) + fpdu(tagged(0, 1, 9, b"x")) + fpdu(untagged(3, 0, 1))
    stream += terminate(0x0206) + fpdu(b"\x41\x43") + fpdu(b"\x41")
    said = []
    for message in connection.feed(0, stream):
        connection.finish(0, message)
        said.append(message.summary)
    assert said == [
        "RDMA Write, 10 octets in 2 segments",
        "Send, 0 octets",
        "Terminate, 4 octets: unexpected opcode (0/2/06)",
        "Send, 0 octets",
        "opcode -1, 0 octets",
    ]


def test_what_is_left_of_a_frame_is_told() -> None:
    connection = IwarpConnection(Settings())
    connection.halves[0].expect_fpdus_unless_startup(b"")
    assert list(connection.feed(0, fpdu(untagged(3, 0, 1))[:10])) == []
    rest = cut_off(connection.halves[0])
    assert rest is not None
    assert rest.summary == "the stream ends after 10 octets of a frame"
    assert rest.faults
    assert cut_off(connection.halves[1]) is None


def test_fields_as_json() -> None:
    below = Field("below", 4, 2, b"\1\2", octets_shown(b"\1\2"))
    field = Field("above", 0, 6, None, "", "meaning", "RFC 1 2", [below], ["wrong"])
    assert field.as_json() == {
        "name": "above",
        "offset": 0,
        "size": 6,
        "value": None,
        "shown": "",
        "meaning": "meaning",
        "section": "RFC 1 2",
        "faults": ["wrong"],
        "fields": [
            {"name": "below", "offset": 4, "size": 2, "value": "0102", "shown": "0102", "meaning": "", "section": None}
        ],
    }
    assert octets_shown(bytes(17)) == "00000000 00000000 00000000 00000000... (17 octets)"
    assert octets_shown(b"") == "empty"


@each_case("table", TABLES)
def test_a_header_of_which_nothing_is_left_has_no_octets(table: Table) -> None:
    group, faults = table.read(b"1234", 4)
    assert group.size == 0
    assert faults
