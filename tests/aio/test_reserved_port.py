"""Connections from ports below 1024, as servers demand that take them for a sign of privilege."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers import sockets
from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import Url
from rpcrdma.errors import ConnectFailed, NotPermitted
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.client.mount_client import mount_export
from rpcrdma.rpc.service import CallContext

pytestmark = pytest.mark.thorough

FROM_RESERVED_PORT = ConnectOptions(reserved_port=True)


def may_reserve() -> bool:
    with socket.socket() as sock:
        try:
            sock.bind(("127.0.0.1", 1023))
        except PermissionError:
            return False
        except OSError:
            return True
    return True


privileged = pytest.mark.skipif(not may_reserve(), reason="ports below 1024 need root or CAP_NET_BIND_SERVICE")


class Nothing(v3.NFS_V3_Service):
    """NULL alone."""


class Mountd(mount.MOUNT_V3_Service):
    """Takes any path."""

    def export(self, args: None, context: CallContext) -> list[mount.exportnode]:
        return []

    def mnt(self, args: str, context: CallContext) -> mount.mountres3:
        return mount.mountres3(mount.mountstat3.MNT3_OK, mount.mountres3_ok(b"root", [1]))


def bindings(monkeypatch: pytest.MonkeyPatch, outcome: Callable[[int], OSError | None]) -> list[int]:
    """The tried ports; `outcome` is the result of each."""
    tried: list[int] = []
    bind = socket.socket.bind

    def scripted(sock: socket.socket, address: Any) -> None:
        tried.append(address[1])
        error = outcome(address[1])
        if error is not None:
            raise error
        bind(sock, (address[0], 0))

    monkeypatch.setattr(socket.socket, "bind", scripted)
    return tried


def in_use(port: int) -> OSError:
    return OSError(errno.EADDRINUSE, "Address already in use")


def denied(port: int) -> OSError:
    return PermissionError(errno.EACCES, "Permission denied")


def run_against_listener(work: Callable[[int], Any]) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            await work(listener.getsockname()[1])

    asyncio.run(main())


@privileged
@pytest.mark.providers("iwarp")
async def test_a_client_connects_from_a_reserved_port(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[int] = []
    take = sockets.take_reserved_port

    def noted(bind: Callable[[int], None], where: str) -> None:
        def bind_noted(port: int) -> None:
            bind(port)
            ports.append(port)

        take(bind_noted, where)

    monkeypatch.setattr(sockets, "take_reserved_port", noted)

    async with (
        serve([Nothing()], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], v3.PROGRAM, options=FROM_RESERVED_PORT) as client,
    ):
        await client.call(v3.NULL, None)
    (port,) = ports
    assert 665 <= port < 1024


@privileged
async def test_mounting_comes_from_a_reserved_port() -> None:
    seen: list[int] = []
    async with serve([Mountd()], ["tcp://127.0.0.1:0"]) as server:
        port = int(server.listening[0].rpartition(":")[2])
        take = sockets.take_reserved_port

        def noted(bind: Callable[[int], None], where: str) -> None:
            def bind_noted(port: int) -> None:
                bind(port)
                seen.append(port)

            take(bind_noted, where)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sockets, "take_reserved_port", noted)
            url = Url(scheme="rdma", host="127.0.0.1", port=1, path="/x")
            await mount_export(url, ConnectOptions(), mount_port=port)
            assert seen == []
            mounted = await mount_export(url, FROM_RESERVED_PORT, mount_port=port)
    assert mounted.handle == b"root"
    assert len(seen) == 1


def test_ports_in_use_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(port: int) -> None:
        tried = bindings(monkeypatch, lambda number: in_use(number) if number != 700 else None)
        sock = await sockets.connected_socket("127.0.0.1", port, reserved_port=True)
        sock.close()
        assert tried[-1] == 700
        assert len(set(tried)) == len(tried)
        assert all(665 <= number < 1024 for number in tried)

    run_against_listener(work)


def test_without_permission_the_error_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(port: int) -> None:
        tried = bindings(monkeypatch, denied)
        with pytest.raises(NotPermitted, match=r"below 1024: permission denied; that needs root or CAP_NET_BIND_SERVI"):
            await TcpConnection.connect("127.0.0.1", port, reserved_port=True)
        assert len(tried) == 1
        # And it is not taken for a server without MOUNT.
        url = Url(scheme="rdma", host="127.0.0.1", port=1, path="/x")
        with pytest.raises(NotPermitted):
            await mount_export(url, FROM_RESERVED_PORT, mount_port=port)

    run_against_listener(work)


def test_when_all_are_in_use_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(port: int) -> None:
        tried = bindings(monkeypatch, in_use)
        with pytest.raises(ConnectFailed, match="all from 665 to 1023 are in use; wait"):
            await sockets.connected_socket("127.0.0.1", port, reserved_port=True)
        assert sorted(tried) == list(range(665, 1024))

    run_against_listener(work)
