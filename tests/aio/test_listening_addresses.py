"""The addresses at which a server answers, and their names."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Any

import pytest

import local_tcp
from local_tcp import without_network
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.listener import Listener
from rpcrdma.aio.drivers.provider import Listening
from rpcrdma.aio.drivers.sockets import connected_socket
from rpcrdma.aio.host_options import HostAuthentication
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import AuthError, ConnectFailed, LocalProtocolError, TransportClosed
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from support.cases import each_case
from support.host_pair import Hosts
from support.simulated import Simulated
from support.waiting import time_passes, until

SIMULATED = Simulated()


class _Nothing(v3.NFS_V3_Service):
    """Answers NULL, as every program does, and nothing else."""


class _Endless(v3.NFS_V3_Service):
    """Never answers GETATTR."""

    async def getattr(self, args: v3.GETATTR3args, context: CallContext) -> v3.GETATTR3res:
        return await asyncio.Future()


def free_port() -> int:
    with socket.socket(socket.AF_INET6) as sock:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", 0))
        return int(sock.getsockname()[1])


async def answers(url: str) -> bool:
    try:
        async with connect(url, v3.PROGRAM) as connection:
            await connection.call(v3.NULL, None)
    except ConnectFailed:
        return False
    return True


@pytest.mark.thorough
@pytest.mark.providers("iwarp")
async def test_every_ipv6_address_means_every_ipv4_address_as_well(scheme: str) -> None:
    async with serve([_Nothing()], [f"{scheme}://[::]:0"]) as server:
        (url,) = server.listening
        port = parse_url(url).port
        assert url == f"{scheme}://[::]:{port}"
        assert await answers(f"{scheme}://[::1]:{port}")
        assert await answers(f"{scheme}://127.0.0.1:{port}")


@pytest.mark.thorough
async def test_a_listener_may_be_closed_by_a_connection_and_listen_again(caplog: pytest.LogCaptureFixture) -> None:
    accepted: list[socket.socket] = []

    def on_connection(sock: socket.socket) -> None:
        accepted.append(sock)
        listener.close()

    listener = Listener(on_connection, LimitedLog(logging.getLogger("rpcrdma")))
    ((_, port, _),) = await listener.listen("::", 0)
    assert [where.port for where in await listener.listen("127.0.0.1", port)] == [port]
    assert len(listener.addresses) == 1
    with await connected_socket("127.0.0.1", port):
        await until(lambda: accepted)
        with accepted.pop():
            assert listener.addresses == []
            await listener.listen("127.0.0.1", port)
            assert listener.addresses == [("127.0.0.1", port)]
    listener.close()
    assert caplog.text == ""


@pytest.mark.thorough
async def test_one_ipv6_address_means_itself() -> None:
    async with serve([_Nothing()], ["tcp://[::1]:0"]) as server:
        port = parse_url(server.listening[0]).port
        assert await answers(f"tcp://[::1]:{port}")
        assert not await answers(f"tcp://127.0.0.1:{port}")


@pytest.mark.thorough
@each_case("order", [("0.0.0.0", "[::]"), ("[::]", "0.0.0.0")])
async def test_both_families_may_be_named_and_each_be_left(order: tuple[str, str]) -> None:
    port = free_port()
    urls = [f"tcp://{host}:{port}" for host in order]
    async with serve([_Nothing()], urls) as server:
        assert server.listening == urls
        assert await answers(f"tcp://[::1]:{port}")
        assert await answers(f"tcp://127.0.0.1:{port}")
        server.stop_listening(f"tcp://[::]:{port}")
        assert not await answers(f"tcp://[::1]:{port}")
        assert await answers(f"tcp://127.0.0.1:{port}")
        server.stop_listening(f"tcp://0.0.0.0:{port}")
        assert not await answers(f"tcp://127.0.0.1:{port}")


@pytest.mark.thorough
async def test_an_address_of_ipv4_among_all_of_them_stays_whichever_of_the_wider_ones_are_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    both, wide, one = (f"tcp://{host}:{port}" for host in ("[::]", "0.0.0.0", "127.0.0.1"))
    async with serve([_Nothing()], [both, wide, one]) as server:
        server.stop_listening(both)
        assert [await answers(f"tcp://{host}:{port}") for host in ("[::1]", "127.0.0.1", "127.0.0.2")] == [
            False, True, True
        ]  # fmt: skip
        await server.listen(f"tcp://127.0.0.2:{port}")
        server.stop_listening(wide, f"tcp://127.0.0.2:{port}")
        assert [await answers(f"tcp://127.0.0.{number}:{port}") for number in (1, 2)] == [True, False]
        server.stop_listening(one)
        assert not await answers(one)
    assert caplog.text == ""


@pytest.mark.thorough
async def test_tcp_is_there_for_contexts_before_rdma_and_the_order_of_the_urls_is_kept() -> None:
    urls = ["rdma://127.0.0.1:0?provider=iwarp", "tcp://127.0.0.1:0"]
    async with serve([_Nothing()], urls) as server:
        assert [parse_url(url).scheme for url in server.listening] == ["rdma", "tcp"]
        taken, earlier = server.listening[0], list(server.listening)
        with pytest.raises(ConnectFailed):
            await server.listen(f"{taken}?provider=iwarp", "tcp://127.0.0.1:0")
        assert server.listening[:2] == earlier
        assert [parse_url(url).scheme for url in server.listening[2:]] == ["tcp"]
        await server.listen("tcp://127.0.0.1:0", "tcp://127.0.0.1:0")
        assert len(set(server.listening)) == 5
        server.stop_listening("tcp://127.0.0.1:0")
        assert server.listening == [taken]


@pytest.mark.thorough
@pytest.mark.providers("iwarp")
async def test_an_address_is_left_and_its_connections_stay(scheme: str) -> None:
    ports = free_port(), free_port()
    urls = [f"{scheme}://127.0.0.1:{port}" for port in ports]
    async with serve([_Nothing()], urls) as server, connect(urls[0], v3.PROGRAM) as connection:
        server.stop_listening(urls[0], "tcp://127.0.0.1:1")
        assert (server.listening, list(server.providers)) == (urls[1:], urls[1:])
        await connection.call(v3.NULL, None)
        assert [await answers(url) for url in urls] == [False, True]
        await server.listen(urls[0])
        assert sorted(server.listening) == sorted(urls)
        assert await answers(urls[0])


@pytest.mark.thorough
@pytest.mark.providers("iwarp")
async def test_limits_of_a_running_server_change(scheme: str) -> None:
    limits: dict[str, Any]
    options = ServeOptions(rdma=RdmaServerConfig(connections_max=4), tcp=TcpServerConfig(connections_max=4))
    async with serve([_Nothing()], [f"{scheme}://127.0.0.1:0"], options=options) as server:
        (url,) = server.listening
        async with connect(url, v3.PROGRAM) as connection:
            await connection.call(v3.NULL, None)
            limits = {"connections_max": 1, "connections_per_host": 1, "memory_octets_max": 64 << 20}
            server.set_limits(**limits, rdma_idle_s=3600, tcp_idle_s=3600, calls_per_host=None)
            assert server.statistics().buffer_octets_max == 2 * 64 << 20
            # An idle connection makes room for the next one.
            assert await answers(url)
            assert server.statistics().rdma.connections + server.statistics().tcp.connections <= 1
            server.set_limits(**limits, rdma_idle_s=0.05, tcp_idle_s=0.05, calls_per_host=None)
            # Real time passes until the connection is idle; on a slow machine that is during its start-up.
            with contextlib.suppress(ConnectFailed):
                async with connect(url, v3.PROGRAM):
                    statistics = server.statistics
                    await until(lambda: statistics().rdma.connections + statistics().tcp.connections == 0)


@pytest.mark.usefixtures("virtual_time")
async def test_an_idle_connection_stays_without_a_limit_and_a_server_that_has_stopped_looks_for_none() -> None:
    there, here = RdmaServerConfig(idle_s=0, provider=SIMULATED), ConnectOptions(provider=SIMULATED, keepalive_s=None)
    async with serve([_Nothing()], ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=there)) as server:
        async with connect(server.listening[0], v3.PROGRAM, options=here) as connection:
            await connection.call(v3.NULL, None)
            await time_passes(7200)
            await connection.call(v3.NULL, None)
        assert server.statistics().rdma.connections_made == 1
    limits: dict[str, Any] = {"connections_max": 4, "connections_per_host": 4, "memory_octets_max": 64 << 20}
    server.set_limits(**limits, rdma_idle_s=60, tcp_idle_s=60, calls_per_host=None)
    assert server._rdma._sweep_timer is None


@without_network
async def test_the_least_protection_changes_for_the_next_call_of_each_connection(hosts: Hosts) -> None:
    ours = HostAuthentication(certificate=hosts.server, authorities=hosts.authority.path)
    options = ServeOptions(tcp=TcpServerConfig(host_authentication=ours))
    trusting = HostAuthentication(authorities=hosts.authority.path, names=["server.example"])
    async with (
        serve([_Nothing()], ["tcp://127.0.0.1:0"], options=options) as server,
        connect(server.listening[0], v3.PROGRAM) as clear,
    ):
        with pytest.raises(ValueError, match="xprtsec is 'TLS'"):
            server.require("TLS")  # type: ignore[arg-type]
        await clear.call(v3.NULL, None)
        server.require("tls")
        with pytest.raises(AuthError):
            await clear.call(v3.GETATTR, v3.GETATTR3args(v3.nfs_fh3(b"handle")))
        with pytest.raises(LocalProtocolError, match="RPC over RDMA has no TLS"):
            await server.listen("rdma://127.0.0.1:0")
        server.listening.append("rdma://127.0.0.1:1")
        with pytest.raises(LocalProtocolError, match="RPC over RDMA has no TLS"):
            server.require("mtls")
        server.listening.pop()
        secure = ConnectOptions(xprtsec="tls", host_authentication=trusting)
        async with connect(server.listening[0], v3.PROGRAM, options=secure) as secured:
            await secured.call(v3.NULL, None)
            server.require("none")
            await secured.call(v3.NULL, None)
        await clear.call(v3.NULL, None)


@without_network
async def test_a_server_without_a_certificate_cannot_ask_for_tls() -> None:
    async with serve([_Nothing()], ["tcp://127.0.0.1:0"]) as server, connect(server.listening[0], v3.PROGRAM) as client:
        with pytest.raises(LocalProtocolError, match="without a certificate has no TLS to ask for: name it by"):
            server.require("tls")
        with pytest.raises(ValueError, match="xprtsec is 'nonsense'"):
            server.require("nonsense")  # type: ignore[arg-type]
        server.require("none")
        await client.call(v3.NULL, None)
        assert server._options.tcp.xprtsec == "none"


@each_case("again_after", [None, 1, 2, 3])
@without_network
async def test_a_start_that_is_cancelled_in_any_turn_of_the_loop_leaves_no_listener(again_after: int | None) -> None:
    listen = Listener.listen

    async def in_a_later_turn(self: Listener, host: str, port: int) -> list[Listening]:
        await asyncio.sleep(0)
        return await listen(self, host, port)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Listener, "listen", in_a_later_turn)
        turns, cancelled = 0, True
        while cancelled:
            starting = asyncio.ensure_future(serve([_Nothing()], ["tcp://127.0.0.1:0", "rdma://127.0.0.1:0"])._open())
            for _ in range(turns):
                await asyncio.sleep(0)
            cancelled = starting.cancel()
            if again_after is not None:
                for _ in range(again_after):
                    await asyncio.sleep(0)
                starting.cancel()
            if not cancelled:
                await (await starting).close()
            await asyncio.wait([starting])
            assert not local_tcp._LISTENING, f"cancelled after {turns} turns"
            turns += 1
    assert turns > 2


@without_network
async def test_a_stop_that_is_cancelled_while_calls_run_ends_the_connections() -> None:
    async with serve([_Endless()], ["tcp://127.0.0.1:0", "rdma://127.0.0.1:0"]) as server:
        once = ConnectOptions(reconnect=False)
        async with (
            connect(server.listening[0], v3.PROGRAM, options=once) as first,
            connect(server.listening[1], v3.PROGRAM, options=once) as second,
        ):
            calls = [
                asyncio.ensure_future(each.call(v3.GETATTR, v3.GETATTR3args(v3.nfs_fh3(b"handle"))))
                for each in (first, second)
            ]
            await until(lambda: server.statistics().calls_running == 2)
            closing = asyncio.ensure_future(server.close(1000))
            await asyncio.sleep(0)
            closing.cancel()
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(end) for end in ends] == [TransportClosed] * 2
            await until(lambda: server.statistics().rdma.connections + server.statistics().tcp.connections == 0)
            assert server.statistics().calls_running == 0


@without_network
async def test_calls_of_listen_and_stop_listening_may_overlap() -> None:
    urls = ["tcp://127.0.0.1:0", "TCP://127.0.0.1:0", "rdma://127.0.0.1:0"]
    listen = Listener.listen

    async def in_a_later_turn(self: Listener, host: str, port: int) -> list[Listening]:
        await asyncio.sleep(0)
        return await listen(self, host, port)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Listener, "listen", in_a_later_turn)
        async with serve([_Nothing()], []) as server:
            await asyncio.gather(*map(server.listen, urls))
            assert sorted(parse_url(url).scheme for url in server.listening) == ["rdma", "tcp", "tcp"]
            server.stop_listening(*urls)
            listening = asyncio.ensure_future(server.listen(*urls))
            await until(lambda: bool(server.listening))
            server.stop_listening(urls[0])
            await listening
            assert [parse_url(url).scheme for url in server.listening] == ["tcp", "rdma"]


@pytest.mark.thorough
@each_case("scheme", ["tcp", "rdma"])
async def test_what_can_be_no_name_of_a_host_is_refused_in_words(scheme: str) -> None:
    with pytest.raises(ConnectFailed, match=r"cannot listen at .*//my\.\.host:\d+: not a host name; choose"):
        await serve([_Nothing()], [f"{scheme}://my..host"])


async def test_where_mount_listens_is_not_for_a_server_to_be_told() -> None:
    with pytest.raises(LocalProtocolError, match="mountport is for clients"):
        await serve([_Nothing()], ["tcp://127.0.0.1:0?mountport=5"])
