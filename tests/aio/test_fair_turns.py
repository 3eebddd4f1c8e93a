"""Calls that the event loop answers itself: a connection with many of them leaves turns to the others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import local_tcp
from jumping_sockets import jumping
from local_tcp import without_network
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.effects import Effects
from rpcrdma.aio.drivers.iwarp_driver import IwarpDriver
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.aio.server.serve import serve
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from rpcrdma.wire.bulk_memory import ResultMemory
from support.cases import each_case

BURST = 30
HANDLE = v3.nfs_fh3(data=b"handle")


class Inline(v3.NFS_V3_Service):
    """Notes which calls are answered, in their order: ACCESS of one client, GETATTR of the other."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.on_first: Callable[[], Any] = lambda: None

    def access(self, _args: v3.ACCESS3args, _context: CallContext) -> v3.ACCESS3res:
        if not self.answered:
            self.on_first()
        self.answered.append("access")
        return v3.ACCESS3res(v3.nfsstat3.NFS3ERR_STALE, v3.ACCESS3resfail(v3.post_op_attr(False, None)))

    def getattr(self, _args: v3.GETATTR3args, _context: CallContext) -> v3.GETATTR3res:
        self.answered.append("getattr")
        return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_STALE, None)


@each_case("scheme", ["tcp", "rdma"])
@each_case("slow", [True, False])
@without_network
async def test_a_burst_of_slow_calls_leaves_turns_to_another_connection(scheme: str, slow: bool) -> None:
    # Each look at the clock takes a second, or no time at all.
    seconds: Iterator[int] = itertools.repeat(0)
    asyncio.get_running_loop().effects = Effects(clock=lambda: float(next(seconds)))  # type: ignore[attr-defined]
    service = Inline()
    async with serve([service], [f"{scheme}://127.0.0.1:0"]) as server:
        options = ConnectOptions(extension="off")
        url = server.listening[0]
        async with connect(url, v3.PROGRAM, options=options) as one, connect(url, v3.PROGRAM, options=options) as other:
            for client in (one, other):
                await client.call(v3.NULL, None)
            # The credits that a burst takes.
            await asyncio.gather(*(one.call(v3.NULL, None) for _ in range(BURST)))
            if slow:
                seconds = itertools.count(1)
            late: list[asyncio.Future[Any]] = []

            def ask() -> None:
                late.append(asyncio.ensure_future(other.call(v3.GETATTR, v3.GETATTR3args(HANDLE))))

            service.on_first = ask
            await asyncio.gather(*(one.call(v3.ACCESS, v3.ACCESS3args(HANDLE, 1)) for _ in range(BURST)))
            await asyncio.gather(*late)
    assert len(service.answered) == BURST + 1
    assert service.answered.count("getattr") == 1
    assert (service.answered.index("getattr") < BURST // 2) == slow


@each_case("slow", [True, False])
@jumping
async def test_octets_without_a_message_end_a_turn_as_well(slow: bool) -> None:
    """Such as tiny frames, and what is left on a connection that the peer has ended."""
    seconds: Iterator[int] = itertools.count(1) if slow else itertools.repeat(0)
    loop = asyncio.get_running_loop()
    loop.effects = Effects(clock=lambda: float(next(seconds)))  # type: ignore[attr-defined]
    octets, part = 8192, 256
    queue_pair = Mock(native=None, native_receiver=None, completions=(), events=(), timed=False, wants_close=False)
    queue_pair.next_buffers = lambda: [memoryview(bytearray(part))]
    queue_pair.next_gather = lambda _octets: []
    pair = local_tcp._pair(("127.0.0.1", 1), ("127.0.0.1", 2))
    driver = IwarpDriver(loop, pair[0], queue_pair, Mock(), Mock(), DeadlineTimer(loop), peer="peer")
    pair[1].send(bytes(octets))
    driver._readable()
    assert queue_pair.bytes_received.call_count == (2 if slow else octets // part)
    driver.close()
    pair[1].close()

    pair = local_tcp._pair(("127.0.0.1", 1), ("127.0.0.1", 2))
    lost = Mock()
    stream = RecordStream(
        pair[0],
        peer="peer",
        record_octets_max=octets,
        setting="",
        on_too_long=Mock(),
        on_record=Mock(),
        on_lost=lost,
        memory=ResultMemory(),
    )
    stream._receiver = Mock(next_buffers=queue_pair.next_buffers, too_long=(), expected_octets=0, mid_record=True)
    stream._receiver.next_record.return_value = None
    pair[1].send(bytes(octets))
    stream._on_hang_up()
    assert (stream._receiver.bytes_received.call_count == 1) == slow
    assert not lost.called
    stream.close()
    pair[1].close()
