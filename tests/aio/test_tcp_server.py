"""The TCP server: its bounds, its log, how it begins and how it ends."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.answering.answering import HandlerRunner
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.connections import tcp_calls_taken
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers import listener as listener_module
from rpcrdma.aio.server import tcp_server
from rpcrdma.aio.server.tcp_server import TcpServer, TcpServerConfig
from rpcrdma.errors import TransportClosed
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import Service, in_worker
from rpcrdma.xdr.codec import Decoder, Encoder
from support.programs import WORD, procedure
from support.waiting import until

pytestmark = pytest.mark.thorough

NUMBER = 0x20000004
MIB = 1 << 20


def encode_data(enc: Encoder, value: Any) -> None:
    enc.bulk(value, MIB, "data")


def decode_data(dec: Decoder) -> memoryview:
    return dec.bulk(MIB, "data")


DATA = (encode_data, decode_data)


DOUBLE = procedure(NUMBER, 1, "double")
READ = procedure(NUMBER, 2, "read", WORD, DATA)
BLOCK = procedure(NUMBER, 3, "block")
GATED = procedure(NUMBER, 4, "gated")


class Sample(Service):
    """Made inside the event loop."""

    PROGRAM = Program(NUMBER, 1, "TEST_V1", {p.number: p for p in (DOUBLE, READ, BLOCK, GATED)})

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.arrived = asyncio.Event()
        self.waiting = 0

    def double(self, args: int, context: Any) -> int:
        return args * 2

    def read(self, args: int, context: Any) -> memoryview:
        data: memoryview = context.buffer(args)
        return data

    @in_worker
    def block(self, args: int, context: Any) -> int:
        return args + 1

    async def gated(self, args: int, context: Any) -> int:
        self.waiting += 1
        self.arrived.set()
        await self.gate.wait()
        return args + 3


class Rig:
    def __init__(self, service: Sample, server: TcpServer) -> None:
        self.service = service
        self.server = server

    async def caller(self) -> TcpConnection:
        return await TcpConnection.connect("127.0.0.1", self.server.port)


@asynccontextmanager
async def serving(**config: Any) -> AsyncIterator[Rig]:
    service = Sample()
    async with TcpServer(Dispatcher([service]), config=TcpServerConfig(**config)) as server:
        await server.listen()
        yield Rig(service, server)
        service.gate.set()
    assert server.connections == set()
    assert server.pool.lent_octets == 0


def test_a_stopping_server_answers_what_runs_and_then_closes() -> None:
    async def main() -> None:
        async with serving() as rig:
            caller = await rig.caller()
            call = asyncio.create_task(caller.call(GATED, 1))
            await rig.service.arrived.wait()
            stopping = asyncio.create_task(rig.server.stop(10))
            await asyncio.sleep(0)
            rig.service.gate.set()
            assert await call == 4
            await stopping
            assert caller.closed
            with pytest.raises(TransportClosed, match="peer closed"):
                await caller.call(DOUBLE, 1)

    asyncio.run(main())


def test_a_stopping_server_gives_up_on_calls_at_its_deadline() -> None:
    async def main() -> None:
        async with serving() as rig:
            caller = await rig.caller()
            call = asyncio.create_task(caller.call(GATED, 1))
            await rig.service.arrived.wait()
            await rig.server.stop(0.01)
            with pytest.raises(TransportClosed):
                await call

    asyncio.run(main())


def test_nothing_more_is_read_while_too_many_calls_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_OUTSTANDING_CALLS_MAX", 4)

    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller, await rig.caller() as other:
            calls = [asyncio.create_task(caller.call(GATED, n)) for n in range(50)]
            await rig.service.arrived.wait()
            assert await other.call(DOUBLE, 1) == 2
            assert rig.service.waiting == 4
            rig.service.gate.set()
            assert await asyncio.gather(*calls) == [n + 3 for n in range(50)]

    asyncio.run(main())


def test_replies_that_nobody_reads_hold_up_their_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_UNSENT_REPLY_OCTETS_MAX", MIB)

    async def main() -> None:
        async with serving() as rig, await rig.caller() as other:
            # Small buffers in the kernel fill, then the server's bound is reached.
            rig.server._listener._sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
            greedy = await rig.caller()
            greedy._stream._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            greedy._stream.pause()
            calls = [asyncio.create_task(greedy.call(READ, MIB)) for _ in range(40)]
            for _ in range(50):
                assert await other.call(DOUBLE, 1) == 2
            held = max(connection._stream.unsent_octets for connection in rig.server.connections)
            assert 0 < held < 3 * MIB
            assert rig.server.pool.lent_octets < 5 * MIB
            greedy._stream.resume()
            assert [len(result) for result in await asyncio.gather(*calls)] == [MIB] * 40
            await greedy.close()

    asyncio.run(main())


def test_a_peer_that_reads_nothing_is_cut_off_before_others_lack_memory(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_STALLED_S", -1.0)
    monkeypatch.setattr(tcp_server, "_RELIEF_S", 0.0)

    async def main() -> None:
        service = Sample()
        pool = BufferPool(octets_max=4 * MIB)
        async with TcpServer(Dispatcher([service]), pool=pool) as server:
            await server.listen()
            server._listener._sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
            async with await TcpConnection.connect("127.0.0.1", server.port) as honest:
                greedy = await TcpConnection.connect("127.0.0.1", server.port)
                greedy._stream._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
                greedy._stream.pause()
                calls = [asyncio.create_task(greedy.call(READ, MIB)) for _ in range(3)]
                # One client's share of so little; both connections are one client's.
                await until(lambda: pool.lent_octets == MIB)
                first = asyncio.create_task(honest.call(READ, MIB))
                await until(lambda: len(server.connections) == 1)
                # A reply on its way to the honest client is no stalled one.
                monkeypatch.setattr(tcp_calls_taken, "RPC_STALLED_S", 3600.0)
                assert len(await first) == MIB
                assert len(await honest.call(READ, MIB)) == MIB
                greedy._stream.resume()
                ends = await asyncio.gather(*calls, return_exceptions=True)
                assert isinstance(ends[-1], TransportClosed)
        assert pool.lent_octets == 0

    asyncio.run(main())
    assert "does not read its replies" in caplog.text


def test_connections_over_the_bound_are_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(connections_max=1) as rig, await rig.caller() as first:
            running = asyncio.create_task(first.call(GATED, 1))
            await rig.service.arrived.wait()
            second = await rig.caller()
            with pytest.raises(TransportClosed):
                await second.call(DOUBLE, 1)
            rig.service.gate.set()
            assert await running == 4

    asyncio.run(main())
    assert "turned away" in caplog.text


def test_connections_over_the_bound_take_the_places_of_those_that_have_been_idle_longest() -> None:
    async def main() -> None:
        async with serving(connections_max=3) as rig:
            callers = [await rig.caller() for _ in range(3)]
            for number in (1, 2, 0):
                await callers[number].call(DOUBLE, 1)
            calling = asyncio.create_task(callers[1].call(GATED, 1))
            await rig.service.arrived.wait()
            for ended in (2, 0):
                callers.append(await rig.caller())
                assert await callers[-1].call(DOUBLE, 1) == 2
                assert callers[ended].closed
            assert rig.server.connections_refused == 0
            rig.service.gate.set()
            assert await calling == 4
            for caller in callers:
                await caller.close()

    asyncio.run(main())


def test_an_idle_connection_is_closed_and_a_waiting_call_is_not_idle() -> None:
    async def main() -> None:
        async with serving(idle_s=0.02) as rig, await rig.caller() as busy:
            call = asyncio.create_task(busy.call(GATED, 1))
            with socket.create_connection(("127.0.0.1", rig.server.port)) as idle:
                idle.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(idle, 1) == b""
            rig.service.gate.set()
            assert await call == 4

    asyncio.run(main())


def test_connections_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            await caller.call(DOUBLE, 1)

    with caplog.at_level(logging.INFO, "rpcrdma.server"):
        asyncio.run(main())
    first, last = [record.getMessage() for record in caplog.records]
    assert first.startswith("tcp connection from 127.0.0.1:")
    assert last.endswith("ended: the peer closed the connection")


def test_a_flood_of_connections_fills_the_log_with_60_lines_a_minute_of_each_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with serving() as rig:
            for _ in range(100):
                async with await rig.caller() as caller:
                    await caller.call(DOUBLE, 1)
            assert rig.server.connections_made == 100

    with caplog.at_level(logging.INFO, "rpcrdma.server"):
        asyncio.run(main())
    lines = [record.getMessage() for record in caplog.records]
    # And one of each kind at the end, which says how many there were besides.
    counted = [line for line in lines if line.endswith("(the last of 40 more like it)")]
    ends = [" ended: " in line for line in lines if line not in counted]
    assert (ends.count(False), ends.count(True), len(counted)) == (60, 60, 2)


def test_a_server_listens_on_several_addresses() -> None:
    async def main() -> None:
        async with serving() as rig:
            await rig.server.listen("127.0.0.1", 0)
            assert (await rig.server.listen("::1"))[0][0] == "::1"
            for host, port in rig.server.addresses:
                async with await TcpConnection.connect(host, port) as caller:
                    assert await caller.call(DOUBLE, 1) == 2
            assert len({port for _, port in rig.server.addresses}) == 3
            with pytest.raises(OSError, match="in use"):
                await rig.server.listen("127.0.0.1", rig.server.port)

    asyncio.run(main())


def test_a_server_out_of_files_goes_on_accepting_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept = socket.socket.accept
    failures = [OSError(errno.EMFILE, "Too many open files")]

    def scarce(self: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(self)

    async def main() -> None:
        async with serving() as rig:
            monkeypatch.setattr(socket.socket, "accept", scarce)
            monkeypatch.setattr(listener_module, "_ACCEPT_RETRY_S", 0.01)
            async with await rig.caller() as caller:
                assert await caller.call(DOUBLE, 1) == 2
            failures.append(OSError(errno.ENFILE, "Too many open files"))
            monkeypatch.setattr(listener_module, "_ACCEPT_RETRY_S", 1000.0)
            async with await rig.caller() as caller:
                await until(lambda: not failures)
                await rig.server.stop()

    asyncio.run(main())
    said = "cannot accept a connection: Too many open files"
    assert [record.getMessage() for record in caplog.records] == [said, f"{said} (the last of 1 more like it)"]


def test_a_connection_reset_while_a_call_runs_harms_nobody() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as other:
            caller = await rig.caller()
            calls = [asyncio.create_task(caller.call(GATED, n)) for n in range(3)]
            calls += [asyncio.create_task(caller.call(READ, MIB)) for n in range(30)]
            await rig.service.arrived.wait()
            caller._stream._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await caller.close()
            assert all(isinstance(end, TransportClosed) for end in await asyncio.gather(*calls, return_exceptions=True))
            await until(lambda: len(rig.server.connections) == 1)
            rig.service.gate.set()
            assert await other.call(GATED, 1) == 4

    asyncio.run(main())


def test_servers_share_a_runner_and_a_pool() -> None:
    async def main() -> None:
        runner, pool, service = HandlerRunner(workers=1), BufferPool(), Sample()
        dispatcher = Dispatcher([service])
        async with (
            TcpServer(dispatcher, runner=runner, pool=pool) as one,
            TcpServer(dispatcher, runner=runner, pool=pool) as two,
        ):
            for server in (one, two):
                await server.listen()
                async with await TcpConnection.connect("127.0.0.1", server.port) as caller:
                    assert await caller.call(BLOCK, 1) == 2
        assert await runner.drain(1)

    asyncio.run(main())
