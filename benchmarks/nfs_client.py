"""The client process of the benchmarks: NULL, GETATTR, READ and WRITE over one connection, by order (`orders`).

A READ or WRITE of more than 1 MiB, the most that the server moves in one call, is as many calls of 1 MiB at once: so
the file system of the client reads and writes a large file. The caller's memory begins with a page; that of a READ@16
begins 16 octets behind it, as large memory of the C library does, and a `bytearray` and a NumPy array with it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import mmap
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import nfs_servers
from event_loops import LOOPS, new_event_loop
from orders import Order, answer_orders

import rpcrdma
from rpcrdma.nfs import v3

AUTO = "auto"
BEFORE_READ = b"\xa5"
"""The octets of memory into which the first call reads."""


class NfsClient:
    """Calls to one server, whose exports have handles in the order of the places."""

    def __init__(self, url: str, version: str, handles: list[v3.nfs_fh3]) -> None:
        self._url = url
        self._handles = handles
        # Sources that are older than the option speak one version.
        self._options = None if version == AUTO else rpcrdma.ConnectOptions(rpcrdma_version=version)
        self._connection: rpcrdma.Connection
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> NfsClient:
        self._connection = await self._connected()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _connected(self) -> rpcrdma.Connection:
        return await self._stack.enter_async_context(rpcrdma.connect(self._url, v3.PROGRAM, options=self._options))

    async def connect(self, count: int) -> None:
        for _ in range(count):
            await (await self._connected()).call(v3.NULL, None)

    async def calls(self, order: Order) -> Callable[[int], Awaitable[object]]:
        connection = self._connection
        if order.call == "NULL":
            return lambda _: connection.call(v3.NULL, None)
        handle = self._handles[order.place]
        if order.call == "GETATTR":
            return lambda _: connection.call(v3.GETATTR, v3.GETATTR3args(handle))
        size = min(order.octets, nfs_servers.CALL_OCTETS)
        reads = order.call.startswith("READ")
        filling = BEFORE_READ if reads else nfs_servers.FILE_FILLING
        begin = int(order.call.partition("@")[2] or 0)
        # Not by a function of the library, as the client of another version may be measured.
        views = [
            memoryview(mmap.mmap(-1, begin + order.octets, mmap.MAP_PRIVATE))[begin:] for _ in range(order.in_flight)
        ]
        for view in views:
            view[:] = filling * order.octets
        parts = [[view[at : at + size] for at in range(0, order.octets, size)] for view in views]
        offsets = [slot * order.octets % nfs_servers.FILE_OCTETS for slot in range(order.in_flight)]

        def one(offset: int, part: memoryview) -> Awaitable[Any]:
            if reads:
                return connection.call(v3.READ, v3.READ3args(handle, offset, size), into=part)
            arguments = v3.WRITE3args(handle, offset, size, v3.stable_how.UNSTABLE, part)
            return connection.call(v3.WRITE, arguments)

        def call(slot: int) -> Awaitable[Any]:
            if len(parts[slot]) == 1:
                return one(offsets[slot], parts[slot][0])
            return asyncio.gather(*(one(offsets[slot] + at * size, part) for at, part in enumerate(parts[slot])))

        replies = await call(0)
        for reply in replies if isinstance(replies, list) else [replies]:
            assert reply.value.count == size, reply
        assert views[0] == nfs_servers.FILE_FILLING * order.octets, "a READ brings the file's octets"
        return call


class Nfs4Client:
    """GETATTR and READ of version 4 with a session on one server."""

    def __init__(self, url: str, version: str, paths: list[str]) -> None:
        self._options = None if version == AUTO else rpcrdma.ConnectOptions(rpcrdma_version=version)
        self._url = url
        self._paths = paths
        self._sessions: list[Any] = []
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Nfs4Client:
        # Not where earlier sources are measured, which lack version 4.
        from nfs4_session import Session  # noqa: PLC0415

        connection = await self._stack.enter_async_context(rpcrdma.connect(self._url, options=self._options))
        for path in self._paths:
            self._sessions.append(await Session(connection).start(path.encode(), f"{path}/data"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def connect(self, count: int) -> None:  # noqa: ARG002 - one signature for both versions
        raise ValueError("connections are counted with version 3")

    async def calls(self, order: Order) -> Callable[[int], Awaitable[object]]:
        session = self._sessions[order.place]
        if order.call in {"NULL", "GETATTR"}:
            return session.getattr
        assert order.call == "READ", order
        buffers = [bytearray(order.octets) for _ in range(order.in_flight)]
        await session.read(0, 0, buffers[0])
        assert buffers[0] == nfs_servers.FILE_FILLING * order.octets, "a READ brings the file's octets"
        return lambda slot: session.read(slot, slot * order.octets, buffers[slot])


def command(server: nfs_servers.ServerAddresses, url: str, loop: str, *options: str) -> list[str]:
    """The command of a client whose calls go to `url`, one of the server's."""
    exports = [f"/{name}" for name in nfs_servers.PLACES]
    return [sys.executable, __file__, url, server.tcp, *exports, "--loop", loop, *options]


async def run(url: str, tcp_url: str, version: str, exports: list[str], nfs: str) -> None:
    """Connects and answers orders."""
    if nfs == "4":
        async with Nfs4Client(url, version, exports) as client_4:
            await answer_orders(client_4)
        return
    handles = [await nfs_servers.file_handle(tcp_url, export) for export in exports]
    async with NfsClient(url, version, handles) as client:
        await answer_orders(client)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="where the calls go")
    parser.add_argument("tcp_url", help="where the exports are mounted")
    parser.add_argument("exports", nargs="+", help="their names, one for each place")
    parser.add_argument("--rpcrdma-version", default=AUTO)
    parser.add_argument("--nfs", choices=("3", "4"), default="3", help="the version of NFS")
    parser.add_argument("--loop", choices=LOOPS, default=LOOPS[-1])
    options = parser.parse_args()
    with new_event_loop(options.loop) as runner:
        runner.run(run(options.url, options.tcp_url, options.rpcrdma_version, options.exports, options.nfs))


if __name__ == "__main__":
    main()
