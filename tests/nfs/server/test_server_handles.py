"""File handles: stable over restarts and renames, stale when the object is gone, with and without privilege."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.export import object_tree, tree_search
from rpcrdma.nfs.export.export_limits import NFS_SEARCH_ENTRIES_MAX, NFS_SEARCH_REST_NS
from rpcrdma.nfs.export.long_paths import path_of_ancestor
from rpcrdma.nfs.server import Export
from support.cases import each_case

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
        return [tree._readable_root is not None for tree in server.services.nfs.exports.trees]

    assert opens(start(open_by_handle=False)) == [False]
    if opens(start()) == [False]:
        pytest.skip(reason="this file system has no handles to open by")
    assert opens(start()) == [True]


def test_handles_survive_restarts_the_loss_of_the_index_and_renames_meanwhile(
    restart: Start, tree: Path, tmp_path: Path
) -> None:
    server = restart()
    root = server.mount()
    deep, directory, link = (server.lookup(root, *path) for path in (("a", "b", "deep.txt"), ("a", "b"), ("link",)))
    server.close()
    again = restart()
    assert again.read(deep) == b"deep"
    assert again.attributes(link).type == v3.ftype3.NF3LNK
    assert again.mount() == root
    again.close()
    forget_places(tmp_path)
    again = restart()
    assert again.read(deep) == b"deep"
    again.close()
    (tree / "a" / "b").rename(tree / "moved")
    (tree / "moved" / "deep.txt").rename(tree / "moved" / "deeper.txt")
    again = restart()
    assert again.read(deep) == b"deep"
    assert again.lookup(directory, "deeper.txt") == deep


def test_handles_survive_a_rename_behind_our_back(restart: Start, tree: Path, tmp_path: Path) -> None:
    server = restart()
    deep = server.lookup(server.mount(), "a", "b", "deep.txt")
    (tree / "a" / "b" / "deep.txt").rename(tree / "shallow.txt")
    assert server.read(deep) == b"deep"
    for _ in range(2):
        server.services.nfs.close_idle()
    assert server.read(deep) == b"deep"
    # Of the whole export, too.
    tree.rename(tmp_path / "elsewhere")
    assert server.read(deep) == b"deep"
    assert server.read(server.lookup(server.mount(), "hello.txt")) == b"hello, world\n"


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


def test_a_new_file_in_an_old_inode_or_place_is_another_object(restart: Start, tree: Path) -> None:
    server = restart()
    root = server.mount()
    file = server.lookup(root, "hello.txt")
    inode = (tree / "hello.txt").stat().st_ino
    (tree / "hello.txt").unlink()
    server.services.nfs.close_idle()
    server.services.nfs.close_idle()
    for number in range(50):
        (tree / f"new-{number}").touch()
    (tree / "hello.txt").touch()
    assert server.getattr_status(file) == "STALE", inode
    other = server.lookup(root, "hello.txt")
    assert other != file
    (tree / "next").write_bytes(b"next")
    (tree / "next").rename(tree / "hello.txt")
    assert server.getattr_status(other) == "STALE"
    assert server.read(server.lookup(root, "hello.txt")) == b"next"


def test_a_file_moved_out_but_linked_inside_is_still_served(restart: Start, tree: Path, tmp_path: Path) -> None:
    server = restart()
    file = server.lookup(server.mount(), "hello.txt")
    (tree / "a" / "twin").hardlink_to(tree / "hello.txt")
    (tree / "hello.txt").rename(tmp_path / "outside.txt")
    assert server.read(file) == b"hello, world\n"
    (tree / "a" / "twin").unlink()
    assert server.getattr_status(file) == "STALE"


def test_a_name_that_looks_like_a_deleted_one_is_served(restart: Start, tree: Path) -> None:
    (tree / "x (deleted)").write_bytes(b"here")
    server = restart()
    file = server.lookup(server.mount(), "x (deleted)")
    assert server.read(file) == b"here"
    (tree / "x (deleted)").unlink()
    assert server.getattr_status(file) == "STALE"


def test_handles_of_another_export_are_stale_and_of_another_key_bad(restart: Start, tree: Path, tmp_path: Path) -> None:
    server = restart([Export(name="/one", directory=tree)])
    root = server.mount("/one")
    assert restart([Export(name="/two", directory=tree)]).getattr_status(root) == "STALE"
    (tmp_path / "state" / "file-handle.key").unlink()
    assert restart([Export(name="/one", directory=tree)]).getattr_status(root) == "BADHANDLE"


def test_a_deep_tree_is_found_again_and_stale_outside(restart: Start, tree: Path, tmp_path: Path) -> None:
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
    (tree / ("d" * 200)).rename(tmp_path / "outside")
    assert again.getattr_status(file) == again.getattr_status(directory) == "STALE"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The server's clock, in nanoseconds: it stands still unless a test moves it.

    Searches of more than 50 entries need a rest, so that the trees can be small.
    """
    now = [10**18]
    monkeypatch.setattr(tree_search, "file_clock_ns", lambda: now[0])
    monkeypatch.setattr(tree_search, "NFS_SEARCH_FREE_ENTRIES", 50)
    return now


@pytest.fixture
def directories_read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The paths of the directories that searches have read."""
    read: list[bytes] = []
    real = tree_search.directory_entries

    def count(directory: int, path: bytes) -> Any:
        read.append(path)
        return real(directory, path)

    monkeypatch.setattr(tree_search, "directory_entries", count)
    return read


def test_a_search_is_bounded_and_not_repeated_soon(
    start: Start, tree: Path, monkeypatch: pytest.MonkeyPatch, clock: list[int]
) -> None:
    server = start(open_by_handle=False)
    file = server.lookup(server.mount(), "hello.txt")
    server.close()
    (tree / "hello.txt").rename(tree / "a" / "b" / "elsewhere")
    monkeypatch.setattr(tree_search, "NFS_SEARCH_FREE_ENTRIES", 0)
    monkeypatch.setattr(tree_search, "NFS_SEARCH_ENTRIES_MAX", 2)
    again = start(open_by_handle=False)
    assert again.getattr_status(file) == "STALE"
    monkeypatch.setattr(tree_search, "NFS_SEARCH_ENTRIES_MAX", NFS_SEARCH_ENTRIES_MAX)
    # Taken for gone until it is come across, or the next search is due.
    assert again.getattr_status(file) == "STALE"
    assert again.lookup(again.mount(), "a", "b", "elsewhere") == file
    assert again.getattr_status(file) == "OK"
    other = start(open_by_handle=False)
    other.state.places.forget(file)
    monkeypatch.setattr(tree_search, "NFS_SEARCH_ENTRIES_MAX", 2)
    assert other.getattr_status(file) == "STALE"
    monkeypatch.setattr(tree_search, "NFS_SEARCH_ENTRIES_MAX", NFS_SEARCH_ENTRIES_MAX)
    clock[0] += 3 * NFS_SEARCH_REST_NS
    assert other.getattr_status(file) == "OK"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The files opened by name, by the server among others."""
    calls: list[object] = []
    real = os.open

    def count(path: Any, *args: Any, **options: Any) -> int:
        calls.append(path)
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", count)
    return calls


@pytest.fixture
def lost(tree: Path, tmp_path: Path, clock: list[int]) -> Callable[[Any], list[bytes]]:
    """Handles of files of which half have been deleted and half have left the export, among 60 names."""

    def lose(server: Any) -> list[bytes]:
        (tmp_path / "outside").mkdir()
        for number in range(60):
            (tree / "a" / f"kept-{number}").touch()
        directory = server.mount()
        handles: list[bytes] = []
        for number in range(40):
            (tree / f"lost-{number}").touch()
            handles.append(server.lookup(directory, f"lost-{number}"))
        server.close()
        for number in range(40):
            if number % 2:
                (tree / f"lost-{number}").unlink()
            else:
                (tree / f"lost-{number}").rename(tmp_path / "outside" / f"lost-{number}")
        return handles

    return lose


def test_one_search_serves_for_all_lost_handles(
    restart: Start, lost: Any, directories_read: list[bytes], clock: list[int]
) -> None:
    handles = lost(restart())
    again = restart()
    for _ in range(2):
        assert {again.getattr_status(handle) for handle in handles} == {"STALE"}
    assert len(directories_read) == 3
    clock[0] += 60 * NFS_SEARCH_REST_NS
    assert {again.getattr_status(handle) for handle in handles} == {"STALE"}
    assert len(directories_read) == 3
    clock[0] += 20 * NFS_SEARCH_REST_NS
    assert {again.getattr_status(handle) for handle in handles} == {"STALE"}
    assert len(directories_read) == 6


def test_a_directory_that_cannot_be_read_hides_what_is_there_and_is_not_read_again_soon(
    start: Start, lost: Any, tmp_path: Path, directories_read: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(open_by_handle=False)
    file = server.lookup(server.mount(), "hello.txt")
    handles = lost(server)
    forget_places(tmp_path)
    entries = tree_search.directory_entries

    def fail(directory: int, path: bytes) -> Any:
        yield from entries(directory, path)
        if path == b"./a":
            raise OSError(errno.EIO, "bad sector")

    monkeypatch.setattr(tree_search, "directory_entries", fail)
    again = start(open_by_handle=False)
    assert {again.getattr_status(handle) for handle in handles} == {"IO"}
    assert again.getattr_status(file) == "OK"
    assert sorted(directories_read) == [b".", b"./a", b"./a/b"]


@each_case(("error", "status"), [(errno.EMFILE, "JUKEBOX"), (errno.EIO, "IO"), (errno.EACCES, "STALE")])
def test_an_object_is_not_gone_because_its_directory_cannot_be_opened_now(
    error: int, status: str, start: Start, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(open_by_handle=False)
    deep = server.lookup(server.mount(), "a", "b", "deep.txt")
    server.close()
    again = start(open_by_handle=False)
    again.state.places.forget(deep)
    real = os.open

    def fail(path: Any, *args: Any, **options: Any) -> int:
        if isinstance(path, bytes) and os.path.realpath(path) == os.fsencode(tree / "a/b"):
            raise OSError(error, os.strerror(error))
        return real(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        assert again.getattr_status(deep) == status
    assert again.getattr_status(deep) == "OK"


def test_one_search_finds_all_objects_whose_places_were_lost(
    start: Start, tree: Path, tmp_path: Path, directories_read: list[bytes], clock: list[int]
) -> None:
    for number in range(60):
        (tree / "a" / "b" / f"{number}").touch()
    server = start(open_by_handle=False)
    directory = server.lookup(server.mount(), "a", "b")
    files = {number: server.lookup(directory, f"{number}") for number in range(0, 60, 3)}
    server.close()
    forget_places(tmp_path)
    again = start(open_by_handle=False)
    for number, file in files.items():
        assert again.attributes(file).fileid == (tree / "a" / "b" / f"{number}").stat().st_ino
    assert len(directories_read) == 3


def test_what_was_renamed_since_the_last_search_is_put_off_until_the_next(
    start: Start, tree: Path, tmp_path: Path, clock: list[int]
) -> None:
    for number in range(60):
        (tree / "a" / "b" / f"{number}").touch()
    server = start(open_by_handle=False)
    directory = server.lookup(server.mount(), "a", "b")
    one, other = server.lookup(directory, "1"), server.lookup(directory, "2")
    server.close()
    forget_places(tmp_path)
    again = start(open_by_handle=False)
    assert again.getattr_status(one) == "OK"
    (tree / "a" / "b" / "2").rename(tree / "renamed")
    assert again.getattr_status(other) == "JUKEBOX"
    clock[0] += 10**12
    assert again.getattr_status(other) == "OK"
    # A clock that is set back holds up nothing.
    (tree / "renamed").rename(tree / "a" / "2")
    again.services.nfs.exports.parts.nodes.drop_all()
    clock[0] -= 10**13
    assert again.getattr_status(other) == "OK"


def test_not_every_name_of_an_inode_is_tried(
    start: Start, tree: Path, tmp_path: Path, clock: list[int], opened: list[object]
) -> None:
    """A file of many names, all renamed since the last search: the next search finds it."""
    (tree / "file-0").write_bytes(b"data")
    for number in range(1, 60):
        (tree / f"file-{number}").hardlink_to(tree / "file-0")
    server = start(open_by_handle=False)
    file, other = server.lookup(server.mount(), "file-0"), server.lookup(server.mount(), "hello.txt")
    server.close()
    forget_places(tmp_path)
    again = start(open_by_handle=False)
    assert again.getattr_status(other) == "OK"
    for number in range(60):
        (tree / f"file-{number}").rename(tree / f"renamed-{number}")
    opened.clear()
    assert again.getattr_status(file) == "JUKEBOX"
    assert len(opened) <= 20
    clock[0] += 10**12
    assert again.read(file) == b"data"


def test_what_a_search_has_found_is_let_go_of_when_it_is_not_asked_for(
    restart: Start, lost: Any, clock: list[int]
) -> None:
    handles = lost(restart())
    again = restart()
    assert again.getattr_status(handles[0]) == "STALE"
    search = next(iter(again.services.nfs.exports.trees))._search
    for held in (True, True):
        again.services.nfs.close_idle()
        # Not before the next search is due: until then, an object that it has not found counts as gone.
        assert (search._names is not None) == held
    clock[0] += 10**12
    again.services.nfs.close_idle()
    assert search._names is None


@each_case("elsewhere", [False, True])
def test_what_left_the_export_is_served_again_when_it_is_back(
    restart: Start, tree: Path, tmp_path: Path, clock: list[int], elsewhere: bool
) -> None:
    """Without any other object's being looked up; through no second name either."""
    server = restart()
    file, directory = server.lookup(server.mount(), "hello.txt"), server.lookup(server.mount(), "a", "b")
    again = restart()
    (tree / "hello.txt").rename(tmp_path / "file")
    (tree / "a" / "b").rename(tmp_path / "directory")
    for one in (server, again, again):
        assert one.getattr_status(file) == "STALE"
        assert one.getattr_status(directory) == "STALE"
    (tmp_path / "file").rename(tree / ("back" if elsewhere else "hello.txt"))
    (tmp_path / "directory").rename(tree / ("back-too" if elsewhere else "a/b"))
    clock[0] += 10**12
    for one in (server, again):
        assert one.read(file) == b"hello, world\n"
        assert one.list_names(directory) == [".", "..", "deep.txt"]


def test_a_search_pays_for_long_paths(start: Start, tree: Path) -> None:
    server = start(open_by_handle=False)
    search = next(iter(server.services.nfs.exports.trees))._search
    search.walk()
    few = search._cost
    place = tree
    for _ in range(8):
        place /= "d" * 240
    place.mkdir(parents=True)
    search.walk()
    # Eight entries more, and 36 times 240 octets of paths, each path rounded down.
    assert search._cost >= few + 8 + 36 * 240 // 32 - 8


FAR = "n" * 250
"""Twenty of these below each other make a path that the kernel does not tell."""


@pytest.fixture
def far_down(start: Start, tree: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[bytes], list[int]]:
    """A server, the handles from its root to a directory far down, and the climbs from there that it has begun."""
    fd = os.open(tree, os.O_PATH)
    for _ in range(24):
        os.mkdir(FAR, dir_fd=fd)
        lower = os.open(FAR, os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = lower
    os.close(fd)
    climbs: list[int] = []

    def climb(directory: int) -> tuple[bytes, int]:
        climbs.append(directory)
        return path_of_ancestor(directory)

    monkeypatch.setattr(object_tree, "path_of_ancestor", climb)
    server = start()
    handles = [server.mount()]
    for _ in range(24):
        handles.append(server.lookup(handles[-1], FAR))
    return server, handles, climbs


def test_one_climb_serves_all_directories_below_each_other_far_down(
    far_down: tuple[Any, list[bytes], list[int]],
) -> None:
    server, handles, climbs = far_down
    assert len(climbs) == 1
    for handle in handles * 2:
        assert server.getattr_status(handle) == "OK"
    assert len(climbs) == 1


def test_the_event_loop_neither_climbs_nor_reads_a_disk(
    far_down: tuple[Any, list[bytes], list[int]], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, handles, climbs = far_down
    backend = server.services.nfs.exports
    file, other = server.create(handles[-1], "file"), server.create(handles[0], "x (deleted)")
    context = server.contexts[-1]
    for handle in (file, other):
        assert backend.locate(handle, context)[0] is backend.parts.nodes.held[handle]
    context.may_block = False
    with monkeypatch.context() as patch:
        # Neither the place of a file far down, nor whether a file with such a name is deleted.
        patch.setattr(server.state.places, "find", None)
        patch.setattr(os, "lstat", None)
        assert [backend.locate(handle, context) for handle in (file, other)] == [None, None]
    node = backend.parts.nodes.held[handles[-1]]
    context.may_block = False
    assert backend.locate(handles[-1], context)[0] is node
    node.levels = 0
    assert backend.locate(handles[-1], context) is None
    assert len(climbs) == 1
    context.may_block = True
    assert backend.locate(handles[-1], context)[0] is node
    assert len(climbs) == 2
    context.may_block = False
    assert backend.locate(handles[-1], context)[0] is node


def test_what_was_far_down_is_found_where_it_has_moved_and_not_outside(
    far_down: tuple[Any, list[bytes], list[int]], tree: Path, tmp_path: Path
) -> None:
    server, handles, _ = far_down
    (tree / FAR / FAR).rename(tree / "short")
    assert server.getattr_status(handles[-1]) == "OK"
    (tree / "short" / FAR / FAR / FAR).rename(tree / "shorter")
    assert server.getattr_status(handles[-1]) == "OK"
    os.rmdir(FAR, dir_fd=server.services.nfs.exports.parts.nodes.held[handles[-2]].fd)
    assert server.getattr_status(handles[-1]) == "STALE"
    (tree / "shorter").rename(tmp_path / "outside")
    assert server.getattr_status(handles[-2]) == "STALE"
    assert server.getattr_status(handles[4]) == "OK"
