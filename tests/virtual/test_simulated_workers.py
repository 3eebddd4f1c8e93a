"""Handlers of a simulated server take the time of the model: in the event loop, at a worker, or one after the other."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from one_file_world import CREDENTIAL, URL, OneFile, read_of, serves, write_of
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.errors import RpcRdmaError
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import ActAs, CallContext, Steps, in_worker, inline_or_worker
from rpcrdma.testing.virtual import EventKind, Fabric, FabricModel, now_s, run
from support.cases import each_case
from support.waiting import time_passes


class Blocking(OneFile):
    """READ runs at a worker, WRITE begins in the event loop and has a brief rest there; `reads` counts the READs."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    @in_worker
    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        assert context.may_block
        self.reads += 1
        return super().read(args, context)

    @inline_or_worker
    def write(self, args: v3.WRITE3args, context: CallContext) -> Steps[v3.WRITE3res]:
        assert not context.may_block
        yield ActAs(contextlib.nullcontext())
        assert context.may_block
        return super().write(args, context)


async def served(fabric: Fabric, service: Blocking) -> tuple[asyncio.Task[None], Connection]:
    """The program of a server, and a connection to it."""
    listening = asyncio.Event()
    server = fabric.node("server")
    program = server.start(serves(server, service, listening))
    await listening.wait()
    options = ConnectOptions(provider=fabric.node("client"), credential=CREDENTIAL)
    return program, await connect(URL, v3.PROGRAM, options=options)


def test_a_worker_takes_its_time_beside_that_of_the_handler() -> None:
    async def main() -> None:
        fabric = Fabric(FabricModel(server_s=0.5, workers_s=0.125))
        program, connection = await served(fabric, Blocking())
        costs = []
        for procedure, args in ((v3.NULL, None), read_of(100), write_of(b"x")):
            began, began_s = len(fabric.trace.events), now_s()
            await connection.call(procedure, args)
            costs.append([each.cost_s for each in fabric.trace.events[began:] if each.kind is EventKind.HANDLE])
            assert now_s() - began_s == pytest.approx(sum(costs[-1]), abs=0.001)
        # A brief rest takes no time but that of the worker.
        assert costs == [[0.5], [0.625], [0.5, 0.125]]
        await connection.close()
        program.cancel()
        await asyncio.wait([program])

    run(main)


# A server that is cancelled waits for its handlers for some seconds.
@each_case(("end", "server_s"), [("crash", 2.0), ("cancel", 1000.0)])
def test_a_handler_whose_server_ends_before_its_time_at_the_worker_does_not_run(end: str, server_s: float) -> None:
    async def main() -> None:
        fabric = Fabric(FabricModel(server_s=server_s))
        service = Blocking()
        program, connection = await served(fabric, service)
        call = asyncio.ensure_future(connection.call(*read_of(100), timeout_s=500.0))
        await time_passes(1)
        if end == "crash":
            fabric.node("server").crash()
        else:
            program.cancel()
        with pytest.raises(RpcRdmaError):
            await call
        await time_passes(2000)
        assert service.reads == 0
        await connection.close()

    run(main)
