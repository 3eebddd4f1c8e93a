"""Names that local processes change while a procedure acts on them: results and effects concern the right object."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.export import local_files
from rpcrdma.nfs.server import Export

VERIFIER = b"\x01\x02\x03\x04\x05\x06\x07\x08"


@pytest.fixture
def inject(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes, Callable[[], None]], None]:
    """Runs something right after the first call of a function of `os` that makes or removes this name."""

    def arrange(function: str, name: bytes, meanwhile: Callable[[], None]) -> None:
        real = getattr(os, function)
        waiting = [meanwhile]

        def call(*args: Any, **options: Any) -> Any:
            made = function != "open" or args[1] & os.O_CREAT
            result = real(*args, **options)
            if waiting and made and name in args[:2]:
                waiting.pop()()
            return result

        monkeypatch.setattr(os, function, call)

    return arrange


def replaced_by(tree: Path, name: str, other: str) -> Callable[[], None]:
    def rename() -> None:
        (tree / name).rename(tree / "renamed")
        (tree / other).rename(tree / name)

    return rename


@pytest.mark.parametrize("mode", [v3.createmode3.GUARDED, v3.createmode3.UNCHECKED, v3.createmode3.EXCLUSIVE])
def test_create_tells_of_the_file_that_it_made(server: Any, tree: Path, inject: Any, mode: v3.createmode3) -> None:
    (tree / "hello.txt").chmod(0o600)
    # An exclusive create names its file afterwards.
    making = "link" if mode is v3.createmode3.EXCLUSIVE else "open"
    inject(making, b"new", replaced_by(tree, "new", "hello.txt"))
    how = VERIFIER if mode is v3.createmode3.EXCLUSIVE else server.sattr(mode=0o666, mtime=v3.nfstime3(7, 0))
    reply = server.call("create", v3.CREATE3args(server.dirop(server.mount(), "new"), v3.createhow3(mode, how)))
    made = reply.value.obj.value.data
    assert reply.value.obj_attributes.value.fileid == (tree / "renamed").stat().st_ino
    assert server.write(made, b"data", stable=v3.stable_how.FILE_SYNC).value.count == 4
    assert (tree / "renamed").read_bytes() == b"data"
    other = (tree / "new").stat()
    assert ((tree / "new").read_bytes(), stat.S_IMODE(other.st_mode)) == (b"hello, world\n", 0o600)
    assert other.st_mtime_ns != 7 * 10**9
    assert server.lookup(server.mount(), "renamed") == made
    # Not the open file either: it is found by the handle of the file.
    assert server.read(server.lookup(server.mount(), "new")) == b"hello, world\n"


def test_create_tells_of_its_file_though_the_name_is_gone(server: Any, tree: Path, inject: Any) -> None:
    inject("open", b"new", lambda: (tree / "new").rename(tree / "renamed") and None)
    made = server.create(server.mount(), "new")
    assert server.attributes(made).fileid == (tree / "renamed").stat().st_ino


@pytest.mark.parametrize("mode", [v3.createmode3.UNCHECKED, v3.createmode3.EXCLUSIVE])
@pytest.mark.parametrize(("times", "status"), [(3, "OK"), (100, "JUKEBOX")])
def test_create_of_what_is_removed_as_soon_as_it_is_found_begins_again(
    server: Any, tree: Path, monkeypatch: pytest.MonkeyPatch, mode: v3.createmode3, times: int, status: str
) -> None:
    real, link = os.open, os.link
    left = [times]

    def come_and_go(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if path == b"new" and flags & os.O_CREAT and left[0]:
            left[0] -= 1
            raise FileExistsError(errno.EEXIST, "exists")
        return real(path, flags, *args, **options)

    def come(path: Any, name: Any, **options: Any) -> None:
        if left[0]:
            raise FileExistsError(errno.EEXIST, "exists")
        link(path, name, **options)

    monkeypatch.setattr(os, "open", come_and_go)
    monkeypatch.setattr(os, "link", come)
    how = VERIFIER if mode is v3.createmode3.EXCLUSIVE else server.sattr()
    args = v3.CREATE3args(server.dirop(server.mount(), "new"), v3.createhow3(mode, how))
    assert server.status("create", args) == status
    assert (tree / "new").exists() == (status == "OK")


MAKERS: list[tuple[str, str, Callable[[Any, bytes], Any], Callable[[Path], object]]] = [
    (
        "mkdir",
        "mkdir",
        lambda server, root: v3.MKDIR3args(server.dirop(root, "new"), server.sattr(mode=0o1777, mtime="now")),
        lambda path: path.mkdir(mode=0o700),
    ),
    (
        "symlink",
        "symlink",
        lambda server, root: v3.SYMLINK3args(
            server.dirop(root, "new"), v3.symlinkdata3(server.sattr(mtime=v3.nfstime3(7, 0)), "target")
        ),
        lambda path: path.symlink_to("elsewhere"),
    ),
    (
        "mknod",
        "mknod",
        lambda server, root: v3.MKNOD3args(
            server.dirop(root, "new"), v3.mknoddata3(v3.ftype3.NF3FIFO, server.sattr(mode=0o666))
        ),
        lambda path: os.mkfifo(path, 0o600),
    ),
]


@pytest.mark.parametrize(("procedure", "function", "args", "make"), MAKERS, ids=[maker[0] for maker in MAKERS])
@pytest.mark.parametrize("decoy", ["older", "another kind", "none"])
def test_an_object_that_cannot_be_told_from_another_is_not_told(
    server: Any, tree: Path, inject: Any, procedure: str, function: str, args: Any, make: Any, decoy: str
) -> None:
    if decoy == "older":
        make(tree / "decoy")
        born = (tree / "decoy").lstat().st_ctime_ns
        for number in range(10**6):
            # Until files get a later time than the decoy has.
            (tree / f"later-{number}").touch()
            if (tree / f"later-{number}").stat().st_ctime_ns > born + 20_000_000:
                break
    elif decoy == "another kind":
        (tree / "decoy").write_bytes(b"")
        (tree / "decoy").chmod(0o600)
    before = (tree / "decoy").lstat() if decoy != "none" else None
    rename = (lambda: (tree / "new").rename(tree / "renamed")) if before is None else replaced_by(tree, "new", "decoy")
    inject(function, b"new", rename)
    reply = server.call(procedure, args(server, server.mount()))
    assert reply.status == v3.nfsstat3.NFS3_OK
    assert not reply.value.obj.handle_follows
    assert not reply.value.obj_attributes.attributes_follow
    assert (tree / "renamed").lstat()
    if before is not None:
        after = (tree / "new").lstat()
        assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)


@pytest.mark.parametrize(("procedure", "function", "args", "make"), MAKERS, ids=[maker[0] for maker in MAKERS])
def test_an_object_that_nobody_touched_is_told(
    server: Any, tree: Path, procedure: str, function: str, args: Any, make: Any
) -> None:
    for _ in range(20):
        reply = server.call(procedure, args(server, server.mount()))
        assert reply.value.obj.value.data == server.lookup(server.mount(), "new")
        path = tree / "new"
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.parametrize(("procedure", "function", "args", "make"), MAKERS, ids=[maker[0] for maker in MAKERS])
@pytest.mark.parametrize("lacks", ["a right", "a descriptor", "a descriptor and its name"])
def test_an_object_that_does_not_get_its_attributes_is_removed_and_no_other(
    server: Any, tree: Path, inject: Any, procedure: str, function: str, args: Any, make: Any, lacks: str
) -> None:
    root, real = server.mount(), os.open
    make(tree / "decoy")
    os.utime(tree / "decoy", (7, 7), follow_symlinks=False)
    other = (tree / "decoy").lstat().st_ino

    def dress(*_: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def opened(path: Any, *others: Any, **options: Any) -> int:
        if path == b"new":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, *others, **options)

    if lacks == "a descriptor and its name":
        inject(function, b"new", replaced_by(tree, "new", "decoy"))
    with pytest.MonkeyPatch.context() as patch:
        if lacks == "a right":
            patch.setattr(local_files.Files, "dress", dress)
        else:
            patch.setattr(os, "open", opened)
        status = server.status(procedure, args(server, root))
    assert status == ("PERM" if lacks == "a right" else "JUKEBOX")
    if lacks == "a descriptor and its name":
        assert (tree / "new").lstat().st_ino == other
    else:
        assert server.status(procedure, args(server, root)) == "OK"


def test_a_birth_counted_in_seconds_is_believed(server: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.export.object_tree.birth_and_mount", lambda fd: (0, 0))
    monkeypatch.setattr("rpcrdma.nfs.export.local_files.file_clock_ns", lambda: 1_700_000_000_999_999_999)
    real = os.mkdir

    def mkdir(name: bytes, mode: int, *, dir_fd: int) -> None:
        real(name, mode, dir_fd=dir_fd)
        seconds = 1_700_000_000 if name == b"now" else 1_699_999_999
        os.utime(name, (seconds, seconds), dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    root = server.mount()
    told = [
        server.call("mkdir", v3.MKDIR3args(server.dirop(root, name), server.sattr())).value.obj.handle_follows
        for name in ("now", "before")
    ]
    assert told == [True, False]


@pytest.mark.parametrize("outside", [False, True])
def test_rmdir_of_what_took_the_name_leaves_the_other_alive(
    server: Any, tree: Path, tmp_path: Path, *, outside: bool
) -> None:
    root = server.mount()
    kept = (tmp_path if outside else tree / "a") / "kept"
    directory = server.lookup(root, "a", "b")
    (tree / "empty").mkdir()
    real = os.rmdir

    def rmdir(name: bytes, *, dir_fd: int) -> None:
        (tree / "a" / "b").rename(kept)
        (tree / "empty").rename(tree / "a" / "b")
        real(name, dir_fd=dir_fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rmdir", rmdir)
        assert server.status("rmdir", v3.RMDIR3args(server.dirop(server.lookup(root, "a"), "b"))) == "OK"
    server.services.nfs.exports.parts.nodes.drop_all()
    if outside:
        assert server.getattr_status(directory) == "STALE"
        kept.rename(tree / "a" / "kept")
    assert server.getattr_status(directory) == "OK"
    assert server.lookup(directory, "deep.txt")


def test_a_file_with_another_name_stays_open_when_one_is_removed(start: Any, tree: Path) -> None:
    """Its data is not on the disk yet, and an orderly stop puts it there."""
    server = start(synchronous=False)
    root = server.mount()
    file = server.create(root, "one", mode=0o400)
    (tree / "two").hardlink_to(tree / "one")
    server.write(file, b"unstable")
    assert server.status("remove", v3.REMOVE3args(server.dirop(root, "one"))) == "OK"
    synced: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rpcrdma.nfs.export.file_access.os.fsync", synced.append)
        server.services.nfs.close()
    assert len(synced) == 1


def test_a_directory_in_two_exports_has_one_lock(start: Any, tree: Path) -> None:
    server = start([Export(name="/", directory=tree), Export(name="/inner", directory=tree / "a")])
    backend = server.services.nfs.exports
    outer = backend.parts.nodes.held[server.lookup(server.mount(), "a")]
    inner = next(tree.root for tree in backend.trees if tree.export.name == "/inner")
    assert outer.handle != inner.handle
    assert outer.lock is inner.lock
