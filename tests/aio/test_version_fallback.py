"""The version that a client and a server of this library agree on, in virtual time, and the cost of finding it."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from typing import Any

import pytest

import client_calls
from client_calls import version_of
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.errors import ConnectFailed, TransportClosed
from rpcrdma.limits import SERVER_AGAIN_S
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from rpcrdma.transport import VersionRefused
from support.cases import each_case
from support.simulated import Simulated
from support.waiting import until

pytestmark = pytest.mark.usefixtures("virtual_time")

OLD, NEW = "1", "2"
SIMULATED = Simulated()
null_over = functools.partial(client_calls.null_over, provider=SIMULATED)
NONE = v3.post_op_attr(False, None)


class Files(v3.NFS_V3_Service):
    """ACCESS waits for `gate`, and counts how often it has run."""

    IDEMPOTENT = frozenset({v3.ACCESS.number})

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.ran = 0

    async def access(self, args: v3.ACCESS3args, context: CallContext) -> v3.ACCESS3res:
        self.ran += 1
        self.entered.set()
        await self.gate.wait()
        return v3.ACCESS3res(v3.nfsstat3.NFS3_OK, v3.ACCESS3resok(NONE, args.access))


def serving(version: str, files: Files | None = None, url: str = "rdma://127.0.0.1:0") -> Any:
    options = ServeOptions(rdma=RdmaServerConfig(rpcrdma_version=version, provider=SIMULATED), drain_s=0)
    return serve([files or Files()], [url], options=options)


def know(again_s: float = SERVER_AGAIN_S) -> KnownServers:
    """From here on the versions of servers are known for so long, and none is known yet."""
    loop: Any = asyncio.get_running_loop()
    versions = KnownServers(again_s=again_s)
    loop.effects = replace(loop.effects, known_servers=versions)
    return versions


def messages_of(connection: Connection) -> tuple[int, int]:
    """(sent, received)."""
    assert connection.statistics is not None
    return connection.statistics.sends, connection.statistics.receives


@pytest.mark.req("V2-12", "V2-13")
@each_case(
    ("client", "server", "spoken"),
    [
        ("auto", "auto", NEW),
        ("auto", OLD, OLD),
        ("auto", NEW, NEW),
        (OLD, "auto", OLD),
        (OLD, OLD, OLD),
        (NEW, "auto", NEW),
        (NEW, NEW, NEW),
    ],
)
async def test_client_and_server_find_the_newest_version_that_both_speak(client: str, server: str, spoken: str) -> None:
    async with serving(server) as it:
        connection = await null_over(it.listening[0], rpcrdma_version=client)
        assert version_of(connection) == spoken
        assert it.statistics().rdma.connections_made == 1, "on the same connection"


@each_case("settings", [{}, {"reconnect": False}])
async def test_a_server_that_is_known_to_speak_the_older_version_costs_nothing_extra(settings: dict[str, Any]) -> None:
    async with serving(OLD) as server:
        url = server.listening[0]
        plain = await null_over(url, rpcrdma_version=OLD, **settings)
        first = await null_over(url, **settings)
        second = await null_over(url, **settings)
        assert [version_of(each) for each in (plain, first, second)] == [OLD] * 3
        assert messages_of(plain) == messages_of(second) == (1, 1)
        assert messages_of(first) == (2, 2), "the first message and its refusal"
        # One error for the first message of `first`; none for `second`.
        assert server.statistics().counters.errors_sent == 1


async def test_what_is_known_belongs_to_the_event_loop_or_else_to_the_process() -> None:
    async with serving(OLD) as server:
        url = server.listening[0]
        await null_over(url)
        apart = know()
        assert messages_of(await null_over(url)) == (2, 2)
        assert len(apart) == 1
        know(again_s=0)
        assert messages_of(await null_over(url)) == (2, 2)


async def test_a_server_known_by_the_newer_version_may_be_replaced_by_an_older_one() -> None:
    async with serving(NEW) as new:
        url = new.listening[0]
        assert version_of(await null_over(url)) == NEW
    async with serving(OLD, url=url):
        assert messages_of(await null_over(url)) == (2, 2)
        assert messages_of(await null_over(url)) == (1, 1)


@each_case("client", [OLD, NEW])
async def test_a_version_that_the_server_does_not_speak_is_an_error_that_names_both(client: str) -> None:
    other = NEW if client == OLD else OLD
    async with serving(other) as server:
        if client == NEW:
            with pytest.raises(ConnectFailed) as failed:
                await null_over(server.listening[0], rpcrdma_version=client)
            place = server.listening[0].removeprefix("rdma://")
            assert str(failed.value) == (
                f"{place}: the server speaks version {other} of RPC-over-RDMA only, this end was told to speak "
                f"{client}; choose a version that both have, or auto"
            )
        else:
            with pytest.raises(VersionRefused, match=f"speaks RPC-over-RDMA version {other} only"):
                await null_over(server.listening[0], rpcrdma_version=client)


@each_case(
    ("before", "after", "again_s", "expected"),
    [
        (OLD, NEW, SERVER_AGAIN_S, NEW),
        (NEW, OLD, SERVER_AGAIN_S, OLD),
        ("auto", OLD, SERVER_AGAIN_S, OLD),
        (OLD, "auto", SERVER_AGAIN_S, OLD),
        (OLD, "auto", 0, NEW),
        (OLD, NEW, 0, NEW),
    ],
)
async def test_unanswered_calls_are_sent_again_in_the_version_of_the_server_that_follows(
    before: str, after: str, again_s: float, expected: str
) -> None:
    """Known or not: a server that is known to speak the older version only may be replaced by one without it."""
    know(again_s)
    options = ConnectOptions(provider=SIMULATED)
    first, second = Files(), Files()
    server: Server = await serving(before, first)
    url = server.listening[0]
    async with connect(url, v3.PROGRAM, options=options) as connection:
        await connection.call(v3.NULL, None)
        assert version_of(connection) == (NEW if before == "auto" else before)
        args = v3.ACCESS3args(v3.nfs_fh3(b"f"), 7)
        calls = [asyncio.ensure_future(connection.call(v3.ACCESS, args)) for _ in range(3)]
        await first.entered.wait()
        await server.close()
        second.gate.set()
        async with serving(after, second, url) as it:
            assert [reply.value.access for reply in await asyncio.gather(*calls)] == [7] * 3
            assert version_of(connection) == expected
            assert second.ran == 3
            await until(lambda: len(it.connections) == 1)


async def test_without_reconnecting_the_next_connection_finds_the_version() -> None:
    async with serving(OLD) as old:
        url = old.listening[0]
        await null_over(url, reconnect=False)
    async with serving(NEW, url=url):
        async with connect(url, v3.PROGRAM, options=ConnectOptions(provider=SIMULATED, reconnect=False)) as connection:
            known_by = f"version {NEW} only, not version {OLD}, which it was known by"
            with pytest.raises(TransportClosed, match=known_by):
                await connection.call(v3.NULL, None)
            await connection._present.wait_closed()
        assert version_of(await null_over(url, reconnect=False)) == NEW
