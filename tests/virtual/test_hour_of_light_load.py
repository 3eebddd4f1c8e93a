"""An hour of one call a second, or of keep-alive calls, has the events of its calls alone: idle time costs nothing."""

from __future__ import annotations

import pytest

from one_file_world import read_of, world
from rpcrdma.aio.client.connect import Connection
from rpcrdma.nfs import v3
from rpcrdma.testing.virtual import EventKind, Fabric, now_s
from support.waiting import time_passes

HOUR_S = 3600


@pytest.mark.thorough
def test_an_hour_of_one_call_a_second_has_few_events_for_each() -> None:
    async def use(fabric: Fabric, connection: Connection) -> None:
        del fabric
        for second in range(HOUR_S):
            procedure, args = read_of(100) if second % 10 else (v3.NULL, None)
            await connection.call(procedure, args)
            await time_passes(second + 1 - now_s())

    trace = world(use)
    assert sum(event.kind is EventKind.HANDLE for event in trace.events) >= HOUR_S
    assert len(trace.events) < 30 * HOUR_S


def test_an_idle_hour_has_the_events_of_its_keep_alive_calls_alone() -> None:
    callbacks: list[int] = []

    async def use(fabric: Fabric, connection: Connection) -> None:
        await connection.call(v3.NULL, None)
        began = fabric.loop.callbacks
        await time_passes(HOUR_S)
        callbacks.append(fabric.loop.callbacks - began)

    trace = world(use)
    asked = sum(event.kind is EventKind.HANDLE for event in trace.events)
    assert HOUR_S / 10 - 5 <= asked <= HOUR_S / 10 + 5
    assert callbacks[0] < 40 * asked
    assert len(trace.events) < 20 * asked
