"""A client on real sockets against servers that answer no start-up, stand still, or go on after the end."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import pytest

from client_calls import CONTENT, WRITE, Scenes, assert_works, fails, null, read_into, write
from clock_ahead import set_clock_ahead
from rpcrdma.aio.client.connect import Connection
from rpcrdma.aio.connections.calls_made import _PADS_WRONGLY
from rpcrdma.errors import ConnectFailed
from rpcrdma.iwarp import IwarpConfig
from support.cases import each_case
from support.raw_iwarp import fpdu, read_request, startup_frame, tagged
from support.raw_replies import HeardCall, chunk, header, rpc_reply, send
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough


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


async def blocked(it: Any) -> tuple[Connection, RawSocketPeer, asyncio.Task[Any]]:
    """A server that asks for the argument of a WRITE again and again, and reads nothing until the socket is full."""
    client, peer = await it.pair()
    await assert_works(client, peer, 1)
    calling = write(client, CONTENT)
    ((handle, octets, offset),) = HeardCall(await peer.segment()).reads
    await peer.send_segments(*(read_request(number, 5, 0, octets, handle, offset) for number in range(1, 30)))
    await until(lambda: client._present._driver.blocked)
    return client, peer, calling


async def test_a_server_that_neither_reads_nor_closes(client_scene: Scenes) -> None:
    """The calls behind the closed window fail when the connection is given up."""
    async with client_scene() as it:
        client, _, calling = await blocked(it)
        behind = [write(client, CONTENT) for _ in range(30)]
        await asyncio.sleep(0)
        await client.close()
        for waiting in (calling, *behind):
            await fails(waiting)


async def test_a_call_that_is_cancelled_as_the_connection_ends(client_scene: Scenes) -> None:
    """No caller takes the call's error then, and no task reports it as unretrieved."""
    async with client_scene() as it:
        client, peer = await it.pair()
        calling = null(client)
        await peer.segment()
        client._present.abort("for the test")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling


@pytest.mark.req("DDP-14")
async def test_data_that_still_arrives_after_a_graceful_end_resets_the_connection_and_is_not_placed(
    client_scene: Scenes,
) -> None:
    async with client_scene() as it:
        client, peer = await it.pair()
        await assert_works(client, peer, 1)
        buffer = bytearray(5000)
        calling = read_into(client, buffer)
        ((handle, _, offset),) = HeardCall(await peer.segment()).writes[0]
        # The client ends in order: its last octets are the end of its stream, no reset and no Terminate.
        closing = asyncio.create_task(client.close())
        await fails(calling)
        assert await peer.ended() == b""

        async def go_on() -> None:
            while True:
                await peer.send_segments(tagged(WRITE, handle, offset, CONTENT[:5000]))
                await asyncio.sleep(0)

        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            await go_on()
        await closing
        await fails(null(client))
        assert buffer == bytes(5000)


@each_case("count", [101, 102, 104])
@each_case("inline", [False, True])
async def test_data_that_is_padded_as_nfs_ganesha_pads_it_is_delivered(
    client_scene: Scenes, count: int, inline: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As many octets of padding as the count leaves over by four, not zero, and in the Write chunk, too."""
    caplog.clear()
    _PADS_WRONGLY.clear()
    data = CONTENT[:count] + b"\xaa\xbb\xcc"[: count % 4]
    result = struct.pack(">IIIII", 0, 0, count, 1, count)
    async with client_scene() as it:
        client, peer = await it.pair()
        await assert_works(client, peer, 1)
        for number in (2, 3):
            calling = read_into(client, bytearray(1500 if inline else 5000))
            call = HeardCall(await peer.segment())
            if inline:
                assert not call.writes
                await peer.send_segments(send(header(call.xid) + rpc_reply(call.xid, result + data), number))
            else:
                ((handle, _, offset),) = call.writes[0]
                placed = tagged(WRITE, handle, offset, data)
                returned = header(call.xid, writes=chunk((handle, len(data), offset)))
                await peer.send_segments(placed, send(returned + rpc_reply(call.xid, result), number))
            assert (await calling).value.data == CONTENT[:count]
    wrong = count % 2 == 1 or (count % 4 == 2 and not inline)
    assert len([line for line in caplog.messages if "padded wrongly" in line]) == wrong
