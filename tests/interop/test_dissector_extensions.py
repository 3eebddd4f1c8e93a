"""The Wireshark dissector of version 2 in tshark: the additions of extensions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from dissector_in_tshark import Tshark, call, reply, v2

from header_vectors import octets_of
from rpcrdma.dissect.headers import Header, header_versions, walk_header
from rpcrdma.dissect.rules import add_property_values
from rpcrdma.rtr.messages import (
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    NotPlaced,
    ResultDirection,
    TransmitRequest,
    TransmitResponse,
    Way,
    encode_transmit_request,
    encode_transmit_response,
)
from rpcrdma.rtr.properties import BufferStructure, SegmentKind, encode_buffer_structure
from rpcrdma.transport import Segment
from rtr_vectors import HEADER_TYPES, MESSAGES, VECTORS
from support.octets import words
from support.raw_capture import CLIENT, SERVER, HandMadeCapture

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: make interop"),
]


EACH_DRAFT = pytest.mark.parametrize("version", ["2", "2-07"])


@pytest.fixture
def tshark(rpcrdma_command: str, tmp_path: Path) -> Tshark:
    return Tshark(rpcrdma_command, "2", tmp_path)


def transmission(kind: str, body: bytes, flags: int = 0, xid: int = 7) -> bytes:
    return words(xid, 2, 0x00200020, HEADER_TYPES[kind], flags) + body


def begin(*items: Item, count: int = 1, payload: bytes = b"") -> bytes:
    return (
        transmission("request", encode_transmit_request(TransmitRequest(items, (), count, 0, len(payload)))) + payload
    )


def ask(*directions: ResultDirection, extra: int = 0) -> bytes:
    sets = (DirectionSet(0, 40, directions),) if directions else ()
    body = encode_transmit_request(TransmitRequest((), sets, 1, extra, len(call(7))))
    return transmission("request", body) + call(7)


def answer(*items: Item, count: int = 1) -> bytes:
    body = encode_transmit_response(TransmitResponse(items, count, len(reply(7))))
    return transmission("response", body, 1) + reply(7)


def go_on(number: int, payload: bytes, *, xid: int = 7, flags: int = 0, begun_by: int = 0x101) -> bytes:
    return transmission("continue", words(number, begun_by, len(payload)), flags, xid) + payload


def laid_out(message: bytes, *data: bytes) -> bytes:
    """With data in the placeable segments of PAGES, from the first on."""
    return message.ljust(256, b"\0") + b"".join(data)


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
    rows = Tshark(rpcrdma_command, "2", tmp_path).fields(capture, *fields, "_ws.expert.severity", "_ws.lua.error")
    assert len(rows) == len(messages) > 40
    assert len(names) > 25
    faulty = 0
    for message, header, row in zip(messages, headers, rows, strict=True):
        for name, shown in zip(names, row, strict=False):
            assert [int(value, 0) for value in shown] == shown_numbers(header, name), (name, message.hex())
        assert row[-1] == []
        marked = any(int(level) >= 0x800000 for level in row[-2])
        assert marked == bool(header.faults), message.hex()
        faulty += marked
    assert faulty > 15


def shown_numbers(header: Header, name: str) -> list[int]:
    """Of an array of numbers each has the array's name in Wireshark."""
    found = [one for one in header.group.walk() if one.name == name]
    leaves = [leaf for one in found for leaf in (one, *one.fields) if leaf is one or leaf.name.startswith("[")]
    return [leaf.value for leaf in leaves if isinstance(leaf.value, int)]


def test_groups_are_joined_with_the_data_of_their_items(tshark: Tshark, tmp_path: Path) -> None:
    """WRITE of 100 octets to a file: Wireshark's NFS dissector finds them where they belong."""
    handle = words(4, 0x61626364)
    write = words(7, 0, 2, 100003, 3, 7, 0, 0, 0, 0) + handle + words(0, 0, 100, 2, 100)
    item = Item(len(write), 100, InSegments(32, (2, 5)))
    data = bytes(range(100))
    read = call(8)[:20] + words(6) + call(8)[24:] + handle + words(0, 0, 60)
    result = words(8, 1, 0, 0, 0, 0, 0, 0, 60, 1, 60)
    answer = TransmitResponse((Item(len(result), 60, InSegments(0, (0,))),), 1, len(result))
    capture = tmp_path / "groups.pcap"
    with HandMadeCapture(capture) as made:
        made.send(CLIENT, TOLD)
        made.send(SERVER, TOLD)
        made.send(CLIENT, laid_out(begin(item, count=2, payload=write[:24]), bytes(128 + 32), data[:32]))
        made.send(CLIENT, laid_out(go_on(1, write[24:]), bytes(64), data[32:64] + data[64:96]))
        made.send(SERVER, transmission("report", words(7, 0, 1, 0, 8, 100, 0, 64), 1))
        request = TransmitRequest((), (DirectionSet(0, 56, (ResultDirection(0, Way.SEGMENTS),)),), 1, 0, len(read))
        made.send(CLIENT, transmission("request", encode_transmit_request(request), xid=8) + read)
        reply_ = transmission("response", encode_transmit_response(answer), 1, 8) + result
        made.send(SERVER, laid_out(reply_, b"r" * 60))
    names = ["transmission", "placed", "pieces", "joined_length", "moved_length", "optre_which"]
    names = [f"rpcrdma2.{name}" for name in names]
    rows = tshark.fields(
        capture, "_ws.col.Info", *names, "rpc.procedure", "nfs.count3", "nfs.data", "_ws.expert.message"
    )
    columns = dict(zip(("info", *names, "procedure", "count", "data", "told"), zip(*rows, strict=True), strict=True))
    assert columns["rpcrdma2.transmission"] == ([], [], ["0"], ["1"], [], ["0"], ["0"])
    assert columns["rpcrdma2.pieces"] == ([], [], [], ["2"], [], [], [])
    assert columns["rpcrdma2.joined_length"] == ([], [], [], [str(len(write) + 100)], [], [], [])
    assert columns["rpcrdma2.moved_length"][3] == ["4"]
    assert columns["rpcrdma2.placed"][2] == [data[:32].hex()]
    assert columns["rpcrdma2.placed"][3] == [data[32:96].hex()]
    assert columns["rpcrdma2.placed"][6] == [(b"r" * 60).hex()]
    assert columns["data"][3] == [data[:96].hex() + b"move".hex()]
    assert columns["data"][6] == [(b"r" * 60).hex()]
    assert [row[0][0].partition(" (")[0] for row in rows][2:5] == [
        "ROPT_XMTREQ XID 0x00000007 [transmission 0 of 2]",
        "V3 WRITE Call",
        "ROPT_REPTERR XID 0x00000007 OPTRERR_BADPL",
    ]
    assert ",".join(columns["told"][2]) == "100 octets, its segments have room for 96"
    assert [told for number, told in enumerate(columns["told"]) if number != 2] == [[]] * 6


def in_last_draft(octets: bytes) -> bytes:
    """The same message without flags; data in segments stay where they are."""
    kind = {0: 10, 5: 7}.get(int.from_bytes(octets[12:16]), int.from_bytes(octets[12:16]))
    placed_at = min(len(octets), 256)
    gap = bytes(4 if len(octets) > 256 else 0)
    return octets[:8] + words(100, kind) + octets[20:placed_at] + gap + octets[placed_at:]


def test_a_read_of_a_mebibyte_that_rdma_moved_is_whole(tshark: Tshark, tmp_path: Path) -> None:
    octets = 1 << 20
    memory = (Segment(0x55, octets, 0),)
    read = call(8)[:20] + words(6) + call(8)[24:] + words(4, 0x61626364, 0, 0, octets)
    result = words(8, 1, 0, 0, 0, 0, 0, 0, octets, 1, octets)
    request = TransmitRequest((), (DirectionSet(0, 56, (ResultDirection(0, Way.EXPLICIT, memory),)),), 1, 0, len(read))
    answer = TransmitResponse((Item(len(result), octets, Explicit(memory)),), 1, len(result))
    capture = tmp_path / "moved.pcap"
    with HandMadeCapture(capture) as made:
        made.send(CLIENT, transmission("request", encode_transmit_request(request), xid=8) + read)
        made.send(SERVER, transmission("response", encode_transmit_response(answer), 1, 8) + result)
    _, (moved, count, told) = tshark.fields(capture, "rpcrdma2.moved_length", "nfs.count3", "_ws.expert.message")
    assert (moved, count, told) == ([str(octets)], [str(octets)], [])


ITEM = Item(40, 4, InSegments(0, (0,)))
FIRST = begin(count=2, payload=call(7)[:20])
BROKEN_TRANSMISSIONS = {
    "44 octets of payload, 40 follow": [begin(payload=call(7) + bytes(4))[:-4]],
    "a group has at least one transmission": [begin(count=0)],
    "RESPONSE does not fit to ROPT_XMTREQ": [transmission("request", begin()[20:], 1)],
    "a Position is a multiple of 4": [laid_out(begin(Item(42, 4, InSegments(0, (0,)))), b"data")],
    "48 or more is needed after the item before": [
        laid_out(begin(Item(40, 5, InSegments(0, (0,))), Item(44, 4, InSegments(8, (0,)))), b"datum\0\0\0data")
    ],
    "the range begins at 8": [
        transmission("request", encode_transmit_request(TransmitRequest((), (DirectionSet(8, 4, ()),), 1, 0, 0)))
    ],
    "9 or more is needed after the range before": [
        transmission(
            "request",
            encode_transmit_request(TransmitRequest((), (DirectionSet(8, 8, ()), DirectionSet(8, 9, ())), 1, 0, 0)),
        )
    ],
    "segment 4, the group has 4": [begin(Item(40, 4, InSegments(0, (4,))))],
    "offset 64 in a segment of 64 octets": [begin(Item(40, 4, InSegments(64, (0,))))],
    "65 octets, its segments have room for 64": [laid_out(begin(Item(40, 65, InSegments(0, (0,)))), bytes(64))],
    "item 0 goes beyond the end of the message": [laid_out(begin(ITEM), b"dat")],
    "the padding is not zero": [laid_out(begin(ITEM) + b"x", b"data")],
    "the payload begins in the first transmission": [begin(count=2), go_on(1, call(7))],
    "transmission 1 is next": [FIRST, go_on(2, b"")],
    "the group has XID 0x00000007": [FIRST, go_on(1, b"", xid=9)],
    "the group has begun with ROPT_XMTREQ": [FIRST, go_on(1, b"", begun_by=0x102)],
    "RESPONSE does not fit to the group": [FIRST, go_on(1, b"", flags=1)],
    "the group with XID 0x00000007 has not ended": [FIRST, begin(payload=call(7))],
    "the group with XID 0x00000007 has not ended (2)": [FIRST, v2(7) + call(7)],
    "there is no group to be continued": [go_on(1, b"")],
    "the RPC message has XID 0x00000008": [begin(payload=call(8))],
    "RESPONSE does not fit to a report about this": [transmission("report", words(7, 0, 1, 0, 3))],
    "not the XID of the transmission that is wrong": [transmission("report", words(8, 0, 1, 0, 3), 1)],
}


SEGMENTS = ResultDirection(16, Way.SEGMENTS)
MEMORY = (Segment(0x55, 4096, 0),)
BROKEN_RESPONSES = {
    "5 transmissions, the sender has said 4": answer(Item(0, 0, NotPlaced.NO_ITEM), count=5),
    "3 transmissions, the request allows 2": answer(Item(0, 0, NotPlaced.NO_ITEM), count=3),
    "0 items, the request has 1 directions": answer(),
    "2 items, the request has 1 directions": answer(*[Item(0, 0, NotPlaced.NO_ITEM)] * 2),
    "item 1: the request's direction does not allow this": answer(Item(24, 4096, Explicit(MEMORY))),
    "item 1: 12 octets, the request places 16 or more": laid_out(answer(Item(24, 12, InSegments(0, (0,)))), b"d" * 12),
    "item 1: 16 octets are not too short, the request places 16": answer(Item(24, 16, NotPlaced.TOO_SHORT)),
}


@EACH_DRAFT
def test_a_response_is_held_against_its_request(rpcrdma_command: str, tmp_path: Path, version: str) -> None:
    said = in_last_draft if version == "2-07" else bytes
    capture = tmp_path / "responses.pcap"
    with HandMadeCapture(capture) as made:
        for end in (CLIENT, SERVER):
            made.send(end, said(TOLD))
        for number, message in enumerate(BROKEN_RESPONSES.values()):
            made.send(CLIENT, said(ask(SEGMENTS, extra=4 if number == 0 else 1)))
            made.send(SERVER, said(message))
            # Without a request nothing is asked for; the next one, if there was a group, is broken off by it.
            made.send(SERVER, said(answer()))
        for item in (Item(24, 16, InSegments(0, (0,))), Item(24, 15, NotPlaced.TOO_SHORT)):
            made.send(CLIENT, said(ask(SEGMENTS)))
            made.send(SERVER, said(laid_out(answer(item), b"d" * 16 if item.length == 16 else b"")))
    rows = Tshark(rpcrdma_command, version, tmp_path).fields(
        capture, "_ws.expert.message", "_ws.expert.severity", "_ws.lua.error"
    )
    told = [(",".join(text), [level for level in levels if int(level) >= 0x600000]) for text, levels, _ in rows[2:]]
    assert [row[2] for row in rows if row[2]] == []
    for number, reason in enumerate(BROKEN_RESPONSES):
        asked, answered, after = told[3 * number : 3 * number + 3]
        assert asked[1] == []
        assert len(answered[1]) == 1, (reason, answered)
        assert reason in answered[0]
        assert after[1] == [] or "has not ended" in after[0], (reason, after)
    assert [levels for _, levels in told[3 * len(BROKEN_RESPONSES) :]] == [[]] * 4


@EACH_DRAFT
def test_what_the_other_end_does_not_take_is_marked(rpcrdma_command: str, tmp_path: Path, version: str) -> None:
    said = in_last_draft if version == "2-07" else bytes
    capture = tmp_path / "support.pcap"
    nothing = v2(1, kind=5, lists=words(0))
    with HandMadeCapture(capture) as made:
        for end in (CLIENT, SERVER):
            made.send(end, said(nothing))
        for message in (begin(payload=call(7)), begin(count=2, payload=call(7)), go_on(1, b"")):
            made.send(CLIENT, said(message))
        made.send(SERVER, said(TOLD))
        for message in (begin(count=5, payload=call(7)), *[go_on(number, b"") for number in range(1, 5)]):
            made.send(CLIENT, said(message))
    rows = Tshark(rpcrdma_command, version, tmp_path).fields(
        capture, "_ws.expert.message", "_ws.expert.severity", "_ws.lua.error"
    )
    assert [row[2] for row in rows if row[2]] == []
    told = [",".join(text) for text, levels, _ in rows if any(int(level) >= 0x600000 for level in levels)]
    for text, reasons in zip(
        told,
        (
            ["does not take ROPT_XMTREQ"],
            ["does not take ROPT_XMTREQ", "2 transmissions, the receiver takes 1"],
            ["does not take ROPT_XMTCONT"],
            ["5 transmissions, the receiver takes 4"],
        ),
        strict=True,
    ):
        assert all(reason in text for reason in reasons), text


@EACH_DRAFT
def test_what_is_wrong_with_transmissions_is_marked_once(rpcrdma_command: str, tmp_path: Path, version: str) -> None:
    said = in_last_draft if version == "2-07" else bytes
    broken = {
        reason: messages
        for reason, messages in BROKEN_TRANSMISSIONS.items()
        if version == "2" or "RESPONSE" not in reason
    }
    capture = tmp_path / "broken_transmissions.pcap"
    with HandMadeCapture(capture) as made:
        made.send(SERVER, said(TOLD))
        for messages in broken.values():
            for message in messages:
                made.send(CLIENT, said(message))
            made.send(CLIENT, said(begin(payload=call(7))))  # all is well again
    rows = Tshark(rpcrdma_command, version, tmp_path).fields(
        capture, "_ws.expert.message", "_ws.expert.severity", "_ws.lua.error"
    )
    found = iter(rows[1:])
    for reason, messages in broken.items():
        told = [next(found) for _ in messages]
        severe = [level for _, levels, _ in told for level in levels if int(level) >= 0x600000]
        assert len(severe) == 1, (reason, told)
        assert reason.partition(" (2)")[0] in "".join(",".join(text) for text, _, _ in told)
        assert next(found) == [[], [], []], reason
    assert next(found, None) is None


def test_data_for_buffers_that_are_unknown_is_shown_as_it_is(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "unknown.pcap"
    with HandMadeCapture(capture) as made:
        made.send(CLIENT, go_on(1, b"data") + b"\1\2")
        made.send(CLIENT, begin(ITEM, payload=call(7)) + b"\0\0data")
    rows = tshark.fields(capture, "rpcrdma2.unknown", "rpcrdma2.payload", "_ws.expert.severity")
    assert [row[0] for row in rows] == [["0102"], ["000064617461"]]
    assert rows[0][1] == [b"data".hex()]
    assert [level for row in rows for level in row[2] if int(level) >= 0x600000] == []


def test_cut_or_garbled_transmissions_end_no_dissection(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "cut_transmissions.pcap"
    places = (ITEM, Item(48, 8, Explicit((Segment(1, 2, 3),))))
    sets = (DirectionSet(0, 40, (ResultDirection(0, Way.BY_SIZE, (Segment(1, 2, 3),), 4),)),)
    request = TransmitRequest(places, sets, 2, 0, 40)
    whole = transmission("request", encode_transmit_request(request)) + call(7)
    report = transmission("report", words(7, 0, 1, 1, 7, 0, 0, 6, 1, 2, 3), 1)
    with HandMadeCapture(capture) as made:
        made.send(SERVER, TOLD)
        for message in (whole, report, go_on(1, b"data"), TOLD):
            for length in range(16, len(message) + 1):
                made.send(CLIENT, message[:length])
            for at in range(16, len(message), 4):
                for word in (b"\xff\xff\xff\xff", b"\0\0\0\2"):
                    made.send(CLIENT, message[:at] + word + message[at + 4 :])
    rows = tshark.fields(capture, "rpcrdma2.htype", "_ws.lua.error")
    assert len(rows) > 400
    assert [row for row in rows if row[1]] == []
