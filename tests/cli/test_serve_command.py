"""`rpcrdma serve`: start, refusals, stop; and the messages to clients when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.cli.main import build_parser, main
from rpcrdma.cli.serve_admin import AdminAnswers
from rpcrdma.cli.serve_announcements import announce, announce_export
from rpcrdma.cli.settings.effective import effective
from rpcrdma.transport import VERSION_CHOICES
from support.cases import each_case
from support.command_process import HANG_S, CommandProcess, run_command

if TYPE_CHECKING:
    from support.commands import Command, Served, StartServer

NULL_CALL = bytes.fromhex("80000028 00000007 00000000 00000002 000186a3 00000003 00000000") + bytes(16)
"""In a record: XID 7, CALL, RPC version 2, NFS version 3, NULL, AUTH_NONE twice (RFC 5531)."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "a").write_text("a")
    return directory


def names(served: Served) -> list[str]:
    return [event["event"] for event in served.events]


@pytest.mark.journey
@each_case("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_serve_stops_in_order_on_a_signal(
    start: StartServer, number: signal.Signals, data: Path, tmp_path: Path
) -> None:
    served = start(data, tmp_path / "state")
    with served:
        served.process.send_signal(number)
        assert served.finish() == 0
        assert served.said == ""
    assert names(served) == ["listening", "listening", "exported", "stopping", "stopped"]
    over = {event["url"].partition(":")[0]: event["providers"] for event in served.events[:2]}
    assert over == {"rdma": [{"provider": "iwarp", "device": None}], "tcp": []}
    assert served.events[2] == {
        "event": "exported",
        "name": "/",
        "directory": str(data),
        "mode": "read-write",
        "security": ["sys"],
        "acts_as_caller": os.geteuid() == 0,
        "root_squash": False,  # told not to, or unable to act as anybody else
        "xprtsec": "none",
        "rules": 0,
    }


@pytest.mark.thorough
@each_case("chosen, offered", [("3", [3]), ("4", [4]), ("3,4", [3, 4])])
def test_serve_offers_the_versions_of_nfs_that_are_chosen(
    start: StartServer, data: Path, tmp_path: Path, chosen: str, offered: list[int]
) -> None:
    served = start(data, tmp_path / "state", "--nfs", chosen)
    found = []
    with served:
        host, _, port = served.urls["tcp"].removeprefix("tcp://").rpartition(":")
        for version in (3, 4):
            with socket.create_connection((host, int(port)), timeout=HANG_S) as caller:
                caller.sendall(NULL_CALL[:20] + version.to_bytes(4, "big") + NULL_CALL[24:])
                # The record mark and an accepted reply, whose last word is 0.
                if caller.recv(28)[24:] == bytes(4):
                    found.append(version)
        assert served.stop() == 0
        assert served.said == ""
    assert found == offered


@pytest.mark.thorough
def test_serve_tells_of_connections(start: StartServer, data: Path, tmp_path: Path) -> None:
    served = start(data, tmp_path / "state")
    with served:
        assert main(["ping", "-c", "3", served.urls["rdma"]]) == 0
        assert main(["ping", "-c", "3", served.urls["tcp"]]) == 0
        assert served.stop() == 0
    connected = [event for event in served.events if event["event"] == "connected"]
    ended = [event for event in served.events if event["event"] == "disconnected"]
    assert [event["transport"] for event in connected] == ["rdma", "tcp"]
    agreed = connected[0]
    assert agreed["version"] == 2
    assert agreed["credits_granted"] > 0
    assert (agreed["own_properties"]["reverse"], agreed["peer_properties"]["reverse"]) == ("general", "none")
    assert agreed["peer_properties"]["receive_octets"] == agreed["inline_send_octets"]
    (told,) = agreed["extensions"].values()
    # A client that takes no calls tells no support of requests.
    assert told["own"]["rtr_support"] == "requests, responses, continued"
    assert told["peer"] == {**told["own"], "rtr_support": "responses, continued"}
    assert sorted(event["transport"] for event in ended) == ["rdma", "tcp"]
    assert {event["peer"] for event in ended} == {event["peer"] for event in connected}
    counters = next(event for event in ended if event["transport"] == "rdma")["statistics"]
    assert counters["calls"] == 3
    assert {"messages_continued", "pieces_sent", "grants_received", "resent_larger"} <= counters.keys()


@pytest.mark.thorough
def test_a_server_whose_events_are_never_read_ends_all_the_same(data: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, bytes(4096))
    command = ["serve", str(data), "--json", "--stop-at-eof"]
    try:
        command += ["--listen", "tcp://127.0.0.1:0", "--state-dir", str(tmp_path / "state")]
        ended = run_command(*command, stdin=subprocess.DEVNULL, stdout=writing)
    finally:
        os.close(reading)
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.thorough
@each_case("json", [True, False])
def test_a_server_whose_errors_are_never_read_answers_and_ends_all_the_same(
    data: Path, tmp_path: Path, json: bool
) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, bytes(4096))
    command = ["serve", str(data), "--listen", "tcp://127.0.0.1:0", "--state-dir", str(tmp_path / "state")]
    command += ["--config", str(tmp_path / "c.toml"), *(["--json"] if json else [])]
    (tmp_path / "c.toml").write_text("")
    try:
        with CommandProcess(command, stdout=subprocess.PIPE, stderr=writing, text=True) as process:
            assert process.stdout is not None
            (url,) = re.findall(r"tcp://[0-9.:]+", process.stdout.readline())
            # Each is told on standard error: the connection without --json, the mistake in either case.
            assert main(["ping", "-c", "1", url]) == 0
            (tmp_path / "c.toml").write_text("?")
            process.send_signal(signal.SIGHUP)
            assert main(["ping", "-c", "1", url]) == 0
            process.terminate()
            assert process.wait(HANG_S) == 0
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.thorough
@pytest.mark.parametrize("version", [choice for choice in VERSION_CHOICES if choice != "auto"])
def test_serve_speaks_the_version_that_it_is_told_alone(
    start: StartServer, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    other = "1" if version != "1" else "2"
    with start(data, tmp_path / "state", "--rpcrdma-version", version) as served:
        url = served.urls["rdma"]
        assert main(["ping", "-c", "1", "--rpcrdma-version", version, url]) == 0
        capsys.readouterr()
        assert main(["ping", "-c", "1", "--rpcrdma-version", other, url]) != 0
        said = capsys.readouterr().err
        assert (
            f"version {version[0]} of RPC-over-RDMA only" in said or f"RPC-over-RDMA version {version[0]} only" in said
        )
        if version in {"1", "2"}:
            assert main(["ping", "-c", "1", url]) == 0
        assert served.stop() == 0
    connected = [str(event["version"]) for event in served.events if event["event"] == "connected"]
    assert set(connected) == {version}


@pytest.mark.thorough
def test_serve_ends_idle_connections_when_told(start: StartServer, data: Path, tmp_path: Path) -> None:
    with start(data, tmp_path / "state", "--idle-timeout", "0.2", "--memory", "8Mi") as served:
        for scheme, url in served.urls.items():
            host, _, port = url.removeprefix(f"{scheme}://").rpartition(":")
            with socket.create_connection((host, int(port)), HANG_S) as idle:
                assert idle.recv(1) == b""
        assert served.stop() == 0
    ended = [event["reason"] for event in served.events if event["event"] == "disconnected"]
    assert ended == ["idle for 0.2 s"] * 2
    with start(data, tmp_path / "state", "--idle-timeout", "0") as served:
        assert main(["ls", served.urls["rdma"]]) == 0
        assert served.stop() == 0
    assert not [event for event in served.events if "idle" in event.get("reason", "")], "0 stands for never"


@pytest.mark.thorough
def test_serve_without_json_says_where_it_listens(data: Path, tmp_path: Path) -> None:
    command = ["serve", "--state-dir", str(tmp_path / "state"), str(data)]
    command += ["--listen", "rdma://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]
    with CommandProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline().split() for _ in range(2)]
        urls = [line[2] for line in lines]
        assert [line[3:] for line in lines] == [["over", "iwarp"], []]
        assert [url.partition(":")[0] for url in urls] == ["rdma", "tcp"]
        assert main(["ping", "-c", "1", urls[0]]) == 0
        process.terminate()
        talk = process.stderr.read()
        assert process.wait(HANG_S) == 0
    acting = (
        "callers act as themselves, root as nobody" if os.geteuid() == 0 else f"everybody acts as user {os.geteuid()}"
    )
    assert f"exporting {data} as /, read-write; {acting}" in talk
    assert "INFO rdma connection from 127.0.0.1:" in talk
    assert talk.splitlines()[-1].endswith("stopped")


@pytest.mark.thorough
def test_a_file_system_of_fsspec_is_served_beside_a_directory(
    start: StartServer, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with start(data, tmp_path / "state", "--export", f"more=file://{data}", "--fsspec-valid", "0.1") as served:
        assert main(["cat", f"{served.urls['tcp']}/more/a"]) == 0
        assert main(["ls", f"{served.urls['rdma']}/more"]) == 0
        assert capfd.readouterr().out == "aa\n"
        assert main(["put", str(data / "a"), f"{served.urls['tcp']}/more/b"]) == 1
        assert "read-only file system" in capfd.readouterr().err
        assert served.stop() == 0
    exported = {event["name"]: event for event in served.events if event["event"] == "exported"}
    more = exported["/more"]
    assert (more["directory"], more["mode"], more["acts_as_caller"]) == (f"file://{data}", "read-only", False)
    assert exported["/"]["mode"] == "read-write"


def test_an_export_is_told_with_the_widest_access_of_its_rules(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "c.toml"
    rule = '[[export.rule]]\nhosts = ["192.0.2.1"]\naccess = "{}"\n'
    exports = (
        ('directory = "d"\naccess = "none"', "none", "no-access; everybody is refused"),
        ('directory = "d"\naccess = "none"\n' + rule.format("none"), "none", "no-access, by 1 rule; everybody is"),
        ('directory = "d"\naccess = "none"\n' + rule.format("ro"), "ro", "read-only, by 1 rule; callers act"),
        ('directory = "d"\naccess = "ro"\n' + rule.format("rw"), "rw", "read-write, by 1 rule; callers act"),
        ('url = "file:///d"', "ro", "read-only; everybody may read all"),
        ('url = "file:///d"\naccess = "none"', "none", "no-access; everybody is refused"),
    )
    file.write_text("".join(f'[[export]]\nname = "/{n}"\n{text}\n' for n, (text, _, _) in enumerate(exports)))
    args = build_parser().parse_args(["serve", "--config", str(file)])
    effective(args).put_into(args)
    answers = AdminAnswers(args, None, None, None, dict, None)  # type: ignore[arg-type] - it asks none of them
    told = asyncio.run(answers._exports({}))["exports"]
    caplog.set_level(logging.INFO)
    for export in args.exports:
        announce_export(args, export, as_callers=True)
    assert [each["access"] for each in told] == [access for _, access, _ in exports]
    for message, (number, (_, _, words)) in zip(caplog.messages, enumerate(exports), strict=True):
        assert f" as /{number}, {words}" in message


@each_case("json", [False, True])
def test_hints_are_for_people_alone(json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    args = build_parser().parse_args(["serve", "/srv", "--nfs", "3", "--sec", "krb5", *["--json"] * json])
    effective(args).put_into(args)
    args.events = SimpleNamespace(put=lambda _: None)
    server: Any = SimpleNamespace(listening=["rdma://h:1"], providers={"rdma://h:1": []})
    announce(args, [], server, None, as_callers=False)
    assert capsys.readouterr().err.count("hint: ") == (0 if json else 2)


@contextlib.contextmanager
def standard_input(descriptor: int) -> Iterator[None]:
    """`descriptor` stands for it, and is closed then."""
    kept = os.dup(0)
    os.dup2(descriptor, 0)
    os.close(descriptor)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def ended_inputs(directory: Path) -> Iterator[tuple[str, int]]:
    """Of each kind one that has ended, or ends when it has been read."""
    yield "/dev/null", os.open("/dev/null", os.O_RDONLY)
    file = directory / "input"
    file.write_bytes(bytes(200_000))
    yield "a file", os.open(file, os.O_RDONLY)
    reading, writing = os.pipe()
    os.write(writing, b"more")
    os.close(writing)
    yield "a pipe", reading
    ours, gone = pty.openpty()
    os.close(ours)
    yield "a terminal that is gone", gone


@pytest.mark.thorough
def test_serve_stops_when_its_standard_input_ends_whatever_that_is(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["serve", "--stop-at-eof", "--state-dir", str(tmp_path / "state"), str(data)]
    command += ["--listen", "rdma://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]
    for what, descriptor in ended_inputs(tmp_path):
        with standard_input(descriptor):
            assert main(command) == 0, what
        assert capfd.readouterr().out.count("listening at ") == 2, what


@pytest.mark.thorough
def test_serve_stops_when_it_has_no_standard_input(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number 0 is then that of a file, or a socket, of the server's own, which is not read."""
    monkeypatch.setattr(sys, "__stdin__", None)
    monkeypatch.setattr(sys, "stdin", None)
    command = ["serve", "--stop-at-eof", "--state-dir", str(tmp_path / "state"), str(data)]
    command += ["--listen", "rdma://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]
    reading, writing = os.pipe()
    os.write(writing, b"not the server's")
    with standard_input(os.dup(reading)):
        assert main(command) == 0
    assert os.read(reading, 100) == b"not the server's"
    os.close(writing)
    with standard_input(reading):
        os.close(0)
        assert main(command) == 0


def test_what_cannot_be_served_is_told(command: Command, data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    state = ["--state-dir", str(tmp_path / "state")]
    listen = ["--listen", "tcp://127.0.0.1:0"]
    for words, complaint in (
        ([*state, str(tmp_path / "missing")], f"{tmp_path / 'missing'}: no such file or directory\n"),
        ([*state, "--export", "a=relative/x"], f"{Path.cwd() / 'relative' / 'x'}: no such file or directory\n"),
        ([*state, "--allow", "nobody.invalid", str(data)], "nobody.invalid: neither an address"),
        (
            [*state, "nonsense://x"],
            "command line: nonsense://x: fsspec knows no protocol 'nonsense'; correct it, or name a directory\n",
        ),
        ([*state, "--export", "a=file:///missing"], "cannot export file:///missing: nothing is there"),
        (
            [*state, "gs://b"],
            (
                "command line: gs://b takes a package that is not installed: "
                "Please install gcsfs to access Google Storage: pip install 'fsspec[gs]'\n"
            ),
        ),
        (["--state-dir", str(tmp_path / "file" / "state"), str(data)], "cannot use the state directory: "),
    ):
        ran = command.run("serve", *listen, *words)
        # What may be mended meanwhile is worth another start.
        assert (ran.status, ran.out) == (2 if complaint.startswith("command line: ") else 1, b"")
        assert ran.err.startswith(f"error: {complaint}")
        assert command.run("serve", *listen, *words, "--check").status == 2
    assert ran.err.splitlines()[1] == "hint: name another place with --state-dir"
    for words, remedy in (
        ([str(tmp_path / "missing")], "make the directory, or name another one"),
        (["--allow", "nobody.invalid", str(data)], "correct the name, or write its address"),
    ):
        told = [command.run("serve", *listen, *state, *words, *more).err for more in ([], ["--check"])]
        assert told[0].endswith(f"\nhint: {remedy}\n")
        assert told[1] == "error: command line: " + told[0].removeprefix("error: ").replace("\nhint: ", "; ")
    (event,) = command.run("serve", "--json", *listen, *state, str(tmp_path / "missing")).json_lines
    assert (event["event"], event["error"]["errno"]) == ("error", "ENOENT")
    assert event["error"]["path"] == str(tmp_path / "missing")


@pytest.mark.thorough
def test_hosts_that_are_not_allowed_cannot_mount(
    start: StartServer, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    served = start(data, tmp_path / "state", "--allow", "192.0.2.0/24")
    with served:
        assert main(["ls", served.urls["tcp"]]) == 1
        assert capfd.readouterr().err.splitlines() == [
            f"error: {served.urls['tcp']}: permission denied",
            "hint: the server exports / to 192.0.2.0/24 alone",
        ]
        assert served.stop() == 0
    refused = [event for event in served.events if event["event"] == "refused"]
    told = {
        "event": "refused",
        "client": "127.0.0.1",
        "export": "/",
        "reason": "it admits 192.0.2.0/24 alone",
        "admitted": ["192.0.2.0/24"],
    }
    assert refused == [told]
    assert "refused 127.0.0.1" not in served.said


@pytest.mark.thorough
def test_threads_of_the_server_make_way_for_each_other_soon(data: Path, tmp_path: Path) -> None:
    """A call waits after each of its system calls for every thread that computes."""
    before_s = sys.getswitchinterval()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        try:
            # It gets as far as its listeners.
            assert main(["serve", "--state-dir", str(tmp_path / "state"), "--listen", url, str(data)]) == 1
            assert sys.getswitchinterval() <= 0.001
        finally:
            sys.setswitchinterval(before_s)


COUNTS = """\
import gc, os, sys
from rpcrdma.cli import main, service_manager

def count(*_):
    # In one piece, which no other thread's line divides.
    os.write(2, b"objects: %d\\n" % len(gc.get_objects()))
    os._exit(0)

service_manager.ServiceManager.ready = count
sys.argv[0] = "rpcrdma"
main.run()
"""
"""A server that tells how many objects a collection of garbage would look through once it is ready."""


@pytest.mark.thorough
def test_no_collection_of_garbage_looks_through_what_a_server_has_loaded(data: Path, tmp_path: Path) -> None:
    options = ["--listen", "tcp://127.0.0.1:0", "--state-dir", tmp_path / "state", data]
    command = [sys.executable, "-c", COUNTS, "serve", "--json", *options]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.search(r"^objects: (\d+)$", told, re.MULTILINE)
    assert found is not None, told
    assert int(found[1]) < 1000, "not the modules, which have tens of thousands"
