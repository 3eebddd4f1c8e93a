"""Copies that are broken off and go on: complete data is not copied again, and data of another source is not used."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
import struct
from asyncio import run
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.errors import TransportClosed
from rpcrdma.nfs.client.trees import local_files
from rpcrdma.nfs.client.trees.copy_source import InOrder, partial_name
from rpcrdma.nfs.v3 import nfsstat3, nfstime3
from support.cases import each_case
from support.waiting import closing, once

BLOCK = 1 << 16
BLOCKS = 60
WINDOW = 4
"""Blocks, with two calls at once."""
OPTIONS = {"direct_calls": 2, "commit_octets": 4 * BLOCK}
CONTENT = struct.pack(f">{BLOCKS * BLOCK // 4}I", *range(BLOCKS * BLOCK // 4)) + b"end"


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


class Breaking:
    """Lets a number of READs or WRITEs of a server pass, then ends the connection; notes the offsets of all."""

    def __init__(self, server: Any, procedure: str, passed: int) -> None:
        self.offsets: list[int] = []
        inner = getattr(server, procedure)

        def answer(args: Any) -> Any:
            if len(self.offsets) >= passed:
                raise TransportClosed("broken off")
            self.offsets.append(args.offset)
            return inner(args)

        setattr(server, procedure, answer)


@pytest.fixture
def source(server: Any) -> Any:
    thing = server.put("/file", CONTENT)
    thing.mtime = nfstime3(1234, 567)
    return thing


def download(mounted: Any, target: Path, **how: Any) -> Any:
    return run(once(mounted(**OPTIONS), "download", "/file", target, resume=True, **how))


def test_a_download_goes_on_where_it_was(server: Any, mounted: Any, source: Any, tmp_path: Path) -> None:
    Breaking(server, "read", 30)
    with pytest.raises(TransportClosed):
        download(mounted, tmp_path)
    partial = partial_name("file", len(CONTENT), 1_234_000_000_567)
    assert names_in(tmp_path) == [partial]
    seen: list[int] = []
    server.read = type(server).read.__get__(server)
    second = Breaking(server, "read", 1000)
    assert download(mounted, tmp_path, progress=lambda _files, octets: seen.append(octets)) == len(CONTENT)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert names_in(tmp_path) == ["file"]
    # Complete data was not read again, up to the window; the progress begins behind it and ends at the end.
    assert (30 - 2 * WINDOW) * BLOCK <= min(second.offsets) <= 30 * BLOCK
    assert seen[0] == min(second.offsets)
    assert seen[-1] == len(CONTENT)
    # A complete file is not read at all.
    third = Breaking(server, "read", 0)
    assert download(mounted, tmp_path) == len(CONTENT)
    assert third.offsets == []


@each_case("there", ["before", "after"])
def test_a_download_that_goes_on_has_the_mode_of_one_that_begins_now(
    new_server: Any, tmp_path: Path, there: str
) -> None:
    server, mounted = new_server()
    server.put("/file", CONTENT, 0o700).mtime = nfstime3(1234, 567)
    own = tmp_path / "file"
    for now in ("before", "after"):
        own.unlink(missing_ok=True)
        if now == there:
            own.touch(0o600)
        Breaking(server, "read", 30)
        with pytest.raises(TransportClosed):
            download(mounted, tmp_path)
        server.read = type(server).read.__get__(server)
    partial = tmp_path / partial_name("file", len(CONTENT), 1_234_000_000_567)
    mode = 0o600 if there == "after" else 0o700
    assert stat.S_IMODE(partial.stat().st_mode) == mode
    download(mounted, tmp_path)
    assert stat.S_IMODE(own.stat().st_mode) == mode


def test_a_download_of_another_source_begins_anew(server: Any, mounted: Any, source: Any, tmp_path: Path) -> None:
    Breaking(server, "read", 30)
    with pytest.raises(TransportClosed):
        download(mounted, tmp_path)
    source.data = bytearray(CONTENT[::-1])
    source.mtime = nfstime3(1234, 568)
    server.read = type(server).read.__get__(server)
    second = Breaking(server, "read", 1000)
    download(mounted, tmp_path)
    assert min(second.offsets) == 0
    assert (tmp_path / "file").read_bytes() == CONTENT[::-1]


def test_a_partial_file_that_another_copy_is_at_is_left_to_it(
    server: Any, mounted: Any, source: Any, tmp_path: Path
) -> None:
    partial = tmp_path / partial_name("file", len(CONTENT), 1_234_000_000_567)
    partial.write_bytes(b"x" * (40 * BLOCK))
    with partial.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        download(mounted, tmp_path)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert partial.read_bytes() == b"x" * (40 * BLOCK)


@each_case("there", ["link", "directory", "a file that cannot be opened", "a file whose mode cannot be set"])
def test_what_else_has_the_name_of_a_partial_file_does_not_stop_a_download(
    new_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    """Another user of the directory can foresee the name."""
    server, mounted = new_server()
    server.put("/file", CONTENT).mtime = nfstime3(1234, 567)
    partial = tmp_path / partial_name("file", len(CONTENT), 1_234_000_000_567)
    if there == "link":
        partial.symlink_to("victim")
    elif there == "directory":
        partial.mkdir()
    elif there == "a file whose mode cannot be set":
        partial.write_bytes(b"theirs")
        number, fchmod = partial.stat().st_ino, os.fchmod

        def not_permitted(descriptor: int, mode: int) -> None:
            if os.fstat(descriptor).st_ino == number:
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
            fchmod(descriptor, mode)

        monkeypatch.setattr(os, "fchmod", not_permitted)
    else:
        partial.write_bytes(b"theirs")
        inner = os.open

        def refused(path: Any, *arguments: Any, **how: Any) -> int:
            # Permissions do not stop a test of root.
            if path == partial.name:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return inner(path, *arguments, **how)

        monkeypatch.setattr(os, "open", refused)
    assert download(mounted, tmp_path) == len(CONTENT)
    assert names_in(tmp_path) == sorted([partial.name, "file"])
    assert (tmp_path / "file").read_bytes() == CONTENT
    if partial.is_file():
        with partial.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@each_case("of", ["refused to it", "another user's", "made meanwhile", "a second name"])
def test_an_upload_leaves_a_partial_file_of_others(new_server: Any, tmp_path: Path, of: str) -> None:
    server, mounted = new_server()
    local = tmp_path / "file"
    local.write_bytes(CONTENT)
    os.utime(local, ns=(5, 1_234_000_000_567))
    partial = partial_name("file", len(CONTENT), 1_234_000_000_567)
    theirs = server.put(f"/{partial}", b"theirs", 0o600)
    if of == "refused to it":
        server.granted = 0x04
    elif of != "a second name":
        theirs.uid += 1
        if of == "made meanwhile":
            create = server.create
            del server.root.children[partial]

            def made_meanwhile(args: Any) -> Any:
                server.root.children.setdefault(partial, theirs)
                return create(args)

            server.create = made_meanwhile
    else:
        theirs.links += 1
    run(once(mounted(**OPTIONS), "upload", local, "/file", resume=True))
    assert bytes(server.at("/file").data) == CONTENT
    assert bytes(server.at(f"/{partial}").data) == b"theirs"
    assert len(server.root.children) == 2


def test_where_no_partial_file_can_be_used_none_is_left(
    server: Any, mounted: Any, source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on file systems that give all files one owner or mode."""
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    download(mounted, tmp_path)
    assert names_in(tmp_path) == ["file"]
    apply = server.apply

    def apply_but_for_the_mode(thing: Any, new: Any) -> None:
        apply(thing, new)
        thing.mode = 0o777

    server.apply = apply_but_for_the_mode
    run(once(mounted(**OPTIONS), "upload", tmp_path / "file", "/copy", resume=True))
    assert sorted(server.root.children) == ["copy", "file"]


def test_an_upload_goes_on_behind_what_may_be_lost(server: Any, mounted: Any, tmp_path: Path) -> None:
    local = tmp_path / "file"
    local.write_bytes(CONTENT)
    os.utime(local, ns=(5, 1_234_000_000_567))

    def upload() -> Any:
        return run(once(mounted(**OPTIONS), "upload", local, "/file", resume=True))

    Breaking(server, "write", 40)
    with pytest.raises(TransportClosed):
        upload()
    partial = partial_name("file", len(CONTENT), 1_234_000_000_567)
    assert list(server.root.children) == [partial]
    # A restart loses uncommitted data.
    server.restart()
    server.write = type(server).write.__get__(server)
    second = Breaking(server, "write", 1000)
    assert upload() == len(CONTENT)
    assert list(server.root.children) == ["file"]
    assert bytes(server.at("/file").data) == CONTENT
    assert 0 < min(second.offsets) <= (40 - 8) * BLOCK
    assert len(second.offsets) < BLOCKS
    third = Breaking(server, "write", 0)
    upload()
    assert third.offsets == []


def test_trees_pass_over_what_is_there(server: Any, mounted: Any, source: Any, tmp_path: Path) -> None:
    server.put("/small", b"x").mtime = nfstime3(77, 0)

    def copied() -> Any:
        return run(once(mounted(**OPTIONS), "download_tree", "/", tmp_path, resume=True))

    assert (copied().kept, copied().kept) == (0, 2)
    (tmp_path / "small").write_bytes(b"y")
    again = copied()
    assert (again.files, again.kept) == (2, 1)
    assert (tmp_path / "small").read_bytes() == b"x"


def test_the_directories_of_an_interrupted_download_get_their_times_when_it_is_continued(
    server: Any, mounted: Any, source: Any, tmp_path: Path
) -> None:
    server.folder("/a/b").mtime = nfstime3(77, 0)
    server.folder("/a").mtime = nfstime3(78, 0)
    server.put("/a/b/file", CONTENT)
    Breaking(server, "read", 30)

    def copied() -> Any:
        return run(once(mounted(**OPTIONS), "download_tree", "/a", tmp_path / "a", resume=True))

    with pytest.raises(TransportClosed):
        copied()
    assert names_in(tmp_path / "a") == ["b"]
    server.read = type(server).read.__get__(server)
    copied().check()
    assert [(tmp_path / name).stat().st_mtime for name in ("a", "a/b")] == [78, 77]


def test_a_download_is_continued_in_a_directory_of_another_user(
    server: Any, mounted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put("/a/b/file", CONTENT)
    set_times, others = os.utime, tmp_path.stat().st_ino

    def utime(path: Any, **how: Any) -> None:
        if isinstance(path, int) and os.fstat(path).st_ino == others:
            raise PermissionError(errno.EPERM, "only the owner may")
        set_times(path, **how)

    monkeypatch.setattr(os, "utime", utime)
    run(once(mounted(**OPTIONS), "download_tree", "/a", tmp_path, resume=True)).check()
    assert (tmp_path / "b" / "file").read_bytes() == CONTENT
    (tmp_path / "made").mkdir()
    others = (tmp_path / "made").stat().st_ino
    report = run(once(mounted(**OPTIONS), "download_tree", "/a", tmp_path / "made", resume=True, exact_modes=True))
    assert [type(failure.error) for failure in report.failures] == [PermissionError]


def test_without_it_nothing_stays(server: Any, mounted: Any, source: Any, tmp_path: Path) -> None:
    Breaking(server, "read", 30)
    fs = mounted(**OPTIONS)
    with pytest.raises(TransportClosed):
        run(closing(fs, fs.download("/file", tmp_path)))
    assert names_in(tmp_path) == []
    # Nor if the caller's function fails when it is first told of the progress.
    with pytest.raises(ZeroDivisionError):
        run(once(mounted(**OPTIONS), "download", "/file", tmp_path, progress=lambda _files, octets: 1 // octets))
    assert names_in(tmp_path) == []


@each_case("way", ["download", "upload"])
def test_on_a_full_disk_nothing_is_left(
    way: str, server: Any, mounted: Any, source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room is for the files that fit."""

    def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(local_files, "write_at", no_room)
    server.answers["WRITE"] = [nfsstat3.NFS3ERR_NOSPC] * BLOCKS
    local = tmp_path / "local"
    local.mkdir()
    (tmp_path / "up").write_bytes(CONTENT)
    fs = mounted(**OPTIONS)
    work = (
        fs.download("/file", local, resume=True)
        if way == "download"
        else fs.upload(tmp_path / "up", "/up", resume=True)
    )
    with pytest.raises(OSError, match=r"(?i)no (room|space)"):
        run(closing(fs, work))
    assert names_in(local) == []
    assert list(server.root.children) == ["file"]


async def test_blocks_are_begun_within_a_window_and_none_after_a_failure() -> None:
    order = InOrder(30)
    begun: list[int] = []
    ends: dict[int, asyncio.Future[None]] = {}

    async def block(start: int) -> None:
        async with order.turn(start):
            begun.append(start)
            ends[start] = asyncio.get_running_loop().create_future()
            await ends[start]

    async with asyncio.TaskGroup() as group:
        blocks = {start: group.create_task(block(start)) for start in (0, 10, 20, 30)}
        await asyncio.sleep(0)
        ends[10].set_result(None)
        ends[20].set_result(None)
        await asyncio.wait([blocks[10], blocks[20]])
        assert begun == [0, 10, 20]
        ends[0].set_result(None)
        await blocks[0]
        await asyncio.sleep(0)
        assert begun == [0, 10, 20, 30]
        waiting = asyncio.ensure_future(block(60))
        await asyncio.sleep(0)
        with pytest.raises(OSError, match="full"):
            async with order.turn(31):
                raise OSError("full")
        with pytest.raises(OSError, match="full"):
            await waiting
        late = asyncio.ensure_future(block(60))
        await asyncio.wait({late}, timeout=0)
        assert late.done()
        with pytest.raises(OSError, match="full"):
            late.result()
        assert begun == [0, 10, 20, 30]
        ends[30].set_result(None)


def test_nothing_is_begun_far_beyond_a_block_that_stalls(
    server: Any, mounted: Any, source: Any, tmp_path: Path
) -> None:
    """Otherwise the size of the rest would hide the gap."""
    offsets: list[int] = []
    all_begun = asyncio.Event()
    inner = server.call

    async def call(procedure: Any, args: Any, **how: Any) -> Any:
        if procedure.name.endswith("READ"):
            if args.offset == 0:
                # Threads write the received data, which takes an unknown number of turns of the loop.
                await all_begun.wait()
                for _ in range(2000):
                    await asyncio.sleep(0)
                raise TransportClosed("broken off")
            offsets.append(args.offset)
            if len(offsets) == WINDOW - 1:
                all_begun.set()
        return await inner(procedure, args, **how)

    server.call = call
    with pytest.raises(TransportClosed):
        download(mounted, tmp_path)
    assert offsets == [BLOCK, 2 * BLOCK, 3 * BLOCK]
    server.call = inner
    second = Breaking(server, "read", 1000)
    download(mounted, tmp_path)
    assert min(second.offsets) == 0
    assert (tmp_path / "file").read_bytes() == CONTENT
