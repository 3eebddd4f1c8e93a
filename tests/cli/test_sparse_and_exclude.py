"""Holes come back as holes, links as links, and names that `--exclude` matches are neither copied nor removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.nfs.client.trees.local_files import filled_parts
from rpcrdma.nfs.client.trees.tree_walk import Exclusion
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Remote

MIB = 1 << 20


def holed(path: Path) -> bytes:
    """A file of 7 MiB and a bit with data in three places, the last of them zeros; its content."""
    with path.open("wb") as file:
        for offset, data in ((0, b"begin"), (3 * MIB + 5000, b"middle" * 1000), (6 * MIB, bytes(MIB // 2))):
            file.seek(offset)
            file.write(data)
        file.truncate(7 * MIB + 123)
    return path.read_bytes()


def used(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_holes_survive_a_round_trip(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    content = holed(tmp_path / "tree" / "large")
    (tmp_path / "tree" / "small").write_bytes(b"x" + bytes(200_000))
    os.truncate(tmp_path / "tree" / "small", 500_000)
    # The copies in both directions take no more than the blocks with data.
    put = remote.done("put", "--sparse", "--json", str(tmp_path / "tree"), remote.url("/tree")).json
    there = remote.local / "tree"
    assert (there / "large").read_bytes() == content
    assert used(there / "large") <= 256 << 10
    assert (there / "small").stat().st_size == 500_000
    assert used(there / "small") <= 64 << 10
    assert put["not_carried"]["holes"] == 0
    remote.done("get", "--sparse", remote.url("/tree"), str(tmp_path / "back"))
    assert (tmp_path / "back" / "large").read_bytes() == content
    assert used(tmp_path / "back" / "large") <= 64 << 10
    assert used(tmp_path / "back" / "small") <= 8 << 10
    # Without it they are filled, which is said of single files, too.
    filled = remote.run("get", remote.url("/tree/large"), str(tmp_path / "filled"))
    assert used(tmp_path / "filled") >= 7 * MIB
    assert "holes (1)" in filled.err
    assert "warning" not in remote.done("put", "--sparse", str(tmp_path / "tree" / "large"), remote.url("/one")).err
    assert (remote.local / "one").read_bytes() == content


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_a_tree_goes_on_under_the_name_that_it_was_given(remote: Remote, tmp_path: Path) -> None:
    """Each command is the one that was broken off, word for word."""
    make_tree(tmp_path / "here")
    files = files_in(tmp_path / "here")
    back = tmp_path / "back"
    for kept in (0, len(files)):
        put = remote.done("put", "--resume", "-T", "--json", str(tmp_path / "here"), remote.url("/there")).json
        got = remote.done("get", "--resume", "-T", "--json", remote.url("/there"), str(back)).json
        assert (put["kept"], got["kept"]) == (kept, kept)
    assert files_in(back) == files_in(remote.local / "there") == files
    # Without it a copy goes into a directory, which is told of where that makes a new one.
    for told in (True, False):
        put_in = remote.done("put", "--resume", str(tmp_path / "here"), remote.url("/there"))
        got_in = remote.done("get", "--resume", remote.url("/there"), str(back))
        assert (f"the copy is /{remote.name}/there/here; with -T the copy is" in put_in.err) is told
        assert (f"the copy is {back}/there; with -T the copy is {back} itself" in got_in.err) is told
    # A file does not get the name of a directory, nor several sources one name.
    name = remote.url("/there")
    for refused, words in (
        (("put", "-T", str(back / "a.txt"), name), "is a directory, which a file cannot replace"),
        (("get", "-T", f"{name}/a.txt", str(back)), "is a directory, which a file cannot replace"),
        (("get", "-T", name, name, str(back)), "cannot be the name of several copies (-T)"),
    ):
        ran = remote.run(*refused)
        assert (ran.status, words in ran.err) == (1, True), ran.err


@each_case(
    ("filled", "hole", "parts"),
    [
        ([], 4096, []),
        ([0], 4096, [(0, 4096)]),
        ([0, 1, 3], 4096, [(0, 8192), (12288, 16384)]),
        ([0, 1, 3], 8192, [(0, 16384)]),
        ([2, 7], 16384, [(8192, 12288), (28672, 32768)]),
        ([8], 4096, [(32768, 32868)]),
    ],
)
def test_parts_that_are_filled(filled: list[int], hole: int, parts: list[tuple[int, int]]) -> None:
    data = bytearray(8 * 4096 + 100)
    for page in filled:
        data[min(len(data) - 1, page * 4096 + 4095)] = 1
    assert list(filled_parts(memoryview(data), hole)) == parts


def make_tree(top: Path) -> None:
    for name in ("a.txt", "b.o", "below/c.o", "below/keep", "below/deep/d", "cache/e", "other/cache/f"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)


def files_in(top: Path) -> set[str]:
    return {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()}


KEPT = {"a.txt", "below/keep", "other/cache/f"}
EXCLUDE = ("--exclude", "*.o", "--exclude", "below/deep", "--exclude=/cache/")


def test_patterns() -> None:
    def covered(pattern: str, path: str) -> bool:
        return Exclusion([pattern]).covers(path.rpartition("/")[2], lambda: path)

    assert covered("*.o", "x/y.o")
    assert not covered("*.o", "x.o/y")
    assert covered("x/*.o", "x/y.o")
    assert not covered("x/*.o", "z/x/y.o")
    assert covered("./x", "x")
    assert covered("./x/y/", "x/y")
    assert not covered("./x", "z/x")
    assert covered("/x", "x")
    assert not covered("/x", "z/x")
    assert covered("x/", "z/x")
    assert not covered("X", "x")
    assert not Exclusion([]).covers("x", lambda: "x")


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_what_is_excluded_is_not_copied(remote: Remote, tmp_path: Path) -> None:
    make_tree(tmp_path / "here")
    report = remote.done("put", "--json", *EXCLUDE, str(tmp_path / "here"), remote.url("/there")).json
    assert files_in(remote.local / "there") == KEPT
    assert report["excluded"] == 4
    make_tree(remote.local / "full")
    remote.done("get", "--exclude", "*.o", "--exclude", "below/d*", remote.url("/full"), str(tmp_path / "back"))
    assert files_in(tmp_path / "back") == KEPT | {"cache/e"}


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_what_is_excluded_is_not_removed(remote: Remote) -> None:
    make_tree(remote.local / "tree")
    ran = remote.done("rm", "-r", "--exclude", "*.o", "--exclude", "below/deep", remote.url("/tree"))
    assert files_in(remote.local / "tree") == {"b.o", "below/c.o", "below/deep/d"}
    assert "stays, since --exclude keeps 3 entries in it\n" in ran.err
    assert "--exclude keeps 1 entry in it\n" in remote.done("rm", "-r", "--exclude", "below", remote.url("/tree")).err
    remote.done("rm", "-r", remote.url("/tree"))
    assert not (remote.local / "tree").exists()
