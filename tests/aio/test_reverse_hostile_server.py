"""A client that offers services, against a server that calls it as it pleases."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.answering.answering import Answering, HandlerRunner
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.errors import TransportClosed
from rpcrdma.limits import RPC_OUTSTANDING_CALLS_MAX, RPC_UNSENT_REPLY_OCTETS_MAX
from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.record import LAST_FRAGMENT
from rpcrdma.rpc.service import Service
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case

pytestmark = pytest.mark.thorough


def encode(enc: Encoder, value: Any) -> None:
    enc.bulk(value, 1 << 20, "data")


def decode(dec: Decoder) -> memoryview:
    return dec.bulk(1 << 20, "data")


ECHO = Procedure(0x20000014, 1, 1, "ECHO", "echo", encode, decode, encode, decode)
WAIT = Procedure(0x20000014, 1, 2, "WAIT", "wait", encode, decode, encode, decode)
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


def record(message: bytes) -> bytes:
    return (LAST_FRAGMENT | len(message)).to_bytes(4, "big") + message


def call(xid: int, procedure: Procedure[Any, Any], data: bytes = b"") -> bytes:
    return record(b"".join(CallEncoder().encode(xid, procedure, data).gather()))


async def read_record(sock: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < 4 or len(data) < 4 + (int.from_bytes(data[:4]) & ~LAST_FRAGMENT):
        missing = 4 - len(data) if len(data) < 4 else 4 + (int.from_bytes(data[:4]) & ~LAST_FRAGMENT) - len(data)
        received = await loop.sock_recv(sock, missing)
        assert received
        data += received
    return data[4:]


@asynccontextmanager
async def against() -> AsyncIterator[tuple[TcpConnection, Back, socket.socket]]:
    """A client, its service, and the server's socket in the hands of the test."""
    loop = asyncio.get_running_loop()
    back = Back()
    runner = HandlerRunner()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        caller = await TcpConnection.connect(*listener.getsockname(), answering=Answering(Dispatcher([back]), runner))
        sock, _ = await loop.sock_accept(listener)
    with sock:
        sock.setblocking(False)
        try:
            yield caller, back, sock
        finally:
            await caller.close()
            await runner.drain(0)


async def test_calls_beyond_the_bound_are_refused_and_own_calls_are_still_answered() -> None:
    loop = asyncio.get_running_loop()
    async with against() as (caller, back, sock):
        bound = RPC_OUTSTANDING_CALLS_MAX
        for xid in range(bound + 50):
            await loop.sock_sendall(sock, call(xid, WAIT))
        for xid in range(bound, bound + 50):
            assert await read_record(sock) == xid.to_bytes(4, "big") + SYSTEM_ERR
        own = asyncio.ensure_future(caller.call(ECHO, b"mine"))
        asked = await read_record(sock)
        await loop.sock_sendall(sock, record(asked[:4] + bytes.fromhex("00000001") + bytes(16) + asked[-8:]))
        assert bytes(await own) == b"mine"
        back.gate.set()
        answered = {int.from_bytes((await read_record(sock))[:4]) for _ in range(bound)}
        assert answered == set(range(bound))


async def test_a_server_that_reads_no_answers_is_left() -> None:
    loop = asyncio.get_running_loop()
    async with against() as (caller, _, sock):
        own = asyncio.ensure_future(caller.call(WAIT, b""))
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await loop.sock_sendall(sock, call(1, ECHO, bytes(1 << 18)))
                sent += 1 << 18

        with pytest.raises(OSError, match=r"reset|pipe"):
            await flood()
        with pytest.raises(TransportClosed, match="does not read"):
            await own
        assert caller.closed
        # The bound, and the octets that the kernel holds for the two.
        assert sent < RPC_UNSENT_REPLY_OCTETS_MAX + (32 << 20)


@each_case(
    "message",
    [
        b"\0",
        b"\0\0\0\1\0\0\0",
        bytes(8),
        bytes(40),
        bytes.fromhex("00000001 00000002"),
        bytes.fromhex("00000001 00000001"),
    ],
)
async def test_messages_that_are_neither_harm_nothing(message: bytes) -> None:
    loop = asyncio.get_running_loop()
    async with against() as (caller, _, sock):
        await loop.sock_sendall(sock, record(message) + call(9, ECHO, b"here"))
        answer = await read_record(sock)
        if answer[:4] != b"\0\0\0\x09":
            # Zeros say CALL, of no version of RPC that there is.
            answer = await read_record(sock)
        assert answer[-8:] == b"\0\0\0\4here"
        assert not caller.closed
