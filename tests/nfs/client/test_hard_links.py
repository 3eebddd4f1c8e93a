"""Names of one file stay names of one file when a tree is copied, despite failures, refusals and existing names."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from asyncio import run
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.client.trees import hard_links, local_files
from rpcrdma.nfs.client.trees.hard_links import HardLinks, SharedFile
from rpcrdma.nfs.client.trees.not_carried import NotCarried
from rpcrdma.nfs.v3 import nfsstat3, nfstime3
from support.cases import each_case
from support.waiting import once

BLOCK = 1 << 16
LARGE = bytes(range(256)) * (5 * BLOCK // 256) + b"end"
NAMES = ("a", "sub/b", "sub/deeper/c")


def made_here(top: Path, content: bytes = b"one") -> Path:
    """A local tree in which `NAMES` are one file."""
    for name in NAMES:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
    (top / NAMES[0]).write_bytes(content)
    for name in NAMES[1:]:
        os.link(top / NAMES[0], top / name)
    return top


def made_there(server: Any, content: bytes = b"one") -> Any:
    """The same at the server, below /t."""
    thing = server.put("/t/a", content)
    thing.mtime = nfstime3(1234, 5)
    thing.links = len(NAMES)
    for name in NAMES[1:]:
        above, _, own = f"/t/{name}".rpartition("/")
        server.folder(above).children[own] = thing
    return thing


def files_at(top: Path, names: tuple[str, ...] = NAMES) -> int:
    """How many files these names are; none is a symbolic link."""
    found = [os.lstat(top / name) for name in names]
    assert all(stat.S_ISREG(one.st_mode) for one in found)
    return len({one.st_ino for one in found})


def download(mounted: Any, local: Path, **how: Any) -> Any:
    return run(once(mounted(), "download_tree", "/t", local, **how))


def upload(mounted: Any, local: Path, **how: Any) -> Any:
    return run(once(mounted(), "upload_tree", local, "/t", **how))


def at_server(server: Any, names: tuple[str, ...] = NAMES) -> list[Any]:
    return [server.at(f"/t/{name}") for name in names]


def whole(report: Any, *, links: int = 2, lost: int = 0) -> None:
    report.check()
    assert (report.files, report.hard_links) == (3, links)
    assert report.not_carried == ({NotCarried.HARD_LINKS: lost} if lost else {})


@each_case("content", [b"", b"one", LARGE])
@each_case("how", [{}, {"sparse": True}, {"resume": True}])
def test_a_round_trip_keeps_them(new_server: Any, tmp_path: Path, content: bytes, how: Any) -> None:
    server, mounted = new_server()
    seen: list[tuple[int, int]] = []
    report = upload(mounted, made_here(tmp_path / "here", content), progress=lambda *done: seen.append(done), **how)
    whole(report)
    assert report.octets == len(content)
    assert seen[-1] == (3, len(content))
    assert len(set(at_server(server))) == 1
    assert bytes(server.at("/t/a").data) == content
    assert server.calls["LINK"] == 2
    server.at("/t/a").links = 3
    back = download(mounted, tmp_path / "back", progress=lambda *done: seen.append(done), **how)
    whole(back)
    assert back.octets == len(content)
    assert seen[-1] == (3, len(content))
    assert files_at(tmp_path / "back") == 1
    assert (tmp_path / "back/sub/b").read_bytes() == content
    assert not list(tmp_path.rglob(".rpcrdma-*"))


def test_further_names_wait_for_a_copy_that_is_whole(server: Any, mounted: Any, tmp_path: Path) -> None:
    made_there(server, LARGE)
    inner = server.read
    found: list[int] = []

    def read(args: Any) -> Any:
        found.append(sum((tmp_path / "here" / name).exists() for name in NAMES))
        return inner(args)

    server.read = read
    whole(download(mounted, tmp_path / "here"))
    assert set(found) == {0}
    assert len(found) == 6
    assert files_at(tmp_path / "here") == 1


@each_case("failures", [1, 2, 3])
def test_where_copying_fails_the_next_name_is_copied(new_server: Any, tmp_path: Path, failures: int) -> None:
    server, mounted = new_server()
    made_there(server)
    server.answers["READ"] = [nfsstat3.NFS3ERR_IO] * failures
    report = download(mounted, tmp_path / "here")
    assert (report.failures_total, report.files, report.hard_links) == (failures, 3 - failures, max(0, 2 - failures))
    there = [name for name in NAMES if (tmp_path / "here" / name).exists()]
    assert len(there) == 3 - failures
    assert all((tmp_path / "here" / name).read_bytes() == b"one" for name in there)


@each_case("status", [nfsstat3.NFS3ERR_NOTSUPP, nfsstat3.NFS3ERR_XDEV, nfsstat3.NFS3ERR_MLINK, nfsstat3.NFS3ERR_STALE])
def test_what_the_server_does_not_link_is_copied(new_server: Any, tmp_path: Path, status: nfsstat3) -> None:
    server, mounted = new_server()
    server.answers["LINK"] = [status] * 2
    report = upload(mounted, made_here(tmp_path / "here"))
    whole(report, links=0, lost=2)
    assert len(set(at_server(server))) == 3
    assert [bytes(one.data) for one in at_server(server)] == [b"one"] * 3


def test_a_copy_with_as_many_links_as_may_be_is_followed_by_another(server: Any, mounted: Any, tmp_path: Path) -> None:
    """The third name is a link to the copy that the second one became."""
    server.answers["LINK"] = [nfsstat3.NFS3ERR_MLINK]
    made_here(tmp_path / "here")
    report = run(once(mounted(files_at_once=1), "upload_tree", tmp_path / "here", "/t"))
    whole(report, links=1, lost=1)
    assert len(set(at_server(server))) == 2


@each_case("number", [errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP])
def test_what_this_system_does_not_link_is_copied(
    new_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    server, mounted = new_server()

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    made_there(server)
    monkeypatch.setattr(os, "link", refuse)
    whole(download(mounted, tmp_path / "here"), links=0, lost=2)
    assert files_at(tmp_path / "here") == 3


def test_the_first_name_may_be_excluded(server: Any, mounted: Any, tmp_path: Path) -> None:
    made_there(server)
    report = download(mounted, tmp_path / "here", exclude=["a"])
    assert (report.files, report.hard_links, report.excluded) == (2, 1, 1)
    assert files_at(tmp_path / "here", NAMES[1:]) == 1
    # The file has a name that its copy lacks.
    assert report.not_carried == {NotCarried.HARD_LINKS: 1}
    again = upload(mounted, made_here(tmp_path / "there"), exclude=["sub/b"])
    assert (again.files, again.hard_links, again.excluded) == (2, 1, 1)


@each_case("how", [{}, {"resume": True}])
def test_separate_files_are_replaced_by_links(new_server: Any, tmp_path: Path, how: Any) -> None:
    server, mounted = new_server()
    thing = made_there(server)
    for name in NAMES:
        path = tmp_path / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"one")
        os.utime(path, ns=(0, 1_234_000_000_005))
    whole(download(mounted, tmp_path / "here", **how))
    assert files_at(tmp_path / "here") == 1
    server.folder("/t").children.clear()
    for name in NAMES:
        server.put(f"/t/{name}", b"one").mtime = thing.mtime
    whole(upload(mounted, tmp_path / "here", **how))
    assert len(set(at_server(server))) == 1
    assert sorted(server.at("/t").children) == ["a", "sub"]
    assert sorted(server.at("/t/sub").children) == ["b", "deeper"]


def test_what_is_a_link_already_is_left_alone(
    server: Any, mounted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(mounted, made_here(tmp_path / "here"))
    server.at("/t/a").links = 3
    download(mounted, tmp_path / "back")
    server.calls.clear()
    report = upload(mounted, tmp_path / "back", resume=True)
    whole(report)
    assert report.kept == 1
    assert (server.calls["WRITE"], server.calls["CREATE"], server.calls["RENAME"]) == (0, 0, 0)
    monkeypatch.setattr(os, "link", None)
    report = download(mounted, tmp_path / "back", resume=True)
    whole(report)
    assert (report.kept, server.calls["READ"]) == (1, 0)


def test_numbers_that_are_used_again_make_no_links(server: Any, mounted: Any, tmp_path: Path) -> None:
    """A file that was removed during the copy, and one that came after it with the same number."""
    old, new = server.put("/t/a", b"old"), server.put("/t/b", b"new")
    old.links = new.links = 2
    new.ctime = nfstime3(3, 1)
    fattr = server.fattr

    def one_number(thing: Any) -> Any:
        attributes = fattr(thing)
        if thing is new:
            attributes.fileid = old.number
        return attributes

    server.fattr = one_number
    report = download(mounted, tmp_path / "here")
    assert (report.files, report.hard_links) == (2, 0)
    assert (tmp_path / "here/b").read_bytes() == b"new"


@each_case("way", ["file", "symbolic link", "directory"])
def test_a_name_that_has_become_another_file_is_not_linked(
    new_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Another user of the directory replaces the first copy, or its directory, before the second name comes."""
    server, mounted = new_server()
    here, outside = tmp_path / "here", tmp_path / "outside"
    outside.mkdir()
    thing = server.put("/t/d/a", b"one")
    thing.links = 2
    server.folder("/t/e").children["b"] = thing
    inner = local_files.link_to
    replaced: list[Path] = []

    def link_to(top: int, path: str, *rest: Any) -> None:
        first = here / path
        replaced.append(first)
        # The links lead to the copy itself, which is outside of the tree by then.
        if way == "directory":
            first.parent.rename(outside / "moved")
            first.parent.symlink_to(outside / "moved")
        elif way == "symbolic link":
            first.rename(outside / first.name)
            first.symlink_to(outside / first.name)
        else:
            first.unlink()
            first.write_bytes(b"other")
        inner(top, path, *rest)

    monkeypatch.setattr(local_files, "link_to", link_to)
    report = download(mounted, here)
    assert len(replaced) == 1
    assert (report.failures_total, report.hard_links, report.not_carried) == (0, 0, {NotCarried.HARD_LINKS: 1})
    (second,) = {here / "d/a", here / "e/b"} - set(replaced)
    assert second.read_bytes() == b"one"
    assert second.lstat().st_nlink == 1
    assert [path.lstat().st_nlink for path in outside.rglob("[ab]")] == ([] if way == "file" else [1])
    assert not list(tmp_path.rglob(".rpcrdma-*"))


# A string takes more memory than it has characters.
@each_case(("bound", "most"), [("NFS_COPY_LINKED_FILES_MAX", 0), ("NFS_COPY_LINKED_OCTETS_MAX", 40)])
def test_what_is_held_is_bounded(
    new_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    server, mounted = new_server()
    monkeypatch.setattr(hard_links, bound, most)
    made_there(server)
    whole(download(mounted, tmp_path / "here"), links=0, lost=3)
    assert files_at(tmp_path / "here") == 3


async def test_files_whose_names_have_all_come_are_forgotten() -> None:
    links: HardLinks[str] = HardLinks()
    files = [SharedFile((number,), 3) for number in range(1000)]
    for file in files:
        assert await links.copy_of(file) is None
        links.begin(file)
        waiting = asyncio.ensure_future(links.copy_of(file))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert links.end(file, "copy", 10)
        assert await waiting == "copy"
        links.linked(file)
        # A copy that was made since a link was refused takes the place of the other.
        assert links.end(file, "second", 20) is True
        assert await links.copy_of(file) is None
    assert links.incomplete == 0
    links.begin(files[0])
    assert links.end(files[0], "copy", hard_links.NFS_COPY_LINKED_OCTETS_MAX)
    links.begin(files[1])
    assert not links.end(files[1], "copy", 1)
    assert links.incomplete == 1


@each_case("there_before", [False, True])
def test_calls_that_ran_before_a_restart_are_found_to_have_run(
    new_server: Any, tmp_path: Path, there_before: bool
) -> None:
    """Their replies were lost with the server; sent again, they meet the name that they have made."""
    server, mounted = new_server()
    inner = server.answer_link

    def run_twice(args: Any) -> Any:
        inner(args)
        return inner(args)

    server.answer_link = run_twice
    if there_before:
        for name in NAMES:
            server.put(f"/t/{name}", b"other")
    whole(upload(mounted, made_here(tmp_path / "here")))
    assert len(set(at_server(server))) == 1
    names = [sorted(server.at(place).children) for place in ("/t", "/t/sub", "/t/sub/deeper")]
    assert names == [["a", "sub"], ["b", "deeper"], ["c"]]


def test_a_temporary_link_goes_when_its_name_cannot_be_given(server: Any, mounted: Any, tmp_path: Path) -> None:
    server.put("/t/sub/b", b"other")
    server.answers["RENAME"] = [nfsstat3.NFS3_OK, nfsstat3.NFS3ERR_ACCES]
    made_here(tmp_path / "here")
    report = run(once(mounted(files_at_once=1), "upload_tree", tmp_path / "here", "/t"))
    # The name is copied then, which is allowed.
    whole(report, links=1, lost=1)
    assert [sorted(server.at(place).children) for place in ("/t", "/t/sub")] == [["a", "sub"], ["b", "deeper"]]
    assert [bytes(one.data) for one in at_server(server)] == [b"one"] * 3
