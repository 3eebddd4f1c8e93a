"""`rpcrdma admin`: a server is asked over its local socket, and a client of version 4 loses its state."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import rpcrdma
from rpcrdma.aio.server.server_statistics import HostStatistics
from rpcrdma.aio.urls import parse_url
from rpcrdma.cli import admin, serve_admin
from rpcrdma.cli.serve_admin import AdminAnswers, admin_socket_path
from rpcrdma.nfs.mount import MNT, MOUNT_V3
from support.cases import each_case
from support.commands import Command
from support.functions_entered import functions_entered
from support.nfs4_client import READ, WRITE, Client, lock, open_, putfh, test_stateid
from support.nfs4_connection import TcpConnection

if TYPE_CHECKING:
    from support.commands import StartServer

WRITE_LT = 2


async def mount(url: str) -> None:
    async with rpcrdma.connect(url, MOUNT_V3) as connection:
        assert (await connection.call(MNT, "/")).fhs_status == 0


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    return Command(capfdbinary)


def test_the_socket_stands_in_the_state_directory_unless_it_is_named_or_off() -> None:
    state = Path("/state")
    assert admin_socket_path(None, state) == Path("/state/admin.sock")
    assert admin_socket_path(Path("/run/x"), state) == Path("/run/x")
    assert admin_socket_path("off", state) is None


def test_no_call_waits_for_the_reports_on_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def plain(_report: Any) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return {"address": "192.0.2.7", "versions": ["4.1"]}

    async def no_hosts() -> list[Any]:
        return []

    services: Any = SimpleNamespace(hosts=no_hosts, mount=SimpleNamespace(mounts=list), state=None)
    monkeypatch.setattr("rpcrdma.cli.serve_admin._plain", plain)
    monkeypatch.setattr("rpcrdma.nfs.v4.server.client_reports.clients_of", lambda *_: ["a client"])
    answers = AdminAnswers(argparse.Namespace(), services, services, services, dict, None)
    assert [host["versions"] for host in asyncio.run(answers._clients({}))["hosts"]] == [["4.1"]]
    assert threads != [threading.main_thread()]


def test_no_clients_and_no_exports_are_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    admin._show_clients({"hosts": [], "clients": []})
    admin._show_exports({"exports": []})
    assert capsys.readouterr() == ("", "no clients\nno exports\n")


def test_the_row_of_a_host_is_made_in_few_steps() -> None:
    host = HostStatistics(address="192.0.2.7", calls=5)
    assert functions_entered(lambda: serve_admin._host(host, {host.address: {"3"}}, {})) < 8


@each_case(
    ("text", "asked"),
    [
        ("workers = 0\nsquish = 1\n", "rpcrdma/admin.sock"),
        ('workers = "x"\nadmin = "own.sock"\nstate-dir = 1\n[[export]]\n', "own.sock"),
        ('listen = []\nstate-dir = "other"\n', "other/admin.sock"),
        # Another server may have the default.
        ("state-dir = 1\n", ""),
        ('admin = ""\n', ""),
        ("workers = \n", ""),
    ],
)
def test_a_server_is_asked_although_its_file_has_a_mistake_elsewhere(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, text: str, asked: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "c.toml"
    file.write_text(text)
    ask = ("admin", "status", "--config", str(file))
    ran = command.run(*ask)
    lines = ran.err.splitlines()
    if not asked:
        assert (ran.status, lines[0].startswith(f"error: {file}:1: ")) == (2, True)
        assert lines[-1] == "hint: --admin PATH finds the server without its file"
        asked = "own.sock"
        ran = command.run(*ask, "--admin", str(tmp_path / asked))
        lines = ran.err.splitlines()
    assert lines[0].startswith(f"warning: {file}:1: ")
    assert (ran.status, lines[-2]) == (3, f"error: no server answers at {tmp_path}/{asked}")


@pytest.mark.thorough
def test_what_is_no_answer_of_a_server_is_told_in_a_line(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    monkeypatch.setattr(admin, "ADMIN_ANSWER_OCTETS_MAX", 1 << 16)
    answers = {
        b"": "it has closed the connection",
        b'{"ok": true, "answer': "its answer is cut off",
        b"nonsense\n": "its answer is no answer of rpcrdma",
        b"[1]\n": "its answer is no answer of rpcrdma",
        b'{"ok": true}\n': "its answer is no answer of rpcrdma",
        b'{"ok": true, "answer": "x"}\n': "its answer is no answer of rpcrdma",
        b'{"ok": false, "message": "x"}\n': "its answer is no answer of rpcrdma",
        b"[" * 50_000 + b"\n": "its answer is no answer of rpcrdma",
        b"x" * (1 << 17): "its answer is too long",
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            for octets in answers:
                with listener.accept()[0] as sock, contextlib.suppress(OSError):
                    sock.recv(4096)
                    sock.sendall(octets)

        thread = threading.Thread(target=answer)
        thread.start()
        for octets, told in answers.items():
            ran = command.run("admin", "status", "--admin", str(path))
            assert (ran.status, ran.out) == (3, b""), octets[:20]
            assert ran.err.startswith(f"error: {path}: {told}\n")
        thread.join()


def test_the_answer_of_another_version_is_told_in_a_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_exchanged", lambda _path, _request: {"ok": True, "answer": {"grace": None}})
    for word in ("status", "clients", "exports"):
        ran = command.run("admin", word, "--admin", "/s")
        assert (ran.status, ran.out) == (1, b"")
        assert ran.err.startswith("error: /s: its answer is that of another version of rpcrdma\nhint: restart ")
    assert command.run("admin", "status", "--admin", "/s", "--json").json == {"grace": None}


def test_the_name_of_a_socket_that_is_too_long_is_told_without_an_error_number(command: Command) -> None:
    ran = command.run("admin", "status", "--admin", "/tmp/" + 200 * "x")
    assert (ran.status, ran.err.splitlines()[0].endswith("x: its name has 200 octets, more than 85")) == (3, True)


@pytest.mark.thorough
def test_an_administrator_sees_clients_and_revokes_the_state_of_one(
    start: StartServer, tmp_path: Path, command: Command
) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    (root / "file").write_bytes(b"data")
    options = ["--state-dir", str(state)]
    with start(root, state) as served:
        port = parse_url(served.urls["tcp"]).port
        assert command.done("admin", "clients", *options, "--json").json == {"hosts": [], "clients": []}
        asyncio.run(mount(served.urls["tcp"]))
        client, other = (Client(TcpConnection(port), name).start() for name in (b"node1 \x1b[2J", b"node2"))
        handle = client.handle("file")
        opened, theirs = (each.opened(handle, READ | WRITE) for each in (client, other))
        client.locked(handle, opened)
        wanted = lock(theirs, b"l", WRITE_LT, 0, 1)
        assert other.run(putfh(handle), wanted).status == "DENIED"

        status = command.done("admin", "status", *options, "--json").json
        assert (status["version"], status["clients"], status["pid"]) == (rpcrdma.__version__, 2, served.process.pid)
        assert sorted(status["listening"]) == sorted(served.urls.values())
        assert (status["grace"]["active"], status["exports"]) == (False, {"available": 1, "absent": []})
        assert (status["connections"]["tcp"], status["config"], status["last_reload"]) == (2, None, None)
        assert f"process {served.process.pid}" in command.done("admin", "status", *options).text

        found = command.done("admin", "clients", *options, "--json").json
        (host,) = found["hosts"]
        assert (host["address"], host["versions"], host["tcp_connections"]) == ("127.0.0.1", ["3", "4.1"], 2)
        assert host["mounts"] == ["/"]
        assert host["calls"] >= 9
        assert min(host["bytes_received"], host["bytes_sent"]) > 500
        first, second = found["clients"]
        assert [first[key] for key in ("id", "opens", "locks", "delegations")] == [f"{client.id:016x}", 1, 1, 0]
        assert [second[key] for key in ("opens", "locks", "calls", "state")] == [1, 0, other.number, "confirmed"]
        text = command.done("admin", "clients", *options).text
        assert r"node1 \x1b[2J" in text
        assert "\x1b" not in text
        (export,) = command.done("admin", "exports", *options, "--json").json["exports"]
        assert export == {
            "name": "/", "source": str(root), "access": "rw", "available": True, "opens": 2, "locks": 1,
            "delegations": 0,
        }  # fmt: skip
        assert command.done("admin", "exports", *options).lines[1].split() == ["/", str(root), "rw", "yes", *"210"]

        unknown = command.run("admin", "revoke", first["id"][:-1], *options)
        assert (unknown.status, unknown.out) == (1, b"")
        assert "there is no client" in unknown.err
        # The first table has this address, whose client of version 4 is revoked by its id.
        assert "hint: rpcrdma admin clients lists the ids" in unknown.err
        said = command.done("admin", "revoke", first["id"], *options).text
        assert said == rf"revoked of {first['id']} (node1 \x1b[2J at 127.0.0.1): 1 open, 1 lock, 0 delegations" + "\n"
        assert other.run(putfh(handle), wanted).status == "OK"
        assert client.run(test_stateid(opened)).value(55) == ["ADMIN_REVOKED"]
        assert client.run(putfh(handle), open_(b"again", READ)).status == "OK"
        assert command.done("admin", "revoke", "127.0.0.1", *options, "--json").json["mounts"] == ["/"]
        assert command.run("admin", "revoke", "127.0.0.1", *options).status == 1
        for each in (client, other):
            each.exchange.cut()  # type: ignore[attr-defined]
        assert served.stop() == 0
        assert [event["event"] for event in served.events].count("revoked") == 2
    assert not (state / "admin.sock").exists()


@pytest.mark.thorough
def test_a_server_without_a_socket_of_its_own_goes_on_unless_the_socket_was_named(
    start: StartServer, tmp_path: Path, command: Command
) -> None:
    root, state, path = tmp_path / "root", tmp_path / "state", tmp_path / "own.sock"
    root.mkdir()
    ask = ("admin", "status", "--state-dir", str(state), "--json")
    ran = command.run(*ask)
    assert (ran.status, ran.json["error"]["message"]) == (3, f"no server answers at {state}/admin.sock")
    assert "--config" in ran.json["error"]["hint"]
    with start(root, state) as first:
        # Servers may share the directory.
        with start(root, state) as second:
            assert command.done(*ask).json["pid"] == first.process.pid
            assert second.stop() == 0
            assert f"admin.sock is the admin socket of the server with process {first.process.pid}; " in second.said
        with start(root, state, "--admin", str(path)) as second:
            assert command.done(*ask, "--admin", str(path)).json["pid"] == second.process.pid
            serve = ["serve", "--state-dir", str(state), "--listen", "tcp://127.0.0.1:0", str(root)]
            ran = command.run(*serve, "--admin", str(path))
            assert (ran.status, ran.err.splitlines()[-2:]) == (
                1,
                [
                    f"error: {path} is the admin socket of the server with process {second.process.pid}",
                    "hint: stop that server, or name another path (--admin PATH)",
                ],
            )
            assert second.stop() == 0
        assert first.stop() == 0
    file = tmp_path / "c.toml"
    file.write_text(f'state-dir = "{state}"\nadmin = "off"\n')
    ran = command.run("admin", "status", "--config", str(file))
    assert (ran.status, f"{file}:2: admin is off" in ran.err) == (1, True)
