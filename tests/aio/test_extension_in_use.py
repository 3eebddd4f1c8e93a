"""Calls that the round-trip extension carries, seen from outside: records, counters, offered memory."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.metrics import MetricsExporter
from rpcrdma.aio.server.serve import Server, serve
from rpcrdma.errors import TransportClosed
from rpcrdma.nfs import v3
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.transport import Call, TransportStatistics
from support.programs import bulk_of, opaque_of, procedure
from support.simulated import not_simulated
from support.waiting import time_passes

pytestmark = [pytest.mark.versions("2-rtr"), pytest.mark.usefixtures("each_provider")]

LONG = 150_000
HANDLE = v3.nfs_fh3(data=b"handle")
NO_ATTRIBUTES = v3.post_op_attr(False, None)
HEADERS_MAX = 200
NUMBER = 0x20000005
REVERSE = procedure(NUMBER, 1, "reverse", bulk_of(LONG), opaque_of(LONG), bound=ReplyBound(20_000))


class Files(v3.NFS_V3_Service):
    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(min(args.count, LONG))
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NO_ATTRIBUTES, len(data), False, data))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        wcc = v3.wcc_data(v3.pre_op_attr(False, None), NO_ATTRIBUTES)
        result = v3.WRITE3resok(wcc, len(args.data), v3.stable_how.FILE_SYNC, b"verifier")
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, result)


class Scene:
    """A server, a connection to it, and the records of its calls."""

    def __init__(self, server: Server, connection: Connection, records: list[Call]) -> None:
        self.server = server
        self.connection = connection
        self.records = records

    @property
    def counted(self) -> TransportStatistics:
        assert self.connection.statistics is not None
        return replace(self.connection.statistics)

    async def read(self, octets: int, placement: str = "", into: bytearray | None = None) -> memoryview:
        arguments = v3.READ3args(HANDLE, 0, octets)
        reply = await self.connection.call(v3.READ, arguments, placement=placement, into=into)
        assert isinstance(reply.value, v3.READ3resok)
        assert len(reply.value.data) == min(octets, LONG)
        return memoryview(reply.value.data)

    async def write(self, octets: int, placement: str = "") -> None:
        arguments = v3.WRITE3args(HANDLE, 0, octets, v3.stable_how.FILE_SYNC, bytes(octets))
        reply = await self.connection.call(v3.WRITE, arguments, placement=placement)
        assert isinstance(reply.value, v3.WRITE3resok)
        assert reply.value.count == octets


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    records: list[Call] = []
    async with (
        serve([Files()], ["rdma://127.0.0.1:0"]) as server,
        connect(server.listening[0], v3.PROGRAM, options=ConnectOptions(on_call=records.append)) as connection,
    ):
        yield Scene(server, connection, records)


async def test_a_record_and_the_counters_say_which_way_was_asked_for() -> None:
    async with scene() as it:
        await it.write(LONG)
        await it.read(LONG)
        for placement in ("rdma", "explicit", "choice", "by-size"):
            await it.write(LONG, placement)
            await it.read(LONG, placement)
        await it.connection.call(v3.NULL, None)
        assert [record.travelled for record in it.records] == [
            "argument by send", "result by send",
            "read chunk", "write chunk",
            "read chunk", "write chunk",
            "argument by send", "result by choice",
            "argument by send", "result by size",
            "short",
        ]  # fmt: skip
        counted = it.counted
        # The server has chosen to send by choice, and to write by size.
        assert (counted.calls, counted.calls_short, counted.calls_by_send, counted.calls_by_rdma) == (11, 1, 5, 5)
        written, read = it.records[:2]
        assert 0 <= written.octets_sent - LONG <= HEADERS_MAX
        assert 0 <= read.octets_received - LONG <= HEADERS_MAX


class Reversing(Service):
    PROGRAM = Program(NUMBER, 1, "REVERSING", {REVERSE.number: REVERSE})

    def reverse(self, args: memoryview, context: CallContext) -> bytes:
        return bytes(args[::-1])


async def test_both_ends_count_a_call_by_send_alike_though_its_reply_is_a_long_one_of_the_version() -> None:
    data = bytes(range(250)) * 40
    async with (
        serve([Reversing()], ["rdma://127.0.0.1:0"]) as server,
        connect(server.listening[0], Reversing.PROGRAM) as connection,
    ):
        assert (await connection.call(REVERSE, data)) == data[::-1]
        for counted in (connection.statistics, server.statistics().counters):
            assert counted is not None
            assert (counted.calls, counted.calls_by_send, counted.calls_short) == (1, 1, 0)


async def test_results_in_segments_are_offered_no_memory() -> None:
    async with scene() as it:
        await it.read(100_000)
        assert (it.counted.octets_offered, it.counted.registrations) == (0, 0)
        # Memory of the caller is filled all the same.
        into = bytearray(100_000)
        assert (await it.read(100_000, into=into)).obj is into
        assert (it.counted.octets_offered, it.counted.registrations) == (0, 0)
        # An item longer than segments can hold is offered memory, and so is one for which the responder may choose.
        await it.read(1 << 20)
        assert it.counted.octets_offered == 1 << 20
        await it.read(80_000, "choice")
        assert it.counted.octets_offered == (1 << 20) + 80_000
        assert it.counted.calls_by_send == 4


@pytest.mark.providers("simulated")
async def test_the_calls_beside_one_given_up_while_its_argument_is_sent_fail_at_once() -> None:
    async with scene() as there:
        arguments = v3.WRITE3args(HANDLE, 0, LONG, v3.stable_how.FILE_SYNC, bytes(LONG))
        one, other = (
            asyncio.ensure_future(there.connection._present.call(v3.WRITE, arguments, placement="rtr"))
            for _ in range(2)
        )
        # The data has left by then, and has not arrived.
        await time_passes(10e-6)
        one.cancel()
        with pytest.raises(TransportClosed, match="still being sent"):
            await asyncio.wait_for(other, 60)


def samples_of(text: str) -> Iterator[tuple[tuple[str, ...], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield (sample.name, *sample.labels.values()), sample.value


@pytest.mark.thorough
@not_simulated
async def test_prometheus_is_told_what_went_by_send() -> None:
    async with scene() as it:
        await it.write(LONG)
        await it.read(LONG)
        # One answer by another way, in a message of the extension.
        await it.read(LONG, "explicit")
        exporter = MetricsExporter(it.server)
        exporter.start("127.0.0.1", 0)

        def get() -> str:
            with urllib.request.urlopen(exporter.url, timeout=60) as answer:
                return answer.read().decode()

        try:
            samples = dict(samples_of(await asyncio.to_thread(get)))
        finally:
            await exporter.close()
        assert samples["rpcrdma_calls_by_form_total", "by_send"] == 2
        assert samples["rpcrdma_groups_total", "received"] == 3
        assert samples["rpcrdma_groups_total", "sent"] == 2
        assert samples["rpcrdma_items_in_segments_total", "received"] == 1
        assert samples["rpcrdma_items_in_segments_total", "sent"] == 1
        assert samples["rpcrdma_transferred_bytes_total", "send"] == LONG
        assert samples["rpcrdma_items_joined_total",] == 0
        for direction in ("sent", "received"):
            assert samples["rpcrdma_reports_total", direction] == 0


async def test_both_ends_know_what_the_other_one_has() -> None:
    async with scene() as it:
        agreed = it.connection.negotiated
        assert agreed is not None
        json.dumps(agreed.extensions)
        told = agreed.extensions["round trips"]
        assert told["peer"] == {
            "rtr_support": "requests, responses, continued",
            "receive_buffer_structure": "1 of 4096, 8 of 4096 for data",
            "request_transmission_receive_limit": 8,
            "response_transmission_send_limit": 8,
        }
        assert told["own"] == told["peer"] | {"rtr_support": "responses, continued"}, "no services are offered here"
