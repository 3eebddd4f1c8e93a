"""Hosts that authenticate themselves to each other over real connections, and hosts that do not."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from local_tcp import without_network
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.host_options import HostAuthentication
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.errors import HostAuthenticationFailed, TransportClosed
from rpcrdma.nfs import v3
from rpcrdma.rpc.host_identity import HostIdentity
from rpcrdma.rpc.service import CallContext
from rpcrdma.transport import TransportConfig, VersionRefused, config
from support.cases import each_case
from support.host_certificates import Authority
from support.host_pair import Hosts
from support.waiting import until

pytestmark = pytest.mark.versions("2")

OUTCOMES = {
    ("off", "off"): "unauthenticated",
    ("off", "optional"): "unauthenticated",
    ("off", "required"): "the peer refuses: it wants a certificate of this side",
    ("optional", "off"): "unauthenticated",
    ("optional", "optional"): "authenticated",
    ("optional", "required"): "authenticated",
    ("required", "off"): "it is required here, and the peer takes no part in it",
    ("required", "optional"): "authenticated",
    ("required", "required"): "authenticated",
}


class Nfs(v3.NFS_V3_Service):
    """Stores the client's host as its handler sees it."""

    def __init__(self) -> None:
        self.seen: list[HostIdentity | None] = []

    def getattr(self, args: v3.GETATTR3args, context: CallContext) -> v3.GETATTR3res:
        assert context.client.host_identity is context.host_identity
        self.seen.append(context.host_identity)
        return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_STALE, None)


def client_of(hosts: Hosts, policy: str = "required", **changes: Any) -> HostAuthentication:
    given = {"certificate": hosts.client, "authorities": hosts.authority.path, "names": ["server.example"]}
    return HostAuthentication(policy=policy, **{**given, **changes})  # type: ignore[arg-type]


def server_of(hosts: Hosts, policy: str = "required", **changes: Any) -> HostAuthentication:
    given = {"certificate": hosts.server, "authorities": hosts.authority.path}
    return HostAuthentication(policy=policy, **{**given, **changes})  # type: ignore[arg-type]


@asynccontextmanager
async def serving(authentication: HostAuthentication, **more: Any) -> AsyncIterator[tuple[Server, Nfs]]:
    service = Nfs()
    rdma = RdmaServerConfig(host_authentication=authentication, **more)
    async with serve([service], ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=rdma)) as server:
        yield server, service


async def ask(connection: Connection) -> None:
    await connection.call(v3.GETATTR, v3.GETATTR3args(v3.nfs_fh3(b"handle")))


@pytest.mark.req("V2-81")
@each_case("client", ["off", "optional", "required"])
@each_case("server", ["off", "optional", "required"])
async def test_the_policies_of_both_sides(hosts: Hosts, each_provider: str, client: str, server: str) -> None:
    outcome = OUTCOMES[client, server]
    options = ConnectOptions(host_authentication=client_of(hosts, client))
    async with serving(server_of(hosts, server)) as (served, service):
        connecting = connect(served.listening[0], v3.PROGRAM, options=options)
        if outcome not in {"authenticated", "unauthenticated"}:
            with pytest.raises(HostAuthenticationFailed, match=outcome):
                await connecting
            assert served.statistics().rdma.calls == 0
            assert service.seen == []
            return
        async with connecting as connection:
            await ask(connection)
            assert connection.negotiated is not None
            own, peer = connection.negotiated.own_properties, connection.negotiated.peer_properties
            assert own is not None
            assert peer is not None
            assert own["host_authentication"] is (client != "off")
            assert peer["host_authentication"] is (outcome == "authenticated")
            of_server, (of_client,) = connection.negotiated.host_identity, service.seen
        if outcome == "unauthenticated":
            assert of_server is of_client is None
        else:
            assert of_server is not None
            assert of_client is not None
            assert of_server.names == ("server.example", "2001:db8::1", "urn:host:server")
            assert of_client.names == ("client.example", "192.0.2.7")
            assert of_server.channel_binding == of_client.channel_binding


@each_case("octets", [1024, 4096])
@each_case("others", [0, 300])
@without_network
async def test_hosts_with_the_smallest_messages_authenticate_in_several(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, octets: int, others: int
) -> None:
    """Their flights are longer: by the key shares of ML-KEM in OpenSSL 3.5, or by the names of the certificates."""
    monkeypatch.setattr(config, "OFFERED_OCTETS_MIN", octets)
    small = TransportConfig(offered_send_octets=octets, offered_receive_octets=octets)
    names = [f"name-{number}.example" for number in range(others)]
    of_client, of_server = (hosts.authority.issue(name, *names) for name in ("client.example", "server.example"))
    options = ConnectOptions(host_authentication=client_of(hosts, certificate=of_client), transport=small)
    async with (
        serving(server_of(hosts, certificate=of_server), transport=small) as (served, service),
        connect(served.listening[0], v3.PROGRAM, options=options) as connection,
    ):
        await ask(connection)
    assert [len(host.names) for host in service.seen if host is not None] == [others + 1]


async def test_a_client_that_the_server_does_not_know_is_told_why_and_logged(
    hosts: Hosts, each_provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rpcrdma.server")
    options = ConnectOptions(host_authentication=client_of(hosts))
    async with serving(server_of(hosts, names=["another.example"])) as (served, service):
        with pytest.raises(HostAuthenticationFailed, match="it expects another host than the certificate of"):
            await connect(served.listening[0], v3.PROGRAM, options=options)
        assert service.seen == []
        # The server hears of the end later.
        await until(lambda: not served.connections)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "the peer is another host (its certificate names client.example, 192.0.2.7, not another.example)" in (
        warnings[0].getMessage()
    )


@each_case("requiring", ["client", "server"])
@without_network
async def test_version_1_has_none(hosts: Hosts, requiring: str) -> None:
    """Where one side speaks nothing else, the side that requires it refuses before a call is run."""

    off = HostAuthentication()
    client = client_of(hosts) if requiring == "client" else off
    server = server_of(hosts) if requiring == "server" else off
    old = ConnectOptions(
        host_authentication=client, rpcrdma_version="1" if requiring == "server" else "auto", reconnect=False
    )
    async with serving(server, rpcrdma_version="1" if requiring == "client" else "auto") as (served, service):
        if requiring == "client":
            with pytest.raises(HostAuthenticationFailed, match="it is required here, and the peer takes no part"):
                await connect(served.listening[0], v3.PROGRAM, options=old)
        else:
            async with connect(served.listening[0], v3.PROGRAM, options=old) as connection:
                with pytest.raises(VersionRefused):
                    await ask(connection)
        assert service.seen == []


async def test_what_is_required_cannot_be_had_in_version_1(hosts: Hosts) -> None:
    with pytest.raises(HostAuthenticationFailed, match="version 1 of RPC-over-RDMA has none; choose another"):
        await connect(
            "rdma://127.0.0.1:1", options=ConnectOptions(host_authentication=client_of(hosts), rpcrdma_version="1")
        )
    with pytest.raises(HostAuthenticationFailed, match="version 1 of RPC-over-RDMA has none; choose another"):
        async with serving(server_of(hosts), rpcrdma_version="1"):
            pass


@without_network
async def test_connections_end_when_their_authorities_are_replaced(hosts: Hosts, tmp_path: Path) -> None:
    authorities = tmp_path / "authorities.pem"
    authorities.write_bytes(hosts.authority.path.read_bytes())
    (tmp_path / "others").mkdir()
    others = Authority(tmp_path / "others", "others").path.read_bytes()

    options = ConnectOptions(host_authentication=client_of(hosts), reconnect=False)
    async with (
        serving(server_of(hosts, authorities=authorities)) as (server, service),
        connect(server.listening[0], v3.PROGRAM, options=options) as connection,
    ):
        server.reload_certificates()
        await ask(connection)
        authorities.write_bytes(others)
        server.reload_certificates()
        with pytest.raises(TransportClosed):
            await ask(connection)
        with pytest.raises(HostAuthenticationFailed):
            await connect(server.listening[0], v3.PROGRAM, options=options)
        assert len(service.seen) == 1
