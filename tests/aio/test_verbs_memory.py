"""The memory of calls over an RDMA device: registered once where a pool lends it, and shown in the counters."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from mmap import PAGESIZE
from typing import Any

import pytest

import rpcrdma
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.drivers import verbs_manager
from rpcrdma.aio.drivers.tls_socket import TlsSocket
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.errors import ConnectFailed, TransportClosed
from rpcrdma.nfs import v3
from rpcrdma.nfs.client.streams.read_ahead import ReadAhead
from rpcrdma.nfs.client.streams.write_behind import WriteBehind
from rpcrdma.nfs.client.workers import BufferRing
from rpcrdma.rpc.record import RecordReceiver
from rpcrdma.transport.message_memory import PlainBuffers
from rpcrdma.verbs import ScatteredBuffer
from rpcrdma.verbs.binding import WorkStatus
from rpcrdma.verbs.receive_pool import ReceivePool
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.bulk_memory import PooledMemory, ResultMemory
from support import device_in_memory
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.late_accesses import ATTACKS, Files, late_access

FILE = v3.nfs_fh3(b"file")
OCTETS = 1 << 16


async def read(client: rpcrdma.Connection, octets: int = OCTETS, into: bytearray | None = None) -> None:
    reply = await client.call(v3.READ, v3.READ3args(FILE, 0, octets), into=into)
    assert isinstance(reply.value, v3.READ3resok)
    assert reply.value.data == b"r" * octets


async def write(client: rpcrdma.Connection, data: memoryview, offset: int = 0) -> None:
    reply = await client.call(v3.WRITE, v3.WRITE3args(FILE, offset, len(data), v3.stable_how.FILE_SYNC, data))
    assert isinstance(reply.value, v3.WRITE3resok)


@asynccontextmanager
async def over(
    device: DeviceInMemory, shared: VerbsProvider | None = None, service: Files | None = None, **options: Any
) -> AsyncIterator[tuple[rpcrdma.Connection, Any]]:
    """A client and its server, which share a provider."""
    provider = shared or VerbsProvider(device)
    serving = rpcrdma.ServeOptions(rdma=RdmaServerConfig(provider=provider))
    connecting = rpcrdma.ConnectOptions(provider=provider, **{"rpcrdma_version": 1, **options})
    async with (
        rpcrdma.serve([service or Files()], ["rdma://127.0.0.1:0"], options=serving) as server,
        rpcrdma.connect(server.listening[0], v3.PROGRAM, options=connecting) as client,
    ):
        await client.call(v3.NULL, None)
        yield client, server


@pytest.mark.thorough
@each_case("octets", [4096, OCTETS, 1 << 20])
async def test_calls_in_memory_of_pools_register_nothing_after_the_first_ones(octets: int) -> None:
    device = DeviceInMemory()
    async with over(device) as (client, _server):
        data = memoryview(PooledMemory(octets))
        for _ in range(32):
            # Both ends have registered all memory for receives after that.
            await client.call(v3.NULL, None)
        for number in range(20):
            await read(client, octets)
            await write(client, data)
            if number == 4:
                registered, counted = device.registered, client.statistics
        assert device.registered == registered
        told = client.statistics
        assert told.device_registrations == counted.device_registrations
        assert told.device_registrations + told.registrations_reused == told.registrations
        assert told.registrations_reused >= 0.8 * told.registrations
        assert told.remote_invalidations == told.registrations


@pytest.mark.thorough
@each_case(("entries", "copied"), [(1, True), (2, False)])
async def test_data_that_comes_by_send_stays_where_the_device_has_placed_it_unless_it_has_too_few_entries(
    entries: int, copied: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    device = DeviceInMemory()
    caplog.set_level("INFO", "rpcrdma.provider")
    device.attributes["max_entries"] = entries
    copies: list[int] = []
    wrote = ScatteredBuffer.write

    def write_noted(buffer: ScatteredBuffer, start: int, data: Buffer) -> None:
        copies.append(len(data))
        wrote(buffer, start, data)

    monkeypatch.setattr(ScatteredBuffer, "write", write_noted)
    async with over(device, rpcrdma_version=2, extension="rtr") as (client, server):
        for _ in range(15):
            await read(client)
            await write(client, memoryview(bytes(OCTETS)))
        assert client.statistics.calls_by_send == 30
        (connection,) = server.connections
        # A group of two messages may begin in the last of a slab's 32 buffers.
        assert max(client.statistics.items_joined, connection.statistics.items_joined) <= 1
        assert len(copies) == (60 if copied else 0)
    assert any("memory0 has no scatter lists" in line for line in caplog.messages) is copied


@pytest.mark.thorough
@each_case("type_2", [False, True])
async def test_without_memory_windows_remote_invalidation_is_not_offered_and_local_memory_is_kept(type_2: bool) -> None:
    device = DeviceInMemory(windows=0)
    device.attributes["type_2_windows"] = type_2
    async with over(device) as (client, server):
        assert client.negotiated is not None
        assert not client.negotiated.remote_invalidation
        for _ in range(5):
            await read(client)
        assert client.statistics.remote_invalidations == 0
        assert (client.statistics.device_registrations, client.statistics.registrations_reused) == (5, 0)
        (connection,) = server.connections
        assert connection.statistics.registrations_reused == 4


@pytest.mark.thorough
async def test_an_iwarp_device_is_not_asked_for_windows() -> None:
    device = DeviceInMemory()
    device.attributes["iwarp"] = True
    async with over(device) as (client, _server):
        assert client.negotiated is not None
        assert not client.negotiated.remote_invalidation
        await read(client)
        await write(client, memoryview(bytes(OCTETS)))


@pytest.mark.thorough
@each_case("port_of_tcp", [False, True])
async def test_a_device_that_makes_no_domain_is_told_when_the_connection_is_made(
    monkeypatch: pytest.MonkeyPatch, port_of_tcp: bool
) -> None:
    """Also where the domain is asked for earlier: of a device whose port may be TCP's."""
    monkeypatch.setattr(verbs_manager, "_is_of_tcp", lambda _local: port_of_tcp)
    device = DeviceInMemory()
    async with over(device) as (_client, server):

        def domain(_identifier: Any) -> Any:
            raise OSError(errno.ENOMEM, "Cannot allocate memory", "ibv_alloc_pd")

        monkeypatch.setattr("support.device_in_memory._Identifier.domain", domain)
        options = rpcrdma.ConnectOptions(provider=VerbsProvider(device))
        with pytest.raises(ConnectFailed, match="ibv_alloc_pd: cannot allocate memory; close other connections"):
            async with rpcrdma.connect(server.listening[0], v3.PROGRAM, options=options) as second:
                await second.call(v3.NULL, None)


@pytest.mark.thorough
async def test_a_device_without_room_for_a_connection_gets_it_from_kept_registrations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = DeviceInMemory()
    provider = VerbsProvider(device)
    async with over(device, provider) as (client, server):
        await read(client)
        (far,) = server.connections
        kept = far._driver.protection_domain._kept
        assert len(kept) == 2
        made = device_in_memory._Identifier.queue_pair

        def queue_pair(identifier: Any, *depths: Any) -> Any:
            if len(kept):
                raise OSError(errno.ENOMEM, "Cannot allocate memory", "rdma_create_qp")
            return made(identifier, *depths)

        monkeypatch.setattr(device_in_memory._Identifier, "queue_pair", queue_pair)
        options = rpcrdma.ConnectOptions(provider=provider)
        async with rpcrdma.connect(server.listening[0], v3.PROGRAM, options=options) as second:
            await second.call(v3.NULL, None)


async def test_bulk_data_of_each_kind_lies_in_memory_that_begins_with_a_page_and_stays_registered() -> None:
    fetched: list[memoryview] = []

    async def fetch(_offset: int, buffer: memoryview) -> tuple[int, bool]:
        fetched.append(buffer)
        return len(buffer), False

    async def unasked(_end: int) -> int:
        raise AssertionError

    ahead = ReadAhead(fetch, unasked, asyncio.ensure_future, block=100, blocks=2, size=1000)
    await ahead.at(0, 10, 0)
    fetched.append(await BufferRing(100, 1).acquire())
    nothing: Any = None
    behind = WriteBehind(nothing, nothing, asyncio.ensure_future, block=100, blocks=2, octets_max=1000)
    fetched.append(await behind._buffer())
    # Results and the sinks of RDMA Reads, from the pool and beyond it; those of an endpoint without a pool.
    share = BufferPool(pool_octets_max=OCTETS).share("a")
    fetched += [*filter(None, (share.acquire(OCTETS), share.acquire(5000))), PlainBuffers().acquire(OCTETS)]
    # Results at the client, Sends of the larger size, records and their first part.
    fetched += [ResultMemory().take(OCTETS), ReceivePool(36864).take()]
    record = RecordReceiver()
    fetched += record.next_buffers()
    fetched[-1][:4] = OCTETS.to_bytes(4, "big")
    record.bytes_received(4)
    fetched += record.next_buffers()
    left, right = socket.socketpair()
    with left, right:
        fetched.append(TlsSocket(left, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)).buffer)
    places = [ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in fetched]
    assert [place % PAGESIZE for place in places] == [0] * len(places)
    assert {type(each.obj) for each in fetched} == {PooledMemory}


@pytest.mark.thorough
async def test_memory_of_calls_is_free_again_when_the_device_is_unplugged(monkeypatch: pytest.MonkeyPatch) -> None:
    device = DeviceInMemory(windows=0)
    # The sink of its Reads is registered for the call alone.
    device.attributes["iwarp"] = True
    take = device_in_memory._QueuePair._take

    def unplugged_meanwhile(pair: Any, opcode: int, *rest: Any) -> int:
        if opcode != device.RDMA_READ:
            return take(pair, opcode, *rest)
        device.remove(hardware=True)
        return WorkStatus.FLUSHED

    monkeypatch.setattr(device_in_memory._QueuePair, "_take", unplugged_meanwhile)
    async with over(device, reconnect=False) as (client, server):
        data = bytearray(OCTETS)
        writing = write(client, memoryview(data))
        with pytest.raises(TransportClosed, match=r"memory0 was removed|no RDMA device"):
            await writing
        assert server.statistics().buffer_octets_lent == 0
        assert not device.in_use


@pytest.mark.thorough
@each_case(("call", "target", "verb", "windows"), ATTACKS)
async def test_a_late_access_breaks_the_connection_and_changes_nothing(
    call: Any, target: str, verb: str, windows: bool
) -> None:
    device = DeviceInMemory(windows=1000 if windows else 0)
    await late_access(VerbsProvider(device), "127.0.0.1", call, target, verb, windows=windows)
