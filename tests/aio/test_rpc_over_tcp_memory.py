"""Large calls over TCP that pile up, or never end: their memory is bounded, and other clients do not wait long."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.connections import tcp_calls_taken
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.server import tcp_server
from rpcrdma.aio.server.tcp_server import TcpServer, TcpServerConfig
from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.record import LAST_FRAGMENT
from rpcrdma.rpc.service import Service
from rpcrdma.xdr.codec import Decoder, Encoder
from support.waiting import until

pytestmark = pytest.mark.thorough

MIB = 1 << 20


def encode(enc: Encoder, value: Any) -> None:
    enc.bulk(value, MIB, "data")


def decode(dec: Decoder) -> memoryview:
    return dec.bulk(MIB, "data")


def encode_count(enc: Encoder, value: int) -> None:
    enc.u32(value, "count")


def decode_count(dec: Decoder) -> int:
    return dec.u32("count")


STORE = Procedure(0x20000006, 1, 1, "STORE", "store", encode, decode, encode_count, decode_count)


class Store(Service):
    """Counts its data, once the gate is open."""

    PROGRAM = Program(0x20000006, 1, "STORE_V1", {1: STORE})
    # All raw calls have one XID, and are run however often they come.
    IDEMPOTENT = frozenset({1})

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.waiting = 0

    async def store(self, args: memoryview, context: Any) -> int:
        self.waiting += 1
        await self.gate.wait()
        return len(args)


def record(message: bytes) -> bytes:
    return (LAST_FRAGMENT | len(message)).to_bytes(4, "big") + message


CALL = record(b"".join(CallEncoder().encode(77, STORE, bytes(MIB - 1000)).gather()))


@asynccontextmanager
async def serving(pool_octets: int = 256 * MIB, **config: Any) -> AsyncIterator[tuple[TcpServer, Store]]:
    store = Store()
    arguments = BufferPool(octets_max=pool_octets)
    async with TcpServer(Dispatcher([store]), arguments=arguments, config=TcpServerConfig(**config)) as server:
        await server.listen()
        yield server, store
        store.gate.set()
        await until(lambda: not server.connections)
    assert arguments.lent_octets == 0
    assert not arguments.waited_for


async def connected(server: TcpServer, source: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket()
    sock.bind((source, 0))
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", server.port))
    return sock


async def begin(sock: socket.socket, octets: int) -> asyncio.Task[None]:
    """Sends so many octets of a call, as far as the server reads them."""
    return asyncio.create_task(asyncio.get_running_loop().sock_sendall(sock, CALL[:octets]))


def held(server: TcpServer) -> list[int]:
    return [
        each.octets + each.expected for each in (connection.calls_taken.memory for connection in server.connections)
    ]


async def give_up(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def test_large_calls_of_one_connection_are_left_unread_beyond_its_bound_and_all_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_UNANSWERED_CALL_OCTETS_MAX", 3 * MIB)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as (server, store):
            with await connected(server) as sock:
                sending = asyncio.create_task(loop.sock_sendall(sock, CALL * 30))
                await until(lambda: store.waiting == 4)
                for _ in range(200):
                    await asyncio.sleep(0)
                assert store.waiting == 4
                assert not sending.done()
                assert server.arguments.lent_octets <= 5 * MIB
                async with await TcpConnection.connect("127.0.0.1", server.port) as other:
                    call = asyncio.create_task(other.call(STORE, bytes(MIB)))
                    await until(lambda: store.waiting == 5)
                    store.gate.set()
                    assert await call == MIB
                answers = b""
                while len(answers) < 30 * 32:
                    answers += await loop.sock_recv(sock, 65536)
                await sending
                assert answers == answers[:32] * 30

    asyncio.run(main())


@pytest.mark.parametrize("octets", [4, 1000, MIB // 2])
def test_calls_that_never_end_hold_a_part_of_the_memory_and_others_are_served(octets: int) -> None:
    async def main() -> None:
        async with serving(64 * MIB) as (server, store):
            store.gate.set()
            socks = [await connected(server, "127.0.0.2") for _ in range(40)]
            tasks = [await begin(sock, octets) for sock in socks]
            await until(lambda: sum(held(server)) >= 40 * (MIB - 1000))
            # A ninth, and then one call of each connection until half is gone.
            assert server.arguments.lent_octets <= 64 * MIB / 2
            assert 0 < sum(connection.calls_taken.memory.short for connection in server.connections) < 30
            async with await TcpConnection.connect("127.0.0.1", server.port) as other:
                for _ in range(5):
                    assert await other.call(STORE, bytes(MIB)) == MIB
            for sock, task in zip(socks, tasks, strict=True):
                await give_up(task)
                sock.close()

    asyncio.run(main())


def test_when_memory_is_short_who_does_not_finish_its_call_is_cut_off(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_STALLED_S", -1.0)
    monkeypatch.setattr(tcp_server, "_RELIEF_S", 0.0)

    async def main() -> None:
        async with serving(2 * MIB) as (server, store):
            store.gate.set()
            socks = [await connected(server, f"127.0.0.{number}") for number in (2, 3)]
            for sock in socks:
                await begin(sock, 50_000)
            await until(lambda: len([octets for octets in held(server) if octets]) == 2)
            async with await TcpConnection.connect("127.0.0.1", server.port) as other:
                assert await other.call(STORE, bytes(MIB)) == MIB
                assert await other.call(STORE, bytes(MIB)) == MIB
            for sock in socks:
                sock.close()

    asyncio.run(main())
    assert "is cut off: it does not finish its call" in caplog.text


def test_who_waits_for_memory_goes_on_when_others_have_been_answered() -> None:
    async def main() -> None:
        async with serving(2 * MIB) as (server, store):
            callers = [await TcpConnection.connect("127.0.0.1", server.port) for _ in range(10)]
            calls = [
                asyncio.create_task(caller.call(STORE, bytes(MIB - number))) for number, caller in enumerate(callers)
            ]
            await until(lambda: store.waiting > 0)
            for _ in range(200):
                await asyncio.sleep(0)
            assert store.waiting < 3
            store.gate.set()
            assert await asyncio.gather(*calls) == [MIB - number for number in range(10)]
            for caller in callers:
                await caller.close()

    asyncio.run(main())


def test_a_call_in_fragments_is_counted_while_the_next_one_is_awaited() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving() as (server, store):
            store.gate.set()
            message = CALL[4:]
            with await connected(server) as sock:
                await loop.sock_sendall(sock, (600_000).to_bytes(4, "big") + message[:600_000])
                await until(lambda: held(server) == [600_000])
                assert server.arguments.lent_octets > 500_000
                rest = message[600_000:]
                await loop.sock_sendall(sock, (LAST_FRAGMENT | len(rest)).to_bytes(4, "big") + rest)
                assert (await loop.sock_recv(sock, 100))[-4:] == (MIB - 1000).to_bytes(4, "big")
                await until(lambda: held(server) == [0])

    asyncio.run(main())
