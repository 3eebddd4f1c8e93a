"""URLs as data tools are given them, and as they put them together."""

from __future__ import annotations

import pickle
from typing import Any

import fsspec
import pytest
from fsspec.registry import known_implementations

from rpcrdma.errors import LocalProtocolError
from rpcrdma.fsspec import RdmaFileSystem, TcpFileSystem


@pytest.mark.parametrize(
    ("url", "path", "options"),
    [
        ("rdma://server/data/x.csv", "/data/x.csv", {"host": "server"}),
        ("nfstcp://server/data", "/data", {"host": "server"}),
        ("rdma://server:7", "/", {"host": "server", "port": 7}),
        ("rdma://server:7/", "/", {"host": "server", "port": 7}),
        ("rdma://[fe80:0:0:0:0:0:0:1]:7/a/", "/a", {"host": "fe80:0:0:0:0:0:0:1", "port": 7}),
        ("rdma://server/a?mountport=5", "/a", {"host": "server", "mountport": 5}),
        ("rdma://server?mountport=5", "/", {"host": "server", "mountport": 5}),
        ("rdma://server/a?mountport=5/b/c", "/a/b/c", {"host": "server", "mountport": 5}),
        ("rdma://server/a%20b", "/a%20b", {"host": "server"}),
        ("rdma://server/part-?.csv", "/part-?.csv", {"host": "server"}),
        ("rdma:///data", "/data", {}),
        ("/data/rdma", "/data/rdma", {}),
        ("data", "/data", {}),
        ("/a?mountport=5", "/a?mountport=5", {}),
    ],
)
def test_a_url_is_a_server_and_a_path(url: str, path: str, options: dict[str, Any]) -> None:
    assert RdmaFileSystem._strip_protocol(url) == path
    assert RdmaFileSystem._get_kwargs_from_urls(url) == options
    assert RdmaFileSystem._strip_protocol([path, url]) == [path, path]


@pytest.mark.parametrize("url", ["rdma://server:port/a", "rdma://server/a?mountport=none", "rdma://me@server/a"])
def test_a_url_that_is_none_is_refused_in_words(url: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"port|host"):
        fsspec.open(url)


def test_without_a_host_the_error_says_how_to_give_one() -> None:
    with pytest.raises(ValueError, match="write rdma://HOST"):
        fsspec.open("rdma:///data/x.csv")
    assert fsspec.open("rdma:///data/x.csv", host="server").full_name == "rdma://server:20049/data/x.csv"


def test_fsspec_finds_both_by_name_and_has_no_other_of_these_names() -> None:
    assert fsspec.get_filesystem_class("rdma") is RdmaFileSystem
    assert fsspec.get_filesystem_class("nfstcp") is TcpFileSystem
    ours = {"rdma": RdmaFileSystem, "nfstcp": TcpFileSystem}
    assert [known_implementations[name]["class"] for name in ours] == [
        f"rpcrdma.fsspec.{each.__name__}" for each in ours.values()
    ]


def test_equal_urls_lead_to_one_file_system() -> None:
    first, second = (fsspec.url_to_fs(f"rdma://server/{path}?mountport=7")[0] for path in ("a", "b/c"))
    assert first is second
    assert first != fsspec.url_to_fs("rdma://server/a")[0]
    assert first.fsid == "rdma://server:20049"
    assert first.unstrip_protocol("/a") == "rdma://server:20049/a?mountport=7"
    assert first.unstrip_protocol("rdma://server/a") == "rdma://server:20049/a?mountport=7"


def test_urls_of_another_server_are_refused() -> None:
    fs = fsspec.filesystem("rdma", host="one", port=7)
    for same in ("/a", "rdma:///a", "rdma://one/a", "rdma://one:7/a", "rdma://one:7/a?mountport=5", "nfstcp://one:8/a"):
        assert fs._strip_protocol(same) == fs._strip_protocol([same])[0] == "/a"
    for other in ("rdma://two/a", "rdma://two:7/a", "rdma://one:8/a"):
        for use in (fs.cat_file, fs.open, fs.info, fs.exists, fs.ls, fs.rm_file, fs.makedirs, fs.isdir):
            with pytest.raises(ValueError, match=r"/a of (two|one):\d+ was asked of the file system of rdma://one:7: "):
                use(other)
        with pytest.raises(ValueError, match="read each server's files by themselves and join them"):
            fs.cat(["rdma://one/a", other])


def test_a_list_of_urls_of_two_servers_is_refused() -> None:
    urls = ["rdma://one/a", "rdma://two/a"]
    files = fsspec.open_files(urls)
    with pytest.raises(ValueError, match="/a of two:20049 was asked of the file system of rdma://one:20049"), files[1]:
        pass
    fs, _, paths = fsspec.core.get_fs_token_paths(urls)
    assert paths == ["/a", "/a"]
    for refused in (paths[1], pickle.loads(pickle.dumps(paths[1])), type(fs)._strip_protocol(paths[1])):
        with pytest.raises(ValueError, match="a list of URLs, as a file system, is of one server"):
            fs.info(refused)


def test_options_may_add_to_a_url_what_it_leaves_out() -> None:
    fs, path = fsspec.url_to_fs("rdma://server/data", port=7, mountport="5")
    assert (fs.unstrip_protocol(path), fs.server.url.mount_port) == ("rdma://server:7/data?mountport=5", 5)
    assert fsspec.filesystem("rdma", host="[::1]").fsid == "rdma://[::1]:20049"
    assert fsspec.filesystem("rdma", host="Server")._strip_protocol("rdma://SERVER/data") == "/data"


def test_mistaken_options_are_refused_in_words() -> None:
    for name in ("mount_port", "prot", "timeout"):
        with pytest.raises(TypeError, match=f"rdma:// has no option {name}: host, port, mountport,"):
            fsspec.filesystem("rdma", host="server", **{name: 1})
    for host in ("rdma://server", "server/data", "[::1"):
        with pytest.raises(ValueError, match="is no host: write rdma://HOST"):
            fsspec.filesystem("rdma", host=host)
    with pytest.raises(LocalProtocolError, match="in full, or rdma:///PATH and the option host='::1'"):
        fsspec.open("rdma://[::1]:20049/data/a")
