"""The Wireshark dissector of version 2 in tshark: it shows the fields of `rpcrdma decode`, and marks each fault."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from dissector_in_tshark import Tshark, call, reply, v2

from header_vectors import load_headers, octets_of
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.headers import header_versions, walk_header
from rpcrdma_lab.dissect.hex_text import hex_messages
from rpcrdma_lab.dissect.rule_table import RULES, Rule
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


# The names in Wireshark of numbers that both show.
NUMBERS = [
    "xid",
    "vers",
    "credit",
    "htype",
    "flags",
    "inv_handle",
    "position",
    "handle",
    "length",
    "offset",
    "err",
    "max_chunks",
    "max_segments",
    "chunk_index",
    "vers_low",
    "vers_high",
    "which",
]
VALUES_OF_PROPERTIES = {"max_send", "receive_buffer", "max_segment", "max_segments", "reverse"}


def messages_of_vectors() -> list[bytes]:
    vectors = load_headers("headers_v2.toml")
    return [
        octets + (call(int.from_bytes(octets[:4])) if vector.get("type") == "Rdma2Msg" else b"")
        for table in ("header", "malformed")
        for vector in vectors[table]
        if len(octets := octets_of(vector)) >= 16 and octets[4:8] == words(2)
    ]


def test_both_show_the_same_numbers_and_the_same_verdict(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "vectors.pcap"
    messages = messages_of_vectors()
    with HandMadeCapture(capture) as made:
        for message in messages:
            made.send(CLIENT, message)
    fields = [f"rpcrdma2.{name}" for name in (*NUMBERS, *sorted(VALUES_OF_PROPERTIES))]
    rows = tshark.fields(capture, *fields, "_ws.malformed", "_ws.expert.severity")
    assert len(rows) == len(messages) > 10
    faulty = 0
    for message, row in zip(messages, rows, strict=True):
        header = walk_header(header_versions()["2"], message)
        for name, shown in zip(NUMBERS, row, strict=False):
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


def test_long_messages_in_many_pieces_take_no_more_memory_than_their_octets(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcap"
    with HandMadeCapture(capture) as made:
        for xid in range(1, 9):
            for more in range(249, -1, -1):
                made.send(CLIENT, v2(xid, 2 if more else 0) + (call(xid) if more == 249 else b"") + bytes(4000))
    assert tshark.fields(capture, "rpcrdma2.pieces", "rpcrdma2.joined_length")[-1] == [["250"], ["1000040"]]


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


AGAINST_RULES = [
    *BROKEN.values(),
    v2(7, lists=words(0x98, 1, 4) + SEGMENT + words(0, 0, 0)) + call(7),
    v2(7, lists=words(0) + READ + words(0, 0, 0)) + call(7),
    v2(7, 1, lists=words(0, 1, 4) + SEGMENT + words(0, 0, 0)) + reply(7),
    v2(7) + reply(7),
    v2(7),
    v2(7, kind=1, lists=words(0, 0) + WRITES + words(0, 0)),
    v2(7, 1, kind=1, lists=words(0, 0) + WRITES + words(0, 0)),
    v2(7) + call(7),
]


def test_both_hold_messages_against_the_same_rules(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "rules.pcap"
    with HandMadeCapture(capture) as made:
        for message in AGAINST_RULES:
            made.send(CLIENT, message)
    rows = tshark.fields(capture, "_ws.expert.message", "_ws.lua.error")
    rules = RULES["2"]
    told: set[str] = set()
    for message, (shown, errors) in zip(AGAINST_RULES, rows, strict=True):
        (found,) = hex_messages(message, Settings(), iwarp=False)
        ours = {f"{fault.reason} [{fault.section}]" for fault in found.faults}
        theirs = {reason for reason in _expert_messages(shown) if "[version-two" in reason or "[rtrext" in reason}
        if theirs:
            assert theirs == ours, message.hex()
        else:
            assert not any(_is_of(rule, reason) for rule in rules for reason in ours), message.hex()
        told |= theirs
        assert errors == []
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


def test_every_message_of_our_own_demo_is_understood(tshark: Tshark, rpcrdma_command: str, tmp_path: Path) -> None:
    tree, capture = tmp_path / "tree", tmp_path / "demo.pcap"
    tree.mkdir()
    for size in (0, 100, 3000, 30_000, 300_000):
        (tree / f"file-{size}").write_bytes(bytes(range(256)) * (size // 256) + bytes(size % 256))
    for number in range(300):
        (tree / f"one of many files, number {number:04}").write_bytes(b"x" * number)
    command = [rpcrdma_command, "demo", "--rpcrdma-version", "2", "--source", str(tree), "--json"]
    done = subprocess.run([*command, "--pcap", str(capture)], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["mismatches"] == 0
    rows = tshark.fields(
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
    assert set(programs) == {"100003", "100005"}
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
