"""Mounting from servers that say nothing, that refuse, and that lack version 3."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.urls import Url
from rpcrdma.errors import AuthError, CallTimeout, ConnectFailed, ProgramMismatch, ProgramUnavailable
from rpcrdma.limits import EXPORTS_ASKED_MAX
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.client import mount_client
from rpcrdma.nfs.client.mount_client import Mount, NoSuchExport, confirm_root, list_exports, mount_export
from rpcrdma.rpc.auth import AuthStat
from support.cases import each_case
from support.loops import in_virtual_time
from support.waiting import time_passes


class _Silent:
    """A connection to something that accepts connections and never answers."""

    lost = False
    program = None

    async def call(self, procedure: Any, args: Any, *, timeout_s: float) -> None:
        await time_passes(timeout_s)
        raise CallTimeout(f"{procedure.name}: no reply within {timeout_s:g} s")

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@each_case("work", [mount_export, list_exports])
@in_virtual_time
async def test_a_server_that_never_answers_is_waited_for_once(monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    async def connected(*_: object) -> _Silent:
        return _Silent()

    monkeypatch.setattr(mount_client, "connect_nfs", connected)
    url = Url(scheme="tcp", host="127.0.0.1", port=1, path="/")
    options = ConnectOptions(connect_timeout_s=5)
    before_s = asyncio.get_running_loop().time()
    with pytest.raises(ConnectFailed, match=r"tcp://127\.0\.0\.1:1 did not answer within 5 s; check the address"):
        await (work(url, options) if work is list_exports else work(url, options, await connected()))
    assert asyncio.get_running_loop().time() - before_s == pytest.approx(5)


class _OfVersion4(_Silent):
    """A server of NFS version 4 without MOUNT."""

    async def call(self, procedure: Any, args: Any, *, timeout_s: float = 0) -> None:
        raise ProgramMismatch(4, 4) if procedure.program == 100003 else ProgramUnavailable


@each_case("work", [mount_export, list_exports])
@in_virtual_time
async def test_an_error_says_that_a_server_has_no_version_3(monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    async def connected(*_: object, **__: object) -> _OfVersion4:
        return _OfVersion4()

    async def refused(*_: object, **__: object) -> None:
        # MOUNT elsewhere would be that of another server.
        assert work is list_exports
        raise ConnectFailed("connection refused")

    monkeypatch.setattr(mount_client, "connect_nfs", connected)
    monkeypatch.setattr(mount_client.TcpConnection, "connect", refused)
    url = Url(scheme="rdma", host="127.0.0.1", port=1, path="/")
    options = ConnectOptions()
    with pytest.raises(
        ConnectFailed, match=r"speaks NFS version 4 alone, and this client version 3; .*serve version 3"
    ):
        await (work(url, options) if work is list_exports else work(url, options, await connected()))


class _WithExports(_Silent):
    """A MOUNT service that exports /other, and an NFS server of version 3 that knows the handle or does not."""

    def __init__(self, *, knows: bool) -> None:
        self.knows = knows

    async def call(self, procedure: Any, args: Any, *, timeout_s: float = 0) -> Any:
        if procedure is v3.GETATTR:
            return v3.GETATTR3res(v3.nfsstat3.NFS3_OK if self.knows else v3.nfsstat3.NFS3ERR_STALE, None)
        if procedure is mount.EXPORT:
            return [mount.exportnode("/other", [])]
        if procedure is mount.MNT and args != "/other":
            return mount.mountres3(mount.mountstat3.MNT3ERR_NOENT, None)
        return mount.mountres3(mount.mountstat3.MNT3_OK, mount.mountres3_ok(b"handle", [1]))


class _WithoutMount(_WithExports):
    async def call(self, procedure: Any, args: Any, *, timeout_s: float = 0) -> Any:
        if procedure.program != 100003:
            raise ProgramUnavailable
        return await super().call(procedure, args)


@each_case("knows", [False, True])
@in_virtual_time
async def test_a_list_of_exports_is_taken_only_from_the_mount_service_of_the_server(
    monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    async def connected(*_: object, **__: object) -> _WithExports:
        return _WithExports(knows=knows)

    async def no_other_port(*_: object) -> AsyncIterator[int]:
        yield 20048

    monkeypatch.setattr(mount_client, "_connected", connected)
    monkeypatch.setattr(mount_client, "_ports", no_other_port)
    url, nfs = Url(scheme="tcp", host="192.0.2.1", port=1, path="/"), _WithoutMount(knows=knows)
    if knows:
        with pytest.raises(NoSuchExport) as caught:
            await mount_export(url, ConnectOptions(), nfs)
        assert caught.value.exports == ("/other",)
    else:
        with pytest.raises(ConnectFailed, match=r"does not know the handle of /other .* are not one server"):
            await mount_export(url, ConnectOptions(), nfs)


@in_virtual_time
async def test_where_another_server_answers_mount_the_lack_of_version_3_is_named_too() -> None:
    mounted = Mount(export="/", handle=b"handle", directory="/", port=20048)
    caller: Any = _OfVersion4()
    with pytest.raises(ConnectFailed, match="speaks NFS version 4 alone"):
        await confirm_root(caller, Url(scheme="tcp", host="127.0.0.1", port=1, path="/"), mounted)


class _InTlsAlone(_Silent):
    """A server that refuses all calls in the clear."""

    async def call(self, procedure: Any, args: Any, *, timeout_s: float = 0) -> None:
        raise AuthError(AuthStat.AUTH_TOOWEAK)


@each_case("work", [mount_export, list_exports])
@each_case("named", [0, 1, 2])
@in_virtual_time
async def test_a_refusal_for_too_little_protection_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch, work: Any, named: int
) -> None:
    async def connected(*_: object, **__: object) -> _InTlsAlone:
        return _InTlsAlone()

    async def any_port(url: Url, mount_port: int | None, *_: object) -> AsyncIterator[int]:
        assert mount_port == 20048, "another port than a named one would be that of another server"
        yield mount_port

    monkeypatch.setattr(mount_client, "connect_nfs", connected)
    monkeypatch.setattr(mount_client, "_connected", connected)
    monkeypatch.setattr(mount_client, "_ports", any_port)
    url = Url(scheme="tcp", host="192.0.2.1", port=1, path="/", mount_port=20048 if named == 1 else None)
    options, port = ConnectOptions(), 20048 if named == 2 else None
    given = [url, options] if work is list_exports else [url, options, await connected()]
    with pytest.raises(AuthError, match="AUTH_TOOWEAK; it asks for more protection"):
        await work(*given, mount_port=port)


class _WithManyExports(_WithExports):
    """A MOUNT service with more exports than a client asks for."""

    def __init__(self) -> None:
        super().__init__(knows=True)
        self.asked: Counter[Any] = Counter()

    async def call(self, procedure: Any, args: Any, *, timeout_s: float = 0) -> Any:
        self.asked[procedure] += 1
        if procedure is mount.EXPORT:
            return [mount.exportnode(f"/{number:03}", []) for number in range(EXPORTS_ASKED_MAX + 2)]
        return await super().call(procedure, "/other")


@in_virtual_time
async def test_all_exports_are_listed_and_a_bounded_number_is_asked_for_flavors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = _WithManyExports()

    async def connected(*_: object, **__: object) -> _WithManyExports:
        return service

    monkeypatch.setattr(mount_client, "connect_nfs", connected)
    found = await list_exports(Url(scheme="tcp", host="192.0.2.1", port=1, path="/"), ConnectOptions())
    assert [each.flavors for each in found] == [(1,)] * EXPORTS_ASKED_MAX + [()] * 2
    assert service.asked[mount.MNT] == service.asked[mount.UMNT] == EXPORTS_ASKED_MAX


class _Undecided(_WithExports):
    """A MOUNT service whose exports have the names of the statuses of MNT."""

    async def call(self, procedure: Any, args: Any, *, timeout_s: float = 0) -> Any:
        if procedure is mount.EXPORT:
            return [mount.exportnode(status.name, []) for status in mount.mountstat3]
        if procedure is mount.MNT and args != "MNT3_OK":
            return mount.mountres3(mount.mountstat3[args], None)
        return await super().call(procedure, "/other")


@in_virtual_time
async def test_only_an_export_that_mount_denies_is_shown_as_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connected(*_: object, **__: object) -> _Undecided:
        return _Undecided(knows=True)

    monkeypatch.setattr(mount_client, "connect_nfs", connected)
    found = await list_exports(Url(scheme="tcp", host="192.0.2.1", port=1, path="/"), ConnectOptions())
    assert {each.name for each in found if each.flavors is None} == {"MNT3ERR_ACCES", "MNT3ERR_PERM"}
    assert [each.name for each in found if each.flavors] == ["MNT3_OK"]
    assert len(found) == len(mount.mountstat3)
