"""Octets in objects of any format: whole values arrive, others are refused, a wrong length ends one connection."""

from __future__ import annotations

import array
import asyncio
import ctypes
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.serve import Server, serve
from rpcrdma.errors import RemoteSystemError, TransportClosed
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import CallContext, Service, in_worker
from rpcrdma.xdr.codec import BulkItem, Encoder
from support.cases import each_case
from support.programs import WORD, bulk_of, opaque_of, procedure

NUMBER = 0x20000031
MOST = 1 << 20
LARGE = 10_000
"""Items: more octets than any version sends in one message, and less than TCP takes in one record."""


def counting(octets: int) -> bytearray:
    return bytearray(number % 251 for number in range(octets))


IN_VIEWS: dict[str, Callable[[int], Any]] = {
    "array of doubles": lambda count: array.array("d", range(count)),
    "view of doubles": lambda count: memoryview(array.array("d", range(count))),
    "ctypes with a byte order": lambda count: (ctypes.c_double * count)(*range(count)),
    "two dimensions": lambda count: memoryview(counting(8 * count)).cast("B", (count // 5, 40)),
    "signed octets": lambda count: memoryview(bytearray(8 * count)).cast("b"),
    "octets": lambda count: counting(8 * count),
}


class OnDevice:
    """As arrays of CuPy and Numba show themselves."""

    __cuda_array_interface__: ClassVar[dict[str, object]] = {"shape": (3,), "typestr": "<f8", "version": 3}


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "every other octet": (lambda: memoryview(bytes(100))[::2], "not C-contiguous.*numpy.ascontiguousarray"),
    "backwards": (lambda: memoryview(bytes(100))[::-1], "not C-contiguous"),
    "every other double": (lambda: memoryview(array.array("d", range(100)))[::2], "not C-contiguous"),
    "on a device": (OnDevice, "OnDevice is in the memory of a device: copy it to the host"),
    "a text": (lambda: "text", "str has no octets"),
}


def encode_miscounted(enc: Encoder, value: Any) -> None:
    """An item whose length is not that of its octets, as no method of the encoder makes one."""
    enc.u32(len(value), "data")
    enc.items.append(BulkItem(len(enc.reduced), len(enc.reduced), value))


BULK, OPAQUE = bulk_of(MOST), opaque_of(MOST)
MISCOUNTED = (encode_miscounted, BULK[1])
PLACED = ReplyBound(4, (MOST // 4,))
GIVE = procedure(NUMBER, 1, "give", WORD, BULK, bound=PLACED)
TAKE = procedure(NUMBER, 2, "take", BULK, BULK, bound=PLACED)
GIVE_OPAQUE = replace(procedure(NUMBER, 3, "give", WORD, OPAQUE), name="GIVE_OPAQUE")
TAKE_OPAQUE = procedure(NUMBER, 2, "take", OPAQUE, BULK, bound=PLACED)
GIVE_MISCOUNTED = replace(procedure(NUMBER, 4, "give", WORD, MISCOUNTED, bound=PLACED), name="MISCOUNTED")
GIVE_MISCOUNTED_LATE = procedure(NUMBER, 5, "late", WORD, MISCOUNTED, bound=PLACED)
TAKE_MISCOUNTED = procedure(NUMBER, 2, "take", MISCOUNTED, BULK, bound=PLACED)
SERVED = {each.number: each for each in (GIVE, TAKE, GIVE_OPAQUE, GIVE_MISCOUNTED, GIVE_MISCOUNTED_LATE)}


class Plain(Service):
    """Gives `result` to one caller, and the argument back to another."""

    PROGRAM = Program(NUMBER, 1, "PLAIN", SERVED)

    def __init__(self, result: Any = b"") -> None:
        self.result = result
        self.taken = 0

    def give(self, args: int, context: CallContext) -> Any:
        return self.result

    @in_worker
    def late(self, args: int, context: CallContext) -> Any:
        return self.result

    def take(self, args: memoryview, context: CallContext) -> memoryview:
        self.taken += 1
        return args


@asynccontextmanager
async def joined(scheme: str, service: Service) -> AsyncIterator[tuple[Server, Connection]]:
    options = ConnectOptions(reconnect=False)
    async with (
        serve([service], [f"{scheme}://127.0.0.1:0"]) as server,
        connect(server.listening[0], Plain.PROGRAM, options=options) as client,
    ):
        yield server, client


def octets_of(value: Any) -> bytes:
    return memoryview(value).tobytes()


async def test_results_and_arguments_of_any_format_arrive_whole(scheme: str) -> None:
    service = Plain()
    async with joined(scheme, service) as (_, client):
        for kind, count in itertools.product(IN_VIEWS, (0, 50, LARGE)):
            if count == 0 and kind == "two dimensions":
                continue
            service.result = value = IN_VIEWS[kind](count)
            whole = octets_of(value)
            assert len(whole) == 8 * count
            assert await client.call(GIVE, 0) == whole, kind
            assert await client.call(TAKE, value) == whole, kind
            if count < LARGE:
                assert await client.call(GIVE_OPAQUE, 0) == whole, kind
                assert await client.call(TAKE_OPAQUE, value) == whole, kind
            # A result is placed in memory of any format.
            service.result = octets = bytes(counting(8 * count))[::-1]
            memory = IN_VIEWS[kind](count)
            assert await client.call(GIVE, 0, into=memory) == octets, kind
            assert octets_of(memory) == octets, kind


async def test_an_argument_that_shows_no_octets_is_refused_by_its_name(scheme: str) -> None:
    service = Plain(b"octets")
    async with joined(scheme, service) as (_, client):
        for make, why in REFUSED.values():
            for procedure in (TAKE, TAKE_OPAQUE):
                with pytest.raises(TypeError, match=f"data: .*{why}"):
                    await client.call(procedure, make())
            with pytest.raises(TypeError, match=f"into: .*{why}"):
                await client.call(GIVE, 0, into=make())
        for octets in (8, 80_000):
            with pytest.raises(TypeError, match="into: the bytes is read-only"):
                await client.call(TAKE, bytes(8), into=bytes(octets))
        assert service.taken == 0
        assert await client.call(GIVE, 0) == b"octets"


# The result is encoded above the transport.
@pytest.mark.providers("simulated")
@pytest.mark.versions("2")
@each_case("kind", REFUSED)
async def test_a_result_that_shows_no_octets_costs_its_call_alone(
    scheme: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, why = REFUSED[kind]
    async with joined(scheme, Plain(make())) as (_, client):
        with pytest.raises(RemoteSystemError):
            await client.call(GIVE, 0)
        assert await client.call(TAKE, b"go on") == b"go on"
    (logged,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert logged.exc_info is not None
    with pytest.raises(TypeError, match=why):
        raise logged.exc_info[1] or AssertionError


@asynccontextmanager
async def one_fault(scheme: str, service: Plain, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Connection]:
    """A client whose connection, and no other, ends by a fault that is logged and escapes nowhere."""
    escaped: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
    async with joined(scheme, service) as (server, client), connect(server.listening[0], Plain.PROGRAM) as other:
        assert await other.call(TAKE, b"there") == b"there"
        yield client
        with pytest.raises(TransportClosed):
            await client.call(TAKE, b"after")
        assert await other.call(TAKE, b"go on") == b"go on"
        assert other.reconnects == 0
        async with connect(server.listening[0], Plain.PROGRAM) as newcomer:
            assert await newcomer.call(TAKE, b"new") == b"new"
    assert escaped == []
    (fault,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "a fault in the connection with 127.0.0.1" in fault


@each_case("procedure", [GIVE_MISCOUNTED, GIVE_MISCOUNTED_LATE])
@each_case("count", [10, LARGE])
async def test_a_reply_of_another_length_than_it_says_ends_its_connection_alone(
    scheme: str, procedure: Procedure[Any, Any], count: int, caplog: pytest.LogCaptureFixture
) -> None:
    service = Plain(memoryview(array.array("d", range(count))))
    async with one_fault(scheme, service, caplog) as client:
        with pytest.raises(TransportClosed):
            await client.call(procedure, 0)


@each_case("count", [10, LARGE])
async def test_a_call_of_another_length_than_it_says_ends_its_connection_alone(
    scheme: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    service = Plain()
    async with one_fault(scheme, service, caplog) as client:
        assert await client.call(TAKE, b"before") == b"before"
        with pytest.raises(TransportClosed):
            await client.call(TAKE_MISCOUNTED, memoryview(array.array("d", range(count))))
        assert service.taken == 2
