"""How long a server may say nothing until mounting is given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.urls import Url
from rpcrdma.errors import CallTimeout, ConnectFailed
from rpcrdma.nfs.client import mount_client
from rpcrdma.nfs.client.mount_client import list_exports, mount_export
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
