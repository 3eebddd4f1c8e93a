"""Trees in both directions, with everything that a server or a tree can do to a copy."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from asyncio import run
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.errors import TransportClosed
from rpcrdma.nfs.client.trees import tree_copy, tree_remove
from rpcrdma.nfs.v3 import ftype3, nfsstat3, nfstime3
from support.cases import each_case
from support.few_frames import frames_left
from support.open_files import open_files
from support.waiting import closing, once

BLOCK = 1 << 16


def names_in(directory: Path | str) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


@pytest.fixture(autouse=True)
def descriptors() -> Any:
    before = open_files()
    yield
    assert open_files() <= before


@pytest.fixture
def tree(server: Any) -> Any:
    for directory in range(5):
        for number in range(20):
            server.put(f"/t/d{directory}/f{number}", bytes([number]) * (number * 1000)).mtime = nfstime3(9, number)
    server.put("/t/deep/er/and/deeper/big", b"x" * (5 * BLOCK + 1), 0o600)
    server.link("/t/deep/link", "../d0/f1")
    server.link("/t/out", "/etc")  # a directory, which no copy enters
    server.put("/t/d2/" + os.fsdecode(b"\xff\xfe"))
    server.folder("/t/empty").mode = 0o555
    server.folder("/t/d1").mtime = nfstime3(77, 0)
    return server


FILES, OCTETS = 102, 5 * 1000 * sum(range(20)) + 5 * BLOCK + 1


def shape(top: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(top.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(top))] = str(path.readlink())
        elif path.is_file():
            found[str(path.relative_to(top))] = path.read_bytes()
        else:
            found[str(path.relative_to(top))] = None
    return found


def server_shape(thing: Any, prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, child in sorted(thing.children.items()):
        if child.type == ftype3.NF3DIR:
            found[prefix + name] = None
            found.update(server_shape(child, f"{prefix}{name}/"))
        else:
            found[prefix + name] = child.target if child.type == ftype3.NF3LNK else bytes(child.data)
    return found


def test_a_tree_goes_out_and_comes_back_and_does_so_again(tree: Any, mounted: Any, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    fs = mounted()

    async def work() -> Any:
        down = await fs.download_tree("/t", tmp_path / "t", progress=lambda *done: seen.append(done))
        return down, await fs.upload_tree(tmp_path / "t", "/back")

    for report in run(closing(fs, work())):
        assert (report.files, report.octets, report.directories, report.symlinks) == (FILES, OCTETS, 11, 2)
        assert report.failures == []
        report.check()
    assert seen[-1] == (FILES, OCTETS)
    assert shape(tmp_path / "t") == server_shape(tree.at("/t"))
    assert server_shape(tree.at("/back")) == server_shape(tree.at("/t"))
    assert (tmp_path / "t/d1").stat().st_mtime == 77
    assert (tmp_path / "t/d0/f3").stat().st_mtime_ns == 9_000_000_003
    assert stat.S_IMODE((tmp_path / "t/empty").stat().st_mode) == 0o555
    assert tree.at("/back/d1").mtime == nfstime3(77, 0)
    assert tree.at("/back/empty").mode == 0o555
    assert tree.at("/back/deep/er/and/deeper/big").mode == 0o600
    # A copy replaces what is there.
    fs = mounted()
    for report in run(closing(fs, work())):
        report.check()
    assert shape(tmp_path / "t") == server_shape(tree.at("/t")) == server_shape(tree.at("/back"))


def test_a_tree_is_copied_to_any_depth_of_missing_directories(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.put("/t/file", b"x")
    deep = tmp_path.joinpath(*["d"] * 300)
    with frames_left(200):
        run(once(mounted(), "download_tree", "/t", deep)).check()
    assert (deep / "file").read_bytes() == b"x"


def test_as_many_files_as_allowed_are_copied_at_once(server: Any, mounted: Any, tmp_path: Path) -> None:
    for number in range(200):
        server.put(f"/{number}", b"x")
    run(once(mounted(files_at_once=5), "download_tree", "/", tmp_path / "many"))
    assert 2 <= server.in_flight_most <= 5 + 1
    # Devices and pipes of a server are passed over.
    server.root.children.clear()
    for kind in (ftype3.NF3CHR, ftype3.NF3BLK, ftype3.NF3SOCK, ftype3.NF3FIFO):
        server.root.children[kind.name] = server.make(kind, 0o666)
    report = run(once(mounted(), "download_tree", "/", tmp_path / "none"))
    assert len(report.skipped) == 4
    assert names_in(tmp_path / "none") == []


@each_case("most", [0, 2])
def test_a_tree_is_copied_also_where_no_further_thread_can_be_started(
    new_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    server, mounted = new_server()
    for number in range(20):
        server.put(f"/t/d{number % 3}/f{number}", bytes([number]) * (number * 8000))
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if len(started) == most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    run(once(mounted(), "download_tree", "/t", tmp_path / "t")).check()
    run(once(mounted(), "upload_tree", tmp_path / "t", "/back")).check()
    assert shape(tmp_path / "t") == server_shape(server.at("/t")) == server_shape(server.at("/back"))


async def test_work_that_ran_without_a_thread_keeps_none_of_its_memory(
    mounted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    fs, memory = mounted(), bytearray(8)
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert await fs._volume.in_thread(len, memoryview(memory)) == 8
    memory.clear()  # a view that is left would forbid it
    await fs.close()


def test_what_fails_is_reported_and_the_rest_copied(tree: Any, mounted: Any, tmp_path: Path) -> None:
    tree.answers["READ"] = [nfsstat3.NFS3ERR_ACCES]
    tree.answers["READDIRPLUS"] = [nfsstat3.NFS3_OK, nfsstat3.NFS3ERR_STALE]
    report = run(once(mounted(), "download_tree", "/t", tmp_path / "t"))
    assert report.failures_total == 2
    assert {type(failure.error).__name__ for failure in report.failures} == {"NfsPermission", "NfsError"}
    assert all(failure.path.startswith("/t/") for failure in report.failures)
    assert report.files >= 75
    with pytest.raises(ExceptionGroup, match="2 of the tree's entries"):
        report.check()


def test_failures_to_upload_are_reported(tree: Any, mounted: Any, tmp_path: Path) -> None:
    run(once(mounted(), "download_tree", "/t", tmp_path / "t"))
    tree.put("/back/d0", b"in the way")
    tree.answers["CREATE"] = [nfsstat3.NFS3ERR_IO]
    tree.answers["SYMLINK"] = [nfsstat3.NFS3ERR_NOTSUPP]
    os.mkfifo(tmp_path / "t" / "pipe")
    report = run(once(mounted(), "upload_tree", tmp_path / "t", "/back"))
    assert report.failures_total == 3
    assert report.skipped == [str(tmp_path / "t" / "pipe")]
    assert report.files == FILES - 20 - 1


@each_case("name", ["../up", "/etc/passwd", "a/b", "", "x\0y"])
def test_no_name_of_a_server_leads_out(new_server: Any, tmp_path: Path, name: str) -> None:
    server, mounted = new_server()
    server.put("/t/good", b"1")
    server.put("/t/sub/file", b"2")
    server.folder("/t/sub").children[name] = server.put("/evil", b"evil")
    (tmp_path / "t").mkdir()
    report = run(once(mounted(), "download_tree", "/t", tmp_path / "t"))
    (failure,) = report.failures
    assert (failure.path, str(failure.error)[:10]) == ("/t/sub", "[Errno 22]")
    assert shape(tmp_path) == {"t": None, "t/good": b"1", "t/sub": None, "t/sub/file": b"2"}


def test_a_local_link_in_the_place_of_a_directory_is_not_followed(tree: Any, mounted: Any, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "d0").symlink_to(tmp_path / "outside")
    report = run(once(mounted(), "download_tree", "/t", tmp_path / "t"))
    assert report.failures_total == 1
    assert report.failures[0].path == "/t/d0"
    assert names_in(tmp_path / "outside") == []


def test_a_local_link_in_the_place_of_a_file_is_replaced(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.put("/t/file", b"new")
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "file").symlink_to(tmp_path / "victim")
    run(once(mounted(), "download_tree", "/t", tmp_path / "t")).check()
    assert (tmp_path / "victim").read_bytes() == b"old"
    assert (tmp_path / "t" / "file").read_bytes() == b"new"


def test_what_is_no_directory_is_refused(tree: Any, mounted: Any, tmp_path: Path) -> None:
    tree.put("/file")
    tree.link("/link", "t")
    (tmp_path / "file").touch()
    for copy, kind in (
        (lambda fs: fs.download_tree("/file", tmp_path / "x"), NotADirectoryError),
        (lambda fs: fs.upload_tree(tmp_path / "file", "/x"), NotADirectoryError),
        (lambda fs: fs.upload_tree(tmp_path / "none", "/x"), FileNotFoundError),
        (lambda fs: fs.upload_tree(tmp_path, "/file"), FileExistsError),
        (lambda fs: fs.download_tree("/none", tmp_path / "x"), FileNotFoundError),
        (lambda fs: fs.rmtree("/link"), NotADirectoryError),
        (lambda fs: fs.rmtree("/"), FileExistsError),
    ):
        fs = mounted()
        with pytest.raises(kind):
            run(closing(fs, copy(fs)))
    assert "d0" in tree.at("/t").children
    assert set(tree.root.children) == {"t", "file", "link"}
    assert names_in(tmp_path) == ["file"]


@pytest.mark.parametrize("direction", ["download", "upload"])
@pytest.mark.parametrize("end", ["lost", "cancelled"])
async def test_a_copy_ends_when_it_is_cancelled_or_its_connection_lost(
    tree: Any, mounted: Any, tmp_path: Path, direction: str, end: str
) -> None:
    await once(mounted(), "download_tree", "/t", tmp_path / "t")
    tree.calls.clear()
    reached = asyncio.Event()

    def stop(name: str, _args: Any) -> None:
        if tree.calls.total() > 40 and end == "lost":
            reached.set()
            raise TransportClosed("gone")
        if tree.calls.total() > 40 and name in {"READ", "WRITE"}:
            reached.set()
            tree.hold[name] = asyncio.Event()

    tree.before = stop
    async with mounted() as fs:
        down = direction == "download"
        copying = asyncio.ensure_future(
            fs.download_tree("/t", tmp_path / "u") if down else fs.upload_tree(tmp_path / "t", "/u")
        )
        await reached.wait()
        if end == "cancelled":
            copying.cancel()
        with pytest.raises(TransportClosed if end == "lost" else asyncio.CancelledError):
            await copying
        assert tree.in_flight == 0
    assert [name for name in shape(tmp_path) if ".rpcrdma-" in name] == []


async def test_an_upload_that_is_cancelled_before_it_lists_anything_leaves_nothing_open(
    mounted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()

    def cancel(*_: object) -> tuple[()]:
        loop.call_soon_threadsafe(copying.cancel)
        return ()

    monkeypatch.setattr(tree_copy, "lost_from_local", cancel)
    async with mounted() as fs:
        copying = asyncio.ensure_future(fs.upload_tree(tmp_path, "/copy"))
        with pytest.raises(asyncio.CancelledError):
            await copying


def test_a_tree_is_removed(tree: Any, mounted: Any) -> None:
    fs = mounted()
    report = run(fs.rmtree("/t"))
    report.check()
    assert (report.files, report.directories) == (FILES + 2, 11)
    assert tree.root.children == {}


def test_what_cannot_be_removed_is_reported(tree: Any, mounted: Any) -> None:
    tree.answers["REMOVE"] = [nfsstat3.NFS3ERR_ACCES]
    report = run(mounted().rmtree("/t"))
    assert report.failures_total == 1
    assert report.files == FILES + 1
    with pytest.raises(ExceptionGroup, match="could not be removed"):
        report.check()
    left = server_shape(tree.root)
    assert len([path for path, what in left.items() if what is not None]) == 1


def test_what_stays_does_not_keep_the_entries_after_it(
    server: Any, mounted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_remove, "_ROUND_ENTRIES", 20)
    for number in range(200):
        server.put(f"/t/{number}")
    for path in ("log", "a/log", "b/log", "b/none"):
        server.put(f"/t/directory/{path}")
    server.put("/t/new.log")
    server.answers["REMOVE"] = [nfsstat3.NFS3ERR_ACCES] * 30
    report = run(mounted().rmtree("/t", exclude=["*.log", "log"]))
    assert (report.failures_total, report.files, report.excluded) == (30, 171, 4)
    assert len(server.at("/t").children) == 30 + 2
    # So many may stay that their names are not remembered.
    for number in range(200):
        server.put(f"/t/{number}.new")
    monkeypatch.setattr(tree_remove, "NFS_LISTED_NAMES_KNOWN_MAX", 10)
    server.answers["REMOVE"] = [nfsstat3.NFS3ERR_ACCES] * 30
    report = run(mounted().rmtree("/t"))
    assert report.failures_total > 30
    assert [error.filename for error in report.failures if error.errno == errno.ENOBUFS] == ["/t"]  # type: ignore[attr-defined]


@each_case(("exclude", "told"), [("*.log", r"write \['\*\.log'\]"), ([b"*.log"], r"exclude\[0\] must be .* not bytes")])
def test_a_single_pattern_is_not_taken_for_a_list_of_its_characters(
    new_server: Any, tmp_path: Path, exclude: Any, told: str
) -> None:
    server, mounted = new_server()
    server.put("/t/file")
    fs = mounted()
    for work in (
        fs.download_tree("/t", tmp_path / "t", exclude=exclude),
        fs.upload_tree(tmp_path, "/new", exclude=exclude),
        fs.rmtree("/t", exclude=exclude),
    ):
        with pytest.raises(TypeError, match=told):
            run(work)
    assert names_in(tmp_path) == []
    assert server_shape(server.root) == {"t": None, "t/file": b""}


def test_what_others_remove_meanwhile_is_no_failure(tree: Any, mounted: Any) -> None:
    tree.answers["REMOVE"] = [nfsstat3.NFS3_OK, nfsstat3.NFS3ERR_NOENT]

    def also(name: str, args: Any) -> None:
        if name == "REMOVE" and tree.calls["REMOVE"] == 2:
            tree.directory(args.object.dir).children.pop(args.object.name)

    tree.before = also
    report = run(mounted().rmtree("/t"))
    report.check()
    assert tree.root.children == {}


@pytest.mark.thorough
def test_a_very_deep_tree_is_removed(server: Any, mounted: Any) -> None:
    at = server.root
    for _ in range(1500):
        at.children["d"] = at = server.make(ftype3.NF3DIR, 0o755)
    report = run(mounted().rmtree("/d"))
    assert report.directories == 1500
    assert server.root.children == {}
