"""Mounting from servers that say nothing, and from servers without version 3."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.urls import Url
from rpcrdma.errors import CallTimeout, ConnectFailed, ProgramMismatch, ProgramUnavailable
from rpcrdma.nfs.client import mount_client
from rpcrdma.nfs.client.mount_client import Mount, confirm_root, list_exports, mount_export
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
        raise ConnectFailed("connection refused")

    monkeypatch.setattr(mount_client, "connect_nfs", connected)
    monkeypatch.setattr(mount_client.TcpConnection, "connect", refused)
    url = Url(scheme="rdma", host="127.0.0.1", port=1, path="/")
    options = ConnectOptions()
    with pytest.raises(
        ConnectFailed, match=r"speaks NFS version 4 alone, and this client version 3; .*serve version 3"
    ):
        await (work(url, options) if work is list_exports else work(url, options, await connected()))


@in_virtual_time
async def test_where_another_server_answers_mount_the_lack_of_version_3_is_named_too() -> None:
    mounted = Mount(export="/", handle=b"handle", directory="/", port=20048)
    caller: Any = _OfVersion4()
    with pytest.raises(ConnectFailed, match="speaks NFS version 4 alone"):
        await confirm_root(caller, Url(scheme="tcp", host="127.0.0.1", port=1, path="/"), mounted)
