"""Hosts that must be authenticated, and peers that cannot be: no call is run."""

from __future__ import annotations

import asyncio

import pytest

from host_pair import Hosts
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.host_options import HostAuthentication
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, TransportClosed
from rpcrdma.nfs import v3


class Nfs(v3.NFS_V3_Service):
    pass


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    return Hosts(tmp_path_factory.mktemp("certificates"))


def test_a_client_that_requires_it_leaves_a_server_without(hosts: Hosts, each_provider: str) -> None:
    async def work() -> None:
        required = HostAuthentication(certificate=hosts.client, authorities=hosts.authority.path)
        async with serve([Nfs()], ["rdma://127.0.0.1:0"]) as server:
            with pytest.raises(HostAuthenticationFailed, match="required here, and the peer takes no part in it"):
                await connect(server.listening[0], options=ConnectOptions(host_authentication=required))
            assert server.statistics().rdma.calls == 0

    asyncio.run(work())


def test_a_server_that_requires_it_takes_no_call_of_a_client_without(hosts: Hosts, each_provider: str) -> None:
    async def work() -> None:
        required = HostAuthentication(certificate=hosts.server, authorities=hosts.authority.path)
        options = ServeOptions(rdma=RdmaServerConfig(host_authentication=required))
        async with serve([Nfs()], ["rdma://127.0.0.1:0"], options=options) as server:
            with pytest.raises((TransportClosed, ConnectFailed)):
                async with connect(server.listening[0], options=ConnectOptions(reconnect=False)) as connection:
                    await connection.call(v3.NULL, None)
            assert server.statistics().rdma.calls == 0

    asyncio.run(work())
