"""Open files: modes, positions, and reading ahead."""

from __future__ import annotations

import array
import asyncio
import ctypes
import io
from asyncio import run
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcrdma.errors import RemoteProtocolError, TransportClosed
from rpcrdma.nfs.client.streams import read_ahead, write_behind
from rpcrdma.nfs.client.streams.direct_calls import LentMemory
from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.v3 import READ3resok, nfsstat3, post_op_attr
from support.cases import each_case
from support.loops import asynchronous
from support.octets import pattern

BLOCK = 1 << 16


def test_what_is_opened_must_exist_and_be_no_directory(server: Any, mounted: Any) -> None:
    server.folder("/dir")
    for path, modes, kind in (
        ("/none", ("rb", "r+b"), FileNotFoundError),
        ("/dir", ("rb", "wb", "ab", "r+b"), IsADirectoryError),
    ):
        for mode in modes:
            with pytest.raises(kind):
                run(mounted().open(path, mode))


async def test_a_negative_offset_is_refused_at_once_and_spoils_no_file(server: Any, mounted: Any) -> None:
    server.put("/file", b"as it was")
    fs = mounted()
    entry = await fs.entry("/file")
    async with await fs.open("/file", "r+b") as file:
        for call in (
            fs.read_bytes("/file", offset=-1),
            fs.read_unchanged(entry, offset=-1, size=0),
            # No buffer is made of that size.
            fs.read_unchanged(entry, offset=-(1 << 62)),
            fs.read_into("/file", bytearray(4), -1),
            file.pread(4, -1),
            file.pread(0, -1),
            file.pread_ahead(4, -1, 0),
            file.pread_ahead(4, 0, -1),
            file.preadinto(bytearray(4), -1),
            file.pwrite(b"data", -1),
        ):
            with pytest.raises(ValueError, match=r"negative offset (-|0 or ahead -1)"):
                await call
    assert await fs.read_bytes("/file") == b"as it was"


@each_case(
    ("mode", "granted", "allowed"),
    [("rb", 0x01, True), ("rb", 0x0C, False), ("ab", 0x0C, True), ("ab", 0x04, False), ("r+b", 0x0C, False)],
)
def test_what_will_be_refused_is_refused_when_opening(new_server: Any, mode: str, granted: int, allowed: bool) -> None:
    server, mounted = new_server()
    server.put("/file")
    server.granted = granted

    async def work() -> None:
        await (await mounted().open("/file", mode)).close()

    if allowed:
        run(work())
    else:
        with pytest.raises(PermissionError):
            run(work())


async def test_writing_replaces_appending_does_not_and_the_file_knows_its_size(server: Any, mounted: Any) -> None:
    thing = server.put("/file", b"old content")
    fs = mounted()
    async with await fs.open("/file", "wb") as file:
        assert await file.write(b"new") == 3
    async with await fs.open("/file", "ab") as file:
        assert file.tell() == 3
        await file.write(b"er")
    async with await fs.open("/new", "wb", permissions=0o600) as file:
        assert file.name == "/new"
        assert (file.readable(), file.writable(), file.seekable()) == (False, True, True)
    assert bytes(thing.data) == b"newer"
    assert server.at("/new").mode == 0o600
    async with await mounted().open("/file", "r+b") as file:
        assert file.size == 5
        await file.pwrite(b"45", 6)
        assert file.size == 8
        await file.truncate(1)
        assert file.size == 1


@each_case("exclusive", [True, False])
async def test_exclusive_creation(new_server: Any, exclusive: bool) -> None:
    server, mounted = new_server()
    server.exclusive = exclusive
    fs = mounted()
    async with await fs.open("/file", "xb", permissions=0o640) as file:
        await file.write(b"1")
    with pytest.raises(FileExistsError):
        await fs.open("/file", "xb")
    thing = server.at("/file")
    assert (thing.mode, bytes(thing.data), len(thing.verifier)) == (0o640, b"1", 8 if exclusive else 0)


async def test_a_file_does_only_what_it_was_opened_for(server: Any, mounted: Any) -> None:
    server.put("/file", b"123")
    fs = mounted()
    async with await fs.open("/file") as file:
        with pytest.raises(io.UnsupportedOperation):
            await file.write(b"x")
        with pytest.raises(io.UnsupportedOperation):
            await file.truncate()
    for refused in (file.read(), file.flush(), file.seek(0), file.stat(), file.pread(1, 0)):
        with pytest.raises(ValueError, match="closed"):
            await refused
    await file.close()
    assert file.closed
    async with await fs.open("/file", "ab") as file:
        with pytest.raises(io.UnsupportedOperation):
            await file.read()


async def test_appending_writes_at_the_end_wherever_the_position_is(server: Any, mounted: Any) -> None:
    thing = server.put("/file", b"12")
    async with await mounted().open("/file", "a+b") as file:
        await file.seek(0)
        assert await file.write(b"3") == 1
        assert file.tell() == 3
        await file.seek(0)
        assert await file.read(1) == b"1"
        await file.write(b"4")
        assert await file.truncate(3) == 3
        await file.write(b"5")
        assert await file.read() == b""
        with pytest.raises(ValueError, match="negative size -1"):
            await file.truncate(-1)
    assert bytes(thing.data) == b"1235"


async def test_seeking(server: Any, mounted: Any) -> None:
    server.put("/file", b"0123456789")
    async with await mounted().open("/file") as file:
        assert await file.seek(4) == 4
        assert await file.read(2) == b"45"
        assert await file.seek(-1, io.SEEK_CUR) == 5
        assert await file.seek(-2, io.SEEK_END) == 8
        assert await file.read() == b"89"
        assert await file.read() == b""
        assert await file.seek(100) == 100
        assert await file.read(1) == b""
        with pytest.raises(ValueError, match="negative"):
            await file.seek(-1)
        with pytest.raises(ValueError, match="whence"):
            await file.seek(0, 7)


@each_case("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 7 * BLOCK, 20 * BLOCK + 5])
async def test_every_way_of_reading_gives_the_same(new_server: Any, size: int) -> None:
    server, mounted = new_server()
    data = pattern(size)
    server.put("/file", data)
    fs = mounted()
    assert await fs.read_bytes("/file") == data
    async with await fs.open("/file") as file:
        assert b"".join([chunk async for chunk in file]) == data
    async with await fs.open("/file") as file:
        assert b"".join([bytes(view) async for view in file.views()]) == data
    async with await fs.open("/file") as file:
        pieces = []
        while piece := await file.read(1000):
            pieces.append(piece)
        assert b"".join(pieces) == data
    for length in (10, size + 10, 2 * size + 30 * BLOCK):
        async with await fs.open("/file") as file:
            buffer = bytearray(length)
            assert await file.readinto(buffer) == min(length, size)
            assert buffer == data[:length].ljust(length, b"\0")
            assert file.tell() == min(length, size)
            assert await file.pread(length, 0) == data[:length]
            assert await file.preadinto(buffer, 0) == min(length, size)
    into = array.array("I", bytes(4 * (size // 4)))
    assert await fs.read_into("/file", into) == into.itemsize * len(into)
    assert into.tobytes() == data[: size // 4 * 4]
    rest = bytearray(size)
    assert await fs.read_into("/file", rest, size // 2) == size - size // 2
    assert rest[: size - size // 2] == data[size // 2 :]


@each_case("at_most", [1000, BLOCK - 1])
@each_case("eof_exact", [True, False])
async def test_a_server_that_returns_less_is_asked_again(new_server: Any, at_most: int, eof_exact: bool) -> None:
    server, mounted = new_server()
    data = pattern(5 * BLOCK + 7)
    server.put("/file", data)
    server.read_at_most = at_most
    server.eof_exact = eof_exact
    fs = mounted()
    assert await fs.read_bytes("/file") == data
    buffer = bytearray(len(data) + 10)
    assert await fs.read_into("/file", buffer) == len(data)
    assert buffer[:-10] == data


def test_a_server_that_returns_nothing_or_miscounts_is_found_out(server: Any, mounted: Any) -> None:
    server.put("/file", b"123")
    server.read = lambda args: READ3resok(post_op_attr(False, None), 0, False, b"")
    with pytest.raises(RemoteProtocolError, match="nothing before the end"):
        run(mounted().read_bytes("/file"))
    server.read = lambda args: READ3resok(post_op_attr(False, None), 2, True, b"123")
    with pytest.raises(RemoteProtocolError, match="count of 2 and 3 octets"):
        run(mounted().read_bytes("/file"))


@each_case("attributes", [True, False])
async def test_a_stream_from_a_server_that_never_tells_the_end_ends_behind_the_size(
    new_server: Any, attributes: bool
) -> None:
    server, mounted = new_server()
    server.put("/file", pattern(3 * BLOCK))
    server.give_attributes = attributes

    def read(args: Any) -> Any:
        assert server.calls["READ"] < 100, "far more than the stream may take"
        return READ3resok(server.attributes(server.find(args.file)), args.count, False, bytes(args.count))

    server.read = read
    async with await mounted().open("/file") as file:
        with pytest.raises(RemoteProtocolError, match=f"data beyond the size of the file, {3 * BLOCK} octets, and"):
            await file.read()


async def test_a_stream_of_a_file_that_grows_goes_on_to_its_new_end(server: Any, mounted: Any) -> None:
    grown = server.put("/file", pattern(10))
    async with await mounted().open("/file") as file:
        grown.data = pattern(5 * BLOCK)
        assert await file.read() == pattern(5 * BLOCK)
    assert server.calls["GETATTR"] <= 2


async def test_a_stream_of_a_file_that_is_cut_after_it_has_grown_ends(server: Any, mounted: Any) -> None:
    grown, read = server.put("/file", pattern(10)), server.read

    def read_and_cut(args: Any) -> Any:
        reply = read(args)
        grown.data = grown.data[:10]
        return reply

    async with await mounted().open("/file") as file:
        grown.data, server.read = pattern(5 * BLOCK), read_and_cut
        assert await file.read() == pattern(BLOCK)


def test_reading_ahead_grows_with_sequential_reading(server: Any, mounted: Any) -> None:
    server.put("/file", pattern(64 * BLOCK))

    async def work() -> int:
        async with await mounted(read_ahead_blocks=8).open("/file") as file:
            first = await file.read(100)
            assert len(first) == 100
            assert server.calls["READ"] == 1
            while await file.read(BLOCK // 2):
                pass
        return server.calls["READ"]

    assert run(work()) in range(64, 70)
    assert 8 <= server.in_flight_most <= 9


async def test_a_read_of_no_octets_brings_none_of_those_that_were_read_elsewhere(server: Any, mounted: Any) -> None:
    server.put("/file", data := pattern(3 * BLOCK))
    async with await mounted(read_ahead_blocks=2).open("/file") as file:
        found, rest = await file.pread_ahead(7, BLOCK, BLOCK)
        assert found + bytes(rest) == data[BLOCK : 2 * BLOCK]
        found, rest = await file.pread_ahead(0, BLOCK - 5, BLOCK)
        assert (found, bytes(rest)) == (b"", b"")


@each_case("size", [0, 1, 7, 3 * BLOCK, 40 * BLOCK + 1])
@each_case("how", ["read", "views"])
async def test_the_rest_of_a_file_takes_no_more_calls_than_it_has_blocks(new_server: Any, size: int, how: str) -> None:
    server, mounted = new_server()
    server.put("/file", pattern(size))
    async with await mounted(read_ahead_blocks=8).open("/file") as file:
        found = await file.read() if how == "read" else b"".join([bytes(view) async for view in file.views()])
        assert found == pattern(size)
    assert server.calls["READ"] <= size // BLOCK + 1
    # Those ahead, and the one that is waited for.
    assert (server.in_flight_most == 8 + 1) == (size > 8 * BLOCK)


async def test_a_file_is_read_and_written_once_there_is_memory_again(
    server: Any, mounted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put("/file", b"data")

    def full(_octets: int) -> None:
        raise MemoryError

    async with await mounted().open("/file", "r+b") as file:
        left = file._behind._left
        with monkeypatch.context() as patched:
            for module in (read_ahead, write_behind):
                patched.setattr(module, "PooledMemory", full)
            for _ in range(20):
                for call in (file.read(1), file.write(b"1")):
                    with pytest.raises(MemoryError):
                        await call
        assert await file.read() == b"data"
        assert file._behind._left == left


def test_memory_that_is_collected_is_not_closed() -> None:
    """The file that it is the buffer of may be collected after it; errors of closing it would be printed."""
    memory = LentMemory(b"data")
    memory.__del__()
    assert not memory.closed


def fetched_from(server: Any) -> list[int]:
    """The octets of each READ, as the client makes them."""
    counts: list[int] = []
    server.before = lambda name, args: counts.append(args.count) if name == "READ" else None
    return counts


async def test_random_reads_fetch_only_the_octets_that_they_ask_for(server: Any, mounted: Any) -> None:
    server.put("/file", pattern(64 * BLOCK))
    counts = fetched_from(server)
    async with await mounted().open("/file") as file:
        for block in (0, 40, 3, 22, 60, 11):
            await file.seek(block * BLOCK)
            assert len(await file.read(100)) == 100
        await file.seek(7)
        assert len(await file.read(3 * BLOCK)) == 3 * BLOCK
    assert counts[:6] == [100] * 6
    assert sum(counts[6:]) == 3 * BLOCK


SMALL = 4096


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    reads=st.lists(st.tuples(st.none() | st.integers(0, 40 * SMALL), st.integers(1, 3 * SMALL)), max_size=40),
    blocks=st.integers(1, 5),
)
@asynchronous
async def test_of_any_reads_at_most_twice_their_octets_are_fetched(
    new_server: Any, reads: list[tuple[int | None, int]], blocks: int
) -> None:
    server, mount = new_server()
    server.put("/file", pattern(200 * SMALL))
    server.read_max = SMALL
    counts = fetched_from(server)
    async with await mount(read_ahead_blocks=blocks).open("/file") as file:
        for position, size in reads:
            if position is not None:
                await file.seek(position)
            await file.read(size)
    asked = sum(size for _, size in reads)
    runs = sum(position is not None for position, _ in reads) + 1
    assert sum(counts) <= 2 * asked + runs * SMALL


OFFSETS = st.integers(0, 8 * SMALL)
READS = st.lists(st.tuples(st.sampled_from(["seek", "read", "readinto", "pread", "view"]), OFFSETS), max_size=40)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=OFFSETS, steps=READS, blocks=st.integers(1, 5), at_most=st.integers(1000, SMALL))
@asynchronous
async def test_reads_agree_with_a_file_in_memory(
    new_server: Any, size: int, steps: list[tuple[str, int]], blocks: int, at_most: int
) -> None:
    server, mount = new_server()
    model = io.BytesIO(pattern(size))
    server.put("/file", model.getvalue())
    server.read_max, server.read_at_most = SMALL, at_most
    async with await mount(read_ahead_blocks=blocks).open("/file") as file:
        for what, number in steps:
            if what == "seek":
                assert await file.seek(number) == model.seek(number)
            elif what == "read":
                assert await file.read(number) == model.read(number)
            elif what == "readinto":
                buffer, expected = bytearray(number), bytearray(number)
                assert await file.readinto(buffer) == model.readinto(expected)
                assert buffer == expected
            elif what == "pread":
                assert await file.pread(SMALL + 1, number) == model.getvalue()[number : number + SMALL + 1]
            else:
                async for view in file.views():
                    assert view == model.read(len(view))
                    break
            assert file.tell() == model.tell()
        assert await file.read() == model.read()


async def test_a_file_that_grows_or_shrinks_is_read_to_its_present_end(server: Any, mounted: Any) -> None:
    thing = server.put("/file", b"one")
    async with await mounted().open("/file") as file:
        assert await file.read(100) == b"one"
        assert await file.read(100) == b""
        thing.data += b"two"
        assert await file.read(100) == b"two"
        thing.data += pattern(3 * BLOCK)
        assert await file.read() == pattern(3 * BLOCK)
        assert await file.pread(4 * BLOCK, 6) == pattern(3 * BLOCK)
    thing = server.put("/file", pattern(10 * BLOCK))
    async with await mounted().open("/file") as file:
        await file.read(10)
        del thing.data[3 * BLOCK + 9 :]
        assert await file.read() == pattern(3 * BLOCK + 9)[10:]
    # Also between the reads of one call.
    thing = server.put("/file", pattern(20 * BLOCK))

    def shrink(name: str, _args: Any) -> None:
        if name == "READ":
            del thing.data[3 * BLOCK + 1 :]

    server.before = shrink
    assert await mounted().read_bytes("/file") == pattern(3 * BLOCK + 1)


async def test_a_read_that_fails_is_raised_and_reading_can_go_on(server: Any, mounted: Any) -> None:
    data = pattern(10 * BLOCK)
    server.put("/file", data)
    server.answers["READ"] = [nfsstat3.NFS3_OK, nfsstat3.NFS3_OK, nfsstat3.NFS3ERR_IO]
    async with await mounted().open("/file") as file:
        assert await file.read(2 * BLOCK) == data[: 2 * BLOCK]
        with pytest.raises(NfsError):
            await file.read(BLOCK)
        assert await file.read() == data[2 * BLOCK :]


async def test_closing_early_leaves_reads_to_arrive(server: Any, mounted: Any) -> None:
    server.put("/file", pattern(64 * BLOCK))
    fs = mounted()
    file = await fs.open("/file")
    for _ in range(4):
        await file.read(BLOCK)
    server.hold["READ"] = asyncio.Event()
    await file.seek(40 * BLOCK)
    reading = asyncio.create_task(file.read(BLOCK))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})
    assert server.in_flight > 0
    await file.close()
    assert server.cancelled == 0
    server.hold["READ"].set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert server.in_flight == 0
    await fs.close()


async def test_closing_the_file_system_ends_what_is_on_its_way(server: Any, mounted: Any) -> None:
    server.put("/file", pattern(64 * BLOCK))
    fs = mounted()
    file = await fs.open("/file")
    await file.read(1)
    server.hold["READ"] = asyncio.Event()
    given_up, reading = (asyncio.create_task(file.read(4 * BLOCK)) for _ in range(2))
    for _ in range(5):
        await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait({given_up})
    await fs.close()
    # Nobody has cancelled the reader itself.
    with pytest.raises(TransportClosed, match="the file system was closed"):
        await reading
    await file.close()
    assert server.in_flight == 0


async def test_jumping_about_while_reads_hang_takes_no_more_buffers(server: Any, mounted: Any) -> None:
    server.put("/file", pattern(64 * BLOCK))
    async with await mounted(read_ahead_blocks=2).open("/file") as file:
        server.hold["READ"] = asyncio.Event()
        for block in (1, 20, 40, 50, 60):
            await file.seek(block * BLOCK)
            reading = asyncio.create_task(file.read(10))
            for _ in range(5):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait({reading})
        assert server.in_flight == 3
        server.hold["READ"].set()
        await file.seek(5 * BLOCK)
        assert await file.read(8) == pattern(64 * BLOCK)[5 * BLOCK : 5 * BLOCK + 8]


async def test_a_direct_read_that_is_cancelled_or_fails_leaves_nothing_in_flight(server: Any, mounted: Any) -> None:
    server.put("/file", pattern(64 * BLOCK))
    server.hold["READ"] = asyncio.Event()
    reading = asyncio.create_task(mounted().read_into("/file", bytearray(64 * BLOCK)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert server.in_flight == 8
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert server.in_flight == 0
    server.hold.clear()
    server.answers["READ"] = [nfsstat3.NFS3_OK] * 3 + [nfsstat3.NFS3ERR_STALE]
    with pytest.raises(NfsError):
        await mounted().read_into("/file", bytearray(64 * BLOCK))
    assert server.in_flight == 0


def first_octet(buffer: memoryview) -> int:
    """The address of writable memory."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def test_bytes_are_placed_in_the_object_that_is_returned(server: Any, mounted: Any) -> None:
    data = pattern(12 * BLOCK + 5)
    server.put("/file", data)
    placed: dict[int, int] = {}
    call = server.call

    async def watched(procedure: Any, args: Any, *, into: Any = None, timeout_s: float | None = None) -> Any:
        if into is not None:
            placed[args.offset] = first_octet(into)
        return await call(procedure, args, into=into, timeout_s=timeout_s)

    server.call = watched
    fs = mounted()
    for read in (fs.read_bytes("/file"), fs.read_bytes("/file", offset=7, size=11 * BLOCK), pread(fs, 3 * BLOCK, 9)):
        placed.clear()
        got = run(read)
        start = min(placed)
        assert got == data[start : start + len(got)]
        # Its memory is where an object of `bytes` has its octets: behind the header, before the zero at the end.
        first = id(got) + bytes.__basicsize__ - 1
        assert {offset: address - first for offset, address in placed.items()} == {
            offset: offset - start for offset in range(start, start + len(got), BLOCK)
        }


async def pread(fs: Any, size: int, offset: int) -> bytes:
    async with await fs.open("/file") as file:
        data: bytes = await file.pread(size, offset)
        return data


@each_case(
    ("offset", "size", "expected"),
    [(0, -1, b"0123456789"), (3, -1, b"3456789"), (3, 4, b"3456"), (8, 9, b"89"), (10, 1, b""), (99, -1, b"")],
)
def test_a_part_of_a_file_is_read_at_once(new_server: Any, offset: int, size: int, expected: bytes) -> None:
    server, mounted = new_server()
    server.put("/file", b"0123456789")
    assert run(mounted().read_bytes("/file", offset=offset, size=size)) == expected
    assert server.calls["READ"] == bool(expected)
    assert server.calls["ACCESS"] == server.calls["GETATTR"] == 0
