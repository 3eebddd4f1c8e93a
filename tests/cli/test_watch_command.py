"""`rpcrdma watch`."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import pytest

from rpcrdma.cli.main import build_parser
from rpcrdma.cli.options import connect_options
from support.cases import each_case
from support.command_process import CommandProcess

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Remote, StartServer


@contextmanager
def watching(remote: Remote, *options: str) -> Iterator[CommandProcess]:
    """The command in a process of its own."""
    command = ["--mount-port", remote.mount_port, "watch", remote.url(), *options]
    with CommandProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip("\n")


def test_changes_are_printed_until_an_interrupt_which_is_no_failure(remote: Remote) -> None:
    (remote.local / "d").mkdir()
    with watching(remote, "--recursive") as process:
        assert line(process.stderr) == f"watching {remote.url()}"
        (remote.local / "d" / "a").touch()
        (remote.local / "d" / "a").rename(remote.local / "b")
        (remote.local / "d").rmdir()
        printed = [line(process.stdout) for _ in range(3)]
        assert printed == ["created d/a", "renamed d/a -> b", "removed d/"]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_changes_are_printed_as_json(remote: Remote) -> None:
    with watching(remote, "--json", "--count", "2") as process:
        assert json.loads(line(process.stdout)) == {"event": "watching", "url": remote.url()}
        (remote.local / "a").mkdir()
        (remote.local / "a").rename(remote.local / "b")
        printed: list[dict[str, Any]] = [json.loads(line(process.stdout)) for _ in range(2)]
        assert printed == [
            {"event": "created", "path": "a", "target": None, "is_directory": True},
            {"event": "renamed", "path": "a", "target": "b", "is_directory": True},
        ]
        assert process.wait(10) == 0


@pytest.mark.thorough
def test_it_ends_when_the_time_is_up(remote: Remote) -> None:
    ran = remote.done("watch", "--seconds", "0.2", remote.url())
    assert (ran.lines, ran.err) == ([], f"watching {remote.url()}\n")


@pytest.mark.thorough
def test_what_is_no_directory_is_not_watched(remote: Remote) -> None:
    (remote.local / "file").touch()
    ran = remote.run("watch", remote.url("/file"))
    assert (ran.status, ran.err) == (1, f"error: /{remote.name}/file: not a directory\n")


def test_a_server_stops_at_once_though_it_is_watched(start: StartServer, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    with start(tmp_path / "export", tmp_path / "state") as served:
        url, port = served.urls["rdma"], served.urls["tcp"].rpartition(":")[2]
        command = ["--mount-port", port, "watch", url]
        with CommandProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert line(process.stderr) == f"watching {url}"
                (tmp_path / "export" / "a").touch()
                assert line(process.stdout) == "created a"
                begun_s = time.monotonic()
                assert served.stop() == 0
                assert time.monotonic() - begun_s < 5
            finally:
                process.kill()


def test_a_server_that_is_started_again_is_watched_on(start: StartServer, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    with start(tmp_path / "export", tmp_path / "state") as first:
        url, port = first.urls["tcp"], first.urls["tcp"].rpartition(":")[2]
        command = ["--mount-port", port, "watch", "--count", "2", url]
        with CommandProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert line(process.stderr) == f"watching {url}"
                first.process.kill()
                first.process.wait(10)
                with start(tmp_path / "export", tmp_path / "state", "--listen", url) as second:
                    assert line(process.stderr) == "connection lost; reconnected"
                    assert line(process.stdout) == "rescan"
                    (tmp_path / "export" / "a").touch()
                    assert line(process.stdout) == "created a"
                    assert process.wait(10) == 0
                    assert second.stop() == 0
            finally:
                process.kill()


@each_case("word", [[], ["--changes-in-clear"]])
def test_changes_that_kerberos_does_not_protect_are_asked_for_by_name(word: list[str]) -> None:
    options = connect_options(build_parser().parse_args(["watch", "--sec=krb5p", *word, "rdma://h/"]))
    assert options.services_in_clear is bool(word)
