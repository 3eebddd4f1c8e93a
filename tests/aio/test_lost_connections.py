"""Calls through a proxy that cuts connections: each runs once, and is answered."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import secrets
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.answering import answering
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.client import connect as connecting
from rpcrdma.aio.client.connect import ConnectOptions, connect, own_credential
from rpcrdma.aio.client.connection import Connection
from rpcrdma.aio.client.reconnecting import ReconnectPolicy, SingleConnection
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers.software_rnic import SoftwareRnic
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import RemoteSystemError, TransportClosed
from rpcrdma.nfs.client import nfs_open
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.call_statistics import by_procedure
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.reply_cache import ReplyCache
from rpcrdma.rpc.service import CallContext, Service, in_worker
from rpcrdma.transport import TransportConfig
from rpcrdma.transport.refusals import CallRefused, ChunkRefused
from rpcrdma.xdr.codec import Decoder, Encoder
from support.programs import procedure
from support.waiting import until

pytestmark = pytest.mark.thorough

NUMBER = 0x20BADBED
ITEM_OCTETS = 6000


def encode_order(enc: Encoder, value: tuple[int, bytes]) -> None:
    enc.u32(value[0], "order")
    enc.bulk(value[1], ITEM_OCTETS, "data")


def decode_order(dec: Decoder) -> tuple[int, bytes]:
    return dec.u32("order"), bytes(dec.bulk(ITEM_OCTETS, "data"))


def encode_opaque(enc: Encoder, value: bytes) -> None:
    enc.opaque(value, ITEM_OCTETS, "list")


def decode_opaque(dec: Decoder) -> bytes:
    return bytes(dec.opaque(ITEM_OCTETS, "list"))


ORDER = (encode_order, decode_order)
OPAQUE = (encode_opaque, decode_opaque)


PLACED, SLOW, AGAIN = (
    procedure(NUMBER, number, method, ORDER, ORDER, bound=ReplyBound(8, (ITEM_OCTETS,)))
    for number, method in ((1, "placed"), (3, "slow"), (4, "again"))
)
LONG = procedure(NUMBER, 2, "long", ORDER, OPAQUE, bound=ReplyBound(ITEM_OCTETS + 4))
PROGRAM = Program(NUMBER, 1, "ORDERS_V1", {each.number: each for each in (PLACED, LONG, SLOW, AGAIN)})


class Orders(Service):
    """Counts how often each order runs. The results come in Write chunks, or (`long`) in a Reply chunk."""

    PROGRAM = PROGRAM
    IDEMPOTENT = frozenset({4})

    def __init__(self) -> None:
        self.ran: Counter[int] = Counter()
        self.gate = asyncio.Event()
        self.arrived = asyncio.Event()
        self.when_run: Callable[[], None] = lambda: None

    def _run(self, number: int) -> None:
        self.ran[number] += 1
        if self.ran[number] == 1:
            self.when_run()

    def placed(self, args: tuple[int, bytes], context: CallContext) -> tuple[int, memoryview]:
        self._run(args[0])
        data = context.buffer(len(args[1]))
        data[:] = args[1][::-1]
        return args[0], data

    @in_worker
    def long(self, args: tuple[int, bytes], context: CallContext) -> bytes:
        self._run(args[0])
        return args[1][::-1]

    async def slow(self, args: tuple[int, bytes], context: CallContext) -> tuple[int, bytes]:
        self._run(args[0])
        self.arrived.set()
        await self.gate.wait()
        return args[0], args[1][::-1]

    def again(self, args: tuple[int, bytes], context: CallContext) -> tuple[int, bytes]:
        self._run(args[0])
        return args


class Proxy:
    """Passes octets on; `cuts` says for each connection after how many of them, both directions together, it ends."""

    def __init__(self, port: int, cuts: Callable[[], int | None]) -> None:
        self._port = port
        self._cuts = cuts
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.made = 0
        self.cut = 0
        self.deaf = False
        """Replies are swallowed."""
        self.swallowed = 0
        """Pieces of replies that were."""

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self.cut_all()
        await asyncio.gather(*self._tasks)

    def swallow(self) -> None:
        """From now on, no replies: a handler calls this when it is done."""
        self.deaf = True

    async def cut_once(self) -> None:
        """Waits until a reply is swallowed, then cuts all connections and is itself again."""
        await until(lambda: self.swallowed)
        self.cut_all()
        self.deaf = False
        self.swallowed = 0

    def cut_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        self._tasks.add(task := asyncio.current_task())
        other_reader, other = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, other]
        left = [self._cuts()]
        await asyncio.gather(
            self._pass(reader, other, writer, left), self._pass(other_reader, writer, other, left, replies=True)
        )
        self._tasks.discard(task)

    async def _pass(
        self, reader: Any, writer: Any, back: Any, left: list[int | None], *, replies: bool = False
    ) -> None:
        try:
            while data := await reader.read(4096):
                if left[0] is not None:
                    left[0] -= len(data)
                    if left[0] <= 0:
                        self.cut += 1
                        writer.write(data[: left[0]])
                        writer.close()
                        back.transport.abort()
                        left[0] = None
                        return
                if replies and self.deaf:
                    self.swallowed += 1
                else:
                    writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def ordering(
    scheme: str, cuts: Callable[[], int | None] = lambda: None, **policy: Any
) -> AsyncIterator[tuple[Orders, Proxy, Connection]]:
    orders = Orders()
    listen = [f"{scheme}://127.0.0.1:0"]
    options = ServeOptions(drain_s=0.1)
    async with (
        serve([orders], listen, options=options) as server,
        Proxy(parse_url(server.listening[0]).port, cuts) as proxy,
    ):
        dial = functools.partial(dialled, scheme, proxy.port, replace(own_credential(), stamp=secrets.randbits(32)))
        caller = Connection(
            parse_url(server.listening[0]), await dial(), dial, ReconnectPolicy(initial_s=0.001, **policy)
        )
        try:
            yield orders, proxy, caller
        finally:
            await caller.close()


async def dialled(scheme: str, port: int, credential: AuthSys) -> SingleConnection:
    """A connection as `connect` makes it, for a policy that its options do not have."""
    if scheme == "tcp":
        return await TcpConnection.connect("127.0.0.1", port, credential)
    connection = RdmaConnection(
        await SoftwareRnic().connect("127.0.0.1", port),
        transport=TransportConfig(),
        results=BufferPool(),
        arguments=BufferPool(),
        credential=credential,
        version=connecting.version_choice("auto"),
    )
    await connection.wait_established()
    return connection


CUTS = 60


@pytest.mark.providers("iwarp")
@pytest.mark.versions("1", "2-rtr")
async def test_each_call_runs_once_under_60_cuts(scheme: str) -> None:
    choose = random.Random(3)
    numbers = iter(range(1_000_000))

    async def work(caller: Connection, proxy: Proxy) -> int:
        number = 0
        while proxy.cut < CUTS:
            number = next(numbers)
            data = choose.randbytes(choose.choice([4, 1001, ITEM_OCTETS]))
            asked = choose.choice([PLACED, LONG])
            into = bytearray(ITEM_OCTETS) if choose.random() < 0.3 and asked is PLACED else None
            result = await caller.call(asked, (number, data), into=into, timeout_s=60)
            assert result == (data[::-1] if asked is LONG else (number, data[::-1]))
        return number

    async with ordering(scheme, lambda: choose.randrange(1000, 60_000), max_s=0.02) as (orders, proxy, caller):
        await asyncio.gather(*(work(caller, proxy) for _ in range(6)))
        assert proxy.cut >= CUTS
        assert caller.reconnects > 3 * CUTS // 4
        done = next(numbers)
        # How often one call is cut depends on the scheduler: some calls ended, and each ran.
        assert len(orders.ran) == done > CUTS // 2
        assert set(orders.ran.values()) == {1}


async def answered(caller: Connection, asked: Procedure[Any, Any], number: int) -> Any:
    result = await caller.call(asked, (number, b"abcd" * 1000), timeout_s=60)
    return result if asked is LONG else (result[0], bytes(result[1]))


EXPECTED = {PLACED: (7, b"dcba" * 1000), SLOW: (7, b"dcba" * 1000), LONG: b"dcba" * 1000, AGAIN: (7, b"abcd" * 1000)}


@pytest.mark.providers("iwarp")
@pytest.mark.versions("1", "2-rtr")
@pytest.mark.parametrize(("asked", "runs"), [(PLACED, 1), (LONG, 1), (AGAIN, 2)], ids=["placed", "long", "idempotent"])
async def test_a_call_whose_reply_was_lost_is_answered_without_running_again(
    scheme: str, asked: Procedure[Any, Any], runs: int
) -> None:
    async with ordering(scheme) as (orders, proxy, caller):
        orders.when_run = proxy.swallow
        call = asyncio.ensure_future(answered(caller, asked, 7))
        await proxy.cut_once()
        orders.when_run = lambda: None
        assert await call == EXPECTED[asked]
        assert orders.ran[7] == runs
        assert caller.reconnects == 1


@pytest.mark.providers("iwarp")
@pytest.mark.versions("1", "2-rtr")
async def test_a_call_that_still_runs_is_answered_once_on_the_newest_connection(scheme: str) -> None:
    async with ordering(scheme) as (orders, proxy, caller):
        call = asyncio.ensure_future(answered(caller, SLOW, 7))
        await orders.arrived.wait()
        for reconnects in (1, 2, 3):
            proxy.cut_all()
            await until(lambda reconnects=reconnects: caller.reconnects == reconnects)
            assert await answered(caller, AGAIN, reconnects)
        orders.gate.set()
        assert await call == EXPECTED[SLOW]
        assert orders.ran[7] == 1


@pytest.mark.req("V1-65")
@pytest.mark.providers("iwarp")
@pytest.mark.parametrize("asked", [PLACED, LONG])
async def test_a_repeat_whose_reply_is_not_kept_is_refused_and_does_not_run(
    scheme: str, asked: Procedure[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "ReplyCache", functools.partial(ReplyCache, octets_max=100))

    async with ordering(scheme) as (orders, proxy, caller):
        orders.when_run = proxy.swallow
        call = asyncio.ensure_future(answered(caller, asked, 7))
        await proxy.cut_once()
        orders.when_run = lambda: None
        with pytest.raises(RemoteSystemError if scheme == "tcp" else (ChunkRefused, CallRefused)):
            await call
        assert orders.ran[7] == 1
        # The connection goes on.
        assert await answered(caller, AGAIN, 7) == EXPECTED[AGAIN]
        assert caller.reconnects == 1


@pytest.mark.providers("iwarp")
@pytest.mark.versions("2")
async def test_a_connection_counts_over_all_that_it_was(scheme: str) -> None:
    listen = [f"{scheme}://127.0.0.1:0"]
    async with (
        serve([orders := Orders()], listen, options=ServeOptions(drain_s=0.1)) as server,
        Proxy(parse_url(server.listening[0]).port, lambda: None) as proxy,
    ):
        options = ConnectOptions(count_calls=True)
        connection = await connect(f"{scheme}://127.0.0.1:{proxy.port}", PROGRAM, options=options)
        for cuts in range(3):
            await connection.call(AGAIN, (1, b"data"))
            assert connection.reconnects == cuts
            proxy.cut_all()
        await connection.call(AGAIN, (1, b"data"))
        counted = connection.statistics
        assert (connection.negotiated is None) == (scheme == "tcp")
        # With each new connection comes a NULL call; over TCP these counters have nothing to count.
        assert counted.calls == (0 if scheme == "tcp" else 4 + 3)
        orders.when_run = proxy.swallow
        call = asyncio.ensure_future(connection.call(AGAIN, (7, b"data")))
        await proxy.cut_once()
        orders.when_run = lambda: None
        await call
        again, null = by_procedure(connection.statistics.operations)
        assert (again.procedure, again.ops, again.errors) == (AGAIN.name, 5, 0)
        # Calls that met the loss of their connection were sent once more, the last one for certain.
        assert 6 <= again.trans <= 9
        assert (null.procedure, null.ops) == ("NULL", 4)
        assert again.execute.sum_ns == again.queue.sum_ns + again.rtt.sum_ns
        await connection.close()
        await connection.close()
        with pytest.raises(TransportClosed, match="this side"):
            await connection.call(AGAIN, (1, b"data"))


def then(handler: Callable[..., Any], what: list[Callable[[], None]]) -> Callable[..., Any]:
    @functools.wraps(handler)
    def wrapped(*args: Any) -> Any:
        result = handler(*args)
        for each in what:
            each()
        return result

    return wrapped


@pytest.mark.providers("iwarp")
@pytest.mark.versions("2")
async def test_changes_of_names_succeed_once_when_their_replies_are_lost(tmp_path: Path, scheme: str) -> None:
    top = tmp_path / "export"
    top.mkdir()
    for name in ("old", "gone"):
        (top / name).write_bytes(b"content")
    (top / "empty").mkdir()

    state = open_state(tmp_path / "state", secrets.token_bytes)
    exports = [Export(name="/", directory=top, root_squash=False, synchronous=False)]
    services = build_services(exports, state=state)
    swallow: list[Callable[[], None]] = []
    for name in ("remove", "rename", "mkdir", "rmdir", "symlink", "link"):
        setattr(services.nfs, name, then(getattr(services.nfs, name), swallow))
    async with serve(services, [f"{scheme}://127.0.0.1:0", "tcp://127.0.0.1:0"]) as server:
        ports = [parse_url(url).port for url in server.listening]
        async with (
            Proxy(ports[0], lambda: None) as proxy,
            nfs_open(f"{scheme}://127.0.0.1:{proxy.port}/", mount_port=ports[1]) as fs,
        ):
            await fs.listdir("/")
            swallow.append(proxy.swallow)
            changes: list[Callable[[], Any]] = [
                lambda: fs.unlink("gone"),
                lambda: fs.rename("old", "new"),
                lambda: fs.mkdir("made"),
                lambda: fs.rmdir("empty"),
                lambda: fs.symlink("new", "soft"),
                lambda: fs.link("new", "hard"),
            ]
            for change in changes:
                done = asyncio.ensure_future(change())
                await proxy.cut_once()
                await done
            assert fs.connection.reconnects == len(changes)
            assert sorted(await fs.listdir("/")) == ["hard", "made", "new", "soft"]
    services.nfs.close()
    state.close()


@pytest.mark.providers("iwarp")
@pytest.mark.versions("2-rtr")
async def test_copies_go_on_when_the_server_is_killed_and_started_again(tmp_path: Path, scheme: str) -> None:
    content = random.Random(5).randbytes(32 << 20)
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "there").write_bytes(content)

    free = [free_port(), free_port()]
    urls = [f"{scheme}://127.0.0.1:{free[0]}", f"tcp://127.0.0.1:{free[1]}"]

    async def killed_midway(server: Any, copy: Any) -> Any:
        """Kills the server once the copy has come some of the way, and starts another; returns that."""

        def told(_: object, octets: int) -> None:
            # Here and now: the rest of the copy cannot be in flight.
            if octets > 1 << 22 and doomed:
                doomed.pop().kill()

        doomed = [server]
        task = asyncio.ensure_future(copy(told))
        await server.wait()
        server = await start_server(tmp_path, urls)
        await task
        return server

    server = await start_server(tmp_path, urls)
    try:
        async with nfs_open(f"{urls[0]}/data", mount_port=free[1]) as fs:
            server = await killed_midway(server, lambda told: download(fs, tmp_path / "back", told))
            server = await killed_midway(server, lambda told: upload(fs, tmp_path / "back", told))
            assert fs.connection.reconnects == 2
            assert await fs.read_bytes("copy") == content
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.kill()
        await server.wait()
    assert (tmp_path / "back").read_bytes() == content
    assert (tmp_path / "export" / "copy").read_bytes() == content


async def download(fs: Any, local: Path, told: Callable[..., None]) -> None:
    await fs.download("there", local, progress=told)


async def upload(fs: Any, local: Path, told: Callable[..., None]) -> None:
    await fs.upload(local, "copy", progress=told)


def free_port() -> int:
    """A free port that no other connection of the machine gets while the server is down: below those for clients."""
    for port in random.SystemRandom().sample(range(20100, 32700), 1000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("none of 1,000 ports is free")


async def start_server(directory: Path, urls: list[str]) -> asyncio.subprocess.Process:
    """`rpcrdma serve`, once it listens."""
    # Of the client; over TCP that is auto.
    version = connecting.version_choice("auto")
    arguments = [
        "--rpcrdma-version",
        version,
        f"--export=data={directory / 'export'}:rw",
        "--state-dir",
        str(directory / "state"),
        "--json",
    ]
    for url in urls:
        arguments += ["--listen", url]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rpcrdma", "serve", *arguments, "--allow", "127.0.0.1", "--no-root-squash"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    for _ in urls:
        line = await process.stdout.readline()
        assert b"listening" in line
    return process
