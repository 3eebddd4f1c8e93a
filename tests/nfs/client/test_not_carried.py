"""Attributes that NFSv3 cannot carry are counted, and nothing else is wrong."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.client import NotCarried
from rpcrdma.nfs.client.attributes import TIME_NS_MAX, stat_from
from rpcrdma.nfs.client.trees.not_carried import lost_from_local, lost_from_server
from support.cases import each_case


async def copied(fs: Any, method: str, source: Any, target: Any) -> Any:
    async with fs:
        report = await getattr(fs, method)(source, target)
        report.check()
        return {kind.value: count for kind, count in report.not_carried.items()}


def lost_with(directory: Path, name: str, **attributes: int) -> Any:
    path = directory / name
    if not path.exists():
        path.write_bytes(b"1")
    found = path.stat()
    values = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")} | attributes
    return lost_from_local(type("Found", (), values)(), str(path))


@pytest.fixture
def with_attributes(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Extended attributes by name of the file; the file system's own support is not under test."""
    given: dict[str, list[str]] = {}
    monkeypatch.setattr(os, "listxattr", lambda path, **_: given.get(Path(path).name, []))
    return given


def test_uploads_count_what_they_lose(
    server: Any, mounted: Any, tmp_path: Path, with_attributes: dict[str, list[str]]
) -> None:
    (tmp_path / "t/sub").mkdir(parents=True)
    for name in ("plain", "linked", "attributed", "labelled", "sub/late"):
        (tmp_path / "t" / name).write_bytes(bytes(10_000))
    os.link(tmp_path / "t/linked", tmp_path / "t/sub/again")
    os.link(tmp_path / "t/plain", tmp_path / "outside")
    with (tmp_path / "t/sparse").open("wb") as file:
        file.truncate(1 << 20)
    with_attributes |= {"attributed": ["user.a"], "labelled": ["security.selinux"], "sub": ["system.posix_acl_access"]}
    os.utime(tmp_path / "t/sub/late", ns=(0, -1))
    os.utime(tmp_path / "t/plain", ns=(0, TIME_NS_MAX))
    fs = mounted()
    lost = asyncio.run(copied(fs, "upload_tree", tmp_path / "t", "/t"))
    assert lost == {"holes": 1, "hard_links": 1, "times": 1, "extended_attributes": 2}


def test_a_plain_tree_loses_nothing(server: Any, mounted: Any, tmp_path: Path) -> None:
    (tmp_path / "t/sub").mkdir(parents=True)
    for size in (0, 1, 5000, 1 << 20):
        (tmp_path / "t/sub" / str(size)).write_bytes(os.urandom(size))
    (tmp_path / "t/link").symlink_to("sub")
    assert asyncio.run(copied(mounted(), "upload_tree", tmp_path / "t", "/t")) == {}
    assert asyncio.run(copied(mounted(), "download_tree", "/t", tmp_path / "u")) == {}


def test_downloads_count_what_they_lose(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.put("/t/plain", b"1")
    server.put("/t/linked", b"2").links = 2
    sparse = server.put("/t/sparse", bytes(50_000))
    fattr = server.fattr

    def with_hole(thing: Any) -> Any:
        attributes = fattr(thing)
        if thing is sparse:
            attributes.used = 8192
        return attributes

    server.fattr = with_hole
    assert asyncio.run(copied(mounted(), "download_tree", "/t", tmp_path / "t")) == {"holes": 1, "hard_links": 1}
    sparse.links = 3
    assert lost_from_server(stat_from(with_hole(sparse))) == (NotCarried.HOLES, NotCarried.HARD_LINKS)


def test_downloads_count_owners_and_special_bits(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.put("/t/plain", b"1", 0o777)
    server.put("/t/program", b"1", 0o4755)
    server.folder("/t/shared").mode = 0o2775
    server.put("/t/of another", b"2").uid += 1
    server.put("/t/of other group", b"3").gid += 1
    server.link("/t/link", "plain")
    link = server.at("/t").children["link"]
    link.mode, link.links, link.gid = 0o7777, 2, link.gid + 1
    lost = asyncio.run(copied(mounted(), "download_tree", "/t", tmp_path / "t"))
    assert lost == {"owners": 3, "special_bits": 2, "hard_links": 1}
    assert lost_from_server(stat_from(server.fattr(server.at("/t/program")))) == (NotCarried.SPECIAL_BITS,)


@each_case(
    ("attributes", "lost"),
    [
        ({"st_uid": os.geteuid() + 1}, (NotCarried.OWNERS,)),
        ({"st_gid": os.getegid() + 1}, (NotCarried.OWNERS,)),
        ({"st_mtime_ns": -1}, (NotCarried.TIMES,)),
        ({"st_atime_ns": TIME_NS_MAX + 1}, (NotCarried.TIMES,)),
        ({"st_mtime_ns": TIME_NS_MAX, "st_atime_ns": 0}, ()),
        ({"st_size": 4096, "st_blocks": 0}, (NotCarried.HOLES,)),
        # A block may be packed with others, or into the inode.
        ({"st_size": 4095, "st_blocks": 0}, ()),
    ],
)
def test_where_losses_begin(
    tmp_path: Path, with_attributes: dict[str, list[str]], attributes: dict[str, int], lost: Any
) -> None:
    assert lost_with(tmp_path, "file", **attributes) == lost


def test_a_file_without_blocks_that_is_full_of_data_loses_no_hole(
    tmp_path: Path, with_attributes: dict[str, list[str]]
) -> None:
    """As all files of /sys are, and compressed ones."""
    (tmp_path / "full").write_bytes(b"1" * 8192)
    assert lost_with(tmp_path, "full", st_blocks=0) == ()
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(8192)
    assert lost_with(tmp_path, "hole", st_blocks=0) == (NotCarried.HOLES,)
