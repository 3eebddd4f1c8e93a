"""What servers export, how much room they have, which calls a listing takes, and completion."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.aio.urls import parse_url
from rpcrdma.cli.main import main

if TYPE_CHECKING:
    from conftest import Remote, StartServer


def test_exports_are_listed_with_those_who_may_mount_them(
    start: StartServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"in-{name}").touch()
    exports = [f"--export=data/{name}={tmp_path / name}" for name in ("b", "a")]
    with start(tmp_path, tmp_path / "state", *exports, "--allow", "127.0.0.0/8", named_only=True) as served:
        port = parse_url(served.urls["tcp"]).port
        server = f"{served.urls['rdma']}?mountport={port}"
        assert main(["exports", server]) == 0
        assert capsys.readouterr().out == "/data/a  127.0.0.0/8\n/data/b  127.0.0.0/8\n"
        assert main(["exports", "--json", served.urls["tcp"]]) == 0
        first, _ = capsys.readouterr().out.splitlines()
        assert first == f'{{"url": "{served.urls["tcp"]}", "export": "/data/a", "clients": ["127.0.0.0/8"]}}'
        assert main(["exports", f"{served.urls['rdma']}/data?mountport={port}"]) == 2
        assert "name the server alone" in capsys.readouterr().err
        # Above its exports, each of them is shown.
        assert main(["df", server]) == 0
        heading, *rows = capsys.readouterr().out.splitlines()
        assert heading.split() == ["path", "size", "used", "available", "use", "files"]
        assert [row.split()[0] for row in rows] == ["/data/a", "/data/b"]
        assert served.stop() == 0


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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_comes_from_the_parser(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("rpcrdma", "get", "mount-port", "recursive", "lint", "warning"):
        assert word in script, f"{word}: a command, an option, one of a command within a command, or a choice"
    program = shutil.which(shell)
    if program is not None:
        file = tmp_path / "completion"
        file.write_text(script)
        subprocess.run([program, "-n", str(file)], check=True, timeout=30)


def test_bash_completes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", "bash"]) == 0
    file = tmp_path / "completion"
    file.write_text(capsys.readouterr().out)
    script = f"""
        source {file}
        COMP_WORDS=(rpcrdma ge) COMP_CWORD=1 COMP_LINE="rpcrdma ge" COMP_POINT=10
        $(complete -p rpcrdma | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == ["get"], done.stderr
