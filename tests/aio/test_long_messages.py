"""Messages over TCP that are longer than a side allows: the errors at each side, and that everything else goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from client_calls import MIB
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.errors import GarbageArguments, MessageTooLong, RemoteSystemError
from rpcrdma.limits import RPC_RECORD_OCTETS_MAX, RPC_UNSENT_REPLY_OCTETS_MAX
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.service import CallContext, ReverseCaller, Service
from support.programs import WORD, bulk_of
from support.waiting import until

pytestmark = pytest.mark.thorough

LONG = 2 * MIB
OVER = RPC_RECORD_OCTETS_MAX
MORE = 16 * MIB


DATA = bulk_of(32 * MIB)


def procedures(program: int) -> list[Procedure[Any, Any]]:
    return [
        Procedure(program, 1, 1, "TAKE", "take", *DATA, *WORD),
        Procedure(program, 1, 2, "GIVE", "give", *WORD, *DATA),
        Procedure(program, 1, 3, "HOLD", "hold", *WORD, *WORD),
    ]


FORWARD, REVERSE = procedures(0x20000021), procedures(0x20000022)
TAKE, GIVE, HOLD = FORWARD


class Both(Service):
    """Takes and gives octets, on either side."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.gate = asyncio.Event()
        self.client: ReverseCaller | None = None

    def take(self, args: bytes, context: CallContext) -> int:
        self.ran.append("take")
        return len(args)

    def give(self, args: int, context: CallContext) -> bytes:
        self.ran.append("give")
        return bytes(args)

    async def hold(self, args: int, context: CallContext) -> int:
        self.client = context.client
        context.client.ready()
        await self.gate.wait()
        return args + 1


class Forward(Both):
    PROGRAM = Program(0x20000021, 1, "FORWARD", {each.number: each for each in FORWARD})


class Reverse(Both):
    PROGRAM = Program(0x20000022, 1, "REVERSE", {each.number: each for each in REVERSE})


class Rig:
    """A client with a call that runs all the time, and a server that may call it back."""

    def __init__(self, server: Server, service: Forward, connection: Connection, answering: Reverse) -> None:
        self.server = server
        self.service = service
        self.connection = connection
        self.answering = answering

    @property
    def client(self) -> ReverseCaller:
        assert self.service.client is not None
        return self.service.client


@asynccontextmanager
async def joined(*, client: int = OVER, server: int = OVER) -> AsyncIterator[Rig]:
    """With the limits of either side. At the end both are still joined by the connection that they began with."""
    service, answering = Forward(), Reverse()
    options = ConnectOptions(credential=AuthNone(), services=[answering], record_octets_max=client)
    config = TcpServerConfig(record_octets_max=server)
    async with (
        serve([service], ["tcp://127.0.0.1:0"], options=ServeOptions(tcp=config)) as serving,
        connect(serving.listening[0], Forward.PROGRAM, options=options) as connection,
    ):
        held = asyncio.create_task(connection.call(HOLD, 41))
        await until(lambda: service.client)
        yield Rig(serving, service, connection, answering)
        service.gate.set()
        assert await held == 42
        assert await connection.call(TAKE, b"abc") == 3
        assert connection.reconnects == 0
        assert serving.statistics().tcp.connections_made == 1


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_call_over_the_callers_limit_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    async with joined(server=MORE) as rig:
        with pytest.raises(MessageTooLong, match=r"ConnectOptions\(record_octets_max=") as raised:
            await rig.connection.call(TAKE, bytes(LONG))
        assert not raised.value.received
        assert raised.value.limit == OVER
        assert raised.value.octets > LONG
        assert rig.service.ran == []
    assert logged(caplog) == []


async def test_a_call_over_the_servers_limit_is_refused_and_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    async with joined(client=MORE) as rig:
        for _ in range(3):
            with pytest.raises(GarbageArguments, match=r"TcpServerConfig\(record_octets_max=") as raised:
                await rig.connection.call(TAKE, bytes(LONG))
            assert str(LONG)[:3] in str(raised.value)
        assert rig.service.ran == []
        # Of another kind: the arguments fit, and are none.
        other = Procedure(TAKE.program, 1, 1, "TAKE", "take", *WORD, *WORD)
        with pytest.raises(GarbageArguments) as raised:
            await rig.connection.call(other, 1)
        assert "TcpServerConfig" not in str(raised.value)
    first, more = logged(caplog)
    assert "GARBAGE_ARGS" in first
    assert f"this side's limit of {OVER}: TcpServerConfig(record_octets_max=...)" in first
    assert "2 more like it" in more


async def test_a_reply_over_the_servers_limit_becomes_a_system_error_and_runs_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with joined(client=MORE) as rig:
        with pytest.raises(RemoteSystemError, match="its log may say why"):
            await rig.connection.call(GIVE, LONG)
        assert rig.service.ran == ["give"]
    (said,) = logged(caplog)
    assert said.startswith("the reply to GIVE could not be sent: ")
    assert f"this side's limit of {OVER}: TcpServerConfig(record_octets_max=...)" in said


async def test_a_reply_over_the_callers_limit_fails_its_call_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with joined(server=MORE) as rig:
        results = await asyncio.gather(
            *(rig.connection.call(GIVE, size) for size in (10, LONG, MIB, LONG, 20)), return_exceptions=True
        )
        assert [len(each) if isinstance(each, memoryview) else type(each) for each in results] == [
            10,
            MessageTooLong,
            MIB,
            MessageTooLong,
            20,
        ]
        error = results[1]
        assert isinstance(error, MessageTooLong)
        assert error.received
        assert f"limit of {OVER}: ConnectOptions(record_octets_max=...)" in str(error)
        # A reply to a call that must not run twice is not asked for again.
        assert len(rig.service.ran) == 5
    assert logged(caplog) == []


async def test_both_limits_can_be_raised() -> None:
    async with joined(client=MORE, server=MORE) as rig:
        size = MORE - 1000
        assert size > RPC_UNSENT_REPLY_OCTETS_MAX
        assert await rig.connection.call(TAKE, bytes(size)) == size
        assert len(await rig.connection.call(GIVE, size)) == size
        take, give, _ = REVERSE
        assert await rig.client.call(take, bytes(size)) == size
        assert len(await rig.client.call(give, size)) == size


async def test_calls_back_have_the_same_limits(caplog: pytest.LogCaptureFixture) -> None:
    take, give, _ = REVERSE
    async with joined(client=MORE) as rig:
        with pytest.raises(MessageTooLong, match=r"TcpServerConfig\(record_octets_max="):
            await rig.client.call(take, bytes(LONG))
        with pytest.raises(MessageTooLong, match=r"TcpServerConfig\(record_octets_max=") as raised:
            await rig.client.call(give, LONG)
        assert raised.value.received
        assert rig.answering.ran == ["give"]
    async with joined(server=MORE) as rig:
        with pytest.raises(GarbageArguments):
            await rig.client.call(take, bytes(LONG))
        with pytest.raises(RemoteSystemError):
            await rig.client.call(give, LONG)
        assert rig.answering.ran == ["give"]
    said = logged(caplog)
    assert len(said) == 2
    assert all("ConnectOptions(record_octets_max=...)" in each for each in said)
    assert {record.name for record in caplog.records if record.levelno >= logging.WARNING} == {"rpcrdma.client"}
