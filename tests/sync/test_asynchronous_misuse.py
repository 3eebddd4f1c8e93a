"""Asynchronous objects in the hands of synchronous code, or of another event loop: the error names the remedy."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rpcrdma
from rpcrdma import sync
from rpcrdma.errors import LocalProtocolError
from rpcrdma.nfs import v3
from rpcrdma.nfs.client import NfsFile, NfsFilesystem
from rpcrdma.nfs.client.streams.read_ahead import ReadAhead
from rpcrdma.sync import background_loop

if TYPE_CHECKING:
    from conftest import Running


@pytest.fixture
def fs(running: Running) -> Iterator[NfsFilesystem]:
    """Of the loop of `rpcrdma.sync`, which goes on: another than those of the tests."""
    with sync.nfs_open(running.url) as filesystem:
        yield filesystem._asynchronous


@pytest.mark.thorough
async def test_synchronous_uses_of_files_and_blocks(running: Running, folder: Path) -> None:
    (folder / "f").write_text("a,b\n")
    remedy = r"is asynchronous: write `async with`, .* rpcrdma\.sync"
    async with rpcrdma.nfs_open(running.url) as fs, await fs.open(f"{folder.name}/f") as file:
        # As `pandas.api.types.is_file_like` looks at everything that pandas is to read or write.
        with pytest.raises(TypeError, match=r"NfsFile is asynchronous: write `async for`, .* rpcrdma\.sync"):
            hasattr(file, "__iter__")
        # Python's own words, until 3.14.
        with pytest.raises(TypeError, match=r"'NfsFile' object is not iterable|NfsFile is asynchronous"):
            csv.reader(file)
        for entered in (rpcrdma.nfs_open(running.url), rpcrdma.connect(running.url), fs, fs.connection, file):
            with pytest.raises(TypeError, match=remedy):
                entered.__enter__()
            # Python's own words, from 3.14 on.
            with pytest.raises(TypeError, match=rf"{remedy}|Did you mean to use 'async with'"), entered:
                pass
        assert [line async for line in file] == [b"a,b\n"]


@pytest.mark.thorough
def test_calls_outside_of_a_loop_and_in_another(fs: NfsFilesystem, folder: Path) -> None:
    with pytest.raises(LocalProtocolError, match=r"outside of an event loop; .* rpcrdma\.sync"):
        fs.caller.call(v3.NULL, None)  # never awaited, and yet it is told
    with pytest.raises(LocalProtocolError, match=r"belongs to the event loop that has opened it.* rpcrdma\.sync"):
        asyncio.run(fs.stat("."))
    (folder / "f").write_bytes(bytes(100))
    with background_loop.claimed_loop() as loop:
        file: NfsFile = loop.run(lambda: fs.open(f"{folder.name}/f", "r+b"))
        for use in (lambda: file.read(10), file.stat, lambda: file.pread(10, 0)):
            with pytest.raises(LocalProtocolError, match="belongs to the event loop"):
                asyncio.run(use())
        assert loop.run(lambda: file.read(10)) == bytes(10)
        loop.run(file.close)


@pytest.mark.thorough
def test_synchronous_connections_in_asynchronous_clients(running: Running) -> None:
    with sync.nfs_open(running.url) as fs:
        v3.NFS_V3_SyncClient(fs.connection).null()
        root, _ = fs.handle_of("/")
        with pytest.raises(TypeError, match=r"NfsFilesystem is asynchronous, and .*: use rpcrdma\.sync"):
            NfsFilesystem(fs.connection, root)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"NFS_V3_Client is asynchronous, and .*: use NFS_V3_SyncClient"):
            v3.NFS_V3_Client(fs.connection)  # type: ignore[arg-type]


def test_a_read_in_flight_of_another_loop_is_not_waited_for() -> None:
    async def fetch(_offset: int, _buffer: memoryview) -> tuple[int, bool]:
        await asyncio.get_running_loop().create_future()
        return 0, True

    async def unasked(_end: int) -> int:
        raise AssertionError

    with background_loop.claimed_loop() as loop:

        async def begin() -> tuple[ReadAhead, asyncio.Task[Any]]:
            ahead = ReadAhead(fetch, unasked, asyncio.ensure_future, block=100, blocks=2, size=1000)
            reading = asyncio.ensure_future(ahead.at(0, 10, 0))
            await asyncio.sleep(0)
            return ahead, reading

        ahead, reading = loop.run(begin)
        with pytest.raises(LocalProtocolError, match="belongs to the event loop"):
            asyncio.run(ahead.at(0, 10, 0))

        async def end() -> None:
            for block in list(ahead._row):
                block.task.cancel()
            await asyncio.gather(reading, return_exceptions=True)

        loop.run(end)
