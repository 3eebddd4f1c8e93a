"""Clients that fill the queue for worker threads and leave, again and again: waiting calls leave with them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import v3
from rpcrdma.rpc.program import Procedure, Program, null_procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import CallContext, Service, in_worker, inline_or_worker
from support.cases import each_case
from support.programs import procedure
from support.raw_calls import file_handle, record, rpc
from support.raw_socket import RawSocketPeer
from support.simulated import not_simulated
from support.waiting import until

NUMBER = 0x20F100D5
WORKERS = 8
FLOOD = 100
"""Calls of one connection, fewer than it may have unanswered."""
ROUNDS = 3


CHANGE, LOOK, LOOK_LATER = (
    procedure(NUMBER, number, method, bound=ReplyBound(4))
    for number, method in enumerate(("change", "look", "look_later"), 1)
)
PROGRAM = Program(NUMBER, 1, "SLOW_V1", {each.number: each for each in (CHANGE, LOOK, LOOK_LATER)})


class Slow(Service):
    """Its handlers end when `gate` opens."""

    PROGRAM = PROGRAM
    IDEMPOTENT = frozenset({LOOK.number, LOOK_LATER.number})

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = 0
        self.closed = 0

    def _block(self) -> None:
        self.begun += 1
        self.gate.wait()

    @in_worker
    def change(self, args: int, context: CallContext) -> int:
        self._block()
        return args

    @in_worker
    def look(self, args: int, context: CallContext) -> int:
        self._block()
        return args

    @inline_or_worker
    def look_later(self, args: int, context: CallContext) -> Generator[None, None, int]:
        try:
            yield
            self._block()
        finally:
            self.closed += 1
        return args


@asynccontextmanager
async def serving(service: Any, scheme: str, workers: int = WORKERS) -> AsyncIterator[Server]:
    """The gate opens before the server ends, whose threads else would not."""
    async with AsyncExitStack() as stack:
        options = ServeOptions(workers=workers, drain_s=60)
        server = await stack.enter_async_context(serve([service], [f"{scheme}://127.0.0.1:0"], options=options))
        stack.callback(service.gate.set)
        yield server


def connections(server: Server) -> int:
    told = server.statistics()
    return told.rdma.connections + told.tcp.connections


async def flood(server: Server, asked: Procedure[Any, Any]) -> int:
    """Makes the calls, waits until they have arrived, and leaves; returns how many ran or waited then."""

    def arrived() -> int:
        told = server.statistics()
        return told.rdma.procedures.get(asked.name, 0) + told.tcp.procedures.get(asked.name, 0)

    wanted = arrived() + FLOOD
    connection = await connect(server.listening[0], options=ConnectOptions(reconnect=False))
    # Over RDMA the first reply grants the credits for the others.
    await connection.call(null_procedure(NUMBER, 1), None)
    calls = [asyncio.ensure_future(connection.call(asked, number)) for number in range(FLOOD)]
    await until(lambda: arrived() == wanted)
    most = server.statistics().calls_running
    await connection.close()
    await asyncio.gather(*calls, return_exceptions=True)
    await until(lambda: not connections(server))
    return most


@pytest.mark.parametrize("asked", [CHANGE, LOOK, LOOK_LATER], ids=["at most once", "idempotent", "idempotent, begun"])
@not_simulated
async def test_the_queue_for_threads_is_no_longer_than_what_present_connections_have_put_there(
    scheme: str, asked: Procedure[Any, Any]
) -> None:
    slow = Slow()
    async with serving(slow, scheme) as server:
        for _ in range(ROUNDS):
            assert await flood(server, asked) <= FLOOD + WORKERS
            await until(lambda: server.statistics().calls_running == slow.begun)
            assert slow.begun <= WORKERS
        slow.gate.set()
        await until(lambda: not server.statistics().calls_running)
        assert slow.begun <= WORKERS
        assert slow.closed == (ROUNDS * FLOOD if asked is LOOK_LATER else 0)
        async with connect(server.listening[0]) as connection:
            assert await connection.call(asked, 7) == 7


class SlowAccess(v3.NFS_V3_Service):
    """ACCESS must not run twice here, and ends when `gate` opens."""

    IDEMPOTENT = frozenset()

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.ran: Counter[int] = Counter()

    @in_worker
    def access(self, args: v3.ACCESS3args, context: CallContext) -> v3.ACCESS3res:
        self.ran[context.xid] += 1
        self.gate.wait()
        return v3.ACCESS3res(v3.nfsstat3.NFS3ERR_NOTSUPP, v3.ACCESS3resfail(v3.post_op_attr(False, None)))


def access(xid: int) -> bytes:
    return record(rpc(4, file_handle() + bytes(4), xid))


async def reply_xid(peer: RawSocketPeer) -> int:
    size = int.from_bytes(await peer.receive(4)) & 0x7FFFFFFF
    return int.from_bytes((await peer.receive(size))[:4])


BEGUN, WAITING = 1, 2


@pytest.mark.thorough
@each_case("joined", [False, True])
async def test_calls_that_are_repeated_after_their_connection_has_ended_run_once(joined: bool) -> None:
    """`joined`: the repeats come before the first connection ends."""
    slow = SlowAccess()
    # One of two threads is kept for other clients, so the second call waits.
    async with serving(slow, "tcp", workers=2) as server, AsyncExitStack() as stack:
        port = parse_url(server.listening[0]).port

        async def peer() -> RawSocketPeer:
            made = await RawSocketPeer.connected("127.0.0.1", port)
            stack.callback(made.close)
            return made

        async def sent(to: RawSocketPeer, counted: int) -> None:
            await to.send(access(BEGUN) + access(WAITING))
            await until(lambda: server.statistics().tcp.calls == counted)

        first = await peer()
        await sent(first, 2)
        await until(lambda: slow.ran[BEGUN] == 1)
        assert server.statistics().calls_running == 2
        again = await peer()
        if joined:
            await sent(again, 4)
        first.close()
        await until(lambda: connections(server) == 1)
        assert server.statistics().calls_running == (2 if joined else 1)
        if not joined:
            await sent(again, 4)
        slow.gate.set()
        assert {await reply_xid(again), await reply_xid(again)} == {BEGUN, WAITING}
        assert slow.ran == {BEGUN: 1, WAITING: 1}
