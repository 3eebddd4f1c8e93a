"""Blocks of remote files: ranges that are fetched once, shared, bounded, and fetched ahead of readers in sequence."""

from __future__ import annotations

import asyncio
import errno
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from rpcrdma.nfs.export.export_limits import (
    NFS_FSSPEC_AHEAD_FETCHES_MAX,
    NFS_FSSPEC_AHEAD_OCTETS_MAX,
    NFS_FSSPEC_READERS_MAX,
)
from rpcrdma.nfs.export.read_ahead import BLOCK_OCTETS, BlockCache
from rpcrdma.nfs.export.tree import Refused
from support.cases import each_case

MIB = 1 << 20
CONTENT = random.Random(1).randbytes(2 * MIB) * 12


@dataclass
class Remote:
    """A file that notes the ranges fetched."""

    content: bytes = CONTENT
    handle: bytes = b"file"
    change: int = 1
    fetched: list[tuple[int, int]] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    @property
    def size(self) -> int:
        return len(self.content)

    def fetch(self, start: int, end: int) -> bytes:
        self.fetched.append((start, end))
        self.before()
        assert 0 <= start < end <= self.size
        return self.content[start:end]


class Later:
    """Holds the fetches ahead until they are run."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def __call__(self, run: Callable[[], None]) -> None:
        self.held.append(run)

    def run(self) -> int:
        held, self.held = self.held, []
        for each in held:
            each()
        return len(held)


def read(cache: BlockCache, file: Remote, offset: int, octets: int, *, at_once: bool = False) -> bytes:
    into = bytearray(b"-" * octets)
    got = cache.read(file, memoryview(into), offset, at_once=at_once)
    assert into[got:] == b"-" * (octets - got)
    return bytes(into[:got])


def test_random_reads_give_the_octets_of_the_file() -> None:
    cache, file, draw = BlockCache(4 * MIB), Remote(CONTENT[: 3 * MIB + 77]), random.Random(2)
    for _ in range(300):
        offset, octets = draw.randrange(file.size + 1000), draw.choice([1, 100, 4096, 70_000, MIB])
        assert read(cache, file, offset, octets) == file.content[offset : offset + octets]


def test_a_small_read_fetches_its_block_once_and_nothing_behind_it() -> None:
    later = Later()
    cache, file = BlockCache(start=later), Remote()
    at = 5 * MIB + 10
    for _ in range(2):
        assert read(cache, file, at, 100) == CONTENT[at : at + 100]
    assert file.fetched == [(5 * MIB, 5 * MIB + BLOCK_OCTETS)]
    for other in (20 * MIB, 11 * MIB, 2 * MIB, 17 * MIB):
        read(cache, file, other, 4096)
    assert not later.held


def test_a_read_over_blocks_that_are_there_in_part_fetches_the_others_in_runs() -> None:
    cache, file = BlockCache(start=Later()), Remote()
    read(cache, file, 3 * BLOCK_OCTETS, 1)
    file.fetched.clear()
    assert read(cache, file, 100, MIB) == CONTENT[100 : 100 + MIB]
    assert file.fetched == [(0, 3 * BLOCK_OCTETS), (4 * BLOCK_OCTETS, 9 * BLOCK_OCTETS)]


def test_at_once_gives_the_octets_in_memory_up_to_the_first_gap() -> None:
    cache, file = BlockCache(start=Later()), Remote()
    assert read(cache, file, 0, 100, at_once=True) == b""
    read(cache, file, 0, BLOCK_OCTETS)
    read(cache, file, 2 * BLOCK_OCTETS, 1)
    file.fetched.clear()
    assert read(cache, file, 10, MIB, at_once=True) == CONTENT[10:BLOCK_OCTETS]
    assert read(cache, file, 10, 50, at_once=True) == CONTENT[10:60]
    assert not file.fetched


def test_another_state_of_a_file_shares_no_blocks_with_the_last() -> None:
    cache = BlockCache(start=Later())
    assert read(cache, Remote(b"old", change=1), 0, 10) == b"old"
    assert read(cache, Remote(b"new!", change=2), 0, 10) == b"new!"
    assert read(cache, Remote(b"other", handle=b"another"), 0, 10) == b"other"


def test_a_reader_in_sequence_finds_its_next_octets_in_memory() -> None:
    later = Later()
    cache, file = BlockCache(start=later), Remote()
    waits = 0
    for offset in range(0, file.size, 256 << 10):
        before = read(cache, file, offset, 256 << 10, at_once=True)
        if len(before) < 256 << 10:
            waits += 1
            read(cache, file, offset + len(before), (256 << 10) - len(before))
        later.run()
    assert waits <= 2
    assert min(file.fetched)[0] == 0
    assert sum(end - start for start, end in file.fetched) == file.size
    assert max(end - start for start, end in file.fetched) <= NFS_FSSPEC_AHEAD_OCTETS_MAX
    assert len(file.fetched) < 16


def test_a_reader_of_small_pieces_waits_for_few_blocks() -> None:
    later = Later()
    cache, file = BlockCache(start=later), Remote()
    waits = 0
    for offset in range(0, 4 * MIB, 4096):
        if len(read(cache, file, offset, 4096, at_once=True)) < 4096:
            waits += 1
            read(cache, file, offset, 4096)
        later.run()
    assert waits <= 2
    assert len(set(file.fetched)) == len(file.fetched) < 20


def test_no_more_is_fetched_ahead_than_the_window() -> None:
    later = Later()
    cache, file = BlockCache(start=later), Remote()
    for offset in range(0, 4 * MIB, MIB):
        read(cache, file, offset, MIB)
        later.run()
    assert max(end for _, end in file.fetched) <= 4 * MIB + NFS_FSSPEC_AHEAD_OCTETS_MAX


def test_few_fetches_ahead_run_at_a_time_and_readers_do_not_wait_for_a_turn() -> None:
    later = Later()
    cache = BlockCache(start=later)
    files = [Remote(handle=b"%d" % number) for number in range(2 * NFS_FSSPEC_AHEAD_FETCHES_MAX)]
    for offset in (0, MIB, 2 * MIB):
        for file in files[::-1]:
            if offset < 2 * MIB or file not in files[-NFS_FSSPEC_AHEAD_FETCHES_MAX:]:
                assert read(cache, file, offset, MIB) == CONTENT[offset : offset + MIB]
    assert len(later.held) == NFS_FSSPEC_AHEAD_FETCHES_MAX
    assert later.run() == NFS_FSSPEC_AHEAD_FETCHES_MAX
    read(cache, files[0], 3 * MIB, MIB)
    assert len(later.held) == 1


def test_memory_is_bounded_and_the_latest_blocks_stay() -> None:
    cache, file = BlockCache(8 * BLOCK_OCTETS, Later()), Remote()
    for index in range(50):
        read(cache, file, index * BLOCK_OCTETS, 1)
        read(cache, file, 0, 1)
    assert cache._held == sum(map(len, cache._blocks.values())) <= 8 * BLOCK_OCTETS
    assert len(read(cache, file, 0, 1, at_once=True)) == 1
    assert read(cache, file, 49 * BLOCK_OCTETS, 1, at_once=True) == CONTENT[49 * BLOCK_OCTETS :][:1]
    assert read(cache, file, 30 * BLOCK_OCTETS, 1, at_once=True) == b""
    assert read(cache, file, 0, 4 * MIB) == CONTENT[: 4 * MIB]
    assert cache._held <= 8 * BLOCK_OCTETS


def test_the_readers_remembered_are_bounded() -> None:
    cache = BlockCache(start=Later())
    for number in range(NFS_FSSPEC_READERS_MAX + 50):
        read(cache, Remote(b"x", handle=b"%d" % number), 0, 1)
    assert len(cache._readers) == NFS_FSSPEC_READERS_MAX


def test_an_error_is_raised_for_its_reader_and_the_next_one_tries_again() -> None:
    cache, file = BlockCache(start=Later()), Remote()

    def fail() -> None:
        raise Refused(errno.EIO)

    file.before = fail
    with pytest.raises(Refused):
        read(cache, file, 0, 10)
    file.before = lambda: None
    assert read(cache, file, 0, 10) == CONTENT[:10]


@each_case("error", [Refused(errno.EIO), asyncio.CancelledError()])
def test_an_error_ahead_is_left_to_the_reader_who_comes_there(error: BaseException) -> None:
    later = Later()
    cache, file = BlockCache(start=later), Remote()
    read(cache, file, 0, MIB)
    read(cache, file, MIB, MIB)

    def fail() -> None:
        raise error

    file.before = fail
    assert later.run() == 1
    assert not cache._on_the_way, "or readers would wait for ever"
    file.before = lambda: None
    assert read(cache, file, 2 * MIB, MIB) == CONTENT[2 * MIB : 3 * MIB]


def test_a_process_without_a_thread_left_reads_on() -> None:
    results: list[bytes] = []

    def no_thread(run: Callable[[], None]) -> None:
        if not readers:
            # Another reader comes to the blocks after the claim, and waits for them.
            (fetch, *_), waits = cache._on_the_way.values(), threading.Event()
            wait = fetch.done.wait

            def waited(timeout: float | None = None) -> bool:
                waits.set()
                return wait(timeout)

            fetch.done.wait = waited  # type: ignore[method-assign]
            readers.append(threading.Thread(target=lambda: results.append(read(cache, file, fetch.start, MIB))))
            readers[0].start()
            assert waits.wait(60)
        raise RuntimeError("can't start new thread")

    cache, file, readers = BlockCache(start=no_thread), Remote(), list[threading.Thread]()
    for offset in range(0, 6 * MIB, MIB):
        assert read(cache, file, offset, MIB) == CONTENT[offset : offset + MIB]
    readers[0].join(60)
    assert results == [CONTENT[2 * MIB : 3 * MIB]]
    assert cache._ahead == 0


def test_without_memory_for_blocks_readers_read_on() -> None:
    class Full(bytes):
        def __getitem__(self, _at: Any) -> Any:
            raise MemoryError

    def no_memory(_run: Callable[[], None]) -> None:
        raise MemoryError

    cache, file = BlockCache(start=no_memory), Remote()
    file.fetch = lambda start, end: Full(CONTENT[start:end])  # type: ignore[method-assign]
    for offset in range(0, 3 * MIB, MIB):
        assert read(cache, file, offset, MIB) == CONTENT[offset : offset + MIB]
        assert not cache._on_the_way, "or readers would wait for ever"
    assert (cache._ahead, cache._held) == (0, 0)


def test_readers_of_one_block_share_one_fetch() -> None:
    cache, file = BlockCache(start=Later()), Remote()
    fetching, go = threading.Event(), threading.Event()

    def wait() -> None:
        fetching.set()
        assert go.wait(60)

    file.before = wait
    results: list[bytes] = []
    looks: list[object] = []
    fetched = cache._fetched
    cache._fetched = lambda *each: looks.append(each) or fetched(*each)  # type: ignore[method-assign,func-returns-value]
    readers = [threading.Thread(target=lambda: results.append(read(cache, file, 7, 100))) for _ in range(3)]
    readers[0].start()
    assert fetching.wait(60)
    for reader in readers[1:]:
        reader.start()
    # A reader of another range does not wait for them.
    file.before = lambda: None
    assert read(cache, file, 10 * MIB, 10) == CONTENT[10 * MIB : 10 * MIB + 10]
    go.set()
    for reader in readers:
        reader.join(60)
    assert results == [CONTENT[7:107]] * 3
    assert len(looks) <= 4, "a reader that waits looks no more than once"
    assert file.fetched == [(0, BLOCK_OCTETS), (10 * MIB, 10 * MIB + BLOCK_OCTETS)]
