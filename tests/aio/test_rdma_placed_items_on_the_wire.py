"""Items that were not placed though they had to be, or too long or short; how messages begin and connections end."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from client_calls import (
    CONTENT,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    Scenes,
    assert_works,
    fails,
    null,
    read_into,
    write,
)
from client_calls import WRITE as WRITE_OPCODE
from rpcrdma.aio.connections.calls_made import _PADS_WRONGLY
from rpcrdma.errors import DecodeError, GarbageArguments
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from rpcrdma.transport.refusals import ChunkRefused
from support import raw_calls
from support.cases import each_case
from support.raw_calls import file_handle, is_refusal, read_segment, rpc, write_call
from support.raw_iwarp import tagged
from support.raw_replies import HeardCall, chunk, header, rpc_reply, send
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough

RECONNECT = each_case("reconnect", [False, True])


async def answered_once(client: Any, peer: RawSocketPeer, xid: int, number: int) -> None:
    """Nothing is asked again on this connection: the next message is another call, with another XID."""
    next_call = null(client)
    heard = HeardCall(await peer.segment())
    assert heard.xid != xid
    assert (heard.reads, heard.writes, heard.reply) == ([], [], [])
    await peer.send_segments(send(header(heard.xid) + rpc_reply(heard.xid), number))
    await next_call


@pytest.mark.req("V1-64")
@RECONNECT
@each_case("length", [1, 4, 500, 900])
@each_case("returned", ["unused", "as if it were written"])
async def test_a_result_inline_in_spite_of_a_free_write_chunk_fails_the_call_for_good(
    client_scene: Scenes, length: int, returned: str, reconnect: bool
) -> None:
    async with client_scene() as it:
        client, peer = await it.pair(reconnect=reconnect)
        await assert_works(client, peer, 1)
        buffer = bytearray(5000)
        calling = read_into(client, buffer)
        call = HeardCall(await peer.segment())
        ((handle, room, offset),) = call.writes[0]
        assert room == 5000
        result = struct.pack(">IIIII", 0, 0, length, 0, length) + CONTENT[:length] + bytes(-length % 4)
        lists = header(call.xid, writes=chunk((handle, 0 if returned == "unused" else length, offset)))
        await peer.send_segments(send(lists + rpc_reply(call.xid, result), 2))
        error = await fails(calling, DecodeError)
        # The one says that the chunk was left free, the other leaves the octets over.
        assert ("Write chunk" in str(error)) is (returned == "unused")
        assert buffer == bytes(5000)
        await answered_once(client, peer, call.xid, 3)


@pytest.mark.req("NF-12", "NF-13")
@RECONNECT
@each_case("refused", ["ERR_CHUNK", "GARBAGE_ARGS"])
async def test_a_call_whose_chunks_are_refused_fails_at_once_and_is_not_sent_again(
    client_scene: Scenes, refused: str, reconnect: bool
) -> None:
    async with client_scene() as it:
        client, peer = await it.pair(reconnect=reconnect)
        await assert_works(client, peer, 1)
        calling = write(client, CONTENT[:9000])
        call = HeardCall(await peer.segment())
        assert call.reads
        if refused == "ERR_CHUNK":
            await peer.send_segments(send(struct.pack(">IIIII", call.xid, 1, 32, 4, 2), 2))
            await fails(calling, ChunkRefused)
        else:
            await peer.send_segments(
                send(header(call.xid) + struct.pack(">II", call.xid, 1) + bytes(12) + b"\0\0\0\4", 2)
            )
            await fails(calling, GarbageArguments)
        await answered_once(client, peer, call.xid, 3)


async def written(peer: RawSocketPeer, number: int, said: int, sent: int) -> bytes:
    """The answer to the peer's `number`th call: a WRITE of `said` octets with `sent` in its Read chunk."""
    await peer.send_segments(raw_calls.send(write_call(said, (7, sent, 0), xid=number), number))
    heard = await peer.segment()
    if heard.opcode != SEND:
        sink, offset, length = struct.unpack_from(">IQI", heard.payload)
        assert length == sent
        await peer.send_segments(tagged(READ_RESPONSE, sink, offset, CONTENT[:sent]))
        heard = await peer.segment()
    assert heard.payload[:4] == number.to_bytes(4)
    return heard.payload


LENGTHS = [
    (said, sent)
    for said in (1, 2, 3, 4, 5, 1001, 1024)
    for sent in (said - 1, said + 1, said + 2, said + 3, said + 4, said + 8)
    if sent > 0 and sent not in {said, said + -said % 4}
]


@pytest.mark.req("V1-23", "V1-24", "V2-22", "V2-45")
async def test_a_read_chunk_as_long_as_neither_its_item_nor_item_and_padding_is_refused(scene: Any) -> None:
    async with scene() as it:
        peer = await it.connected()
        number = 0
        for number, (said, sent) in enumerate(LENGTHS, 1):
            payload = await written(peer, number, said, sent)
            # It is the program's arguments that do not decode: GARBAGE_ARGS.
            assert payload[28:] == struct.pack(">IIIIII", number, 1, 0, 0, 0, 4), (said, sent)
        assert it.files.written == []
        # With padding, and without it, nothing but the item reaches the program.
        for said in (1, 2, 3, 4, 5, 1001):
            for sent in sorted({said, said + -said % 4}):
                number += 1
                payload = await written(peer, number, said, sent)
                assert payload[28:52] == struct.pack(">IIIIII", number, 1, 0, 0, 0, 0)
                assert it.files.written.pop() == CONTENT[:said]


@pytest.mark.req("V1-62", "V1-60", "V1-57", "V2-67")
async def test_an_ineligible_argument_in_a_chunk_is_answered_with_err_chunk_and_not_run(scene: Scenes) -> None:
    """A file handle; the octets of the same call without a chunk are served."""
    arguments = file_handle(b"the file") + struct.pack(">I", 0x3F)
    call = raw_calls.header(read_segment(44, 7, 8)) + rpc(4, arguments[:4] + arguments[12:])
    async with scene() as it:
        peer = await it.connected()
        await peer.send_segments(raw_calls.send(call))
        asked = await peer.segment()
        sink, offset, length = struct.unpack_from(">IQI", asked.payload)
        assert (asked.opcode, length) == (READ_REQUEST, 8)
        await peer.send_segments(tagged(READ_RESPONSE, sink, offset, b"the file"))
        assert is_refusal(await peer.segment())
        assert it.files.accessed == 0
        await peer.send_segments(raw_calls.send(raw_calls.header() + rpc(4, arguments), 2))
        assert (await peer.segment()).payload[28:36] == struct.pack(">II", raw_calls.XID, 1)
        assert it.files.accessed == 1


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
                await peer.send_segments(tagged(WRITE_OPCODE, handle, offset, CONTENT[:5000]))
                await asyncio.sleep(0)

        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            await go_on()
        await closing
        await fails(null(client))
        assert buffer == bytes(5000)


class Answering(v3.NFS_V3_Service):
    """A client's own service, for reverse calls: NULL alone."""

    def null(self, args: None, context: CallContext) -> None:
        """Nothing."""


@pytest.mark.req("BD-17")
async def test_each_connection_takes_all_reverse_calls_that_it_grants_at_its_start(client_scene: Scenes) -> None:
    async with client_scene() as it:
        connecting = it.connecting(reconnect=True, services=[Answering()])
        client = None
        calls: list[asyncio.Task[Any]] = []
        for connection in range(3):
            peer = await it.accepted()
            await peer.accept(raw_calls.BOTH_PRIVATE)
            if client is None:
                client = await connecting
                it.clients.append(client)
                calls.append(null(client))
            # The first call tells that the client may be spoken to.
            first = HeardCall(await peer.segment())
            reverse = [raw_calls.header(xid=xid) + raw_calls.rpc(0, xid=xid) for xid in range(16)]
            replies = header(first.xid) + rpc_reply(first.xid)
            await peer.send_segments(*[send(octets, number) for number, octets in enumerate([*reverse, replies], 1)])
            answered = set()
            while len(answered) < 16:
                heard = await peer.segment()
                assert heard.opcode == SEND
                xid, direction = struct.unpack_from(">II", heard.payload, 28)
                if direction == 1:
                    answered.add(xid)
            assert answered == set(range(16)), connection
            if connection < 2:
                peer.reset()
        await asyncio.gather(*calls)


@each_case("count", [101, 102, 103, 104, 1101, 1103])
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
                placed = tagged(WRITE_OPCODE, handle, offset, data)
                returned = header(call.xid, writes=chunk((handle, len(data), offset)))
                await peer.send_segments(placed, send(returned + rpc_reply(call.xid, result), number))
            assert (await calling).value.data == CONTENT[:count]
    wrong = count % 2 == 1 or (count % 4 == 2 and not inline)
    assert len([line for line in caplog.messages if "padded wrongly" in line]) == wrong
