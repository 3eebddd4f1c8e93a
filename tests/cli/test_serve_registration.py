"""`rpcrdma serve --register`: which servers are registered at rpcbind. No test asks the rpcbind of the machine."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from rpcrdma.cli import serve as serve_command
from rpcrdma.cli.serve_registration import register
from rpcrdma.errors import ConnectFailed
from rpcrdma.nfs import v3
from rpcrdma.nfs.server import registration
from support.cases import each_case
from support.loops import in_virtual_time

if TYPE_CHECKING:
    from support.commands import Command

OUTSIDE, INSIDE = "tcp://192.0.2.1:2049", "tcp://127.0.0.1:2049"


@each_case(
    ("choice", "user", "listening", "asked", "starts"),
    [
        ("auto", 0, OUTSIDE, True, True),
        ("auto", 0, INSIDE, False, True),
        ("auto", 1000, OUTSIDE, False, True),
        ("no", 0, OUTSIDE, False, True),
        ("yes", 0, OUTSIDE, True, False),
        ("yes", 0, INSIDE, True, False),
        ("yes", 1000, INSIDE, True, False),
    ],
)
def test_a_server_of_root_that_others_reach_asks_rpcbind_unless_told_otherwise(
    choice: str,
    user: int,
    listening: str,
    asked: bool,
    starts: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.clear()
    paths = []

    def gone(path: str) -> None:
        paths.append(path)
        raise ConnectFailed(f"cannot connect to {path}: no such file or directory")

    monkeypatch.setattr(registration, "local_socket", gone)
    monkeypatch.setattr(os, "geteuid", lambda: user)

    @in_virtual_time
    async def serve() -> None:
        offered, server = [SimpleNamespace(PROGRAM=v3.NFS_V3)], SimpleNamespace(listening=[listening])
        registered = await register(choice, offered, server)  # type: ignore[arg-type]
        assert (registered is not None) == asked
        if registered is not None:
            await registered.close()

    if starts:
        serve()
    else:
        with pytest.raises(ConnectFailed, match=r"start rpcbind, or serve without rpcbind \(--register no\)$"):
            serve()
    assert paths == ["/run/rpcbind.sock"] * asked
    assert len(caplog.records) == (asked and starts), "one warning where the server serves all the same"


@pytest.mark.thorough
def test_a_server_that_cannot_tell_where_it_listens_leaves_nothing_behind(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    async def close() -> None:
        closed.append(True)

    async def registered(*_: object) -> SimpleNamespace:
        return SimpleNamespace(close=close)

    def full(*_: object, **__: object) -> None:
        assert (tmp_path / "admin").exists()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(serve_command, "register", registered)
    monkeypatch.setattr(serve_command, "announce", full)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    options = ["--listen", "tcp://127.0.0.1:0", "--state-dir", str(tmp_path / "s"), "--admin", str(tmp_path / "admin")]
    (tmp_path / "data").mkdir()
    ran = command.run("serve", *options, str(tmp_path / "data"))
    assert (ran.status, ran.err) == (1, "error: no space left on device\n")
    assert closed == [True]
    assert not (tmp_path / "admin").exists()
