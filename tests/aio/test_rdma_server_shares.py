"""The shares of one client on real sockets: memory, half-open connections, places. A client is an address."""

from __future__ import annotations

import asyncio

import pytest

from client_calls import CONTENT, MIB, Scenes
from clock_ahead import set_clock_ahead
from rpcrdma.aio.answering.worker_pool import WorkerPool
from rpcrdma.aio.server import rdma_server
from rpcrdma.limits import RDMA_STALLED_S
from rpcrdma.nfs import v3
from rpcrdma.transport import TransportConfig
from support.raw_calls import (
    HANDLE,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    PendingWrite,
    assert_works,
    read_call,
    send,
    write_call,
)
from support.raw_iwarp import tagged
from support.waiting import until

pytestmark = pytest.mark.thorough


async def test_calls_over_a_clients_share_wait_and_are_served_in_the_end(scene: Scenes) -> None:
    async with scene() as it:
        it.pools[1].octets_max = 2 * MIB
        first = await PendingWrite(await it.connected(source="127.0.1.1"), MIB).begin()
        second = await it.connected(source="127.0.1.1")
        await second.send_segments(send(write_call(MIB, (7, MIB, 0), xid=99)))
        await until(lambda: it.pools[1].waited_for)
        assert it.pools[1].lent_octets == MIB
        for offset in range(0, MIB, 1 << 15):
            piece = CONTENT[offset : offset + (1 << 15)]
            last = offset + len(piece) == MIB
            await first.peer.send_segments(tagged(READ_RESPONSE, first.handle, first.offset + offset, piece, last=last))
        assert (await first.peer.segment()).opcode == SEND
        assert (await second.segment()).opcode == READ_REQUEST
        assert it.files.written == [CONTENT]


async def test_calls_that_wait_for_memory_go_on_when_who_holds_it_is_cut_off(scene: Scenes) -> None:
    async with scene() as it:
        for pool in it.pools:
            pool.octets_max = MIB
        peer = await it.connected(source="127.0.1.1", receive_octets=4096)
        await assert_works(peer, 1)
        call = read_call((7, MIB, 0), count=MIB)
        await peer.send_segments(*(send(call, number) for number in range(2, 30)))
        await PendingWrite(await it.connected(source="127.0.1.2"), MIB).begin()
        write = v3.WRITE3args(v3.nfs_fh3(HANDLE), 0, MIB, v3.stable_how.FILE_SYNC, CONTENT)
        writing = asyncio.create_task(it.good.call(v3.WRITE, write))
        await until(lambda: it.pools[1].waited_for)
        assert not writing.done()
        await it.alone_in_time(RDMA_STALLED_S)
        assert isinstance((await writing).value, v3.WRITE3resok)


async def test_a_flood_of_half_open_connections_displaces_only_itself(
    scene: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdma_server, "RDMA_STARTING_MAX", 20)
    async with scene(connections_max=80) as it:
        mine = await it.peer(source="127.0.1.1")
        for _ in range(10):
            await asyncio.gather(*(it.peer(source="127.0.1.2") for _ in range(20)))
        listener = it.server.statistics
        await until(lambda: listener().rdma.connections_made + listener().rdma.connections_refused == 202)
        assert len(it.server.connections) == 21
        await mine.start()
        await assert_works(mine, 1)
        await it.still_good()


async def test_silent_connections_end_and_those_that_speak_or_are_owed_an_answer_do_not(scene: Scenes) -> None:
    # Who is owed an answer owes nothing itself.
    async with scene(idle_s=20, transport=TransportConfig(stalled_s=3600)) as it:
        silent = await it.connected()
        waits = await PendingWrite(await it.connected(), 5000).begin()
        speaks = await it.connected()
        ended = asyncio.create_task(silent.ended())
        number = 0
        while not ended.done():
            number += 1
            await assert_works(speaks, number)
            await it.still_good()
            set_clock_ahead(1)
            assert number < 30
        assert await ended == b""
        await waits.peer.send_segments(tagged(READ_RESPONSE, waits.handle, waits.offset, CONTENT[:5000]))
        assert (await waits.peer.segment()).opcode == SEND


async def test_a_connection_keeps_its_place_after_its_end_while_its_calls_are_in_threads(
    scene: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[object] = []
    monkeypatch.setattr(WorkerPool, "runs_calls_of", lambda _, source: source in sources)
    async with scene(connections_max=9, connections_per_host=1) as it:
        first = await it.connected(source="127.0.1.1")
        await assert_works(first, 1)
        sources += [each.calls_taken for each in it.server._rdma.connections if each.peer[0] == "127.0.1.1"]
        first.close()
        await it.alone()
        with pytest.raises(EOFError):
            await it.connected(source="127.0.1.1")
        sources.clear()
        await assert_works(await it.connected(source="127.0.1.1"), 1)
        await it.still_good()
