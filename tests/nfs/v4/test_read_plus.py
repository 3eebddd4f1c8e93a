"""READ_PLUS by version 4.2 (RFC 7862 section 15.10): data without its holes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conversation import Conversation
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.sparse_file import SparseObject
from rpcrdma.nfs.export.tree import Change, Create, CreateHow, Stable
from rpcrdma.nfs.v4.server import data
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.nfs.v4.state_limits import NFS4_READ_PLUS_PARTS_MAX
from served_exports import Served
from support.nfs4_client import ANONYMOUS, FORE, MAX64, READ, WRITE, Client, lookup, putfh, putrootfh, read, read_plus

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")

BLOCK = 1 << 16
"""Octets of a hole that every file system can make."""
SIZE = 4 * BLOCK + 5
A, B = b"a" * BLOCK, b"b" * BLOCK


class Sparse:
    """A file with data, a hole of a block, data, and a hole of a block and five octets up to its end."""

    def __init__(self, served: Served, path: Path) -> None:
        self.served, self.path = served, path
        self.fill(A, None, B, None)
        os.truncate(path, SIZE)
        self.handle = served.client.handle("file")
        self.opened = served.client.opened(self.handle, READ | WRITE)

    def fill(self, *blocks: bytes | None) -> None:
        with self.path.open("wb") as file:
            for number, block in enumerate(blocks):
                if block:
                    file.seek(number * BLOCK)
                    file.write(block)
            file.truncate(len(blocks) * BLOCK)
            # The file system counts blocks once it has chosen them.
            os.fsync(file.fileno())

    def run(self, offset: int, count: int, client: Client | None = None, stateid: Any = None) -> Any:
        operation = read_plus(stateid or self.opened, offset, count)
        return (client or self.served.client).run(putfh(self.handle), operation, minor=2)

    def found(self, offset: int, count: int) -> Any:
        return self.run(offset, count).value(68)


@pytest.fixture
def sparse(serve: Callable[..., Served], tmp_path: Path) -> Sparse:
    return Sparse(serve(), tmp_path / "files/file")


@pytest.mark.req("NF4-43")
def test_data_and_holes_come_in_their_order(sparse: Sparse) -> None:
    everything = [(0, A), (BLOCK, BLOCK), (2 * BLOCK, B), (3 * BLOCK, BLOCK + 5)]
    assert sparse.found(0, SIZE) == (True, everything)
    assert sparse.found(0, 1 << 20) == (True, everything)
    assert sparse.found(5, BLOCK - 5) == (False, [(5, A[5:])])
    assert sparse.found(BLOCK - 3, 30) == (False, [(BLOCK - 3, b"aaa"), (BLOCK, BLOCK)])
    assert sparse.found(BLOCK + 7, 9) == (False, [(BLOCK + 7, BLOCK - 7)])
    assert sparse.found(2 * BLOCK - 100, 200) == (False, [(2 * BLOCK - 100, 100), (2 * BLOCK, B[:100])])
    sparse.fill(b"data")
    os.truncate(sparse.path, 4)
    assert sparse.found(0, 4096) == (True, [(0, b"data")])


@pytest.mark.req("NF4-44")
def test_a_file_ends_where_the_parts_reach_its_end(sparse: Sparse) -> None:
    for offset in (SIZE, SIZE + 1, MAX64):
        assert sparse.found(offset, 10) == (True, [])
    assert sparse.found(SIZE - 1, 1) == (True, [(SIZE - 1, 1)])
    assert sparse.found(0, 0) == (False, [])
    os.truncate(sparse.path, 2 * BLOCK)
    assert sparse.found(0, 2 * BLOCK) == (True, [(0, A), (BLOCK, BLOCK)])
    os.truncate(sparse.path, 0)
    assert sparse.found(0, 10) == (True, [])


@pytest.mark.req("NF4-45")
def test_a_hole_is_told_whole_unless_a_range_of_the_file_is_locked(sparse: Sparse) -> None:
    assert sparse.found(BLOCK, 10) == (False, [(BLOCK, BLOCK)])
    sparse.served.client.locked(sparse.handle, sparse.opened, start=BLOCK, length=10)
    assert sparse.found(BLOCK, 10) == (False, [(BLOCK, 10)])
    assert sparse.found(BLOCK, BLOCK + 1) == (False, [(BLOCK, BLOCK), (2 * BLOCK, b"b")])


def test_a_result_is_no_larger_than_one_part_with_all_data(sparse: Sparse) -> None:
    for offset in (0, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 3 * BLOCK - 2, SIZE - 3):
        for count in (1, 2, 3, 4, 5, 20, 21, 40, BLOCK, 2 * BLOCK):
            at, ends = offset, False
            found = b""
            while not ends and at < offset + count:
                ends, parts = sparse.found(at, offset + count - at)
                octets = sum(16 + (len(part) + 3 & ~3) if isinstance(part, bytes) else 20 for _, part in parts)
                assert octets <= 16 + (offset + count - at + 3 & ~3)
                assert parts or ends
                for begins, part in parts:
                    assert begins == at
                    found += part if isinstance(part, bytes) else bytes(part)
                    at = offset + len(found)
            assert found[:count] == sparse.path.read_bytes()[offset : offset + count]


@pytest.mark.req("NF4-46")
def test_stateids_and_kinds_of_objects_have_the_rules_of_read(sparse: Sparse) -> None:
    os.mkfifo(sparse.path.with_name("fifo"))
    stranger = sparse.served.server.client("stranger").start()
    sparse.path.with_name("other").write_bytes(b"data")
    other = sparse.served.client.handle("other")
    sparse.served.client.opened(other, READ, READ | WRITE)
    for place, status in (
        ((putfh(other),), "LOCKED"),
        ((putrootfh(),), "ISDIR"),
        ((putrootfh(), lookup("link")), "SYMLINK"),
        ((putrootfh(), lookup("fifo")), "WRONG_TYPE"),
    ):
        for operation in (read(ANONYMOUS, 0, 1), read_plus(ANONYMOUS, 0, 1)):
            assert stranger.run(*place, operation, minor=2).status == status
    assert sparse.run(0, 1, stranger, ANONYMOUS).value(68) == (False, [(0, b"a")])
    sparse.served.server.claims.in_grace = True
    assert sparse.run(0, 1, stranger, ANONYMOUS).status == "GRACE"


def test_a_reply_has_the_parts_for_which_there_is_room(sparse: Sparse) -> None:
    small = sparse.served.server.client("small").start(fore=FORE._replace(reply_octets=1000))
    eof, ((offset, data),) = sparse.run(0, BLOCK, small, ANONYMOUS).value(68)
    # The head of the RPC reply, 56 octets up to SEQUENCE, PUTFH, and 8 + 8 + 16 octets besides the data.
    assert (eof, offset, data) == (False, 0, A[: 1000 - 24 - 56 - 8 - 32])
    # Over RDMA the memory that the client offers is a bound, too: 64 octets come before the result.
    sparse.served.server.offered = 64 + 8 + 8 + 16 + 4
    assert sparse.found(0, BLOCK) == (False, [(0, b"aaaa")])
    assert sparse.found(BLOCK, BLOCK) == (False, [(BLOCK, BLOCK)])
    sparse.served.server.offered -= 1
    assert sparse.run(0, BLOCK).status == "REP_TOO_BIG"


def test_a_file_with_many_holes_is_read_in_several_calls(sparse: Sparse, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse.fill(*[b"x", None] * NFS4_READ_PLUS_PARTS_MAX)
    looks = []
    seek = os.lseek
    monkeypatch.setattr(os, "lseek", lambda *each: looks.append(each) or seek(*each))
    tree: Any = sparse.served.server.service.exports.trees[0]
    tree.transfer_octets = 1 << 30
    eof, parts = sparse.found(0, (1 << 32) - 1)
    assert not eof
    assert len(parts) <= NFS4_READ_PLUS_PARTS_MAX
    assert len(looks) <= 2 * NFS4_READ_PLUS_PARTS_MAX


def test_a_file_that_is_cut_meanwhile_ends_there(sparse: Sparse, monkeypatch: pytest.MonkeyPatch) -> None:
    lend = data.lent_buffer
    for size in (100, 0):
        sparse.fill(A)

        def cut(compound: Any, octets: int, size: int = size) -> memoryview:
            os.truncate(sparse.path, size)
            return lend(compound, octets)

        monkeypatch.setattr("rpcrdma.nfs.v4.server.sparse.lent_buffer", cut)
        assert sparse.found(0, BLOCK) == (True, [(0, A[:100])] if size else [])


def test_data_that_is_cut_or_punched_between_two_looks_is_neither_a_hole_nor_a_refusal(
    sparse: Sparse, monkeypatch: pytest.MonkeyPatch
) -> None:
    seek = SparseObject.seek
    for changed, blocks, expected in (
        (False, (), (True, [])),
        (False, (A,), (True, [(0, A)])),
        (True, (None, None), (True, [(0, b"\0"), (1, 2 * BLOCK - 1)])),
    ):
        sparse.fill(A, A)

        def look(
            file: Any, offset: int, *, hole: bool, changed: bool = changed, blocks: tuple[bytes | None, ...] = blocks
        ) -> int | None:
            if hole is changed and offset <= BLOCK:
                sparse.fill(*blocks)
            return seek(file, offset, hole=hole)

        monkeypatch.setattr(SparseObject, "seek", look)
        assert sparse.found(0, 2 * BLOCK - 1) == expected


def test_a_tree_without_holes_has_data_alone() -> None:
    tree = MemoryTree(lambda: 0.0)
    made = tree.root.create(tree.grant, b"file", Create(CreateHow.GUARDED), Change())
    file = made.open(tree.grant, 1, at_once=False)
    assert file is not None
    file.write(bytes(9), 0, Stable.FILE_SYNC, Change(), judge=False)
    client = Conversation(files=PseudoRoot(tree, 0)).client().start()  # type: ignore[arg-type]
    reply = client.run(putrootfh(), lookup("file"), read_plus(ANONYMOUS, 4, 100), minor=2)
    assert reply.value(68) == (True, [(4, bytes(5))])


def test_blocks_are_looked_at_in_a_worker_thread(sparse: Sparse) -> None:
    tree: Any = sparse.served.server.service.exports.trees[0]
    tree.in_memory = False
    before = sparse.served.server.hops
    assert sparse.run(0, 10).status == "OK"
    assert sparse.served.server.hops == before + 1
