"""Calls over TCP on loopback: a hand-written program, the caller and the server against each other."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.server.tcp_server import TcpServer, TcpServerConfig
from rpcrdma.errors import CallTimeout, ConnectFailed, DecodeError, LocalProtocolError, TransportClosed
from rpcrdma.rpc import errors
from rpcrdma.rpc.auth import AuthNone, AuthSys
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.service import Service, in_worker, inline_or_worker
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case
from support.programs import VOID, WORD, procedure

pytestmark = pytest.mark.thorough

NUMBER = 0x20000002
MIB = 1 << 20


def encode_data(enc: Encoder, value: Any) -> None:
    enc.bulk(value, 8 * MIB, "data")


def decode_data(dec: Decoder) -> memoryview:
    return dec.bulk(8 * MIB, "data")


DATA = (encode_data, decode_data)


NULL = procedure(NUMBER, 0, "null", VOID, VOID)
DOUBLE = procedure(NUMBER, 1, "double", WORD, WORD)
READ = procedure(NUMBER, 2, "read", WORD, DATA)
WRITE = procedure(NUMBER, 3, "write", DATA, WORD)
BLOCK = procedure(NUMBER, 4, "block", WORD, WORD)
MAYBE = procedure(NUMBER, 5, "maybe", WORD, WORD)
GATED = procedure(NUMBER, 6, "gated", WORD, WORD)
FAIL = procedure(NUMBER, 7, "fail", WORD, WORD)
WHO = procedure(NUMBER, 8, "who", VOID, WORD)
LATER = procedure(NUMBER, 9, "later", WORD, WORD)
MISTYPED = procedure(NUMBER, 10, "mistyped", WORD, WORD)
ALL = (NULL, DOUBLE, READ, WRITE, BLOCK, MAYBE, GATED, FAIL, WHO, LATER, MISTYPED)


class Sample(Service):
    """Made inside the event loop."""

    PROGRAM = Program(NUMBER, 1, "TEST_V1", {p.number: p for p in ALL})

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.arrived = asyncio.Event()
        self.waiting = 0
        self.threads: list[str] = []

    def double(self, args: int, context: Any) -> int:
        return args * 2

    def read(self, args: int, context: Any) -> memoryview:
        data: memoryview = context.buffer(args)
        data[:] = bytes(range(256)) * (args // 256) + bytes(args % 256)
        return data

    def write(self, args: memoryview, context: Any) -> int:
        return sum(args[:: max(1, len(args) // 16)])

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
        credential = context.credential
        assert context.peer == "127.0.0.1"
        assert context.xid >= 0
        return credential.uid if isinstance(credential, AuthSys) else 0xFFFFFFFF

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


@asynccontextmanager
async def serving(**config: Any) -> AsyncIterator[Rig]:
    service = Sample()
    async with TcpServer(Dispatcher([service]), config=TcpServerConfig(**config)) as server:
        await server.listen()
        yield Rig(service, server)
        service.gate.set()
    assert server.connections == set()
    assert server.pool.lent_octets == 0


@pytest.mark.req("OR-2", "OR-6")
def test_calls_of_every_kind_of_handler_are_answered() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            assert await caller.call(NULL, None) is None
            assert await caller.call(DOUBLE, 21) == 42
            assert await caller.call(BLOCK, 1) == 2
            assert await caller.call(MAYBE, 2) == 4
            assert await caller.call(MAYBE, 3) == 5
            assert await caller.call(LATER, 4) == 8
            rig.service.gate.set()
            assert await caller.call(GATED, 5) == 8
            main_thread = threading.current_thread().name
            assert [name == main_thread for name in rig.service.threads] == [False, True, False]

    asyncio.run(main())


@pytest.mark.req("OR-6")
def test_256_calls_at_once_get_their_own_answers() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            rig.service.gate.set()
            targets = (DOUBLE, BLOCK, MAYBE, GATED, LATER)
            expected = (lambda n: n * 2, lambda n: n + 1, lambda n: n + 2, lambda n: n + 3, lambda n: n + 4)
            results = await asyncio.gather(*(caller.call(targets[n % 5], n) for n in range(256)))
            assert results == [expected[n % 5](n) for n in range(256)]

    asyncio.run(main())


@pytest.mark.req("OR-6")
def test_answers_may_come_in_another_order_than_the_calls() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            slow = asyncio.create_task(caller.call(GATED, 1))
            await rig.service.arrived.wait()
            assert await caller.call(DOUBLE, 2) == 4
            rig.service.gate.set()
            assert await slow == 4

    asyncio.run(main())


@each_case("length", [0, 1, 3, 5000, MIB])
def test_a_bulk_result_arrives_whole(length: int) -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            expected = bytes(range(256)) * (length // 256) + bytes(length % 256)
            assert await caller.call(READ, length) == expected
            into = bytearray(b"?" * (length + 2))
            result = await caller.call(READ, length, into=into)
            assert result == expected
            assert result.obj is into
            assert into == expected + b"??"

    asyncio.run(main())


def test_a_bulk_result_larger_than_the_given_memory_is_an_error() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            into = bytearray(b"untouched")
            with pytest.raises(DecodeError, match="at most 9 octets"):
                await caller.call(READ, 10, into=into)
            assert into == b"untouched"

    asyncio.run(main())


def test_bulk_arguments_go_both_ways_at_once() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            data = bytes(range(256)) * 4096
            expected = sum(data[:: MIB // 16])
            calls = [caller.call(WRITE, data) if n % 2 else caller.call(READ, MIB) for n in range(24)]
            results = await asyncio.gather(*calls)
            assert results[1::2] == [expected] * 12
            assert all(len(result) == MIB for result in results[::2])

    asyncio.run(main())


@pytest.mark.req("OR-3")
def test_the_handler_learns_who_calls() -> None:
    async def main() -> None:
        async with serving() as rig:
            async with await rig.caller(AuthSys(uid=1234, gid=1)) as caller:
                assert await caller.call(WHO, None) == 1234
            async with await rig.caller(AuthNone()) as caller:
                assert await caller.call(WHO, None) == 0xFFFFFFFF

    asyncio.run(main())


def test_errors_of_the_responder_reach_their_callers_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            other = Procedure(NUMBER + 1, 1, 1, "OTHER", "other", *WORD, *WORD)
            newer = Procedure(NUMBER, 7, 1, "NEWER", "newer", *WORD, *WORD)
            results = await asyncio.gather(
                caller.call(FAIL, 1),
                caller.call(FAIL, 2),
                caller.call(MISTYPED, 3),
                caller.call(other, 1),
                caller.call(newer, 1),
                caller.call(procedure(NUMBER, 99, "absent", WORD, WORD), 1),
                caller.call(procedure(NUMBER, 1, "double", VOID, WORD), None),
                caller.call(procedure(NUMBER, 1, "double", WORD, VOID), 1),
                caller.call(DOUBLE, 4),
                return_exceptions=True,
            )
            assert [type(result) for result in results] == [
                errors.RemoteSystemError,
                errors.RemoteSystemError,
                errors.RemoteSystemError,
                errors.ProgramUnavailable,
                errors.ProgramMismatch,
                errors.NoSuchProcedure,
                errors.GarbageArguments,
                DecodeError,
                int,
            ]

    with caplog.at_level(logging.ERROR, "rpcrdma.server"):
        asyncio.run(main())
    # Each kind of failure once, with its traceback; then how many more there were.
    assert [record.exc_info is not None for record in caplog.records] == [True, True, False]
    assert "the last of 1 more like it" in caplog.records[2].getMessage()
    names = [record.getMessage().split()[0] for record in caplog.records]
    assert names == ["FAIL", "MISTYPED", "FAIL"]


def test_a_call_without_answer_times_out_and_the_connection_goes_on() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            with pytest.raises(CallTimeout, match=r"GATED: no reply within 0\.01 s"):
                await caller.call(GATED, 1, timeout_s=0.01)
            rig.service.gate.set()
            assert await caller.call(GATED, 2, timeout_s=10) == 5
            assert not caller._pending

    asyncio.run(main())


def test_a_cancelled_call_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            task = asyncio.create_task(caller.call(GATED, 1))
            await rig.service.arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not caller._pending
            rig.service.gate.set()
            assert await caller.call(DOUBLE, 2) == 4

    asyncio.run(main())


def test_closing_ends_the_calls_in_progress_and_all_later_ones() -> None:
    async def main() -> None:
        async with serving() as rig:
            caller = await rig.caller()
            calls = [asyncio.create_task(caller.call(GATED, n)) for n in range(3)]
            await rig.service.arrived.wait()
            await caller.close()
            await caller.close()
            assert caller.closed
            for call in calls:
                with pytest.raises(TransportClosed, match="this side"):
                    await call
            with pytest.raises(TransportClosed):
                await caller.call(DOUBLE, 1)

    asyncio.run(main())


def test_only_the_first_bulk_item_is_copied_into_the_callers_memory() -> None:
    def decode(dec: Decoder) -> tuple[memoryview, memoryview]:
        return dec.bulk(8, "one"), dec.bulk(8, "two")

    def encode(enc: Encoder, value: tuple[bytes, bytes]) -> None:
        enc.bulk(value[0], 8, "one")
        enc.bulk(value[1], 8, "two")

    target = procedure(NUMBER, 1, "pair", VOID, (encode, decode))

    class Pair(Service):
        PROGRAM = Program(NUMBER, 1, "PAIR", {1: target})

        def pair(self, args: None, context: Any) -> tuple[bytes, bytes]:
            return b"first", b"second"

    async def main() -> None:
        async with TcpServer(Dispatcher([Pair()])) as server:
            await server.listen()
            async with await TcpConnection.connect("127.0.0.1", server.port) as caller:
                into = bytearray(8)
                one, two = await caller.call(target, None, into=into)
                assert (bytes(one), bytes(two), bytes(into)) == (b"first", b"second", b"first\0\0\0")

    asyncio.run(main())


def test_a_failed_connect_names_address_and_cause() -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            with pytest.raises(ConnectFailed, match=f"127.0.0.1:{port}: .*refused"):
                await TcpConnection.connect("127.0.0.1", port)
        with pytest.raises(ConnectFailed, match="host name"):
            await TcpConnection.connect("not a name." + "x" * 70, 1)

    asyncio.run(main())


def test_a_connect_that_nobody_answers_times_out() -> None:
    async def main() -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            address = full.getsockname()
            # The backlog takes one connection more than it says; the next ones get no answer.
            held = [socket.socket() for _ in range(3)]
            for sock in held:
                sock.setblocking(False)
                sock.connect_ex(address)
            with pytest.raises(ConnectFailed, match="did not answer within"):
                await TcpConnection.connect(*address, timeout_s=0.05)
            for sock in held:
                sock.close()

    asyncio.run(main())


def test_arguments_that_do_not_encode_never_leave() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            with pytest.raises(LocalProtocolError):
                await caller.call(DOUBLE, -1)
            assert await caller.call(DOUBLE, 1) == 2
            assert not caller._pending

    asyncio.run(main())


@pytest.mark.req("OR-6")
def test_transaction_identifiers_wrap_and_pass_over_those_in_use() -> None:
    async def main() -> None:
        async with serving() as rig, await rig.caller() as caller:
            caller._xid = 0xFFFFFFFE
            held = asyncio.create_task(caller.call(GATED, 1))
            await rig.service.arrived.wait()
            for n in range(4):
                assert await caller.call(DOUBLE, n) == 2 * n
            caller._xid = 0xFFFFFFFE
            assert await caller.call(DOUBLE, 5) == 10
            assert caller._xid == 0
            rig.service.gate.set()
            assert await held == 4

    asyncio.run(main())


def test_transaction_identifiers_start_anywhere() -> None:
    async def main() -> None:
        async with serving() as rig:
            starts = set()
            for _ in range(4):
                async with await rig.caller() as caller:
                    starts.add(caller._xid)
            assert len(starts) > 1

    asyncio.run(main())
