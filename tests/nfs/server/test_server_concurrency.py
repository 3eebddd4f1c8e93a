"""Many threads at once, as the worker threads of a server are."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conversation import with_version_4
from fsspec_rig import ME
from rpcrdma.nfs import v3
from rpcrdma.nfs.export import local_object, open_object
from rpcrdma.nfs.export.file_access import OpenFiles
from rpcrdma.nfs.export.mount_table import MountTable
from rpcrdma.nfs.export.object_cache import ObjectCache
from rpcrdma.nfs.export.tree import Change, Create, CreateHow, FileKind, Wanted
from rpcrdma.nfs.server import Export
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.compounds import CompoundCall
from support.open_files import open_files

THREADS = 6


def run(work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_eviction_never_closes_what_is_in_use(server: Any, tree: Path) -> None:
    backend = server.services.nfs.exports
    backend.parts.files = OpenFiles(2, server.state, backend.parts.leases)
    cache: ObjectCache[Any] = ObjectCache(3)
    backend.parts.nodes = cache
    next(iter(backend.trees))._cache = cache
    for number in range(12):
        (tree / f"{number}").write_bytes(b"%d" % number * 1000)
    root = server.mount()
    files = [server.lookup(root, f"{number}") for number in range(12)]

    def work(seed: int) -> None:
        for turn in range(150):
            number = (seed * 5 + turn * 7) % 12
            assert server.read(files[number]) == b"%d" % number * 1000

    run(work)
    before = open_files()
    server.services.nfs.close()
    assert open_files() <= before


def test_a_write_that_comes_while_its_file_is_dropped_keeps_the_mark_of_its_data(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = server.services.nfs.exports
    backend.trees[0].in_memory = False
    files, handle = backend.parts.files, server.create(server.mount(), "file")
    cache, waits_or_done = files._cache, threading.Event()
    drop, lock = cache.drop, cache.lock

    class Lock:
        def __enter__(self) -> None:
            if threading.current_thread() is writer:
                waits_or_done.set()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    def write() -> None:
        server.write(handle, b"x")
        waits_or_done.set()

    def drop_beside_a_write(dropped: bytes) -> Any:
        writer.start()
        assert waits_or_done.wait(60)
        return drop(dropped)

    writer = threading.Thread(target=write)
    monkeypatch.setattr(cache, "lock", Lock())
    monkeypatch.setattr(cache, "drop", drop_beside_a_write)
    assert files.drop_idle_writer(backend.parts.nodes.held[handle])
    writer.join()
    assert cache.held[handle].unstable


def test_writers_of_one_file_see_every_change_of_the_others(server: Any) -> None:
    """Each change's attributes before are those after another one: no other change comes between."""
    file = server.create(server.mount(), "shared")
    seen: list[tuple[int, int]] = []

    def work(number: int) -> None:
        for turn in range(60):
            reply = server.write(file, b"x" * 10, (turn * THREADS + number) * 10).value
            seen.append((reply.file_wcc.before.value.size, reply.file_wcc.after.value.size))

    run(work)
    # The file only grows, so each size that is left is one that was arrived at.
    befores = {before for before, _ in seen}
    afters = {after for _, after in seen} | {0}
    assert befores <= afters
    assert server.attributes(file).size == 60 * THREADS * 10


def test_renames_back_and_forth_neither_block_nor_lose(server: Any, tree: Path) -> None:
    root = server.mount()
    for name in ("left", "right"):
        assert server.status("mkdir", v3.MKDIR3args(server.dirop(root, name), server.sattr(mode=0o755))) == "OK"
    left, right = server.lookup(root, "left"), server.lookup(root, "right")
    handles = [server.create(left, f"{number}") for number in range(THREADS)]

    def work(number: int) -> None:
        one, other = (left, right) if number % 2 else (right, left)
        if not number % 2:
            args = v3.RENAME3args(server.dirop(left, f"{number}"), server.dirop(right, f"{number}"))
            assert server.status("rename", args) == "OK"
        for _ in range(40):
            args = v3.RENAME3args(server.dirop(one, f"{number}"), server.dirop(other, f"{number}"))
            assert server.status("rename", args) == "OK"
            assert server.getattr_status(handles[number]) == "OK"
            one, other = other, one

    run(work)
    assert len(list((tree / "left").iterdir())) + len(list((tree / "right").iterdir())) == THREADS


def test_a_change_is_counted_under_the_lock_of_its_object_and_that_of_a_file_under_no_other(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the first, two changes may get one number; with two locks in no order, two threads may wait for ever."""
    counted: list[bytes] = []
    count = open_object.OpenObject.count_change

    def held(locks: list[Any]) -> list[Any]:
        """The locks that another thread than the one that counts cannot take."""
        return [lock for lock in locks if not lock.acquire(blocking=False) or lock.release()]

    def checked(changed: Any, present: Any) -> None:
        taken = other.submit(held, changed.tree.locks).result()
        assert changed.lock in taken
        assert changed.kind is FileKind.DIRECTORY or taken == [changed.lock]
        counted.append(changed.file)
        count(changed, present)

    exports = server.services.nfs.exports
    root = exports.trees[0].root
    how = Create(CreateHow.UNCHECKED, Wanted(size=0))
    with ThreadPoolExecutor(1) as other:
        one, two = (root.create(ME, name, how, Change()) for name in (b"one", b"two"))
        files = [exports.file_of(node.handle) for node in (root, one, two)]
        monkeypatch.setattr(open_object.OpenObject, "count_change", checked)
        for call, changed in (
            (lambda: root.create(ME, b"one", how, Change()), {1}),
            (lambda: one.link(ME, root, b"more", Change()), {0, 1}),
            (lambda: root.rename(ME, b"one", root, b"more", Change(), Change()), set()),
            (lambda: root.rename(ME, b"one", root, b"two", Change(), Change()), {0, 1, 2}),
            (lambda: root.remove(ME, b"more", Change(), is_directory=False), {0, 1}),
        ):
            call()
            assert set(counted) == {files[number] for number in changed}
            counted.clear()


def test_a_change_that_waits_for_one_disk_keeps_none_on_another_waiting(
    start: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though their objects have one lock among those of a file system."""
    monkeypatch.setattr(local_object, "_LOCKS", 1)
    disks = iter((b"still", b"good", b"good"))
    monkeypatch.setattr(MountTable, "file_system_of", lambda *_: next(disks))
    names = {"/still": tree / "a", "/good": tree / "a" / "b", "/more": tree}
    server = start([Export(name=name, directory=path) for name, path in names.items()])
    roots = {name: server.mount(name) for name in names}
    stuck, gate, real = threading.Event(), threading.Event(), os.mkdir

    def mkdir(path: Any, *args: Any, **options: Any) -> None:
        if path == b"stuck":
            stuck.set()
            gate.wait()
        real(path, *args, **options)

    monkeypatch.setattr("rpcrdma.nfs.export.local_files.os.mkdir", mkdir)

    def make(name: str, directory: str) -> str:
        args = v3.MKDIR3args(server.dirop(roots[directory], name), server.sattr())
        return str(server.status("mkdir", args))

    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(make("stuck", "/still")))
    thread.start()
    stuck.wait()
    try:
        assert make("new", "/good") == "OK"
    finally:
        gate.set()
        thread.join()
    assert told == ["OK"]
    still, good, more = server.services.nfs.exports.trees
    assert good.locks is more.locks is not still.locks


def test_each_call_that_takes_a_thread_tells_its_disk(start: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = iter((b"one", b"other", b"one"))
    monkeypatch.setattr(MountTable, "file_system_of", lambda *_: next(disks))
    server = start([Export(name="/a", directory=tree), Export(name="/a/b", directory=tree / "a")])
    nfs, mount = server.services
    handles = {path: v3.nfs_fh3(server.mount(path)) for path in ("/a", "/a/b")}
    for path, disk in (("/a", b"one"), ("/a/b", b"other")):
        file = handles[path]
        where = v3.diropargs3(file, "name")
        elsewhere = v3.diropargs3(handles["/a"], "name")
        none = server.sattr()
        assert {
            nfs.WAITS_FOR(args)
            for args in (
                v3.GETATTR3args(file),
                v3.SETATTR3args(file, none, v3.sattrguard3(False, None)),
                v3.LOOKUP3args(where),
                v3.READ3args(file, 0, 1),
                v3.WRITE3args(file, 0, 1, v3.stable_how.UNSTABLE, b"x"),
                v3.CREATE3args(where, v3.createhow3(v3.createmode3.GUARDED, none)),
                v3.MKDIR3args(where, none),
                v3.SYMLINK3args(where, v3.symlinkdata3(none, "x")),
                v3.MKNOD3args(where, v3.mknoddata3(v3.ftype3.NF3FIFO, none)),
                v3.REMOVE3args(where),
                v3.RENAME3args(where, elsewhere),
                v3.LINK3args(file, elsewhere),
                v3.READDIR3args(file, 0, bytes(8), 100),
                v3.READDIRPLUS3args(file, 0, bytes(8), 100, 100),
                v3.FSSTAT3args(file),
                v3.COMMIT3args(file, 0, 0),
            )
        } == {disk}
        assert mount.WAITS_FOR(f"{path}/deeper") == disk
    assert nfs.WAITS_FOR(v3.GETATTR3args(v3.nfs_fh3(b"nobody's"))) is None
    # With one disk there is nothing to leave threads to.
    alone = start([Export(name="/", directory=tree)])
    assert alone.services.nfs.WAITS_FOR(v3.GETATTR3args(handles["/a"])) is None


def test_each_compound_that_takes_a_thread_tells_its_disk(
    start: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = iter((b"one", b"other"))
    monkeypatch.setattr(MountTable, "file_system_of", lambda *_: next(disks))
    server = start([Export(name="/", directory=tree), Export(name="/a/b", directory=tree / "a")])
    service = with_version_4(server, None).service
    operation = nfs4.nfs_opnum4
    sequence = operation.OP_SEQUENCE, nfs4.SEQUENCE4args(bytes(16), 1, 0, 0, False)
    inner = operation.OP_PUTFH, nfs4.PUTFH4args(server.mount("/a/b"))
    outer = operation.OP_PUTFH, nfs4.PUTFH4args(server.mount("/"))
    assert service.WAITS_FOR is not None
    told = [
        service.WAITS_FOR(CompoundCall.of([sequence, *more]))
        for more in (
            [inner],
            [outer],
            [inner, (operation.OP_SAVEFH, None), outer],
            [(operation.OP_PUTROOTFH, None)],
            [],
        )
    ]
    assert told == [b"other", b"one", b"other", b"one", None]
    assert service.WAITS_FOR(CompoundCall.of([(operation.OP_PUTFH, None)])) is None, "it does not decode"
    service.close()


def test_compounds_above_a_disk_that_stands_still_leave_threads_to_the_others(
    start: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports = [Export(name="/x", directory=tree), Export(name="/y", directory=tree / "a")]
    to_root = CompoundCall.of([(nfs4.nfs_opnum4.OP_PUTROOTFH, None), (nfs4.nfs_opnum4.OP_READDIR, None)])
    for disks, told in ((b"one", b"one"), False), ((b"one", b"other"), True):
        numbers = iter(disks)
        monkeypatch.setattr(MountTable, "file_system_of", lambda *_, numbers=numbers: next(numbers))
        service = with_version_4(start(exports), None).service
        assert service.WAITS_FOR is not None
        root = service.exports.root.handle
        to_handle = CompoundCall.of([(nfs4.nfs_opnum4.OP_PUTFH, nfs4.PUTFH4args(root))])
        assert [service.WAITS_FOR(each) is not None for each in (to_root, to_handle)] == [told, told]
        service.close()
