"""The Wireshark dissector of version 2 in tshark: the additions of extensions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from dissector_in_tshark import Tshark, call, v2

from header_vectors import octets_of
from rpcrdma.rtr.messages import (
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    ResultDirection,
    TransmitRequest,
    TransmitResponse,
    Way,
    encode_transmit_request,
    encode_transmit_response,
)
from rpcrdma.rtr.properties import BufferStructure, SegmentKind, encode_buffer_structure
from rpcrdma.transport import Segment
from rpcrdma_lab.dissect.headers import Header, header_versions, walk_header
from rpcrdma_lab.dissect.rules import add_property_values
from rtr_vectors import HEADER_TYPES, MESSAGES, VECTORS
from support.octets import words
from support.raw_capture import CLIENT, SERVER, HandMadeCapture

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: make interop"),
]


@pytest.fixture
def tshark(rpcrdma_command: str, tmp_path: Path) -> Tshark:
    return Tshark(rpcrdma_command, tmp_path)


def transmission(kind: str, body: bytes, flags: int = 0, xid: int = 7) -> bytes:
    return words(xid, 2, 0x00200020, HEADER_TYPES[kind], flags) + body


PAGES = BufferStructure(256 + 4 * 64, ((1, SegmentKind(256, 0, placeable=False)), (4, SegmentKind(64, 0, True))))
STRUCTURE = encode_buffer_structure(PAGES)
LIMITS = words(0x101, 4, 7, 0x103, 4, 4, 0x104, 4, 4)
TOLD = v2(1, kind=5, lists=words(4) + LIMITS + words(0x102, len(STRUCTURE)) + STRUCTURE)


def test_both_show_the_same_numbers_of_the_extension(rpcrdma_command: str, tmp_path: Path) -> None:
    capture = tmp_path / "vectors.pcap"
    messages = [
        transmission(vector.get("type", table), octets_of(vector))
        for table in (*MESSAGES, "malformed")
        for vector in VECTORS[table]
    ]
    messages += [
        v2(1, kind=5, lists=words(1, 0x102, len(octets)) + octets)
        for table in ("structure", "malformed_structure")
        for vector in VECTORS[table]
        if len(octets := octets_of(vector)) % 24 in {0, 8}
    ]
    with HandMadeCapture(capture) as made:
        for message in messages:
            made.send(CLIENT, message)
    version = header_versions()["2"]
    headers = [walk_header(version, message) for message in messages]
    for header in headers:
        add_property_values(header)
    numbers = re.compile(r"xm|opt|rtr_")
    names = sorted({one.name for header in headers for one in header.group.walk() if numbers.match(one.name)})
    names = [name for name in names if any(shown_numbers(header, name) for header in headers)]
    fields = [f"rpcrdma2.{name}" for name in names]
    rows = Tshark(rpcrdma_command, tmp_path).fields(capture, *fields, "_ws.lua.error")
    assert len(rows) == len(messages) > 40
    assert len(names) > 25
    for message, header, row in zip(messages, headers, rows, strict=True):
        for name, shown in zip(names, row, strict=False):
            assert [int(value, 0) for value in shown] == shown_numbers(header, name), (name, message.hex())
        assert row[-1] == []


def shown_numbers(header: Header, name: str) -> list[int]:
    """Of an array of numbers each has the array's name in Wireshark."""
    found = [one for one in header.group.walk() if one.name == name]
    leaves = [leaf for one in found for leaf in (one, *one.fields) if leaf is one or leaf.name.startswith("[")]
    return [leaf.value for leaf in leaves if isinstance(leaf.value, int)]


def test_a_message_in_one_transmission_is_read_and_parts_of_one_are_shown_as_octets(
    tshark: Tshark, tmp_path: Path
) -> None:
    """A READ's data stand behind the RPC message; a WRITE in two transmissions is not joined, without a complaint."""
    handle = words(4, 0x61626364)
    read = call(8)[:20] + words(6) + call(8)[24:] + handle + words(0, 0, 60)
    write = call(7)[:20] + words(7) + call(7)[24:] + handle + words(0, 0, 100, 2, 100)
    result = words(8, 1, 0, 0, 0, 0, 0, 0, 60, 1, 60)
    request = TransmitRequest((), (DirectionSet(0, 56, (ResultDirection(0, Way.SEGMENTS),)),), 1, 0, len(read))
    answer = TransmitResponse((Item(len(result), 60, InSegments(0, (0,))),), 1, len(result))
    parts = TransmitRequest((Item(len(write), 100, InSegments(32, (2,))),), (), 2, 0, 24)
    capture = tmp_path / "transmissions.pcap"
    with HandMadeCapture(capture) as made:
        made.send(CLIENT, transmission("request", encode_transmit_request(request), xid=8) + read)
        whole = transmission("response", encode_transmit_response(answer), 1, 8) + result
        made.send(SERVER, whole.ljust(256, b"\0") + b"r" * 60)
        made.send(CLIENT, transmission("request", encode_transmit_request(parts)) + write[:24])
        made.send(CLIENT, transmission("continue", words(1, 0x101, len(write) - 24)) + write[24:])
    names = ("rpc.procedure", "nfs.count3", "_ws.malformed", "_ws.expert.severity", "rpcrdma2.htype")
    rows = tshark.fields(capture, "_ws.col.Info", *names)
    assert [row[0][0].partition(" (")[0] for row in rows] == [
        "V3 READ Call",
        "V3 READ Reply",
        "ROPT_XMTREQ XID 0x00000007",
        "ROPT_XMTCONT XID 0x00000007",
    ]
    assert [row[2] for row in rows[:2]] == [["60"], ["60"]]
    assert [row[3] for row in rows] == [[]] * 4
    assert not [level for row in rows for level in row[4] if int(level) >= 0x600000]


def test_cut_or_garbled_transmissions_end_no_dissection(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "cut_transmissions.pcap"
    places = (Item(40, 4, InSegments(0, (0,))), Item(48, 8, Explicit((Segment(1, 2, 3),))))
    sets = (DirectionSet(0, 40, (ResultDirection(0, Way.BY_SIZE, (Segment(1, 2, 3),), 4),)),)
    request = TransmitRequest(places, sets, 2, 0, 40)
    whole = transmission("request", encode_transmit_request(request)) + call(7)
    report = transmission("report", words(7, 0, 1, 1, 7, 0, 0, 6, 1, 2, 3), 1)
    with HandMadeCapture(capture) as made:
        made.send(SERVER, TOLD)
        for message in (whole, report, transmission("continue", words(1, 0x101, 4)) + b"data", TOLD):
            for length in range(16, len(message) + 1):
                made.send(CLIENT, message[:length])
            for at in range(16, len(message), 4):
                for word in (b"\xff\xff\xff\xff", b"\0\0\0\2"):
                    made.send(CLIENT, message[:at] + word + message[at + 4 :])
    rows = tshark.fields(capture, "rpcrdma2.htype", "_ws.lua.error")
    assert len(rows) > 400
    assert [row for row in rows if row[1]] == []
