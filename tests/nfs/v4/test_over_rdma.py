"""COMPOUND over RDMA: each DDP-eligible result has the Write chunk in its place (RFC 8267 section 6.4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import rpcrdma
from conversation import Conversation
from rpcrdma.aio.client.connect import Connection
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.tree import Change, Create, CreateHow
from rpcrdma.nfs.v4.compounds import COMPOUND, CompoundCall, CompoundReply
from rpcrdma.nfs.v4.nfs4 import (
    GETATTR4args,
    LOOKUP4args,
    READ4args,
    SEQUENCE4args,
    WRITE4args,
    nfs_opnum4,
    nfsstat4,
    stable_how4,
    stateid4,
)
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.nfs.v4.server.service import Nfs4Service
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.transport import Call
from support.simulated import Simulated, run_in_virtual_time

OP, ANYBODY, NO_OPEN = nfs_opnum4, AuthNone(), stateid4(0, bytes(12))
DATA = bytes(range(256)) * 1024


class Session:
    """A session of a server of one file in memory, to which a connection sends COMPOUNDs."""

    def __init__(self) -> None:
        tree = MemoryTree(lambda: 0.0)
        self.file = tree.root.create(tree.grant, b"file", Create(CreateHow.GUARDED), Change())
        self.file.data[:] = DATA
        self.server = Conversation(files=PseudoRoot(tree, 0))  # type: ignore[arg-type]
        self.client = self.server.client().start()
        self.calls: list[Call] = []
        self.contexts: list[Any] = []
        self.server.service.compound = self.note  # type: ignore[method-assign]

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """A connection of version 1, by which kernels mount."""
        simulated, service = Simulated(), self.server.service
        client = rpcrdma.ConnectOptions(provider=simulated, rpcrdma_version=1, on_call=self.calls.append)
        options = rpcrdma.ServeOptions(rdma=rpcrdma.RdmaServerConfig(provider=simulated))
        async with (
            rpcrdma.serve([service], ["rdma://127.0.0.1:20049"], options=options) as served,
            rpcrdma.connect(served.listening[0], service.PROGRAM, options=client) as connection,
        ):
            yield connection

    def note(self, args: Any, context: Any) -> Any:
        """Runs a COMPOUND, and notes its context."""
        self.contexts.append(context)
        return type(self.server.service).compound(self.server.service, args, context)

    note.__rpc_execution__ = Nfs4Service.compound.__rpc_execution__  # type: ignore[attr-defined]

    def used(self) -> list[int]:
        """The octets that the server says to have written into each Write chunk of the only call."""
        (context,) = self.contexts
        return [sum(segment.length for segment in chunk.segments) for chunk in context.chunks.writes]

    async def run(self, connection: Any, *operations: tuple[int, Any]) -> CompoundReply:
        self.client.number += 1
        sequence = SEQUENCE4args(self.client.session, self.client.number, 0, 0, False)
        call = CompoundCall.of([(OP.OP_SEQUENCE, sequence), (OP.OP_PUTROOTFH, None), *operations])
        reply: CompoundReply = await connection.call(COMPOUND, call)
        return reply


def reads(*ranges: tuple[int, int]) -> list[tuple[int, Any]]:
    return [(OP.OP_READ, READ4args(NO_OPEN, offset, count)) for offset, count in ranges]


LOOKUP = (OP.OP_LOOKUP, LOOKUP4args(b"file"))


@pytest.mark.req("NF-6", "NF-7", "NF-10")
def test_each_read_has_its_write_chunk() -> None:
    async def main() -> None:
        session = Session()
        ranges = ((0, 65536), (100_000, 9999), (200_000, 100_000))
        async with session.connected() as connection:
            reply = await session.run(connection, LOOKUP, *reads(*ranges), (OP.OP_GETATTR, GETATTR4args([1 << 4])))
        found = [result.value for result in reply.results[3:6]]
        assert [bytes(value.data) for value in found] == [DATA[start : start + count] for start, count in ranges]
        assert [value.eof for value in found] == [False, False, True]
        assert session.used() == [65536, 9999, len(DATA) - 200_000]

    run_in_virtual_time(main())


@pytest.mark.req("NF-9")
def test_a_failed_read_and_those_after_it_leave_their_write_chunks_unused() -> None:
    async def main() -> None:
        session = Session()
        first, second, third = reads((0, 65536), (65536, 65536), (0, 65536))
        second[1].stateid = stateid4(1, b"of no server")
        async with session.connected() as connection:
            reply = await session.run(connection, LOOKUP, first, second, third)
        assert reply.status is nfsstat4.NFS4ERR_BAD_STATEID
        assert bytes(reply.results[3].value.data) == DATA[:65536]
        assert session.used() == [65536, 0, 0]

    run_in_virtual_time(main())


def test_data_is_written_out_of_a_read_chunk() -> None:
    async def main() -> None:
        session = Session()
        data = bytes(reversed(DATA))
        async with session.connected() as connection:
            write = WRITE4args(NO_OPEN, 0, stable_how4.UNSTABLE4, data)
            reply = await session.run(connection, LOOKUP, (OP.OP_WRITE, write), *reads((1, 2)))
        assert [result.status for result in reply.results] == [0] * 5
        assert bytes(reply.results[4].value.data) == data[1:3]
        assert session.file.data == data
        assert "read chunk" in session.calls[0].travelled

    run_in_virtual_time(main())
