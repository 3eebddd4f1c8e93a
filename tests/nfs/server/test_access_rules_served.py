"""Rules of an export as clients meet them: both versions over TCP, TLS and RDMA, with certificates and principals."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

import rpcrdma
from rpcrdma import ConnectOptions, HostAuthentication, RdmaServerConfig, ServeOptions, TcpServerConfig
from rpcrdma.aio.security_options import Kerberos, KerberosKeys
from rpcrdma.errors import AuthError
from rpcrdma.nfs.client import nfs_open
from rpcrdma.nfs.server import AccessTerms, Export, build_services, open_state
from rpcrdma.nfs.server.services import build_nfs4
from rpcrdma.nfs.v4.client.session import OperationRefused, session_with
from rpcrdma.nfs.v4.nfs4 import NFS_V4, ACCESS4args, LOOKUP4args, PUTFH4args, nfs_opnum4
from rpcrdma.rpc.auth import AuthSys, LocalUser
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from support.fake_gss import FakeMechanism
from support.host_pair import Hosts

pytestmark = pytest.mark.thorough

OP, MODIFY = nfs_opnum4, 0x04
KRB5P, SYS, NONE = SecurityFlavor.KRB5P, SecurityFlavor.SYS, SecurityFlavor.NONE
ME = LocalUser(os.geteuid(), os.getegid())
LOCAL = (ip_network("127.0.0.0/8"),)
RULES = (
    AccessTerms(certificates=("client.example",), root_squash=False),
    AccessTerms(hosts=LOCAL, principals=("bob@REALM",), denied=True, security=(KRB5P,)),
    AccessTerms(hosts=LOCAL, principals=("*@REALM",), security=(KRB5P,), root_squash=False),
    AccessTerms(hosts=LOCAL, read_only=True, root_squash=False),
)


@pytest.fixture
def mechanism(monkeypatch: pytest.MonkeyPatch) -> FakeMechanism:
    """The mechanism of clients that choose a flavor themselves, and of servers."""
    users = {"alice@REALM": ME, "bob@REALM": ME, "eve@OTHER": ME}
    found = FakeMechanism(users=users)
    monkeypatch.setattr(Kerberos, "made", lambda self: self.mechanism or found)
    return found


@asynccontextmanager
async def serving(
    directory: Path, mechanism: FakeMechanism, hosts: Hosts, **terms: Any
) -> AsyncIterator[tuple[dict[str, str], Any]]:
    """The URLs of a server of all versions by scheme, and its exports."""
    state = open_state(directory / "state", os.urandom)
    export = Export(name="/d", directory=directory / "d", **terms)
    services = build_services([export], state=state)
    four = build_nfs4(services.nfs, state, None, os.urandom, lambda: 0.0, lambda: 0)
    authenticated = HostAuthentication(certificate=hosts.server, authorities=hosts.authority.path, policy="optional")
    in_tls = HostAuthentication(certificate=hosts.server, authorities=hosts.authority.path)
    options = ServeOptions(
        security=[KRB5P, SYS, NONE],
        kerberos=KerberosKeys(mechanism=mechanism),
        tcp=TcpServerConfig(host_authentication=in_tls),
        rdma=RdmaServerConfig(host_authentication=authenticated),
    )
    try:
        async with rpcrdma.serve([*services, four], ["tcp://127.0.0.1:0", "rdma://127.0.0.1:0"], options=options) as at:
            yield dict(zip(("tcp", "rdma"), at.listening, strict=True)), services.nfs.exports
    finally:
        four.close()
        services.nfs.close()
        state.close()


async def met(urls: dict[str, str], scheme: str, options: ConnectOptions) -> tuple[str, str]:
    """The rights that a client meets by version 3, and by version 4: "rw", "ro", or its refusal."""
    port = urls["tcp"].rpartition(":")[2]
    try:
        async with nfs_open(f"{urls[scheme]}/d?mountport={port}", options=options) as fs:
            three = "rw"
            try:
                await fs.chmod("file", 0o644)
            except OSError as error:
                three = "ro" if error.errno == errno.EROFS else errno.errorcode[error.errno or 0]
    except AuthError:
        three = "TOOWEAK"
    except OSError as error:
        three = errno.errorcode[error.errno or 0]
    async with rpcrdma.connect(urls[scheme], NFS_V4, options=options) as caller, session_with(caller, 60) as session:
        way: list[Any] = [(OP.OP_PUTROOTFH, None), (OP.OP_LOOKUP, LOOKUP4args(b"d"))]
        try:
            *_, handle = await session.run(*way, (OP.OP_GETFH, None))
            rights = [(OP.OP_PUTFH, PUTFH4args(handle.object)), (OP.OP_ACCESS, ACCESS4args(MODIFY | 1))]
            *_, found = await session.run(*rights)
            four = {MODIFY | 1: "rw", 1: "ro"}[found.access]
        except OperationRefused as refused:
            four = refused.status.removeprefix("NFS4ERR_")
    return three, four


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    return Hosts(tmp_path_factory.mktemp("hosts"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").write_bytes(b"content")
    for path in (tmp_path, tmp_path.parent):
        path.chmod(0o755)
    return tmp_path


async def test_a_client_has_the_rights_of_its_rule_by_each_version_and_transport(
    place: Path, mechanism: FakeMechanism, hosts: Hosts
) -> None:
    known = HostAuthentication(certificate=hosts.client, authorities=hosts.authority.path, names=["server.example"])
    me = AuthSys(uid=ME.uid, gid=ME.gid)
    seen, expected = {}, {}
    async with serving(place, mechanism, hosts, rules=RULES, denied=True) as (urls, exports):
        for scheme in ("tcp", "rdma"):
            plain = ConnectOptions(credential=me, security="sys")
            seen[scheme, "none"] = await met(urls, scheme, plain)
            expected[scheme, "none"] = "ro", "ro"
            proved = ConnectOptions(
                credential=me,
                security="sys",
                host_authentication=known,
                **({"xprtsec": "mtls"} if scheme == "tcp" else {}),
            )
            seen[scheme, "certificate"] = await met(urls, scheme, proved)
            expected[scheme, "certificate"] = "rw", "rw"
            for principal, rights in (
                ("alice@REALM", ("rw", "rw")),
                ("bob@REALM", ("EACCES", "ACCESS")),
                ("eve@OTHER", ("TOOWEAK", "WRONGSEC")),
            ):
                mechanism.principal = principal
                seen[scheme, principal] = await met(urls, scheme, ConnectOptions(security="krb5p"))
                expected[scheme, principal] = rights
        assert seen == expected
        # An export of one transport is mounted over TCP all the same, where Linux asks MOUNT.
        exports.install(
            exports.plan([Export(name="/d", directory=place / "d", transports=("rdma",), root_squash=False)])
        )
        plain = ConnectOptions(credential=me)
        assert await met(urls, "rdma", plain) == ("rw", "rw")
        assert await met(urls, "tcp", plain) == ("EACCES", "ACCESS")
