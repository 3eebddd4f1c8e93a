"""Many threads at once, as the worker threads of a server are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rpcrdma.nfs import v3
from rpcrdma.nfs.server.file_access import OpenFiles
from rpcrdma.nfs.server.object_tree import ObjectCache

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
    backend = server.services.nfs.backend
    backend.files = OpenFiles(2)
    cache: ObjectCache[Any] = ObjectCache(3)
    backend.nodes = cache
    next(iter(backend.trees.values()))._cache = cache
    for number in range(12):
        (tree / f"{number}").write_bytes(b"%d" % number * 1000)
    root = server.mount()
    files = [server.lookup(root, f"{number}") for number in range(12)]

    def work(seed: int) -> None:
        for turn in range(150):
            number = (seed * 5 + turn * 7) % 12
            assert server.read(files[number]) == b"%d" % number * 1000

    run(work)
    before = len(list(Path("/proc/self/fd").iterdir()))
    server.services.nfs.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


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


def test_one_of_many_creators_wins(server: Any) -> None:
    root = server.mount()
    results: list[str] = []

    def work(number: int) -> None:
        for turn in range(30):
            how = v3.createhow3(v3.createmode3.EXCLUSIVE, bytes([number, 0, 0, 1, 0, 0, 0, turn]))
            results.append(server.status("create", v3.CREATE3args(server.dirop(root, f"file-{turn}"), how)))

    run(work)
    assert results.count("OK") == 30
    assert results.count("EXIST") == 30 * (THREADS - 1)


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


def test_trees_come_and_go_at_once(server: Any) -> None:
    root = server.mount()

    def work(number: int) -> None:
        for turn in range(8):
            name = f"dir-{number}"
            reply = server.call("mkdir", v3.MKDIR3args(server.dirop(root, name), server.sattr(mode=0o755)))
            directory = reply.value.obj.value.data
            made = [server.create(directory, f"{turn}-{n}") for n in range(5)]
            assert len(server.list_names(directory)) == 7
            for n in range(5):
                assert server.status("remove", v3.REMOVE3args(server.dirop(directory, f"{turn}-{n}"))) == "OK"
            assert server.status("rmdir", v3.RMDIR3args(server.dirop(root, name))) == "OK"
            assert {server.getattr_status(handle) for handle in [directory, *made]} == {"STALE"}

    run(work)
