"""File handles: stable over restarts and renames, stale when the object is gone, with and without privilege."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.limits import NFS_PLACES_UNWRITTEN_MAX
from rpcrdma.nfs import v3
from rpcrdma.nfs.server import Export

Start = Callable[..., Any]


@pytest.fixture(params=[True, False], ids=["by handle", "by place and search"])
def restart(request: pytest.FixtureRequest, start: Start) -> Start:
    def restart_server(*args: Any, **options: Any) -> Any:
        return start(*args, open_by_handle=request.param, **options)

    return restart_server


def forget_places(tmp_path: Path) -> None:
    for path in (tmp_path / "state").glob("places*"):
        path.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may open by handle")
def test_a_privileged_server_asks_the_kernel(start: Start) -> None:
    def opens(server: Any) -> list[bool]:
        return [tree.opens_by_handle for tree in server.services.nfs.backend.trees.values()]

    assert opens(start(open_by_handle=False)) == [False]
    if opens(start()) == [False]:
        pytest.skip(reason="this file system has no handles to open by")
    assert opens(start()) == [True]


def test_handles_survive_a_restart(restart: Start) -> None:
    server = restart()
    root = server.mount()
    deep, link = server.lookup(root, "a", "b", "deep.txt"), server.lookup(root, "link")
    server.close()
    again = restart()
    assert again.read(deep) == b"deep"
    assert again.attributes(link).type == v3.ftype3.NF3LNK
    assert again.mount() == root


def test_handles_survive_the_loss_of_the_index(restart: Start, tmp_path: Path) -> None:
    server = restart()
    deep = server.lookup(server.mount(), "a", "b", "deep.txt")
    server.close()
    forget_places(tmp_path)
    assert restart().read(deep) == b"deep"


def test_handles_survive_a_rename_while_the_server_is_down(restart: Start, tree: Path) -> None:
    server = restart()
    root = server.mount()
    deep, directory = server.lookup(root, "a", "b", "deep.txt"), server.lookup(root, "a", "b")
    server.close()
    (tree / "a" / "b").rename(tree / "moved")
    (tree / "moved" / "deep.txt").rename(tree / "moved" / "deeper.txt")
    again = restart()
    assert again.read(deep) == b"deep"
    assert again.lookup(directory, "deeper.txt") == deep


def test_handles_survive_a_rename_behind_our_back(restart: Start, tree: Path) -> None:
    server = restart()
    deep = server.lookup(server.mount(), "a", "b", "deep.txt")
    (tree / "a" / "b" / "deep.txt").rename(tree / "shallow.txt")
    assert server.read(deep) == b"deep"
    for _ in range(2):
        server.services.nfs.close_idle()
    assert server.read(deep) == b"deep"


def test_a_handle_of_a_deleted_object_is_stale(restart: Start, tree: Path) -> None:
    server = restart()
    root = server.mount()
    file, directory = server.lookup(root, "hello.txt"), server.lookup(root, "a", "b")
    (tree / "hello.txt").unlink()
    (tree / "a" / "b" / "deep.txt").unlink()
    (tree / "a" / "b").rmdir()
    for again in (server, restart()):
        assert again.getattr_status(file) == "STALE"
        assert again.getattr_status(directory) == "STALE"


def test_a_new_file_in_an_old_inode_is_another_object(restart: Start, tree: Path) -> None:
    server = restart()
    file = server.lookup(server.mount(), "hello.txt")
    inode = (tree / "hello.txt").stat().st_ino
    (tree / "hello.txt").unlink()
    server.services.nfs.close_idle()
    server.services.nfs.close_idle()
    for number in range(50):
        (tree / f"new-{number}").touch()
    (tree / "hello.txt").touch()
    assert server.getattr_status(file) == "STALE", inode
    assert server.lookup(server.mount(), "hello.txt") != file


def test_a_file_that_replaces_another_is_another_object(restart: Start, tree: Path) -> None:
    server = restart()
    root = server.mount()
    file = server.lookup(root, "hello.txt")
    (tree / "next").write_bytes(b"next")
    (tree / "next").rename(tree / "hello.txt")
    assert server.getattr_status(file) == "STALE"
    assert server.read(server.lookup(root, "hello.txt")) == b"next"


def test_an_object_moved_out_of_the_export_is_stale_until_it_returns(
    restart: Start, tree: Path, tmp_path: Path
) -> None:
    server = restart()
    root = server.mount()
    deep, directory = server.lookup(root, "a", "b", "deep.txt"), server.lookup(root, "a", "b")
    (tree / "a" / "b").rename(tmp_path / "outside")
    for again in (server, restart()):
        assert again.getattr_status(deep) == "STALE"
        assert again.getattr_status(directory) == "STALE"
        assert again.status("lookup", v3.LOOKUP3args(again.dirop(directory, "deep.txt"))) == "STALE"
        assert again.status("readdir", v3.READDIR3args(v3.nfs_fh3(directory), 0, bytes(8), 4096)) == "STALE"
    (tmp_path / "outside").rename(tree / "a" / "b")
    assert server.lookup(root, "a", "b", "deep.txt") == deep
    assert server.read(deep) == b"deep"


def test_a_file_moved_out_but_linked_inside_is_still_served(restart: Start, tree: Path, tmp_path: Path) -> None:
    server = restart()
    file = server.lookup(server.mount(), "hello.txt")
    (tree / "a" / "twin").hardlink_to(tree / "hello.txt")
    (tree / "hello.txt").rename(tmp_path / "outside.txt")
    assert server.read(file) == b"hello, world\n"
    (tree / "a" / "twin").unlink()
    assert server.getattr_status(file) == "STALE"


def test_the_whole_export_may_move(restart: Start, tree: Path, tmp_path: Path) -> None:
    server = restart()
    deep = server.lookup(server.mount(), "a", "b", "deep.txt")
    tree.rename(tmp_path / "elsewhere")
    assert server.read(deep) == b"deep"
    assert server.read(server.lookup(server.mount(), "hello.txt")) == b"hello, world\n"


def test_a_name_that_looks_like_a_deleted_one_is_served(restart: Start, tree: Path) -> None:
    (tree / "x (deleted)").write_bytes(b"here")
    server = restart()
    file = server.lookup(server.mount(), "x (deleted)")
    assert server.read(file) == b"here"
    (tree / "x (deleted)").unlink()
    assert server.getattr_status(file) == "STALE"


def test_another_key_makes_all_handles_bad(restart: Start, tmp_path: Path) -> None:
    server = restart()
    root = server.mount()
    server.close()
    (tmp_path / "state" / "file-handle.key").unlink()
    assert restart().getattr_status(root) == "BADHANDLE"


def test_a_handle_of_an_export_that_is_gone_is_stale(restart: Start, tree: Path) -> None:
    server = restart([Export(name="/one", directory=tree)])
    root = server.mount("/one")
    assert restart([Export(name="/two", directory=tree)]).getattr_status(root) == "STALE"


def test_many_objects_are_found_again_after_a_restart(restart: Start, tree: Path) -> None:
    count = NFS_PLACES_UNWRITTEN_MAX // 8
    for number in range(count):
        (tree / "a" / f"{number}").write_bytes(b"%d" % number)
    server = restart()
    directory = server.lookup(server.mount(), "a")
    args = v3.READDIRPLUS3args(v3.nfs_fh3(directory), 0, bytes(8), 1 << 20, 1 << 20)
    page = server.call("readdirplus", args).value.reply
    assert page.eof
    server.close()
    again = restart()
    for entry in page.entries:
        if entry.name.isdecimal():
            assert again.read(entry.name_handle.value.data) == entry.name.encode()


def test_a_deep_tree_is_found_again(restart: Start, tree: Path) -> None:
    server = restart()
    directory = server.mount()
    for _ in range(40):
        made = server.call("mkdir", v3.MKDIR3args(server.dirop(directory, "d" * 200), server.sattr(mode=0o755)))
        directory = made.value.obj.value.data
    file = server.create(directory, "bottom")
    server.write(file, b"found")
    server.close()
    again = restart()
    # The path from the root has more octets than the kernel tells or takes at once.
    for one in (server, again):
        assert one.read(file) == b"found"
        assert one.read(file) == b"found"
        assert one.lookup(directory, "..") != directory
        assert one.list_names(directory) == [".", "..", "bottom"]


def test_an_object_far_down_goes_stale_like_others(restart: Start, tree: Path, tmp_path: Path) -> None:
    server = restart()
    directory = server.mount()
    for _ in range(22):
        made = server.call("mkdir", v3.MKDIR3args(server.dirop(directory, "d" * 200), server.sattr(mode=0o755)))
        directory = made.value.obj.value.data
    file = server.create(directory, "bottom")
    assert server.getattr_status(file) == "OK"
    (tree / ("d" * 200)).rename(tmp_path / "outside")
    assert server.getattr_status(file) == "STALE"
    assert server.getattr_status(directory) == "STALE"


def test_a_search_is_bounded_and_not_repeated(start: Start, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start(open_by_handle=False)
    file = server.lookup(server.mount(), "hello.txt")
    server.close()
    (tree / "hello.txt").rename(tree / "a" / "b" / "elsewhere")
    monkeypatch.setattr("rpcrdma.nfs.server.object_tree.NFS_SEARCH_ENTRIES_MAX", 2)
    again = start(open_by_handle=False)
    assert again.getattr_status(file) == "STALE"
    monkeypatch.undo()
    # Known to be gone until somebody comes across it.
    assert again.getattr_status(file) == "STALE"
    assert again.lookup(again.mount(), "a", "b", "elsewhere") == file
    assert again.getattr_status(file) == "OK"
