"""Keep-alive on RDMA connections between a client and a server in one loop, on a clock that jumps."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.drivers.loopback_provider import LoopbackProvider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.rpc.program import Procedure, Program, null_procedure
from rpcrdma.rpc.service import Service
from rpcrdma.testing.virtual import now_s
from support.loops import in_virtual_time
from support.waiting import time_passes

NUMBER = 0x20ABCDEF
PROGRAM = Program(NUMBER, 1, "EMPTY_V1", {})
NULL: Procedure[Any, Any] = null_procedure(NUMBER, 1)


class Empty(Service):
    """Has the NULL procedure alone."""

    PROGRAM = PROGRAM


def joined(provider: LoopbackProvider) -> Server:
    return serve([Empty()], ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=RdmaServerConfig(provider=provider)))


def calls_counted(server: Server) -> int:
    return server.statistics().rdma.calls


async def connected(server: Server, provider: LoopbackProvider, keepalive_s: float | None) -> Connection:
    options = ConnectOptions(provider=provider, keepalive_s=keepalive_s, reconnect_delay_max_s=0.0)
    return await connect(server.listening[0], PROGRAM, options=options)


@in_virtual_time
async def test_a_silent_connection_is_asked_about_each_minute_and_left_20_s_after_the_last_answer() -> None:
    provider = LoopbackProvider()
    async with joined(provider) as server, await connected(server, provider, 60.0) as connection:
        began_s = now_s()
        for minutes in range(1, 4):
            await time_passes(began_s + 60 * minutes - 0.5 - now_s())
            assert calls_counted(server) == minutes - 1
            await time_passes(1)
            assert calls_counted(server) == minutes
        (served,) = server.connections
        # It reads calls, and answers none.
        served.drain()
        await connection.wait_reconnected(0)
        assert now_s() - began_s == pytest.approx(240 + 20, abs=0.01)
        await connection.call(NULL, None)
        assert connection.reconnects == 1
