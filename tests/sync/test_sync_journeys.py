"""The calls of `os` by `rpcrdma.sync`, on a server over real connections."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma import sync

if TYPE_CHECKING:
    from conftest import Running


@pytest.mark.journey
@pytest.mark.parametrize("carrier", ["rdma", "tcp"])
def test_the_calls_of_os_work_on_files_of_a_server(running: Running, folder: Path, carrier: str) -> None:
    with sync.nfs_open(running.url if carrier == "rdma" else running.tcp_url) as fs:
        name = folder.name
        fs.mkdir(f"{name}/below/deep", parents=True)
        fs.write_bytes(f"{name}/a", b"one\ntwo\n")
        fs.rename(f"{name}/a", f"{name}/b")
        assert fs.read_bytes(f"{name}/b") == b"one\ntwo\n"
        assert fs.stat(f"{name}/b").st_size == 8
        assert sorted(fs.listdir(name)) == ["b", "below"]
        assert sorted(entry.name for entry in fs.first_entries(name)) == ["b", "below"]
        assert {entry.name: entry.is_dir() for entry in fs.scandir(name)} == {"b": False, "below": True}
        assert list(fs.walk(name)) == [
            (f"/{name}", ["below"], ["b"]),
            (f"/{name}/below", ["deep"], []),
            (f"/{name}/below/deep", [], []),
        ]
        with pytest.raises(FileNotFoundError, match="missing"):
            fs.stat(f"{name}/missing")
        fs.rmtree(f"{name}/below").check()
        assert not fs.exists(f"{name}/below")
