"""CREATE, MKDIR, SYMLINK, MKNOD and SETATTR."""

from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.export import local_files
from rpcrdma.nfs.export.linux_calls import set_file_times
from support.cases import each_case

VERIFIER = b"\xff\xee\xdd\xcc\x88\x11\x22\x33"


@pytest.fixture
def root(server: Any) -> bytes:
    handle: bytes = server.mount()
    return handle


def create(server: Any, root: bytes, name: str, mode: v3.createmode3, how: v3.sattr3 | bytes) -> Any:
    return server.call("create", v3.CREATE3args(server.dirop(root, name), v3.createhow3(mode, how)))


def setattr_(server: Any, handle: bytes, guard: v3.nfstime3 | None = None, **wanted: Any) -> Any:
    args = v3.SETATTR3args(v3.nfs_fh3(handle), server.sattr(**wanted), v3.sattrguard3(guard is not None, guard))
    return server.call("setattr", args)


def test_create_makes_a_file_and_describes_it(server: Any, root: bytes, tree: Path) -> None:
    reply = create(server, root, "new", v3.createmode3.UNCHECKED, server.sattr(mode=0o640, size=5)).value
    assert reply.obj_attributes.value.mode == 0o640
    assert (tree / "new").read_bytes() == bytes(5)
    assert server.lookup(root, "new") == reply.obj.value.data
    assert reply.dir_wcc.before.value.mtime != reply.dir_wcc.after.value.mtime


_NO_ID = 0xFFFFFFFF
_DEFAULT_ACL = struct.pack("<I HHI HHI HHI", 2, 0x01, 6, _NO_ID, 0x04, 4, _NO_ID, 0x20, 0, _NO_ID)
"""The extended attribute of a directory whose default ACL is u::rw-,g::r--,o::---."""


@each_case(
    ("mask", "acl", "mode"),
    [
        (0o022, b"", "0o2775"),
        (0o077, b"", "0o2775"),
        (0o000, b"", "0o2775"),
        # As mkdir(2) and others do, which a server of Linux calls.
        (0o022, _DEFAULT_ACL, "0o2640"),
        (0o000, _DEFAULT_ACL, "0o2640"),
    ],
)
def test_modes_are_what_the_client_asks_for_less_what_a_default_acl_takes_away(
    mask: int, acl: bytes, mode: str, start: Any, tree: Path
) -> None:
    if acl:
        os.setxattr(tree, "system.posix_acl_default", acl)
    before = os.umask(mask)
    try:
        server = start()
        root, wanted = server.mount(), server.sattr(mode=0o2775)
        fifo = v3.mknoddata3(v3.ftype3.NF3FIFO, wanted)
        made = [
            create(server, root, f"file-{mask}-{mode}", v3.createmode3.GUARDED, wanted),
            server.call("mkdir", v3.MKDIR3args(server.dirop(root, f"dir-{mask}-{mode}"), wanted)),
            server.call("mknod", v3.MKNOD3args(server.dirop(root, f"fifo-{mask}-{mode}"), fifo)),
        ]
    finally:
        os.umask(before)
    assert [oct(reply.value.obj_attributes.value.mode) for reply in made] == [mode] * 3


def test_an_exclusive_create_can_be_repeated_by_its_author_until_attributes_are_set(start: Any) -> None:
    server = start()
    root = server.mount()
    made = create(server, root, "new", v3.createmode3.EXCLUSIVE, VERIFIER).value.obj.value.data
    for again in (server, start()):
        assert create(again, root, "new", v3.createmode3.EXCLUSIVE, VERIFIER).value.obj.value.data == made
        other = create(again, root, "new", v3.createmode3.EXCLUSIVE, VERIFIER[::-1])
        assert other.status == v3.nfsstat3.NFS3ERR_EXIST
    assert server.attributes(made).mode == 0o600
    assert setattr_(server, made, mode=0o644, atime="now", mtime="now").status == v3.nfsstat3.NFS3_OK
    late = create(server, root, "new", v3.createmode3.EXCLUSIVE, VERIFIER)
    assert late.status == v3.nfsstat3.NFS3ERR_EXIST


def test_an_exclusively_created_file_has_its_verifier_before_its_name(
    server: Any, root: bytes, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a server that is killed between the two leaves a file that its author gets NFS3ERR_EXIST for."""
    seen = []

    def set_times(*args: Any) -> None:
        seen.append((tree / "new").exists())
        set_file_times(*args)

    monkeypatch.setattr(local_files, "set_file_times", set_times)
    assert create(server, root, "new", v3.createmode3.EXCLUSIVE, VERIFIER).status == v3.nfsstat3.NFS3_OK
    assert (seen, (tree / "new").exists()) == ([False], True)


def test_an_exclusive_create_is_repeatable_on_a_file_system_without_nameless_files(
    server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def open_named(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(path, flags, *args, **options)

    def fail(*_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "open", open_named)
    with monkeypatch.context() as patch:
        patch.setattr(local_files, "set_file_times", fail)
        assert create(server, root, "new", v3.createmode3.EXCLUSIVE, VERIFIER).status == v3.nfsstat3.NFS3ERR_DQUOT
    made = create(server, root, "new", v3.createmode3.EXCLUSIVE, VERIFIER).value.obj.value.data
    assert create(server, root, "new", v3.createmode3.EXCLUSIVE, VERIFIER).value.obj.value.data == made
    assert create(server, root, "new", v3.createmode3.EXCLUSIVE, VERIFIER[::-1]).status == v3.nfsstat3.NFS3ERR_EXIST


@pytest.mark.parametrize("replaced", [False, True])
@each_case(
    ("mode", "fails"),
    [
        (v3.createmode3.GUARDED, "ftruncate"),
        (v3.createmode3.UNCHECKED, "ftruncate"),
        (v3.createmode3.EXCLUSIVE, "fsync"),
    ],
)
def test_a_create_that_fails_removes_its_file_and_no_other(
    server: Any, root: bytes, tree: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, fails: str, *, replaced: bool
) -> None:
    name = f"new-{mode.name}"

    def fail(*_: object) -> None:
        if replaced:
            (tree / "other").write_bytes(b"other")
            (tree / "other").rename(tree / name)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    how = VERIFIER if mode is v3.createmode3.EXCLUSIVE else server.sattr(size=5)
    with monkeypatch.context() as patch:
        patch.setattr(os, fails, fail)
        assert create(server, root, name, mode, how).status == v3.nfsstat3.NFS3ERR_DQUOT
    if replaced:
        assert (tree / name).read_bytes() == b"other"
    else:
        assert create(server, root, name, mode, how).status == v3.nfsstat3.NFS3_OK


def test_a_file_may_be_created_without_the_right_to_open_it(server: Any, root: bytes, tree: Path) -> None:
    file = server.create(root, "readonly", mode=0o444)
    assert server.write(file, b"data").value.count == 4
    assert (tree / "readonly").read_bytes() == b"data"


def test_mkdir_and_symlink_describe_what_they_made(server: Any, root: bytes, tree: Path) -> None:
    made = server.call("mkdir", v3.MKDIR3args(server.dirop(root, "dir"), server.sattr(mode=0o751))).value
    assert (made.obj_attributes.value.type, made.obj_attributes.value.mode) == (v3.ftype3.NF3DIR, 0o751)
    data = v3.symlinkdata3(server.sattr(mode=0o777), "to/\udcff")
    linked = server.call("symlink", v3.SYMLINK3args(server.dirop(root, "sym"), data)).value
    assert linked.obj_attributes.value.type == v3.ftype3.NF3LNK
    assert os.fsencode((tree / "sym").readlink()) == b"to/\xff"
    for name in ("dir", ".", ".."):
        assert server.status("mkdir", v3.MKDIR3args(server.dirop(root, name), server.sattr())) == "EXIST"
    assert server.status("symlink", v3.SYMLINK3args(server.dirop(root, "sym"), data)) == "EXIST"


def test_mknod_makes_pipes_and_sockets_and_nothing_else(server: Any, root: bytes, tree: Path) -> None:
    for kind, test in ((v3.ftype3.NF3FIFO, stat.S_ISFIFO), (v3.ftype3.NF3SOCK, stat.S_ISSOCK)):
        args = v3.MKNOD3args(server.dirop(root, kind.name), v3.mknoddata3(kind, server.sattr(mode=0o640)))
        assert server.call("mknod", args).value.obj_attributes.value.type == kind
        assert test((tree / kind.name).lstat().st_mode)
    for kind in (v3.ftype3.NF3REG, v3.ftype3.NF3DIR, v3.ftype3.NF3LNK):
        assert server.status("mknod", v3.MKNOD3args(server.dirop(root, "x"), v3.mknoddata3(kind, None))) == "BADTYPE"


def test_devices_are_for_root_alone(start: Any, tree: Path) -> None:
    device = v3.mknoddata3(v3.ftype3.NF3CHR, v3.devicedata3(start().sattr(mode=0o600), v3.specdata3(1, 3)))
    squashed = start(root_squash=True)
    args = v3.MKNOD3args(squashed.dirop(squashed.mount(), "null"), device)
    assert squashed.status("mknod", args) == "PERM"
    assert not (tree / "null").exists()


def test_a_device_with_a_number_that_linux_cannot_have_is_refused(server: Any, root: bytes, tree: Path) -> None:
    for numbers in ((1 << 12, 3), (1, 1 << 20)):
        device = v3.mknoddata3(v3.ftype3.NF3CHR, v3.devicedata3(server.sattr(), v3.specdata3(*numbers)))
        assert server.status("mknod", v3.MKNOD3args(server.dirop(root, "device"), device)) == "INVAL"
    assert not (tree / "device").exists()


def test_setattr_sets_each_attribute_and_leaves_the_others(server: Any, root: bytes, tree: Path) -> None:
    file = server.lookup(root, "hello.txt")
    before = (tree / "hello.txt").stat()
    setattr_(server, file, atime=v3.nfstime3(5, 6))
    after = (tree / "hello.txt").stat()
    assert (after.st_mtime_ns, after.st_mode, after.st_size) == (before.st_mtime_ns, before.st_mode, before.st_size)
    wanted = {"mode": 0o604, "size": 4, "mtime": v3.nfstime3(4_000_000_000, 8)}
    wcc = setattr_(server, file, **wanted).value.obj_wcc
    told = (tree / "hello.txt").stat()
    assert (stat.S_IMODE(told.st_mode), told.st_size) == (0o604, 4)
    assert (told.st_atime_ns, told.st_mtime_ns) == (5_000_000_006, 4_000_000_000 * 10**9 + 8)
    assert (wcc.before.value.size, wcc.after.value.size) == (13, 4)


def test_setattr_of_a_link_is_about_the_link(server: Any, root: bytes, tree: Path) -> None:
    setattr_(server, server.lookup(root, "link"), mtime=v3.nfstime3(7, 0))
    assert (tree / "link").lstat().st_mtime == 7
    assert (tree / "hello.txt").stat().st_mtime != 7


def test_the_guard_lets_only_the_expected_change_time_pass(server: Any, root: bytes) -> None:
    file = server.lookup(root, "hello.txt")
    stale = v3.nfstime3(1, 2)
    refused = setattr_(server, file, stale, mode=0o600)
    assert refused.status == v3.nfsstat3.NFS3ERR_NOT_SYNC
    assert refused.value.obj_wcc.before.attributes_follow
    assert setattr_(server, file, server.attributes(file).ctime, mode=0o600).status == v3.nfsstat3.NFS3_OK


def test_values_that_mean_nothing_are_refused(server: Any, root: bytes) -> None:
    file = server.lookup(root, "hello.txt")
    for handle, wanted, status in (
        (file, {"size": 1 << 63}, "FBIG"),
        (file, {"uid": 0xFFFFFFFF}, "INVAL"),
        (file, {"gid": 0xFFFFFFFF}, "INVAL"),
        (file, {"mtime": v3.nfstime3(0, 10**9)}, "INVAL"),
        (root, {"size": 0}, "ISDIR"),
    ):
        assert setattr_(server, handle, **wanted).status.name == f"NFS3ERR_{status}", wanted


def test_changes_reach_the_disk_before_the_answer_unless_told_otherwise(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    server, lazy = start(), start(synchronous=False)
    monkeypatch.setattr("rpcrdma.nfs.export.local_object.os.fsync", synced.append)
    (export,) = server.services.nfs.exports.trees
    export.in_memory = False
    server.create(server.mount(), "one")
    assert len(synced) == 2  # the file and its directory
    lazy.create(lazy.mount(), "two")
    assert len(synced) == 2
    export.in_memory = True
    server.create(server.mount(), "three")
    assert len(synced) == 2
