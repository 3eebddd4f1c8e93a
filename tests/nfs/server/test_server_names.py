"""LOOKUP, REMOVE, RMDIR, RENAME and LINK."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3


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


def test_remove_and_rmdir_remove_objects_of_their_kinds(server: Any, root: bytes) -> None:
    assert remove(server, root, "a") == "ISDIR"
    assert rmdir(server, root, "hello.txt") == "NOTDIR"
    assert rmdir(server, server.lookup(root, "a"), "b") == "NOTEMPTY"
    directory, b = server.lookup(root, "a"), server.lookup(root, "a", "b")
    assert remove(server, b, "deep.txt") == "OK"
    assert rmdir(server, directory, "b") == "OK"
    assert server.getattr_status(b) == "STALE"


def test_names_that_are_no_utf8_travel_both_ways(server: Any, root: bytes, tree: Path) -> None:
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff\xfe")).write_bytes(b"odd")
    assert server.read(server.lookup(root, os.fsdecode(b"\xff\xfe"))) == b"odd"
    server.create(root, os.fsdecode(b"\xfd"))
    assert b"\xfd" in [os.fsencode(path.name) for path in tree.iterdir()]


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
    linked = server.call("link", v3.LINK3args(v3.nfs_fh3(server.lookup(a, "x")), server.dirop(root, "twin"))).value
    assert linked.file_attributes.value.nlink == 2
    assert linked.linkdir_wcc.after.value == server.attributes(root)


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
