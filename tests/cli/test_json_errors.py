"""With `--json`, failures are data as well: one object with `error`, or in the report of `get` and `put`."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.cli.main import main
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Command, Remote, StartServer

KEYS = {"kind", "message", "path", "url", "errno", "hint", "exit_status"}


def errors(out: str) -> list[dict[str, Any]]:
    """The lines of a run in which everything fails."""
    objects = [json.loads(line)["error"] for line in out.splitlines()]
    assert all(error.keys() == KEYS for error in objects)
    return objects


@pytest.mark.thorough
@pytest.mark.versions("2")
@each_case("command", ["ls", "stat", "rm", "mkdir"])
def test_a_missing_file_is_an_object(remote: Remote, command: str) -> None:
    ran = remote.run(command, "--json", remote.url("/none/x" if command == "mkdir" else "/none"))
    assert ran.status == 1
    (error,) = errors(ran.text)
    path = f"/{remote.name}/none"
    assert (error["kind"], error["path"], error["errno"], error["exit_status"]) == ("file", path, "ENOENT", 1)
    assert error["url"] == remote.url("/none")
    assert error["message"] == f"{error['url']}: no such file or directory"
    hint = "hint: -p makes missing parents\n" if command == "mkdir" else ""
    assert ran.err == f"error: {error['message']}\n{hint}"
    ran = remote.run(command, remote.url("/none/x" if command == "mkdir" else "/none"))
    assert (ran.status, ran.out) == (1, b""), "without --json errors are talk alone"


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_mv_reports_each_failure_by_itself(remote: Remote) -> None:
    (remote.local / "b").touch()
    (remote.local / "d").mkdir()
    ran = remote.run("mv", "--json", *(remote.url(f"/{name}") for name in "abd"), remote.url("/d"))
    assert ran.status == 1
    first, second, third = ran.json_lines
    assert first["error"]["errno"] == "ENOENT"
    assert second["moved"] == remote.url("/b")
    assert third["error"]["errno"] == "EINVAL"


@pytest.mark.thorough
@each_case("command", ["ls", "ping", "get", "put", "doctor"])
def test_a_server_that_is_not_there_is_an_object(
    command: str, nobody_listens: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url = f"tcp://127.0.0.1:{nobody_listens}/d"
    arguments = {"get": [url, str(tmp_path)], "put": [str(tmp_path), url]}.get(command, [url])
    assert main([command, "--json", *arguments]) == 3
    out = capfd.readouterr().out
    if command == "doctor":
        # Finding out is its purpose: not a failure of the command, and in its report.
        assert json.loads(out)["problems"] > 0
        return
    (error,) = errors(out)
    assert (error["kind"], error["exit_status"], error["path"], error["errno"]) == ("not_connected", 3, None, None)
    assert error["message"] == f"cannot connect to 127.0.0.1:{nobody_listens}: connection refused"
    assert error["hint"] == "check that the server runs and listens there"


@each_case(
    "line",
    [
        *("ls --json", "ls --json --bogus rdma://h", "rm --json rdma://h/", "get --json a b", "put --json a b"),
        *("serve --json", "mv --json rdma://a/x rdma://b/y", "ls --json http://h"),
    ],
)
def test_wrong_usage_is_an_object(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        # Some of it the parser refuses, which ends the program itself.
        sys.exit(main(line.split()))
    assert ended.value.code == 2
    said = capsys.readouterr()
    (error,) = errors(said.out)
    assert (error["kind"], error["exit_status"]) == ("usage", 2)
    assert said.err.startswith(f"error: {error['message']}\n")


def test_lint_of_a_file_that_is_not_there_is_an_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xdr", "lint", "--json", str(tmp_path / "none.x")]) == 1
    said = capsys.readouterr()
    (error,) = errors(said.out)
    assert error["message"] == f"{tmp_path / 'none.x'}: no such file or directory"
    assert (error["path"], error["errno"]) == (str(tmp_path / "none.x"), "ENOENT")
    assert said.err == f"error: {error['message']}\n"


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_put_lists_what_failed_and_what_was_left_out(remote: Remote, tmp_path: Path) -> None:
    source = tmp_path / "tree"
    source.mkdir()
    (source / "good").write_text("good")
    (source / "taken").write_text("x")
    os.mkfifo(source / "pipe")
    (remote.local / "copy" / "taken").mkdir(parents=True)
    ran = remote.run("put", "--json", str(source), str(tmp_path / "none"), remote.url("/copy"))
    assert ran.status == 1
    assert not (remote.local / "copy" / "good").exists(), "there is a directory: the tree goes into it"
    (remote.local / "copy" / "tree" / "taken").unlink()
    (remote.local / "copy" / "tree" / "taken").mkdir()
    ran = remote.run("put", "--json", str(source), str(tmp_path / "none"), remote.url("/copy"))
    report = ran.json
    assert ran.status == 1
    assert (report["files"], report["failures_total"]) == (1, 2)
    assert report["skipped"] == [{"path": str(source / "pipe")}]
    first, second = report["failures"]
    assert first.keys() == second.keys() == KEYS
    assert (first["path"], first["errno"]) == (str(source / "taken"), "EISDIR")
    assert (second["path"], second["errno"]) == (str(tmp_path / "none"), "ENOENT")


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_get_lists_what_failed_and_what_was_left_out(remote: Remote, tmp_path: Path) -> None:
    top = remote.local / "tree"
    top.mkdir()
    (top / "good").write_text("good")
    (top / "taken").write_text("x")
    os.mkfifo(top / "pipe")
    (tmp_path / "copy" / "tree" / "taken").mkdir(parents=True)
    ran = remote.run("get", "--json", remote.url("/tree"), remote.url("/none"), str(tmp_path / "copy"))
    report = ran.json
    assert ran.status == 1
    assert (report["files"], report["failures_total"]) == (1, 2)
    assert report["skipped"] == [{"path": f"/{remote.name}/tree/pipe"}]
    first, second = report["failures"]
    assert first["path"] == f"/{remote.name}/tree/taken"
    assert (second["path"], second["errno"]) == (f"/{remote.name}/none", "ENOENT")
    assert [line for line in ran.err.splitlines() if line.startswith("error: ")] == [
        f"error: {failure['message']}" for failure in report["failures"]
    ]


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_names_that_are_no_utf_8_come_back_whole(remote: Remote) -> None:
    """Valid JSON in UTF-8, the octets beside it, and a URL that leads to the file."""
    name = b"caf\xe9 %\xff"
    (Path(os.fsdecode(os.fsencode(remote.local) + b"/" + name))).write_text("here")
    ran = remote.done("ls", "--json", remote.url())
    (row,) = ran.json_lines
    json.dumps(row, ensure_ascii=False).encode("utf-8")
    assert row["path"] == f"/{remote.name}/caf%E9 %%FF"
    assert base64.b64decode(row["path_base64"]) == f"/{remote.name}/".encode() + name
    assert remote.done("cat", remote.url("/caf%E9 %25%FF")).text == "here"
    (removed,) = remote.done("rm", "--json", remote.url("/caf%E9 %25%FF")).json_lines
    assert removed == {"removed": remote.url("/caf%E9 %25%FF")}


@pytest.mark.thorough
def test_exports_of_a_tree_name_failures_as_urls_do(start: StartServer, command: Command, tmp_path: Path) -> None:
    (tmp_path / "data" / "tree").mkdir(parents=True)
    os.mkfifo(tmp_path / "data" / "tree" / "pipe")
    with start(tmp_path, tmp_path / "state", f"--export=data={tmp_path / 'data'}", named_only=True) as served:
        url = f"{served.urls['rdma']}/data/tree?mountport={served.urls['tcp'].rpartition(':')[2]}"
        report = command.done("get", "--json", url, str(tmp_path / "copy")).json
        assert served.stop() == 0
    assert report["skipped"] == [{"path": "/data/tree/pipe"}]
