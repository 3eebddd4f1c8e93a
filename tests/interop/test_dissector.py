"""The Wireshark dissector of version 2 in tshark: it shows what `rpcrdma decode` shows, and marks what is wrong."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from header_vectors import load_headers, octets_of
from rpcrdma.batches.code_points import BATCH
from rpcrdma.batches.messages import encode_batch
from rpcrdma.dissect.connection import Settings
from rpcrdma.dissect.headers import Header, header_versions, walk_header
from rpcrdma.dissect.hex_input import hex_messages
from rpcrdma.dissect.rule_table import LIST_RULES, RULES, Rule
from rpcrdma.dissect.rules import add_property_values
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
from rpcrdma.testing.raw_capture import CLIENT, SERVER, HandMadeCapture
from rpcrdma.transport import Segment
from rtr_vectors import HEADER_TYPES, MESSAGES, VECTORS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: make interop"),
]

# The names in Wireshark of numbers that both show.
NUMBERS = {
    "2": "xid vers credit htype flags inv_handle position handle length offset err max_chunks max_segments "
    "chunk_index vers_low vers_high which",
    "2-07": "xid vers credit htype inv_handle position handle length offset err max_chunks max_segments chunk_index "
    "remaining which",
}
VALUES_OF_PROPERTIES = {"max_send", "receive_buffer", "max_segment", "max_segments", "reverse"}


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4) for number in numbers)


def call(xid: int) -> bytes:
    return words(xid, 0, 2, 100003, 3, 0, 0, 0, 0, 0)


def reply(xid: int) -> bytes:
    return words(xid, 1, 0, 0, 0, 0)


def v2(xid: int, flags: int = 0, *, kind: int = 0, lists: bytes = words(0, 0, 0, 0)) -> bytes:
    return words(xid, 2, 0x00200004, kind, flags) + lists


@pytest.fixture(scope="module", params=["2", "2-07"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Tshark:
    """tshark with the dissector of one draft."""

    def __init__(self, command: str, version: str, directory: Path) -> None:
        self.script = directory / "rpcrdma2.lua"
        options = ["decode", "--lua", "--rpcrdma-version", version]
        self.script.write_bytes(subprocess.run([command, *options], capture_output=True, check=True).stdout)

    def fields(self, capture: Path, *names: str) -> list[list[list[str]]]:
        """The values of these fields in each frame that holds version 2, in the order of `names`."""
        wanted = [argument for name in names for argument in ("-e", name)]
        rows = self._run(capture, "-Y", "rpcrdma2", "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", *wanted)
        return [[cell.split(",") if cell else [] for cell in row.split("\t")] for row in rows.splitlines()]

    def _run(self, capture: Path, *arguments: str) -> str:
        command = ["tshark", "-2", "-X", f"lua_script:{self.script}", "-r", str(capture), *arguments]
        done = subprocess.run(command, capture_output=True, check=True, text=True, errors="replace")
        assert "Lua" not in done.stderr, done.stderr
        return done.stdout


@pytest.fixture
def tshark(rpcrdma_command: str, tmp_path: Path) -> Tshark:
    return Tshark(rpcrdma_command, "2", tmp_path)


def g3_messages() -> list[bytes]:
    segment = words(0x99, 10, 0, 0x1000)
    write = words(1, 2) + segment + words(0x98, 20, 0, 0)
    return [
        words(1, 2, 5, 7, 2, 2, 4, 8192, 5, 4, 2),
        words(1, 2, 5, 6, 0),
        words(0, 2, 5, 5),
        words(7, 2, 5, 8, 0x99, 1, 0) + segment + words(0, 1, 40) + segment + words(0) + write + words(0, 0),
        words(7, 2, 5, 10, 0x98, 0) + write + words(0, 1, 1) + segment + call(7),
        words(7, 2, 5, 11) + write + words(0, 1, 1) + segment,
        words(7, 2, 5, 13) + write + words(0) + reply(7),
        words(9, 2, 5, 9, 20) + call(9)[:20],
        words(9, 2, 5, 10, 0, 0, 0, 0) + call(9)[20:],
        words(7, 2, 5, 4, 11),
        words(7, 2, 5, 4, 9, 1, 9000),
        words(7, 2, 5, 4, 77),
        words(7, 2, 5, 3, 77),
        words(7, 2, 5, 5, 77),
        words(7, 2, 5, 10, 0, 2),
        words(7, 2, 5, 7, 1, 2, 400),
    ]


def messages_of(version: str) -> list[bytes]:
    if version == "2-07":
        return g3_messages()
    vectors = load_headers("headers_v2_00.toml")
    return [
        octets + (call(int.from_bytes(octets[:4])) if vector.get("type") == "Rdma2Msg" else b"")
        for table in ("header", "malformed")
        for vector in vectors[table]
        if len(octets := octets_of(vector)) >= 16 and octets[4:8] == words(2)
    ]


def test_both_show_the_same_numbers_and_the_same_verdict(version: str, rpcrdma_command: str, tmp_path: Path) -> None:
    capture = tmp_path / "vectors.pcap"
    messages = messages_of(version)
    with HandMadeCapture(capture) as made:
        for message in messages:
            made.send(CLIENT, message)
    names = NUMBERS[version].split()
    fields = [f"rpcrdma2.{name}" for name in (*names, *sorted(VALUES_OF_PROPERTIES))]
    rows = Tshark(rpcrdma_command, version, tmp_path).fields(capture, *fields, "_ws.malformed", "_ws.expert.severity")
    assert len(rows) == len(messages) > 10
    faulty = 0
    for message, row in zip(messages, rows, strict=True):
        header = walk_header(header_versions()[version], message)
        for name, shown in zip(names, row, strict=False):
            if name == "max_segments":
                continue  # also the name of a property's value
            ours = [
                one.value
                for one in header.group.walk()
                if one.name == f"rdma_{name}" and one.value is not None and not one.fields
            ]
            assert [int(value, 0) for value in shown] == ours, (name, message.hex())
        marked = bool(row[-2]) or any(int(level) >= 0x800000 for level in row[-1])
        assert marked == bool(header.faults), message.hex()
        faulty += marked
    assert faulty >= 4


def test_messages_and_what_they_carry_are_named(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "conversation.pcap"
    with HandMadeCapture(capture) as made:
        made.send(CLIENT, v2(1, kind=5, lists=words(2, 2, 4, 8192, 5, 4, 2)))
        made.send(SERVER, v2(2, kind=5, lists=words(1, 2, 4, 8192)))
        made.send(CLIENT, v2(7) + call(7))
        made.send(SERVER, v2(7, 1) + reply(7))
        made.send(CLIENT, v2(8, 2) + call(8)[:16])
        made.send(SERVER, v2(0, 1, kind=1))
        made.send(CLIENT, v2(8, 2) + call(8)[16:24])
        made.send(CLIENT, v2(8) + call(8)[24:])
        made.send(SERVER, v2(8, 1, kind=4, lists=words(9, 9000)))
        made.send(SERVER, words(9, 2, 32, 4, 1, 1, 1))
        made.send(SERVER, v2(9, 1, kind=4, lists=words(1, 1, 2)))
    names = ("_ws.col.Info", "rpcrdma2.receive_buffer", "rpc.msgtyp", "rpc.xid", "rpcrdma2.pieces", "_ws.expert")
    rows = tshark.fields(capture, *names)
    assert [row[0][0].partition(" (")[0] for row in rows] == [
        "RDMA2_CONNPROP XID 0x00000001",
        "RDMA2_CONNPROP XID 0x00000002",
        "V3 NULL Call",
        "V3 NULL Reply",
        "RDMA2_MSG XID 0x00000008 [continued]",
        "RDMA2_NOMSG XID 0x00000000",
        "RDMA2_MSG XID 0x00000008 [continued]",
        "V3 NULL Call",
        "RDMA2_ERROR XID 0x00000008 RDMA2_ERR_REPLY_RESOURCE",
        "RDMA2_ERROR XID 0x00000009 RDMA2_ERR_VERS",
        "RDMA2_ERROR XID 0x00000009 RDMA2_ERR_VERS",
    ]
    assert [row[1] for row in rows[:2]] == [["8192"], ["8192"]]
    assert [row[2] for row in rows] == [[], [], ["0"], ["1"], [], [], [], ["0"], [], [], []]
    assert rows[7][3] == ["0x00000008"]
    assert [row[4] for row in rows[4:8]] == [["1"], [], ["2"], ["3"]]
    assert [row[5] for row in rows] == [[]] * len(rows)


SEGMENT = words(0x99, 10, 0, 0x1000)
BROKEN = {
    "reserved flags are set": v2(7, 4) + call(7),
    "RDMA2_NOMSG does not go on in another message": v2(7, 2, kind=1, lists=words(0, 1, 0) + SEGMENT + words(0, 0, 0)),
    "chunks belong into the last message of a sequence": v2(7, 2, lists=words(0, 1, 4) + SEGMENT + words(0, 0, 0)),
    "an error has RESPONSE set": v2(7, kind=4, lists=words(2)),
    "RESPONSE does not fit to a call": v2(6, 1) + call(6),
    "no chunk holds an RPC message": v2(7, kind=1),
    "the RPC message has XID 0x00000008": v2(5) + call(8),
    "a Position is a multiple of 4": v2(7, lists=words(0, 1, 6) + SEGMENT + words(0, 0, 0)) + call(7),
    "this property is there twice": v2(7, kind=5, lists=words(2, 1, 0, 1, 0)),
    "77 is no type of header": v2(7, kind=77),
    "4 more octets follow": v2(7, kind=1, lists=words(0, 1, 0) + SEGMENT + words(0, 0, 0, 77)),
    "rdma_flags: 4 octets needed": v2(7)[:16],
}


def test_what_is_wrong_is_marked_with_the_reason(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "broken.pcap"
    with HandMadeCapture(capture) as made:
        for message in BROKEN.values():
            made.send(CLIENT, message)
    rows = tshark.fields(capture, "_ws.expert.message", "_ws.lua.error")
    told = [",".join(row[0]) for row in rows]
    assert [(reason, said) for reason, said in zip(BROKEN, told, strict=True) if reason not in said] == []
    assert [row[1] for row in rows] == [[]] * len(rows)


READ, WRITES = words(1, 0) + SEGMENT, words(1, 1) + SEGMENT


def g3(xid: int, kind: int, *body: bytes) -> bytes:
    return words(xid, 2, 5, kind) + b"".join(body)


AGAINST_RULES = {
    "2": [
        *BROKEN.values(),
        v2(7, lists=words(0x98, 1, 4) + SEGMENT + words(0, 0, 0)) + call(7),
        v2(7, lists=words(0) + READ + words(0, 0, 0)) + call(7),
        v2(7, 1, lists=words(0, 1, 4) + SEGMENT + words(0, 0, 0)) + reply(7),
        v2(7) + reply(7),
        v2(7),
        v2(7, kind=1, lists=words(0, 0) + WRITES + words(0, 0)),
        v2(7, 1, kind=1, lists=words(0, 0) + WRITES + words(0, 0)),
        v2(7) + call(7),
    ],
    "2-07": [
        g3(7, 10, words(0, 0, 0, 0)),
        g3(7, 13, words(0)),
        g3(7, 10, words(0, 0, 0, 0), reply(7)),
        g3(7, 10, words(0, 1, 4), SEGMENT, words(0, 0, 0), reply(7)),
        g3(7, 13, words(0), call(7)),
        g3(7, 10, words(0, 0, 0, 0), call(8)),
        g3(7, 10, words(0x98, 1, 4), SEGMENT, words(0, 0, 0), call(7)),
        g3(7, 5),
        g3(7, 8, words(0, 0, 0, 0, 0)),
        g3(7, 8, words(0, 1, 4), SEGMENT, words(0, 0, 0, 0)),
        g3(7, 8, words(0), READ, words(0), READ, words(0, 0, 0)),
        g3(7, 10, words(0), READ, words(0, 0, 0), call(7)),
        g3(7, 10, words(0, 1, 8), SEGMENT, words(1, 4), SEGMENT, words(0, 0, 0), call(7)),
        g3(7, 11, words(0, 0)),
        g3(7, 10, words(0x99, 1, 4), SEGMENT, words(0, 0, 0), call(7)),
        g3(5, 9, words(40), reply(5)),
        g3(6, 12, words(24), call(6)),
    ],
}


def test_both_hold_messages_against_the_same_rules(version: str, rpcrdma_command: str, tmp_path: Path) -> None:
    capture = tmp_path / "rules.pcap"
    with HandMadeCapture(capture) as made:
        for message in AGAINST_RULES[version]:
            made.send(CLIENT, message)
    rows = Tshark(rpcrdma_command, version, tmp_path).fields(capture, "_ws.expert.message", "_ws.lua.error")
    rules = [*LIST_RULES.get(version, ()), *RULES[version]]
    told: set[str] = set()
    for message, (shown, errors) in zip(AGAINST_RULES[version], rows, strict=True):
        (found,) = hex_messages(message, Settings(version), iwarp=False)
        ours = {f"{fault.reason} [{fault.section}]" for fault in found.faults}
        theirs = {reason for reason in _expert_messages(shown) if "[version-two" in reason}
        if theirs:
            assert theirs == ours, message.hex()
        else:
            assert not any(_is_of(rule, reason) for rule in rules for reason in ours), message.hex()
        told |= theirs
        assert errors == []
    # Types 9 and 12 have two rules each, of which one is about the other's messages.
    assert [rule for rule in rules if not any(_is_of(rule, reason) for reason in told)] == []


def _expert_messages(shown: list[str]) -> list[str]:
    """Their commas separate fields, too."""
    return [reason for reason in ",".join(shown).replace("],", "]\0").split("\0") if reason]


def _is_of(rule: Rule, reason: str) -> bool:
    pattern = re.sub(r"\\\{[^}]*\}", ".*", re.escape(f"{rule.reason} [{rule.section}]"))
    return re.fullmatch(pattern, reason) is not None


def test_what_rdma_moved_is_said_in_words(tshark: Tshark, tmp_path: Path) -> None:
    """An argument and a result, of a length that is padded; the RPC message around them is read as it was."""
    capture = tmp_path / "moved.pcap"
    chunk = words(0x99, 2049, 0, 0)
    write = words(7, 0, 2, 100003, 3, 7, 0, 0, 0, 0, 8, 1, 2, 0, 0, 2049, 0, 2049)
    read = words(8, 0, 2, 100003, 3, 6, 0, 0, 0, 0, 8, 1, 2, 0, 0, 2049)
    read_reply = words(8, 1, 0, 0, 0, 0, 0, 0, 2049, 1, 2049)
    with HandMadeCapture(capture) as made:
        made.send(CLIENT, v2(7, lists=words(0, 1, len(write)) + chunk + words(0, 0, 0)) + write)
        made.send(CLIENT, v2(8, lists=words(0, 0, 1, 1) + chunk + words(0, 0)) + read)
        made.send(SERVER, v2(8, 1, lists=words(0, 0, 1, 1) + chunk + words(0, 0)) + read_reply)
    rows = tshark.fields(capture, "nfs.data", "rpcrdma2.moved_length", "_ws.malformed", "_ws.lua.error")
    words_of_it = (b"moved by RDMA. " * 200)[:2049].hex()
    shown = [(row[0], row[1]) for row in rows]
    assert shown == [([words_of_it], ["2049"]), ([], []), ([words_of_it], ["2049"])]
    assert [row[2:] for row in rows] == [[[], []]] * 3


def test_messages_of_version_1_and_rdma_writes_are_left_to_wireshark(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "version_1.pcap"
    with HandMadeCapture(capture) as made:
        made.send(CLIENT, words(7, 1, 32, 0, 0, 0, 0) + call(7))
        made.write(SERVER, 0x99, 0, v2(7) + call(7))
        made.send(CLIENT, b"too short")
    assert tshark.fields(capture, "rpcrdma2.xid") == []


def test_a_cut_or_garbled_message_ends_no_dissection(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "cut.pcap"
    whole = v2(7, lists=words(0x99, 1, 4) + SEGMENT + words(0, 1, 1) + SEGMENT + words(0, 1, 1) + SEGMENT) + call(7)
    properties = v2(7, kind=5, lists=words(2, 2, 4, 8192, 6, 8, 3, 0x61626300))
    with HandMadeCapture(capture) as made:
        for message in (whole, properties):
            for length in range(16, len(message) + 1):
                made.send(CLIENT, message[:length])
            for at in range(16, len(message), 4):
                made.send(CLIENT, message[:at] + b"\xff\xff\xff\xff" + message[at + 4 :])
    rows = tshark.fields(capture, "rpcrdma2.xid", "_ws.lua.error")
    assert len(rows) > 200
    assert [row for row in rows if row != [["0x00000007"], []]] == []


# The round-trip extension


def transmission(kind: str, body: bytes, flags: int = 0, xid: int = 7) -> bytes:
    return words(xid, 2, 0x00200020, HEADER_TYPES[kind], flags) + body


def begin(*items: Item, count: int = 1, payload: bytes = b"") -> bytes:
    return (
        transmission("request", encode_transmit_request(TransmitRequest(items, (), count, 0, len(payload)))) + payload
    )


def go_on(number: int, payload: bytes, *, xid: int = 7, flags: int = 0, begun_by: int = 0x101) -> bytes:
    return transmission("continue", words(number, begun_by, len(payload)), flags, xid) + payload


def laid_out(message: bytes, *data: bytes) -> bytes:
    """With data in the placeable segments of PAGES, from the first on."""
    return message.ljust(256, b"\0") + b"".join(data)


PAGES = BufferStructure(256 + 4 * 64, ((1, SegmentKind(256, 0, placeable=False)), (4, SegmentKind(64, 0, True))))
STRUCTURE = encode_buffer_structure(PAGES)
TOLD = v2(1, kind=5, lists=words(2, 0x101, 4, 7, 0x102, len(STRUCTURE)) + STRUCTURE)


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
    "segment 4, the group has 4": [begin(Item(40, 4, InSegments(0, (4,))))],
    "offset 64 in a segment of 64 octets": [begin(Item(40, 4, InSegments(64, (0,))))],
    "65 octets, its segments have room for 64": [laid_out(begin(Item(40, 65, InSegments(0, (0,)))), bytes(64))],
    "item 0 goes beyond the end of the message": [laid_out(begin(ITEM), b"dat")],
    "the padding is not zero": [laid_out(begin(ITEM) + b"x", b"data")],
    "transmission 1 is next": [FIRST, go_on(2, b"")],
    "the group has XID 0x00000007": [FIRST, go_on(1, b"", xid=9)],
    "the group has begun with ROPT_XMTREQ": [FIRST, go_on(1, b"", begun_by=0x102)],
    "RESPONSE does not fit to the group": [FIRST, go_on(1, b"", flags=1)],
    "the group with XID 0x00000007 has not ended": [FIRST, begin(payload=call(7))],
    "the group with XID 0x00000007 has not ended (2)": [FIRST, v2(7) + call(7)],
    "there is no group to be continued": [go_on(1, b"")],
    "the RPC message has another XID": [begin(payload=call(8))],
    "RESPONSE does not fit to a report about this": [transmission("report", words(7, 0, 1, 0, 3))],
    "not the XID of the transmission that is wrong": [transmission("report", words(8, 0, 1, 0, 3), 1)],
}


def test_what_is_wrong_with_transmissions_is_marked_once(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "broken_transmissions.pcap"
    with HandMadeCapture(capture) as made:
        made.send(SERVER, TOLD)
        for messages in BROKEN_TRANSMISSIONS.values():
            for message in messages:
                made.send(CLIENT, message)
            made.send(CLIENT, begin(payload=call(7)))  # all is well again
    rows = tshark.fields(capture, "_ws.expert.message", "_ws.expert.severity", "_ws.lua.error")
    found = iter(rows[1:])
    for reason, messages in BROKEN_TRANSMISSIONS.items():
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


def batch(*messages: bytes, flags: int = 0) -> bytes:
    return v2(7, flags, kind=BATCH, lists=encode_batch(messages))


def test_several_rpc_messages_in_one_are_all_given_on(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "batches.pcap"
    with HandMadeCapture(capture) as made:
        made.send(CLIENT, batch(call(7), call(8), call(9)))
        made.send(SERVER, batch(reply(7), reply(9), flags=1))
        broken = (batch(call(8), call(7)), batch(call(7), reply(8)), batch(), batch(call(7)) + bytes(4))
        for message in broken:
            made.send(CLIENT, message)
        whole = batch(call(7), call(8))
        for length in range(16, len(whole)):
            made.send(CLIENT, whole[:length])
    rows = tshark.fields(capture, "rpc.xid", "rpc.msgtyp", "_ws.expert.message", "_ws.expert.severity", "_ws.lua.error")
    assert [row[:2] for row in rows[:2]] == [
        [["0x00000007", "0x00000008", "0x00000009"], ["0", "0", "0"]],
        [["0x00000007", "0x00000009"], ["1", "1"]],
    ]
    severe = [[level for level in levels if int(level) >= 0x600000] for _, _, _, levels, _ in rows]
    assert severe[:2] == [[], []]
    assert [len(levels) for levels in severe[2:6]] == [1] * 4
    assert all(severe[6:])
    said = [",".join(row[2]) for row in rows[2:6]]
    for text, reason in zip(
        said, ("has XID 0x00000008", "RESPONSE does not fit", "no RPC message", "4 more"), strict=True
    ):
        assert reason in text
    assert [row for row in rows if row[4]] == []


def test_every_message_of_our_own_demo_is_understood(version: str, rpcrdma_command: str, tmp_path: Path) -> None:
    tree, capture = tmp_path / "tree", tmp_path / "demo.pcap"
    tree.mkdir()
    for size in (0, 100, 3000, 30_000, 300_000):
        (tree / f"file-{size}").write_bytes(bytes(range(256)) * (size // 256) + bytes(size % 256))
    for number in range(300):
        (tree / f"one of many files, number {number:04}").write_bytes(b"x" * number)
    command = [rpcrdma_command, "demo", "--rpcrdma-version", version, "--source", str(tree), "--json"]
    done = subprocess.run([*command, "--pcap", str(capture)], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["mismatches"] == 0
    rows = Tshark(rpcrdma_command, version, tmp_path).fields(
        capture, "rpcrdma2.xid", "rpc.msgtyp", "rpc.program", "_ws.malformed", "_ws.expert.severity", "_ws.lua.error"
    )
    xids, types, programs, malformed, severities, errors = (
        [value for row in rows for value in row[column]] for column in range(6)
    )
    calls = report["calls"]["total"]
    assert len(xids) == report["rdma"]["sends"]
    # The RPC message of a long call or reply is in no Send.
    assert Counter(types)["0"] == calls - report["calls"]["long_call"]
    assert Counter(types)["1"] == calls - report["calls"]["long_reply"]
    assert set(programs) == {"100003"}
    assert malformed == errors == []
    assert [level for level in severities if int(level) >= 0x800000] == []


def test_captures_that_wireshark_has_written_are_read(rpcrdma_command: str, tmp_path: Path) -> None:
    """editcap comes with tshark."""
    capture = tmp_path / "own.pcap"
    with HandMadeCapture(capture) as made:
        made.send(CLIENT, words(7, 1, 32, 0, 0, 0, 0) + call(7))
        made.send(SERVER, words(7, 1, 32, 0, 0, 0, 0) + reply(7))
    shown = set()
    for form in ("pcapng", "nsecpcap"):
        converted = tmp_path / form
        subprocess.run(["editcap", "-F", form, str(capture), str(converted)], check=True, capture_output=True)
        command = [rpcrdma_command, "decode", "--brief", str(converted)]
        shown.add(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    (text,) = shown
    assert text.count("\n") == 4
    assert "call NFS_V3 NULL" in text
