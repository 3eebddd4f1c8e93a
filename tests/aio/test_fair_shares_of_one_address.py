"""One address may be many users: connections of one address do not wait for others of the same address."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

import local_tcp
from jumping_sockets import now_s
from local_tcp import without_network
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.server.tcp_server import TcpServer
from rpcrdma.limits import RPC_STALLED_S
from rpcrdma.nfs import v3
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.service import CallContext
from support.cases import each_case
from support.raw_calls import HANDLE, file_handle, record, rpc, write_args
from support.raw_socket import RawSocketPeer
from support.waiting import time_passes, until

MIB = 1 << 20
CONTENT = bytes(MIB)
FH = v3.nfs_fh3(HANDLE)
NONE = v3.post_op_attr(False, None)
NO_WCC = v3.wcc_data(v3.pre_op_attr(False, None), NONE)
WRITE = v3.WRITE3args(FH, 0, MIB, v3.stable_how.FILE_SYNC, CONTENT)


class Files(v3.NFS_V3_Service):
    """READ gives a megabyte; WRITE and REMOVE, which must not run twice, do nothing."""

    IDEMPOTENT = frozenset({v3.READ.number})

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(MIB)
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NONE, MIB, False, data))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        result = v3.WRITE3resok(NO_WCC, len(args.data), v3.stable_how.FILE_SYNC, b"verifier")
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, result)

    def remove(self, args: v3.REMOVE3args, context: CallContext) -> v3.REMOVE3res:
        return v3.REMOVE3res(v3.nfsstat3.NFS3_OK, v3.REMOVE3resok(NO_WCC))


class Rig:
    def __init__(self, server: TcpServer, stack: AsyncExitStack) -> None:
        self.server = server
        self._stack = stack

    async def peer(self) -> RawSocketPeer:
        peer = RawSocketPeer(await local_tcp.dial("127.0.0.1", self.server.port))
        self._stack.callback(peer.close)
        return peer

    async def honest(self) -> TcpConnection:
        """A connection of the same address."""
        return await self._stack.enter_async_context(await TcpConnection.connect("127.0.0.1", self.server.port))


@asynccontextmanager
async def serving() -> AsyncIterator[Rig]:
    async with TcpServer(Dispatcher([Files()])) as server:
        await server.listen()
        async with AsyncExitStack() as stack:
            yield Rig(server, stack)
        await until(lambda: not server.connections)
    assert server.pool.lent_octets == server.arguments.lent_octets == 0


@pytest.mark.thorough
@each_case("sent", [0, 20_000])
@without_network
async def test_an_honest_write_waits_for_one_deadline_of_150_unfinished_ones_at_most(sent: int) -> None:
    """These hold half of the memory, and the honest one comes last."""

    async with serving() as rig:
        server = rig.server
        for number in range(150):
            start = rpc(7, write_args(MIB), number)
            await (await rig.peer()).send(record(start + bytes(sent), len(start) + MIB))
        await until(lambda: server.arguments.waited_for)
        honest = await rig.honest()
        begun_s = now_s()
        reply = await honest.call(v3.WRITE, WRITE)
        assert isinstance(reply.value, v3.WRITE3resok)
        # One connection at each look would have taken a deadline for each of some 25 that were in its way.
        assert RPC_STALLED_S < now_s() - begun_s < RPC_STALLED_S + 2
        await until(lambda: len(server.connections) == 1 or not server.arguments.waited_for)


@without_network
async def test_small_calls_do_not_hide_that_replies_are_left_unread() -> None:
    async with serving() as rig:
        server = rig.server
        peer = await rig.peer()
        await peer.send(record(rpc(6, file_handle() + struct.pack(">QI", 0, MIB))) * 2)
        await until(lambda: server.pool.lent_octets >= 2 * MIB)
        (connection,) = server.connections
        for _ in range(int(RPC_STALLED_S)):
            assert not connection.calls_taken.stalled
            await time_passes(1)
            calls = server.calls
            await peer.send(record(rpc(0)))
            await until(lambda calls=calls: server.calls > calls)  # type: ignore[misc]
        await time_passes(1)
        assert connection.calls_taken.stalled
