"""Names keep their octets in a locale that cannot spell them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.commands import Served

pytestmark = pytest.mark.thorough

NAMES = ["é".encode(), "日本".encode(), b"\xff\x80", b"plain"]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def found(top: Path) -> dict[bytes, bytes]:
    entries = list(os.scandir(os.fsencode(top)))
    return {
        entry.name: os.readlink(entry.path) if entry.is_symlink() else Path(os.fsdecode(entry.path)).read_bytes()  # noqa: PTH115 - octets
        for entry in entries
    }


def test_a_tree_goes_there_and_back_in_an_ascii_locale(server: Served, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in NAMES:
        (source / os.fsdecode(name)).write_bytes(name)
        os.symlink(b"to-" + name, os.fsencode(source) + b"/link-" + name)  # noqa: PTH211 - octets
    port = server.urls["tcp"].rpartition(":")[2]
    url = f"{server.urls['tcp']}/ascii-locale"

    def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "rpcrdma", "--mount-port", port, *arguments]
        return subprocess.run(command, env=os.environ | ASCII, capture_output=True, check=False)

    for arguments in (["put", str(source), url], ["get", url, str(tmp_path / "copy")]):
        ran = run(*arguments)
        assert ran.returncode == 0, ran.stderr.decode()
    assert len(found(source)) == 2 * len(NAMES)
    assert found(server.root / "ascii-locale") == found(source)
    assert found(tmp_path / "copy") == found(source)
    listed = run("ls", url)
    assert sorted(listed.stdout.split(b"\n"))[1:] == sorted(found(source))
