"""Options take a provider as an object: its connections differ in nothing else."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.connections import tcp_connection
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers import software_rnic
from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.drivers.loopback_provider import LoopbackProvider
from rpcrdma.aio.drivers.provider import ProviderChoice
from rpcrdma.aio.drivers.sockets import connected_socket
from rpcrdma.aio.drivers.software_rnic import SoftwareRnic
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.errors import ConnectFailed, LocalProtocolError
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from support.cases import each_case


class Files(v3.NFS_V3_Service):
    """GETATTR notes who asks."""

    def __init__(self) -> None:
        self.peers: list[str] = []

    def getattr(self, args: v3.GETATTR3args, context: CallContext) -> v3.GETATTR3res:
        self.peers.append(context.peer)
        return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_IO, None)


GETATTR: Any = (v3.GETATTR, v3.GETATTR3args(v3.nfs_fh3(b"handle")))


def serving(provider: ProviderChoice, *urls: str, files: Files | None = None, **settings: Any) -> Any:
    options = ServeOptions(rdma=RdmaServerConfig(provider=provider, **settings), drain_s=1.0)
    return serve([files or Files()], urls or ["rdma://127.0.0.1:0"], options=options)


def connecting(url: str, provider: ProviderChoice, **settings: Any) -> Any:
    return connect(url, options=ConnectOptions(provider=provider, **settings))


def agreed(client: Connection) -> tuple[str, bool, int, int]:
    """Behaviour that depends on the provider."""
    found = client.negotiated
    assert found is not None
    return found.provider, found.crc, found.inbound_reads, found.outbound_reads


async def test_a_program_brings_its_own_provider() -> None:
    loopback = LoopbackProvider()
    async with serving(loopback) as server, connecting(server.listening[0], loopback) as client:
        await client.call(v3.NULL, None)
        assert agreed(client) == ("loopback", False, 32, 32)
        (there,) = server.connections
        assert there.peer[0] == "127.0.0.1"
        assert there.negotiated.provider == "loopback"


@pytest.mark.thorough
@each_case("choice", ["auto", "iwarp", SoftwareRnic()])
async def test_the_software_rnic_goes_by_either_name_and_as_an_object(choice: ProviderChoice) -> None:
    rnic = SoftwareRnic(IwarpConfig(inbound_reads=3, outbound_reads=5))
    async with serving(rnic) as server, connecting(server.listening[0], choice) as client:
        await client.call(v3.NULL, None)
        assert agreed(client) == ("iwarp", True, 5, 3)


async def test_limits_of_a_client_go_by_the_address_that_its_link_has() -> None:
    """Of three connections one has to go: of the client that has two."""

    loopback, files = LoopbackProvider(), Files()
    urls = ("rdma://many:1", "rdma://one:1")
    async with serving(loopback, *urls, files=files, connections_max=2) as server:
        clients = []
        for url in (urls[0], urls[0], urls[1]):
            clients.append(await connecting(url, loopback, reconnect=False))
            await clients[-1].call(*GETATTR)
        assert files.peers == ["many", "many", "one"]
        assert sorted(connection.peer[0] for connection in server.connections) == ["many", "one"]
        for client in clients:
            await client.close()


async def test_who_finds_no_place_is_told_so_in_the_providers_words() -> None:
    loopback = LoopbackProvider()
    async with serving(loopback, connections_max=0) as server:
        with pytest.raises(
            ConnectFailed, match=r"^127\.0\.0\.1:\d+ sets up no RDMA connection \(.*\); check the limits"
        ):
            await connecting(server.listening[0], loopback)
        assert server.statistics().rdma.connections_refused == 1


async def test_a_server_that_stops_while_a_link_is_opened_turns_it_away() -> None:
    loopback = LoopbackProvider()
    async with serving(loopback) as server:
        connection = asyncio.ensure_future(connecting(server.listening[0], loopback)._open())
        await asyncio.sleep(0)
        await server.close(0)
        with pytest.raises(ConnectFailed, match="sets up no RDMA connection"):
            await connection


async def over_the_software_rnic(host: str, port: int) -> object:
    return await connecting(f"rdma://{host}:{port}", SoftwareRnic())._open()


@each_case("connect_to", [over_the_software_rnic, TcpConnection.connect])
async def test_a_peer_that_leaves_before_its_address_is_known_is_one_that_cannot_be_reached(
    connect_to: Callable[[str, int], Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel has no address of a peer that has reset the connection."""
    near, far = socket.socketpair()

    async def connected(*_where: object, **_how: object) -> socket.socket:
        return near

    def address(_sock: socket.socket) -> NoReturn:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    for module in (software_rnic, tcp_connection):
        monkeypatch.setattr(module, "connected_socket", connected)
    monkeypatch.setattr(socket.socket, "getpeername", address)
    with far, pytest.raises(ConnectFailed, match=r"(?i)transport endpoint is not connected"):
        await connect_to("192.0.2.1", 20049)
    assert near.fileno() == -1


async def test_without_a_free_descriptor_the_error_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_kind: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socket", exhausted)
    with pytest.raises(ConnectFailed, match=r"too many open files; raise the limit of open files \(ulimit -n\)"):
        await connected_socket("127.0.0.1", 20049)


def test_the_loopback_joins_what_runs_in_one_event_loop() -> None:
    loopback = LoopbackProvider()
    ready, done = threading.Event(), threading.Event()
    urls: list[str] = []

    async def server() -> None:
        async with serving(loopback) as it:
            urls.extend(it.listening)
            ready.set()
            await asyncio.to_thread(done.wait)

    async def client() -> None:
        with pytest.raises(ConnectFailed, match="another event loop; run both in one"):
            await connecting(urls[0], loopback)

    thread = threading.Thread(target=lambda: asyncio.run(server()))
    thread.start()
    try:
        assert ready.wait(60), "the server did not start"
        asyncio.run(client())
    finally:
        done.set()
        thread.join()


async def test_a_port_below_1024_is_to_be_had_from_any_provider() -> None:
    loopback = LoopbackProvider()
    async with (
        serving(loopback) as server,
        connecting(server.listening[0], loopback, reserved_port=True) as first,
        connecting(server.listening[0], loopback, reserved_port=True) as second,
    ):
        for client in (first, second):
            await client.call(v3.NULL, None)
        ports = {connection.peer[1] for connection in server.connections}
        assert len(ports) == 2
        assert max(ports) < 1024


async def test_only_the_software_rnics_packets_can_be_captured(tmp_path: Path) -> None:
    capture = PacketCapture(tmp_path / "packets")
    for failing in (
        connecting("rdma://127.0.0.1:1", LoopbackProvider(), capture=capture),
        serving(LoopbackProvider(), capture=capture),
    ):
        with pytest.raises(LocalProtocolError, match=r"only the software RNIC's packets.*'loopback'"):
            await failing
    capture.close()
