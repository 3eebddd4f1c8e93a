"""The time limits of calls: one timer of a connection serves them all."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from jumping_sockets import now_s
from local_tcp import without_network
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.errors import CallTimeout
from rpcrdma.nfs import v3
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.gss.protection import CallDropped
from rpcrdma.rpc.service import CallContext
from rpcrdma.transport import TransportConfig
from support.cases import each_case
from support.waiting import time_passes

HANDLE = v3.nfs_fh3(data=b"handle")
NO_ATTRIBUTES = v3.post_op_attr(False, None)
ACCESS = v3.ACCESS3args(HANDLE, 1)
PLAIN = ConnectOptions(extension="off", keepalive_s=None)


class Files(v3.NFS_V3_Service):
    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def getattr(self, _args: v3.GETATTR3args, _context: CallContext) -> v3.GETATTR3res:
        await self.go_on.wait()
        return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_STALE, None)

    def access(self, _args: v3.ACCESS3args, _context: CallContext) -> v3.ACCESS3res:
        return v3.ACCESS3res(v3.nfsstat3.NFS3ERR_STALE, v3.ACCESS3resfail(NO_ATTRIBUTES))


@each_case("scheme", ["rdma", "tcp"])
@without_network
async def test_calls_with_time_limits_set_one_timer(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[float] = []

    async with (
        serve([Files()], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], options=PLAIN) as client,
    ):
        await client.call(v3.NULL, None, timeout_s=100)
        loop = asyncio.get_running_loop()
        call_at = loop.call_at

        def counted(when: float, *args: Any, **keywords: Any) -> asyncio.TimerHandle:
            timers.append(when)
            return call_at(when, *args, **keywords)

        monkeypatch.setattr(loop, "call_at", counted)
        for _ in range(20):
            await client.call(v3.ACCESS, ACCESS, timeout_s=100)
        await asyncio.gather(*(client.call(v3.ACCESS, ACCESS, timeout_s=200) for _ in range(20)))
        # An earlier deadline than that of all others may set the timer anew, once.
        await asyncio.gather(*(client.call(v3.ACCESS, ACCESS, timeout_s=50) for _ in range(20)))
        # So may a reply that the server could not send at once; 60 calls would set 60 timers.
        assert len(timers) < 10


@each_case("scheme", ["rdma", "tcp"])
@without_network
async def test_each_call_ends_at_its_own_deadline(scheme: str) -> None:
    files = Files()
    async with (
        serve([files], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], options=PLAIN) as client,
    ):
        await client.call(v3.NULL, None)
        with pytest.raises(TypeError, match="timeout_s must be a number of seconds, not str"):
            await client.call(v3.NULL, None, timeout_s="9")  # type: ignore[arg-type]
        ended: list[str] = []

        async def ask(name: str, timeout_s: float) -> None:
            with pytest.raises(CallTimeout, match=f"no reply within {timeout_s:g} s"):
                await client.call(v3.GETATTR, v3.GETATTR3args(HANDLE), timeout_s=timeout_s)
            ended.append(name)

        answered = asyncio.ensure_future(client.call(v3.GETATTR, v3.GETATTR3args(HANDLE), timeout_s=60))
        await asyncio.gather(ask("last", 9), ask("first", 3), ask("second", 6))
        assert ended == ["first", "second", "last"]
        assert not answered.done()
        assert 9 <= now_s() < 10
        files.go_on.set()
        assert (await answered).status == v3.nfsstat3.NFS3ERR_STALE


@each_case("scheme", ["rdma", "tcp"])
@without_network
async def test_a_call_after_all_xids_does_not_meet_that_of_a_call_that_was_given_up(scheme: str) -> None:
    files = Files()
    async with (
        serve([files], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], options=PLAIN) as client,
    ):
        for lost in (False, True):
            if lost:
                client._keeper.connection.abort("lost")
            await client.call(v3.NULL, None)
            xids = client._keeper.xids
            abandoned = xids._next
            with pytest.raises(CallTimeout):
                await client.call(v3.GETATTR, v3.GETATTR3args(HANDLE), timeout_s=3)
            xids._next = abandoned
            assert (await client.call(v3.ACCESS, ACCESS)).status == v3.nfsstat3.NFS3ERR_STALE
        files.go_on.set()


@without_network
async def test_a_call_that_waits_leaves_when_calls_that_the_server_has_dropped_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_call, dropped = Dispatcher.open_call, asyncio.Event()

    def drop_getattr(dispatcher: Dispatcher, call: Any) -> Any:
        refused = open_call(dispatcher, call)
        if call.route.procedure is v3.GETATTR:
            asyncio.get_running_loop().call_later(1, dropped.set)
            raise CallDropped
        return refused

    monkeypatch.setattr(Dispatcher, "open_call", drop_getattr)
    options = replace(PLAIN, rpcrdma_version="2", transport=TransportConfig(credits_requested=1))
    async with (
        serve([Files()], ["rdma://127.0.0.1:0"]) as server,
        connect(server.listening[0], options=options) as client,
    ):
        await client.call(v3.NULL, None)
        given_up = asyncio.ensure_future(client.call(v3.GETATTR, v3.GETATTR3args(HANDLE)))
        await dropped.wait()
        waits = asyncio.ensure_future(client.call(v3.NULL, None))
        await time_passes(1)
        assert not waits.done()
        given_up_s = now_s()
        given_up.cancel()
        await asyncio.wait_for(waits, 60)
        assert now_s() < given_up_s + 1
