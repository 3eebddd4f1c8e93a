"""A world of one client and one server of one file, for the tests of the fabric; its trace can be printed.

usage: one_file_world.py VERSION SEED
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.service import CallContext
from rpcrdma.testing.virtual import EventKind, Fabric, Host, Node, Trace, run, running_host

HANDLE = v3.nfs_fh3(b"a file's handle!")
NO_ATTRIBUTES = v3.post_op_attr(False, None)
OCTETS = 1 << 16
CREDENTIAL = AuthSys(machine="client", uid=0, gid=0, gids=())
URL = "rdma://server"


class OneFile(v3.NFS_V3_Service):
    """Answers READ and WRITE of one file in memory."""

    IDEMPOTENT = frozenset({v3.READ.number, v3.WRITE.number})

    def __init__(self) -> None:
        self.content = bytearray(OCTETS)

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = bytes(self.content[args.offset : args.offset + args.count])
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NO_ATTRIBUTES, len(data), True, data))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        self.content[args.offset : args.offset + args.count] = args.data
        unchanged = v3.wcc_data(v3.pre_op_attr(False, None), NO_ATTRIBUTES)
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, v3.WRITE3resok(unchanged, args.count, args.stable, bytes(8)))


def read_of(octets: int = OCTETS) -> tuple[Procedure[Any, Any], v3.READ3args]:
    """A READ call of the first octets."""
    return v3.READ, v3.READ3args(HANDLE, 0, octets)


def write_of(data: bytes) -> tuple[Procedure[Any, Any], v3.WRITE3args]:
    """A WRITE call of these octets at the start."""
    return v3.WRITE, v3.WRITE3args(HANDLE, 0, len(data), v3.stable_how.UNSTABLE, data)


async def serves(server: Node, service: v3.NFS_V3_Service, listening: asyncio.Event, version: str = "auto") -> None:
    """A program that serves until it is cancelled."""
    options = ServeOptions(rdma=RdmaServerConfig(provider=server, rpcrdma_version=version))
    async with serve([service], [URL], options=options):
        listening.set()
        await asyncio.Event().wait()


@asynccontextmanager
async def serving(server: Node, service: v3.NFS_V3_Service, version: str = "auto"):  # type: ignore[no-untyped-def]
    """A node that serves meanwhile."""
    listening = asyncio.Event()
    program = server.start(serves(server, service, listening, version))
    await listening.wait()
    try:
        yield
    finally:
        program.cancel()
        await asyncio.wait([program])


async def measured(node: Host, connection: Connection, procedure: Procedure[Any, Any], args: Any) -> tuple[int, Any]:
    """A call between events of CALL and RETURN; returns the number of the second, and the result."""
    node.record(EventKind.CALL, procedure.name)
    result = await connection.call(procedure, args)
    return node.record(EventKind.RETURN, procedure.name), result


def world(
    use: Callable[[Fabric, Connection], Awaitable[None]],
    *,
    version: str = "1",
    seed: int = 0,
    clients: Sequence[str] = ("client",),
    **parameters: Any,
) -> Trace:
    """Runs `use` at clients that are connected to a server; `parameters` are those of the fabric. Returns the trace.

    The server ends while the later half of several clients is still connected.
    """
    traces = []

    async def main() -> None:
        fabric = Fabric(**parameters)
        traces.append(fabric.trace)
        over = asyncio.Event()

        async def program(client: Node, *, stays: bool) -> None:
            # Within the deadline of a call, since nothing else tells of a peer that has gone silently.
            options = ConnectOptions(provider=client, rpcrdma_version=version, credential=CREDENTIAL, keepalive_s=10.0)
            async with connect(URL, v3.PROGRAM, options=options) as connection:
                await use(fabric, connection)
                if stays:
                    await over.wait()

        half = (len(clients) + 1) // 2
        async with serving(fabric.node("server"), OneFile(), version):
            programs = [
                fabric.node(name).start(program(fabric.node(name), stays=number >= half))
                for number, name in enumerate(clients)
            ]
            await asyncio.gather(*programs[:half])
            await asyncio.sleep(1)
        over.set()
        await asyncio.gather(*programs[half:])

    run(main, seed=seed)
    return traces[0]


async def a_few_calls(_fabric: Fabric, connection: Connection) -> None:
    """NULL, WRITE and READ, one after another and all at once."""
    client = running_host()
    assert client is not None
    calls: list[tuple[Procedure[Any, Any], Any]] = [(v3.NULL, None), write_of(b"x" * OCTETS), read_of()]
    for procedure, args in calls:
        await measured(client, connection, procedure, args)
    await asyncio.gather(*(connection.call(procedure, args) for procedure, args in calls * 4))


if __name__ == "__main__":
    names = [f"client-{number}" for number in range(8)]
    sys.stdout.buffer.write(world(a_few_calls, version=sys.argv[1], seed=int(sys.argv[2]), clients=names).octets())
