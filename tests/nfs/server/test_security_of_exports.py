"""Security flavors of exports: told by MOUNT, chosen by clients, asked for by NFS, with principals as local users."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.security_options import Kerberos, KerberosKeys
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import RpcRdmaError, UserAuthenticationFailed
from rpcrdma.nfs import mount
from rpcrdma.nfs.client import nfs_open
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma.nfs.v3.server.mount_service import MountService
from rpcrdma.rpc.auth import AuthGss, AuthSys, LocalUser
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.host_identity import CallOrigin
from rpcrdma.rpc.service import CallContext, CredentialTooWeak
from support.cases import each_case
from support.fake_gss import FakeMechanism

ALICE = LocalUser(1000, 100, (4, 24))
KRB5P, KRB5I, SYS, NONE = SecurityFlavor.KRB5P, SecurityFlavor.KRB5I, SecurityFlavor.SYS, SecurityFlavor.NONE
SCHEMES = ("tcp", "rdma")


@pytest.fixture
def mechanism(monkeypatch: pytest.MonkeyPatch) -> FakeMechanism:
    """The mechanism of clients that choose a flavor themselves, and of servers."""
    found = FakeMechanism(users={"alice@REALM": ALICE})
    monkeypatch.setattr(Kerberos, "made", lambda self: self.mechanism or found)
    return found


@asynccontextmanager
async def serving(
    tmp_path: Path, mechanism: FakeMechanism, **exports: tuple[SecurityFlavor, ...]
) -> AsyncIterator[dict[str, str]]:
    """URLs by scheme, with the port of MOUNT."""
    for name in exports:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"content")
        (tmp_path / name).chmod(0o777)
    state = open_state(tmp_path / "state", os.urandom)
    services = build_services(
        [Export(name=f"/{name}", directory=tmp_path / name, security=flavors) for name, flavors in exports.items()],
        state=state,
    )
    offered = {flavor for flavors in exports.values() for flavor in flavors}
    options = ServeOptions(security=[*offered], kerberos=KerberosKeys(mechanism=mechanism))
    try:
        async with serve(services, ["tcp://127.0.0.1:0", "rdma://127.0.0.1:0"], options=options) as server:
            tcp, rdma = server.listening
            port = parse_url(tcp).port
            yield {"tcp": tcp + "{}", "rdma": rdma + "{}" + f"?mountport={port}"}
    finally:
        services.nfs.close()
        state.close()


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_client_takes_the_first_flavor_of_the_export_for_which_it_has_a_credential(
    scheme: str, tmp_path: Path, mechanism: FakeMechanism
) -> None:
    async with serving(tmp_path, mechanism, both=(KRB5P, SYS, NONE), plain=(SYS, KRB5P), locked=(KRB5I,)) as urls:
        for name, principal in (("both", "alice@REALM"), ("plain", None), ("locked", "alice@REALM")):
            async with nfs_open(urls[scheme].format(f"/{name}")) as fs:
                assert await fs.read_bytes("file") == b"content"
                assert fs.connection.principal == principal
        mechanism.ticket = False
        async with nfs_open(urls[scheme].format("/both")) as fs:
            assert fs.connection.principal is None
        with pytest.raises(UserAuthenticationFailed, match="/locked asks for krb5i: no ticket; run kinit"):
            await nfs_open(urls[scheme].format("/locked"))


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_client_that_wants_another_flavor_than_the_export_is_told_those_it_takes(
    scheme: str, tmp_path: Path, mechanism: FakeMechanism
) -> None:
    async with serving(tmp_path, mechanism, home=(KRB5P,)) as urls:
        for wanted in ("krb5i", "sys"):
            with pytest.raises(
                UserAuthenticationFailed, match=f"^{scheme}://127.*/home asks for krb5p, not for {wanted}; .*security="
            ):
                await nfs_open(urls[scheme].format("/home"), options=ConnectOptions(security=wanted))


class Taking(mount.MOUNT_V3_Service):
    """A client's service."""

    def __init__(self) -> None:
        self.calls = 0

    def dump(self, args: None, context: CallContext) -> list[mount.mountbody]:
        del args, context
        self.calls += 1
        return []


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_the_connection_that_asks_for_the_flavors_offers_no_services_to_the_server(
    scheme: str, tmp_path: Path, mechanism: FakeMechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[asyncio.Task[Any]] = []

    def calling_back(handler: Any) -> Any:
        async def called(self: MountService, args: Any, context: CallContext) -> Any:
            async def call() -> Any:
                context.client.ready()
                return await context.client.call(mount.DUMP, None)

            calls.append(asyncio.create_task(call()))
            # The call is sent before the answer, and so is taken before the client goes on.
            for _ in range(3):
                await asyncio.sleep(0)
            return handler(self, args, context)

        return called

    monkeypatch.setattr(MountService, "mnt", calling_back(MountService.mnt))
    monkeypatch.setattr(MountService, "dump", calling_back(MountService.dump))
    taking = Taking()
    options = ConnectOptions(services=[taking], services_in_clear=True)
    async with (
        serving(tmp_path, mechanism, home=(KRB5P,)) as urls,
        nfs_open(urls[scheme].partition("{")[0] + "/home", options=options) as fs,
    ):
        await fs.connection.call(mount.DUMP, None)
        assert not await calls[1]
        with pytest.raises(RpcRdmaError):
            await calls[0]
    assert taking.calls == 1


def gss(user: LocalUser | None) -> AuthGss:
    return AuthGss(principal="alice@REALM", flavor=KRB5P, user=user)


@each_case(
    ("credential", "export", "acts_as"),
    [
        (gss(ALICE), {}, (1000, 100, (4, 24))),
        (gss(None), {}, (65534, 65534, ())),
        (gss(None), {"root_squash": False}, (65534, 65534, ())),
        (gss(LocalUser(0, 0, (0, 4))), {}, (65534, 65534, ())),
        (gss(LocalUser(0, 0, (0, 4))), {"root_squash": False}, (0, 0, (0, 4))),
        (gss(LocalUser(1000, 0, (0, 4))), {}, (1000, 65534, (4,))),
        (gss(ALICE), {"all_squash": True, "anonymous_uid": 7, "anonymous_gid": 8}, (7, 8, ())),
        (AuthSys(uid=7, gid=0, gids=(0, 8)), {}, (7, 65534, (8,))),
        (AuthSys(uid=7, gid=7), {"all_squash": True, "anonymous_uid": 1234, "anonymous_gid": 4321}, (1234, 4321, ())),
    ],
)
def test_a_caller_acts_as_a_local_user_squashed_as_the_export_says(
    credential: Any, export: dict[str, Any], acts_as: tuple[int, int, tuple[int, ...]], tmp_path: Path
) -> None:
    assert Export(name="/", directory=tmp_path, **export).acting_as(credential) == acts_as


class ClaimedCall:
    """The context of a call with AUTH_SYS."""

    credential = AuthSys(uid=1000, gid=1000)
    client = SimpleNamespace(origin=CallOrigin("192.0.2.7", "tcp"))


def test_objects_that_the_server_does_not_hold_open_are_guarded_as_well(tmp_path: Path) -> None:
    state = open_state(tmp_path / "state", os.urandom)
    (tmp_path / "files").mkdir()
    services = build_services([Export(name="/", directory=tmp_path / "files", security=(KRB5P,))], state=state)
    backend = services.nfs.exports
    (tree,) = backend.trees
    context: Any = ClaimedCall()
    for held in (True, False):
        if not held:
            backend.parts.nodes.drop_all()
        with pytest.raises(CredentialTooWeak):
            backend.locate(tree.root.handle, context)
    services.nfs.close()
    state.close()
