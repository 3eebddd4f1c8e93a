"""Calls over RPC-over-RDMA between a client and a server of this process, over each provider."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.connections import rdma_calls_taken
from rpcrdma.aio.connections.rdma_calls_taken import RdmaCallsTaken
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.errors import (
    ConnectFailed,
    LocalProtocolError,
    NoSuchProcedure,
    ProgramUnavailable,
    RemoteSystemError,
    TransportClosed,
)
from rpcrdma.nfs import mount, v3
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.service import CallContext, in_worker
from rpcrdma.transport import TransportConfig
from rpcrdma.transport.message import Kind, Outgoing
from rpcrdma.transport.outbox import Outbox, Preparer
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder
from support.cases import each_case
from support.simulated import not_simulated
from support.waiting import until

pytestmark = pytest.mark.usefixtures("each_provider")

_MIB = 1 << 20
_CONTENT = memoryview(bytes(range(256)) * (_MIB // 256))
_HANDLE = v3.nfs_fh3(data=b"handle")
_NO_ATTRIBUTES = v3.post_op_attr(False, None)


class Files(v3.NFS_V3_Service):
    """READ answers with known octets, WRITE stores its data; `gate` holds REMOVE up in a worker thread."""

    def __init__(self) -> None:
        self.written: list[tuple[int, bytes]] = []
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.kept = b""
        self.waiting = asyncio.Event()

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(args.count)
        data[:] = _CONTENT[: args.count]
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(_NO_ATTRIBUTES, args.count, False, data))

    @in_worker
    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        self.written.append((args.offset, bytes(args.data)))
        wcc = v3.wcc_data(v3.pre_op_attr(False, None), _NO_ATTRIBUTES)
        result = v3.WRITE3resok(wcc, len(args.data), v3.stable_how.FILE_SYNC, b"verifier")
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, result)

    @in_worker
    def remove(self, args: v3.REMOVE3args, context: CallContext) -> v3.REMOVE3res:
        data = context.buffer(5000)
        data[:] = bytes(5000)
        self.entered.set()
        self.gate.wait()
        self.kept = bytes(data)
        wcc = v3.wcc_data(v3.pre_op_attr(False, None), _NO_ATTRIBUTES)
        return v3.REMOVE3res(v3.nfsstat3.NFS3_OK, v3.REMOVE3resok(wcc))

    async def getattr(self, args: v3.GETATTR3args, context: CallContext) -> v3.GETATTR3res:
        self.waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    def fsstat(self, args: v3.FSSTAT3args, context: CallContext) -> v3.FSSTAT3res:
        raise RuntimeError("a handler's own fault")


class Mounts(mount.MOUNT_V3_Service):
    """Offered over TCP alone."""

    OVER_RDMA = False


@asynccontextmanager
async def serving(
    files: Files | None = None, schemes: Sequence[str] = ("rdma",), **settings: Any
) -> AsyncIterator[tuple[Server, Files]]:
    service = files or Files()
    options = ServeOptions(rdma=RdmaServerConfig(**settings), drain_s=0)
    async with serve([service, Mounts()], [f"{scheme}://127.0.0.1:0" for scheme in schemes], options=options) as server:
        try:
            yield server, service
        finally:
            service.gate.set()


def remove_args() -> v3.REMOVE3args:
    return v3.REMOVE3args(v3.diropargs3(_HANDLE, "name"))


async def read(client: Connection, count: int, into: bytearray | None = None) -> v3.READ3resok:
    reply = await client.call(v3.READ, v3.READ3args(_HANDLE, 0, count), into=into)
    assert isinstance(reply.value, v3.READ3resok)
    return reply.value


@pytest.mark.providers("loopback")
@pytest.mark.versions("2")
async def test_an_error_of_the_callers_own_decoder_is_the_callers_and_the_connection_goes_on() -> None:
    def decode(_dec: Decoder) -> None:
        raise ValueError("not what was expected")

    async with serving() as (server, _), connect(server.listening[0]) as client:
        with pytest.raises(ValueError, match="not what was expected"):
            await client.call(dataclasses.replace(v3.NULL, decode_result=decode), None)
        await client.call(v3.NULL, None)
        assert client.reconnects == 0


async def test_octets_of_any_number_travel_both_ways() -> None:
    async with serving() as (server, files), connect(server.listening[0], v3.PROGRAM) as client:
        for count in (0, 1, 2, 3, 4, 1023, 1024, 1025, 3999, 4096, 65535, 100_003, _MIB):
            assert bytes((await read(client, count)).data) == _CONTENT[:count], count
            args = v3.WRITE3args(_HANDLE, 9, count, v3.stable_how.FILE_SYNC, _CONTENT[:count])
            reply = await client.call(v3.WRITE, args)
            assert reply.status == v3.nfsstat3.NFS3_OK
            assert files.written.pop() == (9, bytes(_CONTENT[:count])), count
        buffer = bytearray(_MIB)
        assert client.statistics is not None
        before = client.statistics.calls_write_chunk
        result = await read(client, _MIB, buffer)
        assert isinstance(result.data, memoryview)
        assert result.data.obj is buffer
        assert buffer == _CONTENT
        assert client.statistics.calls_write_chunk == before + 1


async def test_more_calls_than_there_are_credits_are_made_at_once() -> None:
    transport = TransportConfig(credits_granted=16)
    async with serving(transport=transport) as (server, files), connect(server.listening[0]) as client:
        sizes = [index * 1200 for index in range(64)]
        results = await asyncio.gather(*(read(client, size) for size in sizes))
        assert [bytes(result.data) for result in results] == [bytes(_CONTENT[:size]) for size in sizes]
        writes = [
            v3.WRITE3args(_HANDLE, index, size, v3.stable_how.UNSTABLE, _CONTENT[:size])
            for index, size in enumerate(sizes)
        ]
        await asyncio.gather(*(client.call(v3.WRITE, args) for args in writes))
        assert sorted(files.written) == [(index, bytes(_CONTENT[:size])) for index, size in enumerate(sizes)]


async def test_both_sides_agree_on_thresholds(each_provider: str, remote_invalidation: bool) -> None:
    transport = TransportConfig(
        inline_send_octets=8192,
        inline_receive_octets=2048,
        offered_send_octets=8192,
        offered_receive_octets=5120,
        credits_granted=7,
    )
    async with serving(transport=transport) as (server, _), connect(server.listening[0]) as client:
        await client.call(v3.NULL, None)
        agreed = client.negotiated
        assert agreed is not None
        by_private_data = agreed.version == 1
        sizes = (2048, 8192) if by_private_data else (5120, 8192)
        assert (agreed.inline_send_octets, agreed.inline_receive_octets) == sizes
        # Credits that count messages are for those of either direction.
        assert agreed.credits_granted == 7 if by_private_data else 1 <= agreed.credits_granted <= 8
        assert agreed.remote_invalidation is remote_invalidation
        assert agreed.provider == each_provider
        (connection,) = server.connections
        at_server = connection.negotiated
        assert at_server.remote_invalidation is agreed.remote_invalidation
        assert (at_server.inline_receive_octets, at_server.inline_send_octets) == sizes
        assert at_server.peer_properties == agreed.own_properties
        assert at_server.own_properties == agreed.peer_properties
        assert (agreed.own_properties is None) == by_private_data
        if agreed.peer_properties is not None:
            assert agreed.peer_properties["receive_octets"] == 5120
            assert agreed.peer_properties["reverse"] == "general"
            json.dumps(dataclasses.asdict(agreed))
        assert connection.negotiated.provider == each_provider


async def test_errors_of_rpc_reach_the_caller() -> None:
    async with serving() as (server, _), connect(server.listening[0]) as client:
        with pytest.raises(NoSuchProcedure):
            await client.call(v3.FSINFO, v3.FSINFO3args(_HANDLE))
        with pytest.raises(RemoteSystemError):
            await client.call(v3.FSSTAT, v3.FSSTAT3args(_HANDLE))
        with pytest.raises(ProgramUnavailable):
            await client.call(mount.MNT, "/")
        await client.call(v3.NULL, None)
        async with connect(server.listening[0], mount.PROGRAM) as other:
            with pytest.raises(LocalProtocolError, match="not a procedure of"):
                await other.call(v3.NULL, None)


async def test_a_cancelled_read_leaves_the_buffer_alone_and_the_connection_up() -> None:
    async with serving() as (server, _), connect(server.listening[0]) as client:
        await client.call(v3.NULL, None)
        buffer = bytearray(_MIB)
        task = asyncio.ensure_future(read(client, _MIB, buffer))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert buffer == bytes(_MIB)
        assert bytes((await read(client, 77)).data) == _CONTENT[:77]
        assert buffer == bytes(_MIB)
        assert client.statistics is not None
        assert client.statistics.calls_abandoned == 1


async def test_a_call_is_one_coroutine_and_is_given_up_as_soon_as_its_task_is_cancelled() -> None:
    async with serving() as (server, files), connect(server.listening[0]) as client:
        await client.call(v3.NULL, None)
        call = client.call(v3.GETATTR, v3.GETATTR3args(_HANDLE))
        task = asyncio.create_task(call)
        await files.waiting.wait()
        assert call.cr_await is not None
        assert not inspect.iscoroutine(call.cr_await)
        assert client.statistics is not None
        task.cancel()
        assert client.statistics.calls_abandoned == 1
        with pytest.raises(asyncio.CancelledError):
            await task


@not_simulated
async def test_a_server_that_stops_answers_what_runs() -> None:
    async with serving() as (server, files):
        client = await connect(server.listening[0])
        call = asyncio.ensure_future(client.call(v3.REMOVE, remove_args()))
        await until(files.entered.is_set)
        closing = asyncio.ensure_future(server.close(60))
        await asyncio.sleep(0)
        files.gate.set()
        assert (await call).status == v3.nfsstat3.NFS3_OK
        await closing
        with pytest.raises(ConnectFailed, match="refused"):
            await connect(server.listening[0])
        await client.close()


@not_simulated
async def test_a_worker_that_outlives_its_connection_keeps_its_buffers_until_it_is_done() -> None:
    async with serving() as (server, files):
        client = await connect(server.listening[0])
        call = asyncio.ensure_future(client.call(v3.REMOVE, remove_args()))
        await until(files.entered.is_set)
        await client.close()
        with pytest.raises(TransportClosed):
            await call
        await until(lambda: not server.connections)
        assert server.statistics().buffer_octets_lent >= 5000
        async with connect(server.listening[0]) as other:
            # It gets memory of its own.
            assert bytes((await read(other, 5000)).data) == _CONTENT[:5000]
        files.gate.set()
        await until(lambda: not server.statistics().buffer_octets_lent)
        assert files.kept == bytes(5000)


async def test_listening_where_somebody_listens_names_the_remedy() -> None:
    async with serving() as (server, _):
        with pytest.raises(
            ConnectFailed, match=r"already in use; stop what listens there|in use by this process; listen there once"
        ):
            await server.listen(server.listening[0])


async def test_connections_beyond_the_bound_are_turned_away() -> None:
    async with serving(connections_max=1) as (server, files), connect(server.listening[0]) as client:
        running = asyncio.ensure_future(client.call(v3.GETATTR, v3.GETATTR3args(_HANDLE)))
        await files.waiting.wait()
        with pytest.raises(ConnectFailed):
            await connect(server.listening[0])
        assert len(server.connections) == 1
        running.cancel()


class Renamed(Files):
    """RENAME answers when `opened` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()

    async def rename(self, args: v3.RENAME3args, context: CallContext) -> v3.RENAME3res:
        await self.opened.wait()
        wcc = v3.wcc_data(v3.pre_op_attr(False, None), _NO_ATTRIBUTES)
        return v3.RENAME3res(v3.nfsstat3.NFS3_OK, v3.RENAME3resok(wcc, wcc))


@pytest.mark.versions("2", "2-rtr")
async def test_a_connection_keeps_the_credits_of_calls_whose_repeats_are_answered_on_another() -> None:
    renamed = Renamed()
    place = v3.diropargs3(_HANDLE, "name")
    async with serving(renamed, transport=TransportConfig(credits_granted=4)) as (server, _):
        async with connect(server.listening[0]) as one, connect(server.listening[0]) as other:
            for connection in (one, other):
                await connection.call(v3.NULL, None)
            calls = []
            for connection in (one, other):
                for xid in range(4):
                    call = connection._present.call(
                        v3.RENAME, v3.RENAME3args(place, place), xid=xid, credential=AuthNone()
                    )
                    calls.append(asyncio.ensure_future(call))
                await until(lambda: sum(each.calls_in_progress for each in server.connections) == len(calls))
            renamed.opened.set()
            await asyncio.gather(*calls[4:])
            await one.call(v3.NULL, None, timeout_s=10)
            assert not any(call.done() for call in calls[:4])
        await asyncio.wait(calls)
        assert {type(call.exception()) for call in calls[:4]} == {TransportClosed}


@pytest.mark.providers("loopback")
async def test_a_server_that_drops_deferred_calls_of_a_connection_that_ends_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rdma_calls_taken, "RDMA_UNSENT_REPLY_OCTETS_MAX", 0)
    async with serving() as (server, _), connect(server.listening[0]) as one, connect(server.listening[0]) as other:
        calls = [asyncio.ensure_future(each.call(v3.NULL, None)) for each in (one, other)]
        await until(lambda: all(each.calls_taken.deferred for each in server.connections))
        # The server has not heard of it: it learns of the end when it drops the call.
        one._present.abort("gone")
        server._rdma.stop_accepting()
        assert len(server.connections) == 1
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


class Repliers(Files):
    """ACCESS answers from a task."""

    async def access(self, args: v3.ACCESS3args, context: CallContext) -> v3.ACCESS3res:
        context.buffer(5000)
        await asyncio.sleep(0)
        return v3.ACCESS3res(v3.nfsstat3.NFS3ERR_IO, v3.ACCESS3resfail(_NO_ATTRIBUTES))


FAULTS: dict[str, Any] = {
    "reply inline": (v3.READ, v3.READ3args(_HANDLE, 0, 5000)),
    "reply of a task": (v3.ACCESS, v3.ACCESS3args(_HANDLE, 1)),
    "reply of a worker": (v3.WRITE, v3.WRITE3args(_HANDLE, 0, 5000, v3.stable_how.FILE_SYNC, bytes(5000))),
    "reply without a handler": (v3.LOOKUP, v3.LOOKUP3args(v3.diropargs3(_HANDLE, "name"))),
    "call": (v3.NULL, None),
    "post": (v3.NULL, None),
}


@pytest.mark.req("V1-67")
@each_case("where", FAULTS)
async def test_a_fault_of_our_own_costs_one_connection(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A call that cannot be taken, or posted when its credit is spent, or a reply that cannot be made."""
    post, transmit, take = Outbox._post, Outbox._transmit, RdmaCallsTaken.on_call

    def fail_to_post(outbox: Outbox, message: Outgoing, preparer: Preparer | None) -> bool:
        if message.kind is Kind.REPLY:
            raise MemoryError
        return post(outbox, message, preparer)

    def fail_to_transmit(outbox: Outbox, message: Outgoing | None, gather: list[Buffer]) -> None:
        if message is not None and message.kind is Kind.CALL:
            raise MemoryError
        transmit(outbox, message, gather)

    def fail_to_take(calls_taken: RdmaCallsTaken, call: ServerCall) -> None:
        if calls_taken.client is faulty:
            raise RuntimeError("on purpose")
        take(calls_taken, call)

    escaped: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
    async with serving(Repliers()) as (server, _), connect(server.listening[0]) as other:
        await other.call(v3.NULL, None)
        (there,) = server.connections
        client = await connect(server.listening[0], options=ConnectOptions(reconnect=False))
        await client.call(v3.NULL, None)
        (faulty,) = server.connections - {there}
        assert isinstance(faulty, RdmaConnection)
        with monkeypatch.context() as patch:
            if where == "call":
                patch.setattr(RdmaCallsTaken, "on_call", fail_to_take)
            elif where == "post":
                patch.setattr(Outbox, "_transmit", fail_to_transmit)
            else:
                patch.setattr(Outbox, "_post", fail_to_post)
            with pytest.raises(TransportClosed) as ended:
                await client.call(*FAULTS[where])
        assert ("no memory for a message" in str(ended.value)) == (where == "post")
        await client.close()
        await until(lambda: server.connections == {there})
        # Calls of this end fail, and the memory that the call and its handler had borrowed is free for others.
        assert faulty.closed
        assert faulty.calls_taken.results.held == faulty._arguments.held == 0
        await other.call(v3.NULL, None)
    assert escaped == []
    # A second fault is not raised either: it may be of a result that others of the worker pool follow.
    for faults in (1, 2):
        logged = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert len(logged) == faults
        assert "a fault in the connection with 127.0.0.1" in logged[-1]
        faulty.calls_taken._on_fault(MemoryError())
