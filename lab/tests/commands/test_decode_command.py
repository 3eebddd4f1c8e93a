"""`rpcrdma decode`: captures and hex text in, annotated messages out; the exit status says whether all was right."""

from __future__ import annotations

import io
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.cli.main import main
from support.cases import each_case
from support.raw_capture import CLIENT, SERVER, HandMadeCapture

if TYPE_CHECKING:
    from support.commands import Command

V1_CALL = "0a0b0c0d 00000001 00000020 00000000 00000000 00000000 00000000 "
RPC_CALL = "0a0b0c0d 00000000 00000002 000186a3 00000003 00000001 00000000 00000000 00000000 00000000"
FLAGS = "00000007 00000002 00200020 00000000 00000004 00000000 00000000 00000000 00000000"


def decode(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: str | bytes | Path, *options: str
) -> tuple[int, str, str]:
    """(status, standard output, standard error)."""
    arguments = ["decode", *options]
    if isinstance(data, Path):
        arguments.append(str(data))
    else:
        octets = data.encode() if isinstance(data, str) else data
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(octets)))
    status = main(arguments)
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_message_in_hex_is_shown_field_by_field(monkeypatch, capsys) -> None:
    status, out, err = decode(monkeypatch, capsys, V1_CALL + RPC_CALL)
    assert status == 0
    assert err == "input: hex digits, 68 octets of an RPC-over-RDMA message\n1 message, 0 with something wrong\n"
    lines = out.splitlines()
    assert lines[0] == "#1 RDMA_MSG xid 0x0a0b0c0d: call NFS_V3 GETATTR"
    assert "  RPC-over-RDMA version 1" in lines
    (vers,) = [line for line in lines if " rdma_vers " in line]
    assert vers.split() == ["4", "4", "rdma_vers", "1", "version", "of", "RPC-over-RDMA", "[RFC", "8166", "4.2.2]"]
    (proc,) = [line for line in lines if " proc " in line]
    assert proc.split() == ["20", "4", "proc", "1", "(NFS_V3", "GETATTR)", "procedure", "[RFC", "5531", "9]"]


def test_what_is_wrong_is_said_with_its_section(monkeypatch, capsys) -> None:
    status, out, err = decode(monkeypatch, capsys, FLAGS + RPC_CALL.replace("0a0b0c0d", "00000007"))
    assert status == 4
    assert "wrong: rdma_flags at offset 16: reserved flags are set [version-two-00 6.3.2, V2-37]" in out
    assert "1 with something wrong" in err
    assert [line for line in out.splitlines() if "<-- wrong: reserved flags are set" in line]


BATCHES = f"{Path(__file__).parents[3] / 'examples' / 'extension_batches' / 'batches.py'}:batches_extension"


def test_messages_of_an_added_extension_have_its_names_and_break_no_rule(monkeypatch, capsys) -> None:
    batch = "00000007 00000002 00000020 00000210 00000000 00000001 00000008 00000007 00000000"
    limit = "00000007 00000002 00000020 00000005 00000000 00000001 00000210 00000004 000000"
    assert decode(monkeypatch, capsys, batch)[0] == 4
    status, out, _ = decode(monkeypatch, capsys, batch, "--add-extension", BATCHES)
    assert (status, out.splitlines()[0]) == (0, "#1 Batch xid 0x00000007")
    assert decode(monkeypatch, capsys, batch.replace("00000210 00000000", "00000210 00000004"))[0] == 4
    status, out, _ = decode(monkeypatch, capsys, f"{limit}40", "--add-extension", BATCHES)
    assert status == 0
    assert [line.split() for line in out.splitlines() if "Batch Limit" in line] == [
        ["24", "4", "rdma_which", "528", "(Batch", "Limit)", "which", "property"],
        ["28", "4", "Batch", "Limit", "64"],
    ]
    short = limit.replace("00000004 000000", "00000003 00004000")
    status, out, _ = decode(monkeypatch, capsys, short, "--add-extension", BATCHES)
    assert status == 4
    assert "wrong: Batch Limit at offset 28: " in out


def test_json_is_one_object_a_line_with_the_same_keys(monkeypatch, capsys) -> None:
    status, out, err = decode(monkeypatch, capsys, V1_CALL + RPC_CALL, "--json")
    assert (status, err) == (0, "")
    first, message = objects(out)
    assert first == {"input": "hex digits, 68 octets of an RPC-over-RDMA message"}
    assert set(message) == {
        *("number", "time_s", "source", "destination", "connection", "protocol", "summary"),
        *("facts", "notes", "faults", "headers"),
    }
    field = message["headers"][0]["fields"][2]
    assert field == {
        "name": "rdma_credit",
        "offset": 8,
        "size": 4,
        "value": 32,
        "shown": "32",
        "meaning": "calls in flight: requested (in a call) or granted (in a reply)",
        "section": "RFC 8166 4.2.3",
    }
    assert message["facts"]["xid"] == 0x0A0B0C0D


def test_an_iwarp_stream_in_hex(monkeypatch, capsys) -> None:
    stream = "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 b990b10c"
    status, out, _ = decode(monkeypatch, capsys, stream, "--iwarp", "--brief")
    assert status == 4  # "hello" is no message
    assert out.startswith("#1 Send, ")
    status, out, _ = decode(monkeypatch, capsys, stream.replace("b990b10c", "b990b10d"), "--iwarp")
    assert "wrong: CRC at offset 28: the octets have 0x0cb190b9 [RFC 5044 4.4, MPA-24]" in out
    status, out, _ = decode(monkeypatch, capsys, stream[:36], "--iwarp")
    assert status == 4
    assert "the stream ends after" in out


@each_case(
    ("data", "message"),
    [
        (
            "hello",
            "the input is neither pcap, pcapng nor hex text: line 1: 'h' is no hex digit\nhint: write octets as hex, ",
        ),
        (b"", "standard input is empty"),
        ("# a comment", "the input is neither pcap, pcapng nor hex text: there is no hex digit in the input"),
        (b"\x1f\x8b\x08\x00", "the input is compressed"),
        (b"\x0a\x0b\x00\x01", "the input is neither pcap, pcapng nor hex text"),
    ],
)
def test_other_input_is_refused(monkeypatch, capsys, data, message: str) -> None:
    status, _, err = decode(monkeypatch, capsys, data)
    assert status == 1
    assert f"error: {message}" in err
    status, out, _ = decode(monkeypatch, capsys, data, "--json")
    assert status == 1
    assert objects(out)[-1]["error"]["message"].startswith(message.partition("\n")[0])


def test_a_file_that_is_not_there(monkeypatch, capsys, tmp_path) -> None:
    status, _, err = decode(monkeypatch, capsys, tmp_path / "none.pcap")
    assert status == 1
    assert "no such file" in err.lower()


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    file = tmp_path / "small.pcap"
    with HandMadeCapture(file) as made:
        made.send(CLIENT, bytes.fromhex(V1_CALL + RPC_CALL))
        made.send(SERVER, bytes.fromhex("0a0b0c0d 00000001 00000020 00000004 00000002"))
        made.send(CLIENT, bytes.fromhex(V1_CALL.replace("0a0b0c0d", "00000001")))
    return file


def test_brief_is_a_line_for_each_message_and_its_faults(monkeypatch, capsys, capture) -> None:
    status, out, err = decode(monkeypatch, capsys, capture, "--brief")
    assert status == 4
    lines = out.splitlines()
    assert [line[:2] for line in lines] == ["#1", "#2", "#3", "#4", "#5", "  "]
    assert "192.0.2.1:40000 > 192.0.2.2:20049 MPA Request, revision 2, flags C S" in lines[0]
    assert "refuses #3 after " in lines[3]
    assert lines[5] == "  wrong: rdma_proc at offset 12: no RPC message follows [RFC 8166 4.2.4]"
    assert err.splitlines() == ["input: a packet capture (pcap)", "5 messages, 1 with something wrong"]


def test_only_faults(monkeypatch, capsys, capture) -> None:
    status, out, _ = decode(monkeypatch, capsys, capture, "--faults", "--json")
    assert status == 4
    assert [message["number"] for message in objects(out)[1:]] == [5]


def test_packets_of_another_network_are_named(monkeypatch, capsys, capture) -> None:
    octets = bytearray(capture.read_bytes())
    octets[20:24] = (147).to_bytes(4, "little")
    status, _, err = decode(monkeypatch, capsys, bytes(octets))
    assert status == 0
    assert "packets of link type 147 were left out" in err
    assert "neither iWARP nor RoCEv2 in " in err


@each_case(
    ("most", "said"),
    [(60, "octets are missing in the capture"), (33, "neither iWARP nor RoCEv2"), (7, "neither iWARP nor RoCEv2")],
)
def test_packets_that_were_cut_when_they_were_captured_are_told(monkeypatch, capsys, capture, most, said) -> None:
    """In their payload, in the header of TCP, and in that of IP."""
    octets = capture.read_bytes()
    out, at = bytearray(octets[:24]), 24
    while at < len(octets):
        length = int.from_bytes(octets[at + 8 : at + 12], "little")
        kept = min(length, most)
        out += octets[at : at + 8] + kept.to_bytes(4, "little") + octets[at + 12 : at + 16 + kept]
        at += 16 + length
    _, shown, err = decode(monkeypatch, capsys, bytes(out), "--brief")
    assert "packets were cut off when captured" in err
    assert said in shown + err


def test_names_from_the_wire_do_not_reach_the_terminal_as_they_are(monkeypatch, capsys) -> None:
    credential = "00000001 00000018 00000000 00000003 1b5b4a00 00000000 00000000 00000000"
    octets = RPC_CALL.split()
    text = V1_CALL + " ".join([*octets[:6], credential, "00000000 00000000"])
    status, out, _ = decode(monkeypatch, capsys, text)
    assert status == 0
    assert "\x1b" not in out
    assert "\\x1b[J" in out


def test_the_dissector_for_wireshark_is_printed(monkeypatch, capsys) -> None:
    status, out, _ = decode(monkeypatch, capsys, "", "--lua")
    assert status == 0
    assert "RDMA2_NOMSG" in out
    assert "ROPT_XMTREQ" in out
    assert "@" not in out


@pytest.mark.thorough
@pytest.mark.parametrize("version", ["1", "2"])
def test_every_message_of_the_demo_is_understood(tmp_path: Path, command: Command, version: str) -> None:
    tree, file = tmp_path / "tree", tmp_path / "demo.pcap"
    tree.mkdir()
    for size in (0, 100, 3000, 70_000, 300_000):
        (tree / f"file-{size}").write_bytes(os.urandom(size))
    for number in range(40):
        (tree / f"so long that a listing takes a long reply {number:0120}").write_bytes(b"")
    paths = ["--source", f"{tree}", "--pcap", f"{file}"]
    report = command.done("demo", "--rpcrdma-version", version, *paths, "--json").json
    messages = objects(command.done("decode", "--json", f"{file}").text)[1:]
    kinds = Counter(message["facts"].get("message") for message in messages if message["protocol"] == "rpcrdma")
    properties_told = 0 if version == "1" else 2
    assert kinds.pop(None, 0) == properties_told + report["rdma"]["pieces"], "neither a call nor a reply"
    assert version != "1" or not kinds["grant"]
    del kinds["grant"]
    assert kinds == {"call": report["calls"]["total"], "reply": report["calls"]["total"]}
    sends = [message for message in messages if message["protocol"] == "rpcrdma"]
    replies = [message["facts"] for message in sends if message["facts"].get("message") == "reply"]
    assert all(facts["outcome"] == "SUCCESS" and facts["elapsed_s"] > 0 for facts in replies)
    assert len({facts["answers"] for facts in replies}) == len(replies)
    served = Counter(
        (message["facts"]["opcode"], "serves" in message["facts"])
        for message in messages
        if message["protocol"] == "rdmap" and message["facts"]["octets"]
    )
    # Of several segments each Write and Read names its chunk.
    assert {known for _, known in served} == {True}
    assert served[0, True] == report["rdma"]["writes"]
    assert served[1, True] == report["rdma"]["reads"]
    invalidated = sum("invalidated_handle" in message["facts"] for message in sends)
    assert invalidated == report["rdma"]["remote_invalidations"]
    assert {name.split()[0] for message in sends if (name := message["facts"].get("procedure"))} == {
        "MOUNT_V3",
        "NFS_V3",
    }
