"""Exports of servers, their free space, the calls of a listing, and completion."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from rpcrdma.aio.urls import parse_url
from rpcrdma.cli import df, ls
from rpcrdma.cli.main import main
from rpcrdma.cli.remote import Failures
from rpcrdma.errors import UserAuthenticationFailed
from rpcrdma.nfs.client import security_choice
from rpcrdma.nfs.client.mount_client import NoSuchExport
from support.cases import each_case
from support.command_process import HANG_S

if TYPE_CHECKING:
    from rpcrdma.aio.client.connect import ConnectOptions
    from rpcrdma.aio.urls import Url
    from rpcrdma.cli.remote import Servers
    from support.commands import Remote, StartServer


@pytest.mark.thorough
def test_exports_are_listed_with_those_who_may_mount_them(
    start: StartServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"in-{name}").touch()
    exports = [f"--export=data/{name}={tmp_path / name}" for name in ("b", "a")]
    with start(tmp_path, tmp_path / "state", *exports, "--allow", "127.0.0.0/8", named_only=True) as served:
        port = parse_url(served.urls["tcp"]).port
        server = f"{served.urls['rdma']}?mountport={port}"
        assert main(["exports", server]) == 0
        assert capsys.readouterr().out == "/data/a  127.0.0.0/8  sec=sys:none\n/data/b  127.0.0.0/8  sec=sys:none\n"
        assert main(["exports", "--json", served.urls["tcp"]]) == 0
        first, _ = capsys.readouterr().out.splitlines()
        assert json.loads(first) == {
            "url": served.urls["tcp"],
            "export": "/data/a",
            "clients": ["127.0.0.0/8"],
            "security": ["sys", "none"],
        }
        assert main(["exports", f"{served.urls['rdma']}/data?mountport={port}"]) == 2
        assert "name the server alone" in capsys.readouterr().err
        # Above its exports, each of them is shown.
        assert main(["df", server]) == 0
        heading, *rows = capsys.readouterr().out.splitlines()
        assert heading.split() == ["path", "size", "used", "available", "use", "files"]
        assert [row.split()[0] for row in rows] == ["/data/a", "/data/b"]
        # Of the many that a hostile server lists, the first ones alone are mounted.
        for command in (df, ls):
            monkeypatch.setattr(command, "EXPORTS_ASKED_MAX", 1)
        assert main(["df", server]) == 1
        said = capsys.readouterr()
        assert [row.split()[0] for row in said.out.splitlines()] == ["path", "/data/a"]
        assert said.err.splitlines() == [
            f"error: {served.urls['rdma']}: only 1 of 2 exports are shown",
            "hint: name the other ones to see theirs",
        ]
        assert main(["ls", "-l", f"{served.urls['rdma']}/data?mountport={port}"]) == 0
        first, second = capsys.readouterr().out.splitlines()
        assert (first[:3], second.split()) == ("drw", ["d?????????", "?", "?", "?", "?", "?", "b"])
        assert served.stop() == 0


@pytest.mark.thorough
def test_an_export_or_server_that_fails_leaves_what_is_known_of_others(
    start: StartServer,
    tmp_path: Path,
    nobody_listens: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def secured(options: ConnectOptions, url: Url, _mounted: object) -> ConnectOptions:
        if url.path == "/a":
            raise UserAuthenticationFailed("/a asks for krb5")
        return options

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "b" / "file").touch()
    exports = [f"--export={name}={tmp_path / name}" for name in ("a", "b")]
    with start(tmp_path, tmp_path / "state", *exports, named_only=True) as served:
        server, nowhere = served.urls["tcp"], f"tcp://127.0.0.1:{nobody_listens}/b"
        with monkeypatch.context() as context:
            context.setattr(security_choice, "secured", secured)
            assert main(["ls", "-l", server]) == 0
            assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]
            assert main(["df", server]) == 3
            said = capsys.readouterr()
            assert [row.split()[0] for row in said.out.splitlines()] == ["path", "/b"]
            assert "/a asks for krb5" in said.err
        assert main(["df", f"{server}/b", nowhere]) == 3
        said = capsys.readouterr()
        assert [row.split()[0] for row in said.out.splitlines()] == ["path", "/b"]
        assert said.err.startswith("error: cannot connect ")
        assert main(["get", "--json", f"{server}/b/file", nowhere, str(tmp_path)]) == 3
        report = json.loads(capsys.readouterr().out)
        assert (report["files"], [failure["kind"] for failure in report["failures"]]) == (1, ["not_connected"])
        assert served.stop() == 0


@pytest.mark.thorough
def test_a_server_of_version_4_alone_lists_its_exports(
    start: StartServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    exports = [f"--export=data/{name}={tmp_path / name}" for name in ("b", "a")]
    with start(tmp_path, tmp_path / "state", *exports, "--nfs", "4", named_only=True) as served:
        for scheme in ("tcp", "rdma"):
            assert main(["exports", served.urls[scheme]]) == 0
            assert capsys.readouterr().out == "/data/a  ?  sec=sys:none\n/data/b  ?  sec=sys:none\n"
        assert main(["exports", "--json", served.urls["tcp"]]) == 0
        first, _ = capsys.readouterr().out.splitlines()
        assert json.loads(first) == {
            "url": served.urls["tcp"],
            "export": "/data/a",
            "clients": None,
            "security": ["sys", "none"],
        }
        assert served.stop() == 0


@pytest.mark.thorough
def test_a_recursive_list_descends_to_an_export_below_directories_without_number(
    start: StartServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a/in").mkdir(parents=True)
    deep = "x/" * 500 + "x"
    exports = [f"--export={name}={tmp_path / 'a'}" for name in (deep, "x/y")]
    with start(tmp_path, tmp_path / "state", *exports, named_only=True) as served:
        with caplog.at_level("DEBUG", logger="rpcrdma.calls"):
            assert main(["ls", "-R", served.urls["tcp"]]) == 0
        out, _ = capsys.readouterr()
        lines = out.splitlines()
        assert lines[:8] == ["/:", "x", "", "/x:", "x", "y", "", "/x/x:"]
        assert lines[-9:] == [f"/{deep}:", "in", "", f"/{deep}/in:", "", "/x/y:", "in", "", "/x/y/in:"]
        # Each directory above the exports takes no call.
        assert caplog.text.count("MOUNTPROC3_MNT") < 20
        assert served.stop() == 0


@pytest.mark.thorough
def test_df_has_what_statvfs_has(remote: Remote) -> None:
    (facts,) = remote.done("df", "--json", remote.url()).json_lines
    found = os.statvfs(remote.local)
    assert facts["path"] == f"/{remote.name}"
    # Down to blocks of 4 KiB.
    assert facts["size_bytes"] == found.f_blocks * found.f_frsize // 4096 * 4096
    assert facts["files"] == found.f_files
    assert 0 <= facts["available_bytes"] <= facts["size_bytes"]
    assert facts["used_bytes"] + facts["available_bytes"] <= facts["size_bytes"]
    assert remote.run("df", remote.url("/missing")).status == 1


@pytest.mark.thorough
def test_names_alone_are_listed_without_attributes(remote: Remote, caplog: pytest.LogCaptureFixture) -> None:
    def calls(*arguments: str) -> tuple[list[str], set[str]]:
        caplog.clear()
        with caplog.at_level("DEBUG", logger="rpcrdma.calls"):
            lines = remote.done("ls", *arguments, remote.url()).lines
        return lines, {word.strip(":") for word in caplog.text.split() if word.startswith("NFSPROC3_READDIR")}

    for name in ("b", "a", ".hidden"):
        (remote.local / name).touch()
    assert calls() == (["a", "b"], {"NFSPROC3_READDIR"})
    assert calls("-a") == ([".hidden", "a", "b"], {"NFSPROC3_READDIR"})
    for option in ("-l", "-R", "--json"):
        assert calls(option)[1] == {"NFSPROC3_READDIRPLUS"}


@pytest.mark.thorough
@each_case("shell", ["bash", "zsh", "fish"])
def test_completion_comes_from_the_parser(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("rpcrdma", "get", "mount-port", "recursive", "lint", "warning"):
        assert word in script, f"{word}: a command, an option, one of a command within a command, or a choice"
    program = shutil.which(shell)
    if program is not None:
        file = tmp_path / "completion"
        file.write_text(script)
        subprocess.run([program, "-n", str(file)], check=True, timeout=HANG_S)


COMPLETED = (("put ma", True), ("get u ma", True), ("serve ma", True), ("get --pcap ma", True), ("ls ma", False))


def test_zsh_and_fish_are_told_where_paths_may_stand(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "zsh"])
    lines = capsys.readouterr().out.splitlines()
    for words in ("a local file or tree:_files", "local name of the copy", ":FILE:_files", "]:DIR:_files -/"):
        assert any(words in line and line.endswith(('_files"', '_files -/"')) for line in lines), words
    # The first of several URLs may be the last; where only URLs stand, no path is offered.
    assert any("EXPORT\\/PATH, a file or a tree:_files" in line for line in lines)
    assert not any("EXPORT\\/PATH:_files" in line for line in lines)
    main(["completion", "fish"])
    assert "__fish_complete_path" in capsys.readouterr().out


@pytest.mark.thorough
def test_bash_completes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "many").mkdir()
    asked = ["ge", *(words for words, _ in COMPLETED)]
    script = """
        source ./script
        function=$(complete -p rpcrdma | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        for COMP_LINE; do
            COMP_LINE="rpcrdma $COMP_LINE" COMP_POINT=${#COMP_LINE} COMP_WORDS=($COMP_LINE) COMPREPLY=()
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            $function 2>/dev/null # compopt complains outside of a completion
            echo "${COMPREPLY[@]}"
        done
    """
    command = ["bash", "-c", script, "bash", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S, cwd=tmp_path)
    assert done.stdout.splitlines() == ["get", *("many" if path else "" for _, path in COMPLETED)], done.stderr


def test_a_directory_is_an_export_whatever_the_order_of_the_names() -> None:
    assert [] in ls._exports_below(["/a/b", "/a", "/ab"], "/a/")
    assert ls._exports_below(["/a/b", "/ab"], "/a") == [["b"]]


async def test_the_names_of_exports_are_split_once_at_any_depth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server may list thousands of exports below 500 directories each."""
    exports, split, right = ["/d" * 100 + f"/{number}" for number in range(9)], list[str](), ls._names

    def names(path: str) -> list[str]:
        split.append(path)
        return right(path)

    class Above:
        async def locate(self, url: Url) -> None:
            raise NoSuchExport(url.path, exports)

    monkeypatch.setattr(ls, "_names", names)
    listing = ls._Listing(argparse.Namespace(recursive=True, json=False, long=False, all=False), headed=True)
    await ls._ls_url(listing, cast("Servers", Above()), Failures(), parse_url("tcp://server"))
    out, said = capsys.readouterr()
    assert out.endswith("\n" + "/d" * 100 + ":\n0\n1\n2\n3\n4\n5\n6\n7\n8\n")
    assert said.count("no such file or directory") == len(exports)
    assert sorted(split) == ["", *exports]
