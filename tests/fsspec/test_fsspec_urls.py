"""URLs as data tools are given them, and as they put them together."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import re
import secrets
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.registry import known_implementations
from upath import UPath

from fsspec_server import SCHEMES, Served
from rpcrdma.errors import LocalProtocolError
from rpcrdma.fsspec import RdmaFileSystem, TcpFileSystem
from support.cases import each_case


@each_case(
    ("url", "path"),
    [
        ("rdma://server/data/x.csv", "server/data/x.csv"),
        ("rdma://Server:7/data/x.csv/", "server:7/data/x.csv"),
        ("rdma://server:/data", "server/data"),
        ("rdma://server:7", "server:7"),
        ("rdma://server:7/", "server:7"),
        ("rdma://[fe80:0:0:0:0:0:0:1]:7/a/", "fe80:0:0:0:0:0:0:1:7/a"),
        ("rdma://[fe80:0:0:0:0:0:0:1%eth0]/a/", "fe80:0:0:0:0:0:0:1%eth0/a"),
        ("rdma://192.0.2.7:7+8/a", "192.0.2.7:7+8/a"),
        ("rdma://server/a?mountport=5", "server+5/a"),
        ("rdma://server?mountport=5", "server+5"),
        ("rdma://server:7/a?mountport=5/b/c", "server:7+5/a/b/c"),
        ("rdma://server/a%20b", "server/a%20b"),
        ("rdma://server/part-?.csv", "server/part-?.csv"),
        ("rdma:///data", "/data"),
        ("rdma:///", "/"),
        ("server:7?mountport=5/data", "server:7+5/data"),
        ("[::1]:7/data/x", "0:0:0:0:0:0:0:1:7/data/x"),
        ("server/a?mountport=5", "server/a?mountport=5"),
        ("/data/rdma", "/data/rdma"),
        ("/a?mountport=5", "/a?mountport=5"),
        ("/a://b", "/a://b"),
        ("", "/"),
    ],
)
def test_a_url_is_stripped_to_a_path_that_keeps_its_server(url: str, path: str) -> None:
    assert RdmaFileSystem._strip_protocol(url) == path
    assert RdmaFileSystem._strip_protocol([path, url]) == [path, path]
    if "?" not in path:
        assert RdmaFileSystem._strip_protocol(f"rdma://{path}") == path
    assert RdmaFileSystem._get_kwargs_from_urls(url) == {}


@each_case(
    ("path", "parent"),
    [
        *(("/data/x", "/data"), ("/data", "/"), ("/", "/"), ("server:7/data/x", "server:7/data")),
        *(
            ("server:7/data", "server:7"),
            ("server:7", "server:7"),
            ("rdma://server:7+8/a/", "server:7+8"),
            ("rdma://server", "server"),
        ),
    ],
)
def test_above_all_paths_of_a_server_is_the_server(path: str, parent: str) -> None:
    assert RdmaFileSystem._parent(path) == parent


@each_case("url", ["rdma://server:port/a", "rdma://server/a?mountport=none", "rdma://me@server/a"])
def test_a_url_that_is_none_is_refused_in_words(url: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"port|host|a user"):
        fsspec.open(url)


def test_fsspec_finds_both_by_name_and_has_no_other_of_these_names() -> None:
    assert fsspec.get_filesystem_class("rdma") is RdmaFileSystem
    assert fsspec.get_filesystem_class("nfstcp") is TcpFileSystem
    ours = {"rdma": RdmaFileSystem, "nfstcp": TcpFileSystem}
    assert [known_implementations[name]["class"] for name in ours] == [
        f"rpcrdma.fsspec.{each.__name__}" for each in ours.values()
    ]


def test_urls_of_all_servers_lead_to_one_file_system() -> None:
    first, second = (fsspec.url_to_fs(f"rdma://{path}")[0] for path in ("one:7+8/a", "two/b/c"))
    assert first is second is fsspec.filesystem("rdma")
    assert first.fsid == "rdma"
    fs = fsspec.filesystem("rdma", host="one", port=7, mountport=8)
    assert fs.fsid == "rdma://one:7"
    assert fs != first
    for shared in (fs, first):
        assert shared.place("one:7+8/a").server.key == fs.server.key
        assert shared.place("two/a").server.key == first.place("rdma://two:20049/b").server.key != fs.server.key


@each_case(
    ("path", "url"),
    [
        ("/a", "rdma://one:7+8/a"),
        ("/", "rdma://one:7+8"),
        ("rdma://one/a", "rdma://one:7+8/a"),
        ("one:7/a", "rdma://one:7+8/a"),
        ("one:7+9/a", "rdma://one:7+9/a"),
        ("one:6/a", "rdma://one:6/a"),
        ("two", "rdma://two:20049"),
        ("two:6+5/a/b", "rdma://two:6+5/a/b"),
        ("rdma://[2001:db8:0:0:0:0:0:1]:6/a", "rdma://2001:db8:0:0:0:0:0:1:6/a"),
    ],
)
def test_the_url_of_a_path_has_the_ports_that_the_options_tell_of_its_server(path: str, url: str) -> None:
    fs = fsspec.filesystem("rdma", host="one", port=7, mountport=8)
    assert fs.unstrip_protocol(path) == url
    assert fs.unstrip_protocol(url) == url
    assert fsspec.filesystem("rdma").unstrip_protocol(url) == url


def test_mount_ports_are_told_of_each_server() -> None:
    told = {"one": 5, "two:7": "6", "[::1]:9": 10}
    fs = fsspec.filesystem("rdma", mountport=told)
    ports = {path: fs.place(path).server.url.mount_port for path in ("one", "one:7", "two", "two:7/a", "two:7+8/a")}
    assert ports == {"one": 5, "one:7": None, "two": None, "two:7/a": 6, "two:7+8/a": 8}
    assert fs.place("rdma://0:0:0:0:0:0:0:1:9/a").server.url.mount_port == 10
    assert fsspec.filesystem("rdma", host="two", port=7, mountport=told).server.url.mount_port == 6
    of_all = fsspec.filesystem("rdma", mountport=4)
    assert [of_all.place(path).server.url.mount_port for path in ("one", "two:7", "two+3")] == [4, 4, 3]


def test_urls_of_another_protocol_and_mistaken_options_are_refused_in_words() -> None:
    fs = fsspec.filesystem("rdma", host="one")
    for other in ("nfstcp://one/a", "s3://one/a"):
        for use in (fs.cat_file, fs.open, fs.info, fs.exists, fs.ls, fs.rm_file, fs.makedirs, fs.isdir):
            with pytest.raises(
                ValueError, match=r"is no URL of rdma://, and no path: those begin with HOST or with '/'"
            ):
                use(other)
    for name in ("mount_port", "prot", "timeout"):
        with pytest.raises(TypeError, match=f"rdma:// has no option {name}: host, port, mountport,"):
            fsspec.filesystem("rdma", host="server", **{name: 1})
    for host in ("rdma://server", "server/data", "[::1", "server:7"):
        with pytest.raises(ValueError, match="is no host: write rdma://HOST"):
            fsspec.filesystem("rdma", host=host)
    with pytest.raises(ValueError, match="5 is no host: write rdma://HOST"):
        fsspec.filesystem("rdma", host=5)
    for name in ("port", "mountport", "attributes_valid_s"):
        with pytest.raises(ValueError, match=f"the option {name} must be a number, not 'abc'"):
            fsspec.filesystem("rdma", host="server", **{name: "abc"})
    for use in (fs.cat, fs.cat_file, fs.open, fs.info, fs.ls):
        with pytest.raises(TypeError, match=r"a path must be of type str or os\.PathLike, not int"):
            use(5)
    with pytest.raises(LocalProtocolError, match="in full, or rdma:///PATH and the option host='::1'"):
        fsspec.open("rdma://[::1]:20049/data/a")
    # An option that pandas adds is passed over.
    fs = fsspec.filesystem("rdma", host="server", anon=True)
    assert fs.server == fsspec.filesystem("rdma", host="server").server
    assert pickle.loads(pickle.dumps(fs)) == fs
    # Without a server the error says how to give one.
    with pytest.raises(
        ValueError, match=r"which server\? Write rdma://HOST\[:PORT\]/data/x.csv, or give the option host="
    ):
        fsspec.open("rdma:///data/x.csv").open()
    assert fsspec.open("rdma:///data/x.csv", host="server").full_name == "rdma://server:20049/data/x.csv"


def test_options_may_add_to_a_url_what_it_leaves_out() -> None:
    fs, path = fsspec.url_to_fs("rdma://server/data", port=7, mountport="5")
    assert (path, fs.unstrip_protocol(path)) == ("server/data", "rdma://server:7+5/data")
    assert fsspec.filesystem("rdma", host="[::1]").fsid == "rdma://[::1]:20049"
    assert fsspec.filesystem("rdma", host="::1").unstrip_protocol("/a") == "rdma://0:0:0:0:0:0:0:1:20049/a"
    by_name = fsspec.filesystem("rdma", host="Server")
    assert by_name.place("rdma://SERVER/data").server == by_name.place("/data").server
    # A path keeps its server in lists and pickles.
    urls = ["rdma://one:7+8/a", "rdma://two/a"]
    assert [file.full_name for file in fsspec.open_files(urls)] == ["rdma://one:7+8/a", "rdma://two:20049/a"]
    fs, _, paths = pickle.loads(pickle.dumps(fsspec.core.get_fs_token_paths(urls)))
    assert paths == ["one:7+8/a", "two/a"]
    assert [fs.place(path).server.url.host for path in paths] == ["one", "two"]


@pytest.mark.thorough
def test_every_failure_of_every_operation_names_the_url(fs: Any, served: Served, protocol: str, tmp_path: Path) -> None:
    """With missing paths, and with those of the wrong kind, whatever else an operation takes."""
    top = served.directory / secrets.token_hex(4)
    (top / "dir" / "sub").mkdir(parents=True)
    (tmp_path / "here").touch()
    before = dict.fromkeys(("put", "put_file", "upload"), (str(tmp_path / "here"),))
    after: dict[str, tuple[Any, ...]] = {"cat_ranges": ([0], [1]), "read_block": (0, 1)}
    after |= dict.fromkeys(("copy", "cp", "cp_file", "move", "mv", "rename"), (f"/data/{top.name}/new",))
    after |= dict.fromkeys(("download", "get", "get_file"), (str(tmp_path / "copy"),))
    after |= dict.fromkeys(("pipe", "pipe_file", "write_bytes"), (b"1",)) | {"write_text": ("1",)}
    # These ask no server, or fail in no way, and `sign` is fsspec's own.
    quiet = {"close", "end_transaction", "from_dict", "from_json", "get_mapper", "invalidate_cache", "note_writer"}
    quiet |= {"open_async", "place", "sign", "start_transaction", "to_dict", "to_json"}
    quiet |= {"ukey", "unstrip_protocol"}
    address = re.compile(rf"(tcp|rdma)://127\.0\.0\.1:{served.ports[SCHEMES[protocol]]}(\+\d+)?/data/{top.name}/")
    failures = []
    operations = [name for name, _ in inspect.getmembers(type(fs), inspect.isfunction) if name[0] != "_"]
    for name in [each for each in operations if each not in quiet]:
        for path in (f"/data/{top.name}/{each}" for each in ("none/x", "file/x", "file", "dir")):
            (top / "file").write_bytes(b"1")
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            (tmp_path / "copy").unlink(missing_ok=True)
            try:
                of_one = [path] if name in {"cat_ranges", "sizes"} else path
                ended = getattr(fs, name)(*before.get(name, ()), of_one, *after.get(name, ()))
                _ = list(ended) if inspect.isgenerator(ended) else ended
            except OSError as error:
                failures.append((name, str(error)))
    assert [each for each in failures if not address.search(each[1])] == []
    assert len(set(dict(failures))) > 30
    for mode, use in (("rb", lambda file: file.write(b"1")), ("wb", lambda file: file.seek(0))):
        with fs.open(f"/data/{top.name}/file", mode) as file, pytest.raises(io.UnsupportedOperation, match=address):
            use(file)


@each_case(
    ("protocol", "drive"),
    [
        *(("s3", "bucket"), ("rdma", "server"), ("rdma", "192.0.2.7:7"), ("nfstcp", "server:7+8")),
        *(("rdma", "fd00:0:0:0:0:0:0:1:7"), ("nfstcp", "fd00:0:0:0:0:0:0:1")),
        # The server is that of the option `host`.
        ("rdma", ""),
    ],
)
def test_a_universal_path_keeps_its_server_as_one_of_s3_its_bucket(protocol: str, drive: str) -> None:
    top = UPath(f"{protocol}://{drive}/")
    path = UPath(f"{protocol}://{drive}/b/c d#e?f%20.g")
    assert path.parts == (f"{drive}/", "b", "c d#e?f%20.g")
    assert path.is_absolute()
    for each in (path, top):
        assert (each.drive, each.root, each.anchor) == (drive, "/", f"{drive}/")
    below = path.relative_to(top)
    assert (str(below), below.parts, below.anchor, below.is_absolute()) == ("b/c d#e?f%20.g", path.parts[1:], "", False)
    same = [
        *(path.resolve(), (top / ".." / "x" / ".." / "b" / "." / path.name).resolve(), path.with_segments(*path.parts)),
        *(UPath(*path.parts, protocol=protocol), type(path)(*path.parts, protocol=protocol)),
        *(path.with_segments(path.anchor, "b", path.name), top / below, top.joinpath("b", path.name), UPath(path)),
        *(top.with_name("b") / path.name, path.with_name("x").with_name(path.name)),
        path.with_stem("x").with_suffix(".y").with_stem(path.stem).with_suffix(path.suffix),
        *(UPath(str(path)), UPath(path.as_uri()), UPath(path.path, protocol=protocol)),
        *(pickle.loads(pickle.dumps(path)), copy.copy(path)),
    ]
    assert same == [path] * len(same)
    assert {hash(each) for each in same} == {hash(path)}
    assert [str(each) for each in path.parents] == [f"{protocol}://{drive}/b", f"{protocol}://{drive}/"]
    tops = [path.parents[-1], top.parent, UPath(f"{protocol}://{drive}"), UPath(path.anchor, protocol=protocol)]
    assert [*tops, top.resolve(), (path / "../../../..").resolve()] == [top] * 6
    assert (top.name, top.parts, top.path) == ("", (f"{drive}/",), f"{drive}/")


@each_case(
    ("segments", "expected"),
    [
        (["rdma://[fd00:0:0:0:0:0:0:1]:7/a"], "rdma://fd00:0:0:0:0:0:0:1:7/a"),
        (["rdma://server:7/a/../b?mountport=8"], "rdma://server:7+8/b"),
        # A directory with the name of its server is not passed over.
        (["rdma://data/data/../data/a"], "rdma://data/data/a"),
        # A later segment that begins with a slash begins at the top, as in pathlib.
        (["rdma://server:7/a", "b", "/c", "d"], "rdma://server:7/c/d"),
        (["simplecache::rdma://server:7/a/../b"], "simplecache::rdma://server:7/b"),
    ],
)
def test_universal_paths_unlike_those_of_s3_keep_their_server(segments: list[str], expected: str) -> None:
    path = UPath(*segments, port=7)
    resolved = path.resolve()
    assert str(resolved) == str(resolved.with_segments(*resolved.parts)) == expected
    assert resolved.storage_options == path.storage_options != {}
