"""A client that offers services over RDMA, against a server that calls it as it pleases."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from client_calls import Scenes, fails, null
from rpcrdma.aio.client.connect import Connection
from rpcrdma.errors import TransportClosed
from rpcrdma.nfs import v3
from support.cases import each_case
from support.raw_calls import HANDLE, chunk, file_handle, read_segment, rpc, segment
from support.raw_calls import header as call_header
from support.raw_replies import HeardCall, header, rpc_reply, send
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough

CALLED = 0xCA11


class Back(v3.NFS_V3_Service):
    """GETATTR waits for the gate."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.called = 0

    async def getattr(self, args: v3.GETATTR3args, context: Any) -> v3.GETATTR3res:
        assert bytes(args.object.data) == HANDLE
        self.called += 1
        await self.gate.wait()
        return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_IO, None)


def call(number: int, xid: int, octets: Callable[..., bytes] = call_header, **options: Any) -> bytes:
    return send(octets(xid=xid, **options) + rpc(1, file_handle(), xid), number)


async def pair(it: Any, back: Back) -> tuple[Connection, RawSocketPeer]:
    """A client that is called, past its first call."""
    client, peer = await it.pair(services=[back])
    first = null(client)
    heard = HeardCall(await peer.segment())
    await peer.send_segments(send(header(heard.xid) + rpc_reply(heard.xid), 1))
    await first
    return client, peer


async def test_as_many_reverse_calls_as_were_granted_are_served_while_own_calls_go_on(client_scene: Scenes) -> None:
    async with client_scene() as it:
        back = Back()
        client, peer = await pair(it, back)
        await peer.send_segments(*(call(2 + number, CALLED + number) for number in range(16)))
        own = null(client)
        heard = HeardCall(await peer.segment())
        await peer.send_segments(send(header(heard.xid) + rpc_reply(heard.xid), 18))
        await own
        back.gate.set()
        answered = {int.from_bytes((await peer.segment()).payload[:4]) for _ in range(16)}
        assert answered == {CALLED + number for number in range(16)}
        assert back.called == 16


async def test_a_flood_of_reverse_calls_ends_the_connection(client_scene: Scenes) -> None:
    async with client_scene() as it:
        back = Back()
        client, peer = await pair(it, back)
        own = null(client)
        await peer.segment()
        await peer.send_segments(*(call(2 + number, CALLED + number) for number in range(17)))
        await fails(own, TransportClosed)
        assert back.called <= 16
        back.gate.set()


@pytest.mark.req("BD-9")
@each_case(
    "lists",
    [
        {"reads": read_segment(0, 7, 100)},
        {"reads": read_segment(60, 7, 100)},
        {"writes": chunk(segment(7, 100))},
        {"writes": chunk()},
        {"reply": chunk(segment(7, 100))},
    ],
)
async def test_reverse_calls_with_chunks_are_refused_and_not_run(client_scene: Scenes, lists: dict[str, bytes]) -> None:
    async with client_scene() as it:
        back = Back()
        client, peer = await pair(it, back)
        for number in range(2, 40):
            await peer.send_segments(call(number, CALLED, **lists))
            heard = await peer.segment()
            assert heard.payload == struct.pack(">IIIII", CALLED, 1, 16, 4, 2)
        own = null(client)
        heard_call = HeardCall(await peer.segment())
        await peer.send_segments(send(header(heard_call.xid) + rpc_reply(heard_call.xid), 40))
        await own
        assert back.called == 0
