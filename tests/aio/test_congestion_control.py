"""The congestion control of connections: that of the system, unless both ends have one address."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.listener import Listener
from rpcrdma.aio.drivers.sockets import connected_socket, tune

pytestmark = pytest.mark.thorough


def congestion_control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


async def test_neither_end_of_a_connection_within_one_host_paces_its_segments() -> None:
    accepted: asyncio.Queue[socket.socket] = asyncio.Queue()
    listener = Listener(accepted.put_nowait, LimitedLog(logging.getLogger("rpcrdma")))
    ((host, port, _),) = await listener.listen("127.0.0.1", 0)
    with await connected_socket(host, port) as own, await accepted.get() as peer:
        listener.close()
        assert congestion_control(own) == congestion_control(peer) == b"reno"


def test_a_connection_to_another_address_keeps_the_congestion_control_of_the_system() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname(), source_address=("127.0.0.2", 0)) as sock,
    ):
        before = congestion_control(sock)
        tune(sock)
        assert congestion_control(sock) == before
