"""A client on real sockets against servers that end at any octet, talk garbage, or answer something else."""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter
from typing import Any

import pytest

from client_calls import CONTENT, ENDS, FH, WRITE, Scenes, assert_works, fails, leave, null, read_into, write
from clock_ahead import set_clock_ahead
from rpcrdma.aio.client.connect import Connection
from rpcrdma.errors import CallTimeout, ConnectFailed, RpcRdmaError
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.nfs import v3
from support.cases import each_case
from support.raw_calls import BOTH_PRIVATE
from support.raw_iwarp import fpdu, read_request, startup_frame, tagged
from support.raw_replies import HeardCall, chunk, header, invalidating, read_result, rpc_reply, send
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough


@ENDS
async def test_cut_within_the_start_up_frame(client_scene: Scenes, how: str) -> None:
    frame = startup_frame("Rep", 0x50, 2, struct.pack(">HH", 1, 1) + BOTH_PRIVATE)
    async with client_scene() as it:
        for length in range(0, len(frame), 3):
            connecting = it.connecting()
            peer = await it.accepted()
            await peer.startup_frame()
            if length:
                await peer.send(frame[:length])
            await leave(peer, how)
            failure = await fails(connecting, ConnectFailed)
            assert "sets up no RDMA connection" in str(failure)


@ENDS
async def test_cut_within_a_reply(client_scene: Scenes, how: str) -> None:
    async with client_scene() as it:
        length = 0
        whole = 1
        while length < whole:
            client, peer = await it.pair()
            calling = null(client)
            call = HeardCall(await peer.segment())
            octets = fpdu(send(header(call.xid) + rpc_reply(call.xid)))
            whole = len(octets)
            if length:
                await peer.send(octets[:length])
            await leave(peer, how)
            await fails(calling)
            await fails(null(client))
            length += 7


@ENDS
@each_case("size", [64, 5000, 100_000])
async def test_cut_while_a_result_is_written(client_scene: Scenes, how: str, size: int) -> None:
    async with client_scene() as it:
        lengths = range(0, 60, 7) if size == 64 else [1, 15, 16, 17, 2048, 4999, 5018]
        for length in lengths:
            client, peer = await it.pair()
            buffer = bytearray(b"\xee" * (size + 200))
            calling = read_into(client, memoryview(buffer)[100:-100])
            call = HeardCall(await peer.segment())
            ((handle, _, offset),) = call.writes[0] if call.writes else [(9, 0, 0)]
            step = min(size, 60_000)
            await peer.send(fpdu(tagged(WRITE, handle, offset, CONTENT[:step]))[:length])
            await leave(peer, how)
            await fails(calling)
            assert buffer[:100] == buffer[-100:] == b"\xee" * 100


@ENDS
async def test_cut_while_an_argument_is_read(client_scene: Scenes, how: str) -> None:
    async with client_scene() as it:
        for length in (1, 16, 17, 3000, 60_000, 150_000):
            client, peer = await it.pair()
            calling = write(client, CONTENT[:200_000])
            ((handle, octets, offset),) = HeardCall(await peer.segment()).reads
            await peer.send_segments(read_request(1, 5, 0, octets, handle, offset))
            await peer.receive(length)
            await leave(peer, how)
            await fails(calling)


@each_case(
    "frame",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        startup_frame("Rep", 0x50, 2, bytes(4)) + fpdu(send(b"too early")),
        random.Random(3).randbytes(5000),
    ],
)
async def test_a_wrong_start_up_frame(client_scene: Scenes, frame: bytes) -> None:
    async with client_scene() as it:
        connecting = it.connecting()
        peer = await it.accepted()
        await peer.startup_frame()
        if frame:
            await peer.send(frame)
        else:
            peer.end()
        failure = await fails(connecting, ConnectFailed)
        assert it.url.removeprefix("rdma://") in str(failure)
        await peer.ended()


@pytest.mark.req("MPA-45")
@each_case(
    ("settings", "told"),
    [
        ({"connect_timeout_s": 60}, "did not answer within 60 s"),
        (
            {"iwarp": IwarpConfig(startup_timeout_s=60), "connect_timeout_s": 600},
            "no MPA start-up frame from the peer within 60 s",
        ),
    ],
)
async def test_a_server_that_answers_no_start_up_frame(
    client_scene: Scenes, settings: dict[str, Any], told: str
) -> None:
    async with client_scene() as it:
        connecting = it.connecting(**settings)
        peer = await it.accepted()
        await peer.startup_frame()
        set_clock_ahead(60)
        assert told in str(await fails(connecting, ConnectFailed))
        assert await peer.ended() == b""


@each_case("seed", range(3))
async def test_garbage_instead_of_a_reply(client_scene: Scenes, seed: int) -> None:
    async with client_scene() as it:
        client, peer = await it.pair()
        buffer = bytearray(5000)
        calling = [null(client), read_into(client, buffer)]
        await peer.segment()
        await peer.send(random.Random(seed).randbytes(70_000))
        peer.end()
        for waiting in calling:
            await fails(waiting)
        assert buffer == bytes(5000)


ASKED: list[tuple[Any, Any, bytes]] = [
    (v3.NULL, None, b""),
    (v3.READ, v3.READ3args(FH, 0, 9000), read_result(9000)),
    (v3.READDIRPLUS, v3.READDIRPLUS3args(FH, 0, bytes(8), 4096, 8192), struct.pack(">II", 5, 0)),
]
"""Calls and the octets of their results, beside what was placed."""


@each_case("seed", range(2))
async def test_replies_with_octets_changed_at_random(client_scene: Scenes, seed: int) -> None:
    """Each is followed by the right reply, which ends a call that the garbled one did not."""
    draw = random.Random(seed)
    ends: Counter[bool] = Counter()

    async def one(client: Connection, peer: RawSocketPeer) -> None:
        for number in range(1, 15, 2):
            procedure, args, result = draw.choice(ASKED)
            calling = asyncio.create_task(client.call(procedure, args))
            try:
                call = HeardCall(await peer.segment())
            except EOFError:
                await fails(calling, RpcRdmaError)
                return
            writes = b"".join(chunk(*each) for each in call.writes)
            reply = chunk(*((handle, 0, at) for handle, _, at in call.reply)) if call.reply else b""
            lists = header(call.xid, writes=writes, reply=reply)
            right = lists + rpc_reply(call.xid, result)
            garbled = bytearray(draw.choice([right, lists + rpc_reply(call.xid, draw.randbytes(300))]))
            for _ in range(draw.randint(1, 3)):
                garbled[draw.randrange(4, len(garbled))] = draw.choice([0, 1, 2, 255, draw.randrange(256)])
            await peer.send_segments(send(bytes(garbled), number), send(right, number + 1))
            (outcome,) = await asyncio.gather(calling, return_exceptions=True)
            assert not isinstance(outcome, Exception) or isinstance(outcome, RpcRdmaError)
            ends[isinstance(outcome, Exception)] += 1

    async with client_scene() as it:
        await asyncio.gather(*[one(*await it.pair()) for _ in range(12)])
    assert min(ends[True], ends[False]) > 5, ends


async def test_a_late_result_finds_no_memory(client_scene: Scenes) -> None:
    async with client_scene() as it:
        client, peer = await it.pair()
        await assert_works(client, peer, 1)
        buffer = bytearray(5000)
        late = read_into(client, buffer, timeout_s=60)
        call = HeardCall(await peer.segment())
        ((handle, length, offset),) = call.writes[0]
        set_clock_ahead(60)
        await fails(late, CallTimeout)
        echo = header(call.xid, writes=chunk((handle, length, offset)))
        await peer.send_segments(
            tagged(WRITE, handle, offset, CONTENT[:5000]),
            invalidating(echo + rpc_reply(call.xid, read_result(5000)), handle, 2),
        )
        await assert_works(client, peer, 3)
        assert buffer == bytes(5000)
