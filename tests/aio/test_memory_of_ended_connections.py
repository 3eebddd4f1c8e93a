"""Memory of connections that ended in the middle of a message: the connection drops it, not the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from client_calls import MIB
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.aio.server.tcp_server import TcpServer
from rpcrdma.limits import RPC_UNCOUNTED_CALL_OCTETS
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.record import LAST_FRAGMENT, RecordReceiver
from support import raw_messages
from support.raw_calls import send
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough

UNFINISHED = (LAST_FRAGMENT | MIB).to_bytes(4, "big") + bytes(1_000_000)


@contextmanager
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def present(kind: type) -> int:
    return sum(type(each) is kind for each in gc.get_objects())


async def test_an_ended_tcp_connection_leaves_nothing_to_the_garbage_collector() -> None:
    loop = asyncio.get_running_loop()
    with no_collection():
        async with TcpServer(Dispatcher([])) as server:
            await server.listen()
            before = present(RecordStream), present(RecordReceiver)
            for _ in range(3):
                with socket.socket() as sock:
                    sock.setblocking(False)
                    await loop.sock_connect(sock, ("127.0.0.1", server.port))
                    await loop.sock_sendall(sock, UNFINISHED[:100_000])
                    await until(lambda: any(each.calls_taken.memory.expected for each in server.connections))
                await until(lambda: not server.connections)
            await asyncio.sleep(0)
            assert (present(RecordStream), present(RecordReceiver)) == before


class Served:
    """`rpcrdma serve` in a process of its own, over TCP and RDMA, with its metrics."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process.pid
        urls = [process.stdout.readline().split()[2] for _ in range(2)]
        self.tcp_port, self.rdma_port = (int(url.rpartition(":")[2]) for url in urls)
        self.metrics = process.stdout.readline().split()[-1]

    @property
    def resident_octets(self) -> int:
        status = Path(f"/proc/{self._process}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) << 10

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(self.metrics, timeout=60) as answer:
            page: str = answer.read().decode()
        return next(float(line.split()[-1]) for line in page.splitlines() if line.startswith(f"{name} "))


@contextmanager
def serving(root: Path, scheme: str) -> Iterator[Served]:
    (root / "export").mkdir()
    command = [sys.executable, "-m", "rpcrdma", "serve", "--state-dir", str(root / "state"), "--stop-at-eof"]
    command += ["--listen", "tcp://127.0.0.1:0", "--listen", "rdma://127.0.0.1:0"]
    command += ["--metrics", "127.0.0.1:0", str(root / "export")]
    # Pieces of messages over RDMA lie in the heap of the C library, in which holes stay (docs/serving.md). These have
    # memory of their own.
    apart = {"MALLOC_MMAP_THRESHOLD_": "65536"} if scheme == "rdma" else {}
    settings: dict[str, Any] = {"env": os.environ | apart, "text": True}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, **settings) as process:
        try:
            yield Served(process)
        finally:
            process.kill()


async def until_seen(condition: Callable[[], bool]) -> None:
    """The condition asks a server and blocks."""
    while not await asyncio.to_thread(condition):
        pass


async def begin_tcp(peer: RawSocketPeer) -> None:
    await peer.send(UNFINISHED)


async def begin_rdma(peer: RawSocketPeer) -> None:
    """Sends a message of version 2 in pieces, without the last one."""
    await peer.start()
    await peer.send_segments(send(raw_messages.properties(give=64)))
    await peer.segment()
    piece = raw_messages.message(7, UNFINISHED[: len(UNFINISHED) // 32], raw_messages.MORE)
    await peer.send_segments(*(send(piece, number) for number in range(2, 34)))


async def use(served: Served, scheme: str, connections: int) -> int:
    """Leaves unfinished messages on so many connections; the resident memory when all of them have ended."""
    begin, port = (begin_tcp, served.tcp_port) if scheme == "tcp" else (begin_rdma, served.rdma_port)
    # All connections of one address get a part of the memory for arguments: half over TCP, a fifth over RDMA.
    read = min(connections, 100 if scheme == "tcp" else 40)
    with ExitStack() as stack:
        peers = [await RawSocketPeer.connected("127.0.0.1", port) for _ in range(connections)]
        for peer in peers:
            stack.callback(peer.close)
        tasks = [asyncio.create_task(begin(peer)) for peer in peers]
        await until_seen(lambda: sum(task.done() for task in tasks) >= read)
        held = read * (len(UNFINISHED) - RPC_UNCOUNTED_CALL_OCTETS)
        await until_seen(lambda: served.metric("rpcrdma_buffer_bytes") >= held)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    name = f'rpcrdma_connections{{transport="{scheme}"}}'
    await until_seen(lambda: not served.metric(name))
    return served.resident_octets


@pytest.mark.parametrize(
    ("scheme", "rounds", "connections"),
    [("tcp", 3, 60), ("rdma", 3, 60), pytest.param("tcp", 9, 230, marks=[pytest.mark.scale, pytest.mark.timeout(300)])],
)
def test_memory_does_not_grow_with_the_connections_that_have_ended(
    scheme: str, rounds: int, connections: int, tmp_path: Path
) -> None:
    with serving(tmp_path, scheme) as served:
        after = [asyncio.run(use(served, scheme, connections)) for _ in range(rounds)]
    # Queue pairs and endpoints refer to each other: these small objects wait for the garbage collector, the messages do
    # not. One round holds 40 MB of messages.
    growth = after[0] // 10 if scheme == "tcp" else 20 * MIB
    assert after[-1] < after[0] + growth, [octets >> 20 for octets in after]
