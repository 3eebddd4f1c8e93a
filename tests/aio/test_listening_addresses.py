"""The addresses at which a server answers, and their names."""

from __future__ import annotations

import socket

import pytest

from rpcrdma.aio.client.connect import connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import ConnectFailed, LocalProtocolError
from rpcrdma.nfs import v3
from support.cases import each_case


class _Nothing(v3.NFS_V3_Service):
    """Answers NULL, as every program does, and nothing else."""


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
async def test_one_ipv6_address_means_itself() -> None:
    async with serve([_Nothing()], ["tcp://[::1]:0"]) as server:
        port = parse_url(server.listening[0]).port
        assert await answers(f"tcp://[::1]:{port}")
        assert not await answers(f"tcp://127.0.0.1:{port}")


@pytest.mark.thorough
@each_case("order", [("0.0.0.0", "[::]"), ("[::]", "0.0.0.0")])
async def test_both_families_may_be_named(order: tuple[str, str]) -> None:
    port = free_port()
    urls = [f"tcp://{host}:{port}" for host in order]
    async with serve([_Nothing()], urls) as server:
        assert server.listening == urls
        assert await answers(f"tcp://[::1]:{port}")
        assert await answers(f"tcp://127.0.0.1:{port}")


async def test_where_mount_listens_is_not_for_a_server_to_be_told() -> None:
    with pytest.raises(LocalProtocolError, match="mountport is for clients"):
        await serve([_Nothing()], ["tcp://127.0.0.1:0?mountport=5"])
