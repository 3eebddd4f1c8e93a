"""A server on real sockets against clients that ask for too much, or stand still."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from client_calls import MIB, Scenes
from clock_ahead import set_clock_ahead
from rpcrdma.limits import RDMA_STALLED_S
from rpcrdma.nfs import v3
from support.cases import each_case
from support.raw_calls import HANDLE, NULL_CALL, WRITE, assert_works, read_call, send, write_call
from support.raw_iwarp import startup_frame, tagged
from support.waiting import until

pytestmark = pytest.mark.thorough


async def test_a_peer_that_reads_nothing_is_held_up_and_nobody_else(scene: Scenes) -> None:
    async with scene() as it:
        peer = await it.connected(receive_octets=4096)
        await assert_works(peer, 1)
        call = read_call((7, MIB, 0), count=MIB)
        await peer.send_segments(*(send(call, number) for number in range(2, 100)))
        await until(lambda: it.lent_octets >= MIB)
        for _ in range(20):
            await it.still_good()
        assert it.lent_octets <= 3 * MIB


@pytest.mark.req("V1-67")
@each_case("stands", ["reads unanswered", "replies unread"])
async def test_a_peer_that_stands_still_while_we_hold_memory_is_cut_off(scene: Scenes, stands: str) -> None:
    """That memory is all clients': it must come back without the peer's help."""
    async with scene() as it:
        peer = await it.connected(receive_octets=4096)
        await assert_works(peer, 1)
        call = write_call(MIB, (7, MIB, 0)) if stands == "reads unanswered" else read_call((7, MIB, 0), count=MIB)
        await peer.send_segments(*(send(call, number) for number in range(2, 30)))
        await until(lambda: it.lent_octets > 0)
        await it.alone_in_time(RDMA_STALLED_S)
        assert it.lent_octets == 0


@each_case("breach", [tagged(WRITE, 9, 0, b"x"), b"\x41", send(NULL_CALL, 77)])
async def test_a_terminate_that_cannot_leave_does_not_keep_the_connection(scene: Scenes, breach: bytes) -> None:
    """The peer's window is closed: neither the replies nor the Terminate behind them go out."""
    async with scene() as it:
        peer = await it.connected(receive_octets=4096)
        await assert_works(peer, 1)
        call = read_call((7, MIB, 0), count=MIB)
        await peer.send_segments(*(send(call, number) for number in range(2, 30)))
        await until(lambda: it.lent_octets > 0)
        await peer.send_segments(breach)
        await it.alone()
        assert it.lent_octets == 0


async def test_start_up_octet_by_octet_is_bounded_in_time(scene: Scenes) -> None:
    async with scene() as it:
        peer = await it.peer()
        await until(lambda: len(it.server.connections) == 2)
        frame = startup_frame("Req", 0x50, 2, bytes(400))
        sent = 0
        with contextlib.suppress(OSError):
            while len(it.server.connections) == 2:
                await peer.send(frame[sent : sent + 1])
                sent += 1
                for _ in range(10):
                    await asyncio.sleep(0)
                set_clock_ahead(1)
                assert sent < 40, "its time begins anew with each octet"
        assert await peer.ended() == b""


async def test_a_handler_may_let_go_of_its_buffer_and_keeps_none_once_it_is_answered(scene: Scenes) -> None:
    async with scene() as it:
        await it.good.call(v3.ACCESS, v3.ACCESS3args(v3.nfs_fh3(HANDLE), 1))
        await until(lambda: not it.lent_octets)
        await it.good.call(v3.READDIR, v3.READDIR3args(v3.nfs_fh3(HANDLE), 0, bytes(8), 4096))
        await until(lambda: not it.lent_octets)
