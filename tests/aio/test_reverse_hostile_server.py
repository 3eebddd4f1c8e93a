"""A client that offers services, against a server that calls it as it pleases."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.errors import TransportClosed
from rpcrdma.limits import RPC_OUTSTANDING_CALLS_MAX, RPC_UNSENT_REPLY_OCTETS_MAX
from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.service import Service
from support.programs import bulk_of, procedure
from support.raw_calls import record
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough


DATA = bulk_of(1 << 20)
ECHO, WAIT = (procedure(0x20000014, number, method, DATA, DATA) for number, method in enumerate(("echo", "wait"), 1))
SYSTEM_ERR = bytes.fromhex("00000001 00000000 00000000 00000000 00000005")


class Back(Service):
    PROGRAM = Program(0x20000014, 1, "BACK_V1", {1: ECHO, 2: WAIT})

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    def echo(self, args: memoryview, context: Any) -> memoryview:
        return args

    async def wait(self, args: memoryview, context: Any) -> memoryview:
        await self.gate.wait()
        return args


def call(xid: int, asked: Procedure[Any, Any], data: bytes = b"") -> bytes:
    return record(b"".join(CallEncoder().encode(xid, asked, data).gather()))


async def heard(peer: RawSocketPeer) -> bytes:
    """The next record."""
    return await peer.receive(int.from_bytes(await peer.receive(4)) & 0x7FFFFFFF)


@asynccontextmanager
async def against() -> AsyncIterator[tuple[TcpConnection, Back, RawSocketPeer]]:
    """A client, its service, and the server's socket in the hands of the test."""
    back = Back()
    runner = HandlerRunner()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        caller = await TcpConnection.connect(*listener.getsockname(), answering=Answering(Dispatcher([back]), runner))
        peer = RawSocketPeer((await asyncio.get_running_loop().sock_accept(listener))[0])
    try:
        yield caller, back, peer
    finally:
        await caller.close()
        await runner.drain(0)
        peer.close()


async def test_calls_beyond_the_bound_are_refused_and_own_calls_are_still_answered() -> None:
    async with against() as (caller, back, peer):
        bound = RPC_OUTSTANDING_CALLS_MAX
        for xid in range(bound + 50):
            await peer.send(call(xid, WAIT))
        for xid in range(bound, bound + 50):
            assert await heard(peer) == xid.to_bytes(4) + SYSTEM_ERR
        own = asyncio.ensure_future(caller.call(ECHO, b"mine"))
        asked = await heard(peer)
        await peer.send(record(asked[:4] + bytes.fromhex("00000001") + bytes(16) + asked[-8:]))
        assert bytes(await own) == b"mine"
        back.gate.set()
        answered = {int.from_bytes((await heard(peer))[:4]) for _ in range(bound)}
        assert answered == set(range(bound))


async def test_a_server_that_reads_no_answers_is_left() -> None:
    async with against() as (caller, _, peer):
        own = asyncio.ensure_future(caller.call(WAIT, b""))
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await peer.send(call(1, ECHO, bytes(1 << 18)))
                sent += 1 << 18

        with pytest.raises(OSError, match=r"reset|pipe"):
            await flood()
        with pytest.raises(TransportClosed, match="does not read"):
            await own
        assert caller.closed
        # The bound, and the octets that the kernel holds for the two.
        assert sent < RPC_UNSENT_REPLY_OCTETS_MAX + (32 << 20)
