"""How long the end of the peer's stream is awaited when a connection over the software RNIC has ended."""

from __future__ import annotations

import asyncio
import secrets
import socket
from unittest.mock import Mock

import pytest

from jumping_sockets import now_s, run
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.iwarp_driver import IwarpDriver
from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.verbs import Disconnected, SoftwareProtectionDomain
from rpcrdma.wire.native import Native, native
from support.cases import each_case
from support.raw_iwarp import fpdu, startup_frame, tagged, untagged
from support.waiting import time_passes


async def taken() -> None:
    """Lets the loop read before its clock goes on."""
    for _ in range(3):
        await asyncio.sleep(0)


async def ended_after(far: socket.socket, near: socket.socket, chatter_s: float | None, last_s: float) -> float:
    """Seconds from the end of a connection until it is closed, where the peer sends an octet every `chatter_s`."""
    loop = asyncio.get_running_loop()
    closed: asyncio.Future[float] = loop.create_future()
    queue_pair = IwarpQueuePair(MpaRole.RESPONDER, SoftwareProtectionDomain(secrets.randbits), IwarpConfig(), 1460)
    near.setblocking(False)
    driver = IwarpDriver(
        loop, near, queue_pair, lambda: None, lambda: closed.set_result(now_s()), DeadlineTimer(loop), peer="peer"
    )
    far.send(startup_frame("Req", 0x50, 2, bytes(4)))
    while not queue_pair.events:  # noqa: ASYNC110 - the awaited state has no event
        await asyncio.sleep(0)
    queue_pair.accept(b"")
    driver.flush()
    begun_s = now_s()
    queue_pair.disconnect()
    driver.expect_end()
    driver.flush()
    while chatter_s is not None and now_s() - begun_s < last_s and not closed.done():
        far.send(b"\0")
        await taken()
        await time_passes(chatter_s)
    return await closed - begun_s


@each_case(("chatter_s", "last_s", "seconds"), [(None, 0.0, 0.5), (0.3, 1.0, 1.4), (0.3, 60.0, 2.0)])
def test_a_peer_that_leaves_its_end_open_is_awaited_while_it_sends_and_no_longer_than_it_may_take(
    chatter_s: float | None, last_s: float, seconds: float
) -> None:
    async def main() -> None:
        near, far = socket.socketpair()
        with near, far:
            assert await ended_after(far, near, chatter_s, last_s) == pytest.approx(seconds)

    run(main)


@each_case("receives", [None, native])
def test_a_fault_of_this_side_while_it_receives_ends_the_connection_and_is_logged(
    receives: Native | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        escaped = Mock()
        loop.set_exception_handler(escaped)
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            pd = SoftwareProtectionDomain(secrets.randbits)
            queue_pair = IwarpQueuePair(MpaRole.RESPONDER, pd, IwarpConfig(), 1460, native=receives)
            driver = IwarpDriver(loop, near, queue_pair, Mock(), Mock(), DeadlineTimer(loop), peer="peer")
            far.send(startup_frame("Req", 0x50, 2, bytes(4)))
            await taken()
            queue_pair.accept(b"")
            queue_pair.post_receives(1, Mock(octets=64, short_octets=0, draw=Mock(side_effect=MemoryError)))
            driver.flush()
            for frame in (tagged(0, 0, 0), untagged(3, 0, 1, b"x")):
                far.send(fpdu(frame))
                await taken()
            assert queue_pair.events[-1] == Disconnected(reason="there is no memory for a message", by_peer=False)
            driver.close()
        escaped.assert_not_called()

    run(main)
    assert "a fault in the connection with peer" in caplog.text


def test_a_peer_that_ends_its_stream_is_not_awaited() -> None:
    async def main() -> None:
        near, far = socket.socketpair()
        with near, far:

            async def end() -> None:
                await time_passes(0.1)
                far.shutdown(socket.SHUT_WR)
                await taken()

            ending = asyncio.ensure_future(end())
            assert await ended_after(far, near, None, 0.0) == pytest.approx(0.1)
            await ending

    run(main)
