"""TCP without a network: the sockets of a connection are a local pair, with the addresses of a TCP connection.

Octets of a local socket are there as soon as they were sent, so that clients and servers, and peers made of octets,
run on a clock that jumps.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from jumping_sockets import JumpingLoop
from rpcrdma.aio.connections import tcp_connection
from rpcrdma.aio.drivers import software_rnic
from rpcrdma.aio.drivers.listener import Listener
from rpcrdma.aio.drivers.provider import Listening
from rpcrdma.aio.drivers.sockets import cannot_connect, tune
from support.loops import decorator_of

__all__ = ["LocalSocket", "dial", "local_tcp", "received_until_closed", "run", "with_threads", "without_network"]

T = TypeVar("T")

_LISTENING: dict[int, Listener] = {}
_PORTS = itertools.count(49152)


class LocalSocket(socket.socket):
    """An end of a local pair. Options of TCP have no effect."""

    own = peer = ("", 0)

    def getsockname(self) -> tuple[str, int]:
        return self.own

    def getpeername(self) -> tuple[str, int]:
        return self.peer

    def setsockopt(self, level: int, *option: Any) -> None:
        if level != socket.IPPROTO_TCP:
            super().setsockopt(level, *option)


def _pair(near: tuple[str, int], far: tuple[str, int]) -> tuple[LocalSocket, LocalSocket]:
    ends = [LocalSocket(fileno=end.detach()) for end in socket.socketpair()]
    ends[0].own = ends[1].peer = near
    ends[0].peer = ends[1].own = far
    for end in ends:
        tune(end)
        # Those of the system may hold whole replies, which nobody has to read then.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    return ends[0], ends[1]


async def dial(host: str, port: int, *, source: str = "127.0.0.1", reserved_port: bool = False) -> LocalSocket:
    """The end of a client: it takes the place of `connected_socket`."""
    assert not reserved_port
    near, far = _pair((source, next(_PORTS)), (host, port))
    listener = _LISTENING.get(port)
    if listener is None:
        near.close()
        far.close()
        raise cannot_connect(host, port, OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)))
    listener._on_connection(far)
    await asyncio.sleep(0)
    return near


async def _listen(self: Listener, host: str, port: int) -> list[Listening]:
    port = port or next(_PORTS)
    if port in _LISTENING:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    _LISTENING[port] = self
    return [Listening(host, port)]


def _close(self: Listener) -> None:
    for port in [port for port, listener in _LISTENING.items() if listener is self]:
        del _LISTENING[port]


@contextmanager
def local_tcp() -> Iterator[None]:
    """Has clients and servers of this process connect by local sockets."""
    _LISTENING.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Listener, "listen", _listen)
        patch.setattr(Listener, "close", _close)
        addresses = property(lambda self: [("127.0.0.1", port) for port, each in _LISTENING.items() if each is self])
        patch.setattr(Listener, "addresses", addresses)
        for module in (tcp_connection, software_rnic):
            patch.setattr(module, "connected_socket", dial)
        yield


def run(main: Coroutine[Any, Any, T], loop: Callable[[], asyncio.AbstractEventLoop] = JumpingLoop) -> T:
    """As `asyncio.run`, with local sockets, and on a clock that jumps unless another loop is given."""
    with local_tcp(), asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main)


async def received_until_closed(sock: socket.socket) -> bytes:
    """All that the peer sends until it ends the connection."""
    data = b""
    try:
        while octets := await asyncio.get_running_loop().sock_recv(sock, 65536):
            data += octets
    except ConnectionResetError:
        pass
    return data


without_network = decorator_of(lambda main: run(main()))
"""Of a test whose TCP connections are local, on a clock that jumps."""
with_threads = decorator_of(lambda main: run(main(), asyncio.new_event_loop))
"""Of a test whose TCP connections are local, with threads and real time."""
