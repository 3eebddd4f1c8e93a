"""Reading ahead begins after sequential reads, and random reads fetch the octets that they ask for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsspec_server import Served
from rpcrdma.fsspec.sequential_cache import SequentialCache
from rpcrdma.nfs.client.procedures import NfsProcedures

PAGE = 4096
BLOCK = 16 * PAGE
MIB = 1 << 20
FILE = random.Random(19).randbytes(200 * PAGE)


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


@given(
    steps=st.lists(st.tuples(st.none() | st.integers(0, len(FILE)), st.integers(0, 3 * BLOCK)), max_size=40),
    tail=st.integers(0, BLOCK),
)
def test_of_any_reads_at_most_twice_their_octets_are_fetched(steps: list[tuple[int | None, int]], tail: int) -> None:
    fetched: list[int] = []

    def fetch(start: int, stop: int) -> bytes:
        fetched.append(stop - start)
        return FILE[start:stop]

    cache = SequentialCache(BLOCK, fetch, len(FILE))
    cache.hold(len(FILE) - tail, FILE[len(FILE) - tail :])
    position = 0
    for to, size in steps:
        position = position if to is None else to
        found = cache._fetch(position, position + size)
        assert found == FILE[position : position + size]
        position += len(found)
    runs = sum(to is not None for to, _ in steps) + 1
    assert sum(fetched) <= 2 * sum(size for _, size in steps) + runs * PAGE
