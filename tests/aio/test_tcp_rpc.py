"""Calls over TCP: the caller and the server against each other."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import Any

import pytest

from jumping_sockets import jumping, now_s
from local_tcp import with_threads, without_network
from rpcrdma import errors
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers import sockets
from rpcrdma.aio.server.tcp_server import TcpServer
from rpcrdma.errors import CallTimeout, ConnectFailed, DecodeError, LocalProtocolError, TransportClosed
from rpcrdma.rpc.auth import AuthNone, AuthSys
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Procedure, Program, null_procedure
from rpcrdma.rpc.service import Service
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case
from support.programs import VOID, WORD, procedure
from tcp_rig import BLOCK, DOUBLE, FAIL, GATED, LATER, MAYBE, MIB, MISTYPED, NUMBER, READ, WHO, content, serving


@pytest.mark.req("OR-2", "OR-6")
@with_threads
async def test_calls_of_every_kind_of_handler_are_answered() -> None:
    async with serving() as rig, await rig.caller() as caller:
        rig.service.gate.set()
        assert await caller.call(null_procedure(NUMBER, 1), None) is None
        for target, args in ((DOUBLE, 21), (BLOCK, 41), (MAYBE, 40), (MAYBE, 41), (LATER, 38), (GATED, 39)):
            assert await caller.call(target, args) == 42 + (args == 41 and target is MAYBE)
        main_thread = threading.current_thread().name
        assert [name == main_thread for name in rig.service.threads] == [False, True, False]


@pytest.mark.req("OR-6")
@without_network
async def test_answers_may_come_in_another_order_than_the_calls_and_identifiers_pass_over_those_in_use() -> None:
    async with serving() as rig, await rig.caller() as caller, await rig.caller() as other:
        assert caller._xid != other._xid, "they start anywhere"
        caller._xid = 0xFFFFFFFE
        slow = asyncio.create_task(caller.call(GATED, 1))
        await rig.service.arrived.wait()
        for n in range(4):
            assert await caller.call(DOUBLE, n) == 2 * n
        caller._xid = 0xFFFFFFFE
        assert await caller.call(DOUBLE, 5) == 10
        assert caller._xid == 0
        rig.service.gate.set()
        assert await slow == 4


@each_case("length", [0, 1, 3, 5000, MIB])
@without_network
async def test_a_bulk_result_arrives_whole(length: int) -> None:
    async with serving() as rig, await rig.caller() as caller:
        assert await caller.call(READ, length) == content(length)
        into = bytearray(b"?" * (length + 2))
        result = await caller.call(READ, length, into=into)
        assert result == content(length)
        assert result.obj is into
        assert into == content(length) + b"??"


@without_network
async def test_a_bulk_result_larger_than_the_given_memory_is_an_error() -> None:
    async with serving() as rig, await rig.caller() as caller:
        into = bytearray(b"untouched")
        with pytest.raises(DecodeError, match="at most 9 octets"):
            await caller.call(READ, 10, into=into)
        assert into == b"untouched"


@pytest.mark.req("OR-3")
@without_network
async def test_the_handler_learns_who_calls() -> None:
    async with serving() as rig:
        for credential, uid in ((AuthSys(uid=1234, gid=1), 1234), (AuthNone(), 0xFFFFFFFF)):
            async with await rig.caller(credential) as caller:
                assert await caller.call(WHO, None) == uid


@without_network
async def test_errors_of_the_responder_reach_their_callers_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "rpcrdma.server")
    async with serving() as rig, await rig.caller() as caller:
        calls: list[tuple[Procedure[Any, Any], Any, type]] = [
            (FAIL, 1, errors.RemoteSystemError),
            (FAIL, 2, errors.RemoteSystemError),
            (MISTYPED, 3, errors.RemoteSystemError),
            (procedure(NUMBER + 1, 1, "other"), 1, errors.ProgramUnavailable),
            (procedure(NUMBER, 1, "newer", version=7), 1, errors.ProgramMismatch),
            (procedure(NUMBER, 99, "absent"), 1, errors.NoSuchProcedure),
            (procedure(NUMBER, DOUBLE.number, "double", VOID, WORD), None, errors.GarbageArguments),
            (procedure(NUMBER, DOUBLE.number, "double", WORD, VOID), 1, DecodeError),
            (DOUBLE, 4, int),
        ]
        results = await asyncio.gather(*(caller.call(*call[:2]) for call in calls), return_exceptions=True)
        assert [type(result) for result in results] == [expected for *_, expected in calls]
    # Each kind of failure once, with its traceback; then how many more there were.
    assert [record.exc_info is not None for record in caplog.records] == [True, True, False]
    assert "the last of 1 more like it" in caplog.records[2].getMessage()
    names = [record.getMessage().split()[0] for record in caplog.records]
    assert names == ["FAIL", "MISTYPED", "FAIL"]


@without_network
async def test_calls_that_are_given_up_or_do_not_encode_leave_nothing_behind() -> None:
    async with serving() as rig, await rig.caller() as caller:
        with pytest.raises(CallTimeout, match=r"GATED: no reply within 20 s"):
            await caller.call(GATED, 1, timeout_s=20)
        task = asyncio.create_task(caller.call(GATED, 1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(LocalProtocolError):
            await caller.call(DOUBLE, -1)
        assert not caller._pending
        rig.service.gate.set()
        assert await caller.call(GATED, 2, timeout_s=20) == 5


@without_network
async def test_closing_ends_the_calls_in_progress_and_all_later_ones() -> None:
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


@without_network
async def test_only_the_first_bulk_item_is_copied_into_the_callers_memory() -> None:
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

    async with TcpServer(Dispatcher([Pair()])) as server:
        await server.listen()
        async with await TcpConnection.connect("127.0.0.1", server.port) as caller:
            into = bytearray(8)
            one, two = await caller.call(target, None, into=into)
            assert (bytes(one), bytes(two), bytes(into)) == (b"first", b"second", b"first\0\0\0")


@pytest.mark.thorough
async def test_a_failed_connect_names_address_and_cause() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ConnectFailed, match=f"127.0.0.1:{port}: .*refused"):
            await TcpConnection.connect("127.0.0.1", port)
    with pytest.raises(ConnectFailed, match="host name"):
        await TcpConnection.connect("not a name." + "x" * 70, 1)


@jumping
async def test_a_connect_that_nobody_answers_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unanswered(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", unanswered)
    with pytest.raises(ConnectFailed, match=r"192\.0\.2\.1:2049 did not answer within 10 s"):
        await TcpConnection.connect("192.0.2.1", 2049)


@jumping
async def test_an_address_that_does_not_answer_keeps_no_other_of_the_host_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[socket.socket] = []

    async def of_host(_host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (f"192.0.2.{number}", port)) for number in (1, 2)]

    async def connect(sock: socket.socket, address: tuple[str, int]) -> None:
        tried.append(sock)
        if address[0] == "192.0.2.1":
            await asyncio.Event().wait()

    monkeypatch.setattr(sockets, "addresses_of", of_host)
    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", connect)
    with await sockets.connected_socket("host.test", 2049) as sock:
        await asyncio.sleep(0)
        assert tried[1] is sock
        assert tried[0].fileno() == -1
    assert now_s() < 1
