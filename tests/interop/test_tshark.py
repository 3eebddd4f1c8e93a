"""Wireshark's dissectors, which we did not write, understand every message of the demo's capture."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: make interop"),
]

# Around the inline thresholds, the segment and FPDU sizes, and the size of one READ or WRITE.
SIZES = [0, 1, 3, 100, 1000, 3000, 4096, 5000, 70_000, (1 << 20) - 1, 1 << 20, (2 << 20) + 3]

FIELDS = {
    "protocols": "frame.protocols",
    "opcode": "iwarp_rdma.opcode",
    "last": "iwarp_ddp.last_flag",
    "octets": "iwarp_mpa.ulpdulength",
    "read_octets": "iwarp_rdma.rdmardsz",
    "transport_type": "rpcordma.msg_type",
    "rpc_type": "rpc.msgtyp",
    "program": "rpc.program",
    "procedure": "nfs.procedure_v3",
    "malformed": "_ws.malformed",
    "severity": "_ws.expert.severity",
    "expert": "_ws.expert.message",
}
SEVERITY_ERROR = 0x800000
RDMA_WRITE, READ_REQUEST, SEND, SEND_WITH_INVALIDATE, TERMINATE = "0x00", "0x01", "0x03", "0x04", "0x07"
TAGGED_HEADER_OCTETS = 14
CALL, REPLY = "0", "1"
NFS_PROGRAM, MOUNT_PROGRAM = "100003", "100005"
CREATE, READ, WRITE, READDIR, READDIRPLUS = "8", "6", "7", "16", "17"

Frame = dict[str, str]


@dataclass(frozen=True, slots=True)
class Capture:
    """The demo's own report, and tshark's dissection of its capture in two passes."""

    file: Path
    report: dict[str, Any]
    frames: list[Frame]
    text: str

    def messages(self) -> list[Frame]:
        """The frames at which an RPC message is whole: of its Send, or of the last Read Response that it waits for."""
        return [frame for frame in self.frames if frame["rpc_type"] and "rpcordma" in frame["protocols"].split(":")]

    def operations(self, *opcodes: str) -> list[Frame]:
        """The last frame of each RDMAP message of these kinds."""
        return [frame for frame in self.frames if frame["opcode"] in opcodes and frame["last"] in {"1", "True"}]


def tshark(capture: Path, *arguments: str) -> str:
    # Two passes: the place of a Write chunk's data is known only from the reply that follows it.
    command = ["tshark", "-2", "-r", str(capture), *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True, errors="replace").stdout


@pytest.fixture(scope="module")
def capture(rpcrdma_command: str, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    directory = tmp_path_factory.mktemp("tshark")
    tree, file = directory / "tree", directory / "demo.pcap"
    (tree / "below" / "deeper").mkdir(parents=True)
    for size in SIZES:
        (tree / f"file-{size}").write_bytes(random.Random(size).randbytes(size))
    for number in range(300):
        (tree / "below" / "deeper" / f"one of many files, number {number:04}").write_bytes(b"x" * number)
    # Version 2 is not known to Wireshark: see test_dissector.py.
    command = [rpcrdma_command, "demo", "--rpcrdma-version", "1", "--source", str(tree), "--pcap", str(file), "--json"]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    fields = [argument for field in FIELDS.values() for argument in ("-e", field)]
    table = tshark(file, "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", *fields)
    frames = [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in table.splitlines()]
    return Capture(file, json.loads(done.stdout), frames, tshark(file, "-O", "iwarp_mpa"))


def test_the_demo_moved_every_file(capture: Capture) -> None:
    assert capture.report["files"] == len(SIZES) + 300
    assert capture.report["mismatches"] == 0


def test_every_crc_is_good(capture: Capture) -> None:
    checks = re.findall(r"CRC check: 0x[0-9a-f]{8} \((\w+) CRC32\)", capture.text)
    assert len(checks) == len(re.findall(r"^ {4}FPDU$", capture.text, re.MULTILINE))
    assert Counter(checks).keys() == {"Good"}


def test_no_frame_is_malformed(capture: Capture) -> None:
    bad = [
        frame
        for frame in capture.frames
        if frame["malformed"] or any(int(s) >= SEVERITY_ERROR for s in frame["severity"].split(",") if s)
    ]
    assert bad == []


def test_every_send_is_recognised_as_a_message(capture: Capture) -> None:
    sends = capture.operations(SEND, SEND_WITH_INVALIDATE)
    assert [frame for frame in sends if "rpcordma" not in frame["protocols"].split(":")] == []
    assert len(sends) == len(capture.messages()) == capture.report["rdma"]["sends"]
    assert len(capture.operations(SEND_WITH_INVALIDATE)) == capture.report["rdma"]["remote_invalidations"]


def test_every_message_carries_a_call_of_nfs_or_mount_or_its_reply(capture: Capture) -> None:
    messages = capture.messages()
    types = Counter(frame["rpc_type"] for frame in messages)
    assert types == {CALL: capture.report["calls"]["total"], REPLY: capture.report["calls"]["total"]}
    assert {frame["program"] for frame in messages} == {NFS_PROGRAM, MOUNT_PROGRAM}
    assert all(frame["procedure"] for frame in messages if frame["program"] == NFS_PROGRAM)


def test_rdma_reads_and_writes_are_as_many_as_reported(capture: Capture) -> None:
    # Those of no octets are ready-to-receive frames (RFC 6581 section 9.2), which the transport does not count.
    reads = [frame for frame in capture.operations(READ_REQUEST) if frame["read_octets"] != "0"]
    writes = [frame for frame in capture.operations(RDMA_WRITE) if int(frame["octets"]) > TAGGED_HEADER_OCTETS]
    assert len(reads) == capture.report["rdma"]["reads"] > 0
    assert len(writes) == capture.report["rdma"]["writes"] > 0


def test_the_procedures_of_a_copy_are_seen(capture: Capture) -> None:
    seen = Counter(frame["procedure"] for frame in capture.messages() if frame["rpc_type"] == CALL)
    assert {CREATE, READ, WRITE} <= seen.keys()
    assert seen.keys() & {READDIR, READDIRPLUS}
    assert seen[READ] >= sum(1 for size in SIZES if size)


def test_no_connection_was_terminated(capture: Capture) -> None:
    assert capture.operations(TERMINATE) == []


def test_chunks_of_every_kind_are_seen(capture: Capture) -> None:
    calls = capture.report["calls"]
    assert calls["short"] > 0
    assert calls["read_chunk"] > 0
    assert calls["write_chunk"] > 0
    assert calls["long_reply"] > 0


@pytest.fixture(scope="module")
def calls(rpcrdma_command: str, capture: Capture) -> list[dict[str, Any]]:
    """The calls of the capture as `rpcrdma explain` has them."""
    command = [rpcrdma_command, "explain", "--json", str(capture.file)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=120)
    return [found for found in map(json.loads, done.stdout.splitlines()) if found["xid"] is not None]


def rows(capture: Capture, wanted: str, *names: str) -> list[list[list[str]]]:
    """The values of these fields in each frame that the filter `wanted` chooses."""
    fields = [argument for name in names for argument in ("-e", name)]
    options = ["-Y", wanted, "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", *fields]
    table = tshark(capture.file, *options)
    return [[cell.split(",") if cell else [] for cell in line.split("\t")] for line in table.splitlines()]


def test_explain_names_the_procedures_and_results_that_tshark_shows(capture: Capture, calls) -> None:
    numbers = {f"{v3.PROGRAM.name} {one.method.upper()}": number for number, one in v3.PROGRAM.procedures.items()}
    of_nfs = [call for call in calls if call["procedure"] in numbers]
    ours = {call["xid"]: (numbers[call["procedure"]], int(getattr(v3.nfsstat3, call["outcome"]))) for call in of_nfs}
    replies = rows(capture, "rpc.msgtyp == 1 && nfs", "rpc.xid", "nfs.procedure_v3", "nfs.status3")
    theirs = {int(xid[0], 0): (int(procedure[0]), int(status[0])) for xid, procedure, status in replies}
    assert len(theirs) == len(of_nfs)
    assert len(calls) == capture.report["calls"]["total"]
    assert {call["procedure"] for call in calls} - numbers.keys() == {
        f"MOUNT_V3 {name}" for name in ("NULL", "EXPORT", "MNT", "UMNT")
    }
    assert ours == theirs


def test_explain_reads_the_arguments_that_tshark_shows(capture: Capture, calls) -> None:
    ours = {
        call["xid"]: [call["arguments"]["offset"], call["arguments"]["count"]]
        for call in calls
        if call["procedure"] in {"NFS_V3 READ", "NFS_V3 WRITE"}
    }
    chosen = f"rpc.msgtyp == 0 && nfs.procedure_v3 in {{{READ}, {WRITE}}}"
    asked = rows(capture, chosen, "rpc.xid", "nfs.offset3", "nfs.count3")
    # A WRITE has its count twice, and a READ's offset and count are of one type.
    theirs = {int(xid[0], 0): [int(n) for n in (*offsets, *counts)][:2] for xid, offsets, counts in asked}
    assert len(ours) > len(SIZES)
    assert ours == theirs


def test_explain_shows_the_chunks_and_credits_that_tshark_shows(capture: Capture, calls) -> None:
    ours = []
    for message in sorted((one for call in calls for one in call["messages"]), key=lambda one: one["number"]):
        if message["protocol"] == "rpcrdma":
            facts = message["facts"]
            segments = [segment for chunk in facts.get("chunks", ()) for segment in chunk["segments"]]
            credits_ = facts["credits"].get("requested") or facts["credits"]["granted"]
            ours.append((facts["xid"], credits_, *zip(*(segment.values() for segment in segments), strict=True)))
    names = ("xid", "flow_control", "rdma_handle", "rdma_length", "rdma_offset")
    theirs = [
        (int(xid[0], 0), int(credits_[0]), *(tuple(int(n, 0) for n in column) for column in segments if column))
        for xid, credits_, *segments in rows(capture, "rpcordma.xid", *(f"rpcordma.{name}" for name in names))
    ]
    assert any(len(row) > 2 for row in ours)
    assert ours == theirs
