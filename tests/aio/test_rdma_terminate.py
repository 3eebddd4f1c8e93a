"""The other side ends the connection at every moment of a call's life, by a Terminate or without one.

That the rest goes on and nothing remains - no registered memory, no lent buffer, no task - is shown by the end of
each scene looks at.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from client_calls import CONTENT, MIB, Scenes, assert_works, fails, null, read_into, write
from rpcrdma.aio.server.serve import serve
from rpcrdma.errors import TransportClosed
from support import raw_calls, raw_replies
from support.cases import each_case
from support.raw_calls import (
    BOTH_PRIVATE,
    NULL_CALL,
    WRITE,
    PendingWrite,
    file_handle,
    header,
    read_call,
    rpc,
    send,
)
from support.raw_iwarp import fpdu, read_request, startup_frame, tagged, terminate, untagged
from support.raw_replies import HeardCall
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough

TERMINATE = terminate(0x0206)
"""An unexpected opcode, as the peer would have it."""

WAYS = ("Terminate", "Terminate and FIN", "FIN", "RST")
HOW = each_case("how", WAYS)


async def end(peer: RawSocketPeer, how: str, times: int = 1) -> None:
    if how.startswith("Terminate"):
        try:
            await peer.send(TERMINATE * times)
        except OSError:
            # The other side was quicker.
            return
    if how == "RST":
        peer.reset()
    elif how != "Terminate":
        peer.end()


STARTING = {
    "nothing said": b"",
    "half a start-up frame": startup_frame("Req", 0x50, 2, bytes(24))[:25],
    "asked to start": startup_frame("Req", 0x50, 2, struct.pack(">HH", 32, 32)),
}
RUNNING = (
    "started",
    "half a frame",
    "half a message",
    "call in a worker thread",
    "argument read in no part",
    "argument read in part",
    "result written in part",
    "answered",
    "answered with a chunk",
)


async def client_at(it: Any, moment: str) -> RawSocketPeer:
    """A client that has done all up to this moment."""
    if moment in STARTING:
        peer: RawSocketPeer = await it.peer()
        await peer.send(STARTING[moment])
        return peer
    # The window of the client is closed, in the midst of an RDMA Write.
    narrow = {"receive_octets": 4096} if moment == "result written in part" else {}
    peer = await it.connected(private_data=BOTH_PRIVATE if moment == "answered with a chunk" else b"", **narrow)
    if moment == "half a frame":
        await peer.send(fpdu(send(NULL_CALL))[:30])
    elif moment == "half a message":
        await peer.send_segments(send(NULL_CALL[:40], last=False))
    elif moment == "call in a worker thread":
        await peer.send_segments(send(header() + rpc(5, file_handle())))
        await until(lambda: it.files.entered.acquire(blocking=False))
    elif moment.startswith("argument"):
        pulling = await PendingWrite(peer, MIB).begin()
        assert it.lent_octets == MIB
        if moment == "argument read in part":
            piece = tagged(raw_calls.READ_RESPONSE, pulling.handle, pulling.offset, CONTENT[:5000], last=False)
            await peer.send_segments(piece)
    elif moment == "answered with a chunk":
        await peer.send_segments(send(read_call((7, 5000, 0))))
        assert (await peer.segment()).opcode == WRITE
        while (await peer.segment()).opcode == WRITE:
            pass
    elif moment != "started":
        await raw_calls.assert_works(peer, 1)
    if moment == "result written in part":
        call = read_call((7, MIB, 0), count=MIB)
        await peer.send_segments(*(send(call, number) for number in range(2, 30)))
        await until(lambda: it.lent_octets >= MIB)
    return peer


@each_case("moment", [*STARTING, *RUNNING])
async def test_a_client_ends_the_connection(scene: Scenes, moment: str) -> None:
    async with scene() as it:
        (good,) = it.server.connections
        for how in WAYS:
            peer = await client_at(it, moment)
            await until(lambda: len(it.server.connections) == 2)
            (ended,) = it.server.connections - {good}
            # Inside a frame its octets are not a message: they must fill that frame, whose CRC is wrong.
            await end(peer, how, times=4 if moment == "half a frame" else 1)
            await it.alone()
            await it.still_good()
            assert ended.end_reason.reason
            if how.startswith("Terminate") and moment in RUNNING and moment != "half a frame":
                assert "unexpected opcode" in ended.end_reason.reason


@HOW
async def test_a_client_ends_the_connection_while_the_server_stops(scene: Scenes, how: str) -> None:
    """Stopping waits for running calls: the client leaves during that."""
    async with scene() as it:
        server = await serve([it.files], ["rdma://127.0.0.1:0"])
        peer = await it.connected(server=server)
        await peer.send_segments(send(header() + rpc(5, file_handle())))
        await until(lambda: it.files.entered.acquire(blocking=False))
        stopping = asyncio.create_task(server.close(60))
        await asyncio.sleep(0)
        await end(peer, how)
        await until(lambda: not server.connections)
        assert not stopping.done()
        it.files.gate.set()
        await stopping


async def server_at(it: Any, moment: str) -> tuple[asyncio.Task[Any] | None, RawSocketPeer]:
    """A server that has done all up to this moment, and the call that the end makes fail; None: the next call."""
    client, peer = await it.pair()
    if moment == "answered":
        await assert_works(client, peer, 1)
        return None, peer
    if moment.startswith("result"):
        calling = read_into(client, bytearray(50_000))
        ((handle, _, offset),) = HeardCall(await peer.segment()).writes[0]
        whole = moment == "result written, and not the reply that says so"
        await peer.send_segments(tagged(WRITE, handle, offset, CONTENT[: 50_000 if whole else 20_000], last=whole))
        return calling, peer
    if moment.startswith("argument"):
        calling = write(client, CONTENT)
        ((handle, octets, offset),) = HeardCall(await peer.segment()).reads
        if moment == "argument read and not taken, until the client's socket is full":
            await peer.send_segments(*(read_request(number, 5, 0, octets, handle, offset) for number in range(1, 30)))
            await until(lambda: client._present._driver.blocked)
        return calling, peer
    calling = null(client)
    await peer.segment()
    if moment == "half a frame":
        await peer.send(fpdu(raw_replies.send(bytes(100)))[:50])
    elif moment == "half a reply":
        await peer.send_segments(untagged(3, 0, 1, bytes(28), last=False))
    elif moment == "a call waits for a credit":
        first, calling = calling, null(client)
        first.cancel()
        await asyncio.wait([first])
    return calling, peer


@each_case(
    "moment",
    [
        "called",
        "half a frame",
        "half a reply",
        "a call waits for a credit",
        "argument exposed",
        "argument read and not taken, until the client's socket is full",
        "result written in part",
        "result written, and not the reply that says so",
        "answered",
    ],
)
async def test_a_server_ends_the_connection(client_scene: Scenes, moment: str) -> None:
    async with client_scene() as it:
        for how in WAYS:
            calling, peer = await server_at(it, moment)
            connection = it.clients[-1]._present
            await end(peer, how, times=4 if moment == "half a frame" else 1)
            if calling is None:
                await connection.wait_closed()
                calling = null(it.clients[-1])
            error = await fails(calling, TransportClosed)
            assert str(error)
            if how.startswith("Terminate") and moment != "half a frame":
                assert "unexpected opcode" in str(error)
            await connection.wait_closed()
            assert [len(domain.regions) for domain in it.domains] == [0] * len(it.domains)


@HOW
async def test_a_server_ends_the_connection_while_the_client_closes_it(client_scene: Scenes, how: str) -> None:
    async with client_scene() as it:
        calling, peer = await server_at(it, "called")
        closing = asyncio.create_task(it.clients[-1].close())
        await asyncio.sleep(0)
        await end(peer, how)
        await closing
        await fails(calling, TransportClosed)


async def test_what_was_answered_before_the_terminate_counts(client_scene: Scenes) -> None:
    """A reply and a Terminate that arrive together: the reply is taken."""
    async with client_scene() as it:
        client, peer = await it.pair()
        calling = null(client)
        call = HeardCall(await peer.segment())
        reply = raw_replies.send(raw_replies.header(call.xid) + raw_replies.rpc_reply(call.xid))
        await peer.send(fpdu(reply) + TERMINATE)
        await calling
        await client._present.wait_closed()
