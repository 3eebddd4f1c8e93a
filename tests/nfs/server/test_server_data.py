"""READ, WRITE and COMMIT."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.export.file_access import OpenFiles
from support.cases import each_case


@pytest.fixture
def root(server: Any) -> bytes:
    handle: bytes = server.mount()
    return handle


@each_case(
    ("offset", "count", "got", "eof"),
    [(0, 13, 13, True), (0, 12, 12, False), (5, 100, 8, True), (13, 1, 0, True), (99, 1, 0, True), (3, 0, 0, False)],
)
def test_read_says_where_the_file_ends(server: Any, root: bytes, offset: int, count: int, got: int, eof: bool) -> None:
    file = server.lookup(root, "hello.txt")
    reply = server.call("read", v3.READ3args(v3.nfs_fh3(file), offset, count)).value
    assert bytes(reply.data) == b"hello, world\n"[offset : offset + count]
    assert (reply.count, reply.eof, reply.file_attributes.value.size) == (got, eof, 13)


def test_an_open_file_in_memory_is_read_inline(server: Any, root: bytes, tree: Path) -> None:
    file = server.lookup(root, "hello.txt")
    server.read(file)
    server.read(file)
    with (tree / "hello.txt").open("rb") as plain:
        try:
            os.preadv(plain.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except OSError as error:
            pytest.skip(reason=f"this file system cannot tell whether a read would wait: {error}")
    assert not server.contexts[-1].may_block
    assert server.contexts[-1].buffers == [13]


def test_a_file_system_that_cannot_tell_is_asked_once(
    server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = server.lookup(root, "hello.txt")
    server.read(file)
    real, asked = os.preadv, []

    def preadv(fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        if flags:
            asked.append(flags)
            raise OSError(95, "not supported")
        return real(fd, buffers, offset)

    monkeypatch.setattr("rpcrdma.nfs.export.file_access.os.preadv", preadv)
    for _ in range(3):
        assert server.read(file) == b"hello, world\n"
    assert len(asked) == 1
    assert server.contexts[-1].buffers == [13]


def test_what_is_not_in_memory_is_read_on_in_a_worker_from_where_the_loop_stopped(
    server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = server.lookup(root, "hello.txt")
    server.read(file)
    on_disk(server)
    real, read = os.preadv, []

    def preadv(fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        (view,) = buffers
        may_block = server.contexts[-1].may_block
        # Five octets are in memory.
        got = real(fd, (view[: 5 if flags else None],), offset)
        read.append((may_block, bool(flags), offset, len(view)))
        return got

    monkeypatch.setattr("rpcrdma.nfs.export.file_access.os.preadv", preadv)
    assert server.read(file) == b"hello, world\n"
    assert read == [(False, True, 0, 13), (True, False, 5, 8)]
    assert server.contexts[-1].buffers == [13]


@each_case("in_memory", [True, False])
def test_a_write_looks_for_its_file_once_and_goes_to_a_worker_if_it_is_on_a_disk(
    server: Any, root: bytes, tree: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    file = server.create(root, f"in memory: {in_memory}")
    on_disk(server, not in_memory)
    backend = server.services.nfs.exports
    real, looked = backend.locate, []
    monkeypatch.setattr(backend, "locate", lambda handle, context: looked.append(handle) or real(handle, context))
    assert server.write(file, b"data").value.count == 4
    assert looked == [file]
    assert server.contexts[-1].may_block is not in_memory
    assert (tree / f"in memory: {in_memory}").read_bytes() == b"data"


def meddled(monkeypatch: pytest.MonkeyPatch, meddle: Callable[[], object]) -> None:
    """Has a local process act when a READ has looked at the file, and before it reads the data."""
    real = os.preadv

    def preadv(fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        meddle()
        return real(fd, buffers, offset, flags)

    monkeypatch.setattr("rpcrdma.nfs.export.file_access.os.preadv", preadv)


@each_case("in_memory", [True, False])
def test_the_attributes_of_a_read_are_no_newer_than_its_data(
    server: Any, root: bytes, tree: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    """Newer ones would make a client take old data for the present data."""
    (tree / "hello.txt").write_bytes(b"hello, world\n")
    file = server.lookup(root, "hello.txt")
    before = server.attributes(file)
    on_disk(server, not in_memory)
    meddled(monkeypatch, lambda: (tree / "hello.txt").write_bytes(b"HELLO, WORLD, AND MORE\n"))
    reply = server.call("read", v3.READ3args(v3.nfs_fh3(file), 0, 100)).value
    assert (bytes(reply.data), reply.eof) == (b"HELLO, WORLD,", True)
    told = reply.file_attributes.value
    assert (told.size, told.mtime, told.ctime) == (before.size, before.mtime, before.ctime)


@each_case(("in_memory", "left"), [(True, 0), (True, 5), (False, 0), (False, 5)])
def test_a_read_of_a_file_that_shrinks_meanwhile_is_short(
    server: Any, root: bytes, tree: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool, left: int
) -> None:
    (tree / "hello.txt").write_bytes(b"hello, world\n")
    file = server.lookup(root, "hello.txt")
    on_disk(server, not in_memory)
    meddled(monkeypatch, lambda: os.truncate(tree / "hello.txt", left))
    reply = server.call("read", v3.READ3args(v3.nfs_fh3(file), 0, 100)).value
    assert (bytes(reply.data), reply.count, reply.eof) == (b"hello"[:left], left, True)
    assert reply.file_attributes.value.size == left


def test_every_change_of_a_file_is_told_though_its_times_stay(
    server: Any, root: bytes, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on file systems that count in ticks or seconds: attributes are told again only if nothing has changed."""
    file = server.lookup(root, "hello.txt")
    real = (tree / "hello.txt").stat()
    now = {name: getattr(real, name) for name in dir(real) if name.startswith("st_")}
    monkeypatch.setattr(os, "fstat", lambda _fd: SimpleNamespace(**now))
    told = [server.attributes(file)]
    for name in ("mode", "nlink", "uid", "gid", "size", "blocks", "mtime_ns", "ctime_ns", "atime_ns"):
        now[f"st_{name}"] += 8
        told.append(server.attributes(file))
        assert told[-1] != told[-2], name
        assert server.attributes(file) == told[-1]


def on_disk(server: Any, is_so: bool = True) -> None:
    """Has the server take the export for one on a disk, or in memory."""
    for export in server.services.nfs.exports.trees:
        export.in_memory = not is_so


def test_an_offset_beyond_all_files_has_no_data_and_takes_none(server: Any, root: bytes) -> None:
    """RFC 1813 sections 3.3.6, 3.3.7 and 3.3.21."""
    file = server.lookup(root, "hello.txt")
    for offset in ((1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        reply = server.call("read", v3.READ3args(v3.nfs_fh3(file), offset, 1)).value
        assert (reply.count, reply.eof, bytes(reply.data)) == (0, True, b"")
        assert server.write(file, b"", offset).value.count == 0
        assert server.write(file, b"x", offset).status == v3.nfsstat3.NFS3ERR_FBIG
        assert server.status("commit", v3.COMMIT3args(v3.nfs_fh3(file), offset, 0xFFFFFFFF)) == "OK"


def test_only_regular_files_have_data(server: Any, root: bytes, tree: Path) -> None:
    os.mkfifo(tree / "fifo")
    for name, status in (("a", "ISDIR"), ("link", "INVAL"), ("fifo", "INVAL")):
        node = v3.nfs_fh3(server.lookup(root, name))
        assert server.status("read", v3.READ3args(node, 0, 1)) == status
        assert server.status("write", v3.WRITE3args(node, 0, 1, v3.stable_how.UNSTABLE, b"x")) == status
        assert server.status("commit", v3.COMMIT3args(node, 0, 0)) == status


@each_case("stable", v3.stable_how)
def test_what_is_written_is_in_the_file(server: Any, root: bytes, tree: Path, stable: v3.stable_how) -> None:
    file = server.create(root, stable.name)
    reply = server.write(file, b"data", 3, stable).value
    assert (reply.count, reply.committed, len(reply.verf)) == (4, stable, 8)
    assert (tree / stable.name).read_bytes() == b"\0\0\0data"
    assert reply.file_wcc.before.value.size == 0
    assert reply.file_wcc.after.value.size == 7


def test_a_write_takes_as_much_as_it_counts_and_brings(server: Any, root: bytes, tree: Path) -> None:
    file = v3.nfs_fh3(server.create(root, "new"))
    assert server.write(file.data, b"").value.count == 0
    assert server.status("write", v3.WRITE3args(file, 0, 5, v3.stable_how.UNSTABLE, b"four")) == "INVAL"
    assert server.call("write", v3.WRITE3args(file, 0, 2, v3.stable_how.UNSTABLE, b"four")).value.count == 2
    assert (tree / "new").read_bytes() == b"fo"


def test_one_call_moves_at_most_a_mebibyte(server: Any, root: bytes) -> None:
    data = os.urandom(1 << 20) + b"more"
    file = server.create(root, "new")
    assert server.write(file, data).value.count == 1 << 20
    assert server.write(file, b"more", 1 << 20).value.count == 4
    reply = server.call("read", v3.READ3args(v3.nfs_fh3(file), 0, 0xFFFFFFFF)).value
    assert (bytes(reply.data), reply.eof) == (data[: 1 << 20], False)
    assert server.read(file, 1 << 20) == b"more"


def test_the_verifier_lasts_as_long_as_the_server(start: Any) -> None:
    server = start()
    file = server.create(server.mount(), "new")
    first = server.write(file, b"x").value.verf
    commit = server.call("commit", v3.COMMIT3args(v3.nfs_fh3(file), 0, 0)).value
    assert commit.verf == first
    assert commit.file_wcc.before.attributes_follow
    assert start().write(file, b"x").value.verf != first


def test_a_failed_commit_changes_the_verifier(server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    file = server.create(root, "new")
    first = server.write(file, b"x").value.verf

    def fail(_fd: int) -> None:
        raise OSError(5, "the disk is gone")

    monkeypatch.setattr("rpcrdma.nfs.export.file_access.os.fsync", fail)
    assert server.status("commit", v3.COMMIT3args(v3.nfs_fh3(file), 0, 0)) == "IO"
    monkeypatch.undo()
    assert server.write(file, b"x").value.verf != first


def test_closing_puts_unstable_data_on_the_disk(server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    unstable, committed = server.create(root, "unstable"), server.create(root, "committed")
    server.write(unstable, b"x")
    server.write(committed, b"x")
    server.call("commit", v3.COMMIT3args(v3.nfs_fh3(committed), 0, 0))
    synced: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        real(fd)

    monkeypatch.setattr("rpcrdma.nfs.export.file_access.os.fsync", fsync)
    inode = server.attributes(unstable).fileid
    assert server.services.nfs.close() == []
    assert synced == [inode]


def test_a_file_removed_behind_our_back_is_stale_to_readers(server: Any, root: bytes, tree: Path) -> None:
    file = server.lookup(root, "hello.txt")
    server.read(file)
    (tree / "hello.txt").unlink()
    assert server.status("read", v3.READ3args(v3.nfs_fh3(file), 0, 1)) == "STALE"


def test_idle_files_alone_are_closed_and_not_lost(server: Any, root: bytes, tree: Path) -> None:
    file = server.lookup(root, "hello.txt")
    # The object and the file, while they are in use.
    for used, descriptors in ((True, 2), (False, 0)):
        for _ in range(2):
            if used:
                server.read(file)
            server.services.nfs.close_idle()
        links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        assert links.count(tree / "hello.txt") == descriptors
    assert server.read(file) == b"hello, world\n"


def test_unstable_data_is_kept_in_mind_while_idle_and_put_on_the_disk_on_eviction(
    server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = server.services.nfs.exports
    backend.parts.files = files = OpenFiles(1, server.state, backend.parts.leases)
    file = server.create(root, "unstable")
    server.write(file, b"x")
    fstat = os.fstat

    def status(fd: int) -> os.stat_result:
        assert file in files._cache.held, "or a call would open it without the mark"
        return fstat(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", status)
        for _ in range(3):
            files.drop_idle()
    synced: list[int] = []
    monkeypatch.setattr("rpcrdma.nfs.export.file_access.os.fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    server.read(server.lookup(root, "hello.txt"))
    assert synced == [server.attributes(file).fileid]


def test_a_file_that_is_opened_once_more_keeps_the_mark_of_data_written_until_then(
    server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = server.services.nfs.exports.parts.files._cache
    file = server.lookup(root, "hello.txt")
    server.read(file)
    put = cache.put

    def after_a_write(item: Any) -> Any:
        cache.held[file].unstable = True
        return put(item)

    monkeypatch.setattr(cache, "put", after_a_write)
    server.write(file, b"x", stable=v3.stable_how.FILE_SYNC)
    assert cache.held[file].writable
    assert cache.held[file].unstable


def test_a_file_that_another_client_writes_before_its_creation_returns_keeps_the_mark_of_these_data(
    server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = server.services.nfs.exports.parts.files
    created = files.created

    def after_a_write(node: Any, fd: int) -> None:
        server.write(server.lookup(root, "new"), b"x")
        created(node, fd)

    monkeypatch.setattr(files, "created", after_a_write)
    file = server.create(root, "new")
    assert files._cache.held[file].unstable
    # A file of another tree with the same handle is another file.
    synced: list[int] = []
    monkeypatch.setattr("rpcrdma.nfs.export.file_access.os.fsync", synced.append)
    monkeypatch.setattr("rpcrdma.nfs.export.file_access.os.fdatasync", synced.append)
    kept = files._cache.held[file]
    kept.tree = None
    server.read(file)
    assert synced == [kept.fd]
    assert not files._cache.held[file].unstable


def test_a_file_that_is_evicted_just_before_the_data_of_a_write_is_marked_again(
    server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = server.services.nfs.exports
    backend.trees[0].in_memory = False
    files, file = backend.parts.files, server.create(root, "file")
    server.write(file, b"x")
    pwrite = os.pwrite

    def write_late(*how: Any) -> int:
        files._evicted(files._cache.drop(file))
        return pwrite(*how)

    monkeypatch.setattr(os, "pwrite", write_late)
    server.write(file, b"y")
    assert files._cache.held[file].unstable


@each_case("lost_by", ["eviction", "SETATTR", "removal of the export"])
def test_a_commit_tells_of_data_that_was_lost_before_it(
    server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch, lost_by: str
) -> None:
    """The kernel reports a failed write to the disk once, to whichever call syncs the file first."""
    exports = server.services.nfs.exports
    exports.trees[0].in_memory = False
    exports.parts.files = files = OpenFiles(1, server.state, exports.parts.leases)
    file = server.create(root, f"lost by {lost_by}")
    written = server.write(file, b"x").value.verf

    def fail(_fd: int) -> None:
        raise OSError(5, "I/O error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        if lost_by == "eviction":
            files.drop_idle()
            server.read(server.lookup(root, "hello.txt"))
        elif lost_by == "SETATTR":
            no_guard = v3.sattrguard3(False, None)
            args = v3.SETATTR3args(v3.nfs_fh3(file), server.sattr(mode=0o600), no_guard)
            assert server.status("setattr", args) == "IO"
        else:
            assert files.retire(exports.trees)
    assert server.call("commit", v3.COMMIT3args(v3.nfs_fh3(file), 0, 0)).value.verf != written


def test_closing_reports_data_that_could_not_be_kept(server: Any, root: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    server.write(server.create(root, "unstable"), b"x")

    def fail(_fd: int) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr("rpcrdma.nfs.export.file_access.os.fsync", fail)
    assert [error.errno for error in server.services.nfs.close()] == [28]
    assert server.services.nfs.close() == []
