"""One open file, used by several callers: turns at the position; and lines, and losses without `close`."""

from __future__ import annotations

import asyncio
import io
import itertools
import warnings
from asyncio import run
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.v3 import nfsstat3
from support.cases import each_case
from support.loops import asynchronous
from support.octets import pattern
from support.waiting import until

BLOCK = 1 << 16


@each_case("size", [10, BLOCK // 2 + 3, 3 * BLOCK])
async def test_concurrent_reads_follow_each_other(new_server: Any, size: int) -> None:
    server, mounted = new_server()
    data = pattern(10 * size)
    server.put("/file", data)
    async with await mounted(read_ahead_blocks=2).open("/file") as file:
        buffer = bytearray(size)
        found = await asyncio.gather(
            file.read(size), file.read(size), file.readinto(buffer), file.seek(size, io.SEEK_CUR), file.read(size)
        )
        assert found[:2] == [data[:size], data[size : 2 * size]]
        assert (found[2], buffer) == (size, data[2 * size : 3 * size])
        assert found[3:] == [4 * size, data[4 * size : 5 * size]]
        assert file.tell() == 5 * size


def test_concurrent_writes_and_iterations_follow_each_other(server: Any, mounted: Any) -> None:
    pieces = [bytes([65 + number]) * (BLOCK // 3) for number in range(20)]

    async def work() -> None:
        fs = mounted(write_behind_blocks=1, uncommitted_octets_max=2 * BLOCK)
        async with await fs.open("/file", "wb") as file:
            assert await asyncio.gather(*(file.write(piece) for piece in pieces)) == [len(pieces[0])] * 20
            assert file.tell() == 20 * len(pieces[0])

    run(work())
    assert bytes(server.at("/file").data) == b"".join(pieces)
    lines = [b"line %d\n" % number for number in range(8_000)]
    server.put("/file", b"".join(lines))

    async def work() -> None:
        async with await mounted().open("/file") as file:

            async def some() -> list[bytes]:
                return [line async for line in file]

            found = await asyncio.gather(some(), some(), some())
            assert sorted(itertools.chain(*found)) == sorted(lines)

    run(work())


async def test_what_is_written_meanwhile_is_not_hidden_by_what_was_read_ahead(server: Any, mounted: Any) -> None:
    server.put("/file", b"old line\n" * 1000)
    for how in ("read", "readline"):
        async with await mounted().open("/file", "r+b") as file:
            await asyncio.gather(getattr(file, how)(5), file.pwrite(b"new line " * 2, 0))
            await file.seek(0)
            assert await file.read(18) == b"new line new line "
            await file.seek(9)
            assert await file.readline(5) == b"new l"
            await file.pwrite(b"old line\n" * 2, 0)


async def test_what_is_written_meanwhile_counts_for_the_size_that_the_server_tells(server: Any, mounted: Any) -> None:
    async with await mounted().open("/file", "a+b") as file:
        await file.write(b"12")
        await file.flush()
        server.calls.clear()
        server.hold["GETATTR"] = asyncio.Event()
        asking = asyncio.ensure_future(file.stat())
        await until(lambda: server.calls["GETATTR"])
        await file.write(b"345")
        server.hold.pop("GETATTR").set()
        assert (await asking).st_size == 2
        assert file.tell() == file.size == 5
    assert bytes(server.at("/file").data) == b"12345"


@each_case("how", ["fails", "is cancelled"])
async def test_a_read_that_comes_to_nothing_leaves_the_position(new_server: Any, how: str) -> None:
    server, mounted = new_server()
    data = pattern(8 * BLOCK)
    server.put("/file", data)
    async with await mounted(read_ahead_blocks=1).open("/file") as file:
        assert await file.read(BLOCK) == data[:BLOCK]
        if how == "fails":
            server.answers["READ"] = [nfsstat3.NFS3_OK, nfsstat3.NFS3ERR_IO]
            reads = [asyncio.ensure_future(file.read(6 * BLOCK)), asyncio.ensure_future(file.read(5))]
            with pytest.raises(NfsError):
                await reads[0]
        else:
            server.hold["READ"] = asyncio.Event()
            await file.seek(5 * BLOCK)
            reads = [asyncio.ensure_future(file.read(5)) for _ in range(3)]
            await until(lambda: server.in_flight)
            # Of the waiting ones, too: their turns pass on.
            reads[1].cancel()
            reads[0].cancel()
            server.hold.pop("READ").set()
        position = BLOCK if how == "fails" else 5 * BLOCK
        assert await reads[-1] == data[position : position + 5]
        assert file.tell() == position + 5
        await asyncio.gather(*reads, return_exceptions=True)


async def test_a_turn_that_is_cancelled_as_it_comes_passes_on(server: Any, mounted: Any) -> None:
    server.put("/file", b"0123456789")
    async with await mounted().open("/file") as file:
        position = file._position
        with position:
            second, third = (asyncio.ensure_future(file.read(3)) for _ in range(2))
            await asyncio.sleep(0)
        # Its turn has come, and it has not heard of it.
        second.cancel()
        assert await third == b"012"
        assert position.free


SMALL = 4096
OFFSETS = st.integers(0, 4 * SMALL)
LINES = st.lists(st.sampled_from([b"", b"a", b"some words", b"x" * 5000, b"\r", b"\0" * 100]), max_size=12)
STEPS = st.lists(
    st.tuples(st.sampled_from(["readline", "limited", "readlines", "next", "read", "seek", "write"]), OFFSETS),
    max_size=30,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, end=st.booleans(), steps=STEPS, blocks=st.integers(1, 3))
@asynchronous
async def test_lines_agree_with_a_file_in_memory(
    new_server: Any, lines: list[bytes], end: bool, steps: list[tuple[str, int]], blocks: int
) -> None:
    server, mount = new_server()
    model = io.BytesIO(b"\n".join(lines) + b"\n" * end)
    server.put("/file", model.getvalue())
    server.read_max = server.write_max = SMALL
    async with await mount(read_ahead_blocks=blocks).open("/file", "r+b") as file:
        for what, number in steps:
            if what == "readline":
                assert await file.readline() == model.readline()
            elif what == "limited":
                assert await file.readline(number % 20) == model.readline(number % 20)
            elif what == "readlines":
                assert await file.readlines(number % 50) == model.readlines(number % 50)
            elif what == "next":
                assert await anext(file, b"") == next(model, b"")
            elif what == "read":
                assert await file.read(number % 100) == model.read(number % 100)
            elif what == "seek":
                assert await file.seek(number) == model.seek(number)
            else:
                assert await file.write(b"new\n" * 3) == model.write(b"new\n" * 3)
            assert file.tell() == model.tell()
        await file.seek(0)
        model.seek(0)
        assert [line async for line in file] == list(model)


async def test_lines_are_cut_in_memory(server: Any, mounted: Any) -> None:
    server.put("/file", b"some words of one line\n" * 20_000)
    async with await mounted().open("/file") as file:
        assert len(await file.readlines()) == 20_000
    assert server.calls["READ"] == -(-23 * 20_000 // BLOCK)


def dropped(server: Any, mounted: Any, write: Any) -> list[str]:
    """The warning that comes at once when the last name of a file with unsynchronised data is removed."""
    server.put("/file")

    async def work() -> list[str]:
        async with mounted() as fs:
            file = await fs.open("/file", "r+b")
            await write(file)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                del file
            assert all(issubclass(warning.category, ResourceWarning) for warning in caught)
            assert all(warning.filename == __file__ for warning in caught)
            return [str(warning.message) for warning in caught]

    return run(work())


@each_case(
    ("octets", "lost"),
    [
        (1234, "1,234 octets written to it are lost"),
        (
            3 * BLOCK + 5,
            "5 octets written to it are lost; 196,608 octets may get lost, which the server has not committed",
        ),
    ],
)
def test_a_writer_that_is_dropped_says_what_is_lost(new_server: Any, octets: int, lost: str) -> None:
    async def write(file: Any) -> None:
        await file.write(b"x" * octets)

    assert dropped(*new_server(), write) == [f"/file: unclosed: {lost}"]


@each_case(
    ("call", "method", "lost"),
    [
        ("WRITE", "close", "closing was not completed: 65,541 octets may get lost, which the server has not committed"),
        ("READ", "read", "unclosed: 7 octets written to it are lost"),
    ],
)
def test_a_writer_with_a_cancelled_call_says_what_is_lost(new_server: Any, call: str, method: str, lost: str) -> None:
    async def work(file: Any) -> None:
        if call == "WRITE":
            await file.write(b"x" * (BLOCK + 5))
        server.hold[call] = asyncio.Event()
        calling = asyncio.ensure_future(getattr(file, method)())
        await until(lambda: server.in_flight)
        calling.cancel()
        await asyncio.wait({calling})
        assert calling.cancelled()
        if call == "READ":
            await file.write(b"x" * 7)

    server, mounted = new_server()
    assert dropped(server, mounted, work) == [f"/file: {lost}"]


@each_case("end", ["close", "flush", "nothing"])
def test_a_file_that_loses_nothing_is_dropped_in_silence(new_server: Any, end: str) -> None:
    server, mounted = new_server()

    async def write(file: Any) -> None:
        if end != "nothing":
            await file.write(b"x")
            await getattr(file, end)()
        if end != "close":
            await file.seek(0)
            await file.read()

    assert dropped(server, mounted, write) == []
