"""Scenes on real sockets for tests whose other side is made of octets.

Each ends the same way: another connection works, nothing was logged as an error, nothing escaped into the event
loop, and of the hostile connections nothing is left: no connection, no registered memory, no lent buffer, no task.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from clock_ahead import set_clock_ahead
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.drivers import iwarp_driver, software_rnic
from rpcrdma.aio.server import serve as serving
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.service import CallContext, Service, in_worker
from rpcrdma.verbs import SoftwareProtectionDomain
from support.raw_calls import BOTH_PRIVATE, HANDLE
from support.raw_socket import RawSocketPeer
from support.simulated import run_in_virtual_time
from support.waiting import until

MIB = 1 << 20
CONTENT = bytes(range(256)) * (MIB // 256)
NONE = v3.post_op_attr(False, None)
NO_WCC = v3.wcc_data(v3.pre_op_attr(False, None), NONE)


class Files(v3.NFS_V3_Service):
    """READ gives known octets at once, or in a worker thread that `gate` holds up; WRITE stores its data."""

    # As the NFS server has it: these calls, which all have one XID here, are run however often they come.
    IDEMPOTENT = frozenset(procedure.number for procedure in (v3.ACCESS, v3.READ, v3.READDIR, v3.READLINK))

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.accessed = 0
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        count = min(args.count, MIB)
        data = context.buffer(count)
        data[:] = CONTENT[:count]
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NONE, count, False, data))

    @in_worker
    def readlink(self, args: v3.READLINK3args, context: CallContext) -> v3.READLINK3res:
        data = context.buffer(5000)
        data[:] = b"a" * 5000
        self.entered.release()
        self.gate.wait()
        assert data == b"a" * 5000, "memory was lent twice"
        return v3.READLINK3res(v3.nfsstat3.NFS3_OK, v3.READLINK3resok(NONE, bytes(data[:900]).decode()))

    def access(self, args: v3.ACCESS3args, context: CallContext) -> v3.ACCESS3res:
        self.accessed += 1
        with context.buffer(5000) as scratch:
            scratch[:] = bytes(5000)
        return v3.ACCESS3res(v3.nfsstat3.NFS3_OK, v3.ACCESS3resok(NONE, args.access))

    @in_worker
    def readdir(self, args: v3.READDIR3args, context: CallContext) -> v3.READDIR3res:
        context.buffer(MIB)
        return v3.READDIR3res(v3.nfsstat3.NFS3ERR_NOTSUPP, v3.READDIR3resfail(NONE))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        self.written.append(bytes(args.data))
        result = v3.WRITE3resok(NO_WCC, len(args.data), v3.stable_how.FILE_SYNC, b"verifier")
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, result)


class Scene:
    """What the octets of a hostile peer could leave behind, to be looked at afterwards."""

    good: Connection

    def __init__(self) -> None:
        self.domains: list[SoftwareProtectionDomain] = []
        self.pools: list[BufferPool] = []
        self.escaped: list[dict[str, Any]] = []
        self.peers: list[RawSocketPeer] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.escaped.append(context))
        domains, pools = self.domains, self.pools

        class WatchedDomain(SoftwareProtectionDomain):
            __slots__ = ()

            def __init__(self, random_bits: Callable[[int], int]) -> None:
                super().__init__(random_bits)
                domains.append(self)

        class WatchedPool(BufferPool):
            __slots__ = ()

            def __init__(self, **sizes: int) -> None:
                super().__init__(**sizes)
                pools.append(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(software_rnic, "SoftwareProtectionDomain", WatchedDomain)
            patch.setattr(serving, "BufferPool", WatchedPool)
            # As if the time for the end of the peer's stream were over at once: many of these peers leave it open.
            patch.setattr(iwarp_driver, "_LINGER_S", 0.0)
            yield

    async def assert_nothing_is_left(self) -> None:
        assert [len(domain.regions) for domain in self.domains] == [0] * len(self.domains)
        await until(lambda: len(asyncio.all_tasks()) == 1)
        gc.collect()
        await asyncio.sleep(0)
        assert self.escaped == []


class ServerScene(Scene):
    """A server, and a client that behaves."""

    server: Server

    def __init__(self) -> None:
        super().__init__()
        self.files = Files()

    @property
    def lent_octets(self) -> int:
        """Memory of all servers that calls hold, for results and for arguments."""
        return sum(pool.lent_octets for pool in self.pools)

    async def peer(self, server: Server | None = None, **options: Any) -> RawSocketPeer:
        """A TCP connection to the server on which nothing has been said."""
        url = parse_url((server or self.server).listening[0])
        peer = await RawSocketPeer.connected(url.host, url.port, **options)
        self.peers.append(peer)
        return peer

    async def connected(self, *, private_data: bytes = b"", **options: Any) -> RawSocketPeer:
        """A peer past the start-up."""
        peer = await self.peer(**options)
        await peer.start(private_data)
        return peer

    async def still_good(self) -> None:
        """The other connection is served."""
        reply = await self.good.call(v3.READ, v3.READ3args(v3.nfs_fh3(HANDLE), 0, 5000))
        assert isinstance(reply.value, v3.READ3resok)
        assert bytes(reply.value.data) == CONTENT[:5000]

    async def alone(self) -> None:
        """Waits until the server has no connection but the good one."""
        await until(lambda: len(self.server.connections) == 1)

    async def alone_in_time(self, period_s: float) -> None:
        """Likewise; periods pass in which peers may have met their obligations until then."""
        periods = 0
        while len(self.server.connections) > 1:
            assert periods < 20, "none of them has met its obligations since"
            periods += 1
            set_clock_ahead(period_s)
            for _ in range(10):
                await asyncio.sleep(0)


@asynccontextmanager
async def server_scene(*services: Service, **settings: Any) -> AsyncIterator[ServerScene]:
    it = ServerScene()
    options = ServeOptions(rdma=RdmaServerConfig(**settings), drain_s=60)
    with it.watched():
        async with (
            serve([*services, it.files][:1], ["rdma://127.0.0.1:0"], options=options) as it.server,
            connect(it.server.listening[0]) as it.good,
        ):
            await it.good.call(v3.NULL, None)
            try:
                yield it
                if not services:
                    await it.still_good()
                await it.good.call(v3.NULL, None)
            finally:
                it.files.gate.set()
                for peer in it.peers:
                    peer.close()
            await it.alone()
            await until(lambda: not it.lent_octets)
        assert not it.server.connections
    await it.assert_nothing_is_left()


class Empty(v3.NFS_V3_Service):
    """NULL alone."""


class ClientScene(Scene):
    """A place where a hostile server listens, and a connection to one that behaves.

    Clients speak `rpcrdma_version`, so that scripted servers know which messages come.
    """

    rpcrdma_version = "1"

    def __init__(self, listener: socket.socket) -> None:
        super().__init__()
        self.listener = listener
        self.url = f"rdma://127.0.0.1:{listener.getsockname()[1]}"
        self.clients: list[Connection] = []

    def connecting(self, **options: Any) -> asyncio.Task[Connection]:
        async def run() -> Connection:
            # Scripted servers receive the messages of calls, at any time of their answers.
            quiet = IwarpConfig(nudge_after_s=0)
            settings: dict[str, Any] = {"credential": AuthNone(), "reconnect": False, "iwarp": quiet}
            settings |= {"rpcrdma_version": self.rpcrdma_version, **options}
            return await connect(self.url, options=ConnectOptions(**settings))

        return asyncio.create_task(run())

    async def accepted(self) -> RawSocketPeer:
        """The hostile end of a TCP connection on which nothing has been answered."""
        sock, _ = await asyncio.get_running_loop().sock_accept(self.listener)
        self.peers.append(RawSocketPeer(sock))
        return self.peers[-1]

    async def pair(self, **options: Any) -> tuple[Connection, RawSocketPeer]:
        """A client and the server that it is connected with."""
        connecting = self.connecting(**options)
        peer = await self.accepted()
        await peer.accept(BOTH_PRIVATE)
        self.clients.append(await connecting)
        return self.clients[-1], peer


@asynccontextmanager
async def client_scene() -> AsyncIterator[ClientScene]:
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listener:
        listener.setblocking(False)
        it = ClientScene(listener)
        with it.watched():
            async with serve([Empty()], ["rdma://127.0.0.1:0"]) as server, connect(server.listening[0]) as it.good:
                await it.good.call(v3.NULL, None)
                try:
                    yield it
                    await it.good.call(v3.NULL, None)
                    await asyncio.gather(*(client.close() for client in it.clients))
                finally:
                    for peer in it.peers:
                        peer.close()
        await it.assert_nothing_is_left()


def assert_quiet(caplog: pytest.LogCaptureFixture) -> None:
    # The records of a fixture's own phase are others.
    bad = [record for record in caplog.get_records("call") if record.exc_info or record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in bad] == []


@pytest.fixture
def scene(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., Any]]:
    """`async with scene() as it`: a server, with a client that behaves, for hostile clients."""
    caplog.set_level(logging.DEBUG)
    yield server_scene
    assert_quiet(caplog)


@pytest.fixture(name="client_scene")
def client_scene_fixture(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., Any]]:
    """`async with client_scene() as it`: a place where a hostile server listens, and a server that behaves."""
    caplog.set_level(logging.DEBUG)
    yield client_scene
    assert_quiet(caplog)


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs in virtual time, without sockets."""
    monkeypatch.setattr(asyncio, "run", run_in_virtual_time)
