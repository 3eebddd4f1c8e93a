"""Writing to open files: gathered, sent, committed, and written again when a server restarts."""

from __future__ import annotations

import array
import asyncio
import io
import itertools
import os
from asyncio import run
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpcrdma.errors import TransportClosed
from rpcrdma.nfs.client.streams.append_turns import append_turn
from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.v3 import nfsstat3
from support.cases import each_case
from support.loops import asynchronous, in_virtual_time
from support.octets import pattern
from support.waiting import time_passes

BLOCK = 1 << 16


async def write_in_pieces(fs: Any, data: bytes, piece: int) -> None:
    """Of more than the blocks in flight the caller's memory is sent itself; less is gathered in blocks."""
    async with await fs.open("/file", "wb") as file:
        for start in range(0, len(data), piece):
            await file.write(memoryview(data)[start : start + piece])


GATHERED, AT_ONCE = 3 * BLOCK, 1 << 30
SMALL = 4096
OFFSETS = st.integers(0, 8 * SMALL)
WRITES = st.lists(
    st.tuples(
        st.sampled_from(["seek", "write", "pwrite", "read", "flush", "truncate", "restart", "end"]),
        OFFSETS,
        st.integers(0, 2 * SMALL),
    ),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=WRITES, at_most=st.integers(1000, SMALL), memory=st.integers(2, 5), blocks=st.integers(1, 4))
@asynchronous
async def test_writes_agree_with_a_file_in_memory_whenever_the_server_restarts(
    new_server: Any, steps: list[tuple[str, int, int]], at_most: int, memory: int, blocks: int
) -> None:
    server, mount = new_server()
    server.put("/file")
    server.read_max = server.write_max = SMALL
    server.write_at_most = at_most
    model = io.BytesIO()
    fs = mount(write_behind_blocks=blocks, uncommitted_octets_max=memory * SMALL)
    async with await fs.open("/file", "r+b") as file:
        for count, (what, number, length) in enumerate(steps):
            data = bytes([count + 1]) * length
            if what == "seek":
                assert await file.seek(number) == model.seek(number)
            elif what == "write":
                assert await file.write(data) == model.write(data)
            elif what == "pwrite" and data:
                await file.pwrite(data, number)
                at = model.tell()
                model.seek(number)
                model.write(data)
                model.seek(at)
            elif what == "read" and "restart" not in {step[0] for step in steps}:
                assert await file.read(length) == model.read(length)
            elif what == "flush":
                await file.flush()
            elif what == "truncate":
                assert await file.truncate(number) == number
                model.truncate(number)
                if len(model.getvalue()) < number:
                    at = model.tell()
                    model.seek(0, io.SEEK_END)
                    model.write(bytes(number - len(model.getvalue())))
                    model.seek(at)
            elif what == "restart":
                server.restart()
    assert bytes(server.at("/file").data) == model.getvalue()


async def test_a_file_is_written_with_few_calls_many_of_them_in_flight(server: Any, mounted: Any) -> None:
    await mounted().write_bytes("/file", b"123")
    assert server.calls["WRITE"] == 1
    assert server.calls["COMMIT"] == 0
    assert server.at("/file").uncommitted == []
    server.calls.clear()
    async with await mounted().open("/file", "wb") as file:
        for _ in range(BLOCK // 16):
            await file.write(b"x" * 32)
    assert server.calls["WRITE"] == 2
    assert bytes(server.at("/file").data) == b"x" * 2 * BLOCK
    server.calls.clear()
    data = pattern(40 * BLOCK + 3)
    await mounted(write_behind_blocks=8).write_bytes("/file", data)
    assert bytes(server.at("/file").data) == data
    assert server.calls["WRITE"] == 41
    assert server.calls["COMMIT"] == 1
    assert server.in_flight_most == 8


async def test_what_was_written_may_be_of_any_type_and_change_at_once(server: Any, mounted: Any) -> None:
    async with await mounted().open("/file", "wb") as file:
        data = bytearray(b"a" * 3 * BLOCK)
        await file.write(data)
        data[:] = b"b" * len(data)
    assert bytes(server.at("/file").data) == b"a" * 3 * BLOCK
    data = os.urandom(1000)
    async with await mounted().open("/file", "w+b") as file:
        await file.write(memoryview(array.array("Q", data)))
        await file.seek(0)
        assert await file.read() == data


@each_case("piece", [GATHERED, AT_ONCE])
def test_uncommitted_data_is_bounded(new_server: Any, piece: int) -> None:
    server, mounted = new_server()
    run(write_in_pieces(mounted(uncommitted_octets_max=4 * BLOCK), pattern(40 * BLOCK), piece))
    assert server.calls["COMMIT"] == 10
    assert bytes(server.at("/file").data) == pattern(40 * BLOCK)


@each_case(("when", "call"), [("WRITE", 1), ("WRITE", 5), ("WRITE", 12), ("COMMIT", 1), ("COMMIT", 2)])
@each_case("piece", [GATHERED, AT_ONCE])
def test_a_restart_loses_nothing(new_server: Any, when: str, call: int, piece: int) -> None:
    server, mounted = new_server()

    calls = itertools.count(1)

    def restart(name: str, _args: Any) -> None:
        # `server.calls` counts those that have begun.
        if name == when and next(calls) == call:
            server.restart()

    server.before = restart
    data = pattern(12 * BLOCK + 9)
    run(write_in_pieces(mounted(uncommitted_octets_max=8 * BLOCK), data, piece))
    assert server.restarts == 1
    assert bytes(server.at("/file").data) == data


async def test_older_data_that_a_restart_loses_is_not_written_over_newer(server: Any, mounted: Any) -> None:
    newer = pattern(9 * BLOCK)

    def restart(name: str, args: Any) -> None:
        if name == "WRITE" and args.data.obj is newer and not server.restarts:
            server.restart()

    server.before = restart
    async with await mounted(write_behind_blocks=8).open("/file", "wb") as file:
        await file.write(bytes(3 * BLOCK))
        await file.pwrite(newer, 0)
    assert bytes(server.at("/file").data) == newer


async def test_a_write_of_more_than_the_blocks_in_flight_is_sent_from_the_memory_of_its_caller(
    server: Any, mounted: Any
) -> None:
    sent: list[Any] = []
    server.before = lambda name, args: sent.append(args.data) if name == "WRITE" else None
    data = bytearray(pattern(9 * BLOCK))
    async with await mounted(write_behind_blocks=8).open("/file", "wb") as file:
        await file.write(b"older")
        await file.write(data)
        stable = not server.at("/file").uncommitted
        await file.write(b"newer")
        assert stable
    assert bytes(server.at("/file").data) == b"older" + data + b"newer"
    assert sum(len(part) for part in sent if part.obj is data) == len(data)


async def test_a_write_that_fails_is_raised_at_the_latest_when_closing(server: Any, mounted: Any) -> None:
    server.put("/file")
    server.answers["WRITE"] = [nfsstat3.NFS3_OK, nfsstat3.NFS3ERR_NOSPC]
    file = await mounted().open("/file", "wb")
    await file.write(pattern(3 * BLOCK))
    with pytest.raises(NfsError, match="No space left"):
        await file.close()
    assert file.closed
    await file.close()


@each_case(
    ("failing", "pieces"),
    [
        ("WRITE", [3 * BLOCK]),
        ("WRITE", [5]),
        ("WRITE", [20 * BLOCK]),
        ("WRITE", [BLOCK] * 30),
        ("COMMIT", [3 * BLOCK]),
        ("COMMIT", [BLOCK] * 30),
    ],
)
@each_case("good", [0, 1])
async def test_a_file_that_has_failed_takes_nothing_more_and_sends_nothing_more(
    new_server: Any, failing: str, pieces: list[int], good: int
) -> None:
    server, mounted = new_server()
    server.put("/file")
    server.answers[failing] = [nfsstat3.NFS3_OK] * good + [nfsstat3.NFS3ERR_NOSPC]
    file = await mounted(uncommitted_octets_max=8 * BLOCK).open("/file", "w+b")

    async def write_until_it_fails() -> None:
        for piece in pieces:
            await file.write(pattern(piece))
        for _ in range(good + 1):
            await file.flush()
            await file.pwrite(bytes(2 * BLOCK), 0)

    with pytest.raises(NfsError, match="No space left") as first:
        await write_until_it_fails()
    calls = server.calls.copy()
    seen = [first.value]
    for call in (
        lambda: file.write(b"more"),
        lambda: file.write(bytes(20 * BLOCK)),
        lambda: file.pwrite(b"more", 7),
        file.flush,
        file.fsync,
        file.stat,
        lambda: file.read(1),
        lambda: file.truncate(0),
        file.close,
    ):
        with pytest.raises(NfsError, match="No space left") as caught:
            await call()
        seen.append(caught.value)
    assert {(error.status, error.path) for error in seen} == {(nfsstat3.NFS3ERR_NOSPC, "/file")}
    assert len({id(error) for error in seen}) == len(seen)
    assert (server.calls["WRITE"], server.calls["COMMIT"]) == (calls["WRITE"], calls["COMMIT"])


def test_a_file_that_is_dropped_warns_of_a_failure_that_no_call_has_raised(server: Any, mounted: Any) -> None:
    server.put("/file")

    async def work(flushes: bool) -> None:
        server.answers["WRITE"] = [nfsstat3.NFS3ERR_NOSPC]
        file = await mounted().open("/file", "wb")
        await file.write(pattern(BLOCK))
        for _ in range(20):
            await asyncio.sleep(0)
        if flushes:
            with pytest.raises(NfsError):
                await file.flush()

    with pytest.warns(ResourceWarning, match="unclosed: writing has failed: .*No space left"):
        run(work(flushes=False))
    run(work(flushes=True))


@each_case("procedure", ["WRITE", "COMMIT"])
async def test_a_cancelled_flush_loses_nothing(new_server: Any, procedure: str) -> None:
    server, mounted = new_server()
    data = pattern(3 * BLOCK + 1 if procedure == "COMMIT" else 5)
    file = await mounted().open("/file", "wb")
    await file.write(data)
    for _ in range(10):
        await asyncio.sleep(0)
    server.hold[procedure] = asyncio.Event()
    flushing = asyncio.create_task(file.flush())
    for _ in range(10):
        await asyncio.sleep(0)
    flushing.cancel()
    await asyncio.wait({flushing})
    server.restart()
    del server.hold[procedure]
    await file.close()
    assert bytes(server.at("/file").data) == data


async def test_reading_sees_what_has_been_written(server: Any, mounted: Any) -> None:
    server.put("/file", b"0123456789")
    async with await mounted().open("/file", "r+b") as file:
        assert await file.read(4) == b"0123"
        await file.write(b"XY")
        assert await file.read(2) == b"67"
        assert await file.pread(10, 0) == b"0123XY6789"
        await file.pwrite(b"Z" * 4, 20)
        assert (await file.stat()).st_size == 24
        assert await file.seek(0, io.SEEK_END) == 24
        assert await file.truncate(5) == 5
        await file.seek(0)
        assert await file.read() == b"0123X"


async def test_writes_at_the_same_place_do_not_overtake_each_other(server: Any, mounted: Any) -> None:
    async with await mounted().open("/file", "wb") as file:
        await asyncio.gather(*(file.pwrite(bytes([number]) * 100, 50 * number) for number in range(30)))
    expected = bytearray(50 * 29 + 100)
    for number in range(30):
        expected[50 * number : 50 * number + 100] = bytes([number]) * 100
    assert bytes(server.at("/file").data) == bytes(expected)


@each_case(("mode", "left"), [("ab", b"theirs, ours"), ("a+b", b"theirs, ours"), ("wb", b", ours")])
async def test_only_w_empties_a_file_that_is_made_while_it_is_opened(new_server: Any, mode: str, left: bytes) -> None:
    server, mounted = new_server()
    server.before = lambda name, _args: server.put("/file", b"theirs") if name == "CREATE" else None
    async with await mounted().open("/file", mode) as file:
        await file.write(b", ours")
        assert file.tell() == len(left)
    assert bytes(server.at("/file").data) == left


async def test_appended_data_goes_behind_what_others_have_appended_since(server: Any, mounted: Any) -> None:
    thing = server.put("/file", b"0")
    async with await mounted().open("/file", "ab") as first, await mounted().open("/file", "a+b") as second:
        await first.write(b"A")
        assert first.tell() == 2
        await first.flush()
        await second.write(b"B")
        await second.flush()
        assert (second.tell(), second.size) == (3, 3)
        await second.write(b"D")
        thing.data += b"C"
        await first.write(b"E" * 9 * BLOCK)
        await first.flush()
        assert await second.pread(5, 0) == b"0ABCE"
        assert second.tell() == second.size == 5 + 9 * BLOCK
        server.calls.clear()
        await first.write(b"F")
        await first.flush()
        assert server.calls == {"GETATTR": 1, "WRITE": 1}
        # As other writes do, one at an offset comes behind what was appended before it.
        await first.write(b"G")
        await first.pwrite(b"1", 0)
        await first.write(b"H")
        thing.data += b"I"
        await first.truncate()
    assert bytes(thing.data) == b"1ABC" + b"E" * 9 * BLOCK + b"DFGIH"


async def test_the_position_behind_appended_data_counts_all_of_it_wherever_it_is(server: Any, mounted: Any) -> None:
    async with await mounted().open("/file", "ab") as file:
        for count in range(1, 40):
            await file.write(pattern(3 * BLOCK))
            assert file.tell() == file.size == count * 3 * BLOCK
            for _ in range(count):
                await asyncio.sleep(0)
            await file.write(b"")


async def test_writing_no_octets_behind_the_end_extends_no_file(server: Any, mounted: Any) -> None:
    async with await mounted().open("/file", "wb") as file:
        await file.write(b"1")
        await file.seek(7)
        await file.write(b"")
        await file.pwrite(b"", 9)
        assert file.size == 1
    assert bytes(server.at("/file").data) == b"1"


@in_virtual_time
async def test_an_append_that_is_given_up_leaves_its_turn_to_the_next(server: Any, mounted: Any) -> None:
    thing = server.put("/file", b"0")
    server.hold["WRITE"] = asyncio.Event()
    files = [await mounted().open("/file", "ab") for _ in range(3)]

    async def append(file: Any, data: bytes) -> None:
        await file.write(data)
        await file.flush()

    # The first is under way, and the second waits for its turn: their WRITEs go on without a caller.
    given_up = [asyncio.create_task(append(*each)) for each in zip(files, [b"A" * 9 * BLOCK, b"B"], strict=False)]
    await time_passes(1)
    last = asyncio.create_task(append(files[2], b"C"))
    await time_passes(1)
    for each in given_up:
        each.cancel()
    await time_passes(1)
    server.hold.pop("WRITE").set()
    await last
    with pytest.raises(TransportClosed, match="appending was cancelled"):
        await files[0].close()
    for file in files[1:]:
        await file.close()
    assert bytes(thing.data).replace(b"A", b"") == b"0BC"


@in_virtual_time
async def test_a_cancelled_append_can_be_repeated_until_a_part_of_it_is_sent(server: Any, mounted: Any) -> None:
    thing = server.put("/file")
    data = pattern(30 * BLOCK)
    file = await mounted().open("/file", "ab")

    async def cancelled_write(end: int, goes_on: bool) -> None:
        writing = asyncio.create_task(file.write(data[BLOCK + 100 : end]))
        await time_passes(1)
        if goes_on:
            server.hold.pop("WRITE").set()
            server.hold["WRITE"] = asyncio.Event()
            await time_passes(1)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert file.tell() == BLOCK + 100

    server.hold["WRITE"] = asyncio.Event()
    # One block is in flight, and a part of another in memory.
    await file.write(data[:BLOCK])
    await file.write(data[BLOCK : BLOCK + 100])
    for end in (9 * BLOCK, 9 * BLOCK + 50, 17 * BLOCK):
        await cancelled_write(end, goes_on=False)
    await cancelled_write(len(data), goes_on=True)
    server.hold.pop("WRITE").set()
    for call in (file.write(data), file.close()):
        with pytest.raises(TransportClosed, match="appending was cancelled"):
            await call
    await time_passes(1)
    assert bytes(thing.data) == data[: 9 * BLOCK]


@each_case("waits_for", ["its first step", "its turn", "GETATTR", "WRITE"])
async def test_an_append_that_closing_the_file_system_cancels_is_an_error(new_server: Any, waits_for: str) -> None:
    server, mounted = new_server()
    handle = server.handle(server.put("/file")).data
    fs = mounted()
    server.hold[waits_for] = asyncio.Event()
    file = await fs.open("/file", "ab")
    async with append_turn(handle if waits_for == "its turn" else b"another file"):
        await file.write(pattern(BLOCK))
        if waits_for != "its first step":
            for _ in range(10):
                await asyncio.sleep(0)
        flushing = asyncio.create_task(file.flush())
        await fs.close()
    with pytest.raises(TransportClosed, match="appending was cancelled"):
        await flushing
    with pytest.raises(TransportClosed, match="appending was cancelled"):
        await file.close()


@each_case("then", ["read", "flush"])
async def test_a_write_that_closing_the_file_system_cancels_is_sent_by_the_next_read_or_flush(
    new_server: Any, then: str
) -> None:
    server, mounted = new_server()
    fs = mounted()
    async with await fs.open("/file", "w+b") as file:
        await file.write(pattern(2 * BLOCK))
        await fs.close()
        assert server.calls["WRITE"] == 0
        if then == "read":
            assert await file.pread(2 * BLOCK, 0) == pattern(2 * BLOCK)
    assert bytes(server.at("/file").data) == pattern(2 * BLOCK)


@in_virtual_time
async def test_turns_that_are_given_up_are_passed_over() -> None:
    order = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def append(number: int) -> None:
        async with append_turn(b"handle"):
            order.append(number)
            begun.set()
            await goes_on.wait()

    tasks = [asyncio.create_task(append(number)) for number in range(3000)]
    await begun.wait()
    await time_passes(1)
    for task in tasks[1:-1]:
        task.cancel()
    await time_passes(1)
    goes_on.set()
    await tasks[-1]
    assert order == [0, 2999]


LENGTHS = st.integers(0, 9 * SMALL)
APPENDS = st.lists(st.tuples(st.sampled_from(["write", "flush", "tell", "other", "restart"]), LENGTHS), max_size=25)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(APPENDS, min_size=2, max_size=3), memory=st.integers(2, 9), blocks=st.integers(1, 4))
@asynchronous
async def test_what_several_files_append_at_once_is_all_there_whenever_the_server_restarts(
    new_server: Any, steps: list[list[tuple[str, int]]], memory: int, blocks: int
) -> None:
    server, mount = new_server()
    thing = server.put("/file", b"\0")
    server.read_max = server.write_max = SMALL
    # Two of them over one client.
    clients = [mount(write_behind_blocks=blocks, uncommitted_octets_max=memory * SMALL) for _ in range(2)]
    clients.append(clients[0])
    written: dict[int, bytearray] = {number: bytearray() for number in range(4)}
    written[3] += b"\0"

    async def append(number: int, steps: list[tuple[str, int]]) -> None:
        async with await clients[number].open("/file", "a+b") as file:
            for count, (what, length) in enumerate(steps):
                if what == "write":
                    data = bytes([64 * (number + 1) + count]) * length
                    await file.write(data)
                    written[number] += data
                elif what == "flush":
                    await file.flush()
                    assert thing.data[file.tell() - 1] or not file.tell() - 1
                elif what == "tell":
                    assert file.tell() == file.size
                elif what == "other":
                    # Another host's, which nothing keeps from writing at the same moment: that is promised to nobody.
                    async with append_turn(server.handle(thing).data):
                        thing.data += bytes([count]) * length
                    written[3] += bytes([count]) * length
                elif what == "restart":
                    server.restart()

    await asyncio.gather(*(append(number, each) for number, each in enumerate(steps)))
    for number, data in written.items():
        found = [octet for octet in thing.data if octet // 64 == (number + 1) % 4]
        assert bytes(found) == data
