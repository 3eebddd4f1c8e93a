"""Directories at the end of paths that the kernel neither tells nor takes."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rpcrdma.nfs.export import long_paths
from rpcrdma.nfs.export.long_paths import path_of_ancestor, reach
from support.cases import each_case
from support.open_files import open_files

LEVELS = 5000


@pytest.fixture(scope="module")
def chain() -> Iterator[tuple[Path, int]]:
    """A directory, and a descriptor 5,000 levels below it, on a fast file system if there is one."""
    memory = Path("/dev/shm")
    top = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    fd = os.open(top, os.O_PATH)
    for _ in range(LEVELS):
        os.mkdir("d", dir_fd=fd)
        lower = os.open("d", os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = lower
    yield top, fd
    os.close(fd)
    # Python's function for removing directories gives up at such a depth.
    subprocess.run(["rm", "-rf", top], check=True)


def test_the_lowest_directory_with_a_short_path_is_found(
    chain: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    top, fd = chain
    opened: list[bytes] = []
    real = os.open

    def count(path: bytes, *args: int, dir_fd: int) -> int:
        opened.append(path)
        return real(path, *args, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", count)
    path, levels = path_of_ancestor(fd)
    assert levels == 0, "one call does not climb so far"
    assert path.startswith(os.fsencode(top) + b"/d/d/d")
    assert 4093 <= len(path) <= 4095
    # Ten doublings, two calls for each thousand levels, ten halvings.
    assert len(opened) <= 2 * (LEVELS // 1024) + 24


def test_a_short_path_is_told_as_it_is(chain: tuple[Path, int]) -> None:
    fd = os.open(chain[0], os.O_PATH)
    assert path_of_ancestor(fd) == (os.fsencode(chain[0]), 0)
    os.close(fd)


@each_case("levels", [0, 1, 2000, 2001, LEVELS])
def test_names_lead_down_however_many(chain: tuple[Path, int], levels: int) -> None:
    top = os.open(chain[0], os.O_PATH)
    fd = reach(top, [b"d"] * levels)
    for _ in range(levels):
        above = os.open("..", os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = above
    assert os.path.samestat(os.fstat(fd), os.fstat(top))
    os.close(top)
    os.close(fd)


@pytest.mark.thorough
@each_case("octets", [4000, 4])
def test_names_lead_through_no_link_and_not_up(octets: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # However many of them go in one system call.
    monkeypatch.setattr(long_paths, "_PATH_OCTETS", octets)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "inner").mkdir()
    top = os.open(tmp_path, os.O_PATH)
    before = open_files()
    for names in ([b"link", b"inner"], [b".."], [b"inner", b"..", b".."], [b"none"], [b"inner"] * 2):
        with pytest.raises(OSError, match="Errno") as caught:
            reach(top, names)
        assert (caught.value.errno == errno.ELOOP) == (b"link" in names)
    assert open_files() <= before
    os.close(top)
