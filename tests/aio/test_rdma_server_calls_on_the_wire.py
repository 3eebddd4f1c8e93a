"""A server on real sockets against clients whose messages are wrong, that ask for too much, or that stand still."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from client_calls import CONTENT, MIB, Scenes
from clock_ahead import set_clock_ahead
from rpcrdma import limits
from rpcrdma.aio.client.connect import connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.limits import RDMA_STALLED_S
from rpcrdma.nfs import mount
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma.rpc.service import Service
from rpcrdma.transport import TransportConfig
from support.cases import each_case
from support.raw_calls import (
    BOTH_PRIVATE,
    NULL_CALL,
    READ_RESPONSE,
    SEND,
    WRITE,
    XID,
    PendingWrite,
    assert_works,
    chunk,
    file_handle,
    header,
    is_null_reply,
    read_call,
    read_segment,
    rpc,
    segment,
    send,
    write_call,
)
from support.raw_iwarp import startup_frame, tagged
from support.waiting import until

pytestmark = pytest.mark.thorough


async def test_many_calls_wait_for_one_that_is_not_delivered(scene: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls beyond the bound on pulled octets wait; a thousand bad ones behind are refused one after the other."""
    credits_ = 1500
    transport = TransportConfig(credits_granted=credits_, call_octets_pulled_max=5000)
    monkeypatch.setattr(limits, "CONNECTION_OCTETS_PULLED_MAX", 5000)
    async with scene(transport=transport) as it:
        sink = await PendingWrite(await it.connected(), 5000).begin()
        # A reply first: only after it has the server as many receives as it grants.
        await sink.peer.send_segments(send(NULL_CALL, 2))
        assert is_null_reply(await sink.peer.segment())
        bad = header(read_segment(0, 7, 0), kind=1)
        for number in range(3, credits_ + 2):
            await sink.peer.send_segments(send(bad, number))
        await sink.peer.send_segments(tagged(READ_RESPONSE, sink.handle, sink.offset, CONTENT[:5000]))
        for _ in range(credits_ - 1):
            assert (await sink.peer.segment()).payload[12:] == struct.pack(">II", 4, 2)
        assert (await sink.peer.segment()).opcode == SEND
        assert it.files.written == [CONTENT[:5000]]


async def test_a_peer_that_reads_nothing_is_held_up_and_nobody_else(scene: Scenes) -> None:
    async with scene() as it:
        peer = await it.connected(receive_octets=4096)
        await assert_works(peer, 1)
        call = read_call(segment(7, MIB, 0), count=MIB)
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
        if stands == "reads unanswered":
            call = write_call(MIB, (7, MIB, 0))
        else:
            call = read_call(segment(7, MIB, 0), count=MIB)
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
        call = read_call(segment(7, MIB, 0), count=MIB)
        await peer.send_segments(*(send(call, number) for number in range(2, 30)))
        await until(lambda: it.lent_octets > 0)
        await peer.send_segments(breach)
        await it.alone()
        assert it.lent_octets == 0


async def test_stopping_ends_every_hostile_connection(scene: Scenes, caplog: pytest.LogCaptureFixture) -> None:
    async with scene() as it:
        server = await serve([it.files], ["rdma://127.0.0.1:0"])
        unread = await it.connected(server=server, receive_octets=4096)
        await assert_works(unread, 1)
        call = read_call(segment(7, MIB, 0), count=MIB)
        await unread.send_segments(*(send(call, number) for number in range(2, 30)))
        await until(lambda: it.lent_octets > 0)
        await PendingWrite(await it.connected(server=server), 5000).begin()
        await it.connected(server=server)
        await it.peer(server)
        await until(lambda: len(server.connections) == 4)
        await server.close()
        assert not server.connections
        assert it.lent_octets == 0
        assert sum(" ended: " in record.getMessage() for record in caplog.records) == 4


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


@pytest.mark.req("MPA-43", "MPA-45")
async def test_60_half_open_connections_beside_one_that_works(scene: Scenes) -> None:
    async with scene() as it:
        while len(it.peers) < 60:
            # No more at once than the backlog of the listening socket takes.
            await asyncio.gather(*(it.peer() for _ in range(30)))
            await until(lambda: len(it.server.connections) == 1 + len(it.peers))
        await asyncio.gather(*(it.still_good() for _ in range(50)))
        set_clock_ahead(IwarpConfig().startup_timeout_s)
        ended = await asyncio.gather(*(peer.ended() for peer in it.peers))
        assert ended == [b""] * 60


async def mounted(service: Service) -> bytes:
    """The root's file handle, asked for over TCP."""
    async with serve([service], ["tcp://127.0.0.1:0"]) as server, connect(server.listening[0]) as client:
        reply = await client.call(mount.MNT, "/")
        return bytes(reply.value.fhandle)


@each_case("seed", range(2))
async def test_nfs_calls_with_octets_changed_at_random(scene: Scenes, tmp_path: Path, seed: int) -> None:
    """Every procedure, garbled: the file system stands, and nothing outside of it is touched."""
    root = tmp_path / "export"
    root.mkdir()
    (root / "name").write_bytes(CONTENT[:5000])
    outside = tmp_path / "outside"
    outside.write_bytes(b"outside")
    draw = random.Random(seed)

    async def one(it: Any, root_handle: bytes) -> None:
        peer = await it.connected(private_data=BOTH_PRIVATE)
        for number, procedure in enumerate(range(22), 1):
            args = bytearray(file_handle(root_handle) + struct.pack(">I", 4) + b"name" + draw.randbytes(60))
            for _ in range(draw.randint(0, 3)):
                args[draw.randrange(len(args))] = draw.randrange(256)
            lists = draw.choice([{}, {"writes": chunk(segment(7, 9000))}, {"reply": chunk(segment(7, 9000))}])
            await peer.send_segments(send(header(**lists) + rpc(procedure, bytes(args)), number))
            while True:
                heard = await peer.segment()
                if heard.opcode != WRITE:
                    break
                assert heard.handle == 7
                assert heard.offset + len(heard.payload) <= 9000
            assert heard.payload[:4] == struct.pack(">I", XID)
        peer.close()

    state = open_state(tmp_path / "state", random.Random(0).randbytes)
    # Every caller acts as the user of the test.
    export = Export(name="/", directory=root, all_squash=True, anonymous_uid=os.geteuid(), anonymous_gid=os.getegid())
    services = build_services([export], state=state)
    try:
        async with scene(services.nfs) as it:
            root_handle = await mounted(services.mount)
            await asyncio.gather(*(one(it, root_handle) for _ in range(8)))
            await it.alone()
    finally:
        services.nfs.close()
        state.close()
    assert outside.read_bytes() == b"outside"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export", "outside", "state"]  # noqa: ASYNC240
