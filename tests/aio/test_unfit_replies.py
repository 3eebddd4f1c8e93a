"""Replies that do not fit the offers of their calls: the words at the caller and in the server's log."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter_ns
from typing import Any
from unittest.mock import Mock

import pytest

from client_calls import MIB
from rpcrdma.aio.answering import answering
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.errors import OutOfMemory, RemoteSystemError
from rpcrdma.limits import CALL_OCTETS_PULLED_MAX
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.reply_cache import ReplyCache
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.transport import Call, CallRefused, ChunkRefused, TransportConfig
from rpcrdma.xdr.codec import Payload
from support.cases import each_case
from support.programs import WORD, bulk_of, opaque_of, procedure

pytestmark = pytest.mark.usefixtures("each_provider")


GIVE = procedure(0x20000023, 1, "give", result=opaque_of(4 * MIB))
TAKE = procedure(0x20000023, 2, "take", opaque_of(4 * MIB))
COPY = procedure(0x20000023, 3, "copy", result=bulk_of(200), bound=ReplyBound(4, (200,)))
HOLD = procedure(0x20000023, 4, "hold", (WORD[0], Mock(side_effect=MemoryError)))


class Plain(Service):
    PROGRAM = Program(0x20000023, 1, "PLAIN", {1: GIVE, 2: TAKE, 3: COPY, 4: HOLD})

    def __init__(self) -> None:
        self.ran = self.ran_ns = 0

    def give(self, args: int, context: CallContext) -> bytes:
        self.ran += 1
        self.ran_ns = perf_counter_ns()
        return bytes(args)

    def take(self, args: bytes, context: CallContext) -> int:
        return len(args)

    def hold(self, args: int, context: CallContext) -> int:
        return args

    def copy(self, args: int, context: CallContext) -> bytes:
        return bytes(args)


@asynccontextmanager
async def joined(service: Plain, **options: Any) -> AsyncIterator[Connection]:
    async with (
        serve([service], ["rdma://127.0.0.1:0"]) as server,
        connect(server.listening[0], Plain.PROGRAM, options=ConnectOptions(**options)) as client,
    ):
        yield client
        assert client.reconnects == 0


async def test_a_result_that_is_larger_than_expected_names_the_remedy_on_both_sides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Plain()
    async with joined(service, transport=TransportConfig(reply_octets_max=MIB)) as client:
        assert client.negotiated is not None
        # Where a reply may have several messages, or be asked for again, only one over the cap does not come.
        octets = 70_000 if client.negotiated.version == 1 else 2 * MIB
        with pytest.raises(ChunkRefused) as raised:
            await client.call(GIVE, octets)
        said = str(raised.value)
        assert ("ERR_CHUNK" in said) == (octets == 70_000)
        assert "the reply of GIVE could have 65536 octets" in said
        assert "Procedure.bound" in said
        assert service.ran == 1
        assert await client.call(GIVE, 60_000) == bytes(60_000)
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    how = "for a Reply chunk of " if client.negotiated.version == 1 else "without a Reply chunk"
    told = f"the reply to GIVE could not be sent: a reply of {octets + 28} octets {how}"
    assert said.startswith(told)
    assert "Procedure.bound" in said
    assert "ERR_CHUNK" not in said, "version 2 has no such code"


@pytest.mark.providers("iwarp")
async def test_replies_that_cannot_be_sent_count_as_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small = ConnectOptions(transport=TransportConfig(reply_octets_max=MIB))
    async with (
        serve([Plain()], ["rdma://127.0.0.1:0"], options=ServeOptions(count_calls=True)) as server,
        connect(server.listening[0], Plain.PROGRAM, options=small) as client,
    ):
        with pytest.raises(ChunkRefused):
            await client.call(GIVE, 2 * MIB)
        with monkeypatch.context() as patch:
            patch.setattr(Payload, "joined", Mock(side_effect=OutOfMemory))
            with pytest.raises((CallRefused, ChunkRefused)):
                await client.call(COPY, 100)
        assert len(await client.call(COPY, 100)) == 100
        counted = {(each.procedure, each.status): each.ops for each in server.statistics().rdma.operations}
    assert counted == {("GIVE", "REFUSED"): 1, ("COPY", "REFUSED"): 1, ("COPY", "SUCCESS"): 1}
    assert caplog.messages[-1] == (
        "the reply to COPY could not be sent: there is no memory to copy the reply, and so the call was refused: the "
        "server needs more memory"
    )


async def test_a_call_whose_chunks_are_refused_names_the_servers_limit() -> None:
    async with joined(Plain()) as client:
        with pytest.raises((ChunkRefused, CallRefused)) as raised:
            await client.call(TAKE, bytes(2 * MIB))
        assert f"takes {CALL_OCTETS_PULLED_MAX}, or what TransportConfig(call_octets_pulled_max" in str(raised.value)
        assert await client.call(TAKE, bytes(MIB)) == MIB


async def test_a_call_for_which_there_is_no_memory_fails_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with joined(Plain()) as client:
        with monkeypatch.context() as patch:
            patch.setattr(answering, "detached", Mock(side_effect=MemoryError))
            with pytest.raises(RemoteSystemError):
                await client.call(GIVE, 1)
        with pytest.raises(RemoteSystemError):
            await client.call(HOLD, 1)
        assert await client.call(GIVE, 1) == bytes(1)
    assert caplog.messages == [f"{name} was answered with SYSTEM_ERR: no memory is left" for name in ("GIVE", "HOLD")]


@pytest.mark.versions("2", "2-rtr")
@each_case("octets", [2 * MIB, 4 * MIB])
async def test_a_reply_larger_than_expected_comes_at_the_second_try_of_a_call_that_runs_once(
    monkeypatch: pytest.MonkeyPatch, octets: int
) -> None:
    service = Plain()
    records: list[Call] = []
    # Entries that the cache keeps for long have no part in it.
    monkeypatch.setattr(answering, "ReplyCache", functools.partial(ReplyCache, octets_max=0))
    async with joined(service, on_call=records.append) as client:
        for ran in (1, 2):
            assert len(await client.call(GIVE, octets)) == octets
            assert service.ran == ran
            assert records[-1].sent_ns > service.ran_ns, "the handler ran between the first try and the last"
        await client.call(GIVE, 1)
        once = records[-1].octets_sent
        assert [(each.transmissions, each.octets_sent) for each in records] == [(2, 2 * once)] * 2 + [(1, once)]
        assert client.statistics is not None
        assert client.statistics.resent_larger == 2


@pytest.mark.versions("2", "2-rtr")
async def test_a_call_whose_reply_was_not_held_for_it_fails_and_does_not_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Plain()
    monkeypatch.setattr(answering, "ReplyCache", functools.partial(ReplyCache, refused_octets_max=2 * MIB))
    async with joined(service) as client:
        with pytest.raises(CallRefused):
            await client.call(GIVE, 2 * MIB)
        assert service.ran == 1
        # With its RPC header this one is as long as may be held.
        assert len(await client.call(GIVE, 2 * MIB - 28)) == 2 * MIB - 28
        assert service.ran == 2
