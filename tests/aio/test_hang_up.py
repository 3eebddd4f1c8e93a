"""Connections that are reset right behind data: their owners learn of it, with each event loop."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import select
import socket
import struct
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import uvloop

from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.client.connect import connect
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.hang_up import forget_hang_up, watch_hang_up
from rpcrdma.aio.drivers.software_rnic import TcpLink
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import ConnectFailed, TransportClosed
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.rpc.program import null_procedure
from rpcrdma.rpc.service import Service
from support.cases import each_case
from support.raw_iwarp import startup_frame
from support.waiting import until

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
LOOPS = each_case("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def run(loop_factory: LoopFactory, main: Any) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main)


def send_and_reset(sock: socket.socket, octets: bytes) -> None:
    """Both are there when the loop looks the next time."""
    sock.send(octets)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    sock.close()


class Counter(Service):
    from rpcrdma.nfs.v3 import PROGRAM


@pytest.mark.thorough
@LOOPS
@pytest.mark.providers("iwarp")
@pytest.mark.parametrize("octets", [b"", b"MPA", startup_frame("Req", 0x50, 2, bytes(4))])
def test_a_server_lets_go_of_a_client_that_resets(loop_factory: LoopFactory, scheme: str, octets: bytes) -> None:
    async def main() -> None:
        async with serve([Counter()], [f"{scheme}://127.0.0.1:0"], options=ServeOptions(drain_s=0)) as server:

            def connections() -> int:
                return getattr(server.statistics(), scheme).connections

            sock = socket.create_connection(("127.0.0.1", parse_url(server.listening[0]).port))
            await until(connections)
            send_and_reset(sock, octets)
            await until(lambda: not connections())

    run(loop_factory, main())


@pytest.mark.thorough
@LOOPS
@pytest.mark.parametrize("octets", [b"", b"\x80\x00\x01\x00abc"])
def test_a_call_over_tcp_ends_when_the_server_resets(loop_factory: LoopFactory, octets: bytes) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with await TcpConnection.connect(*listener.getsockname()) as caller:
                sock, _ = listener.accept()
                call = asyncio.ensure_future(caller.call(null_procedure(1, 1), None))
                await asyncio.sleep(0)
                sock.recv(100)
                send_and_reset(sock, octets)
                with pytest.raises(TransportClosed, match=r"reset by peer|closed the connection"):
                    await call

    run(loop_factory, main())


def test_nothing_is_left_when_nobody_watches() -> None:
    async def main() -> weakref.ref[Any]:
        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        heard = asyncio.Event()
        watch_hang_up(loop, near.fileno(), heard.set)
        far.send(b"data that nobody reads")
        other, gone = socket.socketpair()
        heard_other = asyncio.Event()
        watch_hang_up(loop, other.fileno(), heard_other.set)
        gone.close()
        await heard_other.wait()
        forget_hang_up(loop, other.fileno())
        other.close()
        assert not heard.is_set()
        far.close()
        await heard.wait()
        forget_hang_up(loop, near.fileno())
        forget_hang_up(loop, near.fileno())
        near.close()
        # Another socket gets the same number.
        near, far = socket.socketpair()
        heard.clear()
        watch_hang_up(loop, near.fileno(), heard.set)
        far.close()
        await heard.wait()
        forget_hang_up(loop, near.fileno())
        near.close()
        return weakref.ref(loop)

    loop = asyncio.run(main())
    gc.collect()
    assert loop() is None


def none_left() -> NoReturn:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def open_link(sock: socket.socket) -> object:
    timer = DeadlineTimer(asyncio.get_running_loop())
    return TcpLink(sock, IwarpConfig(), active=True).open(b"", timer, lambda: None, lambda: None)


def open_stream(sock: socket.socket) -> object:
    return TcpConnection(sock, active=True, results=BufferPool(), arguments=BufferPool())


@each_case(
    ("loop_factory", "open_connection"),
    [(each, opened) for each in (asyncio.new_event_loop, uvloop.new_event_loop) for opened in (open_link, open_stream)],
)
def test_without_a_descriptor_no_socket_stays_registered_whose_number_another_one_may_get(
    loop_factory: LoopFactory, open_connection: Callable[[socket.socket], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            monkeypatch.setattr(select, "epoll", none_left)
            with pytest.raises(OSError, match="Too many open files"):
                open_connection(near)
            assert not asyncio.get_running_loop().remove_reader(near.fileno())

    run(loop_factory, main())


@pytest.mark.providers("iwarp")
async def test_a_client_that_lacks_a_descriptor_says_so(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(select, "epoll", none_left)
        with pytest.raises(ConnectFailed, match="too many open files; raise the limit of open files"):
            await connect(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
