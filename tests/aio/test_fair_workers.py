"""Calls that take worker threads, from many connections: who else wants one does not wait for them."""

from __future__ import annotations

import threading
from contextlib import AsyncExitStack

import local_tcp
from local_tcp import with_threads
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext, in_worker
from support.cases import each_case
from support.raw_calls import file_handle, record, rpc
from support.raw_socket import RawSocketPeer
from support.waiting import until

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
