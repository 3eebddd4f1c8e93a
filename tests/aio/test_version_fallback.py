"""The version that a client and a server agree on, on real connections, and the cost of finding it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.client import connect as connect_module
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.errors import ConnectFailed, TransportClosed
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.limits import SERVER_AGAIN_S
from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.service import CallContext
from rpcrdma.transport import VersionRefused
from support.cases import each_case
from support.raw_calls import BOTH_PRIVATE
from support.raw_replies import header, rpc_reply, send
from support.raw_socket import RawSocketPeer

pytestmark = pytest.mark.thorough

OLD, NEW = "1", "2"
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
    options = ServeOptions(rdma=RdmaServerConfig(rpcrdma_version=version), drain_s=0)
    return serve([files or Files()], [url], options=options)


def known(monkeypatch: pytest.MonkeyPatch, again_s: float = SERVER_AGAIN_S) -> KnownServers:
    """A memory of versions for this test alone."""
    versions = KnownServers(again_s=again_s)
    monkeypatch.setattr(connect_module, "_KNOWN_SERVERS", versions)
    return versions


async def null_over(url: str, **settings: Any) -> Connection:
    """A connection that has made one NULL call, and is closed again."""
    async with connect(url, v3.PROGRAM, options=ConnectOptions(**settings)) as connection:
        await connection.call(v3.NULL, None)
    return connection


def version_of(connection: Connection) -> str:
    assert connection.negotiated is not None
    return connection.negotiated.dialect


def messages_of(connection: Connection) -> tuple[int, int]:
    """(sent, received)."""
    assert connection.statistics is not None
    return connection.statistics.sends, connection.statistics.receives


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


# Servers of this library


@pytest.mark.req("V2-12", "V2-13")
@pytest.mark.parametrize(
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


async def test_both_versions_are_spoken_on_one_port_at_once() -> None:
    files = Files()
    async with serving("auto", files) as server:
        clients = [
            await connect(server.listening[0], v3.PROGRAM, options=ConnectOptions(rpcrdma_version=version))
            for version in (OLD, NEW, "auto", OLD)
        ]
        assert [version_of(client) for client in clients] == [OLD, NEW, NEW, OLD]
        for client in clients:
            # Brings the credits for several calls.
            await client.call(v3.NULL, None)
        args = v3.ACCESS3args(v3.nfs_fh3(b"f"), 7)
        calls = [asyncio.ensure_future(client.call(v3.ACCESS, args)) for client in clients for _ in range(5)]
        while files.ran < len(calls):  # noqa: ASYNC110 - the awaited state has no event
            await asyncio.sleep(0)
        files.gate.set()
        assert [reply.value.access for reply in await asyncio.gather(*calls)] == [7] * 20
        for client in clients:
            await client.close()


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


async def test_what_is_known_belongs_to_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(OLD) as server:
        url = server.listening[0]
        await null_over(url)
        apart = known(monkeypatch)
        assert messages_of(await null_over(url)) == (2, 2)
        assert len(apart) == 1
        known(monkeypatch, again_s=0)
        assert messages_of(await null_over(url)) == (2, 2)


async def test_the_newer_version_is_tried_again_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = known(monkeypatch, again_s=900)
    async with serving(OLD) as old:
        url = old.listening[0]
        await null_over(url)
    async with serving("auto", url=url):
        assert version_of(await null_over(url)) == OLD
        (found,) = versions._found.values()
        versions._found[("iwarp", "127.0.0.1", int(url.rpartition(":")[2]))] = found._replace(at_s=found.at_s - 900)
        assert version_of(await null_over(url)) == NEW


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


# Reconnecting


@each_case(("before", "after"), [(OLD, NEW), (NEW, OLD), ("auto", OLD), (OLD, "auto")])
@each_case("known_before", [True, False])
async def test_unanswered_calls_are_sent_again_in_the_version_of_the_server_that_follows(
    before: str, after: str, *, known_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known or not: a server that is known to speak the older version only may be replaced by one without it."""
    known(monkeypatch, again_s=SERVER_AGAIN_S if known_before else 0)
    options = ConnectOptions(reconnect_delay_max_s=0.05)
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
            expected = (OLD if known_before and before == OLD else NEW) if after == "auto" else after
            assert version_of(connection) == expected
            assert second.ran == 3
            while len(it.connections) > 1:  # noqa: ASYNC110 - the awaited state has no event
                await asyncio.sleep(0)


async def test_without_reconnecting_the_next_connection_finds_the_version() -> None:
    async with serving(OLD) as old:
        url = old.listening[0]
        await null_over(url, reconnect=False)
    async with serving(NEW, url=url):
        async with connect(url, v3.PROGRAM, options=ConnectOptions(reconnect=False)) as connection:
            known_by = f"version {NEW} only, not version {OLD}, which it was known by"
            with pytest.raises(TransportClosed, match=known_by):
                await connection.call(v3.NULL, None)
            await connection._present.wait_closed()
        assert version_of(await null_over(url, reconnect=False)) == NEW


# Servers made of octets


class Heard:
    """Connections to a scripted server: the version of the first message of each, and its octets."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.versions: list[int] = []
        self.messages: list[bytes] = []


Answer = Callable[[RawSocketPeer, int], Coroutine[Any, Any, None]]


async def answer_old_calls(peer: RawSocketPeer, xid: int, number: int = 1) -> None:
    """Answers the call `xid`, and later ones, in the older version."""
    while True:
        await peer.send_segments(send(header(xid) + rpc_reply(xid), number))
        number += 1
        (xid,) = struct.unpack_from(">I", (await peer.segment()).payload)


@asynccontextmanager
async def scripted(answer_new: Answer) -> AsyncIterator[Heard]:
    """A server that answers calls in the older version; `answer_new` follows a message in any other version."""
    tasks: list[asyncio.Task[None]] = []

    async def talk(peer: RawSocketPeer) -> None:
        try:
            await peer.accept(BOTH_PRIVATE)
            message = (await peer.segment()).payload
            xid, version = struct.unpack_from(">II", message)
            heard.versions.append(version)
            heard.messages.append(message)
            await (answer_old_calls(peer, xid) if version == 1 else answer_new(peer, xid))
        except EOFError:
            pass
        finally:
            peer.close()

    async def accept(listener: socket.socket) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            tasks.append(asyncio.create_task(talk(RawSocketPeer(sock))))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        heard = Heard(f"rdma://127.0.0.1:{listener.getsockname()[1]}")
        tasks.append(asyncio.create_task(accept(listener)))
        try:
            yield heard
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def hang_up(peer: RawSocketPeer, xid: int) -> None:
    peer.close()


async def reset(peer: RawSocketPeer, xid: int) -> None:
    peer.reset()


async def say_nothing(peer: RawSocketPeer, xid: int) -> None:
    await peer.ended()


def refuse(*words: int, low: int = 1, high: int = 1) -> Answer:
    """ERR_VERS with `words` before its code; then calls are answered."""

    async def answer(peer: RawSocketPeer, xid: int) -> None:
        refusal = struct.pack(f">{7 + len(words)}I", xid, 2, 32, 4, *words, 1, low, high)
        await peer.send_segments(send(refusal, 1))
        xid, version = struct.unpack_from(">II", (await peer.segment()).payload)
        assert version == 1
        await answer_old_calls(peer, xid, 2)

    return answer


QUIET = {"credential": AuthNone(), "iwarp": IwarpConfig(nudge_after_s=0)}


@pytest.mark.req("V2-11", "V2-12", "V2-82")
@each_case("words", [(), (1,)])
async def test_a_version_error_in_either_layout_changes_the_version_of_the_connection(words: tuple[int, ...]) -> None:
    async with scripted(refuse(*words)) as heard:
        connection = await null_over(heard.url, **QUIET)
        assert version_of(connection) == OLD
        assert heard.versions == [2], "the same connection"
        assert len(heard.messages[0]) <= 1024
        await null_over(heard.url, **QUIET)
        assert heard.versions == [2, 1]


async def refuse_and_hang_up(peer: RawSocketPeer, xid: int) -> None:
    await peer.send_segments(send(struct.pack(">7I", xid, 2, 32, 4, 1, 1, 1), 1))
    peer.close()


@pytest.mark.req("V2-83")
async def test_a_server_that_hangs_up_after_its_version_error_is_met_in_the_older_version() -> None:
    async with scripted(refuse_and_hang_up) as heard:
        connection = await null_over(heard.url, **QUIET)
        assert version_of(connection) == OLD
        assert heard.versions == [2, 1]


async def test_a_version_error_whose_range_holds_none_of_ours_ends_in_words() -> None:
    async with scripted(refuse(1, low=7, high=9)) as heard:
        with pytest.raises(ConnectFailed, match=r"the server speaks versions 7 to 9 .* told to speak 2 or 1"):
            await null_over(heard.url, **QUIET)
        assert heard.versions == [2], "it has answered: another connection would end the same way"


@pytest.mark.req("V2-83")
@each_case(
    ("answer", "settings"),
    [(hang_up, {}), (reset, {}), (say_nothing, {"connect_timeout_s": 0.8})],
)
async def test_a_server_that_does_not_answer_is_asked_once_more_in_the_older_version(
    answer: Answer, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rpcrdma.client")
    async with scripted(answer) as heard:
        connection = await null_over(heard.url, **QUIET, **settings)
        assert version_of(connection) == OLD
        assert heard.versions == [2, 1]
        # Then it is known.
        await null_over(heard.url, **QUIET, **settings)
        assert heard.versions == [2, 1, 1]
        place = heard.url.removeprefix("rdma://")
        told = [record.getMessage() for record in caplog.records if "had no answer" in record.getMessage()]
        assert told == [f"{place}: version 2 of RPC-over-RDMA had no answer, trying version 1"]


async def test_a_server_that_is_made_to_speak_the_newer_version_is_not_asked_in_another() -> None:
    async with scripted(hang_up) as heard:
        with pytest.raises(ConnectFailed, match="sets up no RDMA connection"):
            await null_over(heard.url, rpcrdma_version=NEW, **QUIET)
        assert heard.versions == [2]


async def test_what_was_tried_stands_in_the_error() -> None:
    listening = True

    async def leave(peer: RawSocketPeer, xid: int) -> None:
        nonlocal listening
        listening = False
        peer.close()

    async with scripted(leave) as heard:
        connecting = asyncio.ensure_future(null_over(heard.url, **QUIET))
        with pytest.MonkeyPatch.context() as patch:
            accept = RawSocketPeer.accept

            async def accept_once(peer: RawSocketPeer, data: bytes) -> bytes:
                if not listening:
                    raise EOFError
                return await accept(peer, data)

            patch.setattr(RawSocketPeer, "accept", accept_once)
            with pytest.raises(ConnectFailed) as failed:
                await connecting
        assert "sets up no RDMA connection" in str(failed.value)
        assert str(failed.value).endswith(
            "; version 2 of RPC-over-RDMA had no answer (the peer closed the connection), then version 1 was tried"
        )
