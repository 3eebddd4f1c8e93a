"""The TCP server: its bounds, its log, how it begins and how it ends."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Any
from unittest.mock import Mock

import pytest

import local_tcp
from jumping_sockets import now_s
from local_tcp import without_network
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.worker_pool import WorkerPool
from rpcrdma.aio.connections import tcp_calls_taken
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers import listener as listener_module
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.aio.drivers.tls_stream import TlsRecordStream
from rpcrdma.aio.server.tcp_server import TcpServer
from rpcrdma.errors import TransportClosed
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.wire.bulk_memory import ResultMemory
from rpcrdma.xdr.codec import Payload
from support.cases import each_case
from support.waiting import time_passes, until
from tcp_rig import DOUBLE, GATED, MIB, READ, Sample, serving


@without_network
async def test_a_stopping_server_answers_what_runs_and_then_closes() -> None:
    async with serving() as rig:
        caller = await rig.caller()
        call = asyncio.create_task(caller.call(GATED, 1))
        await rig.service.arrived.wait()
        stopping = asyncio.create_task(rig.server.stop(10))
        await asyncio.sleep(0)
        rig.service.gate.set()
        assert await call == 4
        await stopping
        assert caller.closed
        with pytest.raises(TransportClosed, match="peer closed"):
            await caller.call(DOUBLE, 1)


@without_network
async def test_a_stopping_server_gives_up_on_calls_at_its_deadline() -> None:
    async with serving() as rig:
        caller = await rig.caller()
        call = asyncio.create_task(caller.call(GATED, 1))
        await rig.service.arrived.wait()
        await rig.server.stop(10)
        assert 10 <= now_s() < 11
        with pytest.raises(TransportClosed):
            await call


@each_case("tls", [False, True])
@without_network
async def test_the_end_of_sending_keeps_a_connection_with_unsent_replies_until_the_peer_closes_it(tls: bool) -> None:
    """Closing it with octets unread would reset it, and the peer would lose what it has not read."""
    near, far = local_tcp._pair(("127.0.0.1", 1), ("127.0.0.1", 2))
    lost, received = Mock(), Mock(side_effect=lambda _record: stream.pause())
    stream = (TlsRecordStream if tls else RecordStream)(
        near,
        peer="peer",
        record_octets_max=16 * MIB,
        setting="",
        on_too_long=Mock(),
        on_record=received,
        on_lost=lost,
        memory=ResultMemory(),
    )
    far.send(2 * (b"\x80\0\0\4" + bytes(4)))
    await until(lambda: stream.paused)
    if isinstance(stream, TlsRecordStream):
        # The session has encrypted octets that the socket has not taken.
        stream.tls = Mock(unsent=1, more=False, flush=Mock(side_effect=BrokenPipeError))
    stream.send(Payload(bytes(8 * MIB)))
    assert stream.unsent_octets
    stream.finish()
    stream.send(Payload(bytes(8)))
    with far:
        far.send(bytes(8))
        while far.recv(MIB):
            await time_passes(0)
        await until(lambda: lost.called or not stream.unread_octets)
        for _ in range(3):
            await time_passes(0)
        assert not lost.called
    await until(lambda: lost.called)
    assert "the peer closed the connection" in str(lost.call_args)
    received.assert_called_once()


@each_case("faulty", ["on_record", "on_expected", "on_too_long", "memory"])
@without_network
async def test_a_fault_of_this_side_while_it_receives_ends_the_stream_and_is_logged(
    faulty: str, caplog: pytest.LogCaptureFixture
) -> None:
    escaped = Mock()
    asyncio.get_running_loop().set_exception_handler(escaped)
    near, far = local_tcp._pair(("127.0.0.1", 1), ("127.0.0.1", 2))
    lost = Mock()
    parts: dict[str, Any] = {each: Mock() for each in ("on_record", "on_expected", "on_too_long")}
    parts["memory"] = ResultMemory()
    parts[faulty] = Mock(side_effect=MemoryError, take=Mock(side_effect=MemoryError))
    RecordStream(near, peer="peer", record_octets_max=MIB, setting="", on_lost=lost, **parts)
    octets = {"on_record": b"\x80\0\0\4" + bytes(4), "on_too_long": b"\x80\x20\0\0" + bytes(8)}
    far.send(octets.get(faulty, b"\x80\1\0\0" + bytes(8)))
    await until(lambda: lost.called or escaped.called)
    assert "there is no memory for a message" in str(lost.call_args)
    assert "a fault in the connection with peer" in caplog.text
    escaped.assert_not_called()
    far.close()


@without_network
async def test_a_message_that_is_withdrawn_before_it_is_sent_blocks_nothing() -> None:
    near, far = local_tcp._pair(("127.0.0.1", 1), ("127.0.0.1", 2))
    parts: dict[str, Any] = {each: Mock() for each in ("on_record", "on_too_long", "on_lost")}
    stream = RecordStream(near, peer="peer", record_octets_max=MIB, setting="", memory=ResultMemory(), **parts)
    last = 0
    while not stream.unsent_octets:
        last += 1
        stream.send(Payload(bytes(1000)), last)
    assert stream.blocked_at is not None
    stream.withdraw(last)
    assert stream.unsent_octets == 0
    assert stream.blocked_at is None
    stream.send(Payload(bytes(1000)), last + 1)
    assert stream.unsent_octets
    assert stream.blocked_at is not None
    stream.close()
    far.close()


@without_network
async def test_nothing_more_is_read_while_too_many_calls_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_OUTSTANDING_CALLS_MAX", 4)

    async with serving() as rig, await rig.caller() as caller, await rig.caller() as other:
        calls = [asyncio.create_task(caller.call(GATED, n)) for n in range(50)]
        await rig.service.arrived.wait()
        assert await other.call(DOUBLE, 1) == 2
        assert rig.service.waiting == 4
        rig.service.gate.set()
        assert await asyncio.gather(*calls) == [n + 3 for n in range(50)]


@pytest.mark.thorough
@without_network
async def test_replies_that_nobody_reads_hold_up_their_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_calls_taken, "RPC_UNSENT_REPLY_OCTETS_MAX", MIB)

    async with serving() as rig, await rig.caller() as other:
        greedy = await rig.caller()
        calls = [asyncio.create_task(greedy.call(READ, MIB)) for _ in range(20)]
        await asyncio.sleep(0)
        greedy._stream.pause()
        for _ in range(50):
            assert await other.call(DOUBLE, 1) == 2
        held = max(connection._stream.unsent_octets for connection in rig.server.connections)
        assert 0 < held < 3 * MIB
        assert rig.server.pool.lent_octets < 5 * MIB
        greedy._stream.resume()
        assert [len(result) for result in await asyncio.gather(*calls)] == [MIB] * 20
        await greedy.close()


@without_network
async def test_a_peer_that_reads_nothing_is_cut_off_before_others_lack_memory(caplog: pytest.LogCaptureFixture) -> None:
    pool = BufferPool(octets_max=4 * MIB)
    async with serving({"pool": pool}) as rig, await rig.caller() as honest:
        greedy = await rig.caller()
        calls = [asyncio.create_task(greedy.call(READ, MIB)) for _ in range(3)]
        await asyncio.sleep(0)
        greedy._stream.pause()
        # One client's share of so little; both connections are one client's.
        await until(lambda: pool.lent_octets == MIB)
        first = asyncio.create_task(honest.call(READ, MIB))
        await time_passes(tcp_calls_taken.RPC_STALLED_S - 0.5)
        assert len(rig.server.connections) == 2
        await time_passes(2)
        assert len(rig.server.connections) == 1
        assert len(await first) == len(await honest.call(READ, MIB)) == MIB
        greedy._stream.resume()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(ends[-1], TransportClosed)
    assert "does not read its replies" in caplog.text


@without_network
async def test_a_host_with_all_connections_that_it_may_have_gives_up_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(connections_max=9, connections_per_host=1) as rig:
        first, second = await rig.caller(), await rig.caller()
        assert await second.call(DOUBLE, 1) == 2
        await until(lambda: first.closed)
        calling = asyncio.create_task(second.call(GATED, 1))
        await rig.service.arrived.wait()
        with pytest.raises(TransportClosed):
            await (await rig.caller()).call(DOUBLE, 1)
        rig.service.gate.set()
        await calling
        await second.close()
    assert "turned away: it has all connections that a host may have, 1" in caplog.text


@without_network
async def test_a_host_gets_no_more_calls_in_threads_by_connecting_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_threads: set[Any] = set()
    monkeypatch.setattr(WorkerPool, "runs_calls_of", lambda _, source: source in in_threads)
    async with serving(connections_max=9, connections_per_host=1) as rig:
        first = await rig.caller()
        assert await first.call(DOUBLE, 1) == 2
        in_threads.update(connection.calls_taken for connection in rig.server.connections)
        await first.close()
        await until(lambda: not rig.server.connections)
        with pytest.raises(TransportClosed):
            await (await rig.caller()).call(DOUBLE, 1)
        in_threads.clear()


@without_network
async def test_an_idle_connection_is_closed_and_a_waiting_call_is_not_idle() -> None:
    async with serving(idle_s=20) as rig, await rig.caller() as busy:
        call = asyncio.create_task(busy.call(GATED, 1))
        with await rig.raw() as idle:
            assert await local_tcp.received_until_closed(idle) == b""
        assert now_s() == pytest.approx(20, abs=0.1)
        await time_passes(20)
        rig.service.gate.set()
        assert await call == 4
    async with serving(idle_s=0) as rig, await rig.caller() as idle:
        await time_passes(7200)
        assert await idle.call(DOUBLE, 1) == 2, "0 stands for no limit"


@without_network
async def test_a_flood_of_connections_fills_the_log_with_60_lines_a_minute_of_each_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rpcrdma.server")
    async with serving() as rig:
        for _ in range(99):
            async with await rig.caller() as caller:
                await caller.call(DOUBLE, 1)
    assert rig.server.connections_made == 100
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("tcp connection from 127.0.0.1:")
    assert next(line for line in lines if " ended" in line).endswith(" ended: the peer closed the connection")
    # And one of each kind at the end, which says how many there were besides.
    counted = [line for line in lines if line.endswith("(the last of 40 more like it)")]
    ends = [" ended: " in line for line in lines if line not in counted]
    assert (ends.count(False), ends.count(True), len(counted)) == (60, 60, 2)
    caplog.clear()
    async with serving() as rig:
        for number in range(99):
            (await rig.raw(f"2001:db8::{number:x}")).close()
    assert sum(line.startswith("tcp connection from [2001:db8::") for line in caplog.messages) == 2 * 60 + 2


@pytest.mark.thorough
async def test_a_server_listens_on_several_addresses() -> None:
    async with TcpServer(Dispatcher([Sample()])) as server:
        await server.listen()
        await server.listen("127.0.0.1", 0)
        assert (await server.listen("::1"))[0][0] == "::1"
        for host, port in server.addresses:
            async with await TcpConnection.connect(host, port) as caller:
                assert await caller.call(DOUBLE, 1) == 2
        assert len({port for _, port in server.addresses}) == 3
        with pytest.raises(OSError, match="in use"):
            await server.listen("127.0.0.1", server.port)


@pytest.mark.thorough
async def test_a_server_out_of_files_goes_on_accepting_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept = socket.socket.accept
    failures = [OSError(errno.EMFILE, "Too many open files")]

    def scarce(self: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(self)

    async with TcpServer(Dispatcher([Sample()])) as server:
        await server.listen()
        monkeypatch.setattr(socket.socket, "accept", scarce)
        monkeypatch.setattr(listener_module, "_ACCEPT_RETRY_S", 0.0)
        async with await TcpConnection.connect("127.0.0.1", server.port) as caller:
            assert await caller.call(DOUBLE, 1) == 2
        failures.append(OSError(errno.ENFILE, "Too many open files"))
        monkeypatch.setattr(listener_module, "_ACCEPT_RETRY_S", 1000.0)
        async with await TcpConnection.connect("127.0.0.1", server.port):
            await until(lambda: not failures)
            await server.stop()
    said = "cannot accept a connection: Too many open files"
    assert caplog.messages == [said, f"{said} (the last of 1 more like it)"]
