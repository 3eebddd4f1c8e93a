"""Messages that belong to one turn of the event loop leave an RDMA connection together."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest

from local_tcp import without_network
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.client.connection import Connection
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.drivers import iwarp_driver, software_rnic
from rpcrdma.aio.drivers.effects import Effects
from rpcrdma.aio.server.serve import serve
from rpcrdma.iwarp import IwarpQueuePair, MpaRole
from rpcrdma.limits import CONNECTION_TURN_S
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from rpcrdma.wire.buffers import Buffer
from support.waiting import until

HANDLE = v3.nfs_fh3(data=b"handle")
CALLS = 16
OCTETS = 4 << 20
MIDDLE_OCTETS = 1 << 13
LOOPBACK_SEGMENT_OCTETS = 65483
PLAIN = ConnectOptions(extension="off")


class Sent(NamedTuple):
    """The side that sends, and the pieces of its gather list: small messages have one each."""

    role: MpaRole
    pieces: int


class Files(v3.NFS_V3_Service):
    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.waiting = 0

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(args.count)
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(v3.post_op_attr(False, None), args.count, False, data))

    async def getattr(self, _args: v3.GETATTR3args, _context: CallContext) -> v3.GETATTR3res:
        self.waiting += 1
        await self.go_on.wait()
        return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_STALE, None)


@asynccontextmanager
async def joined(files: Files, options: ConnectOptions = PLAIN) -> AsyncIterator[Connection]:
    """A client whose connection to a server of `files` has made a call."""
    async with (
        serve([files], ["rdma://127.0.0.1:0"]) as server,
        connect(server.listening[0], options=options) as client,
    ):
        await client.call(v3.NULL, None)
        yield client


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """An entry for each `sendmsg`. On a clock that jumps no turn takes too long."""
    monkeypatch.setattr(software_rnic, "native", None)
    found: list[Sent] = []
    next_gather = IwarpQueuePair.next_gather

    def counted(self: IwarpQueuePair, max_octets: int) -> list[Buffer]:
        gather = next_gather(self, max_octets)
        if gather:
            found.append(Sent(self.role, len(gather)))
        return gather

    monkeypatch.setattr(IwarpQueuePair, "next_gather", counted)
    return found


@without_network
async def test_a_call_that_is_alone_leaves_at_once(sent: list[Sent]) -> None:
    async with joined(Files()) as client:
        sent.clear()
        call = client.call(v3.NULL, None)
        # Until the call waits for its reply, without a turn of the loop.
        call.send(None)
        assert len(sent) == 1
        call.close()


@without_network
async def test_calls_of_one_turn_leave_together(sent: list[Sent]) -> None:
    files = Files()
    async with joined(files) as client:
        sent.clear()
        calls = [asyncio.ensure_future(client.call(v3.GETATTR, v3.GETATTR3args(HANDLE))) for _ in range(CALLS)]
        await until(lambda: files.waiting == CALLS)
        # The first call is alone when it is made, and eight more do not wait for the last of them.
        assert len(sent) == 3
        files.go_on.set()
        await asyncio.gather(*calls)


@without_network
async def test_eight_replies_of_a_turn_do_not_wait_for_further_ones(sent: list[Sent]) -> None:
    async with joined(Files()) as client:
        sent.clear()
        await asyncio.gather(*(client.call(v3.NULL, None) for _ in range(2 * CALLS)))
        replies = [each.pieces for each in sent if each.role is MpaRole.RESPONDER]
        assert sum(replies) == 2 * CALLS
        assert max(replies) <= 9


@without_network
async def test_replies_that_are_made_in_one_turn_leave_together(sent: list[Sent]) -> None:
    files = Files()
    async with joined(files) as client:
        calls = asyncio.gather(*(client.call(v3.GETATTR, v3.GETATTR3args(HANDLE)) for _ in range(CALLS)))
        await until(lambda: files.waiting == CALLS)
        sent.clear()
        files.go_on.set()
        await calls
        # The last reply finds no other call unanswered, and does not wait for the turn that was due.
        assert len(sent) <= 2


@without_network
async def test_data_that_are_placed_cause_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[RdmaConnection] = []
    turn = RdmaConnection._turn

    def counted(self: RdmaConnection) -> None:
        if not (self._queue_pair.completions or self._queue_pair.events):
            turns.append(self)
        turn(self)

    monkeypatch.setattr(RdmaConnection, "_turn", counted)
    monkeypatch.setattr(iwarp_driver, "_RECEIVE_BUDGET_OCTETS", OCTETS // 64)

    async with joined(Files()) as client:
        turns.clear()
        buffer = bytearray(OCTETS)
        await client.call(v3.READ, v3.READ3args(HANDLE, 0, OCTETS), into=buffer)
        # The data arrive in dozens of reads.
        assert turns.count(client._present) < 2


@without_network
async def test_calls_that_a_turn_leaves_to_the_next_one_are_answered_together(
    sent: list[Sent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(software_rnic, "maximum_segment_octets", lambda _sock: LOOPBACK_SEGMENT_OCTETS)
    # By this clock a turn has time for eight calls: the last seven of sixteen wait, and no reply leaves alone.
    clock = itertools.count()
    asyncio.get_running_loop().effects = Effects(clock=lambda: next(clock) * CONNECTION_TURN_S / 8)  # type: ignore[attr-defined]
    async with joined(Files(), replace(PLAIN, rpcrdma_version="1")) as client:
        # Credits, and a first call that leaves alone.
        await asyncio.gather(*(client.call(v3.NULL, None) for _ in range(CALLS)))
        sent.clear()
        memory = [bytearray(MIDDLE_OCTETS) for _ in range(CALLS)]
        read = v3.READ3args(HANDLE, 0, MIDDLE_OCTETS)
        await asyncio.gather(*(client.call(v3.READ, read, into=each) for each in memory))
        replies = [each.pieces for each in sent if each.role is MpaRole.RESPONDER]
        assert len(replies) <= 5, replies
