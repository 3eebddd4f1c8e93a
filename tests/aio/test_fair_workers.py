"""Calls that take worker threads, from real connections and processes: who else wants one does not wait for them."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import v3
from rpcrdma.nfs.client import NfsFilesystem, nfs_open
from rpcrdma.rpc.service import CallContext, in_worker
from support.raw_calls import file_handle, record, rpc
from support.raw_socket import RawSocketPeer
from support.waiting import until

pytestmark = pytest.mark.thorough

MISBEHAVING = Path(__file__).parents[1] / "soak" / "misbehaving.py"
FLOODING = 40
"""Connections with 128 calls each: in the order of their arrival 5,120 would come first."""


class Slow(v3.NFS_V3_Service):
    """ACCESS takes a thread until `gate` opens, READLINK takes one for a moment."""

    IDEMPOTENT = frozenset({v3.ACCESS.number, v3.READLINK.number})

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.running = 0

    @in_worker
    def access(self, args: v3.ACCESS3args, context: CallContext) -> v3.ACCESS3res:
        self.running += 1
        self.gate.wait()
        return v3.ACCESS3res(v3.nfsstat3.NFS3ERR_NOTSUPP, v3.ACCESS3resfail(v3.post_op_attr(False, None)))

    @in_worker
    def readlink(self, args: v3.READLINK3args, context: CallContext) -> v3.READLINK3res:
        return v3.READLINK3res(v3.nfsstat3.NFS3ERR_NOTSUPP, v3.READLINK3resfail(v3.post_op_attr(False, None)))


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"], ids=["same address", "other address"])
@pytest.mark.parametrize("connections", [1, 10])
def test_calls_that_never_end_on_some_connections_leave_a_thread_to_another(connections: int, source: str) -> None:
    """Ten connections of one address take all that connections may have: one is left to other addresses alone."""

    async def main() -> None:
        slow = Slow()
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(
                serve([slow], ["tcp://127.0.0.1:0"], options=ServeOptions(drain_s=10))
            )
            stack.callback(slow.gate.set)
            port = parse_url(server.listening[0]).port
            for _ in range(connections):
                peer = await RawSocketPeer.connected("127.0.0.1", port, source=source)
                stack.callback(peer.close)
                await peer.send(record(rpc(4, file_handle() + bytes(4))) * 128)
            most = 6 if connections == 1 else 7
            await until(lambda: slow.running == most and server.statistics().tcp.calls == 128 * connections)
            other = await RawSocketPeer.connected("127.0.0.1", port)
            stack.callback(other.close)
            await other.send(record(rpc(5, file_handle())))
            if source == "127.0.0.1" and connections > 1:
                slow.gate.set()
            assert await other.receive(4)
            assert slow.gate.is_set() or slow.running == most

    asyncio.run(main())


@asynccontextmanager
async def served(top: Path, state: Path) -> AsyncIterator[int]:
    """`rpcrdma serve` as a process of its own; its port."""
    command = [sys.executable, "-m", "rpcrdma", "serve", "--json", "--no-root-squash", "--listen", "tcp://127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(
        *command, "--state-dir", str(state), str(top), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        event = json.loads(await process.stdout.readline())
        reading = asyncio.create_task(process.stdout.read())
        yield parse_url(event["url"]).port
    finally:
        # Calls of the flood that have begun would be carried out before an orderly end.
        process.kill()
        await process.wait()
    await reading


async def waiting_s(fs: NfsFilesystem, name: str) -> float:
    """How long a MKDIR takes, the middle of nine."""
    took_s = []
    for number in range(9):
        begun_s = time.perf_counter()
        await fs.mkdir(f"{name}{number}")
        took_s.append(time.perf_counter() - begun_s)
    return statistics.median(took_s)


def test_a_mkdir_waits_little_longer_while_40_connections_have_128_creates_in_flight_each(tmp_path: Path) -> None:
    top = tmp_path / "export"
    (top / "flood").mkdir(parents=True)

    async def main() -> None:
        async with (
            served(top, tmp_path / "state") as port,
            nfs_open(f"tcp://127.0.0.1:{port}/", mount_port=port) as fs,
        ):
            handle, _ = await fs.handle_of("flood")
            alone_s = await waiting_s(fs, "alone")
            flood = await asyncio.create_subprocess_exec(
                *(sys.executable, MISBEHAVING, "flood", str(port), handle.hex()),
                *("--connections", str(FLOODING)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            try:
                assert flood.stdin is not None
                assert flood.stdout is not None
                assert await flood.stdout.readline() == b"ready\n"
                under_load_s = await waiting_s(fs, "loaded")
                flood.stdin.close()
                again, replies, _ = map(int, (await flood.stdout.read()).split())
                await flood.wait()
            finally:
                if flood.returncode is None:
                    flood.kill()
                    await flood.wait()
            # The server went on serving the flood, which never broke off.
            assert again == 0
            assert replies > 0
            # Two milliseconds at least, lest an idle machine make the ratio large.
            assert under_load_s / max(alone_s, 0.002) < 100

    asyncio.run(main())
