"""The calls that `ConnectOptions.on_call` reports."""

from __future__ import annotations

import asyncio

import pytest

from local_tcp import without_network
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.errors import CallTimeout, RemoteSystemError
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.transport import Call, TransportConfig
from support.cases import each_case
from support.programs import bulk_of, opaque_of, procedure
from support.simulated import not_simulated

NUMBER = 0x20CA1157
OCTETS_MAX = 200_000
HEADERS_MAX = 200


BULK = bulk_of(OCTETS_MAX)
OPAQUE = opaque_of(OCTETS_MAX)


SMALL_RESULT = ReplyBound(100)


SMALL = procedure(NUMBER, 1, "small", OPAQUE, OPAQUE, bound=SMALL_RESULT)
PLACED = procedure(NUMBER, 2, "placed", BULK, BULK, bound=ReplyBound(4, (OCTETS_MAX,)))
WHOLE = procedure(NUMBER, 3, "whole", OPAQUE, OPAQUE, bound=ReplyBound(OCTETS_MAX + 4))
STUCK = procedure(NUMBER, 4, "stuck", OPAQUE, OPAQUE, bound=SMALL_RESULT)
FAILING = procedure(NUMBER, 5, "failing", OPAQUE, OPAQUE, bound=SMALL_RESULT)
ALL = (SMALL, PLACED, WHOLE, STUCK, FAILING)
PROGRAM = Program(NUMBER, 1, "ECHO_V1", {each.number: each for each in ALL})


class Echo(Service):
    PROGRAM = PROGRAM

    def small(self, args: bytes, context: CallContext) -> bytes:
        return args

    placed = whole = small

    async def stuck(self, args: bytes, context: CallContext) -> bytes:
        await asyncio.Event().wait()
        return args

    def failing(self, args: bytes, context: CallContext) -> bytes:
        raise RuntimeError("as it must")


async def recorded(scheme: str, *orders: tuple[Procedure[bytes, bytes], int]) -> list[Call]:
    """The records of calls with so many octets each, one after another."""
    records: list[Call] = []
    options = ConnectOptions(on_call=records.append, call_timeout_s=20)
    async with (
        serve([Echo()], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], PROGRAM, options=options) as connection,
    ):
        for each, octets in orders:
            assert await connection.call(each, bytes(octets)) == bytes(octets)
        peer = server.listening[0].partition("://")[2]
    assert [record.procedure.name for record in records] == [each.name for each, _ in orders]
    assert {record.peer for record in records} <= {peer}
    assert all(record.error is None and record.elapsed_s > 0 for record in records)
    assert len({record.xid for record in records}) == len(records)
    return records


@each_case(
    ("asked", "octets", "form"),
    [
        (SMALL, 8, "short"),
        (PLACED, 150_000, "read chunk + write chunk"),
        (PLACED, 100, "write chunk"),
        (WHOLE, 150_000, "long call + long reply"),
        (WHOLE, 1000, "reply chunk"),
    ],
)
@not_simulated
@pytest.mark.versions("1", "2")
@pytest.mark.usefixtures("each_provider")
@without_network
async def test_a_record_has_the_form_and_the_octets(asked: Procedure[bytes, bytes], octets: int, form: str) -> None:
    for scheme in ("rdma", "tcp"):
        (record,) = await recorded(scheme, (asked, octets))
        assert record.travelled == (form if scheme == "rdma" else "tcp")
        assert 0 <= record.octets_sent - octets <= HEADERS_MAX
        assert 0 <= record.octets_received - octets <= HEADERS_MAX


async def test_calls_without_a_result_have_their_error(scheme: str) -> None:
    records: list[Call] = []
    options = ConnectOptions(on_call=records.append)
    async with (
        serve([Echo()], [f"{scheme}://127.0.0.1:0"], options=ServeOptions(drain_s=0)) as server,
        connect(server.listening[0], PROGRAM, options=options) as connection,
    ):
        # Until the first reply there is one credit, which a call without an answer would keep.
        await connection.call(SMALL, b"")
        with pytest.raises(CallTimeout):
            await connection.call(STUCK, b"", timeout_s=0.01)
        cancelled = asyncio.create_task(connection.call(STUCK, b""))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        with pytest.raises(RemoteSystemError):
            await connection.call(FAILING, b"")
    assert [record.procedure.name for record in records] == [SMALL.name, STUCK.name, STUCK.name, FAILING.name]
    _, timed_out, given_up, failed = records
    assert isinstance(timed_out.error, CallTimeout)
    assert isinstance(given_up.error, asyncio.CancelledError)
    assert (timed_out.octets_received, given_up.octets_received) == (0, 0)
    assert failed.octets_received > 0
    assert isinstance(failed.error, RemoteSystemError)


@pytest.mark.thorough
async def test_a_call_that_ends_while_it_waits_for_a_credit_has_no_time_of_sending() -> None:
    records: list[Call] = []
    options = ConnectOptions(on_call=records.append, transport=TransportConfig(credits_requested=1))
    async with (
        serve([Echo()], ["rdma://127.0.0.1:0"], options=ServeOptions(drain_s=0)) as server,
        connect(server.listening[0], PROGRAM, options=options) as connection,
    ):
        calls = [asyncio.create_task(connection.call(STUCK, b"")) for _ in range(2)]
        await asyncio.sleep(0)
        await connection.close()
        await asyncio.gather(*calls, return_exceptions=True)
    assert sorted((record.transmissions, record.sent_ns > 0) for record in records) == [(0, False), (1, True)]
