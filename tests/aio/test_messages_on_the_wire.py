"""Ends on real sockets whose peers speak version 2 as they please, beside one that behaves."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import pytest

from client_calls import ENDS, Scenes, fails, leave, null, read_into
from rpcrdma.aio.client.connect import Connection
from rpcrdma.errors import ConnectFailed, RpcRdmaError
from support import raw_messages as raw
from support.cases import each_case
from support.raw_calls import BOTH_PRIVATE, READ_ARGS, SEND, XID, rpc, send, write_args
from support.raw_iwarp import fpdu
from support.raw_messages import CONNPROP, MORE, NOMSG, RESPONSE, HeardMessage
from support.raw_replies import rpc_reply
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough


class Talk:
    """A hostile peer's Sends, which are numbered, and the messages that it receives."""

    def __init__(self, peer: RawSocketPeer) -> None:
        self.peer = peer
        self.sent = 0

    async def say(self, *messages: bytes) -> None:
        segments = []
        for octets in messages:
            self.sent += 1
            segments.append(send(octets, self.sent))
        await self.peer.send_segments(*segments)

    async def hear(self) -> HeardMessage:
        """The next message that is no grant."""
        while True:
            heard = await self.peer.segment()
            assert heard.opcode == SEND, heard
            message = raw.heard(heard.payload)
            if (message.kind, message.xid) != (NOMSG, 0):
                return message


# Clients that please themselves


async def introduced(it: Any) -> Talk:
    """A client that has told its properties, and has been told the server's."""
    talk = Talk(await it.connected())
    await talk.say(raw.properties(give=64))
    heard = await talk.hear()
    assert heard.kind == CONNPROP
    assert heard.give > 100
    return talk


async def test_calls_in_messages_with_octets_changed_at_random(scene: Scenes) -> None:
    draw = random.Random(0)
    kinds = [
        raw.message(XID, rpc(0)),
        raw.message(XID, rpc(0)[:20], MORE),
        raw.message(XID, rpc(6, READ_ARGS), writes=raw.chunk((7, 5000, 0))),
        raw.message(XID, rpc(7, write_args(20)), reads=raw.read_segment(88, (7, 20, 0))),
        raw.properties(),
        raw.grant(2),
        raw.error(XID, raw.REPLY_RESOURCE, 9000),
    ]
    async with scene() as it:
        for _ in range(12):
            talk = await introduced(it)
            for _ in range(30):
                octets = bytearray(draw.choice(kinds))
                for _ in range(draw.randrange(3)):
                    octets[draw.randrange(len(octets))] = draw.choice([0, 1, 2, 255, draw.randrange(256)])
                try:
                    await talk.say(bytes(octets))
                except OSError:
                    break
            talk.peer.end()
            await talk.peer.ended()
            await it.still_good()
        await it.alone()
        assert it.lent_octets == 0


@ENDS
async def test_a_client_that_leaves_in_the_midst_of_a_call(scene: Scenes, how: str) -> None:
    async with scene() as it:
        for pieces in (1, 17):
            talk = await introduced(it)
            await talk.say(*(raw.message(XID, bytes(32_000), MORE) for _ in range(pieces)))
            await leave(talk.peer, how)
        await it.alone()
        assert it.lent_octets == 0


async def test_frames_cut_at_any_octet_of_the_first_message(scene: Scenes) -> None:
    async with scene() as it:
        whole = fpdu(send(raw.properties(), 1))
        for length in range(1, len(whole), 7):
            peer = await it.connected()
            await peer.send(whole[:length])
            peer.close()
        await it.alone()


# Servers that please themselves


async def begun(it: Any, version: str) -> tuple[asyncio.Task[Connection], Talk]:
    """A client that waits for the answer to its first message, which has been heard."""
    connecting = it.connecting(rpcrdma_version=version)
    peer = await it.accepted()
    await peer.accept(BOTH_PRIVATE)
    talk = Talk(peer)
    assert (await talk.hear()).kind == CONNPROP
    return connecting, talk


@ENDS
async def test_a_server_that_leaves_without_an_answer(client_scene: Scenes, how: str) -> None:
    """`test_version_fallback_on_the_wire` has what a client does that may speak another version."""
    async with client_scene() as it:
        connecting, talk = await begun(it, "2")
        await leave(talk.peer, how)
        await fails(connecting, ConnectFailed)


@each_case("seed", range(2))
async def test_garbage_for_an_answer_to_the_first_message(client_scene: Scenes, seed: int) -> None:
    draw = random.Random(seed)
    async with client_scene() as it:
        connecting, talk = await begun(it, "2")
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
async def test_cut_in_the_midst_of_a_reply(client_scene: Scenes, how: str) -> None:
    async with client_scene() as it:
        connecting, talk = await begun(it, "2")
        await talk.say(raw.properties(give=64))
        client = await connecting
        it.clients.append(client)
        calling = [null(client), read_into(client, bytearray(5000))]
        call = await talk.hear()
        await talk.say(raw.message(call.xid, rpc_reply(call.xid)[:10], RESPONSE | MORE))
        await leave(talk.peer, how)
        for waiting in calling:
            await fails(waiting)
