"""The arguments of `HostAuthentication`, and its errors for unfit files and names."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from local_tcp import without_network
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.host_options import HostAuthentication
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.errors import HostAuthenticationFailed, ProgramUnavailable
from rpcrdma.nfs import mount, v3
from rpcrdma.rpc.program import null_procedure
from rpcrdma.transport import Role
from rpcrdma.transport.host_policy import HostPolicy
from support.cases import each_case
from support.host_pair import Hosts


class Nfs(v3.NFS_V3_Service):
    pass


class Mount(mount.MOUNT_V3_Service):
    OVER_RDMA = False


def of(hosts: Hosts, role: Role, **changes: object) -> HostAuthentication:
    given: dict[str, object] = {
        "certificate": hosts.client if role is Role.CLIENT else hosts.server,
        "authorities": hosts.authority.path,
    }
    return HostAuthentication(**{**given, **changes})


def failure(options: HostAuthentication, role: Role = Role.SERVER, host: str | None = None) -> str:
    with pytest.raises(HostAuthenticationFailed) as failed:
        options.source(role, host)
    assert failed.value.cause == "configuration"
    assert "\n" not in str(failed.value)
    assert str(failed.value).count("; ") == 1
    return str(failed.value)


def test_without_anything_it_is_off_and_with_anything_it_is_required(tmp_path: Path) -> None:
    assert HostAuthentication().wanted is HostPolicy.OFF
    for given in ({"certificate": "x"}, {"key": "x"}, {"authorities": "x"}, {"names": ["x"]}):
        assert HostAuthentication(**given).wanted is HostPolicy.REQUIRED
        assert HostAuthentication(policy="off", **given).wanted is HostPolicy.OFF
    assert HostAuthentication(context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)).wanted is HostPolicy.REQUIRED
    assert HostAuthentication(policy="optional").wanted is HostPolicy.OPTIONAL
    with pytest.raises(ValueError, match="policy is 'sometimes', not one of off, optional, required"):
        HostAuthentication(policy="sometimes")  # type: ignore[arg-type]
    assert HostAuthentication(policy="off", certificate=tmp_path / "none").source(Role.CLIENT)().announce() is None


def test_contexts_do_as_well_as_files(hosts: Hosts) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(hosts.client)
    context.load_verify_locations(hosts.authority.path)
    machine = HostAuthentication(context=context).source(Role.CLIENT, "server.example")()
    assert machine.announce() == b""
    assert machine.begin(b"")
    wrong = HostAuthentication(context=context)
    assert "not for a server" in failure(wrong)


def test_renewed_files_count_from_the_next_connection_on(
    hosts: Hosts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "server.pem", tmp_path / "key.pem"
    certificate.write_bytes(hosts.server.read_bytes())
    key.write_bytes(hosts.server.read_bytes())
    source = of(hosts, Role.SERVER, certificate=certificate, key=key).source(Role.SERVER)
    client = of(hosts, Role.CLIENT, names=("server.example", "renewed.example")).source(Role.CLIENT)

    def met() -> tuple[str, ...]:
        one, other = client(), source()
        value = one.begin(other.begin(one.announce()))
        for receiver in (other, one, other, one):
            assert value is not None
            value = receiver.receive(value)
        assert one.peer is not None
        return one.peer.names

    assert "server.example" in met()
    renewed = hosts.authority.issue("renewed.example").read_bytes()
    certificate.write_bytes(renewed)
    assert "server.example" in met()
    assert "server.example" in met()
    assert caplog.text.count("is not that of the certificate") == 1
    # What has a new owner or mode may be readable by now.
    certificate.chmod(0o600)
    assert "server.example" in met()
    assert caplog.text.count("is not that of the certificate") == 2
    assert "what was read before stays in use" in caplog.text
    key.write_bytes(renewed)
    assert met() == ("renewed.example",)
    certificate.unlink()
    assert met() == ("renewed.example",)


def test_unfit_files_are_told_with_the_remedy(hosts: Hosts, tmp_path: Path) -> None:
    no_pem = tmp_path / "no.pem"
    no_pem.write_bytes(b"\x30\x82\xff")
    damaged = tmp_path / "damaged.pem"
    text = hosts.server.read_text()
    damaged.write_text(text.replace("-----BEGIN CERTIFICATE-----\nMII", "-----BEGIN CERTIFICATE-----\nXXX"))
    locked = tmp_path / "locked.pem"
    key = load_pem_private_key(hosts.server.read_bytes(), None)
    locked.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    role = Role.SERVER
    missing = tmp_path / "missing.pem"
    assert failure(of(hosts, role, certificate=missing)) == (
        f"host authentication: cannot read {missing}: no such file or directory; "
        "name a file in PEM that this user may read (HostAuthentication(certificate=...))"
    )
    assert "is a directory" in failure(of(hosts, role, key=tmp_path))
    assert f"{no_pem} holds no certificate" in failure(of(hosts, role, certificate=no_pem))
    assert f"{hosts.authority.path} holds no private key" in failure(of(hosts, role, key=hosts.authority.path))
    assert (
        f"{no_pem} holds no certificate in PEM; name a file that does (HostAuthentication(authorities=...))"
        in failure(of(hosts, role, authorities=no_pem))
    )
    assert f"the key in {hosts.client} is not that of the certificate" in failure(of(hosts, role, key=hosts.client))
    assert f"the key in {locked} is encrypted; decrypt it with `openssl pkey" in failure(of(hosts, role, key=locked))
    assert "cannot be used (" in failure(of(hosts, role, certificate=damaged, key=hosts.server))
    assert "cannot be used (" in failure(of(hosts, role, authorities=damaged))
    assert "there is no certificate of this host" in failure(HostAuthentication(policy="optional"))
    assert "there are no authorities" in failure(HostAuthentication(certificate=hosts.server))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(hosts: Hosts, tmp_path: Path) -> None:
    secret = tmp_path / "secret.pem"
    secret.write_text("")
    secret.chmod(0)
    assert f"cannot read {secret}: permission denied" in failure(of(hosts, Role.SERVER, key=secret))


@each_case("name", ["*.example", "", "a b..c"])
def test_unfit_names_are_told(hosts: Hosts, name: str) -> None:
    assert "is not the name of a host; write a whole DNS name" in failure(of(hosts, Role.SERVER, names=[name]))


async def test_over_tcp_it_cannot_be_required(hosts: Hosts) -> None:
    options = ConnectOptions(host_authentication=of(hosts, Role.CLIENT))
    with pytest.raises(HostAuthenticationFailed, match=r"there is none over TCP without TLS; write rdma://127.0.0.1"):
        await connect("tcp://127.0.0.1:1", options=options)


@without_network
async def test_a_server_that_requires_it_offers_over_tcp_what_rdma_has_not(hosts: Hosts) -> None:
    """Anybody could call the rest without a certificate."""

    rdma = RdmaServerConfig(host_authentication=of(hosts, Role.SERVER))
    async with (
        serve([Nfs(), Mount()], ["tcp://127.0.0.1:0"], options=ServeOptions(rdma=rdma)) as server,
        connect(server.listening[0]) as connection,
    ):
        await connection.call(null_procedure(mount.PROGRAM.number, mount.PROGRAM.version), None)
        with pytest.raises(ProgramUnavailable):
            await connection.call(v3.NULL, None)
    async with serve([Nfs(), Mount()], ["tcp://127.0.0.1:0"]) as server, connect(server.listening[0]) as connection:
        await connection.call(v3.NULL, None)


async def test_unfit_files_keep_servers_from_starting_and_clients_from_connecting(hosts: Hosts, tmp_path: Path) -> None:
    unfit = of(hosts, Role.SERVER, key=tmp_path / "none")
    with pytest.raises(HostAuthenticationFailed, match="cannot read"):
        await serve([Nfs()], options=ServeOptions(rdma=RdmaServerConfig(host_authentication=unfit)))
    with pytest.raises(HostAuthenticationFailed, match="cannot read"):
        await connect("rdma://127.0.0.1:1", options=ConnectOptions(host_authentication=unfit))


@pytest.mark.req("TLS-11", "TLS-13")
def test_a_server_needs_a_certificate_and_for_mutual_tls_authorities(hosts: Hosts) -> None:
    with pytest.raises(HostAuthenticationFailed, match="there is no certificate of this host"):
        HostAuthentication(authorities=hosts.authority.path).tls(Role.SERVER, "tls")
    with pytest.raises(HostAuthenticationFailed, match="there are no authorities"):
        HostAuthentication(certificate=hosts.server).tls(Role.SERVER, "mtls")


@each_case("names", [(), ("server.example",)])
async def test_a_url_with_an_unfit_host_is_refused_whether_or_not_the_names_of_the_server_are_given(
    names: tuple[str, ...],
) -> None:
    options = ConnectOptions(xprtsec="tls", host_authentication=HostAuthentication(names=names))
    with pytest.raises(HostAuthenticationFailed, match=r"'a\.\.b' is not the name of a host"):
        await connect("tcp://a..b", options=options)


async def test_settings_that_a_server_could_not_keep_are_not_ignored(hosts: Hosts) -> None:
    for given, lacking in (
        (HostAuthentication(certificate=hosts.server, names=["client.example"]), "there are no authorities"),
        (HostAuthentication(names=["client.example"]), "there is no certificate of this host"),
        (HostAuthentication(key=hosts.server), "there is no certificate of this host"),
        (HostAuthentication(authorities=hosts.authority.path), "there is no certificate of this host"),
    ):
        with pytest.raises(HostAuthenticationFailed, match=lacking):
            await serve([Nfs()], options=ServeOptions(tcp=TcpServerConfig(host_authentication=given)))
