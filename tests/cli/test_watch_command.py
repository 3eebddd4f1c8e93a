"""`rpcrdma watch`."""

from __future__ import annotations

import json
import subprocess
from typing import IO, TYPE_CHECKING

import pytest

from rpcrdma.cli.main import build_parser
from rpcrdma.commands.options import connect_options
from support.cases import each_case
from support.command_process import HANG_S, CommandProcess

if TYPE_CHECKING:
    from pathlib import Path

    from support.commands import Remote, StartServer


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip("\n")


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_changes_below_are_printed_as_text_or_json(remote: Remote) -> None:
    for options in (["--recursive"], ["--recursive", "--json"]):
        (remote.local / "d").mkdir()
        command = ["--mount-port", remote.mount_port, "watch", remote.url(), "--count", "3", *options]
        with CommandProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            if "--json" in options:
                assert json.loads(line(process.stdout)) == {"event": "watching", "url": remote.url()}
            else:
                assert line(process.stderr) == f"watching {remote.url()}"
            (remote.local / "d" / "a").touch()
            (remote.local / "d" / "a").rename(remote.local / "b")
            (remote.local / "d").rmdir()
            status, out, err = process.ended()
        assert (status, err) == (0, "")
        if "--json" in options:
            assert [json.loads(each) for each in out.splitlines()] == [
                {"event": "created", "path": "d/a", "target": None, "is_directory": False},
                {"event": "renamed", "path": "d/a", "target": "b", "is_directory": False},
                {"event": "removed", "path": "d", "target": None, "is_directory": True},
            ]
        else:
            assert out.splitlines() == ["created d/a", "renamed d/a -> b", "removed d/"]


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_it_ends_when_the_time_is_up(remote: Remote) -> None:
    ran = remote.done("watch", "--seconds", "0.2", remote.url())
    assert (ran.lines, ran.err) == ([], f"watching {remote.url()}\n")


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_what_is_no_directory_is_not_watched(remote: Remote) -> None:
    (remote.local / "file").touch()
    ran = remote.run("watch", remote.url("/file"))
    assert (ran.status, ran.err) == (1, f"error: {remote.url('/file')}: not a directory\n")


@pytest.mark.journey
def test_a_server_that_is_started_again_is_watched_on(start: StartServer, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    with start(tmp_path / "export", tmp_path / "state") as first:
        url, port = first.urls["tcp"], first.urls["tcp"].rpartition(":")[2]
        command = ["--mount-port", port, "watch", "--count", "2", url]
        with CommandProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert line(process.stderr) == f"watching {url}"
            first.process.kill()
            first.process.wait(HANG_S)
            with start(tmp_path / "export", tmp_path / "state", "--listen", url) as second:
                assert line(process.stderr) == "connection lost; reconnected"
                assert line(process.stdout) == "rescan"
                (tmp_path / "export" / "a").touch()
                assert line(process.stdout) == "created a"
                assert process.wait(HANG_S) == 0
                assert second.stop() == 0


@each_case("word", [[], ["--changes-in-clear"]])
def test_changes_that_kerberos_does_not_protect_are_asked_for_by_name(word: list[str]) -> None:
    options = connect_options(build_parser().parse_args(["watch", "--sec=krb5p", *word, "rdma://h/"]))
    assert options.services_in_clear is bool(word)
