"""Calls through a proxy that swallows replies and cuts connections: each runs once, and is answered."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.answering import answering
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.client.connection import Connection
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import RemoteSystemError
from rpcrdma.nfs import v3
from rpcrdma.nfs.v3.server.service import NfsService
from rpcrdma.rpc.call_statistics import by_procedure
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.reply_cache import ReplyCache
from rpcrdma.rpc.service import CallContext, Service, in_worker
from rpcrdma.transport.refusals import CallRefused, ChunkRefused
from rpcrdma.xdr.codec import Decoder, Encoder
from support.programs import opaque_of, procedure
from support.waiting import until

pytestmark = pytest.mark.thorough

NUMBER = 0x20BADBED
ITEM_OCTETS = 6000


def encode_order(enc: Encoder, value: tuple[int, bytes]) -> None:
    enc.u32(value[0], "order")
    enc.bulk(value[1], ITEM_OCTETS, "data")


def decode_order(dec: Decoder) -> tuple[int, bytes]:
    return dec.u32("order"), bytes(dec.bulk(ITEM_OCTETS, "data"))


ORDER = (encode_order, decode_order)


PLACED, AGAIN = (
    procedure(NUMBER, number, method, ORDER, ORDER, bound=ReplyBound(8, (ITEM_OCTETS,)))
    for number, method in ((1, "placed"), (4, "again"))
)
LONG = procedure(NUMBER, 2, "long", ORDER, opaque_of(ITEM_OCTETS), bound=ReplyBound(ITEM_OCTETS + 4))
PROGRAM = Program(NUMBER, 1, "ORDERS_V1", {each.number: each for each in (PLACED, LONG, AGAIN)})


class Orders(Service):
    """Counts how often each order runs. The results come in Write chunks, or (`long`) in a Reply chunk."""

    PROGRAM = PROGRAM
    IDEMPOTENT = frozenset({4})

    def __init__(self) -> None:
        self.ran: Counter[int] = Counter()
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

    def again(self, args: tuple[int, bytes], context: CallContext) -> tuple[int, bytes]:
        self._run(args[0])
        return args


class Proxy:
    """Passes octets on; `cut_all` ends its connections."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
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
        self._tasks.add(task := asyncio.current_task())
        other_reader, other = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, other]
        await asyncio.gather(self._pass(reader, other), self._pass(other_reader, writer, replies=True))
        self._tasks.discard(task)

    async def _pass(self, reader: Any, writer: Any, *, replies: bool = False) -> None:
        try:
            while data := await reader.read(4096):
                if replies and self.deaf:
                    self.swallowed += 1
                else:
                    writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def ordering(scheme: str, **options: Any) -> AsyncIterator[tuple[Orders, Proxy, Connection]]:
    """A server, a proxy in front of it, and a client that connects through the proxy."""
    orders = Orders()
    async with (
        serve([orders], [f"{scheme}://127.0.0.1:0"], options=ServeOptions(drain_s=0.1)) as server,
        Proxy(parse_url(server.listening[0]).port) as proxy,
        connect(f"{scheme}://127.0.0.1:{proxy.port}", PROGRAM, options=ConnectOptions(**options)) as caller,
    ):
        yield orders, proxy, caller


async def answered(caller: Connection, asked: Procedure[Any, Any], number: int) -> Any:
    result = await caller.call(asked, (number, b"abcd" * 1000), timeout_s=60)
    return result if asked is LONG else (result[0], bytes(result[1]))


EXPECTED = {PLACED: (7, b"dcba" * 1000), LONG: b"dcba" * 1000, AGAIN: (7, b"abcd" * 1000)}


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
        with pytest.raises(RemoteSystemError if scheme == "tcp" else (ChunkRefused, CallRefused)) as raised:
            await call
        # RDMA2_ERR_SYSTEM, ERR_CHUNK, SYSTEM_ERR.
        assert any(said in str(raised.value) for said in ("or has run it", "may have run", "may have taken effect"))
        assert "otherwise;" not in str(raised.value)
        assert orders.ran[7] == 1
        # The connection goes on.
        assert await answered(caller, AGAIN, 7) == EXPECTED[AGAIN]
        assert caller.reconnects == 1


@pytest.mark.providers("iwarp")
@pytest.mark.versions("2")
async def test_a_connection_counts_over_all_that_it_was(scheme: str) -> None:
    async with ordering(scheme, count_calls=True) as (orders, proxy, connection):
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


def test_calls_that_change_names_run_at_most_once() -> None:
    changes = (v3.CREATE, v3.MKDIR, v3.SYMLINK, v3.MKNOD, v3.REMOVE, v3.RMDIR, v3.RENAME, v3.LINK)
    assert NfsService.IDEMPOTENT.isdisjoint(each.number for each in changes)
