"""The demonstration's tree and how copies of it are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpcrdma.cli.demo.source_tree import TreeSize, candidate_roots, digests, measure, mismatches, snapshot


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "b" / "c").mkdir(parents=True)
    for number in range(10):
        (root / "b" / f"{number}").write_bytes(bytes([number]) * 100)
    (root / "a").write_bytes(b"first")
    (root / "link").symlink_to("a")
    return root


def test_a_snapshot_is_the_whole_tree_without_empty_directories(tree: Path, tmp_path: Path) -> None:
    size = snapshot([("tree", tree)], tmp_path / "copy", octets=1 << 30, files=1000)
    assert size == TreeSize(files=11, octets=1005)
    found = digests(tmp_path / "copy" / "tree")
    assert mismatches(digests(tree), found) == ["b/c"]


def test_a_snapshot_ends_when_both_limits_are_reached(tree: Path, tmp_path: Path) -> None:
    assert snapshot([("t", tree)], tmp_path / "by-octets", octets=250, files=0) == TreeSize(files=4, octets=305)
    assert snapshot([("t", tree)], tmp_path / "by-files", octets=0, files=2) == TreeSize(files=2, octets=105)


def test_a_snapshot_goes_on_in_the_next_root(tree: Path, tmp_path: Path) -> None:
    size = snapshot([("one", tree), ("two", tree)], tmp_path / "copy", octets=1, files=12)
    assert size.files == 12
    assert (tmp_path / "copy" / "two" / "a").exists()


def test_the_size_of_a_tree_is_that_of_its_files(tree: Path) -> None:
    assert measure(tree) == TreeSize(files=11, octets=1005)


def test_this_machine_has_a_python_library() -> None:
    names = dict(candidate_roots())
    assert (names["stdlib"] / "asyncio" / "__init__.py").is_file()


def test_every_kind_of_difference_is_found(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    snapshot([(".", tree)], copy, octets=1 << 30, files=1000)
    (copy / "b" / "c").mkdir()
    assert mismatches(digests(tree), digests(copy)) == []
    (copy / "a").write_bytes(b"fiRst")
    (copy / "b" / "1").unlink()
    (copy / "b" / "more").touch()
    (copy / "link").unlink()
    (copy / "link").symlink_to("b")
    assert mismatches(digests(tree), digests(copy)) == ["a", "b/1", "b/more", "link"]
