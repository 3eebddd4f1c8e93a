"""A server calls its clients on the connections that they made, over RDMA by each provider and over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from client_calls import MIB
from clock_ahead import set_clock_ahead
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.client.returning_client import ReturningClient
from rpcrdma.aio.connections import tcp_calls_taken
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.errors import (
    CallTimeout,
    LocalProtocolError,
    NoSuchProcedure,
    ProgramUnavailable,
    RemoteSystemError,
    TransportClosed,
)
from rpcrdma.limits import RPC_REVERSE_CALLS_MAX
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import CallContext, ReverseCaller, Service, in_worker
from rpcrdma.transport import VERSION_CHOICES, ReplyBound, TransportConfig
from support.cases import each_case
from support.programs import bulk_of, procedure
from support.waiting import until

NEWER = tuple(choice for choice in VERSION_CHOICES if choice not in {"auto", "1"})
CALLS = 80
"""More than RPC_REVERSE_CALLS_MAX."""
FORWARD, REVERSE, BULKY = 0x20000011, 0x20000012, 0x20000013


JOIN, SUM, ADD, LATER, ASK = (
    procedure(FORWARD, n, name) for n, name in enumerate(("join", "sum", "add", "later", "ask"), 1)
)
DOUBLE, BLOCK, WORKED, BREAK, ABSENT = (
    procedure(REVERSE, n, name) for n, name in enumerate(("double", "block", "worked", "broken", "absent"), 1)
)
ECHO = procedure(BULKY, 1, "echo", bulk_of(MIB), bulk_of(MIB))
BOUNDED_ECHO = replace(ECHO, bound=lambda args: ReplyBound(4, (len(args),)))


class Front(Service):
    """The server's offer."""

    PROGRAM = Program(FORWARD, 1, "FRONT_V1", {p.number: p for p in (JOIN, SUM, ADD, LATER, ASK)})

    def __init__(self) -> None:
        self.clients: list[ReverseCaller] = []

    @property
    def client(self) -> ReverseCaller:
        return self.clients[-1]

    def join(self, args: int, context: CallContext) -> int:
        self.clients.append(context.client)
        if args:
            context.client.ready()
        return args

    async def sum(self, args: int, context: CallContext) -> int:
        """Asks the client while the client waits."""
        context.client.ready()
        answers = await asyncio.gather(*(context.client.call(DOUBLE, n) for n in range(args)))
        return sum(answers)

    async def ask(self, args: int, context: CallContext) -> int:
        """Returns when the client's gate opens."""
        context.client.ready()
        answer: int = await context.client.call(BLOCK, args)
        return answer

    def add(self, args: int, context: CallContext) -> int:
        return args + 1

    @in_worker
    def later(self, args: int, context: CallContext) -> int:
        """Keeps the client from a worker thread."""
        assert not context.client.closed
        context.client.ready()
        self.clients.append(context.client)
        return args


class Back(Service):
    """The client's offer."""

    PROGRAM = Program(REVERSE, 1, "BACK_V1", {p.number: p for p in (DOUBLE, BLOCK, WORKED, BREAK, ABSENT)})

    def __init__(self) -> None:
        self.contexts: list[CallContext] = []
        self.gate = asyncio.Event()
        self.running = 0
        self.most = 0

    def double(self, args: int, context: CallContext) -> int:
        self.contexts.append(context)
        return args * 2

    async def block(self, args: int, context: CallContext) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        await self.gate.wait()
        self.running -= 1
        return args

    @in_worker
    def worked(self, args: int, context: CallContext) -> int:
        assert context.may_block
        return args + 7

    def broken(self, args: int, context: CallContext) -> int:
        raise RuntimeError("the client's own fault")


class Bulky(Service):
    PROGRAM = Program(BULKY, 1, "BULKY_V1", {1: ECHO})

    def echo(self, args: memoryview, context: CallContext) -> memoryview:
        data = context.buffer(len(args))
        data[:] = args
        return data


class Rig:
    def __init__(self, server: Server, front: Front, back: Back, client: Connection) -> None:
        self.server = server
        self.front = front
        self.back = back
        self.client = client


@asynccontextmanager
async def rig(
    scheme: str,
    *,
    services: bool = True,
    transport: TransportConfig | None = None,
    tcp: TcpServerConfig | None = None,
    rdma_idle_s: float | None = None,
    at_client: TransportConfig | None = None,
) -> AsyncIterator[Rig]:
    front, back = Front(), Back()
    options = ServeOptions(
        rdma=RdmaServerConfig(transport=transport or TransportConfig(), idle_s=rdma_idle_s),
        tcp=tcp or TcpServerConfig(),
        drain_s=0,
    )
    async with serve([front], [f"{scheme}://127.0.0.1:0"], options=options) as server:
        offered = ConnectOptions(
            services=[back, Bulky()] if services else [], transport=at_client or TransportConfig(), reconnect=False
        )
        async with connect(server.listening[0], Front.PROGRAM, options=offered) as client:
            yield Rig(server, front, back, client)


@pytest.mark.req("BD-11")
async def test_a_server_calls_its_client_from_when_that_is_ready_on(scheme: str) -> None:
    async with rig(scheme) as r:
        assert await r.client.call(JOIN, 0) == 0
        client = r.front.client
        with pytest.raises(LocalProtocolError, match="ready"):
            await client.call(DOUBLE, 1)
        await r.client.call(JOIN, 1)
        assert r.back.contexts == []
        # The handler has returned.
        assert [await client.call(DOUBLE, n) for n in range(20)] == list(range(0, 40, 2))
        assert await client.call(WORKED, 1) == 8
        context = r.back.contexts[0]
        assert (context.peer, context.credential) == ("127.0.0.1", AuthNone())
        # A handler in a worker thread keeps the client for the loop.
        await r.client.call(LATER, 1)
        assert await r.front.client.call(DOUBLE, 21) == 42
        # The client calls the server from the handler of a reverse call.
        server = context.client
        server.ready()
        assert await server.call(ADD, 5) == 6
        assert not server.closed


async def test_a_handler_calls_back_while_its_caller_waits(scheme: str) -> None:
    async with rig(scheme) as r:
        assert await r.client.call(SUM, 100) == 9900


@pytest.mark.thorough
async def test_calls_beyond_what_is_held_are_left_unread_until_reverse_calls_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_OUTSTANDING_CALLS_MAX", 3)
    monkeypatch.setattr(tcp_calls_taken, "RPC_UNSENT_REPLY_OCTETS_MAX", 1000)
    async with rig("tcp") as r:
        await r.client.call(JOIN, 1)
        peer: Any = r.front.client
        asking = [asyncio.ensure_future(r.client.call(ASK, 7)) for _ in range(3)]
        await until(lambda: r.back.running == 3)
        adding = [asyncio.ensure_future(r.client.call(ADD, n)) for n in range(50)]
        await until(lambda: peer._stream.paused)
        assert 0 < len(peer.calls_taken._held) < 10
        r.back.gate.set()
        # The replies are behind calls that are not read: only a deadline ends these, which a test need not await.
        for call in list(peer._pending.values()):
            peer.give_up(call)
            call.future.fail(CallTimeout("BLOCK: no reply"))
        assert await asyncio.gather(*adding) == list(range(1, 51))
        for result in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(result, RemoteSystemError)


async def test_a_server_that_stops_lets_handlers_hear_from_the_client(scheme: str) -> None:
    async with rig(scheme) as r:
        call = asyncio.ensure_future(r.client.call(ASK, 5))
        await until(lambda: r.back.running)
        closing = asyncio.ensure_future(r.server.close(60))
        await asyncio.sleep(0)
        r.back.gate.set()
        assert await call == 5
        await closing


async def test_a_client_without_services_drops_reverse_calls_and_counts_them(scheme: str) -> None:
    async with rig(scheme, services=False) as r:
        await r.client.call(JOIN, 1)
        line = r.client._present
        if isinstance(line, RdmaConnection) and line.negotiated.version != 1:
            # It has told so.
            with pytest.raises(LocalProtocolError, match="the client takes no calls"):
                await r.front.client.call(DOUBLE, 1)
            assert await r.client.call(ADD, 1) == 2
            assert line.statistics.discarded == 0
            return
        calls = [asyncio.ensure_future(r.front.client.call(DOUBLE, 1, timeout_s=60)) for _ in range(3)]
        await asyncio.sleep(0)
        assert await r.client.call(ADD, 1) == 2
        if isinstance(line, RdmaConnection):
            # One credit, which the unanswered call holds.
            assert line.statistics.discarded == 1
        else:
            assert isinstance(line, TcpConnection)
            assert line.calls_taken.dropped == 3
        set_clock_ahead(60)
        for call in calls:
            with pytest.raises(
                CallTimeout, match=r"within 60 s; the client may offer no services .* cannot say (in v|o)"
            ):
                await call


async def test_refusals_of_the_client_reach_the_server(scheme: str) -> None:
    async with rig(scheme) as r:
        await r.client.call(JOIN, 1)
        with pytest.raises(NoSuchProcedure):
            await r.front.client.call(ABSENT, 1)
        with pytest.raises(RemoteSystemError):
            await r.front.client.call(BREAK, 1)
        with pytest.raises(ProgramUnavailable):
            await r.front.client.call(JOIN, 1)
        assert await r.front.client.call(DOUBLE, 3) == 6


async def test_reverse_calls_that_nobody_answers_leave_forward_calls_alone(scheme: str) -> None:
    async with rig(scheme, at_client=TransportConfig(reverse_credits_granted=5)) as r:
        await r.client.call(JOIN, 1)
        assert await r.front.client.call(DOUBLE, 1) == 2
        waiting = [asyncio.ensure_future(r.front.client.call(BLOCK, n)) for n in range(CALLS)]
        agreed = r.client.negotiated
        least = 5 if agreed else RPC_REVERSE_CALLS_MAX
        # Credits for messages are given for answers, too, and a server may make calls with them.
        most = 5 if agreed and agreed.version == 1 else RPC_REVERSE_CALLS_MAX
        await until(lambda: r.back.running >= least)
        assert await asyncio.gather(*(r.client.call(ADD, n) for n in range(CALLS))) == list(range(1, CALLS + 1))
        waiting[50].cancel()
        r.back.gate.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(results.pop(50), asyncio.CancelledError)
        assert results == [n for n in range(CALLS) if n != 50]
        assert least <= r.back.most <= most


async def test_a_reverse_call_in_line_times_out_in_its_place(scheme: str) -> None:
    async with rig(scheme, at_client=TransportConfig(reverse_credits_granted=RPC_REVERSE_CALLS_MAX)) as r:
        await r.client.call(JOIN, 1)
        assert await r.front.client.call(DOUBLE, 1) == 2
        waiting = [asyncio.ensure_future(r.front.client.call(BLOCK, n)) for n in range(RPC_REVERSE_CALLS_MAX)]
        await until(lambda: r.back.running == RPC_REVERSE_CALLS_MAX)
        in_line = asyncio.ensure_future(r.front.client.call(DOUBLE, 1, timeout_s=10))
        await asyncio.sleep(0)
        set_clock_ahead(10)
        with pytest.raises(CallTimeout):
            await in_line
        r.back.gate.set()
        await asyncio.gather(*waiting)
        assert len(r.back.contexts) == 1, "the call that nobody waits for any more was not sent"
        assert await r.front.client.call(DOUBLE, 4) == 8


@each_case("side", ["client", "server"])
async def test_the_end_of_the_connection_ends_reverse_calls(scheme: str, side: str) -> None:
    async with rig(scheme) as r:
        await r.client.call(JOIN, 1)
        peer = r.front.client
        line: Any = r.client._present
        waiting = asyncio.ensure_future(peer.call(BLOCK, 1))
        closed = asyncio.ensure_future(peer.wait_closed())
        await until(lambda: r.back.running)
        await (r.client if side == "client" else r.server).close()
        with pytest.raises(TransportClosed):
            await waiting
        await closed
        await peer.wait_closed()
        await line.wait_closed()
        assert peer.closed
        assert line.closed
        with pytest.raises(TransportClosed):
            await peer.call(DOUBLE, 1)


@pytest.mark.req("BD-10", "V2-A9")
async def test_an_idle_connection_is_kept_for_reverse_calls(scheme: str) -> None:
    """By the client, which gets no calls, and by a server that ends idle connections and may not be called back."""
    async with rig(scheme, tcp=TcpServerConfig(idle_s=200), rdma_idle_s=200) as r:
        await r.client.call(JOIN, 1)
        async with connect(r.server.listening[0], options=ConnectOptions(reconnect=False)) as other:
            line: Any = other._present
            await other.call(ADD, 1)
            for _ in range(6):
                set_clock_ahead(50)
                for _ in range(10):
                    await asyncio.sleep(0)
            await line.wait_closed()
        assert await r.front.client.call(DOUBLE, 2) == 4


async def test_bulk_travels_in_reverse(scheme: str) -> None:
    """Over RDMA by chunks, which a client reads from the server and writes into its memory."""
    config = TransportConfig(reverse_chunks=True)
    async with rig(scheme, transport=config, at_client=config) as r:
        await r.client.call(JOIN, 1)
        for length in (0, 1, 3000, 100_001, MIB):
            data = (bytes(range(256)) * (length // 256 + 1))[:length]
            into = bytearray(length)
            result = await r.front.client.call(BOUNDED_ECHO, data, into=into)
            assert bytes(result) == data
            assert into == data
        if scheme == "rdma":
            assert r.client.statistics is not None
            assert r.client.statistics.octets_read >= MIB
            assert r.client.statistics.octets_written >= MIB


@pytest.mark.versions("1")
@pytest.mark.usefixtures("each_provider")
async def test_without_reverse_chunks_what_does_not_fit_a_message_is_refused_on_the_spot() -> None:
    small = TransportConfig(inline_send_octets=4096, inline_receive_octets=4096)
    async with rig("rdma", at_client=small) as r:
        await r.client.call(JOIN, 1)
        assert bytes(await r.front.client.call(ECHO, b"x" * 3900)) == b"x" * 3900
        with pytest.raises(LocalProtocolError, match="needs chunks"):
            await r.front.client.call(ECHO, bytes(5000))
        # A result that could be larger than a message, and is not.
        assert await r.front.client.call(replace(DOUBLE, bound=ReplyBound(5000)), 1) == 2
        assert await r.front.client.call(replace(DOUBLE, bound=ReplyBound(4, (5000,))), 1) == 2


@pytest.mark.versions(*NEWER, "2-rtr")
@pytest.mark.usefixtures("each_provider")
async def test_reverse_calls_of_any_size_need_no_setting_where_the_client_says_what_it_takes() -> None:
    async with rig("rdma") as r:
        await r.client.call(JOIN, 1)
        for length in (3900, 5000, 100_001):
            assert await r.front.client.call(ECHO, bytes(length)) == bytes(length)
        assert r.client.negotiated is not None
        assert r.client.negotiated.own_properties is not None
        assert r.client.negotiated.own_properties["reverse"] == "general"


@pytest.mark.thorough
@pytest.mark.req("RT-34")
@pytest.mark.versions("2")
async def test_a_reverse_call_may_choose_how_the_round_trip_extension_moves_its_data() -> None:
    async with rig("rdma") as r:
        await r.client.call(JOIN, 1)
        returning = ReturningClient(r.front.client)
        data = bytes(100_001)
        for caller in (r.front.client, returning):
            for placement, by_send in (("rtr", 1), ("rdma", 0), ("", 0)):
                before = r.client.statistics.calls_by_send
                assert bytes(await caller.call(BOUNDED_ECHO, data, placement=placement)) == data
                assert r.client.statistics.calls_by_send - before == by_send
            with pytest.raises(ValueError, match="by-sizes"):
                await caller.call(BOUNDED_ECHO, data, placement="by-sizes")
