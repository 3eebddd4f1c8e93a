"""A file's life by its URL through fsspec, on a server over real connections."""

from __future__ import annotations

import fsspec
import pytest

from fsspec_server import Served


@pytest.mark.journey
@pytest.mark.parametrize("protocol", ["rdma", pytest.param("nfstcp", marks=pytest.mark.thorough)], indirect=True)
def test_files_come_and_go_through_one_url(served: Served, protocol: str) -> None:
    top = served.directory / protocol
    top.mkdir()
    url = served.url(protocol, f"/data/{protocol}/new/a.txt")
    with fsspec.open(url, "wt", newline="") as file:
        file.write("first\nsecond\n")
    assert (top / "new" / "a.txt").read_text() == "first\nsecond\n"
    with fsspec.open(url, "rt") as file:
        assert list(file) == ["first\n", "second\n"]
    with fsspec.open(url, "ab") as file:
        assert file.tell() == 13
        file.write(b"third\n")
    with fsspec.open(url, "rb") as file:
        assert file.readlines() == [b"first\n", b"second\n", b"third\n"]
    with pytest.raises(FileExistsError), fsspec.open(url, "xb"):
        pass
    fs, path = fsspec.url_to_fs(url)
    assert (type(fs).protocol, path) == (protocol, served.path(protocol, f"/data/{protocol}/new/a.txt"))
    assert fs.unstrip_protocol(path) == f"{protocol}://{path}"
    assert fs.ls(fs._parent(path), detail=False) == [path]
    fs.rm(fs._parent(path), recursive=True)
    assert list(top.iterdir()) == []
