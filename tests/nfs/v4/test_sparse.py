"""Holes and space of files by version 4.2: SEEK, ALLOCATE, DEALLOCATE, IO_ADVISE."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conversation import Conversation
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.tree import Change, Create, CreateHow, Wanted
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.rpc.auth import AuthSys
from served_exports import SIZE, Served, u64
from support.nfs4_client import (
    ANONYMOUS,
    MAX64,
    READ,
    WRITE,
    Client,
    allocate,
    deallocate,
    getattr_,
    io_advise,
    lookup,
    putfh,
    putrootfh,
    seek,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")

DATA, HOLE = 0, 1
BLOCK = 1 << 16
"""Octets of a hole that every file system can make."""
SEQUENTIAL, RANDOM, WILLNEED, DONTNEED = 1, 3, 4, 6


class Sparse:
    """A file of four blocks, with data in the first and the third one, and a client that has it open."""

    def __init__(self, served: Served, path: Path) -> None:
        self.served, self.path = served, path
        with path.open("wb") as file:
            file.write(b"a" * BLOCK)
            file.seek(2 * BLOCK)
            file.write(b"b" * BLOCK)
            file.truncate(4 * BLOCK)
            # The file system counts blocks once it has chosen them.
            os.fsync(file.fileno())
        self.handle = served.client.handle("file")
        self.opened = served.client.opened(self.handle, READ | WRITE)

    def run(self, *operations: bytes, client: Client | None = None) -> Any:
        return (client or self.served.client).run(putfh(self.handle), *operations, minor=2)

    def found(self, offset: int, what: int) -> Any:
        return self.run(seek(self.opened, offset, what)).value(69)


@pytest.fixture
def sparse(serve: Callable[..., Served], tmp_path: Path) -> Sparse:
    return Sparse(serve(), tmp_path / "files/file")


@pytest.mark.req("NF4-27")
def test_data_and_holes_are_found(sparse: Sparse) -> None:
    assert sparse.found(0, DATA) == (False, 0)
    assert sparse.found(5, HOLE) == (False, BLOCK)
    assert sparse.found(BLOCK, HOLE) == (False, BLOCK)
    assert sparse.found(BLOCK, DATA) == (False, 2 * BLOCK)
    assert sparse.found(2 * BLOCK, HOLE) == (False, 3 * BLOCK)
    assert sparse.found(3 * BLOCK, DATA) == (True, 4 * BLOCK)
    sparse.path.write_bytes(b"no hole")
    assert sparse.found(0, HOLE) == (True, 7)


@pytest.mark.req("NF4-26")
def test_nothing_is_found_beyond_the_end(sparse: Sparse) -> None:
    for what in (DATA, HOLE):
        for offset in (4 * BLOCK, 4 * BLOCK + 1, MAX64):
            assert sparse.run(seek(sparse.opened, offset, what)).status == "NXIO"
    assert sparse.run(seek(sparse.opened, 0, 2)).status == "UNION_NOTSUPP"


def test_a_tree_without_holes_has_one_at_the_end_and_no_space_to_change() -> None:
    tree = MemoryTree(lambda: 0.0)
    tree.root.create(tree.grant, b"file", Create(CreateHow.GUARDED, Wanted(size=9)), Change())
    client = Conversation(files=PseudoRoot(tree, 0)).client().start()  # type: ignore[arg-type]
    file = putrootfh(), lookup("file")
    assert client.run(*file, seek(ANONYMOUS, 4, DATA), minor=2).value(69) == (False, 4)
    assert client.run(*file, seek(ANONYMOUS, 4, HOLE), minor=2).value(69) == (True, 9)
    assert client.run(*file, allocate(ANONYMOUS, 0, 20), minor=2).status == "NOTSUPP"
    assert client.run(*file, deallocate(ANONYMOUS, 0, 5), minor=2).status == "NOTSUPP"
    assert client.run(*file, io_advise(ANONYMOUS, 0, 0, WILLNEED), minor=2).value(63) == ()


@pytest.mark.req("NF4-50")
def test_space_is_allocated_up_to_a_new_end(sparse: Sparse) -> None:
    before = sparse.path.stat()
    assert sparse.run(allocate(sparse.opened, BLOCK, BLOCK)).status == "OK"
    after = sparse.path.stat()
    assert (after.st_size, after.st_blocks - before.st_blocks) == (4 * BLOCK, BLOCK // 512)
    reply = sparse.run(allocate(sparse.opened, 4 * BLOCK, 100), getattr_(SIZE))
    assert reply.value(9)[1] == u64(4 * BLOCK + 100)
    assert sparse.path.read_bytes() == b"a" * BLOCK + bytes(BLOCK) + b"b" * BLOCK + bytes(BLOCK + 100)


@pytest.mark.req("NF4-29")
def test_a_deallocated_range_reads_as_zeros_and_is_a_hole(sparse: Sparse) -> None:
    before = sparse.path.stat().st_blocks
    change = sparse.run(getattr_(1 << 3)).value(9)
    assert sparse.run(deallocate(sparse.opened, 0, BLOCK)).status == "OK"
    assert before - sparse.path.stat().st_blocks == BLOCK // 512
    assert sparse.run(getattr_(1 << 3)).value(9) != change
    assert sparse.found(0, DATA) == (False, 2 * BLOCK)
    assert sparse.run(deallocate(sparse.opened, 2 * BLOCK, MAX64 - 2 * BLOCK)).status == "OK"
    assert sparse.path.read_bytes() == bytes(4 * BLOCK)
    change = sparse.run(getattr_(1 << 3)).value(9)
    assert sparse.run(deallocate(sparse.opened, MAX64, 1)).status == "OK"
    assert sparse.run(getattr_(1 << 3)).value(9) == change, "there is nothing beyond the end"


def test_ranges_that_no_file_has_are_refused(sparse: Sparse) -> None:
    for operation, status in (
        (allocate(sparse.opened, 0, 0), "INVAL"),
        (deallocate(sparse.opened, 0, 0), "INVAL"),
        (deallocate(sparse.opened, MAX64, 2), "INVAL"),
        (allocate(sparse.opened, 1 << 62, 1 << 62), "FBIG"),
        (allocate(sparse.opened, MAX64, MAX64), "FBIG"),
    ):
        assert sparse.run(operation).status == status


@pytest.mark.req("NF4-50")
def test_more_space_than_there_is_is_refused_before_any_is_taken(
    sparse: Sparse, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sparse.path.stat()
    monkeypatch.setattr(os, "fstatvfs", lambda _fd: SimpleNamespace(f_bavail=1, f_frsize=BLOCK))
    # The file may have two blocks of the range already.
    assert sparse.run(allocate(sparse.opened, 0, 3 * BLOCK + 1)).status == "NOSPC"
    assert sparse.path.stat().st_blocks == before.st_blocks
    assert sparse.run(allocate(sparse.opened, 0, 3 * BLOCK)).status == "OK"


@pytest.mark.req("NF4-28")
@pytest.mark.req("NF4-48")
def test_stateids_have_the_rules_of_read_and_write(sparse: Sparse) -> None:
    reading = sparse.served.client.opened(sparse.handle, READ, owner=b"reader")
    for change in (allocate, deallocate):
        assert sparse.run(change(reading, 0, 1)).status == "OPENMODE"
        assert sparse.run(change(ANONYMOUS, 3 * BLOCK, 1)).status == "OK"
    assert sparse.run(seek(reading, 0, DATA)).status == "OK"
    assert sparse.run(io_advise(reading, 0, 0, WILLNEED)).status == "OK"
    # An open that denies both.
    sparse.path.with_name("other").write_bytes(b"data")
    other = sparse.served.client.handle("other")
    sparse.served.client.opened(other, READ, READ | WRITE)
    stranger = sparse.served.server.client("stranger").start()
    for operation in (
        seek(ANONYMOUS, 0, DATA),
        io_advise(ANONYMOUS, 0, 0, WILLNEED),
        allocate(ANONYMOUS, 0, 1),
        deallocate(ANONYMOUS, 0, 1),
    ):
        assert stranger.run(putfh(other), operation, minor=2).status == "LOCKED"
    sparse.served.server.claims.in_grace = True
    assert stranger.run(putfh(other), deallocate(ANONYMOUS, 0, 1), minor=2).status == "GRACE"


@pytest.mark.req("NF4-49")
def test_space_of_no_file_is_refused(sparse: Sparse) -> None:
    for operation, statuses in (
        (seek(ANONYMOUS, 0, DATA), ("ISDIR", "SYMLINK")),
        (io_advise(ANONYMOUS, 0, 0, WILLNEED), ("ISDIR", "SYMLINK")),
        (allocate(ANONYMOUS, 0, 1), ("WRONG_TYPE", "WRONG_TYPE")),
        (deallocate(ANONYMOUS, 0, 1), ("WRONG_TYPE", "WRONG_TYPE")),
    ):
        run = sparse.served.run
        assert run(putrootfh(), operation, minor=2).status == statuses[0]
        assert run(putrootfh(), lookup("link"), operation, minor=2).status == statuses[1]


def test_the_file_system_judges_the_caller(sparse: Sparse, tmp_path: Path) -> None:
    sparse.path.chmod(0o644)
    tmp_path.chmod(0o755)
    stranger = sparse.served.server.client("stranger", credential=AuthSys(uid=1000, gid=1000)).start()
    assert sparse.run(seek(ANONYMOUS, 0, HOLE), client=stranger).value(69) == (False, BLOCK)
    for change in (allocate, deallocate):
        assert sparse.run(change(ANONYMOUS, 0, BLOCK), client=stranger).status == "ACCESS"
    assert sparse.path.read_bytes().startswith(b"a" * BLOCK)


def test_a_read_only_export_keeps_its_files(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve({"name": "/", "read_only": True})
    file = putfh(served.client.handle("file"))
    for change in (allocate, deallocate):
        assert served.run(file, change(ANONYMOUS, 0, 1), minor=2).status == "ROFS"
    assert served.run(file, seek(ANONYMOUS, 0, DATA), minor=2).status == "OK"
    assert (tmp_path / "files/file").read_bytes() == b"some data"


def test_space_is_changed_in_a_worker_thread(sparse: Sparse) -> None:
    server = sparse.served.server
    for operation in (allocate(sparse.opened, 0, 1), deallocate(sparse.opened, 0, 1)):
        before = server.hops
        assert sparse.run(operation).status == "OK"
        assert server.hops == before + 1


@pytest.mark.req("NF4-53")
def test_only_hints_that_concern_no_other_client_are_followed(sparse: Sparse, monkeypatch: pytest.MonkeyPatch) -> None:
    advice: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _fd, *more: advice.append(more))
    node: Any = sparse.served.server.service.exports.trees[0]
    node.in_memory = False
    assert sparse.run(io_advise(sparse.opened, BLOCK, 100, WILLNEED, DONTNEED)).value(63) == (1 << WILLNEED,)
    assert sparse.run(io_advise(sparse.opened, BLOCK, 0, WILLNEED)).value(63) == (1 << WILLNEED,)
    assert sparse.run(io_advise(sparse.opened, BLOCK, 100, DONTNEED)).value(63) == ()
    assert sparse.run(io_advise(sparse.opened, BLOCK, 100, SEQUENTIAL, RANDOM)).value(63) == ()
    assert sparse.run(io_advise(sparse.opened, MAX64, MAX64, WILLNEED)).value(63) == (1 << WILLNEED,)
    assert advice == [(BLOCK, 100, os.POSIX_FADV_WILLNEED), (BLOCK, 3 * BLOCK, os.POSIX_FADV_WILLNEED)]


def test_a_failing_disk_is_answered_as_such(sparse: Sparse, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "lseek", fail)
    assert sparse.run(seek(sparse.opened, 0, DATA)).status == "IO"
