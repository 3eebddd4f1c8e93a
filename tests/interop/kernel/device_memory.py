"""Runs in a guest: the memory of calls over an RDMA device.

`use URL MOUNTPORT VERSION` reads and writes in the export, and checks the counters of the client. `attack ADDRESS` uses
handles of calls that have ended. `invalidated LOG` looks for remote invalidations in the events of `rpcrdma serve
--json`. `measure ADDRESS` prints costs as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import rpcrdma
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.nfs import v3
from rpcrdma.verbs.device_registrations import KeptRegistrations
from rpcrdma.wire.bulk_memory import PooledMemory
from support.late_accesses import ATTACKS, Files, late_access

__all__: list[str] = []

OCTETS = 1 << 20
PIECE_OCTETS = 1 << 16
FILE_OCTETS = 64 << 20
TURNS = 8
CALLS = {4096: 48, OCTETS: 16}
"""Calls of one measured turn, by their size."""


async def use(url: str, mount_port: str, version: str) -> None:
    """Writes and reads a file in memory of the client's own, which it uses again and again."""
    piece = bytes(range(256)) * (PIECE_OCTETS // 256)
    options = rpcrdma.ConnectOptions(provider="verbs", rpcrdma_version=version)
    async with rpcrdma.nfs_open(url, options=options, mount_port=int(mount_port)) as fs:
        async with await fs.open("memory", "wb") as file:
            for _ in range(FILE_OCTETS // PIECE_OCTETS):
                await file.write(piece)
        async with await fs.open("memory", "rb") as file:
            octets = 0
            async for view in file.views():
                assert view[:256] == piece[:256]
                octets += len(view)
        assert octets == FILE_OCTETS
        counters = fs.connection.statistics
    print(counters)
    assert counters.remote_invalidations >= FILE_OCTETS // OCTETS, "replies ended no memory"
    assert counters.registrations_reused > counters.device_registrations, "memory was registered for each call"


async def attack(address: str) -> None:
    """Each connection breaks, and no memory changes."""
    provider = VerbsProvider()
    for call, target, verb, windows in ATTACKS:
        await late_access(provider, address, call, target, verb, windows=windows)
        print(f"ok     {call.__name__} {target} {verb} {'windows' if windows else 'regions'}", flush=True)


def invalidated(log: str) -> None:
    """The server's replies have ended memory of a client that allows it."""
    events = [json.loads(line) for line in Path(log).read_text().splitlines() if line.startswith("{")]
    agreed = [event["remote_invalidation"] for event in events if event["event"] == "connected" and "crc" in event]
    counts = [event["statistics"] for event in events if event["event"] == "disconnected" and "statistics" in event]
    print(agreed, counts)
    assert agreed
    assert all(agreed), "the client does not allow it"
    assert all(each["remote_invalidations"] for each in counts), "no reply has ended memory"
    assert any(each["registrations_reused"] > each["device_registrations"] for each in counts), "nothing was kept"


async def measure(address: str) -> None:
    """Calls of each kind by turns, each end in this process; prints a list of rows."""
    rows: list[dict[str, Any]] = []
    for turn in range(TURNS):
        for memory in ("registered for each call", "windows", "windows and kept registrations"):
            with ExitStack() as patches:
                if memory == "registered for each call":
                    for module in ("aio.drivers.verbs_provider", "verbs.device_memory"):
                        patches.enter_context(patch(f"rpcrdma.{module}.has_windows", lambda _device: False))
                rows += [row | {"turn": turn, "memory": memory} for row in await _turn(address, "kept" in memory)]
    print(json.dumps(rows))


async def _turn(address: str, kept: bool) -> list[dict[str, Any]]:
    provider = VerbsProvider()
    provider.manager().registrations = KeptRegistrations() if kept else KeptRegistrations(count_max=0)
    options = rpcrdma.ConnectOptions(provider=provider, rpcrdma_version=1)
    serving = rpcrdma.ServeOptions(rdma=RdmaServerConfig(provider=provider))
    rows = []
    async with (
        rpcrdma.serve([Files()], [f"rdma://{address}:0"], options=serving) as server,
        rpcrdma.connect(server.listening[0], v3.PROGRAM, options=options) as client,
    ):
        await client.call(v3.NULL, None)
        (far,) = server.connections
        for name, octets, at_once in (
            (name, octets, at_once) for name in ("READ", "WRITE") for octets in CALLS for at_once in (1, 16)
        ):
            sources = [PooledMemory(octets) for _ in range(at_once)]

            async def run(count: int, source: PooledMemory, name: str = name, octets: int = octets) -> None:
                for _ in range(count):
                    if name == "READ":
                        await client.call(v3.READ, v3.READ3args(v3.nfs_fh3(b""), 0, octets))
                    else:
                        data = memoryview(source)
                        stable = v3.stable_how.FILE_SYNC
                        await client.call(v3.WRITE, v3.WRITE3args(v3.nfs_fh3(b""), 0, octets, stable, data))

            await asyncio.gather(*(run(2, source) for source in sources))
            calls = CALLS[octets] // at_once * at_once
            before = client.statistics, far.statistics.device_registrations
            reused = before[0].registrations_reused + far.statistics.registrations_reused
            began, began_cpu = time.monotonic(), time.process_time()
            await asyncio.gather(*(run(calls // at_once, source) for source in sources))
            cpu, wall = time.process_time() - began_cpu, time.monotonic() - began
            after = client.statistics
            made = after.device_registrations - before[0].device_registrations
            made += far.statistics.device_registrations - before[1]
            reused = after.registrations_reused + far.statistics.registrations_reused - reused
            rows.append(
                {
                    "call": name,
                    "octets": octets,
                    "at_once": at_once,
                    "calls": calls,
                    "cpu_us": cpu / calls * 1e6,
                    "wall_us": wall / calls * 1e6,
                    "registrations": made / calls,
                    "reused": reused / max(1, made + reused),
                    "invalidated": (after.remote_invalidations - before[0].remote_invalidations) / calls,
                }
            )
    return rows


if __name__ == "__main__":
    chosen, *arguments = sys.argv[1:]
    if chosen == "invalidated":
        invalidated(*arguments)
    else:
        asyncio.run({"use": use, "attack": attack, "measure": measure}[chosen](*arguments))
