"""Reading ahead begins after sequential reads, and random reads fetch the octets that they ask for."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from fsspec.asyn import get_loop, sync
from hypothesis import given
from hypothesis import strategies as st

from fsspec_server import Served
from rpcrdma.fsspec.buffered_file import BufferedNfsFile
from rpcrdma.nfs import v3
from rpcrdma.nfs.client import FileOptions, NfsFile
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.streams.open_state import parse_open_mode
from rpcrdma.nfs.client.volume import TransferSizes

pytestmark = pytest.mark.thorough

PAGE = 4096
BLOCK = 16 * PAGE
MIB = 1 << 20
LINES = 4 * PAGE
FILE = random.Random(19).randbytes(200 * PAGE)
SIZES = st.integers(0, 3 * BLOCK)


class Counted:
    """The octets of each READ of the clients in this process."""

    def __init__(self) -> None:
        self.octets: list[int] = []


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    read = NfsProcedures.read

    async def counting(self: NfsProcedures, *args: Any) -> Any:
        reply = await read(self, *args)
        counted.octets.append(reply.count)
        return reply

    monkeypatch.setattr(NfsProcedures, "read", counting)
    return counted


@pytest.fixture(scope="module")
def large(served: Served) -> Path:
    path = served.directory / "large"
    path.write_bytes(FILE * 40)
    return path


def test_random_reads_of_an_open_file_fetch_only_the_octets_that_they_ask_for(
    fs: Any, large: Path, reads: Counted
) -> None:
    data = large.read_bytes()
    with fs.open("/data/large") as file:
        reads.octets.clear()
        for number in range(100):
            start = (number * 7919 * PAGE) % (len(data) - PAGE)
            file.seek(start)
            assert file.read(PAGE) == data[start : start + PAGE]
    assert sum(reads.octets) == 100 * PAGE


def test_sequential_reads_of_an_open_file_fetch_it_in_blocks(fs: Any, large: Path, reads: Counted) -> None:
    data = large.read_bytes()
    with fs.open("/data/large") as file:
        reads.octets.clear()
        for start in range(0, len(data), PAGE):
            assert file.read(PAGE) == data[start : start + PAGE]
    assert sum(reads.octets) == len(data)
    assert reads.octets[0] == PAGE
    assert len(reads.octets) <= 32 + len(data) // MIB


def test_lines_take_no_more_reads_than_the_file_has_blocks(fs: Any, served: Served, reads: Counted) -> None:
    lines = [b"%07d\n" % number for number in range(300_000)]
    (served.directory / "lines").write_bytes(b"".join(lines))
    with fs.open("/data/lines") as file:
        reads.octets.clear()
        assert list(file) == lines
    assert sum(reads.octets) == 8 * len(lines)
    assert len(reads.octets) <= 16


class Reading:
    """Stands for `NfsProcedures`: reads `FILE`, and counts the octets."""

    def __init__(self) -> None:
        self.octets = 0
        self.calls = 0
        self.fails = -1
        """The number of the call that fails, counted from 0; the octets of all others arrive."""

    async def read(self, _handle: object, offset: int, buffer: memoryview) -> Any:
        self.calls += 1
        if self.calls - 1 == self.fails:
            raise OSError
        await asyncio.sleep(0)
        data = FILE[offset : offset + len(buffer)]
        buffer[: len(data)] = data
        self.octets += len(data)
        return SimpleNamespace(count=len(data), eof=offset + len(data) == len(FILE), file_attributes=None)


def opened(tail: int) -> tuple[BufferedNfsFile, Reading]:
    reading = Reading()
    sizes = TransferSizes(read_max=BLOCK, read=BLOCK, write=BLOCK, listing=PAGE, names=PAGE)
    volume: Any = SimpleNamespace(server="", options=FileOptions(), procedures=reading, start=asyncio.ensure_future)
    volume.sizes = AsyncMock(return_value=sizes)
    file = NfsFile(volume, Node(v3.nfs_fh3(b"file"), None, "/file"), parse_open_mode("rb"), sizes, len(FILE))
    system: Any = SimpleNamespace(loop=get_loop())
    return BufferedNfsFile(system, "/file", block_size=2 * BLOCK, opened=file, tail=FILE[len(FILE) - tail :]), reading


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["read", "readinto", "readline"]), st.none() | st.integers(0, len(FILE)), SIZES),
        max_size=40,
    ),
    tail=st.integers(0, BLOCK),
)
def test_of_any_reads_at_most_twice_their_octets_are_fetched(
    steps: list[tuple[str, int | None, int]], tail: int
) -> None:
    file, reading = opened(tail)
    asked = 0
    with file:
        for what, to, size in steps:
            position = file.tell() if to is None else file.seek(to)
            rest = FILE[position : position + size]
            if what == "readinto":
                buffer = bytearray(size)
                assert file.readinto(buffer) == len(rest)
                assert buffer[: len(rest)] == rest
                asked += size
            elif what == "readline":
                line = rest[: rest.find(b"\n") + 1 or len(rest)]
                assert file.readline(size) == line
                asked += len(line) + LINES
            else:
                assert file.read(size) == rest
                asked += size
            assert file.tell() == position + len(line if what == "readline" else rest)
    runs = sum(to is not None or what == "readline" for what, to, _ in steps) + 1
    assert reading.octets <= 2 * asked + runs * PAGE


async def all_arrived() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_after_a_read_that_failed_the_octets_before_it_are_the_files_own() -> None:
    failures = 0
    for fails in range(10):
        file, reading = opened(0)
        reading.fails = fails
        position = 0
        with file:
            while position < len(FILE):
                try:
                    assert file.read(3 * PAGE) == FILE[position : position + 3 * PAGE]
                except OSError:
                    failures += 1
                    sync(get_loop(), all_arrived)
                    file.seek(max(0, position - PAGE))
                    assert file.read(PAGE) == FILE[max(0, position - PAGE) :][:PAGE]
                position = file.seek(position + 3 * PAGE)
    assert failures == 10
