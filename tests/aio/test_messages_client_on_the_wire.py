"""A client on real sockets against servers that speak version 2 as they please, beside one that behaves."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import pytest

from client_calls import ENDS, FH, Scenes, fails, leave, null, read_into
from clock_ahead import set_clock_ahead
from rpcrdma import limits
from rpcrdma.aio.client.connect import Connection
from rpcrdma.errors import CallTimeout, ConnectFailed, DecodeError, RpcRdmaError
from rpcrdma.nfs import v3
from rpcrdma.transport import CallRefused, ChunkRefused, TransportConfig
from rpcrdma.xdr.codec import ReducedIneligibleItem
from support import raw_messages as raw
from support.both_drafts import Raw
from support.cases import each_case
from support.raw_calls import BOTH_PRIVATE, SEND, WRITE
from support.raw_iwarp import tagged
from support.raw_messages import CONNPROP, MORE, NOMSG, RESPONSE, HeardMessage
from support.raw_replies import invalidating, rpc_reply, send
from support.raw_socket import RawSocketPeer
from support.waiting import until

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


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (raw.error(1, 2), "refused the transport properties"),
        (raw.error(1, 10), "refused the transport properties"),
        (struct.pack(">IIIIIII", 1, 2, 32, 4, 1, 2, 2), "version 2 of"),
        (struct.pack(">IIIIIII", 1, 2, 32, 4, 1, 1, 1), "version 1 of"),
        (raw.error(1, 1, 7, 9), "versions 7 to 9"),
    ],
)
async def test_a_refused_first_message_is_told_with_its_reason(
    client_scene: Scenes, octets: bytes, reason: str
) -> None:
    async with client_scene() as it:
        connecting, talk = await begun(it)
        await talk.say(octets)
        assert reason in str(await fails(connecting, ConnectFailed))


async def test_an_older_version_on_the_same_connection_after_a_refusal(client_scene: Scenes) -> None:
    async with client_scene() as it:
        connecting, talk = await begun(it, "auto")
        await talk.say(struct.pack(">IIIIIII", 1, 2, 32, 4, 1, 1, 1))
        it.clients.append(await connecting)
        calling = null(it.clients[-1])
        heard = await talk.peer.segment()
        xid, version = struct.unpack_from(">II", heard.payload)
        assert version == 1
        await talk.say(struct.pack(">IIIIIII", xid, 1, 32, 0, 0, 0, 0) + rpc_reply(xid))
        await calling


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


@pytest.mark.req("V2-67")
async def test_a_reply_whose_reduced_item_is_not_eligible_fails_the_call_for_good(client_scene: Scenes) -> None:
    """A failed READ has no data: content of the Write chunk can only be an item that had to stay in the stream."""
    async with client_scene() as it:
        client, talk = await pair(it)
        calling = read_into(client, bytearray(5000))
        call = await talk.hear()
        ((handle, _, offset),) = call.writes[0]
        # NFS3ERR_IO, and the attributes once more.
        await talk.peer.send_segments(tagged(WRITE, handle, offset, bytes(4)))
        body = rpc_reply(call.xid, struct.pack(">II", 5, 0))
        await talk.say(raw.message(call.xid, body, RESPONSE, writes=raw.chunk((handle, 4, offset))))
        assert isinstance(await fails(calling, DecodeError), ReducedIneligibleItem)
        await talk.works(client)


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


async def test_a_server_that_does_not_finish_its_reply_loses_the_connection(client_scene: Scenes, raw: Raw) -> None:
    async with client_scene() as it:
        client, talk = await pair(it, transport=TransportConfig(), raw=raw)
        calling = [null(client), null(client)]
        call = await talk.hear()
        await talk.say(raw.message(call.xid, rpc_reply(call.xid)[:10], RESPONSE | MORE))
        await until(lambda: client._present._endpoint._session.unfinished)
        set_clock_ahead(limits.RDMA_STALLED_S)
        for waiting in calling:
            assert "did not send the rest of a message within 30 s" in str(await fails(waiting))


@each_case("code", [1, 5, 9])
async def test_each_error_fails_the_call_or_has_it_sent_again_and_the_connection_goes_on(
    client_scene: Scenes, code: int
) -> None:
    data = {1: (1, 1), 5: (0,), 6: (0,), 7: (1,), 8: (1, 9000), 9: (9000,)}.get(code, ())
    async with client_scene() as it:
        client, talk = await pair(it)
        calling = asyncio.create_task(client.call(v3.READ, v3.READ3args(FH, 0, 5000)))
        call = await talk.hear()
        sent = 1
        await talk.say(raw.error(call.xid, code, *data))
        while code in {6, 7, 8, 9} and sent < limits.CALL_ATTEMPTS_MAX:
            again = asyncio.ensure_future(talk.hear())
            done, _ = await asyncio.wait({again, calling}, return_when=asyncio.FIRST_COMPLETED)
            if again not in done:
                again.cancel()
                break
            assert again.result().xid == call.xid
            sent += 1
            await talk.say(raw.error(call.xid, code, *data))
        error = await fails(calling, RpcRdmaError)
        assert isinstance(error, (CallRefused, ChunkRefused)) or code == 1
        assert (sent > 1) == (code in {6, 7, 8, 9})
        await talk.works(client)


async def test_a_server_that_never_grants_leaves_calls_to_their_deadlines(client_scene: Scenes, raw: Raw) -> None:
    async with client_scene() as it:
        connecting, talk = await begun(it, raw=raw)
        await talk.say(raw.properties(give=1 + raw.GRANT_TAKES))
        it.clients.append(await connecting)
        client = it.clients[-1]
        first = null(client)
        assert (await talk.hear()).xid
        others = [null(client, timeout_s=60) for _ in range(20)]
        await asyncio.sleep(0)
        set_clock_ahead(60)
        await asyncio.gather(*(fails(each, CallTimeout) for each in others))
        first.cancel()
