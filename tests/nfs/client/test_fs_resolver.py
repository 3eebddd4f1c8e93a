"""The way from paths to file handles: links, dots, the cache, and that none leaves the mount."""

# ruff: noqa: PTH101, PTH104, PTH123, PTH208, PTH211 - pathlib drops slashes at the end of paths

from __future__ import annotations

import asyncio
import errno
import os
from asyncio import run
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.v3 import LOOKUP, nfsstat3
from support.cases import each_case
from support.waiting import until


def size_of(fs: Any, path: str) -> int:
    return asyncio.run(fs.stat(path)).st_size


@pytest.fixture
def tree(server: Any) -> Any:
    server.put("/a/b/file", b"1")
    server.put("/a/other", b"22")
    server.put("/file", b"333")
    return server


@each_case(
    ("link", "target", "path", "size"),
    [
        ("/l", "a/b/file", "/l", 1),
        ("/l", "/a/b/file", "/l", 1),
        ("/a/b/l", "../other", "/a/b/l", 2),
        ("/a/b/l", "../../../../../file", "/a/b/l", 3),
        ("/l", "a/b", "/l/file", 1),
        ("/l", "a/b", "/l/../other", 2),
        ("/l", "a/./b/", "/l/./file", 1),
        ("/a/l", "/", "/a/l/file", 3),
    ],
)
def test_links_lead_where_they_say(tree: Any, mounted: Any, link: str, target: str, path: str, size: int) -> None:
    tree.link(link, target)
    assert size_of(mounted(), path) == size


@each_case("path", ["/..", "/../..", "..", "/a/../..", "/a/b/../../../.."])
def test_no_path_leaves_the_mount(tree: Any, mounted: Any, path: str) -> None:
    fs = mounted()
    assert asyncio.run(fs.stat(path)).st_ino == tree.root.number
    assert size_of(fs, path + "/file") == 3


def test_relative_paths_start_at_the_directory(tree: Any, mounted: Any) -> None:
    fs = mounted(fs_directory="a")
    assert fs.directory == "/a"
    assert size_of(fs, "other") == 2
    assert size_of(fs, "b/file") == 1
    assert size_of(fs, "../file") == 3
    assert size_of(fs, "/file") == 3
    # A directory that is a file can be named by a dot.
    assert size_of(mounted(fs_directory="/file"), "") == 3
    # A slash at the end follows a link.
    tree.link("/l", "a")
    fs = mounted()
    assert asyncio.run(fs.lstat("/l")).is_symlink()
    assert asyncio.run(fs.lstat("/l/")).is_dir()


def test_a_chain_of_links_ends(server: Any, mounted: Any) -> None:
    server.put("/0", b"x")
    for number in range(1, 42):
        server.link(f"/{number}", str(number - 1))
    fs = mounted()
    assert size_of(fs, "/40") == 1
    with pytest.raises(OSError, match="symbolic links") as caught:
        size_of(fs, "/41")
    assert caught.value.errno == errno.ELOOP
    server.link("/self", "self")
    with pytest.raises(OSError, match="symbolic links"):
        size_of(fs, "/self")


@each_case("path", ["/file/", "/file/.", "/file/..", "/file/below", "/file/../file"])
def test_a_file_is_no_directory(tree: Any, mounted: Any, path: str) -> None:
    with pytest.raises(NotADirectoryError):
        size_of(mounted(), path)


@each_case("path", ["/none/file", "/a/none/file", "/dangling", "/dangling/file", "/empty"])
def test_what_is_missing_on_the_way(tree: Any, mounted: Any, path: str) -> None:
    tree.link("/dangling", "nowhere/at/all")
    tree.link("/empty", "")
    with pytest.raises(FileNotFoundError):
        size_of(mounted(), path)


def test_directories_on_the_way_are_remembered_for_a_while(tree: Any, mounted: Any) -> None:
    now = [0.0]
    fs = mounted(fs_clock=lambda: now[0])
    size_of(fs, "/a/b/file")
    assert tree.calls["LOOKUP"] == 3
    size_of(fs, "/a/b/file")
    assert tree.calls["LOOKUP"] == 4
    now[0] = 3.0
    size_of(fs, "/a/b/file")
    assert tree.calls["LOOKUP"] == 7


def test_the_directory_of_an_entry_is_remembered_except_for_a_change(tree: Any, mounted: Any) -> None:
    fs = mounted(fs_clock=lambda: 0.0)
    for lookups in (3, 4):
        assert asyncio.run(fs.entry("/a/b/file")).stat().st_size == 1
        assert tree.calls["LOOKUP"] == lookups
    asyncio.run(fs.unlink("/a/b/file"))
    assert tree.calls["LOOKUP"] == 5
    tree.link("/a/l", "b")
    tree.put("/a/b/new", b"4444")
    for _ in range(2):
        assert asyncio.run(fs.entry("/a/l/new")).stat().st_size == 4
    assert tree.calls["READLINK"] == 1


@each_case("late", ["the RENAME", "the reply"])
async def test_a_directory_found_before_its_renaming_is_not_remembered(new_server: Any, late: str) -> None:
    tree, mounted = new_server()
    tree.put("/a/b/file", b"1")
    call, answered, delivered = tree.call, asyncio.Event(), asyncio.Event()

    async def delivered_late(procedure: Any, args: Any, **how: Any) -> Any:
        reply = await call(procedure, args, **how)
        if procedure is LOOKUP and args.what.name == "b":
            answered.set()
            await delivered.wait()
        return reply

    tree.call = delivered_late
    fs = mounted(fs_clock=lambda: 0.0)
    running = tree.hold["RENAME"] = asyncio.Event()
    renaming = asyncio.create_task(fs.rename("/a/b", "/a/old"))
    await until(lambda: tree.calls["RENAME"])
    looking = asyncio.create_task(fs.stat("/a/b/file"))
    await answered.wait()
    if late == "the reply":
        running.set()
        await renaming
    delivered.set()
    await looking
    running.set()
    await renaming
    with pytest.raises(FileNotFoundError):
        await fs.stat("/a/b/file")


def test_links_on_the_way_are_remembered_with_their_targets(tree: Any, mounted: Any) -> None:
    tree.link("/l", "a/b")
    fs = mounted(fs_clock=lambda: 0.0)
    size_of(fs, "/l/file")
    size_of(fs, "/l/file")
    assert tree.calls["READLINK"] == 1
    size_of(fs, "/a/b/file")
    # A remembered directory that is gone is looked up again.
    old = tree.root.children.pop("a")
    tree.things[old.children["b"].number] = None
    tree.put("/a/b/file", b"4444")
    assert size_of(fs, "/a/b/file") == 4
    # A stale root is reported.
    tree.answers["LOOKUP"] = [nfsstat3.NFS3ERR_STALE] * 9
    with pytest.raises(NfsError) as caught:
        size_of(fs, "/a/b/file")
    assert caught.value.errno == errno.ESTALE


def test_creating_through_a_dangling_link_makes_its_target(server: Any, mounted: Any) -> None:
    server.folder("/dir")
    server.link("/l", "dir/new")
    asyncio.run(mounted().write_bytes("/l", b"x"))
    assert bytes(server.at("/dir/new").data) == b"x"


@each_case("path", ["/a/l", "/a/m", "/a/l/l", "/up"])
def test_attributes_through_a_link_to_a_dot_are_those_of_now(tree: Any, mounted: Any, path: str) -> None:
    tree.link("/a/l", ".")
    tree.link("/a/m", "./")
    tree.link("/up", "a/l")
    fs = mounted(fs_clock=lambda: 0.0)
    asyncio.run(fs.stat("/a"))
    for mode in (0o700, 0o750):
        tree.at("/a").mode = mode
        assert asyncio.run(fs.stat(path)).st_mode & 0o777 == mode


def open_and_close(path: str, mode: str) -> None:
    with open(path, mode):
        pass


SLASH_CALLS: dict[str, tuple[Callable[[str], object], Callable[[Any, str], Coroutine[Any, Any, object]]]] = {
    "stat": (os.stat, lambda fs, path: fs.stat(path)),
    "lstat": (os.lstat, lambda fs, path: fs.lstat(path)),
    "entry": (os.lstat, lambda fs, path: fs.entry(path)),
    "chmod": (lambda path: os.chmod(path, 0o755), lambda fs, path: fs.chmod(path, 0o755)),
    "listdir": (os.listdir, lambda fs, path: fs.listdir(path)),
    "readlink": (os.readlink, lambda fs, path: fs.readlink(path)),
    "mkdir": (os.mkdir, lambda fs, path: fs.mkdir(path)),
    "rmdir": (os.rmdir, lambda fs, path: fs.rmdir(path)),
    "unlink": (os.unlink, lambda fs, path: fs.unlink(path)),
    "rename": (lambda path: os.rename(path, "new/"), lambda fs, path: fs.rename(path, "new/")),
    "rename to": (lambda path: os.rename("second", path), lambda fs, path: fs.rename("second", path)),
    "link": (lambda path: os.link("second", path), lambda fs, path: fs.link("second", path)),
    "symlink": (lambda path: os.symlink("x", path), lambda fs, path: fs.symlink("x", path)),
    "rb": (lambda path: open_and_close(path, "rb"), lambda fs, path: fs.read_bytes(path)),
    "r+b": (lambda path: open_and_close(path, "r+b"), lambda fs, path: fs.open(path, "r+b")),
    "wb": (lambda path: open_and_close(path, "wb"), lambda fs, path: fs.write_bytes(path, b"")),
    "xb": (lambda path: open_and_close(path, "xb"), lambda fs, path: fs.open(path, "xb")),
    "ab": (lambda path: open_and_close(path, "ab"), lambda fs, path: fs.open(path, "ab")),
}


@pytest.mark.thorough
@each_case("path", ["file/", "dir/", "to-dir/", "to-file//", "none/", "dangling/", "file/x/", "none/x/"])
@each_case("call", list(SLASH_CALLS))
def test_a_slash_at_the_end_of_a_path_has_the_meaning_that_it_has_for_os(
    new_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, path: str
) -> None:
    server, mounted = new_server()
    for name in ("file", "second"):
        server.put(name, b"1")
        (tmp_path / name).write_bytes(b"1")
    server.folder("/dir")
    (tmp_path / "dir").mkdir()
    for name, target in (("to-dir", "dir"), ("to-file", "file"), ("dangling", "nowhere")):
        server.link(name, target)
        (tmp_path / name).symlink_to(target)

    def outcome(work: Callable[[], object]) -> int | None:
        try:
            work()
        except OSError as error:
            return error.errno
        return None

    monkeypatch.chdir(tmp_path)
    local, remote = SLASH_CALLS[call]
    assert outcome(lambda: run(remote(mounted(), path))) == outcome(lambda: local(path))
    assert sorted(server.root.children) == sorted(os.listdir())


def test_an_entry_behind_a_link_with_a_slash_is_the_directory(server: Any, mounted: Any) -> None:
    server.folder("/dir")
    server.link("/to-dir", "dir")
    server.link("/to-root", "/")
    fs = mounted()
    assert run(fs.entry("to-dir")).is_symlink()
    assert run(fs.entry("to-dir/")).handle == server.handle(server.at("/dir"))
    assert run(fs.entry("to-root/")).is_dir()
    with pytest.raises(NotADirectoryError):
        run(fs.rename("/to-dir/.", "/new"))
