"""Calls over real connections are counted at both ends, with the parts of their time."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import local_tcp
from local_tcp import without_network
from rpcrdma.aio.answering import answering, handler_runner, server_call
from rpcrdma.aio.client import connection
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.connections import calls_made, rdma_connection, tcp_connection
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.errors import CallTimeout, RpcError
from rpcrdma.nfs import v3
from rpcrdma.rpc.call_statistics import OperationStatistics
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.gss.context_turns import ContextTurns
from rpcrdma.rpc.gss.protection import CallWaits
from rpcrdma.rpc.service import CallContext, in_worker
from rpcrdma.transport import TransportConfig
from support.waiting import until

HANDLE = v3.nfs_fh3(data=b"handle")
NO_ATTRIBUTES = v3.post_op_attr(False, None)
OCTETS = 4096
HELD_NS = 50_000_000
Told = dict[tuple[str, str], OperationStatistics]
Work = Callable[[Connection, Server, "Files"], Awaitable[None]]
COUNTED = ConnectOptions(count_calls=True)


def told(operations: tuple[OperationStatistics, ...]) -> Told:
    return {(each.procedure.removeprefix("NFSPROC3_"), each.status): each for each in operations}


def made(client: Connection) -> Told:
    return told(client.statistics.operations)


class Files(v3.NFS_V3_Service):
    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun = 0

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(args.count)
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NO_ATTRIBUTES, args.count, False, data))

    def lookup(self, _args: v3.LOOKUP3args, _context: CallContext) -> v3.LOOKUP3res:
        return v3.LOOKUP3res(v3.nfsstat3.NFS3ERR_NOENT, v3.LOOKUP3resfail(NO_ATTRIBUTES))

    def fsstat(self, args: v3.FSSTAT3args, context: CallContext) -> v3.FSSTAT3res:
        raise ValueError("a fault")

    @in_worker
    def getattr(self, _args: v3.GETATTR3args, _context: CallContext) -> v3.GETATTR3res:
        self.begun += 1
        assert self.go_on.wait(60)
        return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_STALE, None)


class Clock:
    """Takes the place of `perf_counter_ns`: a tick passes between two looks, and what a test lets pass."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += 1
        return self.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (answering, handler_runner, server_call, calls_made, connection, rdma_connection, tcp_connection):
        monkeypatch.setattr(module, "perf_counter_ns", made)
    return made


def use(
    work: Work, options: ConnectOptions = COUNTED, schemes: tuple[str, ...] = ("rdma", "tcp"), **serving: Any
) -> None:
    """Runs something with a connection to a server of one worker thread, both of which count."""

    async def main(scheme: str) -> None:
        files = Files()
        serve_options = ServeOptions(**{"count_calls": True, "workers": 1, "drain_s": 60.0, **serving})
        async with serve([files], [f"{scheme}://127.0.0.1:0"], options=serve_options) as server:
            try:
                async with connect(server.listening[0], options=options) as client:
                    await work(client, server, files)
            finally:
                files.go_on.set()

    for scheme in schemes:
        local_tcp.run(main(scheme), asyncio.new_event_loop)


def answered(server: Server) -> Told:
    statistics = server.statistics()
    return told(statistics.rdma.operations + statistics.tcp.operations)


def test_both_ends_count_calls_octets_and_times_by_status() -> None:
    async def work(client: Connection, server: Server, _files: Files) -> None:
        for _ in range(3):
            await client.call(v3.READ, v3.READ3args(HANDLE, 0, OCTETS), into=bytearray(OCTETS))
        await client.call(v3.LOOKUP, v3.LOOKUP3args(v3.diropargs3(HANDLE, "x")))
        with pytest.raises(RpcError):
            await client.call(v3.FSSTAT, v3.FSSTAT3args(HANDLE))
        here, there = made(client), answered(server)
        for end in (here, there):
            assert {key: each.ops for key, each in end.items()} == {
                ("READ", "SUCCESS"): 3,
                ("LOOKUP", "NFS3ERR_NOENT"): 1,
                ("FSSTAT", "SYSTEM_ERR"): 1,
            }
            assert [end[key].errors for key in sorted(end)] == [1, 1, 0]
        for key, each in here.items():
            assert (each.trans, each.timeouts, each.handler.count) == (each.ops, 0, 0)
            assert (each.bytes_sent, each.bytes_recv) == (there[key].bytes_recv, there[key].bytes_sent)
            assert each.queue.sum_ns + each.rtt.sum_ns == each.execute.sum_ns
            assert there[key].queue.sum_ns + there[key].handler.sum_ns == there[key].execute.sum_ns
            # The server's part of each call lies within the client's.
            assert 0 < there[key].execute.sum_ns < each.rtt.sum_ns
        assert here["READ", "SUCCESS"].bytes_recv > 3 * OCTETS

    use(work)


def test_calls_without_a_reply_are_counted_by_their_reason(clock: Clock) -> None:
    async def work(client: Connection, server: Server, files: Files) -> None:
        timed_out = asyncio.ensure_future(client.call(v3.GETATTR, v3.GETATTR3args(HANDLE), timeout_s=0.01))
        await asyncio.sleep(0)
        clock.now_ns += 9_000_000
        with pytest.raises(CallTimeout):
            await timed_out
        given_up = asyncio.ensure_future(client.call(v3.GETATTR, v3.GETATTR3args(HANDLE)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        here = made(client)
        timeout = here["GETATTR", "TIMEOUT"]
        assert (timeout.ops, timeout.timeouts, timeout.errors, timeout.rtt.count) == (1, 1, 1, 0)
        assert timeout.execute.sum_ns >= 9_000_000
        assert here["GETATTR", "CANCELLED"].ops == 1
        with pytest.raises(ZeroDivisionError):
            await client.call(dataclasses.replace(v3.NULL, encode_args=lambda _, __: 1 // 0), None)
        unsent = made(client)["NULL", "NOT_SENT"]
        assert (unsent.ops, unsent.trans, unsent.rtt.count) == (1, 0, 0)
        files.go_on.set()

    use(work)


def test_waiting_for_a_thread_is_the_servers_queue_time(clock: Clock) -> None:
    async def work(client: Connection, server: Server, files: Files) -> None:
        calls = [asyncio.ensure_future(client.call(v3.GETATTR, v3.GETATTR3args(HANDLE))) for _ in range(2)]
        await until(lambda: files.begun and server.statistics().calls_running == 2)
        clock.now_ns += HELD_NS
        files.go_on.set()
        await asyncio.gather(*calls)
        stale = answered(server)["GETATTR", "NFS3ERR_STALE"]
        # One was run while the other waited for the only thread.
        assert stale.ops == 2
        assert stale.handler.max_ns >= HELD_NS
        assert stale.queue.max_ns >= HELD_NS
        assert stale.execute.max_ns < stale.queue.sum_ns + stale.handler.sum_ns
        assert stale.execute.sum_ns == stale.queue.sum_ns + stale.handler.sum_ns

    use(work)


def test_waiting_for_a_context_of_rpcsec_gss_is_the_servers_queue_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_call = Dispatcher.open_call
    waits: list[CallWaits] = []

    def opened() -> None:
        clock.now_ns += HELD_NS

    def opened_late(dispatcher: Dispatcher, call: Any) -> Any:
        if waits:
            raise waits.pop()
        return open_call(dispatcher, call)

    async def work(client: Connection, server: Server, _files: Files) -> None:
        waits.append(CallWaits(ContextTurns(), opened, 0))
        await client.call(v3.READ, v3.READ3args(HANDLE, 0, OCTETS), into=bytearray(OCTETS))
        read = answered(server)["READ", "SUCCESS"]
        assert read.queue.sum_ns > HELD_NS > read.handler.sum_ns > 0

    monkeypatch.setattr(Dispatcher, "open_call", opened_late)
    use(work)


def test_nothing_is_counted_unless_asked_for() -> None:
    async def work(client: Connection, server: Server, _files: Files) -> None:
        await client.call(v3.READ, v3.READ3args(HANDLE, 0, OCTETS))
        assert client.statistics.operations == ()
        assert answered(server) == {}

    use(work, ConnectOptions(), count_calls=False)


ONE_CREDIT = ConnectOptions(count_calls=True, transport=TransportConfig(credits_requested=1))


def test_waiting_for_a_credit_is_the_clients_queue_time(clock: Clock) -> None:
    async def work(client: Connection, server: Server, files: Files) -> None:
        calls = [asyncio.ensure_future(client.call(v3.GETATTR, v3.GETATTR3args(HANDLE))) for _ in range(2)]
        await until(lambda: files.begun)
        clock.now_ns += HELD_NS
        # A call that is given up while it waits for a credit was never sent.
        with pytest.raises(CallTimeout):
            await client.call(v3.LOOKUP, v3.LOOKUP3args(v3.diropargs3(HANDLE, "x")), timeout_s=0.01)
        files.go_on.set()
        await asyncio.gather(*calls)
        stale, timeout = made(client)["GETATTR", "NFS3ERR_STALE"], made(client)["LOOKUP", "TIMEOUT"]
        assert (stale.ops, stale.trans) == (2, 2)
        assert stale.queue.max_ns >= HELD_NS
        assert stale.rtt.max_ns >= HELD_NS
        assert stale.execute.sum_ns == stale.queue.sum_ns + stale.rtt.sum_ns
        assert (timeout.ops, timeout.trans, timeout.bytes_sent) == (1, 0, 0)
        assert timeout.queue.sum_ns == timeout.execute.sum_ns > 0
        assert not client._present._untimed  # type: ignore[union-attr]

    use(work, ONE_CREDIT, ("rdma",), workers=2)


@without_network
async def test_the_documented_program_prints_percentiles(capsys: pytest.CaptureFixture[str]) -> None:
    document = (Path(__file__).parents[2] / "docs" / "python-api.md").read_text()
    (program,) = (block for block in re.findall(r"```python\n(.*?)```", document, re.DOTALL) if "count_calls" in block)
    names: dict[str, Any] = {}
    exec(program, names)

    async with serve([Files()], ["rdma://127.0.0.1:0"]) as server:
        await names["latency"](server.listening[0], 10)
    assert re.fullmatch(r"NFSPROC3_NULL: 10 calls, p99 \d+ µs, at most \d+ µs\n", capsys.readouterr().out)
