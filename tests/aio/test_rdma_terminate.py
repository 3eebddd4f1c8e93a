"""The other side ends the connection at every moment of a call's life, by a Terminate or without one.

That the rest goes on and nothing remains - no registered memory, no lent buffer, no task - is shown by the end of
each scene looks at.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client_calls import CONTENT, FH, MIB, Scenes, assert_works, fails, null, read_into
from rpcrdma.aio.server.serve import serve
from rpcrdma.errors import TransportClosed
from rpcrdma.nfs import v3
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
    segment,
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


# The server's side: the actions of a client up to the moment of the end


async def nothing(it: Any) -> RawSocketPeer:
    return await it.peer()


async def half_a_start_up(it: Any) -> RawSocketPeer:
    peer = await it.peer()
    await peer.send(startup_frame("Req", 0x50, 2, bytes(24))[:25])
    return peer


async def asked_to_start(it: Any) -> RawSocketPeer:
    peer = await it.peer()
    await peer.send(startup_frame("Req", 0x50, 2, struct.pack(">HH", 32, 32)))
    return peer


async def started(it: Any) -> RawSocketPeer:
    return await it.connected()


async def half_a_frame(it: Any) -> RawSocketPeer:
    peer = await it.connected()
    await peer.send(fpdu(send(NULL_CALL))[:30])
    return peer


async def half_a_message(it: Any) -> RawSocketPeer:
    peer = await it.connected()
    await peer.send_segments(send(NULL_CALL[:40], last=False))
    return peer


async def called(it: Any) -> RawSocketPeer:
    """The call runs in a worker thread."""
    peer = await it.connected()
    await peer.send_segments(send(header() + rpc(5, file_handle())))
    await until(lambda: it.files.entered.acquire(blocking=False))
    return peer


async def read_from(it: Any) -> RawSocketPeer:
    peer = await it.connected()
    await PendingWrite(peer, MIB).begin()
    assert it.lent_octets == MIB
    return peer


async def read_from_in_part(it: Any) -> RawSocketPeer:
    peer = await it.connected()
    pulling = await PendingWrite(peer, MIB).begin()
    await peer.send_segments(
        tagged(raw_calls.READ_RESPONSE, pulling.handle, pulling.offset, CONTENT[:5000], last=False)
    )
    return peer


async def written_in_part(it: Any) -> RawSocketPeer:
    """The window of the client is closed, in the midst of an RDMA Write."""
    peer = await it.connected(receive_octets=4096)
    await raw_calls.assert_works(peer, 1)
    call = read_call(segment(7, MIB), count=MIB)
    await peer.send_segments(*(send(call, number) for number in range(2, 30)))
    await until(lambda: it.lent_octets >= MIB)
    return peer


async def answered(it: Any) -> RawSocketPeer:
    peer = await it.connected()
    await raw_calls.assert_works(peer, 1)
    return peer


async def answered_with_a_chunk(it: Any) -> RawSocketPeer:
    peer = await it.connected(private_data=BOTH_PRIVATE)
    await peer.send_segments(send(read_call(segment(7, 5000))))
    heard = await peer.segment()
    assert heard.opcode == WRITE
    while heard.opcode == WRITE:
        heard = await peer.segment()
    return peer


BY_CLIENT: list[Callable[[Any], Awaitable[RawSocketPeer]]] = [
    nothing,
    half_a_start_up,
    asked_to_start,
    started,
    half_a_frame,
    half_a_message,
    called,
    read_from,
    read_from_in_part,
    written_in_part,
    answered,
    answered_with_a_chunk,
]


@each_case("moment", BY_CLIENT)
async def test_a_client_ends_the_connection(scene: Scenes, moment: Callable[[Any], Awaitable[RawSocketPeer]]) -> None:
    async with scene() as it:
        (good,) = it.server.connections
        for how in WAYS:
            peer = await moment(it)
            await until(lambda: len(it.server.connections) == 2)
            (ended,) = it.server.connections - {good}
            # Inside a frame its octets are not a message: they must fill that frame, whose CRC is wrong.
            await end(peer, how, times=4 if moment is half_a_frame else 1)
            await it.alone()
            await it.still_good()
            assert ended.end_reason.reason
            if how.startswith("Terminate") and moment not in (
                nothing,
                half_a_start_up,
                asked_to_start,
                half_a_frame,
            ):
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


# The client's side: the actions of a server up to the moment of the end. Each answers the call that the end makes fail


async def client_called(it: Any) -> tuple[Any, RawSocketPeer]:
    client, peer = await it.pair()
    calling = null(client)
    await peer.segment()
    return calling, peer


async def client_heard_half_a_frame(it: Any) -> tuple[Any, RawSocketPeer]:
    calling, peer = await client_called(it)
    await peer.send(fpdu(raw_replies.send(bytes(100)))[:50])
    return calling, peer


async def client_heard_half_a_reply(it: Any) -> tuple[Any, RawSocketPeer]:
    calling, peer = await client_called(it)
    await peer.send_segments(untagged(3, 0, 1, bytes(28), last=False))
    return calling, peer


async def client_waits_for_a_credit(it: Any) -> tuple[Any, RawSocketPeer]:
    """The one credit of the beginning is taken by another call."""
    client, peer = await it.pair()
    first = null(client)
    await peer.segment()
    calling = null(client)
    first.cancel()
    await asyncio.wait([first])
    return calling, peer


async def writing(it: Any) -> tuple[Any, RawSocketPeer, HeardCall]:
    client, peer = await it.pair()
    args = v3.WRITE3args(FH, 0, MIB, v3.stable_how.UNSTABLE, CONTENT)
    calling = asyncio.create_task(client.call(v3.WRITE, args))
    return calling, peer, HeardCall(await peer.segment())


async def client_exposed_its_argument(it: Any) -> tuple[Any, RawSocketPeer]:
    calling, peer, _ = await writing(it)
    return calling, peer


async def client_was_read_from_in_part(it: Any) -> tuple[Any, RawSocketPeer]:
    """Reads are asked for and not taken, until the client's socket takes no more."""
    calling, peer, call = await writing(it)
    ((handle, octets, offset),) = call.reads
    await peer.send_segments(*(read_request(number, 5, 0, octets, handle, offset) for number in range(1, 30)))
    driver = it.clients[-1]._present._driver
    await until(lambda: driver.blocked)
    return calling, peer


async def client_was_written_to_in_part(it: Any) -> tuple[Any, RawSocketPeer]:
    client, peer = await it.pair()
    calling = read_into(client, bytearray(50_000))
    ((handle, _, offset),) = HeardCall(await peer.segment()).writes[0]
    await peer.send_segments(tagged(WRITE, handle, offset, CONTENT[:20_000], last=False))
    return calling, peer


async def client_was_written_to(it: Any) -> tuple[Any, RawSocketPeer]:
    """All is there but the reply that says so."""
    client, peer = await it.pair()
    calling = read_into(client, bytearray(5000))
    ((handle, _, offset),) = HeardCall(await peer.segment()).writes[0]
    await peer.send_segments(tagged(WRITE, handle, offset, CONTENT[:5000]))
    return calling, peer


async def client_was_answered(it: Any) -> tuple[Any, RawSocketPeer]:
    """The next call finds the connection as it was left."""
    client, peer = await it.pair()
    await assert_works(client, peer, 1)
    return None, peer


BY_SERVER: list[Callable[[Any], Awaitable[tuple[Any, RawSocketPeer]]]] = [
    client_called,
    client_heard_half_a_frame,
    client_heard_half_a_reply,
    client_waits_for_a_credit,
    client_exposed_its_argument,
    client_was_read_from_in_part,
    client_was_written_to_in_part,
    client_was_written_to,
    client_was_answered,
]


@each_case("moment", BY_SERVER)
async def test_a_server_ends_the_connection(
    client_scene: Scenes, moment: Callable[[Any], Awaitable[tuple[Any, RawSocketPeer]]]
) -> None:

    async def ended_by_server(it: Any, how: str) -> None:
        calling, peer = await moment(it)
        connection = it.clients[-1]._present
        await end(peer, how, times=4 if moment is client_heard_half_a_frame else 1)
        if calling is None:
            await connection.wait_closed()
            calling = null(it.clients[-1])
        error = await fails(calling, TransportClosed)
        assert str(error)
        if how.startswith("Terminate") and moment is not client_heard_half_a_frame:
            assert "unexpected opcode" in str(error)
        await connection.wait_closed()
        assert [len(domain.regions) for domain in it.domains] == [0] * len(it.domains)

    async with client_scene() as it:
        for how in WAYS:
            await ended_by_server(it, how)


@HOW
@each_case("said", [b"", startup_frame("Rep", 0x50, 2, bytes(4))[:20]])
async def test_a_server_ends_the_connection_in_its_start_up(client_scene: Scenes, how: str, said: bytes) -> None:
    async with client_scene() as it:
        connecting = it.connecting()
        peer = await it.accepted()
        await peer.startup_frame()
        await peer.send(said)
        if how == "Terminate" and said:
            # Its octets could be private data: only the end shows that there is no frame.
            await end(peer, "Terminate and FIN")
        else:
            await end(peer, how)
        await fails(connecting, Exception)


@HOW
async def test_a_server_ends_the_connection_while_the_client_closes_it(client_scene: Scenes, how: str) -> None:
    async with client_scene() as it:
        calling, peer = await client_called(it)
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
