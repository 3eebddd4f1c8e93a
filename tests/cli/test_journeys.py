"""Journeys of users, each a few commands with real servers and connections. The folder's other files have the rules."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.aio.urls import parse_url
from support.command_process import HANG_S, CommandProcess, run_command

if TYPE_CHECKING:
    from support.commands import Answering, Command, Over, Served, Serving, StartServer

pytestmark = pytest.mark.journey

FILES = {"large": bytes(range(250)) * 1200, "few": b"few\n", "empty": b"", "below/deeper/last": b"last" * 1500}
BOTH = pytest.mark.parametrize("scheme", ["rdma", "tcp"])
ERROR = {"message", "hint", "kind", "exit_status", "errno", "path", "url"}


def make_tree(top: Path) -> Path:
    for name, data in FILES.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(data)
    (top / "below" / "link").symlink_to("../few")
    return top


def contents(top: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(top)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in top.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@BOTH
def test_a_tree_goes_there_and_back(over: Over, scheme: str, tmp_path: Path) -> None:
    remote, tree = over(scheme), make_tree(tmp_path / "tree")
    put = remote.done("put", "--json", str(tree), remote.url("/copy")).json
    assert (put["files"], put["symlinks"], put["bytes"]) == (4, 1, sum(map(len, FILES.values())))
    assert put.keys() == {
        "files", "directories", "symlinks", "bytes", "seconds", "bytes_per_s", "not_carried", "failures",
        "failures_total", "skipped", "skipped_total", "kept", "excluded", "hard_links",
    }  # fmt: skip
    assert contents(remote.local / "copy") == contents(tree)
    assert remote.done("ls", remote.url("/copy")).lines == ["below", "empty", "few", "large"]
    assert remote.done("cat", remote.url("/copy/large"), remote.url("/copy/few")).out == FILES["large"] + FILES["few"]
    assert remote.done("get", remote.url("/copy"), str(tmp_path / "back")).out == b""
    assert contents(tmp_path / "back") == contents(tree)
    remote.done("rm", "-r", remote.url("/copy"))
    assert list(remote.local.iterdir()) == []


def test_names_that_are_no_utf_8_go_there_and_back(over: Over, tmp_path: Path) -> None:
    remote, name = over("tcp"), os.fsdecode(b"caf\xe9")
    (tmp_path / name).write_text("odd")
    remote.done("put", str(tmp_path / name), remote.url())
    assert remote.done("ls", remote.url()).out == b"caf\xe9\n"
    (row,) = remote.done("ls", "--json", remote.url()).json_lines
    assert row["path"] == f"/{remote.name}/caf%E9"
    assert remote.done("cat", remote.url("/caf%E9")).text == "odd"


def test_the_exit_status_tells_what_kind_of_failure_it_was(
    server: Served, command: Command, nobody_listens: int, answering: Answering
) -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(100)) as broken:
        for words, status, kind in (
            (["ping", "-c", "1", server.urls["tcp"]], 0, None),
            (["cat", f"{server.urls['tcp']}/missing"], 1, None),
            (["rm", "--json", f"{server.urls['tcp']}/missing"], 1, "file"),
            (["ls", "--json", "--bogus", server.urls["tcp"]], 2, "usage"),
            (["ls", "--json", f"rdma://127.0.0.1:{nobody_listens}"], 3, "not_connected"),
            (["ping", "--json", broken], 4, "protocol_violation"),
        ):
            ran = command.run(*words)
            assert ran.status == status, words
            assert ran.err.startswith("error: ") == (status > 0)
            if kind:
                error = ran.json_lines[-1]["error"]
                assert (error["kind"], error["exit_status"]) == (kind, status)
                assert error.keys() == ERROR
    assert error["hint"].startswith("check that this is the scheme and port of the server")


def test_exports_are_shown_each_with_its_files_and_space(start: StartServer, tmp_path: Path, command: Command) -> None:
    for name in ("data", "fixed"):
        make_tree(tmp_path / name)
    exports = [f"--export=data={tmp_path}/data", f"--export=fixed={tmp_path}/fixed:ro"]
    with start(tmp_path, tmp_path / "state", *exports, named_only=True) as served:
        server, port = served.urls["rdma"], parse_url(served.urls["tcp"]).port
        assert [line.split()[0] for line in command.done("exports", served.urls["tcp"]).lines] == ["/data", "/fixed"]
        assert command.done("ls", f"{server}/?mountport={port}").lines == ["data", "fixed"]
        (space,) = command.done("df", "--json", f"{server}/data?mountport={port}").json_lines
        assert space["files"] == os.statvfs(tmp_path).f_files
        for words in (["rm"], ["put", str(tmp_path / "data" / "empty")]):
            ran = command.run(*words, f"{server}/fixed/few?mountport={port}")
            told = f"error: {server}/fixed/few: read-only file system\nhint: the export is read-only\n"
            assert (ran.status, ran.err) == (1, told)
        assert contents(tmp_path / "fixed") == contents(tmp_path / "data")
        assert served.stop() == 0


def test_doctor_finds_the_machine_and_the_server_in_order(over: Over, nobody_listens: int, tmp_path: Path) -> None:
    remote = over("rdma")
    report = remote.done("doctor", "--json", "--root", str(tmp_path), remote.base).json
    assert report["problems"] == 0
    found = {finding["subject"]: finding["mark"] for finding in report["findings"]}
    assert (found["software_rnic"], found["server"]) == ("ok", "ok")
    assert remote.run("doctor", "--root", str(tmp_path), f"127.0.0.1:{nobody_listens}").status == 3


SUMS = "program SUMS { version SUMS_V1 { void NOTHING(void) = 0; int SUM(int, int) = 1; } = 1; } = 0x20000d07;\n"


def test_a_definition_becomes_a_program_that_is_served_and_called(
    command: Command, serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sums.x").write_text(SUMS)
    command.done("xdr", "compile", str(tmp_path / "sums.x"))
    specification = importlib.util.spec_from_file_location("sums", tmp_path / "sums.py")
    assert specification is not None
    assert specification.loader is not None
    sums = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "sums", sums)
    specification.loader.exec_module(sums)
    handlers = {"sum": lambda _self, args, _context: args.arg1 + args.arg2}
    with serving([type("Sums", (sums.SUMS_V1_Service,), handlers)()]) as urls:
        for url in urls.values():
            words = ["call", url, str(tmp_path / "sums.x"), "sum"]
            assert command.done(*words, '{"arg1": 2, "arg2": -5}').json == -3
            assert command.run(*words, '{"arg1": 2}').err.startswith("error: arguments.arg2: missing")
        words = ["programs", urls["rdma"], "--port-mapper", "1", "--program", "0x20000d07", "--json"]
        rows = command.done(*words).json["programs"]
        assert [(row["program"], row["version"], row["answers"]) for row in rows if row["answers"]] == [
            (0x20000D07, 1, True)
        ]


def test_a_conversation_is_recorded_decoded_and_explained(over: Over, tmp_path: Path) -> None:
    remote, capture, page = over("rdma"), tmp_path / "calls.pcap", tmp_path / "calls.html"
    make_tree(remote.local)
    remote.done("--pcap", str(capture), "cat", remote.url("/large"))
    messages = remote.done("decode", "--json", str(capture)).json_lines[1:]
    assert [fault for message in messages for fault in message["faults"]] == []
    assert {message["protocol"] for message in messages} >= {"rpcrdma", "mpa"}
    (read,) = remote.done("explain", "--json", "--procedure", "READ", str(capture)).json_lines
    assert (read["outcome"], read["failed"]) == ("NFS3_OK", False)
    assert "RDMA Write" in remote.done("explain", str(capture)).text
    remote.done("explain", "--html", str(page), str(capture))
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_output_that_nobody_reads_ends_a_command_without_a_word(server: Served) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run_command("ping", "-c", "1", server.urls["tcp"], stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_interrupted_ping_tells_what_it_has(server: Served) -> None:
    words = ["ping", "--interval", "3600", "--json", server.urls["tcp"]]
    with CommandProcess(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ping:
        assert ping.stderr is not None
        assert ping.stderr.readline().startswith("call 1: ")
        status, out, err = ping.ended(signal.SIGINT)
    assert (status, json.loads(out)["calls"]) == (0, 1), err


def test_the_package_is_a_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rpcrdma", "--version"], capture_output=True, text=True, check=True, timeout=HANG_S
    )
    assert done.stdout.startswith("rpcrdma ")
