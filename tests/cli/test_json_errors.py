"""With `--json`, failures are data as well: one object with `error`, or in the report of `get` and `put`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.cli.main import main
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Remote

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
    assert (second["moved"], second["to"]) == (remote.url("/b"), remote.url("/d/b"))
    assert third["error"]["errno"] == "EINVAL"


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


def test_lint_of_a_file_that_is_not_there_is_an_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["xdr", "lint", "--json", str(tmp_path / "none.x")]) == 1
    said = capsys.readouterr()
    (error,) = errors(said.out)
    assert error["message"] == f"{tmp_path / 'none.x'}: no such file or directory"
    assert (error["path"], error["errno"]) == (str(tmp_path / "none.x"), "ENOENT")
    assert said.err == f"error: {error['message']}\n"
    # The reader of standard error may have gone before that of standard output.
    gone, unread = os.pipe()
    os.close(gone)
    with contextlib.suppress(BrokenPipeError), os.fdopen(unread, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        assert main(["xdr", "lint", "--json", str(tmp_path / "none.x")]) == 1
    assert capsys.readouterr().out == said.out


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
