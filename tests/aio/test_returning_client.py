"""Calls to a client that loses its connection and comes back, over RDMA and over TCP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma import ConnectOptions, ReturningClient, connect, serve
from rpcrdma.aio.client.connect import Connection
from rpcrdma.errors import CallTimeout, LocalProtocolError, TransportClosed
from rpcrdma.rpc.calling import XidSource
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import CallContext, Service
from support.cases import each_case
from support.loops import in_virtual_time
from support.programs import procedure
from support.waiting import time_passes, until

FORWARD, REVERSE = 0x20000021, 0x20000022


JOIN = procedure(FORWARD, 1, "join")
COUNT, ADD = procedure(REVERSE, 1, "count"), procedure(REVERSE, 2, "add")


class Front(Service):
    PROGRAM = Program(FORWARD, 1, "FRONT_V1", {1: JOIN})
    IDEMPOTENT = frozenset((JOIN.number,))

    def __init__(self) -> None:
        self.client: ReturningClient | None = None
        self.callers: list[Any] = []

    def join(self, args: int, context: CallContext) -> int:
        self.callers.append(context.client)
        if self.client is None:
            self.client = ReturningClient(context.client, call_timeout_s=30.0)
        else:
            self.client.came_back(context.client)
        return args


class Back(Service):
    PROGRAM = Program(REVERSE, 1, "BACK_V1", {p.number: p for p in (COUNT, ADD)})
    IDEMPOTENT = frozenset((COUNT.number,))

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.entered = 0
        self.sum = 0

    def count(self, args: int, context: CallContext) -> int:
        return self.sum

    async def add(self, args: int, context: CallContext) -> int:
        self.entered += 1
        await self.gate.wait()
        self.sum += args
        return self.sum


@asynccontextmanager
async def rig(scheme: str) -> AsyncIterator[tuple[Front, Back, Connection, ReturningClient]]:
    front, back = Front(), Back()
    options = ConnectOptions(services=[back])
    async with (
        serve([front], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], Front.PROGRAM, options=options) as connection,
    ):
        await connection.call(JOIN, 1)
        assert front.client is not None
        yield front, back, connection, front.client


async def lose(front: Front, connection: Connection) -> None:
    """Cuts the connection and waits until the client has another one."""
    count = connection.reconnects
    connection._present.abort("cut")
    await connection.wait_reconnected(count)


@pytest.mark.req("BD-19")
async def test_a_call_waits_for_the_client_to_come_back(scheme: str) -> None:
    async with rig(scheme) as (front, _, connection, client):
        assert await client.call(ADD, 1) == 1
        await lose(front, connection)
        await front.callers[-1].wait_closed()
        assert not client.present
        calling = asyncio.ensure_future(client.call(ADD, 2))
        await asyncio.sleep(0)
        assert not calling.done()
        await connection.call(JOIN, 1)
        assert client.present
        assert await calling == 3


async def test_calls_of_the_connection_pass_over_the_identifiers_of_unfinished_calls(scheme: str) -> None:
    async with rig(scheme) as (front, back, _, client):
        assert await client.call(ADD, 1) == 1
        back.gate.clear()
        calling = asyncio.ensure_future(client.call(ADD, 2))
        await until(lambda: back.entered == 2)
        (xid,) = client._xids.taken
        front.callers[0]._xid = (xid - 1) & 0xFFFFFFFF
        assert await front.callers[0].call(COUNT, 0) == 1
        back.gate.set()
        assert await calling == 3


async def test_callers_of_one_client_pass_over_the_identifiers_of_each_other(scheme: str) -> None:
    async with rig(scheme) as (front, back, _, client):
        assert await client.call(ADD, 1) == 1
        back.gate.clear()
        calling = asyncio.ensure_future(client.call(ADD, 2))
        await until(lambda: back.entered == 2)
        (xid,) = client._xids.taken
        other = ReturningClient(front.callers[0])
        other._xids = XidSource(xid)
        other.came_back(front.callers[0])
        assert await other.call(COUNT, 0) == 1
        # The call of an earlier connection has moved here.
        moved = ReturningClient(HalfOpen())  # type: ignore[arg-type]
        moved._xids = XidSource(xid)
        counting = asyncio.ensure_future(moved.call(COUNT, 0))
        await asyncio.sleep(0)
        moved.came_back(front.callers[0])
        for _ in range(5):
            await asyncio.sleep(0)
        back.gate.set()
        assert (await calling, await counting) == (3, 3)


async def test_a_call_whose_reply_was_lost_runs_once_at_the_client(scheme: str) -> None:
    async with rig(scheme) as (front, back, connection, client):
        back.gate.clear()
        calling = asyncio.ensure_future(client.call(ADD, 5))
        await until(lambda: back.entered == 1)
        await lose(front, connection)
        back.gate.set()
        await connection.call(JOIN, 1)
        assert await calling == 5
        assert (back.entered, back.sum) == (1, 5)


class HalfOpen:
    """A connection of which this end does not hear that it has ended; with `answer` one that works.

    The first call raises `error`, if there is one.
    """

    closed = False
    xids_kept: Collection[int] = ()

    def __init__(self, answer: int | None = None, error: Exception | None = None) -> None:
        self.answer = answer
        self.error = error
        self.xids: list[int] = []
        self.ended = 0

    def ready(self) -> None:
        pass

    async def call(self, procedure: Any, args: Any, *, xid: int, **_: Any) -> int:
        self.xids.append(xid)
        try:
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            if self.answer is None:
                await asyncio.Event().wait()
            assert self.answer is not None
            return self.answer
        finally:
            self.ended += 1


async def test_calls_move_with_a_client_that_comes_back_on_another_connection() -> None:
    """They keep their XIDs, and have ended on the connection before: nothing of them is exposed there."""

    before, after = HalfOpen(), HalfOpen(7)
    client = ReturningClient(before)  # type: ignore[arg-type]
    calling = [asyncio.ensure_future(client.call(ADD, number)) for number in range(2)]
    await asyncio.sleep(0)
    client.came_back(before)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert (len(before.xids), before.ended) == (2, 0)
    client.came_back(after)  # type: ignore[arg-type]
    assert await asyncio.gather(*calling) == [7, 7]
    assert (after.xids, before.ended) == (before.xids, 2)


@each_case("is_answered", [True, False])
@in_virtual_time
async def test_a_call_waits_on_an_earlier_connection_until_its_identifier_is_free_there(*, is_answered: bool) -> None:
    before, between, answered = HalfOpen(), HalfOpen(), HalfOpen(7)

    async def outstanding(*_: Any, **__: Any) -> int:
        raise LocalProtocolError("a call with this XID is outstanding")

    client = ReturningClient(before)  # type: ignore[arg-type]
    calling = asyncio.ensure_future(client.call(ADD, 1, timeout_s=20))
    await asyncio.sleep(0)
    client.came_back(between)  # type: ignore[arg-type]
    await time_passes(1)
    before.call = outstanding  # type: ignore[method-assign]
    before.xids_kept = before.xids
    client.came_back(before)  # type: ignore[arg-type]
    await time_passes(1)
    assert not calling.done()
    if is_answered:
        before.call = answered.call  # type: ignore[method-assign]
        assert await calling == 7
        assert answered.xids == before.xids
    else:
        with pytest.raises(CallTimeout, match="ADD: no reply within 20 s"):
            await calling


async def test_a_call_that_times_out_names_its_own_limit_and_not_what_was_left_of_it() -> None:
    error = CallTimeout("ADD: no reply within 9.998 s; the client may offer no services")
    client = ReturningClient(HalfOpen(7, error))  # type: ignore[arg-type]
    with pytest.raises(CallTimeout, match="ADD: no reply within 30 s; the client may"):
        await client.call(ADD, 1, timeout_s=30)


async def test_a_timeout_of_the_arguments_is_not_taken_for_a_client_that_has_come_back() -> None:
    client = ReturningClient(HalfOpen(7, TimeoutError("of the arguments")))  # type: ignore[arg-type]
    with pytest.raises(TimeoutError, match="of the arguments"):
        await client.call(ADD, 1)


async def test_a_client_that_stays_away_costs_a_call_its_time_out_only(scheme: str) -> None:
    async with rig(scheme) as (front, _, connection, client):
        await lose(front, connection)
        await front.callers[-1].wait_closed()
        with pytest.raises(CallTimeout, match=r"ADD: the client did not come back within 0\.01 s"):
            await client.call(ADD, 1, timeout_s=0.01)
        await connection.call(JOIN, 1)
        assert await client.call(ADD, 1) == 1


@pytest.mark.req("BD-19")
@each_case("wait_s", [3600.0, math.inf])
@in_virtual_time
async def test_how_long_a_call_waits_for_the_client_is_set_and_may_have_no_end(wait_s: float) -> None:
    gone = HalfOpen()
    gone.closed = True
    patient = ReturningClient(gone, call_timeout_s=wait_s)  # type: ignore[arg-type]
    waiting = [asyncio.ensure_future(patient.call(ADD, 1)) for _ in range(3)]
    with pytest.raises(CallTimeout):
        await patient.call(ADD, 1, timeout_s=0.01)
    await time_passes(min(wait_s, 1e7) - 1)
    assert not any(calling.done() for calling in waiting)
    patient.came_back(HalfOpen(7))  # type: ignore[arg-type]
    assert await asyncio.gather(*waiting) == [7, 7, 7]


async def test_calls_to_a_client_that_is_not_expected_back_fail(scheme: str) -> None:
    async with rig(scheme) as (front, _, connection, client):
        await lose(front, connection)
        await front.callers[-1].wait_closed()
        calling = asyncio.ensure_future(client.call(ADD, 1))
        await asyncio.sleep(0)
        client.forget()
        for one in (calling, client.call(COUNT, 0)):
            with pytest.raises(TransportClosed, match="not expected back"):
                await one


async def test_a_close_that_is_cancelled_in_any_turn_of_the_loop_ends_the_calls_of_the_server(scheme: str) -> None:
    async def cancelled_after(turns: int) -> None:
        async with rig(scheme) as (_, back, connection, client):
            assert connection._answering is not None
            runner = connection._answering.runner
            back.gate.clear()
            calling = asyncio.ensure_future(client.call(ADD, 5))
            await until(lambda: runner.running == 1)
            closing = asyncio.ensure_future(connection.close())
            for _turn in range(turns):
                await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing])
            assert not runner.running, f"cancelled after {turns} turns"
            calling.cancel()

    for turns in range(1, 15):
        await cancelled_after(turns)
