"""The permissions and times that copies get, and the files that keep their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.errors import TransportClosed
from rpcrdma.nfs.v3 import nfstime3
from support.cases import each_case

BLOCK = 1 << 16
OWN_TIME = 55

Umask = Callable[[int], int]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def copied(fs: Any, method: str, source: Any, target: Any, **options: Any) -> None:
    async with fs:
        report = await getattr(fs, method)(source, target, **options)
        if method.endswith("tree"):
            report.check()


def copy(mounted: Any, *arguments: Any, **options: Any) -> None:
    asyncio.run(copied(mounted(), *arguments, **options))


@pytest.fixture
def tree(server: Any) -> Any:
    server.root.mode = 0o777
    server.root.mtime = nfstime3(9, 0)
    server.folder("/shared").mode = 0o777
    server.folder("/shared").mtime = nfstime3(7, 0)
    server.put("/shared/small", b"1", 0o666)
    server.put("/shared/large", bytes(3 * BLOCK), 0o777)
    server.folder("/closed").mode = 0o555
    server.put("/closed/private", b"2", 0o600)
    return server


@pytest.mark.parametrize(
    ("mask", "exact", "modes"),
    [
        (0o022, False, (0o755, 0o644, 0o755, 0o555, 0o600)),
        (0o077, False, (0o700, 0o600, 0o700, 0o500, 0o600)),
        (0o077, True, (0o777, 0o666, 0o777, 0o555, 0o600)),
    ],
)
def test_new_copies_respect_the_umask_unless_asked_otherwise(
    tree: Any, mounted: Any, tmp_path: Path, umask: Umask, mask: int, exact: bool, modes: tuple[int, ...]
) -> None:
    umask(mask)
    copy(mounted, "download_tree", "/", tmp_path / "new/er", exact_modes=exact)
    top = tmp_path / "new/er"
    names = ("shared", "shared/small", "shared/large", "closed", "closed/private")
    assert tuple(mode(top / name) for name in names) == modes
    assert mode(top) == modes[0]
    assert (top.stat().st_mtime, (top / "shared").stat().st_mtime) == (9, 7)
    single = tmp_path / "single"
    copy(mounted, "download", "/shared/small", single, exact_modes=exact)
    assert mode(single) == modes[1]


def make_own(top: Path) -> None:
    (top / "shared").mkdir(parents=True)
    for name in ("small", "large"):
        (top / "shared" / name).write_bytes(b"own")
        (top / "shared" / name).chmod(0o600)
    for directory in (top / "shared", top):
        directory.chmod(0o700)
        os.utime(directory, (OWN_TIME, OWN_TIME))


def test_what_exists_here_keeps_its_mode(tree: Any, mounted: Any, tmp_path: Path, umask: Umask) -> None:
    umask(0)
    make_own(top := tmp_path / "own")
    copy(mounted, "download_tree", "/", top)
    assert (top / "shared/small").read_bytes() == b"1"
    assert (mode(top), mode(top / "shared"), mode(top / "closed")) == (0o700, 0o700, 0o555)
    assert (mode(top / "shared/small"), mode(top / "shared/large")) == (0o600, 0o600)
    assert 9 != top.stat().st_mtime != 7
    assert (top / "shared").stat().st_mtime != 7


def test_a_directory_that_exists_keeps_its_times(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.folder("/").mtime = nfstime3(9, 0)
    make_own(top := tmp_path / "own")
    copy(mounted, "download_tree", "/", top)
    assert top.stat().st_mtime == OWN_TIME


def test_what_exists_here_gets_the_servers_mode_if_asked_for(
    tree: Any, mounted: Any, tmp_path: Path, umask: Umask
) -> None:
    umask(0o077)
    make_own(top := tmp_path / "own")
    copy(mounted, "download_tree", "/", top, exact_modes=True)
    names = ("shared", "shared/small", "shared/large")
    assert (mode(top), *(mode(top / name) for name in names)) == (0o777, 0o777, 0o666, 0o777)
    assert (top.stat().st_mtime, (top / "shared").stat().st_mtime) == (9, 7)


@each_case("exact", [False, True])
def test_a_directory_that_exists_at_the_server_keeps_its_mode_and_times(
    new_server: Any, tmp_path: Path, exact: bool
) -> None:
    server, mounted = new_server()
    make_own(top := tmp_path / "own")
    (top / "new").mkdir()
    (top / "new").chmod(0o750)
    os.utime(top, (OWN_TIME, OWN_TIME))
    server.folder("/there/shared").mode = 0o711
    server.at("/there").mode = 0o711
    copy(mounted, "upload_tree", top, "/there", exact_modes=exact)
    there = server.at("/there")
    expected = [(0o700, nfstime3(OWN_TIME, 0))] * 2 if exact else [(0o711, nfstime3(2, 0))] * 2
    assert [(thing.mode, thing.mtime) for thing in (there, there.children["shared"])] == expected
    assert there.children["new"].mode == 0o750
    copy(mounted, "upload_tree", top, "/fresh")
    assert (server.at("/fresh").mode, server.at("/fresh").mtime) == (0o700, nfstime3(OWN_TIME, 0))


def test_directories_of_an_interrupted_upload_get_their_modes_from_the_next(
    server: Any, mounted: Any, tmp_path: Path
) -> None:
    make_own(top := tmp_path / "own")
    modes = {"": 0o755, "shared": 0o750}
    for name, each in modes.items():
        (top / name).chmod(each)
        os.utime(top / name, (OWN_TIME, OWN_TIME))

    def break_off(name: str, _args: Any) -> None:
        if name == "WRITE":
            raise TransportClosed("broken off")

    server.before = break_off
    with pytest.raises(TransportClosed):
        copy(mounted, "upload_tree", top, "/fresh")
    there = [server.at(f"/fresh/{name}") for name in modes]
    assert {thing.mode & 0o777 for thing in there} == {0o700}
    # As below a directory with set-group-ID.
    there[1].mode |= 0o2000
    server.before = lambda name, args: None
    copy(mounted, "upload_tree", top, "/fresh")
    assert [(thing.mode, thing.mtime.seconds) for thing in there] == [(0o755, OWN_TIME), (0o2750, OWN_TIME)]


@each_case(("exact", "expected"), [(False, 0o2750), (True, 0o750)])
def test_a_new_directory_keeps_the_set_group_id_bit_that_the_server_adds_unless_modes_are_exact(
    new_server: Any, tmp_path: Path, exact: bool, expected: int
) -> None:
    server, mounted = new_server()
    (tmp_path / "in").mkdir(0o750)

    def added(name: str, args: Any) -> None:
        if name == "MKDIR":
            args.attributes.mode.value |= 0o2000

    server.before = added
    copy(mounted, "upload_tree", tmp_path, "/shared", exact_modes=exact)
    assert server.at("/shared/in").mode == expected


def test_nobody_else_may_look_into_what_is_not_finished(tree: Any, mounted: Any, tmp_path: Path, umask: Umask) -> None:
    umask(0o027)
    seen: dict[str, set[int]] = {"here": set()}

    def look(name: str, _args: Any) -> None:
        if name == "READ":
            for path in tmp_path.rglob("*"):
                # Files take their names meanwhile, in other threads.
                with contextlib.suppress(FileNotFoundError):
                    seen["here"].add(mode(path))

    tree.before = look
    copy(mounted, "download_tree", "/", tmp_path / "new")
    assert seen["here"]
    assert all(bits & 0o027 == 0 for bits in seen["here"])
