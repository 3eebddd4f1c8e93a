"""A program and its server over TCP, for clients of the library and peers made of octets, without a network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Any

from local_tcp import LocalSocket, dial
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.server.tcp_server import TcpServer, TcpServerConfig
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.record import LAST_FRAGMENT
from rpcrdma.rpc.service import Service, in_worker, inline_or_worker
from support.programs import VOID, WORD, bulk_of, procedure
from support.waiting import until

MIB = 1 << 20
NUMBER = 0x20000003


DATA = bulk_of(8 * MIB)
ECHO = procedure(NUMBER, 1, "echo", DATA, DATA)
DOUBLE = procedure(NUMBER, 2, "double")
READ = procedure(NUMBER, 3, "read", WORD, DATA)
STORE = procedure(NUMBER, 4, "store", DATA, WORD)
BLOCK = procedure(NUMBER, 5, "block")
MAYBE = procedure(NUMBER, 6, "maybe")
GATED = procedure(NUMBER, 7, "gated")
FAIL = procedure(NUMBER, 8, "fail")
WHO = procedure(NUMBER, 9, "who", VOID, WORD)
LATER = procedure(NUMBER, 10, "later")
MISTYPED = procedure(NUMBER, 11, "mistyped")
ALL = (ECHO, DOUBLE, READ, STORE, BLOCK, MAYBE, GATED, FAIL, WHO, LATER, MISTYPED)


def content(length: int) -> bytes:
    return bytes(range(256)) * (length // 256) + bytes(length % 256)


class Sample(Service):
    """GATED and STORE are answered once the gate is open. Made inside the event loop."""

    PROGRAM = Program(NUMBER, 1, "TEST_V1", {each.number: each for each in ALL})
    # Raw calls have one XID, and these are run however often they come.
    IDEMPOTENT = frozenset({STORE.number})

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.arrived = asyncio.Event()
        self.waiting = 0
        self.threads: list[str] = []

    def echo(self, args: memoryview, context: Any) -> memoryview:
        return args

    def double(self, args: int, context: Any) -> int:
        return args * 2

    def read(self, args: int, context: Any) -> memoryview:
        data: memoryview = context.buffer(args)
        data[:] = content(args)
        return data

    async def store(self, args: memoryview, context: Any) -> int:
        return await self.gated(len(args) - 3, context)

    @in_worker
    def block(self, args: int, context: Any) -> int:
        assert context.may_block
        self.threads.append(threading.current_thread().name)
        return args + 1

    @inline_or_worker
    def maybe(self, args: int, context: Any) -> Generator[None, None, int]:
        context.buffer(5000)
        if args % 2:
            yield
        self.threads.append(threading.current_thread().name)
        return args + 2

    async def gated(self, args: int, context: Any) -> int:
        self.waiting += 1
        self.arrived.set()
        await self.gate.wait()
        return args + 3

    def fail(self, args: int, context: Any) -> int:
        raise KeyError(args)

    def who(self, args: None, context: Any) -> int:
        assert context.peer == "127.0.0.1"
        assert context.xid >= 0
        return context.credential.uid if isinstance(context.credential, AuthSys) else 0xFFFFFFFF

    def later(self, args: int, context: Any) -> Any:
        return asyncio.sleep(0, args + 4)

    def mistyped(self, args: int, context: Any) -> Any:
        return "not a number"


class Rig:
    def __init__(self, service: Sample, server: TcpServer) -> None:
        self.service = service
        self.server = server

    async def caller(self, credential: Any = None, **options: Any) -> TcpConnection:
        return await TcpConnection.connect("127.0.0.1", self.server.port, credential, **options)

    async def raw(self, source: str = "127.0.0.1") -> LocalSocket:
        """A connection on which nothing has been said."""
        return await dial("127.0.0.1", self.server.port, source=source)


@asynccontextmanager
async def serving(parts: dict[str, Any] | None = None, **config: Any) -> AsyncIterator[Rig]:
    """A server with `parts` that others share; in the end it has answered another client, and nothing is left."""
    service = Sample()
    async with TcpServer(Dispatcher([service]), config=TcpServerConfig(**config), **(parts or {})) as server:
        await server.listen()
        rig = Rig(service, server)
        yield rig
        service.gate.set()
        if server.addresses:
            async with await rig.caller() as honest:
                assert await honest.call(ECHO, b"still here") == b"still here"
            await until(lambda: not server.connections)
    assert server.connections == set()
    assert server.pool.lent_octets == server.arguments.lent_octets == 0


def record(message: bytes, announced: int | None = None) -> bytes:
    return (LAST_FRAGMENT | (len(message) if announced is None else announced)).to_bytes(4, "big") + message


def raw_call(*call: Any) -> bytes:
    """The record of a call with XID 77."""
    return record(b"".join(CallEncoder().encode(77, *call).gather()))


REQUEST = raw_call(ECHO, b"hello")
REPLY = record(bytes.fromhex("0000004d 00000001 00000000 00000000 00000000 00000000 00000005 68656c6c6f000000"))


async def exactly(sock: LocalSocket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        octets = await asyncio.get_running_loop().sock_recv(sock, length - len(data))
        assert octets
        data += octets
    return bytes(data)


async def send(sock: LocalSocket, octets: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, octets)
