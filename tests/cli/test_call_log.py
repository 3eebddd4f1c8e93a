"""The output of `-v` and `-vv` for connections and calls, and `--pcap` on every command that connects."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.commands.call_log import call_logger
from rpcrdma.commands.options import connect_options
from rpcrdma.transport import TransportConfig
from support.cases import each_case
from support.command_process import run_command

if TYPE_CHECKING:
    from support.commands import Command, Remote, Served

CALL = re.compile(
    r"xid 0x(?P<xid>[0-9a-f]{8}) (?P<procedure>\w+) to (?P<peer>\S+): (?P<form>[a-z +]+), "
    r"(?P<sent>\d+) bytes out, (?P<received>\d+) in, (?P<us>\d+) µs(?P<end>.*)"
)
SIZE = 300_000


def calls(caplog: pytest.LogCaptureFixture) -> list[re.Match[str]]:
    lines = [record.getMessage() for record in caplog.records if record.name == "rpcrdma.calls"]
    found = [CALL.fullmatch(line) for line in lines]
    assert None not in found, lines
    return [match for match in found if match]


def one(found: list[re.Match[str]], procedure: str) -> re.Match[str]:
    return next(match for match in found if match["procedure"] == f"NFSPROC3_{procedure}")


@pytest.mark.thorough
def test_each_call_is_shown_with_its_form_and_octets(
    remote: Remote, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rpcrdma")
    (tmp_path / "large").write_bytes(bytes(SIZE))
    remote.done("put", str(tmp_path / "large"), remote.url("/large"))
    remote.done("get", remote.url("/large"), str(tmp_path / "copy"))
    remote.done("ls", "-l", remote.url())
    found = calls(caplog)
    xids = [(match["peer"], match["xid"]) for match in found]
    assert len(set(xids)) == len(xids)
    assert all(not match["end"] for match in found)
    rdma = remote.base.startswith("rdma")
    # A message is longer where peers tell each other their inline thresholds.
    listing = "reply chunk" if remote.base.startswith("rdma") and remote.version == "1" else "short"
    for procedure, form in (
        *(("GETATTR", "short"), ("WRITE", "read chunk"), ("READ", "write chunk"), ("READDIRPLUS", listing)),
    ):
        assert one(found, procedure)["form"] == (form if rdma else "tcp")
    assert {match["form"] for match in found if match["procedure"].startswith("MOUNTPROC3_")} == {"tcp"}
    assert 0 <= int(one(found, "WRITE")["sent"]) - SIZE < 400
    assert 0 <= int(one(found, "READ")["received"]) - SIZE < 400
    assert int(one(found, "READ")["sent"]) < 400
    assert int(one(found, "WRITE")["received"]) < 400


@pytest.mark.thorough
def test_connections_and_mounts_are_shown(remote: Remote, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rpcrdma")
    remote.done("stat", remote.url())
    connected, mounted = [record.getMessage() for record in caplog.records if record.name == "rpcrdma.client"]
    if remote.base.startswith("rdma"):
        transport = TransportConfig()
        octets = transport.inline_send_octets if remote.version == "1" else transport.offered_send_octets
        how = f"RPC-over-RDMA version {remote.version}, provider iwarp, inline {octets}/{octets} octets, "
        assert connected.startswith(f"connected to {remote.base}: {how}")
    else:
        assert connected == f"connected to {remote.base}: RPC over TCP"
    assert mounted == f"mounted {remote.base}/: MOUNT at 127.0.0.1:{remote.mount_port}"
    assert calls(caplog) == []


@pytest.mark.thorough
@each_case(("option", "level"), [("-v", "INFO"), ("-vv", "DEBUG")])
def test_it_goes_to_standard_error(server: Served, option: str, level: str) -> None:
    done = run_command("ping", "-c", "2", option, "--json", server.urls["rdma"])
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert done.stderr.startswith("INFO connected to ")
    assert done.stderr.count("DEBUG xid ") == (2 if level == "DEBUG" else 0)


def test_nobody_is_told_where_nobody_asks(caplog: pytest.LogCaptureFixture) -> None:
    from rpcrdma.cli.main import build_parser

    args = build_parser().parse_args(["ls", "rdma://h"])
    caplog.set_level(logging.INFO, "rpcrdma")
    assert call_logger() is None
    assert connect_options(args).on_call is None
    caplog.set_level(logging.DEBUG, "rpcrdma")
    assert connect_options(args).on_call is not None


@pytest.mark.thorough
def test_a_capture_without_an_rdma_connection_is_empty_which_an_error_says_better(
    server: Served, command: Command, tmp_path: Path
) -> None:
    capture = tmp_path / "a.pcap"
    ran = command.done("ping", "-c", "1", "--pcap", str(capture), server.urls["tcp"])
    assert ran.err.startswith(f"warning: {capture} is empty: --pcap records RDMA connections")
    assert capture.read_bytes()[:4] == bytes.fromhex("4d3cb2a1")
    ran = command.run("ping", "--provider", "verbs", "--pcap", str(capture), "rdma://127.0.0.1:1")
    assert (ran.status, len(ran.err.splitlines())) == (2, 1)
    assert ran.err.startswith("error: only the software RNIC's packets can be captured")


def test_a_capture_that_cannot_be_written_is_told(command: Command, tmp_path: Path) -> None:
    ran = command.run("ls", "--pcap", str(tmp_path / "no" / "a.pcap"), "rdma://127.0.0.1:1")
    assert ran.status == 1
    assert ran.err == f"error: {tmp_path / 'no' / 'a.pcap'}: no such file or directory\n"
