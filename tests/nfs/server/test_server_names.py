"""LOOKUP, REMOVE, RMDIR, RENAME and LINK."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.server import Export


@pytest.fixture
def root(server: Any) -> bytes:
    handle: bytes = server.mount()
    return handle


def remove(server: Any, directory: bytes, name: str) -> str:
    return str(server.status("remove", v3.REMOVE3args(server.dirop(directory, name))))


def rmdir(server: Any, directory: bytes, name: str) -> str:
    return str(server.status("rmdir", v3.RMDIR3args(server.dirop(directory, name))))


def rename(server: Any, old: tuple[bytes, str], new: tuple[bytes, str]) -> str:
    return str(server.status("rename", v3.RENAME3args(server.dirop(*old), server.dirop(*new))))


def link(server: Any, file: bytes, new: tuple[bytes, str]) -> str:
    return str(server.status("link", v3.LINK3args(v3.nfs_fh3(file), server.dirop(*new))))


def test_lookup_gives_one_handle_of_all_names_and_both_attributes(server: Any, root: bytes, tree: Path) -> None:
    (tree / "a" / "other").hardlink_to(tree / "hello.txt")
    reply = server.call("lookup", v3.LOOKUP3args(server.dirop(root, "hello.txt"))).value
    assert reply.obj_attributes.value.fileid == (tree / "hello.txt").stat().st_ino
    assert reply.dir_attributes.value.fileid == tree.stat().st_ino
    file = reply.object.data
    assert server.lookup(root, "hello.txt") == server.lookup(root, "a", "other") == file
    absent = server.call("lookup", v3.LOOKUP3args(server.dirop(root, "absent")))
    assert absent.status == v3.nfsstat3.NFS3ERR_NOENT
    assert absent.value.dir_attributes.attributes_follow
    for name in ("x", ".", ".."):
        assert server.status("lookup", v3.LOOKUP3args(server.dirop(file, name))) == "NOTDIR"


def test_dots_lead_to_the_directory_and_its_parent_and_nowhere_above_the_root(server: Any, root: bytes) -> None:
    a = server.lookup(root, "a")
    b = server.lookup(a, "b")
    for directory, parent in ((b, a), (a, root), (root, root)):
        assert server.lookup(directory, ".") == directory
        assert server.lookup(directory, "..") == parent


def test_names_that_are_no_utf8_travel_both_ways(server: Any, root: bytes, tree: Path) -> None:
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff\xfe")).write_bytes(b"odd")
    assert server.read(server.lookup(root, os.fsdecode(b"\xff\xfe"))) == b"odd"
    server.create(root, os.fsdecode(b"\xfd"))
    assert b"\xfd" in [os.fsencode(path.name) for path in tree.iterdir()]


def test_remove_removes_files_links_and_nothing_else(server: Any, root: bytes, tree: Path) -> None:
    assert remove(server, root, "hello.txt") == "OK"
    assert remove(server, root, "link") == "OK"
    assert remove(server, root, "a") == "ISDIR"
    assert remove(server, root, "absent") == "NOENT"
    assert remove(server, root, ".") == "ACCES"
    assert sorted(path.name for path in tree.iterdir()) == ["a"]


def test_a_file_is_stale_as_soon_as_its_last_name_is_removed(server: Any, root: bytes, tree: Path) -> None:
    (tree / "a" / "other").hardlink_to(tree / "hello.txt")
    file = server.lookup(root, "hello.txt")
    server.read(file)
    assert remove(server, root, "hello.txt") == "OK"
    assert server.attributes(file).nlink == 1
    assert remove(server, server.lookup(root, "a"), "other") == "OK"
    assert server.getattr_status(file) == "STALE"
    server.create(root, "hello.txt")
    assert server.getattr_status(file) == "STALE"


def test_rmdir_removes_empty_directories_only(server: Any, root: bytes) -> None:
    a = server.lookup(root, "a")
    b = server.lookup(a, "b")
    assert rmdir(server, a, "b") == "NOTEMPTY"
    assert remove(server, b, "deep.txt") == "OK"
    assert rmdir(server, a, "b") == "OK"
    assert server.getattr_status(b) == "STALE"
    assert rmdir(server, root, "hello.txt") == "NOTDIR"
    assert rmdir(server, root, ".") == "INVAL"
    assert rmdir(server, root, "..") == "EXIST"
    assert rmdir(server, root, "absent") == "NOENT"


def test_changes_report_directories_before_and_after(server: Any, root: bytes) -> None:
    before, a = server.attributes(root), server.lookup(root, "a")
    failed = server.call("remove", v3.REMOVE3args(server.dirop(root, "absent"))).value.dir_wcc
    assert failed.before.value.ctime == failed.after.value.ctime == before.ctime
    wcc = server.call("remove", v3.REMOVE3args(server.dirop(root, "link"))).value.dir_wcc
    assert wcc.before.value.mtime == before.mtime
    assert wcc.before.value.ctime == before.ctime
    assert wcc.after.value == server.attributes(root)
    assert wcc.after.value.mtime != before.mtime
    reply = server.call("rename", v3.RENAME3args(server.dirop(root, "hello.txt"), server.dirop(a, "x"))).value
    for wcc, directory in ((reply.fromdir_wcc, root), (reply.todir_wcc, a)):
        assert wcc.before.value.mtime != wcc.after.value.mtime
        assert wcc.after.value == server.attributes(directory)


def test_rename_keeps_the_handle_and_those_below(server: Any, root: bytes, tree: Path) -> None:
    file, a = server.lookup(root, "hello.txt"), server.lookup(root, "a")
    deep = server.lookup(a, "b", "deep.txt")
    assert rename(server, (root, "hello.txt"), (a, "moved")) == "OK"
    assert server.read(file) == b"hello, world\n"
    assert server.lookup(a, "moved") == file
    assert (tree / "a" / "moved").exists()
    assert rename(server, (root, "a"), (root, "z")) == "OK"
    assert server.read(deep) == b"deep"
    assert server.lookup(server.lookup(root, "z", "b"), "..") == server.lookup(root, "z") == a


def test_rename_replaces_its_target(server: Any, root: bytes) -> None:
    file, other = server.lookup(root, "hello.txt"), server.create(root, "other")
    assert rename(server, (root, "hello.txt"), (root, "other")) == "OK"
    assert server.getattr_status(other) == "STALE"
    assert server.lookup(root, "other") == file


def test_rename_to_itself_or_another_link_changes_nothing(server: Any, root: bytes, tree: Path) -> None:
    (tree / "twin").hardlink_to(tree / "hello.txt")
    file = server.lookup(root, "hello.txt")
    assert rename(server, (root, "hello.txt"), (root, "hello.txt")) == "OK"
    assert rename(server, (root, "hello.txt"), (root, "twin")) == "OK"
    assert server.attributes(file).nlink == 2


def test_renames_that_cannot_be_are_refused(server: Any, root: bytes) -> None:
    a = server.lookup(root, "a")
    b = server.lookup(a, "b")
    assert rename(server, (root, "absent"), (root, "x")) == "NOENT"
    assert rename(server, (root, "a"), (b, "inside")) == "INVAL"
    assert rename(server, (root, "."), (root, "x")) == "INVAL"
    assert rename(server, (root, "a"), (root, "..")) == "INVAL"
    assert rename(server, (root, "hello.txt"), (root, "a")) in {"ISDIR", "EXIST"}
    assert rename(server, (root, "a"), (root, "hello.txt")) == "NOTDIR"


def test_link_makes_another_name_of_anything_but_a_directory(server: Any, root: bytes, tree: Path) -> None:
    file, a = server.lookup(root, "hello.txt"), server.lookup(root, "a")
    reply = server.call("link", v3.LINK3args(v3.nfs_fh3(file), server.dirop(a, "twin"))).value
    assert reply.file_attributes.value.nlink == 2
    assert reply.linkdir_wcc.before.attributes_follow
    assert server.lookup(a, "twin") == file
    assert link(server, server.lookup(root, "link"), (root, "link2")) == "OK"
    assert (tree / "link2").is_symlink()
    assert link(server, file, (a, "twin")) == "EXIST"
    assert link(server, file, (root, "..")) == "EXIST"
    assert link(server, file, (file, "x")) == "NOTDIR"
    assert link(server, a, (root, "x")) == "ISDIR"


def test_nothing_goes_from_one_export_to_another(start: Any, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    places = {"/one": tree, "/two": tmp_path / "other"}
    server = start([Export(name=name, directory=path, root_squash=False) for name, path in places.items()])
    one, two = server.mount("/one"), server.mount("/two")
    assert rename(server, (one, "hello.txt"), (two, "x")) == "XDEV"
    assert link(server, server.lookup(one, "hello.txt"), (two, "x")) == "XDEV"


def test_a_read_only_export_changes_in_no_way(start: Any, tree: Path) -> None:
    server = start(read_only=True)
    root = server.mount()
    file = server.lookup(root, "hello.txt")
    before = sorted(path.name for path in tree.iterdir())
    assert remove(server, root, "hello.txt") == "ROFS"
    assert rmdir(server, root, "a") == "ROFS"
    assert rename(server, (root, "a"), (root, "b")) == "ROFS"
    assert link(server, file, (root, "x")) == "ROFS"
    where, wanted = server.dirop(root, "x"), server.sattr(mode=0o600)
    assert server.status("create", v3.CREATE3args(where, v3.createhow3(v3.createmode3.UNCHECKED, wanted))) == "ROFS"
    assert server.status("mkdir", v3.MKDIR3args(where, wanted)) == "ROFS"
    assert server.status("symlink", v3.SYMLINK3args(where, v3.symlinkdata3(wanted, "x"))) == "ROFS"
    assert server.status("mknod", v3.MKNOD3args(where, v3.mknoddata3(v3.ftype3.NF3FIFO, wanted))) == "ROFS"
    assert server.status("setattr", v3.SETATTR3args(v3.nfs_fh3(file), wanted, v3.sattrguard3(False, None))) == "ROFS"
    assert server.write(file, b"x").status == v3.nfsstat3.NFS3ERR_ROFS
    assert server.read(file) == b"hello, world\n"
    granted = server.call("access", v3.ACCESS3args(v3.nfs_fh3(root), 0x3F)).value.access
    assert granted == v3.ACCESS3_READ | v3.ACCESS3_LOOKUP
    assert sorted(path.name for path in tree.iterdir()) == before
