"""A server that answers WRITE with less than was asked, or COMMIT with a new verifier each time: copies end.

And one that has lost its replies in a restart: errors say so.
"""

from __future__ import annotations

import itertools
from asyncio import run
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.limits import NFS_COMMITS_IN_VAIN_MAX
from rpcrdma.nfs.client import NfsFilesystem
from rpcrdma.nfs.v3 import WRITE3resok, stable_how
from support.cases import each_case
from support.octets import pattern
from support.waiting import closing

BLOCK = 1 << 16
BLOCKS = 6
LIES = dict.fromkeys(stable_how, stable_how.UNSTABLE)
NEARLY = {**LIES, stable_how.FILE_SYNC: stable_how.DATA_SYNC}
HONEST = {how: how for how in stable_how}
MORE = dict.fromkeys(stable_how, stable_how.FILE_SYNC)


def forgetful(server: Any, promise: dict[stable_how, stable_how]) -> list[stable_how]:
    """Has WRITE answered as `promise` says, and each WRITE and COMMIT with another verifier; what WRITEs ask for.

    Each COMMIT comes to a server that has lost all data that is not stable yet.
    """
    asked: list[stable_how] = []
    verifiers = (number.to_bytes(8, "big") for number in itertools.count())
    inner_write, inner_commit = server.write, server.commit

    def write(args: Any) -> Any:
        asked.append(args.stable)
        assert len(asked) < 500, "far more than any copy here may take"
        reply = inner_write(args)
        reply.committed, reply.verf = promise[args.stable], next(verifiers)
        return reply

    def commit(args: Any) -> Any:
        server.restart()
        reply = inner_commit(args)
        reply.verf = next(verifiers)
        return reply

    server.write, server.commit = write, commit
    return asked


def copy(mount: Any, tmp_path: Path, how: str, size: int) -> None:
    local = tmp_path / "local"
    local.write_bytes(pattern(size))
    fs = mount(commit_octets=2 * BLOCK)
    run(closing(fs, fs.upload(local, "/copy") if how == "upload" else fs.write_bytes("/copy", pattern(size))))


@each_case("how", ["upload", "stream"])
@each_case("size", [10, BLOCKS * BLOCK])
@each_case("promise", [LIES, NEARLY])
def test_a_server_that_keeps_less_than_asked_is_named_as_the_cause(
    new_server: Any, tmp_path: Path, how: str, size: int, promise: Any
) -> None:
    server, mount = new_server()
    asked = forgetful(server, promise)
    with pytest.raises(
        RemoteProtocolError, match="the server does not keep data as it was asked to: WRITE as FILE_SYN"
    ):
        copy(mount, tmp_path, how, size)
    assert len(asked) <= (NFS_COMMITS_IN_VAIN_MAX + 2) * BLOCKS
    assert stable_how.FILE_SYNC in asked
    assert list(server.root.children) == ([] if how == "upload" else ["copy"])


@each_case("how", ["upload", "stream"])
@each_case("promise", [HONEST, MORE])
def test_a_server_that_keeps_what_it_says_is_written_to_in_few_rounds(
    new_server: Any, tmp_path: Path, how: str, promise: Any
) -> None:
    server, mount = new_server()
    asked = forgetful(server, promise)
    copy(mount, tmp_path, how, BLOCKS * BLOCK)
    rounds = 1 if promise is MORE else NFS_COMMITS_IN_VAIN_MAX + 2
    assert BLOCKS <= len(asked) <= rounds * BLOCKS
    assert (asked[-1] is stable_how.FILE_SYNC, server.calls["COMMIT"] > 0) == (promise is HONEST,) * 2
    assert list(server.root.children) == ["copy"]
    assert bytes(server.at("/copy").data) == pattern(BLOCKS * BLOCK)
    assert server.calls["RENAME"] == (how == "upload")


@each_case("how", ["upload", "stream"])
@each_case("count", [0, 11, 1 << 20])
def test_a_server_that_miscounts_what_it_takes_is_found_out(
    new_server: Any, tmp_path: Path, how: str, count: int
) -> None:
    server, mount = new_server()
    server.write = lambda args: WRITE3resok(server.wcc(server.root), count, args.stable, b"verifier")
    with pytest.raises(RemoteProtocolError, match=f"WRITE of 10 octets answered with a count of {count}"):
        copy(mount, tmp_path, how, 10)


@each_case(
    ("procedure", "change"),
    [
        ("RENAME", lambda fs: fs.rename("/gone", "/new")),
        ("REMOVE", lambda fs: fs.unlink("/gone")),
        ("RMDIR", lambda fs: fs.rmdir("/gone")),
        ("MKDIR", lambda fs: fs.mkdir("/there")),
        ("LINK", lambda fs: fs.link("/there", "/there")),
        ("SYMLINK", lambda fs: fs.symlink("x", "/there")),
    ],
)
async def test_a_change_that_may_have_been_made_before_the_connection_was_lost_is_told_as_such(
    new_server: Any, procedure: str, change: Callable[[NfsFilesystem], Awaitable[object]]
) -> None:
    for lost in (True, False):
        server, mounted = new_server()
        server.put("/there")
        server.reconnects = 3

        def before(name: str, _args: Any, server: Any = server, lost: bool = lost) -> None:
            server.reconnects += lost and name == procedure

        server.before = before
        with pytest.raises((FileNotFoundError, FileExistsError)) as refused:
            await change(mounted())
        notes = getattr(refused.value, "__notes__", [])
        assert ["the connection was lost meanwhile" in note for note in notes] == [True] * lost
