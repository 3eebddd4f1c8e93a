"""A client on real sockets against servers that reach for memory they were not offered, or stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from client_calls import (
    CONTENT,
    READ_RESPONSE,
    SEND,
    TERMINATE,
    WRITE,
    Scenes,
    assert_works,
    fails,
    null,
    read_into,
    write,
)
from rpcrdma.aio.client.connect import Connection
from support.cases import each_case
from support.raw_iwarp import read_request, tagged
from support.raw_replies import HeardCall, chunk, header, invalidating, read_result, rpc_reply, send
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough


class Reading:
    """A READ of 5000 octets under way, into the middle of a buffer that is otherwise none of the server's."""

    def __init__(self, client: Connection, peer: RawSocketPeer) -> None:
        self.client = client
        self.peer = peer
        self.buffer = bytearray(b"\xee" * 9000)
        self.calling = read_into(client, memoryview(self.buffer)[2000:7000])
        self.xid = self.handle = self.offset = 0

    async def begin(self) -> Reading:
        call = HeardCall(await self.peer.segment())
        self.xid = call.xid
        ((self.handle, length, self.offset),) = call.writes[0]
        assert length == 5000
        return self

    @property
    def reply(self) -> bytes:
        echo = chunk((self.handle, 5000, self.offset))
        return header(self.xid, writes=echo) + rpc_reply(self.xid, read_result(5000))

    def assert_untouched_outside(self) -> None:
        assert self.buffer[:2000] == self.buffer[7000:] == b"\xee" * 2000


BREACHES: dict[str, tuple[int, Callable[[Reading], list[bytes]]]] = {
    "one octet in front": (0x1101, lambda it: [tagged(WRITE, it.handle, it.offset - 1, bytes(5000))]),
    "one octet alone": (0x1101, lambda it: [tagged(WRITE, it.handle, it.offset + 5000, b"x")]),
    "all of the offsets": (0x1103, lambda it: [tagged(WRITE, it.handle, 2**64 - 1, bytes(50))]),
    "neighbouring handle": (0x1100, lambda it: [tagged(WRITE, it.handle ^ 1, it.offset, bytes(50))]),
    "Read Response": (0x0206, lambda it: [tagged(READ_RESPONSE, it.handle, it.offset, bytes(50))]),
    "read of memory that is for writing": (
        0x0102,
        lambda it: [read_request(1, 5, 0, 100, it.handle, it.offset)],
    ),
    "read of 4 GiB": (0x0102, lambda it: [read_request(1, 5, 0, 0xFFFFFFFF, it.handle, it.offset)]),
    "invalidation of a handle never given": (0x0109, lambda it: [invalidating(it.reply, it.handle ^ 1)]),
}


@each_case("what", BREACHES)
async def test_a_breach_gets_its_terminate_and_touches_nothing(client_scene: Scenes, what: str) -> None:
    code, breach = BREACHES[what]
    async with client_scene() as it:
        reading = await Reading(*await it.pair()).begin()
        await reading.peer.send_segments(*breach(reading))
        error = await fails(reading.calling)
        assert error.protocol_error
        (heard,) = await reading.peer.segments_to_end()
        assert heard.opcode == TERMINATE
        assert heard.terminate_code == code
        reading.assert_untouched_outside()
        reading.peer.close()


async def test_memory_of_another_connection(client_scene: Scenes) -> None:
    async with client_scene() as it:
        victim = await Reading(*await it.pair()).begin()
        thief = await Reading(*await it.pair()).begin()
        await thief.peer.send_segments(tagged(WRITE, victim.handle, victim.offset, bytes(5000)))
        await fails(thief.calling)
        assert victim.buffer == b"\xee" * 9000
        await victim.peer.send_segments(tagged(WRITE, victim.handle, victim.offset, CONTENT[:5000]))
        await victim.peer.send_segments(send(victim.reply))
        await victim.calling
        assert victim.buffer[2000:7000] == CONTENT[:5000]


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


async def test_a_terminate_that_cannot_leave(client_scene: Scenes) -> None:
    async with client_scene() as it:
        client, peer, calling = await blocked(it)
        await peer.send_segments(tagged(WRITE, 9, 0, b"x"))
        assert (await fails(calling)).protocol_error
        await client._present.wait_closed()


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


async def test_memory_of_a_cancelled_call_is_the_callers_though_the_call_waits_to_be_sent(client_scene: Scenes) -> None:
    """The call that is sent later is unchanged: else its checksum would be wrong, and the connection would end."""
    async with client_scene() as it:
        client, peer, first = await blocked(it)
        buffers = [bytearray(b"\xaa" * 900) for _ in range(8)]
        calling = [write(client, buffer) for buffer in buffers]
        await asyncio.sleep(0)
        for task, buffer in zip(calling, buffers, strict=True):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            buffer[:] = b"\xbb" * 900
        sends = 0
        while sends < 8:
            heard = await peer.segment()
            if heard.opcode == SEND:
                assert heard.payload.endswith(b"\xaa" * 900)
                sends += 1
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
