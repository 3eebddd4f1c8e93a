"""Downloads and uploads of single files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import stat
import threading
import tracemalloc
from asyncio import run
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import OutOfMemory, RemoteProtocolError
from rpcrdma.nfs.client import FileChanged, FileOptions
from rpcrdma.nfs.client.streams import direct_calls
from rpcrdma.nfs.client.trees import local_files
from rpcrdma.nfs.client.workers import run_each
from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.v3 import READ3resok, ftype3, nfsstat3, nfstime3
from support.cases import each_case
from support.octets import pattern
from support.open_files import open_files
from support.waiting import closing, once, until

BLOCK = 1 << 16
SIZES = each_case("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 9 * BLOCK, 20 * BLOCK + 5])


def names_in(directory: Path | str) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


@SIZES
def test_a_downloaded_file_is_the_same(new_server: Any, tmp_path: Path, size: int) -> None:
    server, mounted = new_server()
    thing = server.put("/dir/file", pattern(size), 0o640)
    thing.mtime = nfstime3(1234, 567)
    seen: list[tuple[int, int]] = []
    got = run(once(mounted(), "download", "/dir/file", tmp_path, progress=lambda *done: seen.append(done)))
    copy = tmp_path / "file"
    assert got == size
    assert copy.read_bytes() == pattern(size)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o640
    assert copy.stat().st_mtime_ns == 1_234_000_000_567
    assert seen[-1] == (1, size)
    assert names_in(tmp_path) == ["file"]


@SIZES
def test_an_uploaded_file_is_the_same(new_server: Any, tmp_path: Path, size: int) -> None:
    server, mounted = new_server()
    local = tmp_path / "file"
    local.write_bytes(pattern(size))
    local.chmod(0o400)
    os.utime(local, ns=(5, 1_234_000_000_567))
    server.folder("/dir")
    seen: list[tuple[int, int]] = []
    assert run(once(mounted(), "upload", local, "/dir", progress=lambda *done: seen.append(done))) == size
    thing = server.at("/dir/file")
    assert bytes(thing.data) == pattern(size)
    assert (thing.mode, thing.mtime, thing.uncommitted) == (0o400, nfstime3(1234, 567), [])
    assert seen[-1] == (1, size)
    assert list(server.at("/dir").children) == ["file"]


def test_a_small_file_takes_few_calls(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.put("/file", b"123")
    run(once(mounted(), "download", "/file", tmp_path / "copy"))
    assert server.calls == {"LOOKUP": 1, "FSINFO": 1, "READ": 1}
    server.calls.clear()
    run(once(mounted(), "upload", tmp_path / "copy", "/new"))
    assert server.calls == {"LOOKUP": 1, "FSINFO": 1, "CREATE": 1, "WRITE": 1, "SETATTR": 1, "RENAME": 1}


def test_modes_times_and_names_are_those_that_can_be_taken_over(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.put("/file", b"123", 0o6755)
    run(once(mounted(), "download", "/file", tmp_path))
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o755
    # Times before 1970 become the first that there is.
    (tmp_path / "file").write_bytes(b"1")
    os.utime(tmp_path / "file", ns=(-5_000_000_000, -5_000_000_000))
    run(once(mounted(), "upload", tmp_path / "file", "/file"))
    assert server.at("/file").mtime == nfstime3(0, 0)
    # Local links of the user are followed.
    (tmp_path / "real").mkdir()
    (tmp_path / "to-real").symlink_to("real")
    server.put("/file", b"1")
    run(once(mounted(), "download", "/file", tmp_path / "to-real"))
    assert (tmp_path / "real" / "file").read_bytes() == b"1"
    # A copy has the name that was given, not that of the file behind a link.
    server.put("/file", b"123")
    server.link("/link", "file")
    run(once(mounted(), "download", "/link", tmp_path))
    assert names_in(tmp_path) == ["file", "link", "real", "to-real"]
    (tmp_path / "new").write_bytes(b"4")
    run(once(mounted(), "upload", tmp_path / "new", "/file"))
    assert bytes(server.at("/file").data) == b"4"


def test_what_is_no_file_is_refused(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.folder("/dir")
    os.mkfifo(tmp_path / "pipe")
    fs = mounted()
    with pytest.raises(IsADirectoryError):
        run(closing(fs, fs.download("/dir", tmp_path)))
    with pytest.raises(IsADirectoryError):
        run(closing(fs, fs.upload(tmp_path, "/new")))
    with pytest.raises(OSError, match="not a regular file"):
        run(closing(fs, fs.upload(tmp_path / "pipe", "/new")))
    with pytest.raises(FileNotFoundError):
        run(closing(fs, fs.upload(tmp_path / "none", "/new")))
    with pytest.raises(FileNotFoundError):
        run(closing(fs, fs.download("/none", tmp_path)))
    server.put("/dir/file")
    with pytest.raises(FileNotFoundError):
        run(closing(fs, fs.download("/dir/file", "")))
    assert list(server.root.children) == ["dir"]


def test_no_copy_takes_the_place_of_a_device_a_pipe_or_a_socket(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.put("/t/file", b"new")
    server.link("/t/link", "file")
    thing = server.put("/t/same", b"shared")
    thing.links, server.folder("/t").children["same2"] = 2, thing
    names = ("file", "link", "same", "same2")
    (tmp_path / "t").mkdir()
    for name in names:
        os.mkfifo(tmp_path / "t" / name)
    (tmp_path / "to-pipe").symlink_to("t/file")
    fs = mounted()
    for local in (tmp_path / "t" / "file", tmp_path / "t", tmp_path / "to-pipe"):
        with pytest.raises(OSError, match="not a regular file"):
            run(closing(fs, fs.download("/t/file", local)))
    for how in ({}, {"exact_modes": True, "resume": True}):
        report = run(closing(fs, fs.download_tree("/t", tmp_path / "t", **how)))
        assert sorted(failure.path for failure in report.failures) == [f"/t/{name}" for name in names]
    assert all((tmp_path / "t" / name).is_fifo() for name in names)
    assert (tmp_path / "to-pipe").is_symlink()
    server.root.children["pipe"] = server.make(ftype3.NF3FIFO, 0o666)
    (tmp_path / "local").write_bytes(b"1")
    with pytest.raises(OSError, match="Invalid argument") as refused:
        run(closing(fs, fs.upload(tmp_path / "local", "/pipe")))
    assert refused.value.__notes__ == ["it is a device, pipe or socket, and no regular file"]
    assert server.at("/pipe").type == ftype3.NF3FIFO
    run(closing(fs, fs.download_tree("/t", tmp_path / "u")))
    for name in names:
        server.folder("/t").children[name] = server.make(ftype3.NF3FIFO, 0o666)
    report = run(closing(fs, fs.upload_tree(tmp_path / "u", "/t")))
    assert sorted(failure.path for failure in report.failures) == [f"{tmp_path}/u/{name}" for name in names]
    assert {each.type for each in server.folder("/t").children.values()} == {ftype3.NF3FIFO}


@each_case("size", [3, 20 * BLOCK])
def test_a_download_that_fails_leaves_the_old_file(new_server: Any, tmp_path: Path, size: int) -> None:
    server, mounted = new_server()
    server.put("/file", pattern(size))
    server.answers["READ"] = [nfsstat3.NFS3_OK] * (size // BLOCK // 2) + [nfsstat3.NFS3ERR_IO]
    (tmp_path / "file").write_bytes(b"old")
    fs = mounted()
    with pytest.raises(NfsError):
        run(closing(fs, fs.download("/file", tmp_path)))
    assert names_in(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


@each_case("procedure", ["CREATE", "WRITE", "COMMIT", "SETATTR", "RENAME"])
def test_an_upload_that_fails_leaves_the_old_file(new_server: Any, tmp_path: Path, procedure: str) -> None:
    server, mounted = new_server()
    server.put("/file", b"old")
    server.answers[procedure] = [nfsstat3.NFS3ERR_DQUOT]
    (tmp_path / "file").write_bytes(pattern(3 * BLOCK))
    fs = mounted(fs_url=parse_url("tcp://server/data"))
    with pytest.raises(NfsError) as caught:
        run(closing(fs, fs.upload(tmp_path / "file", "/file")))
    assert (caught.value.errno, caught.value.url) == (errno.EDQUOT, "tcp://server:2049/data/file")
    assert list(server.root.children) == ["file"]
    assert bytes(server.at("/file").data) == b"old"


@each_case("direction", ["download", "upload"])
@each_case("size", [3, 20 * BLOCK])
async def test_a_cancelled_copy_leaves_nothing_behind(
    new_server: Any, tmp_path: Path, direction: str, size: int
) -> None:
    server, mounted = new_server()
    (tmp_path / "local").write_bytes(pattern(size))
    server.put("/remote", pattern(size))
    before = open_files()
    async with mounted() as fs:
        name = "READ" if direction == "download" else "WRITE"
        server.hold[name] = asyncio.Event()
        copying = asyncio.create_task(
            fs.download("/remote", tmp_path / "new")
            if direction == "download"
            else fs.upload(tmp_path / "local", "/new")
        )
        await until(lambda: server.calls[name])
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        assert server.in_flight == 0
    assert open_files() <= before
    assert names_in(tmp_path) == ["local"]
    assert list(server.root.children) == ["remote"]


@each_case("cancelled", [True, False])
@each_case("size", [3, 20 * BLOCK])
async def test_a_download_that_ends_while_it_is_closed_closes_no_descriptor_of_others(
    new_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, cancelled: bool
) -> None:
    server, mounted = new_server()
    server.put("/remote", pattern(size))
    of_others: list[int] = []
    loop, close = asyncio.get_running_loop(), os.close

    def close_last(descriptor: int) -> None:
        last = Path(f"/proc/self/fd/{descriptor}").readlink().name == "new"
        close(descriptor)
        if last:
            of_others.append(os.open(os.devnull, os.O_RDONLY))
            if not cancelled:
                raise OSError(errno.EDQUOT, "told by close")
            # From Python 3.14 on a copy whose work is done when it begins to wait ends without a turn of the loop.
            loop.call_soon_threadsafe(lambda: copying.cancel() and told.set())
            assert told.wait(60)

    told = threading.Event()
    async with mounted() as fs:
        copying = asyncio.create_task(fs.download("/remote", tmp_path / "new"))
        monkeypatch.setattr(os, "close", close_last)
        with pytest.raises((OSError, asyncio.CancelledError)):
            await copying
    monkeypatch.undo()
    os.close(of_others.pop())
    assert not of_others
    assert names_in(tmp_path) == ["new"]


@each_case("size", [10, BLOCK - 1])
def test_a_small_file_that_grew_after_it_was_listed_is_copied_as_it_is_by_then(
    new_server: Any, tmp_path: Path, size: int
) -> None:
    server, mounted = new_server()
    thing = server.put("/file", pattern(size))

    def grow(name: str, _args: Any) -> None:
        if name == "READ" and server.calls["READ"] == 1:
            thing.data[:] = pattern(9 * BLOCK)
            thing.mode, thing.mtime = 0o600, nfstime3(50, 0)

    server.before = grow
    assert run(once(mounted(), "download", "/file", tmp_path)) == 9 * BLOCK
    copy = tmp_path / "file"
    assert copy.read_bytes() == pattern(9 * BLOCK)
    assert (stat.S_IMODE(copy.stat().st_mode), copy.stat().st_mtime_ns) == (0o600, 50_000_000_000)


@each_case("attributes", [True, False])
@each_case("size", [10, 3 * BLOCK])
def test_the_download_of_a_file_whose_end_the_server_never_tells_ends(
    new_server: Any, tmp_path: Path, attributes: bool, size: int
) -> None:
    server, mounted = new_server()
    server.put("/file", pattern(size))
    server.give_attributes = attributes

    def read(args: Any) -> Any:
        assert server.calls["READ"] < 100, "far more than the copy may take"
        return READ3resok(server.attributes(server.find(args.file)), args.count, False, bytes(args.count))

    server.read = read
    with pytest.raises(RemoteProtocolError, match=f"data beyond the size of the file, {size} octets, and no end"):
        run(once(mounted(), "download", "/file", tmp_path))
    assert names_in(tmp_path) == []


def grow(thing: Any) -> None:
    thing.data += b"more"


def shrink(thing: Any) -> None:
    del thing.data[-7:]


def rewrite(thing: Any) -> None:
    thing.data[:100] = b"x" * 100
    thing.mtime = nfstime3(thing.mtime.seconds + 1, 0)


def replace_and_hide_it(thing: Any) -> None:
    thing.data[:100] = b"x" * 100
    thing.ctime = nfstime3(thing.ctime.seconds + 1, 0)


@each_case("change", [grow, shrink, rewrite, replace_and_hide_it])
@each_case("size", [3 * BLOCK, 20 * BLOCK + 1])
@each_case("attributes", [True, False])
def test_a_file_that_changes_while_it_is_downloaded_is_named_and_not_kept(
    new_server: Any, tmp_path: Path, change: Any, size: int, attributes: bool
) -> None:
    server, mounted = new_server()
    thing = server.put("/file", pattern(size))
    server.give_attributes = attributes
    (tmp_path / "file").write_bytes(b"old")

    reads = itertools.count(1)

    def changing(name: str, _args: Any) -> None:
        if name == "READ" and next(reads) == 3:
            change(thing)

    server.before = changing
    fs = mounted()
    with pytest.raises(FileChanged, match="changed during the copy") as caught:
        run(closing(fs, fs.download("/file", tmp_path)))
    assert caught.value.filename == "/file"
    assert names_in(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"
    assert server.calls["GETATTR"] <= 2


@each_case("when", ["beginning", "end"])
@each_case("size", [5, BLOCK, 20 * BLOCK + 1])
def test_a_local_file_that_changes_while_it_is_uploaded_is_named_and_not_kept(
    new_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, when: str
) -> None:
    server, mounted = new_server()
    local = tmp_path / "file"
    local.write_bytes(pattern(size))
    os.utime(local, ns=(5, 5))
    server.put("/copy", b"old")
    read_at = local_files.read_at
    last = 0 if when == "beginning" or size <= BLOCK else size // BLOCK * BLOCK

    def changing(descriptor: int, buffer: memoryview, offset: int) -> int:
        got = read_at(descriptor, buffer, offset)
        if offset == last:
            local.write_bytes(b"x" * size)
        return got

    monkeypatch.setattr(local_files, "read_at", changing)
    fs = mounted()
    with pytest.raises(FileChanged, match="changed during the copy") as caught:
        run(closing(fs, fs.upload(local, "/copy")))
    assert caught.value.filename == str(local)
    assert list(server.root.children) == ["copy"]
    assert bytes(server.at("/copy").data) == b"old"


def test_servers_that_do_less_than_asked(server: Any, mounted: Any, tmp_path: Path) -> None:
    data = pattern(5 * BLOCK + 1)
    server.put("/file", data)
    server.read_at_most = server.write_at_most = 10_000
    server.eof_exact = False

    async def work(fs: Any) -> None:
        await fs.download("/file", tmp_path)
        await fs.upload(tmp_path / "file", "/copy")

    fs = mounted()
    run(closing(fs, work(fs)))
    assert (tmp_path / "file").read_bytes() == data
    assert bytes(server.at("/copy").data) == data


@each_case(("when", "call"), [("WRITE", 1), ("WRITE", 3), ("WRITE", 20), ("COMMIT", 1), ("COMMIT", 3)])
def test_a_restart_of_the_server_loses_nothing(new_server: Any, tmp_path: Path, when: str, call: int) -> None:
    server, mounted = new_server()
    data = pattern(20 * BLOCK + 3)
    (tmp_path / "file").write_bytes(data)
    seen: list[int] = []

    calls = itertools.count(1)

    def restart(name: str, _args: Any) -> None:
        # `server.calls` counts those that have begun.
        if name == when and next(calls) == call:
            server.restart()

    server.before = restart
    run(
        once(
            mounted(commit_octets=2 * BLOCK),
            "upload",
            tmp_path / "file",
            "/file",
            progress=lambda _, octets: seen.append(octets),
        )
    )
    assert server.restarts == 1
    assert bytes(server.at("/file").data) == data
    assert seen[-1] == len(data)


@pytest.mark.thorough
@each_case("how", ["stream", "download"])
def test_a_large_file_takes_little_memory(new_server: Any, tmp_path: Path, how: str) -> None:
    server, mounted = new_server()
    size = 128 << 20
    server.put("/file").sparse_size = size
    server.read_max = 1 << 20
    server.give_attributes = True

    async def stream(fs: Any) -> int:
        count = 0
        async with await fs.open("/file") as file:
            async for view in file.views():
                count += len(view)
        return count

    fs = mounted(transfer_octets_max=16 << 20)
    tracemalloc.start()
    got = run(closing(fs, stream(fs) if how == "stream" else fs.download("/file", tmp_path)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got == size
    assert peak < 24 << 20


@pytest.mark.thorough
def test_a_large_upload_takes_little_memory(server: Any, mounted: Any, tmp_path: Path) -> None:
    size = 128 << 20
    with (tmp_path / "file").open("wb") as file:
        file.truncate(size)
    server.write_max = 1 << 20

    def write(args: Any) -> Any:
        from rpcrdma.nfs.v3 import WRITE3resok

        return WRITE3resok(server.wcc(server.root), args.count, args.stable, server.verifier)

    server.write = write
    fs = mounted(transfer_octets_max=16 << 20)
    tracemalloc.start()
    got = run(closing(fs, fs.upload(tmp_path / "file", "/file")))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got == size
    assert server.calls["COMMIT"] >= 2
    assert peak < 24 << 20


@each_case("size", [1 << 40, 1 << 63, (1 << 64) - 1])
def test_copies_and_reads_end_with_the_data_whatever_size_the_server_says(
    new_server: Any, tmp_path: Path, size: int
) -> None:
    server, mounted = new_server()
    server.put("/file", b"abc")
    honest = server.fattr

    def lying(thing: Any) -> Any:
        attributes = honest(thing)
        return replace(attributes, size=size) if thing.type == ftype3.NF3REG else attributes

    server.fattr = lying
    assert run(once(mounted(), "download", "/file", tmp_path)) == 3
    assert (tmp_path / "file").read_bytes() == b"abc"
    assert server.calls["READ"] <= FileOptions().direct_calls

    async def read() -> None:
        fs = mounted()
        async with await fs.open("/file") as file:
            assert await file.read() == b"abc"
            await file.seek(0)
            assert [bytes(view) async for view in file.views()] == [b"abc"]
            await file.seek(0)
            assert await file.readlines() == [b"abc"]
            assert await file.pread(3, 0) == b"abc"
        with contextlib.suppress(OutOfMemory):
            assert await fs.read_bytes("/file") == b"abc"
        await fs.close()

    server.calls.clear()
    run(read())
    assert server.calls["READ"] < 40


def test_a_read_into_memory_asks_for_nothing_behind_the_end(
    server: Any, mounted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put("/file", b"abc")
    server.read_max = 4096
    begun: list[int] = []

    async def counted(count: int, items: Iterator[int], work: Any) -> None:
        def counting() -> Iterator[int]:
            for item in items:
                begun.append(item)
                yield item

        await run_each(count, counting(), work)

    monkeypatch.setattr(direct_calls, "run_each", counted)
    assert run(once(mounted(), "read_into", "/file", bytearray(100 << 12))) == 3
    assert len(begun) == FileOptions().direct_calls
