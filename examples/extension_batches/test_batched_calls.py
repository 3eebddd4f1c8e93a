"""The extension under a client and a server: calls made at once travel in one batch, a single call without."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import perf_counter_ns
from typing import Any, NamedTuple

import pytest
from batches import BatchCounts, batches_extension

from rpcrdma import Connection, ConnectOptions, RdmaServerConfig, ServeOptions, Server, TransportConfig, connect, serve
from rpcrdma.aio.connections import rdma_calls_taken
from rpcrdma.errors import OutOfMemory, RemoteSystemError, TransportClosed
from rpcrdma.provider import LoopbackProvider
from rpcrdma.rpc import CallContext, Procedure, Program, ReplyBound, Service, in_worker
from rpcrdma.transport import Call, TransportStatistics, requester
from rpcrdma.xdr import Decoder, Encoder

NUMBER = 0x20CA115E
BULK_MAX = 1 << 20


def encode_octets(enc: Encoder, value: bytes) -> None:
    enc.opaque(value, 1000, "data")


def decode_octets(dec: Decoder) -> bytes:
    return bytes(dec.opaque(1000, "data"))


def encode_bulk(enc: Encoder, value: bytes) -> None:
    enc.bulk(value, BULK_MAX, "data")


def decode_bulk(dec: Decoder) -> bytes:
    return bytes(dec.bulk(BULK_MAX, "data"))


def procedure(number: int, name: str) -> Procedure[bytes, bytes]:
    coded = (encode_octets, decode_octets)
    return Procedure(NUMBER, 1, number, f"SMALL_{name.upper()}", name, *coded, *coded, ReplyBound(1004))


ECHO, GATED, THREADED, FAILING = (
    procedure(number, name) for number, name in enumerate(("echo", "gated", "threaded", "failing"), 1)
)
PLACED = Procedure(
    NUMBER,
    1,
    5,
    "SMALL_PLACED",
    "placed",
    encode_bulk,
    decode_bulk,
    encode_bulk,
    decode_bulk,
    ReplyBound(4, (BULK_MAX,)),
)
PROGRAM = Program(NUMBER, 1, "SMALL_V1", {each.number: each for each in (ECHO, GATED, THREADED, FAILING, PLACED)})


class Small(Service):
    """`gated` waits; `runs` are the arguments of the calls that ran."""

    PROGRAM = PROGRAM

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.runs: list[bytes] = []

    def echo(self, args: bytes, context: CallContext) -> bytes:
        self.runs.append(args)
        return args

    placed = echo

    @in_worker
    def threaded(self, args: bytes, context: CallContext) -> bytes:
        return args

    async def gated(self, args: bytes, context: CallContext) -> bytes:
        self.runs.append(args)
        await self.gate.wait()
        return args

    def failing(self, args: bytes, context: CallContext) -> bytes:
        raise RuntimeError("as it must")


class Line(NamedTuple):
    """A connection with its server and service."""

    client: Connection
    server: Server
    small: Small

    @property
    def statistics(self) -> TransportStatistics:
        assert self.client.statistics is not None
        return self.client.statistics

    @property
    def sends(self) -> tuple[int, int]:
        """Messages that client and server have sent so far."""
        return self.statistics.sends, self.server.statistics().counters.sends

    @property
    def batches(self) -> BatchCounts:
        link = self.client.extension("batches")
        assert link is not None
        counts: BatchCounts = link.state
        return counts

    async def many(self, asked: Procedure[Any, Any], count: int) -> None:
        """So many calls at once, each of which gets its own reply."""
        args = [bytes([index]) * (index + 1) for index in range(count)]
        assert await asyncio.gather(*(self.client.call(asked, one) for one in args)) == args


@asynccontextmanager
async def joined(
    choices: dict[str, Any],
    *,
    client: bool = True,
    server: bool = True,
    transport: TransportConfig | None = None,
    **options: Any,
) -> AsyncIterator[Line]:
    """A client and a server; `client` and `server` tell which of them has the extension."""
    transport = transport or TransportConfig()
    small = Small()
    accepting = RdmaServerConfig(extensions=[batches_extension()] if server else [], transport=transport, **choices)
    calling = ConnectOptions(
        extensions=[batches_extension()] if client else [],
        transport=transport,
        call_timeout_s=None,
        **choices,
        **options,
    )
    async with (
        serve([small], ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=accepting, drain_s=60.0)) as running,
        connect(running.listening[0], PROGRAM, options=calling) as connection,
    ):
        yield Line(connection, running, small)
        small.gate.set()


@pytest.fixture
def connected() -> Callable[..., AbstractAsyncContextManager[Line]]:
    """`joined` in version 2, over the loopback: batches do not depend on the provider."""
    return functools.partial(joined, {"rpcrdma_version": "2", "provider": LoopbackProvider()})


@pytest.fixture(autouse=True)
def turns_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a turn of a connection would end between the calls of one message."""
    monkeypatch.setattr(rdma_calls_taken, "CONNECTION_TURN_S", 3600.0)


def test_calls_made_at_once_go_together_and_so_do_their_replies(connected: Any) -> None:
    async def main() -> None:
        async with connected() as line:
            before = line.sends
            await line.many(ECHO, 16)
            assert line.sends == (before[0] + 1, before[1] + 1)
            assert line.batches == BatchCounts(1, 16, 1, 16)

    asyncio.run(main())


def test_replies_that_handlers_give_later_go_together_where_they_are_given_at_once(connected: Any) -> None:
    async def main() -> None:
        async with connected() as line:
            before = line.sends
            calls = [asyncio.ensure_future(line.client.call(GATED, bytes([index]))) for index in range(8)]
            while len(line.small.runs) < 8:  # noqa: ASYNC110 - the arrival of a call has no event
                await asyncio.sleep(0)
            assert line.sends == (before[0] + 1, before[1])
            line.small.gate.set()
            assert await asyncio.gather(*calls) == [bytes([index]) for index in range(8)]
            assert line.sends == (before[0] + 1, before[1] + 1)
            await line.many(THREADED, 32)
            assert line.statistics.calls == 40

    asyncio.run(main())


def test_the_time_at_the_server_is_no_wait_of_the_client(connected: Any) -> None:
    calls: list[Call] = []

    async def main() -> None:
        async with connected(on_call=calls.append) as line:
            call = asyncio.ensure_future(line.client.call(GATED, b"1"))
            while not line.small.runs:  # noqa: ASYNC110 - the arrival of a call has no event
                await asyncio.sleep(0)
            arrived_ns = perf_counter_ns()
            line.small.gate.set()
            await call
            assert 0 < calls[0].sent_ns < arrived_ns

    asyncio.run(main())


def test_a_call_that_waited_and_cannot_be_sent_fails_at_once(connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any, **__: Any) -> None:
        raise OutOfMemory("none")

    async def main() -> None:
        async with connected(transport=TransportConfig(credits_requested=1)) as line:
            first = asyncio.ensure_future(line.client.call(GATED, b"1"))
            while not line.small.runs:  # noqa: ASYNC110 - the arrival of a call has no event
                await asyncio.sleep(0)
            second = asyncio.ensure_future(line.client.call(PLACED, bytes(BULK_MAX)))
            await asyncio.sleep(0)
            monkeypatch.setattr(requester, "Exposure", no_memory)
            line.small.gate.set()
            assert await first == b"1"
            with pytest.raises(OutOfMemory):
                await second

    asyncio.run(main())


def test_calls_of_all_kinds_at_once_get_their_own_replies(connected: Any) -> None:
    async def main() -> None:
        async with connected() as line:
            big = bytes(range(256)) * 2000
            calls: list[Any] = []
            for index in range(24):
                if index % 6 == 3:
                    calls.append(line.client.call(PLACED, big))
                elif index % 6 == 5:
                    calls.append(line.client.call(FAILING, b""))
                else:
                    calls.append(line.client.call(ECHO, bytes([index])))
            found = await asyncio.gather(*calls, return_exceptions=True)
            for index, one in enumerate(found):
                if index % 6 == 5:
                    assert isinstance(one, RemoteSystemError)
                else:
                    assert one == (big if index % 6 == 3 else bytes([index]))
            assert line.batches.sent >= 4
            assert line.statistics.bad_replies == line.statistics.bad_xids == 0

    asyncio.run(main())


def test_a_call_that_is_cancelled_before_its_turn_ends_is_never_sent(connected: Any) -> None:
    async def main() -> None:
        async with connected() as line:
            before = line.sends
            calls = [asyncio.ensure_future(line.client.call(ECHO, bytes([index]))) for index in range(4)]
            await asyncio.sleep(0)
            calls[1].cancel()
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(found.pop(1), asyncio.CancelledError)
            assert found == [b"\0", b"\2", b"\3"]
            assert line.small.runs == [b"\0", b"\2", b"\3"]
            assert line.sends == (before[0] + 1, before[1] + 1)
            assert line.statistics.calls_abandoned == 0

    asyncio.run(main())


def test_calls_that_come_again_together_run_once(connected: Any) -> None:
    async def main() -> None:
        async with connected(reconnect=False) as line:
            caller: Any = line.client._present
            for _ in range(2):
                calls = [caller.call(ECHO, bytes([xid]), xid=xid) for xid in range(1, 9)]
                assert await asyncio.gather(*calls) == [bytes([xid]) for xid in range(1, 9)]
            assert line.batches.sent == 2
            assert len(line.small.runs) == 8

    asyncio.run(main())


def test_what_waits_for_the_end_of_the_turn_fails_with_the_connection(connected: Any) -> None:
    async def main() -> None:
        async with connected(reconnect=False) as line:
            calls = [asyncio.ensure_future(line.client.call(ECHO, b"x")) for _ in range(3)]
            await asyncio.sleep(0)
            caller: Any = line.client._present
            caller.abort("the test ends it")
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(one) for one in found] == [TransportClosed] * 3
            assert line.small.runs == []

    asyncio.run(main())
