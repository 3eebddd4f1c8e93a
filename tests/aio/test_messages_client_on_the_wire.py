"""A client on real sockets against servers that speak version 2 as they please, beside one that behaves."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import pytest

from client_calls import ENDS, Scenes, fails, leave, null, read_into
from rpcrdma.aio.client.connect import Connection
from rpcrdma.errors import ConnectFailed, RpcRdmaError
from rpcrdma.transport import TransportConfig
from support import raw_messages as raw
from support.both_drafts import Raw
from support.cases import each_case
from support.raw_calls import BOTH_PRIVATE, SEND
from support.raw_messages import CONNPROP, MORE, NOMSG, RESPONSE, HeardMessage
from support.raw_replies import invalidating, rpc_reply, send
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough

# Results go into Write chunks although they would fit messages.
CHUNKS = TransportConfig(in_messages_octets_max=0, offered_send_octets=4096, offered_receive_octets=4096)


class Talk:
    """A hostile server's Sends, which are numbered, and the messages that it receives."""

    def __init__(self, peer: RawSocketPeer, raw: Raw = raw) -> None:
        self.peer = peer
        self.raw = raw
        self.sent = 0
        self._credits = raw.Credits()

    async def say(self, *messages: bytes, invalidate: int | None = None) -> None:
        for octets in map(self._credits.sent, messages):
            self.sent += 1
            framed = send(octets, self.sent) if invalidate is None else invalidating(octets, invalidate, self.sent)
            await self.peer.send_segments(framed)

    async def hear(self) -> HeardMessage:
        """The next message that is no grant."""
        while True:
            heard = await self.peer.segment()
            assert heard.opcode == SEND, heard
            message = self.raw.heard(heard.payload)
            self._credits.arrived(message)
            if (message.kind, message.xid) != (NOMSG, 0):
                return message

    async def works(self, client: Connection) -> None:
        """A call of the client is answered."""
        calling = null(client)
        call = await self.hear()
        await self.say(self.raw.message(call.xid, rpc_reply(call.xid), RESPONSE, give=4))
        await calling


async def begun(it: Any, version: str = "", raw: Raw = raw, **options: Any) -> tuple[asyncio.Task[Connection], Talk]:
    """A client that waits for the answer to its first message, which has been heard."""
    connecting = it.connecting(rpcrdma_version=version or raw.NAME, **options)
    peer = await it.accepted()
    await peer.accept(BOTH_PRIVATE)
    talk = Talk(peer, raw)
    assert (await talk.hear()).kind == CONNPROP
    return connecting, talk


async def pair(it: Any, transport: TransportConfig = CHUNKS, raw: Raw = raw, **options: Any) -> tuple[Connection, Talk]:
    """A client and a server that have told each other their properties."""
    connecting, talk = await begun(it, raw=raw, transport=transport, **options)
    await talk.say(raw.properties(give=64))
    it.clients.append(await connecting)
    return it.clients[-1], talk


@ENDS
@pytest.mark.parametrize("version", ["2", "auto"])
async def test_a_server_that_leaves_without_an_answer(client_scene: Scenes, how: str, version: str) -> None:
    async with client_scene() as it:
        connecting, talk = await begun(it, version)
        await leave(talk.peer, how)
        if version == "auto":
            # It may have been a server of an older version: the client tries that on another connection, or reports it.
            again = asyncio.ensure_future(it.accepted())
            done, _ = await asyncio.wait({again, connecting}, return_when=asyncio.FIRST_COMPLETED)
            if again in done:
                peer = again.result()
                await peer.accept(BOTH_PRIVATE)
                it.clients.append(await connecting)
                assert it.clients[-1].negotiated.version == 1
                return
            again.cancel()
        await fails(connecting, ConnectFailed)


@each_case("seed", range(2))
async def test_garbage_for_an_answer_to_the_first_message(client_scene: Scenes, seed: int) -> None:
    draw = random.Random(seed)
    async with client_scene() as it:
        connecting, talk = await begun(it)
        for _ in range(4):
            octets = struct.pack(">III", draw.randrange(3), 2, 1) + draw.randbytes(4 * draw.randrange(60))
            try:
                await talk.say(octets)
            except OSError:
                break
        talk.peer.end()
        try:
            it.clients.append(await connecting)
        except RpcRdmaError:
            return


@ENDS
async def test_cut_in_the_midst_of_a_reply(client_scene: Scenes, raw: Raw, how: str) -> None:
    async with client_scene() as it:
        client, talk = await pair(it, raw=raw)
        calling = [null(client), read_into(client, bytearray(5000))]
        call = await talk.hear()
        await talk.say(raw.message(call.xid, rpc_reply(call.xid)[:10], RESPONSE | MORE))
        await leave(talk.peer, how)
        for waiting in calling:
            await fails(waiting)
