"""The server beside a service manager: its notifications, its signs of life, and its lines in the journal."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.cli.service_manager import ServiceManager
from rpcrdma.commands import console
from support.cases import each_case
from support.command_process import HANG_S, CommandProcess
from support.loops import in_virtual_time
from support.waiting import time_passes

if TYPE_CHECKING:
    from support.commands import StartServer


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager, bound to a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        yield sock


def told(sock: socket.socket) -> list[str]:
    """The datagrams that have arrived."""
    sock.setblocking(False)
    found = []
    try:
        while True:
            found.append(sock.recv(4096).decode())
    except BlockingIOError:
        return found


def test_a_datagram_has_a_line_for_each_assignment(manager: socket.socket) -> None:
    ServiceManager({"NOTIFY_SOCKET": manager.getsockname()}).tell("STOPPING=1", "STATUS=until then")
    assert told(manager) == ["STOPPING=1\nSTATUS=until then"]


def test_a_name_that_begins_with_an_at_sign_is_abstract() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("")  # the kernel makes an abstract name
        ServiceManager({"NOTIFY_SOCKET": f"@{sock.getsockname()[1:].decode()}"}).tell("READY=1")
        assert told(sock) == ["READY=1"]


def test_a_service_manager_that_does_not_listen_stops_nothing(
    tmp_path: Path, manager: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "absent")}).tell("READY=1")
    full = ServiceManager({"NOTIFY_SOCKET": manager.getsockname()})
    while len(caplog.records) < 2:
        full.tell("WATCHDOG=1")  # until its queue is full
    assert [record.message for record in caplog.records] == [
        "the service manager does not take READY=1: No such file or directory",
        "the service manager does not take WATCHDOG=1: Resource temporarily unavailable",
    ]


@each_case(
    ("environment", "signs"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 7),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 7),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid() + 1)}, 0),
        ({"WATCHDOG_USEC": "0"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
        ({}, 0),
    ],
)
def test_the_event_loop_sends_a_sign_of_life_twice_in_each_interval(
    environment: dict[str, str], signs: int, manager: socket.socket
) -> None:
    @in_virtual_time
    async def serve() -> None:
        ours = ServiceManager({"NOTIFY_SOCKET": manager.getsockname(), **environment})
        ours.ready("listening at tcp://[::]:2049")
        ours.ready("reloaded:\nall")  # adds no further signs of life
        await time_passes(10)

    serve()
    ready = ["READY=1\nSTATUS=listening at tcp://[::]:2049", "READY=1\nSTATUS=reloaded: all"]
    assert sorted(told(manager)) == [*ready, *["WATCHDOG=1"] * signs]


def test_the_beginning_of_a_reload_has_the_time_in_microseconds(manager: socket.socket) -> None:
    before = time.monotonic_ns()
    ServiceManager({"NOTIFY_SOCKET": manager.getsockname()}).reloading()
    (datagram,) = told(manager)
    reloading, _, stamp = datagram.partition("\nMONOTONIC_USEC=")
    assert reloading == "RELOADING=1"
    assert before // 1000 <= int(stamp) <= time.monotonic_ns() // 1000


@pytest.mark.thorough
def test_serve_tells_of_its_start_its_life_and_its_end(
    manager: socket.socket, start: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    manager.settimeout(HANG_S)
    (tmp_path / "root").mkdir()
    with start(tmp_path / "root", tmp_path / "state") as served:
        ready = manager.recv(4096).decode()
        signs = {manager.recv(4096) for _ in range(3)}
        served.process.send_signal(signal.SIGTERM)
        assert served.finish() == 0
    listening = ", ".join(event["url"] for event in served.events if event["event"] == "listening")
    assert ready == f"READY=1\nSTATUS=listening at {listening}"
    assert signs == {b"WATCHDOG=1"}
    assert [line for line in told(manager) if line != "WATCHDOG=1"] == ["STOPPING=1"]


def stream_name(descriptor: int) -> str:
    status = os.fstat(descriptor)
    return f"{status.st_dev}:{status.st_ino}"


@each_case(
    ("level", "prefix"),
    [(logging.CRITICAL, "<3>"), (logging.ERROR, "<3>"), (logging.WARNING, "<4>"), (25, "<5>"), (logging.INFO, "<6>"),
     (logging.DEBUG, "<7>")],
)  # fmt: skip
def test_each_line_in_the_journal_has_a_priority(level: int, prefix: str) -> None:
    assert console.journal_lines("failed\nTraceback", level) == f"{prefix}failed\n{prefix}Traceback"


def test_standard_error_is_the_journal_only_if_it_is_the_stream_of_the_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    assert not console.in_journal()
    for other in ("", "1:2:3", stream_name(2) + "0"):
        monkeypatch.setenv("JOURNAL_STREAM", other)
        assert not console.in_journal(), other
    console.error("no way", "go back")
    console.announce("listening")
    monkeypatch.setenv("JOURNAL_STREAM", stream_name(2))
    console.error("no way", "go back")
    console.announce("listening")
    console.talk("note: one")
    out, err = capsys.readouterr()
    assert out == "listening\n"
    assert err == "error: no way\nhint: go back\n<3>error: no way\n<3>hint: go back\n<5>listening\n<6>note: one\n"


@pytest.mark.thorough
def test_lines_of_serve_in_the_journal_have_priorities_and_no_second_time(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    words = ["serve", str(root), "--state-dir", str(tmp_path / "state"), "--listen", "tcp://127.0.0.1:0"]
    reading, writing = os.pipe()
    environment = {**os.environ, "JOURNAL_STREAM": stream_name(writing)}
    settings = {"stdout": subprocess.PIPE, "stderr": writing, "text": True, "env": environment}
    with os.fdopen(reading) as journal, CommandProcess(words, **settings) as process:
        os.close(writing)
        first = journal.readline()
        second = journal.readline()
        status, out, _ = process.ended(signal.SIGTERM)
        rest = journal.read().splitlines()
    assert (status, out) == (0, "")
    assert first.startswith("<5>listening at tcp://127.0.0.1:")
    assert second.startswith(f"<5>exporting {root} as /, read-write; ")
    assert rest == ["<5>stopping: running calls are answered first", "<5>stopped"]
