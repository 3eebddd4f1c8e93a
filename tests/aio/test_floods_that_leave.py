"""Clients that fill the queue for worker threads and leave, again and again: waiting calls leave with them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.rpc.program import Procedure, Program, null_procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import CallContext, Service, in_worker, inline_or_worker
from support.programs import procedure
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
