"""A relay between a client and a server that lets every octet take a given time, in either direction.

It runs in a process of its own, so that its work does not count for the measured processes. TCP connections are
relayed octet for octet: RDMA over the software RNIC as well as RPC over TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection

__all__ = ["delayed"]

_BLOCK_OCTETS = 1 << 18
_HELD_BLOCKS_MAX = 4096
"""Of one direction: more than any link has under way at the delays that are measured."""


@contextlib.contextmanager
def delayed(host: str, port: int, one_way_s: float) -> Iterator[int]:
    """The port of a relay to `host` and `port` that delays by `one_way_s`; it ends with the context."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_main, args=(host, port, one_way_s, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(30):
            raise RuntimeError("the relay did not start within 30 s")
        yield int(ours.recv())
    finally:
        process.terminate()
        process.join()


def _main(host: str, port: int, one_way_s: float, started: Connection) -> None:
    asyncio.run(_relay(host, port, one_way_s, started))


async def _relay(host: str, port: int, one_way_s: float, started: Connection) -> None:
    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, port)
        for end in (writer, far_writer):
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.gather(_carry(reader, far_writer, one_way_s), _carry(far_reader, writer, one_way_s))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, limit=_BLOCK_OCTETS)
    started.send(server.sockets[0].getsockname()[1])
    async with server:
        await server.serve_forever()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, one_way_s: float) -> None:
    """One direction: forwards received octets when their time has passed."""
    loop = asyncio.get_running_loop()
    held: deque[tuple[float, bytes]] = deque()
    arrived = asyncio.Event()

    async def forward() -> None:
        while True:
            while not held:
                arrived.clear()
                await arrived.wait()
            due_s, block = held.popleft()
            wait_s = due_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            if not block:
                break
            writer.write(block)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()

    sender = asyncio.create_task(forward())
    with contextlib.suppress(OSError):
        while block := await reader.read(_BLOCK_OCTETS):
            assert len(held) < _HELD_BLOCKS_MAX
            held.append((loop.time() + one_way_s, block))
            arrived.set()
    held.append((loop.time() + one_way_s, b""))
    arrived.set()
    with contextlib.suppress(OSError):
        await sender
