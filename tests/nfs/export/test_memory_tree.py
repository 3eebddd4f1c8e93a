"""The tree in memory: its crashes and its bounds."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from rpcrdma.nfs.export.memory_tree import MemoryNode, MemoryTree
from rpcrdma.nfs.export.tree import Change, Create, CreateHow, Refused, Stable


def created(tree: MemoryTree, name: bytes) -> Any:
    return tree.root.create(tree.grant, name, Create(CreateHow.GUARDED), Change())


def write(node: MemoryNode, offset: int, data: bytes, stable: Stable = Stable.FILE_SYNC) -> None:
    node.opened().write(data, offset, stable, Change(), judge=False)


def written(tree: MemoryTree, data: bytes, stable: Stable = Stable.FILE_SYNC) -> Any:
    node = created(tree, b"file")
    write(node, 0, data, stable)
    return node


def test_the_same_calls_give_the_same_attributes_and_handles() -> None:
    def one() -> tuple[object, ...]:
        tree = MemoryTree(lambda: 5.0)
        file = written(tree, b"data")
        status = file.attributes()
        return file.handle, status.number, status.mtime_ns, status.change, tree.verifier

    assert one() == one()


def test_a_crash_keeps_stable_writes_those_unstable_ones_that_it_is_told_to_and_changes_the_verifier() -> None:
    for fates, content in (((False, False), b"stable"), ((False, True), b"stablemore")):
        tree = MemoryTree(lambda: 0.0)
        file = written(tree, b"stable")
        write(file, 0, b"UN", Stable.UNSTABLE)
        write(file, 6, b"more", Stable.UNSTABLE)
        verifier, kept = tree.verifier, iter(fates)
        tree.crash(lambda kept=kept: next(kept))  # type: ignore[misc]
        assert (bytes(file.data), tree.verifier != verifier) == (content, True)


def test_a_stable_write_and_a_commit_make_earlier_writes_stable() -> None:
    for finish in ("write", "commit", "resize"):
        tree = MemoryTree(lambda: 0.0)
        file = written(tree, b"abcd", Stable.UNSTABLE)
        match finish:
            case "write":
                write(file, 4, b"")
            case "commit":
                file.opened().commit(Change())
            case "resize":
                tree.resize(file, 4)
        tree.crash(lambda: False)
        assert bytes(file.data) == b"abcd", finish


def test_no_name_moves_from_one_tree_to_another() -> None:
    tree, other = MemoryTree(lambda: 0.0), MemoryTree(lambda: 0.0)
    file = written(tree, b"data")
    for call in (
        lambda: tree.root.rename(tree.grant, b"file", other.root, b"file", Change(), Change()),
        lambda: file.link(tree.grant, other.root, b"file", Change()),
    ):
        with pytest.raises(Refused) as caught:
            call()
        assert caught.value.errno == errno.EXDEV


def test_data_is_bounded_whatever_the_offset() -> None:
    tree = MemoryTree(lambda: 0.0, octets_max=100)
    file = written(tree, bytes(60))
    for offset, octets, wanted in ((1 << 60, 1, errno.EFBIG), (90, 11, errno.EFBIG)):
        with pytest.raises(Refused) as caught:
            write(file, offset, bytes(octets))
        assert caught.value.errno == wanted, offset
    other = created(tree, b"other")
    with pytest.raises(Refused) as caught:
        write(other, 0, bytes(41))
    assert caught.value.errno == errno.ENOSPC
    tree.root.remove(tree.grant, b"file", Change(), is_directory=False)
    write(other, 0, bytes(100))
