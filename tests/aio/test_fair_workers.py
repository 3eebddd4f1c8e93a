"""Calls that take worker threads, from many connections: who else wants one does not wait for them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest

import local_tcp
from local_tcp import with_threads
from rpcrdma.aio.client.connect import connect
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext, in_worker
from support.cases import each_case
from support.raw_calls import file_handle, record, rpc
from support.raw_socket import RawSocketPeer
from support.waiting import until

HANDLE = v3.nfs_fh3(data=b"handle")
NONE = v3.post_op_attr(False, None)


class Slow(v3.NFS_V3_Service):
    """ACCESS takes a thread until `gate` opens, READLINK takes one for a moment."""

    IDEMPOTENT = frozenset({v3.ACCESS.number, v3.READLINK.number})

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.running = 0
        self.ran: list[str] = []

    @in_worker
    def access(self, args: v3.ACCESS3args, context: CallContext) -> v3.ACCESS3res:
        self.running += 1
        self.ran.append("access")
        self.gate.wait()
        return v3.ACCESS3res(v3.nfsstat3.NFS3ERR_NOTSUPP, v3.ACCESS3resfail(NONE))

    @in_worker
    def readlink(self, args: v3.READLINK3args, context: CallContext) -> v3.READLINK3res:
        self.ran.append("readlink")
        return v3.READLINK3res(v3.nfsstat3.NFS3ERR_NOTSUPP, v3.READLINK3resfail(NONE))


@each_case("source", ["127.0.0.1", "127.0.0.2"])
@each_case("connections", [1, 10])
@with_threads
async def test_calls_that_never_end_on_connections_leave_a_thread_to_another(connections: int, source: str) -> None:
    """Ten connections of one address take all that connections may have: one is left to other addresses alone."""

    slow = Slow()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve([slow], ["tcp://127.0.0.1:0"], options=ServeOptions(drain_s=60)))
        stack.callback(slow.gate.set)
        port = parse_url(server.listening[0]).port
        for _ in range(connections):
            peer = RawSocketPeer(await local_tcp.dial("127.0.0.1", port, source=source))
            stack.callback(peer.close)
            await peer.send(record(rpc(4, file_handle() + bytes(4))) * 128)
        most = 6 if connections == 1 else 7
        await until(lambda: slow.running == most and server.statistics().tcp.calls == 128 * connections)
        other = RawSocketPeer(await local_tcp.dial("127.0.0.1", port))
        stack.callback(other.close)
        await other.send(record(rpc(5, file_handle())))
        if source == "127.0.0.1" and connections > 1:
            slow.gate.set()
        assert await other.receive(4)
        assert slow.gate.is_set() or slow.running == most


@with_threads
async def test_calls_of_a_host_beyond_its_bound_wait_on_either_transport_and_all_are_answered() -> None:
    slow = Slow()
    access, readlink = v3.ACCESS3args(HANDLE, 1), v3.READLINK3args(HANDLE)
    async with AsyncExitStack() as stack:
        options = ServeOptions(calls_per_host=2, drain_s=60)
        urls = ["tcp://127.0.0.1:0", "rdma://127.0.0.1:0"]
        server = await stack.enter_async_context(serve([slow], urls, options=options))
        stack.callback(slow.gate.set)
        clients = [await stack.enter_async_context(connect(url, v3.PROGRAM)) for url in server.listening]
        calls = [asyncio.ensure_future(each.call(v3.ACCESS, access)) for each in clients for _ in range(10)]
        await until(lambda: slow.running == 2 and server.statistics().calls_running == 20)
        # They wait with threads idle, which another host finds.
        other = RawSocketPeer(
            await local_tcp.dial("127.0.0.1", parse_url(server.listening[0]).port, source="127.0.0.2")
        )
        stack.callback(other.close)
        await other.send(record(rpc(5, file_handle())))
        assert await other.receive(4)
        # What needs no thread waits for none.
        for client in clients:
            await client.call(v3.NULL, None)
        assert slow.running == 2
        limits = {"connections_max": 4, "connections_per_host": 4, "memory_octets_max": 64 << 20}
        server.set_limits(**limits, rdma_idle_s=None, tcp_idle_s=None, calls_per_host=3)
        await until(lambda: slow.running == 3)
        with pytest.raises(ValueError, match="calls_per_host is 0"):
            server.set_limits(**limits, rdma_idle_s=None, tcp_idle_s=None, calls_per_host=0)
        for refused in ("rdma_idle_s", "tcp_idle_s"):
            idle = {"rdma_idle_s": 60, "tcp_idle_s": 60, refused: -1}
            with pytest.raises(ValueError, match="idle_s is -1"):
                server.set_limits(**limits, **idle, calls_per_host=3)
            assert (server._rdma._config.idle_s, server._tcp.config.idle_s) == (None, None)
        calls.append(asyncio.ensure_future(clients[0].call(v3.READLINK, readlink)))
        slow.gate.set()
        assert {reply.status for reply in await asyncio.gather(*calls)} == {v3.nfsstat3.NFS3ERR_NOTSUPP}


@with_threads
async def test_calls_that_wait_for_one_disk_leave_a_thread_to_another_call_of_their_connection() -> None:
    slow = Slow()
    slow.WAITS_FOR = type
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve([slow], ["tcp://127.0.0.1:0"], options=ServeOptions(drain_s=60)))
        stack.callback(slow.gate.set)
        peer = RawSocketPeer(await local_tcp.dial("127.0.0.1", parse_url(server.listening[0]).port))
        stack.callback(peer.close)
        await peer.send(record(rpc(4, file_handle() + bytes(4))) * 100 + record(rpc(5, file_handle())))
        assert await peer.receive(4)
        assert (slow.running, slow.ran[-1]) == (5, "readlink")
