"""One file system reaches the files of several servers, by the servers that stand in their paths."""

from __future__ import annotations

import os
import pickle
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.generic import rsync
from fsspec.implementations.dirfs import DirFileSystem

from fsspec_server import RunningServer, Served
from rpcrdma import ConnectFailed
from rpcrdma.fsspec import mounts
from rpcrdma.nfs.client import NfsFile, NfsFilesystem, Stat

pytestmark = pytest.mark.thorough

LARGE = secrets.token_bytes((1 << 20) + 5)


class Two:
    """Two servers, each with a directory for one test; paths begin with the servers."""

    def __init__(self, first: Served, second: Served, protocol: str) -> None:
        name = secrets.token_hex(4)
        self.fs = fsspec.filesystem(protocol, skip_instance_cache=True)
        self.here, self.there = first.directory / name, second.directory / name
        self.first, self.second = (served.path(protocol, f"/data/{name}") for served in (first, second))
        for directory in (self.here, self.there):
            directory.mkdir()


@pytest.fixture(scope="module")
def served_too(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with RunningServer(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture
def two(served: Served, served_too: Served, protocol: str) -> Iterator[Two]:
    made = Two(served, served_too, protocol)
    yield made
    made.fs.close()


def test_one_call_takes_paths_of_two_servers(two: Two) -> None:
    files = {f"{two.first}/a": b"first", f"{two.second}/b": LARGE}
    two.fs.pipe(files)
    assert ((two.here / "a").read_bytes(), (two.there / "b").read_bytes()) == (b"first", LARGE)
    assert two.fs.cat(list(files)) == files
    assert two.fs.cat_ranges(list(files), 1, 4) == [b"irs", LARGE[1:4]]
    urls = [two.fs.unstrip_protocol(path) for path in files]
    again = pickle.loads(pickle.dumps(fsspec.open_files(urls)))
    assert [file.full_name for file in again] == urls
    with again as opened:
        assert [file.read() for file in opened] == list(files.values())
    two.fs.rm([two.first, two.second], recursive=True)
    assert not two.here.exists()
    assert not two.there.exists()


def test_names_begin_with_the_server_that_was_asked_for(two: Two) -> None:
    for path in ("a.csv", "sub/b.csv", "sub/c.txt"):
        two.fs.pipe_file(f"{two.first}/{path}", b"1")
    top, fs = two.first, two.fs
    for names in (fs.ls(top, detail=False), [info["name"] for info in fs.ls(top)]):
        assert set(names) == {f"{top}/a.csv", f"{top}/sub"}
    assert fs.find(top) == [f"{top}/a.csv", f"{top}/sub/b.csv", f"{top}/sub/c.txt"]
    assert fs.glob(f"{top}/**/*.csv") == [f"{top}/a.csv", f"{top}/sub/b.csv"]
    assert fs.glob(f"{type(fs).protocol}://{top}/s?b/[bc].*") == [f"{top}/sub/b.csv", f"{top}/sub/c.txt"]
    walked = [(path, sorted(folders), sorted(files)) for path, folders, files in fs.walk(top)]
    assert walked == [(top, ["sub"], ["a.csv"]), (f"{top}/sub", [], ["b.csv", "c.txt"])]
    assert fs.info(f"{top}/sub/b.csv")["name"] == fs.ls(f"{top}/sub/b.csv")[0]["name"] == f"{top}/sub/b.csv"
    server = top.partition("/")[0]
    assert fs.info(server)["name"] == server
    assert sorted(fs.ls(server, detail=False)) == [f"{server}/data", f"{server}/other"]
    assert fs.isdir(server)
    assert fs._parent(f"{server}/data") == server


def test_errors_name_the_server(two: Two) -> None:
    for path in (f"{two.first}/none", f"{two.second}/none", two.second.partition("/")[0] + "/nowhere/x"):
        for use in (two.fs.cat_file, two.fs.info, two.fs.open, two.fs.ls, two.fs.rm_file):
            with pytest.raises(FileNotFoundError) as caught:
                use(path)
            assert caught.value.filename == path
            host, _, below = path.partition("/")
            assert str(caught.value).endswith(
                f"{two.fs.protocol.removeprefix('nfs')}://{host.partition('+')[0]}/{below}'"
            )
    two.fs.pipe_file(f"{two.first}/file", b"")
    with pytest.raises(NotADirectoryError) as refused:
        two.fs.pipe_file(f"{two.first}/file/below/x", b"")
    assert str(refused.value.filename).startswith(f"{two.first}/file")


def test_files_are_copied_and_moved_from_server_to_server(two: Two) -> None:
    two.fs.pipe({f"{two.first}/tree/a": b"first", f"{two.first}/tree/sub/b": LARGE})
    two.fs.cp(f"{two.first}/tree", f"{two.second}/copy", recursive=True)
    assert (two.there / "copy" / "sub" / "b").read_bytes() == LARGE
    two.fs.mv(f"{two.first}/tree/a", f"{two.second}/copy/")
    assert not (two.here / "tree" / "a").exists()
    assert (two.there / "copy" / "a").read_bytes() == b"first"
    # What a copy cannot have is not removed.
    link = two.here / "tree" / "link"
    link.symlink_to("sub")
    for path, recursive in (("tree/link", False), ("tree", True), ("tree/l*", False)):
        with pytest.raises(IsADirectoryError, match="tree/link"):
            two.fs.mv(f"{two.first}/{path}", f"{two.second}/moved", recursive=recursive)
    assert link.is_symlink()
    assert not (two.there / "moved").exists()
    link.unlink()
    two.fs.mv(f"{two.first}/tree", f"{two.second}/moved", recursive=True)
    assert not (two.here / "tree").exists()
    assert (two.there / "moved" / "sub" / "b").read_bytes() == LARGE


def test_a_file_that_two_servers_export_is_not_copied_onto_itself(
    two: Two, served: Served, protocol: str, tmp_path: Path
) -> None:
    (two.here / "file").write_bytes(LARGE)
    with RunningServer(served.directory, tmp_path) as same:
        there = same.path(protocol, f"/data/{two.here.name}/file")
        with pytest.raises(shutil.SameFileError):
            two.fs.cp_file(f"{two.first}/file", there)
        fsspec.filesystem(protocol, **same.options(protocol)).close()
    assert (two.here / "file").read_bytes() == LARGE


def test_rsync_makes_one_server_like_the_other(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    two.fs.pipe({f"{two.first}/a": b"1", f"{two.first}/sub/b": LARGE, f"{two.second}/gone": b""})
    source, target = (two.fs.unstrip_protocol(path) for path in (two.first, two.second))
    for copied in (2, 0):
        assert len(rsync(source, target, delete_missing=True)) == copied
        found = {str(path.relative_to(two.there)) for path in two.there.rglob("*") if path.is_file()}
        assert found == {"a", "sub/b"}
    assert (two.there / "sub" / "b").read_bytes() == LARGE

    # Files that two servers number alike are copied.
    def number_alike(kind: type[NfsFilesystem | NfsFile]) -> None:
        stat = kind.stat

        async def alike(self: Any, *path: Any) -> Stat:
            return (await stat(self, *path))._replace(st_dev=7, st_ino=7)

        monkeypatch.setattr(kind, "stat", alike)

    number_alike(NfsFilesystem)
    number_alike(NfsFile)
    (two.here / "file").write_bytes(b"source")
    (two.there / "file").write_bytes(b"target")
    two.fs.cp_file(f"{two.first}/file", f"{two.second}/file")
    assert (two.there / "file").read_bytes() == b"source"


def test_a_transaction_holds_back_files_of_both_servers(two: Two) -> None:
    with two.fs.transaction:
        for path in (two.first, two.second):
            with two.fs.open(f"{path}/new", "wb") as file:
                file.write(b"1")
        assert not (two.here / "new").exists()
        assert not (two.there / "new").exists()
    assert (two.here / "new").read_bytes() == (two.there / "new").read_bytes() == b"1"
    # What is known of one server says nothing of the other.
    two.fs.pipe({f"{two.first}/file": b"first", f"{two.second}/file": b"the second"})
    assert [two.fs.info(f"{path}/file")["size"] for path in (two.first, two.second)] == [5, 10]
    assert [two.fs.open(f"{path}/file").read() for path in (two.first, two.second)] == [b"first", b"the second"]
    assert two.fs.checksum(f"{two.first}/file") != two.fs.checksum(f"{two.second}/file")
    two.fs.invalidate_cache()
    (two.there / "file").write_bytes(b"")
    assert two.fs.info(f"{two.second}/file")["size"] == 0
    # Closing ends the connections to all servers.
    servers = [two.fs.place(path).server for path in (two.first, two.second)]
    for _ in range(2):
        assert two.fs.exists(two.first)
        assert two.fs.exists(two.second)
        assert all((os.getpid(), two.fs.loop, server.key) in mounts._MOUNTS for server in servers)
        two.fs.close()
        assert not any((os.getpid(), two.fs.loop, server.key) in mounts._MOUNTS for server in servers)


def test_a_path_means_the_same_with_and_without_its_server(two: Two, served: Served, protocol: str) -> None:
    fs = fsspec.filesystem(protocol, **served.options(protocol), attributes_valid_s=60.0, skip_instance_cache=True)
    bare = f"/data/{two.here.name}/file"
    (two.here / "file").write_bytes(b"1")
    assert fs.info(bare) == {**fs.info(f"{two.first}/file"), "name": bare}
    (two.here / "file").write_bytes(b"others")
    assert {fs.info(path)["size"] for path in (bare, f"{two.first}/file")} == {1}
    fs.pipe_file(f"{two.first}/file", b"own")
    assert fs.info(bare)["size"] == 3
    assert fs.ls(f"/data/{two.here.name}", detail=False) == [bare]
    assert fs.cat([bare, f"{two.first}/file"]) == {bare: b"own", f"{two.first}/file": b"own"}


def test_what_fsspec_builds_on_file_systems_keeps_the_server(two: Two, protocol: str, tmp_path: Path) -> None:
    for name in ("a", "b/c"):
        two.fs.pipe_file(f"{two.second}/{name}", name.encode())
    url = two.fs.unstrip_protocol(two.second)
    below = DirFileSystem(two.second, two.fs)
    assert (below.cat_file("a"), below.find("")) == (b"a", ["a", "b/c"])
    mapper = fsspec.get_mapper(url)
    mapper["d"] = b"4"
    assert (dict(mapper), (two.there / "d").read_bytes()) == ({"a": b"a", "b/c": b"b/c", "d": b"4"}, b"4")
    with fsspec.open(f"simplecache::{url}/a", simplecache={"cache_storage": str(tmp_path / "cache")}) as file:
        assert file.read() == b"a"
    two.fs.get(f"{two.second}/", str(tmp_path / "copy"), recursive=True)
    assert (tmp_path / "copy" / "b" / "c").read_bytes() == b"b/c"
    two.fs.put(str(tmp_path / "copy"), f"{two.first}/put", recursive=True)
    assert (two.here / "put" / "b" / "c").read_bytes() == b"b/c"


def test_a_file_named_like_a_query_stays_a_file(two: Two) -> None:
    names = [f"{two.first}/x?mountport=5", f"{two.first}/y+5"]
    two.fs.pipe(dict.fromkeys(names, b"1"))
    assert two.fs.find(two.first) == names
    assert [two.fs.cat_file(name) for name in two.fs.find(two.first)] == [b"1", b"1"]


def test_universal_paths_keep_their_server(two: Two) -> None:
    from upath import UPath

    url = two.fs.unstrip_protocol(two.second)
    folder = UPath(url)
    (folder / "sub").mkdir()
    UPath(str(folder / "sub" / "y")).write_text("text")
    assert (two.there / "sub" / "y").read_text() == "text"
    assert [str(path) for path in folder.glob("**/y")] == [str(folder / "sub" / "y")]
    assert [str(path) for path in folder.iterdir()] == [str(folder / "sub")]
    elsewhere = UPath(two.fs.unstrip_protocol(two.first))
    there = elsewhere / "moved"
    (folder / "sub" / "y").rename(there)
    assert (two.here / "moved").read_text() == there.read_text() == "text"
    (folder / "sub" / "y z#?%20").write_text("name")
    walked = [(str(path), names, files) for path, names, files in (folder / "sub" / "..").resolve().walk()]
    assert walked == [(str(folder), ["sub"], []), (str(folder / "sub"), [], ["y z#?%20"])]
    assert [each.with_segments(*each.parts).read_text() for each in folder.rglob("y*")] == ["name"]
    copied = (folder / "sub").copy(elsewhere / "copied")
    moved = (copied / "y z#?%20").move_into(elsewhere)
    assert str(moved) == f"{elsewhere}/y z#?%20"
    assert ((two.here / moved.name).read_text(), list(copied.iterdir())) == ("name", [])
    assert moved.rename(f"{elsewhere.path}/renamed").read_text() == "name"
    top = "/".join(["", *elsewhere.parts[1:]])
    assert str((elsewhere / "renamed").rename(f"{top}/again")) == f"{elsewhere}/again"
    copied = elsewhere / "copied"
    for target in (copied, str(copied), copied.path, f"{top}/copied"):
        with pytest.raises(IsADirectoryError):
            (elsewhere / "again").rename(target)
    assert (elsewhere / "copied").rename(elsewhere / "new").is_dir()
    assert {str(path) for path in elsewhere.glob("./*")} >= {f"{elsewhere}/./new", f"{elsewhere}/./again"}
    assert [path.resolve() for path in elsewhere.glob(".")] == [elsewhere]
    top = UPath(moved.anchor, protocol=moved.protocol)
    assert set(top.iterdir()) == {top / "data", top / "other"}


def test_a_path_without_its_first_slash_is_told_what_it_was_taken_for(served: Served, protocol: str) -> None:
    fs = fsspec.filesystem(protocol, **served.options(protocol))
    with pytest.raises(ConnectFailed) as caught:
        fs.ls("data.invalid/file")
    said = "'data.invalid' was taken for a server: paths of the option host= begin with a slash"
    assert caught.value.__notes__ == [said]
    with pytest.raises(ConnectFailed) as caught:
        fs.ls("127.0.0.1:9+9/data")
    assert not hasattr(caught.value, "__notes__")
