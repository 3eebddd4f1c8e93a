"""Measures calls between one client and one server in a simulated fabric: a row for each operation and variant.

The calls run the real code of both ends in virtual time. All counts and times are taken from the events of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rpcrdma import ServeOptions, connect, serve
from rpcrdma.testing.virtual import EventKind, Fabric, FabricModel, run
from rpcrdma_lab.simulation import measured_calls
from rpcrdma_lab.simulation.critical_path import CallAccount, account
from rpcrdma_lab.simulation.latency_curves import Curves
from rpcrdma_lab.simulation.measured_calls import SHORT_CALL, Operation, Variant, services

__all__ = ["COLUMNS", "Row", "cells", "curves_over_distance", "curves_over_size", "measured", "rows"]

_URL = "rdma://server"
_WARM_UP_CALLS = 4
"""Calls after which a connection's credits are settled: a server of version 2 grants all with its first replies."""
_SETTLE_S = 1.0
"""Virtual seconds before and after an operation, in which all effects of earlier calls end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The counts and times of one operation in one variant, with data of `size_octets` over a distance in miles."""

    operation: str
    variant: str
    size_octets: int
    miles: float
    account: CallAccount


_ENDS = ("int S", "int C", "reg S", "reg C", "inv S", "inv C", "remote inv")
COLUMNS = ("trips", *_ENDS, "sends", "reads", "writes", "acks", "µs")
"""The headings of `cells`: S is the server (responder), C the client (requester)."""


def cells(found: CallAccount) -> list[str]:
    """Returns a table row, one text for each of `COLUMNS`: round trips, counts of events, and latency in microseconds.

    "1+2" stands for one event on the critical path and two beside it.
    """
    server, client = found.responder, found.requester
    pairs = (
        (server.interrupts, server.interrupts_beside),
        (client.interrupts, client.interrupts_beside),
        (server.registrations, server.registrations_beside),
        (client.registrations, client.registrations_beside),
        (server.local_invalidations, server.local_invalidations_beside),
        (client.local_invalidations, client.local_invalidations_beside),
        (client.remote_invalidations, client.remote_invalidations_beside),
    )
    return [
        f"{found.round_trips:g}",
        *(f"{on_path}+{beside}" if beside else str(on_path) for on_path, beside in pairs),
        *map(str, (found.sends, found.reads, found.writes, found.acknowledgements)),
        f"{found.latency_s * 1e6:.2f}",
    ]


def measured(model: FabricModel, variant: Variant, operation: Operation, size: int) -> Row:
    """Measures an operation with `size` octets of data on a new simulated connection, and returns counts and times.

    The calls run in a virtual event loop of their own.

    Args:
        model: the delays of the fabric, which include the distance.
        variant: the settings of both ends.
        operation: the kind of call, and the number of calls made at the same time.
        size: octets of data of a call.

    Raises:
        RpcRdmaError: a call failed.
        RuntimeError: an event loop is running in this thread.
    """
    return Row(
        operation=operation.name,
        variant=variant.name,
        size_octets=size,
        miles=model.miles,
        account=run(lambda: _measure(model, variant, operation, size)),
    )


def rows(model: FabricModel, size: int, variants: Sequence[Variant]) -> list[Row]:
    """Measures all of `measured_calls.OPERATIONS` in each variant (settings of both ends).

    Returns the rows, operation by operation. `model` has the delays and the distance. `size` is the octets of data of a
    call.

    Raises:
        RpcRdmaError: a call failed.
        RuntimeError: an event loop is running in this thread.
    """
    return [measured(model, variant, each, size) for each in measured_calls.OPERATIONS for variant in variants]


def curves_over_distance(
    model: FabricModel, size: int, miles: Sequence[float], variants: Sequence[Variant], operations: Sequence[Operation]
) -> list[Curves]:
    """Measures latencies over distances; returns for each operation, in order, the curves of all variants.

    `miles` are the distances, in ascending order. `size` is the octets of data of a call. `model` has the other delays;
    its distance is not used.

    Raises:
        RpcRdmaError: a call failed.
        RuntimeError: an event loop is running in this thread.
    """
    points = [(each, replace(model, miles=each), size) for each in miles]
    return [_curves("miles", points, variants, operation) for operation in operations]


def curves_over_size(
    model: FabricModel, sizes: Sequence[int], variants: Sequence[Variant], operations: Sequence[Operation]
) -> list[Curves]:
    """Measures latencies over sizes of data; returns for each operation, in order, the curves of all variants.

    `sizes` are octets of data of a call, in ascending order. `model` has the delays and the distance.

    Raises:
        RpcRdmaError: a call failed.
        RuntimeError: an event loop is running in this thread.
    """
    points = [(size, model, size) for size in sizes]
    return [_curves("octets", points, variants, operation) for operation in operations]


def _curves(
    over: str,
    points: Sequence[tuple[float, FabricModel, int]],
    variants: Sequence[Variant],
    operation: Operation,
) -> Curves:
    return Curves(
        operation=operation.name,
        over=over,
        at=[at for at, _, _ in points],
        latencies_s={
            variant.name: [measured(model, variant, operation, size).account.latency_s for _, model, size in points]
            for variant in variants
        },
    )


async def _measure(model: FabricModel, variant: Variant, operation: Operation, size: int) -> CallAccount:
    fabric = Fabric(model)
    client = fabric.node("client")
    called: list[int] = []
    returned: list[int] = []

    async def call() -> None:
        called.append(client.record(EventKind.CALL, operation.name))
        await operation.call(connection, size)
        returned.append(client.record(EventKind.RETURN, operation.name))

    async with (
        serve(services(), [_URL], options=ServeOptions(rdma=variant.server_config(fabric.node("server")))),
        connect(_URL, options=variant.connect_options(client)) as connection,
    ):
        for _ in range(_WARM_UP_CALLS):
            await SHORT_CALL.call(connection, 0)
        await asyncio.sleep(_SETTLE_S)
        if operation.calls == 1:
            await call()
        else:
            await asyncio.gather(*(call() for _ in range(operation.calls)))
        await asyncio.sleep(_SETTLE_S)
    return account(fabric.trace.events, called, returned)
