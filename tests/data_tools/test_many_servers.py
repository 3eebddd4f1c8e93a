"""examples/many_servers.py: Dask's workers read a shard from each of several server processes, and each once."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tool_runs import DOCUMENT, ROOT, RUN_S, blocks, require, run_block, run_lines

EXAMPLE = str(ROOT / "examples" / "many_servers.py")


@contextlib.contextmanager
def launched(directories: Sequence[Path]) -> Iterator[list[str]]:
    """The example's own launcher, one server process for each directory; the URLs that it prints."""
    command = [sys.executable, EXAMPLE, "serve", *map(str, directories), "--processes", str(len(directories))]
    with subprocess.Popen(
        [*command, "--free-ports"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdin is not None
        yield [launcher.stdout.readline().strip() for _ in directories]
        launcher.stdin.close()
        assert launcher.wait(RUN_S) == 0


def two_directories(parent: Path) -> list[Path]:
    """Directories that clients may write to, also root, which servers map to UID 65534."""
    directories = [parent / "one", parent / "two"]
    for directory in directories:
        directory.mkdir()
        directory.chmod(0o1777)
    return directories


@pytest.mark.data_tools
@pytest.mark.timeout(300)
def test_every_shard_is_read_once_and_from_its_own_server(tmp_path: Path) -> None:
    require("dask", "distributed", "pandas", "pyarrow")
    directories = two_directories(tmp_path)
    with launched(directories) as urls:
        shards = [f"{url}/{number}" for number, url in enumerate(urls)]
        printed = run_lines([EXAMPLE, "read", *shards, "--workers", "2", "--rows", "1000"])
    assert printed == ("shards: 2, processes: 2, numbers: 2000, different: 2000, last: 1999",)
    found = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")]
    assert sorted(found) == ["one/0/shard.parquet", "two/1/shard.parquet"]


@pytest.mark.data_tools
@pytest.mark.timeout(300)
@pytest.mark.parametrize("block", [block for block in blocks(DOCUMENT) if "rdma://server2" in block])
def test_a_block_of_the_document_reads_from_two_servers(block: str, tmp_path: Path) -> None:
    directories = two_directories(tmp_path)
    with launched(directories) as urls:
        run_block(block, {"rdma://server/data": urls[0], "rdma://server2/data": urls[1]}, tmp_path)
    assert all(any(directory.iterdir()) for directory in directories)
