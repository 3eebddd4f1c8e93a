"""Infos and listings of files and directories through fsspec."""

from __future__ import annotations

import datetime as dt
import errno
import io
import os
import stat
from pathlib import Path
from typing import Any

import fsspec
import pytest

from fsspec_server import Served, at
from rpcrdma.fsspec import walk_steps
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.errors import nfs_error
from rpcrdma.nfs.v3 import nfsstat3
from support.cases import each_case
from support.few_frames import frames_left

pytestmark = pytest.mark.thorough


def test_the_server_above_its_exports_is_shown_as_directories(fs: Any, top: Path, served: Served) -> None:
    (top / "file").write_bytes(b"1")
    assert fs.ls("/", detail=False) == ["/data", "/other"]
    assert [(info["name"], info["type"]) for info in fs.ls("/")] == [("/data", "directory"), ("/other", "directory")]
    assert fs.isdir("/")
    assert fs.exists("/")
    assert not fs.isfile("/")
    assert fs.find("/data/" + top.name) == [at(top, "file")]
    # An export within another is its own.
    (served.directory / "deep" / "file").write_bytes(b"deep")
    assert fs.cat("/data/deep/file") == fs.cat("/other/file") == b"deep"
    with pytest.raises(FileNotFoundError) as caught:
        fs.cat_file("/data/deep/none")
    assert caught.value.filename == "/data/deep/none"
    fs.mv("/other/file", "/data/moved-out")
    assert (served.directory / "moved-out").read_bytes() == b"deep"
    assert not fs.exists("/data/deep/file")


def test_info_has_what_the_server_knows(fs: Any, top: Path) -> None:
    file = top / "file"
    file.write_bytes(b"12345")
    file.chmod(0o640)
    os.utime(file, (1, 1_000_000.25))
    (top / "link").symlink_to("file")
    (top / "up").symlink_to(".")
    (top / "lost").symlink_to("none")
    found = file.stat()
    expected = {
        "name": at(top, "file"),
        "size": 5,
        "type": "file",
        "mtime": 1_000_000.25,
        "ctime": found.st_ctime,
        "mode": stat.S_IFREG | 0o640,
        "uid": os.getuid(),
        "gid": os.getgid(),
        "nlink": 1,
        "ino": found.st_ino,
        "islink": False,
    }
    assert fs.info(at(top, "file")) == expected
    linked = {**expected, "name": at(top, "link"), "islink": True, "destination": "file"}
    assert fs.info(at(top, "link")) == linked
    assert fs.info(at(top, "up"))["type"] == "directory"
    with pytest.raises(FileNotFoundError):
        fs.info(at(top, "lost"))
    listed = {info["name"]: info for info in fs.ls(at(top))}
    assert listed[at(top, "file")] == expected
    assert listed[at(top, "link")] == linked
    # A walk of a tree does not follow a circle.
    kinds = {name: (info["type"], info["size"], info["destination"]) for name, info in listed.items() if info["islink"]}
    assert kinds[at(top, "up")] == ("other", 0, ".")
    assert kinds[at(top, "lost")] == ("other", 0, "none")
    assert [names for _, names, _ in fs.walk(at(top))] == [[]]
    assert fs.ls(at(top, "file")) == [expected]
    assert fs.ls(at(top, "file"), detail=False) == [at(top, "file")]
    assert fs.modified(at(top, "file")) == dt.datetime.fromtimestamp(1_000_000.25, tz=dt.UTC)
    with pytest.raises(io.UnsupportedOperation, match="NFSv3 has no time of creation"):
        fs.created(at(top, "file"))
    before = fs.checksum(at(top, "file"))
    assert before == fs.checksum(at(top, "file"))
    file.write_bytes(b"54321")
    assert before != fs.checksum(at(top, "file"))


def test_a_tree_is_walked_to_any_depth(fs: Any, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = 150
    (top / "/".join(["d"] * levels)).mkdir(parents=True)
    fs.info(at(top))
    with frames_left(200):
        assert len(fs.find(at(top), withdirs=True)) == levels + 1
        down = [len(path) for path, _, _ in fs.walk(at(top))]
        assert down == sorted(down) == [len(path) for path, _, _ in fs.walk(at(top), topdown=False)][::-1]
    assert [path for path, _, _ in fs.walk(at(top), maxdepth=2)] == [at(top), at(top, "d")]
    with pytest.raises(ValueError, match="maxdepth must be at least 1"):
        next(fs.walk(at(top), maxdepth=0))
    for _, names, _ in fs.walk(at(top)):
        names.clear()
    # A directory that contains itself has no end.
    monkeypatch.setattr(walk_steps, "NFS_TREE_DEPTH_MAX", 3)
    with pytest.raises(OSError, match="more than 3 levels deep"):
        fs.find(at(top))


def test_a_path_may_end_with_dots(fs: Any, top: Path) -> None:
    (top / "sub").mkdir()
    (top / "sub" / "file").write_bytes(b"1")
    for path in ("sub/.", "sub/..", "sub/./"):
        assert fs.info(at(top, path))["ino"] == (top / path).stat().st_ino
        assert fs.isdir(at(top, path))
    assert fs.glob(at(top, "sub/./*")) == [at(top, "sub/./file")]
    assert fs.glob(at(top, "sub/.")) == [at(top, "sub/.")]
    with pytest.raises(NotADirectoryError):
        fs.info(at(top, "sub/file/."))


def test_links_are_treated_as_those_of_this_machine_are(fs: Any, top: Path, tmp_path: Path) -> None:
    (top / "file").write_bytes(b"12345")
    (top / "up").symlink_to("..")
    local = fsspec.filesystem("file")
    for files, tree, copy in ((fs, at(top), at(top) + "-copy"), (local, str(top), str(tmp_path / "copy"))):
        files.cp(tree, copy, recursive=True)
        assert [path.rpartition("/")[2] for path in files.find(copy, withdirs=True)[1:]] == ["file", "up"]
    (top / "up").unlink()
    (top / "lost").symlink_to("none")
    for files, tree in ((fs, at(top)), (local, str(top))):
        assert [path.rpartition("/")[2] for path in files.find(tree)] == ["file", "lost"]
        for work in (lambda: files.du(tree), lambda: files.get(tree, str(tmp_path / "to"), recursive=True)):  # noqa: B023
            with pytest.raises(FileNotFoundError):
                work()


@each_case("detail", [False, True])
def test_below_a_file_nothing_is_listed(fs: Any, top: Path, detail: bool) -> None:
    (top / "file").write_bytes(b"data")
    (listed,) = fs.ls(at(top, "file"), detail=detail)
    assert (listed["name"] if detail else listed).endswith(f"/{top.name}/file")
    with pytest.raises(NotADirectoryError):
        fs.ls(at(top, "file/below"), detail=detail)


def test_a_refusal_is_never_an_empty_listing(fs: Any, top: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """A refused entry is listed with an unknown type; a refused directory raises, below the top as well."""
    (top / "below").mkdir()
    for name in ("file", "shut", "below/inner"):
        (top / name).write_bytes(b"data")
    looked_up, readdirplus, readdir = NfsProcedures.lookup, NfsProcedures.readdirplus, NfsProcedures.readdir
    closed = "nothing"

    async def lookup(self: NfsProcedures, directory: Node, name: str) -> Node:
        if name == "shut":
            raise nfs_error(nfsstat3.NFS3ERR_ACCES, f"{directory.path}/{name}")
        return await looked_up(self, directory, name)

    async def names(self: NfsProcedures, directory: Node, *page: Any) -> Any:
        if directory.path.endswith(closed):
            raise nfs_error(nfsstat3.NFS3ERR_ACCES, directory.path)
        return await readdir(self, directory, *page)

    async def without_attributes(self: NfsProcedures, directory: Node, *page: Any) -> Any:
        found = await readdirplus(self, directory, *page)
        for entry in found.reply.entries:
            entry.name_handle.value = None
        return found

    monkeypatch.setattr(NfsProcedures, "lookup", lookup)
    monkeypatch.setattr(NfsProcedures, "readdirplus", without_attributes)
    every = [at(top, name) for name in ("below/inner", "file", "shut")]
    assert [name.removeprefix(fs.place(name).prefix) for name in fs.find(at(top))] == every
    assert {info["name"].rpartition("/")[2]: info["type"] for info in fs.ls(at(top), detail=True)} == {
        "below": "directory",
        "file": "file",
        "shut": "other",
    }
    assert f"{at(top)}/shut is listed without its attributes: Permission denied" in caplog.text
    monkeypatch.setattr(NfsProcedures, "readdirplus", names)
    for closed in (top.name, "below"):
        for lists in (fs.find, fs.glob, fs.du, lambda path: list(fs.walk(path))):
            with pytest.raises(PermissionError):
                lists(at(top) + ("/**" if lists == fs.glob else ""))
        told: list[OSError] = []
        assert fs.find(at(top, "missing")) == fs.glob(at(top, "missing/*")) == []
        assert len(list(fs.walk(at(top), on_error=told.append))) == (closed == "below")
        assert len(list(fs.walk(at(top), on_error="omit"))) == (closed == "below")
        assert [error.errno for error in told] == [errno.EACCES]
