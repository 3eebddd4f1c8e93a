"""The way from paths to file handles: links, dots, the cache, and that none leaves the mount."""

from __future__ import annotations

import asyncio
import errno
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
